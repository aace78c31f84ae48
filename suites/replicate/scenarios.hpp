// The scenarios of the replicate suite: networks of linear layers, and checks of the buckets in which an engine reduces
// their gradients.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "fixtures/oracles/buckets.hpp"
#include "harness/player/run.hpp"
#include "harness/scenario/plan/replicate.hpp"
#include "harness/shardproof.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/own_gradients.hpp"
#include "suites/checks/replicate.hpp"

namespace shardproof::replicate {

inline constexpr int iterations = 4;

/// One forward, backward, step and zero_grad, with captures before and after the step.
std::vector<Action> training();
/// Forward, backward, capture and zero_grad. No step moves the parameters, so all values of a deep network are exact.
std::vector<Action> gradients_only();
Action sync(bool on);
/// One iteration of the segment without sync, and sync on again after it.
Script::Segment without_sync(Script::Segment segment);
/// Appends an iteration of `training` with a rate of 1/2. So parameters move once, and values of a deep network stay
/// exact.
Scenario with_last_step(Scenario scenario);

/// The tolerance of an engine that divides each rank's gradient before the sum: values are exact if the number of ranks
/// is a power of two.
suites::Tolerance exact_unless_division_rounds(Rank& rank);

/// Layers of 4, 6 and 3 features with a ReLU between them, on small integers, so three steps are exact. With `many`,
/// the plan's limits make three buckets of the four parameters. Otherwise all are in one bucket.
Scenario exact_net(bool many, std::vector<Action> body);

/// The four layers of the seed, `fc1` to `fc4`, of `width` features each, without activation. Iterations of
/// `gradients_only`.
Scenario four_layers(std::int64_t width);

/// A number from `least` to `most`, both included.
std::int64_t pick(std::mt19937_64& random, std::int64_t least, std::int64_t most);
/// Two to five linear layers of one to six features, some without bias. Iterations of `gradients_only`.
Scenario random_layers(std::mt19937_64& random);
/// Draws the limits of buckets. `ready` has the parameters in the order in which gradients become ready. With `exact`,
/// a limit is the size of consecutive gradients, or one byte more. So the first two buckets reach their limits exactly,
/// or just miss them. With several dtypes, this holds for the first one.
void draw_limits(Scenario& scenario, const std::vector<std::string>& ready, bool exact, std::mt19937_64& random);

/// Layers that sleep, one after the other.
struct SleepingLayer {
  Nanoseconds forward = 0, backward = 0;
};
/// Layers `0`, `1`, … of 4 features. Each all-reduce takes `all_reduce`. Iterations of forward, backward and zero_grad.
Scenario sleeping_layers(const std::vector<SleepingLayer>& layers, Nanoseconds all_reduce);

/// The all-reduces of buckets in an iteration, in the order in which the host issued them.
std::vector<fact::Collective> bucket_calls(const Iteration& iteration);
/// The collectives in one backward of an iteration, from 1, without agreements.
std::vector<fact::Collective> calls_in_backward(const Iteration& iteration, int backward);
/// The collectives between the backward before it, or the beginning of the iteration, and this backward.
std::vector<fact::Collective> calls_before_backward(const Iteration& iteration, int backward);

/// Fails unless two runs have the same losses, parameters and gradients at every capture, bit by bit.
void check_equal(const Rank& rank, const Run& run, const Run& other);

/// Fails if there is memory for shards, gathered parameters, or any other class that copies do not need for plain SGD.
void check_memory_classes(const Rank& rank, const Run& run);

/// Fails unless each iteration reduces each trainable element once, in the dtype of its parameter, and otherwise only
/// communicates agreements. Each iteration must have one backward with sync.
void check_reduced_once(Rank& rank, const Run& run);

/// Fails unless each iteration reduces the buckets of the closed form, by their bytes and dtypes, and in order. Buckets
/// that did not reach their limit may have any order.
void check_bucket_sizes(Rank& rank, const Run& run);

/// Fails unless each all-reduce gets the rank's gradients, divided by the number of ranks, in the order of the bucket.
/// The script must keep tensors, and must not move parameters.
void check_bucket_members(Rank& rank, const Run& run);

/// Removes from `left` the parameters whose gradients are in `flat`, in any order. Fails if `flat` has other values.
void take_parameters(const Tensor& flat, std::vector<suites::NamedGradient>& left);

}  // namespace shardproof::replicate
