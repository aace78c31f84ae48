#include "harness/scenario/generator/flat_shard.hpp"

#include <algorithm>
#include <utility>

#include "harness/scenario/generator/draw_hook.hpp"
#include "harness/scenario/generator/wrapping.hpp"
#include "harness/scenario/plan/flat_shard.hpp"

namespace shardproof::scenario {

namespace {

bool is_root_wrapped(const Plan& plan) {
  return std::ranges::find(flat_shard_plan(plan).wrap, "") != flat_shard_plan(plan).wrap.end();
}

class FlatShardGenerator final : public EngineGenerator {
 public:
  std::string_view kind() const override { return FlatShardPlan::name; }

  Palette fitted(Palette palette) const override {
    for (const Feature feature :
         {Feature::clip_grad_norm, Feature::ignored_parameters, Feature::all_gather_extensions, Feature::thread_ranks})
      palette.features.erase(feature);
    return palette;
  }

  std::vector<std::pair<Trait, Trait>> excluded_pairs() const override {
    // A language model has its own kinds of modules.
    return {{"compressing_hooks", "gradient_hooks"},
            {"compressing_hooks", "replicated_mesh"},
            {"gradient_hooks", "replicated_mesh"},
            {"language_model", "module_groups"}};
  }

  std::vector<Feature> needed_features(const Scenario& scenario) const override {
    std::vector<Feature> needed;
    const auto need = [&](Feature feature, bool is_needed) {
      if (is_needed) needed.push_back(feature);
    };
    const FlatShardPlan& section = flat_shard_plan(scenario.plan);
    const FlatShardPlan usual;
    need(Feature::replicated_mesh, scenario.plan.mesh.shape.size() == 2);
    need(Feature::gradient_accumulation, any_call(scenario.script, [](const Action& action) {
           return action.kind == ActionKind::set_requires_gradient_sync;
         }));
    need(FlatShardFeature::gradient_hooks,
         any_call(scenario.script, [](const Action& action) { return action.hook && !registers_compression(action); }));
    need(FlatShardFeature::compressing_hooks, any_call(scenario.script, registers_compression));
    need(FlatShardFeature::order_validation, section.validate_order);
    need(FlatShardFeature::orig_params, section.use_orig_params);
    need(FlatShardFeature::prefetch_after, section.backward_prefetch != usual.backward_prefetch);
    need(FlatShardFeature::forward_prefetch, section.forward_prefetch);
    need(FlatShardFeature::gather_limit, !section.limit_all_gathers);
    return needed;
  }

  // -- Drawing

  void draw_groups(Scenario& scenario, Dice& dice) const override {
    flat_shard_plan(scenario.plan).wrap = draw_wrapped_modules(scenario.model, dice);
  }

  void draw_options(Scenario& scenario, int /*shards*/, Dice& dice, const Palette& palette) const override {
    draw_flat_shard_options(scenario, dice, palette);
  }

  // The root casts the input, and no parameter is without a unit.
  bool casts_whole_model(const Plan& plan) const override { return is_root_wrapped(plan); }
  bool casts_outputs() const override { return false; }

  // Hooks are registered at a root. A hybrid strategy supports no hooks.
  std::vector<Action> draw_registrations(const Scenario& scenario, Dice& dice, const Palette& palette) const override {
    if (!is_root_wrapped(scenario.plan) || has_replicas(flat_shard_plan(scenario.plan).strategy)) return {};
    return draw_hook(
        palette, {.user = FlatShardFeature::gradient_hooks, .compressing = FlatShardFeature::compressing_hooks}, dice);
  }

  std::vector<Action> draw_before_forward(const Scenario& /*scenario*/, Dice& /*dice*/,
                                          const Palette& /*palette*/) const override {
    return {};
  }
  std::vector<Action> draw_after_forward(const Scenario& /*scenario*/, Dice& /*dice*/,
                                         const Palette& /*palette*/) const override {
    return {};
  }
  std::vector<Action> draw_after_step(Dice& /*dice*/, const Palette& /*palette*/) const override { return {}; }

  Action draw_accumulation_switch(const Scenario& /*scenario*/, Dice& /*dice*/) const override {
    return {.kind = ActionKind::set_requires_gradient_sync};
  }

  // -- Shrinking

  void offer_smaller_groups(const Plan& plan, const Offer& offer) const override {
    for (const std::string& path : flat_shard_plan(plan).wrap)
      offer([&](Plan& p) { std::erase(flat_shard_plan(p).wrap, path); });
  }

  void offer_smaller_options(const Plan& plan, const Offer& offer) const override {
    const FlatShardPlan usual;
    if (flat_shard_plan(plan).strategy != usual.strategy) {
      offer([](Plan& p) {
        p.mesh = {};
        flat_shard_plan(p).strategy = FlatShardPlan().strategy;
      });
    }
    if (flat_shard_plan(plan).strategy == ShardStrategy::hybrid_zero2)
      offer([](Plan& p) { flat_shard_plan(p).strategy = ShardStrategy::hybrid; });
    offer([&](Plan& p) { flat_shard_plan(p).use_orig_params = usual.use_orig_params; });
    offer([&](Plan& p) { flat_shard_plan(p).backward_prefetch = usual.backward_prefetch; });
    offer([&](Plan& p) { flat_shard_plan(p).forward_prefetch = usual.forward_prefetch; });
    offer([&](Plan& p) { flat_shard_plan(p).limit_all_gathers = usual.limit_all_gathers; });
    offer([&](Plan& p) { flat_shard_plan(p).validate_order = usual.validate_order; });
  }

  // -- After a change of the model

  void repair(Scenario& scenario, int /*shards*/) const override {
    FlatShardPlan& section = flat_shard_plan(scenario.plan);
    std::erase_if(section.wrap, [&](const std::string& path) { return find(scenario.model, path) == nullptr; });
    if (has_replicas(section.strategy) && scenario.plan.mesh.shape.size() != 2)
      section.strategy =
          frees_after_forward(section.strategy) ? ShardStrategy::full_shard : ShardStrategy::shard_grad_op;
  }

  void rename(Plan& plan, const std::function<void(std::string&)>& change) const override {
    std::vector<std::string>& wrap = flat_shard_plan(plan).wrap;
    for (std::string& path : std::exchange(wrap, {})) {
      change(path);
      if (std::ranges::find(wrap, path) == wrap.end()) wrap.push_back(std::move(path));
    }
  }
};

}  // namespace

const EngineGenerator& flat_shard_generator() {
  static const FlatShardGenerator generator;
  return generator;
}

}  // namespace shardproof::scenario
