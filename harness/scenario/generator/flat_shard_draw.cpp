// Draws the section of a plan for `flat_shard`.
#include <algorithm>
#include <map>

#include "harness/scenario/generator/alterations.hpp"
#include "harness/scenario/generator/flat_shard.hpp"
#include "harness/scenario/generator/parts.hpp"
#include "harness/scenario/plan/flat_shard.hpp"

namespace shardproof::scenario {

namespace {

// Whether some unit has frozen and trainable parameters.
bool mixes_frozen(const Scenario& scenario) {
  std::map<const std::string*, bool> trainable;
  return std::ranges::any_of(parameters(scenario.model), [&](const ParameterShape& parameter) {
    const std::string* const unit = flat_shard_plan(scenario.plan).unit_of(parameter.name);
    return unit != nullptr && trainable.try_emplace(unit, parameter.trainable).first->second != parameter.trainable;
  });
}

ShardStrategy strategy(const Scenario& scenario, Dice& dice) {
  using enum ShardStrategy;
  if (scenario.plan.mesh.shape.size() == 2) return dice.chance(50) ? hybrid : hybrid_zero2;
  return dice.one_of(std::vector{full_shard, full_shard, shard_grad_op, no_shard});
}

}  // namespace

void draw_flat_shard_options(Scenario& scenario, Dice& dice, const Palette& palette) {
  FlatShardPlan& section = flat_shard_plan(scenario.plan);
  section.strategy = strategy(scenario, dice);
  section.use_orig_params = draws(palette, FlatShardFeature::orig_params, dice, 40);
  if (!section.use_orig_params && mixes_frozen(scenario)) {
    // A unit with frozen and trainable parameters must keep them as separate tensors. Otherwise no parameter may be
    // frozen.
    if (palette.has(FlatShardFeature::orig_params)) section.use_orig_params = true;
    else change_modules(scenario.model.root, [](Module& module) { module.frozen = false; });
  }
  if (draws(palette, FlatShardFeature::prefetch_after, dice, 40))
    section.backward_prefetch = dice.chance(50) ? FlatPrefetch::after : FlatPrefetch::none;
  section.forward_prefetch = draws(palette, FlatShardFeature::forward_prefetch, dice, 30);
  section.limit_all_gathers = !draws(palette, FlatShardFeature::gather_limit, dice, 30);
  section.validate_order = draws(palette, FlatShardFeature::order_validation, dice, 30);
}

}  // namespace shardproof::scenario
