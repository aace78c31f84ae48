// The twins: a model with two ways of equal size, and scripts in which each rank takes one of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/world/rank.hpp"
#include "suites/checks/flat_shard.hpp"

namespace shardproof::exec_order {

inline constexpr const char* first_way = "way.first";
inline constexpr const char* second_way = "way.second";

/// The ways of a world: the first way on all ranks, the second way on all ranks except rank 0, or the second way on all
/// ranks.
enum class Way { first, others_second, all_second };

/// Builds a scenario with the twins. Each call adds iterations to the script, or changes the model or the plan.
class Twins {
 public:
  /// The plan validates the order by default.
  explicit Twins(Rank& rank, ShardStrategy strategy = ShardStrategy::full_shard, bool use_orig_params = false);

  Twins& validate(bool on);
  Twins& enforce_tags();
  /// Iterations of forward, backward, step, capture and zero_grad.
  Twins& train(Way way, int iterations = 1);
  /// The same with two forwards before the backward. The first forward takes the first way.
  Twins& train_on_two(Way second_forward, int iterations = 1);
  /// Iterations of one forward without a backward.
  Twins& evaluate(Way way, int iterations = 1);
  /// One iteration of a forward alone.
  Twins& forward(Way way);
  /// One iteration in which the last rank makes no call.
  Twins& train_without_last_rank();
  /// The second way runs the first twin and then the second one.
  Twins& second_way_is_longer();
  /// The first twin runs twice in each forward.
  Twins& first_way_runs_twice();
  /// Freezes both twins, and makes the module that holds them the root of the plan. So no unit has the first layer.
  Twins& way_is_frozen();
  /// Puts a forward that fails into iterations, before their call number `at`. `segment` counts the calls that added
  /// iterations.
  Twins& fail_in(std::size_t segment, std::size_t at, const Action& failing);

  operator const Scenario&() const { return scenario_; }

 private:
  std::vector<Action> forwards(ActionKind kind, Way way) const;
  void train_on(std::vector<Action> forwards, int iterations);

  Scenario scenario_;
  int ranks_;
};

using suites::strategy;

/// Whether this rank takes the second way in `Way::others_second`.
inline bool deviates(Rank& rank) { return rank.index() != 0; }

}  // namespace shardproof::exec_order
