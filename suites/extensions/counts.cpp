// How often hooks are called, exactly.
#include <algorithm>

#include "suites/checks/refusal.hpp"
#include "suites/extensions/hooks.hpp"
#include "suites/extensions/scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

using scenario::ActionKind;
using scenario::ExtensionKind;
using scenario::HookCall;
using scenario::Scenario;
using scenario::TensorKind;

RANKED_TEST_CASE("extensions/hook_calls", clauses("EXT-40"), tags("reference"), ranks(1, 2, 3, 4), each("reshard", false, true),
                 needs(Feature::all_gather_extensions)) {
  const bool reshard = rank.param<bool>("reshard");
  Scenario scenario = blocks({.rows = 5, .reshard = reshard_of(rank)});
  train(scenario, 3, {extend(TensorKind::two_tensor, ExtensionKind::components)});
  const scenario::Run run = play_accepted(rank, scenario);
  const auto parameters = scenario::parameters(scenario.model);
  CHECK(hooked_parameters(run).size() == parameters.size());
  for (const HookCall::Hook hook : {HookCall::Hook::pre, HookCall::Hook::post}) {
    for (const scenario::ParameterShape& parameter : parameters) {
      for (const int iteration : {0, 1, 2}) {
        const auto calls_during = [&](std::string_view call) {
          const auto calls = calls_of(run, hook, parameter.name);
          return std::ranges::count_if(calls, [&](const HookCall* made) { return made->iteration == iteration && made->during == call; });
        };
        CAPTURE(hook == HookCall::Hook::pre, parameter.name, iteration);
        CHECK(calls_during("forward") == 1);
        CHECK(calls_during("backward") == (reshard ? 1 : 0));
      }
      CHECK(calls_of(run, hook, parameter.name).size() == (reshard ? 6U : 3U));
    }
  }
}

}  // namespace shardproof::extensions
