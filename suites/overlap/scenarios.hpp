// The scenarios of the overlap suite. clauses.md gives the source of the numbers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/scenario/builder.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::overlap {

using namespace std::chrono_literals;

Module linear(std::string name, std::int64_t in, std::int64_t out);
/// A convolution whose weight is [out, channels, in / channels].
Module convolution(std::string name, std::int64_t channels, std::int64_t in, std::int64_t out);
Module relu(std::string name);

/// The seed test of the stack and of much of the suite.
inline constexpr char training_overlap_test[] = "test_fully_shard_overlap.py::test_fully_shard_training_overlap";

/// The stack of the seed test, for three iterations.
SleepingStack seed_stack();

/// The same stack. A world of one rank has a simulated second rank, so that it communicates, too.
SleepingStack seed_stack_of(Rank& rank);

struct PostOptim {
  std::chrono::nanoseconds sleep_forward = 25ms, sleep_backward = 50ms, all_gather = 10ms;
  int iterations = 5;  ///< as in the seed test
  bool event = true;
};

/// A sleeping layer that is not sharded, then a small sharded one that is not resharded; AdamW. Reduce-scatters cost
/// nothing.
Scenario post_optim(const PostOptim& how);

/// Two linear layers with bias and a ReLU between them, uneven for most worlds. Values are integers and inputs are
/// one-hot. At a rate of 0.25 three steps of SGD are exact, except if a mean divides by three. Each step may have up to
/// three micro-batches.
Scenario small_mlp(Optimizer optimizer, bool reshard_after_forward, int iterations);

/// Three blocks of two linear layers, for three iterations. PyTorch's traces were recorded with this model.
Scenario traced_blocks(ReshardAfterForward reshard, bool post_optim_event);

/// `small_mlp` for three iterations of SGD, with calls before each forward and between it and its backward.
Scenario three_iterations(const std::vector<Action>& before, const std::vector<Action>& between, bool reshard);

/// A transformer of one block over 16 tokens, whose head shares the embedding's weight. It is one group of the root, or
/// the block's two halves have their own groups.
Scenario language_model(bool wrap_blocks);

}  // namespace shardproof::overlap
