// A builder of scenarios for tests: `sleeping_stack(3).forward(25ms).backward(50ms).collectives(10ms)`.
#pragma once

#include <chrono>
#include <vector>

#include "harness/scenario/scenario.hpp"

namespace shardproof {

/// A stack of square linear layers without bias. Each is followed by a ReLU in its own block ("0", "1", …). Every block
/// and the root are wrapped. The default script is one iteration of forward and backward of a [2, 4] input, with the
/// loss sum.
class SleepingStack {
 public:
  explicit SleepingStack(int layers, int width = 4);

  SleepingStack& forward(std::chrono::nanoseconds each);
  SleepingStack& backward(std::chrono::nanoseconds each);
  SleepingStack& forward(const std::vector<std::chrono::nanoseconds>& per_layer);
  SleepingStack& backward(const std::vector<std::chrono::nanoseconds>& per_layer);
  SleepingStack& collectives(std::chrono::nanoseconds each);
  SleepingStack& all_gather(std::chrono::nanoseconds each);
  SleepingStack& reduce_scatter(std::chrono::nanoseconds each);
  SleepingStack& copy_in(std::chrono::nanoseconds each);
  SleepingStack& reshard_after_forward(bool reshard);
  /// By lists, this many layers ahead. Replaces the plan's policy.
  SleepingStack& prefetch(int forward, int backward);
  SleepingStack& serial();  ///< all work on the compute stream
  SleepingStack& imagined_ranks(int ranks);  ///< on one rank: its collectives have the costs of this many ranks
  SleepingStack& iterations(int count);  ///< of forward and backward
  SleepingStack& train(int iterations, Optimizer optimizer);  ///< forward, backward, step, capture, zero_grad
  operator Scenario() const { return scenario_; }

 private:
  Scenario scenario_;
};

SleepingStack sleeping_stack(int layers);

}  // namespace shardproof
