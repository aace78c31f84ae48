// Random scenarios with a gradient hook at the root, and any other features.
#include <shardproof.hpp>

#include <algorithm>
#include <array>

#include "fixtures/oracles/serial_model.hpp"
#include "suites/checks/generated.hpp"

namespace shardproof::comm_hooks {

namespace {

using scenario::HookKind;
using scenario::Scenario;

// The kinds of hooks take turns.
constexpr std::array kinds{HookKind::plain, HookKind::sum, HookKind::fp16_compress, HookKind::doubled, HookKind::bf16_compress};

// Removes registrations of this kind, if there are any.
bool drop_hooks(Scenario& scenario, HookKind kind) {
  bool dropped = false;
  for (scenario::Script::Segment& segment : scenario.script.segments)
    dropped = std::erase_if(segment.body, [&](const scenario::Action& action) { return action.hook && action.hook->kind == kind; }) > 0 ||
              dropped;
  return dropped;
}

// A hook that means over ranks may do what the engine does. Any other hook makes other gradients.
bool shows_hook(const Scenario& scenario, std::uint64_t seed, int world) {
  const HookKind kind = kinds.at(seed % kinds.size());
  Scenario without = scenario;
  if (!drop_hooks(without, kind)) return false;
  if (kind == HookKind::plain) return true;
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

RANKED_TEST_CASE("comm_hooks/generated", clauses("CMH-17"), ranks(2, 3, 4), each("generator", suites::generator_version),
                 each("seed", 1, 2, 3, 4), needs(Feature::timeline)) {
  const int world = rank.world().size();
  suites::check_generated(rank, {.kind = "flat_shard", .without = {}, .is_wanted = [world](const Scenario& scenario, std::uint64_t seed) {
                                   return shows_hook(scenario, seed, world);
                                 }});
}

}  // namespace shardproof::comm_hooks
