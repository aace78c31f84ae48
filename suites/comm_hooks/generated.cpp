// Random scenarios with a gradient hook at the root, and any other features.
#include <shardproof.hpp>

#include <algorithm>
#include <vector>

#include "fixtures/oracles/serial_model.hpp"
#include "suites/checks/generated.hpp"

namespace shardproof::comm_hooks {

namespace {

// A hook that means over ranks may do what the engine does. Any other hook makes other gradients.
bool shows_hook(const Scenario& scenario, int world) {
  if (any_call(scenario.script,
               [](const Action& action) { return action.hook && action.hook->kind == HookKind::plain; }))
    return true;
  Scenario without = scenario;
  std::size_t dropped = 0;
  for (Script::Segment& segment : without.script.segments)
    dropped += std::erase_if(segment.body, [](const Action& action) { return action.hook.has_value(); });
  if (dropped == 0) return false;
  const auto with = oracles::train_serially(scenario, world, oracles::Arithmetic::f32);
  const auto usual = oracles::train_serially(without, world, oracles::Arithmetic::f32);
  for (std::size_t capture = 0; capture < with.size(); ++capture) {
    for (std::size_t p = 0; p < with[capture].gradients.size(); ++p) {
      if (with[capture].gradients[p].values != usual[capture].gradients[p].values) return true;
    }
  }
  return false;
}

}  // namespace

RANKED_TEST_CASE("comm_hooks/generated", clauses("CMH-17"), ranks(2, 3, 4),
                 each("generator", suites::generator_version), drawn_by("seed", 10)) {
  const int world = rank.world().size();
  suites::check_generated(rank,
                          {.kind = "flat_shard",
                           .without = {"replicated_mesh"},
                           .about = {"gradient_hooks", "compressing_hooks", "half_precision"},
                           .is_wanted = [world](const Scenario& scenario) { return shows_hook(scenario, world); }});
}

}  // namespace shardproof::comm_hooks
