// How often hooks are called, exactly.
#include "suites/checks/refusal.hpp"
#include "suites/extensions/hooks.hpp"
#include "suites/extensions/scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

RANKED_TEST_CASE("extensions/hook_calls", clauses("EXT-40"), tags("reference"), ranks(1, 2, 3, 4),
                 each("reshard", false, true), needs(Feature::all_gather_extensions)) {
  const bool reshard = rank.param<bool>("reshard");
  Scenario scenario = blocks({.rows = 5, .reshard = reshard_of(rank)});
  train(scenario, 3, {extend(TensorKind::two_tensor, ExtensionKind::components)});
  const Run run = play_accepted(rank, scenario);
  const auto parameters = shardproof::parameters(scenario.model);
  CHECK(hooked_parameters(run).size() == parameters.size());
  for (const CallbackKind kind : {CallbackKind::pre_all_gather, CallbackKind::post_all_gather}) {
    for (const ParameterShape& parameter : parameters) {
      for (const int iteration : {0, 1, 2}) {
        CAPTURE(to_string(kind), parameter.name, iteration);
        CHECK(run.count_callbacks(
                  {.kind = kind, .name = parameter.name, .iteration = iteration, .during = "forward"}) == 1);
        CHECK(
            run.count_callbacks({.kind = kind, .name = parameter.name, .iteration = iteration, .during = "backward"}) ==
            (reshard ? 1U : 0U));
      }
      CHECK(run.count_callbacks({.kind = kind, .name = parameter.name}) == (reshard ? 6U : 3U));
    }
  }
}

}  // namespace shardproof::extensions
