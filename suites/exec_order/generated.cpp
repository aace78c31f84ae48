// Random scenarios in which the order is validated: modules of which a forward takes one, evaluations, and any other
// features.
#include <shardproof.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/scenario/plan/flat_shard.hpp"
#include "suites/checks/generated.hpp"
#include "suites/exec_order/warnings.hpp"

namespace shardproof::exec_order {

namespace {

bool takes_ways(const Scenario& scenario) {
  return any_call(scenario.script,
                  [](const Action& action) { return !action.paths.empty() || action.kind == ActionKind::evaluate; });
}

// A rank that makes the forwards of its first iteration must not warn. An engine's iteration ends with a backward.
void check_no_false_warning(const Run& run) {
  std::vector<Action> first, current;
  int iteration = 0;
  for (const Script::Segment& segment : run.scenario().script.segments) {
    for (int i = 0; i < segment.iterations; ++i, ++iteration) {
      bool is_in_order = true;
      for (const Action& action : segment.body) {
        if (action.kind == ActionKind::forward) current.push_back(action);
        if (action.kind != ActionKind::backward) continue;
        if (first.empty()) first = current;
        // A forward that fails may warn.
        const bool fails =
            std::ranges::any_of(current, [](const Action& forward) { return forward.fails_in.has_value(); });
        is_in_order = is_in_order && !fails && current == first;
        current.clear();
      }
      if (is_in_order && current.empty()) check_silent(run, iteration, iteration + 1);
    }
  }
}

}  // namespace

RANKED_TEST_CASE("exec_order/generated", clauses("EXO-15"), ranks(2, 3, 4),
                 each("generator", suites::generator_version), drawn_by("seed", 10),
                 needs(FlatShardFeature::order_validation)) {
  const Run run =
      suites::check_generated(rank, {.kind = "flat_shard",
                                     .without = {"gradient_hooks", "compressing_hooks"},
                                     .about = {},
                                     .is_wanted = [](const Scenario& scenario) {
                                       const FlatShardPlan& section = flat_shard_plan(scenario.plan);
                                       return section.validate_order && section.wrap.size() > 1 && takes_ways(scenario);
                                     }});
  check_no_false_warning(run);
}

}  // namespace shardproof::exec_order
