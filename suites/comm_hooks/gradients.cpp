#include "suites/comm_hooks/gradients.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "harness/subject/subject.hpp"
#include "suites/checks/clauses.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/sum_over_ranks.hpp"

namespace shardproof::comm_hooks {

Division division(int ranks) {
  Division steps;
  while (ranks % static_cast<int>(steps.before) == 0 && ranks / steps.before > steps.before) steps.before *= 2;
  steps.after = ranks / steps.before;
  return steps;
}

void check_gradients(Rank& rank, const Run& run, const Combine& combine, const std::string& path) {
  const auto judged = suites::judging(rank, suites::Finding::values);
  REQUIRE(run.captures().size() == static_cast<std::size_t>(iterations));
  suites::check_gradients(rank, run, combine, path);
}

std::vector<const Callback*> hook_calls(const Run& run, int iteration) {
  return run.callbacks({.kind = CallbackKind::gradient_hook, .iteration = iteration + 1});
}

std::uint64_t state_of(const Callback& call) { return std::get<GradientHookCall>(call.detail).state; }

void check_sound_iterations(Rank& rank, const Run& run) {
  suites::check_no_race(rank, run);
  suites::check_same_order(rank, run);
  for (int iteration = 0; iteration < iterations; ++iteration) suites::check_nothing_is_left(rank, run, iteration + 1);
}

void check_all_elements(Rank& rank, const Run& run) {
  const auto judged = suites::judging(rank, suites::Finding::values);
  REQUIRE_FALSE(run.captures().empty());
  std::int64_t mine = 0, whole = 0;
  for (const CapturedParameter& held : run.captures().front().parameters) {
    mine += held.shard.numel();
    whole += numel(held.shape);
  }
  const auto* const flat = run.scenario().plan.engine.as<FlatShardPlan>();
  const bool keeps_all = flat != nullptr && flat->strategy == ShardStrategy::no_shard;
  CHECK(suites::sum_over_ranks(rank, mine) == whole * (keeps_all ? rank.world().size() : 1));
}

}  // namespace shardproof::comm_hooks
