#include "harness/scenario/generator/fully_shard.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "harness/scenario/generator/parts.hpp"
#include "harness/scenario/plan/fully_shard.hpp"

namespace shardproof::scenario {

namespace {

// The path of a wrapped module, or the root's path for all of them.
std::string some_module(const Plan& plan, Dice& dice) {
  return dice.chance(50) ? std::string() : dice.one_of(fully_shard_plan(plan).wrapped_modules());
}

// Whether two backwards may give gradients of different parameters to a group.
bool varies_gradients(const Model& model) {
  bool varies = false;
  visit(model.root, "", [&](const Module& module, const std::string&) {
    varies = varies || module.kind == ModuleKind::use || module.kind == ModuleKind::choice;
  });
  return varies;
}

bool is_wrapped(const FullyShardPlan& section, const std::string& path) {
  const std::vector<std::string> wrapped = section.wrapped_modules();
  return std::ranges::find(wrapped, path) != wrapped.end();
}

class FullyShardGenerator final : public EngineGenerator {
 public:
  std::string_view kind() const override { return FullyShardPlan::name; }

  Palette fitted(Palette palette) const override {
    for (const Feature feature : {Feature(Feature::thread_ranks), Feature(FullyShardFeature::reduction_hooks),
                                  Feature(FullyShardFeature::forward_methods)})
      palette.features.erase(feature);
    return palette;
  }

  std::vector<std::pair<Trait, Trait>> excluded_pairs() const override { return {}; }

  std::vector<Feature> needed_features(const Scenario& scenario) const override {
    std::vector<Feature> needed;
    for (const Script::Segment& segment : scenario.script.segments) {
      for (const Action& action : segment.body) {
        if (const auto feature = needed_for(action.kind)) needed.push_back(*feature);
        if (action.by_method) needed.push_back(FullyShardFeature::forward_methods);
      }
    }
    const FullyShardPlan& section = fully_shard_plan(scenario.plan);
    const auto need = [&](Feature feature, bool is_needed) {
      if (is_needed) needed.push_back(feature);
    };
    need(Feature::replicated_mesh, scenario.plan.mesh.shape.size() == 2);
    const auto any_group = [&](const auto& is) { return std::ranges::any_of(section.wrap, is); };
    need(Feature::module_groups, any_group([](const WrapGroup& group) { return group.modules.size() > 1; }));
    need(Feature::ignored_parameters, !section.ignored_parameters.empty());
    need(FullyShardFeature::shard_dims, !section.shard_dims.empty());
    need(FullyShardFeature::gradient_divide_factor, section.gradient_divide_factor != 0);
    need(FullyShardFeature::reshard_to_size, any_group([](const WrapGroup& group) {
           return group.reshard_after_forward.kind == ReshardAfterForward::Kind::size;
         }));
    need(FullyShardFeature::prefetch_lists,
         section.backward_prefetch != FullyShardPlan().backward_prefetch || any_group([](const WrapGroup& group) {
           return !group.forward_prefetch.empty() || !group.backward_prefetch.empty();
         }));
    return needed;
  }

  // -- Drawing

  void draw_groups(Scenario& scenario, Dice& dice) const override { draw_fully_shard_groups(scenario, dice); }

  void draw_options(Scenario& scenario, int shards, Dice& dice, const Palette& palette) const override {
    draw_fully_shard_options(scenario, shards, dice, palette);
  }

  // The root casts the input. An ignored parameter stays f32.
  bool casts_whole_model(const Plan& plan) const override {
    return is_wrapped(fully_shard_plan(plan), "") && fully_shard_plan(plan).ignored_parameters.empty();
  }

  bool casts_outputs() const override { return true; }

  std::vector<Action> draw_registrations(const Scenario& /*scenario*/, Dice& /*dice*/,
                                         const Palette& /*palette*/) const override {
    return {};
  }

  std::vector<Action> draw_before_forward(const Scenario& scenario, Dice& dice, const Palette& palette) const override {
    if (!draws(palette, FullyShardFeature::manual_unshard, dice, 15)) return {};
    const std::string module = some_module(scenario.plan, dice);
    const bool is_async = dice.chance(50);
    std::vector<Action> calls{{.kind = ActionKind::unshard, .module = module, .async = is_async}};
    if (is_async && dice.chance(50)) calls.push_back({.kind = ActionKind::wait_for_unshard, .module = module});
    return calls;
  }

  std::vector<Action> draw_after_forward(const Scenario& scenario, Dice& dice, const Palette& palette) const override {
    if (!draws(palette, FullyShardFeature::manual_unshard, dice, 8, 30)) return {};
    return {{.kind = ActionKind::reshard, .module = some_module(scenario.plan, dice)}};
  }

  std::vector<Action> draw_after_step(Dice& dice, const Palette& palette) const override {
    if (!draws(palette, FullyShardFeature::post_optim_event, dice, 25)) return {};
    return {{ActionKind::post_optim_event}};
  }

  Action draw_accumulation_switch(const Scenario& scenario, Dice& dice) const override {
    std::vector<ActionKind> switches{ActionKind::set_requires_gradient_sync, ActionKind::set_reshard_after_backward,
                                     ActionKind::set_is_last_backward};
    // Sums that wait for the replicas must be of the same parameters.
    if (scenario.plan.mesh.shape.size() == 2 && !varies_gradients(scenario.model))
      switches.push_back(ActionKind::set_requires_all_reduce);
    const ActionKind which = dice.one_of(switches);
    return {.kind = which, .module = which == ActionKind::set_is_last_backward ? "" : some_module(scenario.plan, dice)};
  }

  // -- Shrinking

  void offer_smaller_groups(const Plan& plan, const Offer& offer) const override {
    const std::vector<WrapGroup>& wrap = fully_shard_plan(plan).wrap;
    for (std::size_t i = 0; i < wrap.size(); ++i) {
      offer([&](Plan& p) {
        fully_shard_plan(p).wrap.erase(fully_shard_plan(p).wrap.begin() + static_cast<std::ptrdiff_t>(i));
      });
      for (const std::string& path : wrap[i].modules)
        offer([&](Plan& p) { std::erase(fully_shard_plan(p).wrap[i].modules, path); });
    }
    offer_of_each_group(plan, offer, [](WrapGroup& group) { group.reshard_after_forward = {}; });
    offer_of_each_group(plan, offer, [](WrapGroup& group) { group.forward_prefetch.clear(); });
    offer_of_each_group(plan, offer, [](WrapGroup& group) { group.backward_prefetch.clear(); });
    for (std::size_t i = 0; i < wrap.size(); ++i) {
      for (auto list : {&WrapGroup::forward_prefetch, &WrapGroup::backward_prefetch}) {
        for (const std::string& path : wrap[i].*list)
          offer([&](Plan& p) { std::erase(fully_shard_plan(p).wrap[i].*list, path); });
      }
    }
  }

  void offer_smaller_options(const Plan& plan, const Offer& offer) const override {
    offer([](Plan& p) { fully_shard_plan(p).gradient_divide_factor = 0; });
    offer([](Plan& p) { fully_shard_plan(p).backward_prefetch = FullyShardPlan().backward_prefetch; });
    offer([](Plan& p) { fully_shard_plan(p).ignored_parameters.clear(); });
    for (const auto& [parameter, dim] : fully_shard_plan(plan).shard_dims)
      offer([&lost = parameter](Plan& p) { fully_shard_plan(p).shard_dims.erase(lost); });
  }

  // -- After a change of the model

  void repair(Scenario& scenario, int shards) const override {
    FullyShardPlan& section = fully_shard_plan(scenario.plan);
    const std::vector<ParameterShape> all = parameters(scenario.model);
    const auto is_lost = [&](const std::string& parameter) {
      return std::ranges::find(all, parameter, &ParameterShape::name) == all.end();
    };
    for (WrapGroup& group : section.wrap)
      std::erase_if(group.modules, [&](const std::string& path) { return find(scenario.model, path) == nullptr; });
    std::erase_if(section.wrap, [](const WrapGroup& group) { return group.modules.empty(); });
    for (WrapGroup& group : section.wrap) {
      for (auto* list : {&group.forward_prefetch, &group.backward_prefetch})
        std::erase_if(*list, [&](const std::string& path) { return !is_wrapped(section, path); });
      ReshardAfterForward& reshard = group.reshard_after_forward;
      const bool fits =
          reshard.kind != ReshardAfterForward::Kind::size || (reshard.size >= 1 && shards % reshard.size == 0);
      if (!fits) reshard = {};
    }
    std::erase_if(section.ignored_parameters, is_lost);
    std::erase_if(section.shard_dims, [&](const auto& entry) { return is_lost(entry.first); });
  }

  void rename(Plan& plan, const std::function<void(std::string&)>& change) const override {
    FullyShardPlan& section = fully_shard_plan(plan);
    for (WrapGroup& group : section.wrap) {
      for (auto* list : {&group.modules, &group.forward_prefetch, &group.backward_prefetch})
        std::ranges::for_each(*list, change);
    }
    std::ranges::for_each(section.ignored_parameters, change);
    for (auto& [name, dim] : std::exchange(section.shard_dims, {})) {
      std::string changed = name;
      change(changed);
      section.shard_dims.emplace(std::move(changed), dim);
    }
    drop_repeated_modules(section.wrap);
  }

 private:
  static std::optional<Feature> needed_for(ActionKind call) {
    switch (call) {
      case ActionKind::unshard:
      case ActionKind::wait_for_unshard:
      case ActionKind::reshard: return FullyShardFeature::manual_unshard;
      case ActionKind::post_optim_event: return FullyShardFeature::post_optim_event;
      case ActionKind::register_hook: return FullyShardFeature::reduction_hooks;
      case ActionKind::set_requires_gradient_sync:
      case ActionKind::set_requires_all_reduce:
      case ActionKind::set_reshard_after_backward:
      case ActionKind::set_unshard_in_backward:
      case ActionKind::set_is_last_backward: return Feature::gradient_accumulation;
      default: return std::nullopt;
    }
  }

  static void offer_of_each_group(const Plan& plan, const Offer& offer, const std::function<void(WrapGroup&)>& change) {
    offer([&](Plan& p) { std::ranges::for_each(fully_shard_plan(p).wrap, change); });
    for (std::size_t i = 0; i < fully_shard_plan(plan).wrap.size(); ++i)
      offer([&](Plan& p) { change(fully_shard_plan(p).wrap[i]); });
  }

  // The first group that has a module keeps it.
  static void drop_repeated_modules(std::vector<WrapGroup>& wrap) {
    for (auto group = wrap.begin(); group != wrap.end();) {
      const auto has = [&](const std::string& module) {
        return std::any_of(wrap.begin(), group, [&](const WrapGroup& earlier) {
          return std::ranges::find(earlier.modules, module) != earlier.modules.end();
        });
      };
      std::erase_if(group->modules, has);
      group = group->modules.empty() ? wrap.erase(group) : std::next(group);
    }
  }
};

}  // namespace

const EngineGenerator& fully_shard_generator() {
  static const FullyShardGenerator generator;
  return generator;
}

}  // namespace shardproof::scenario
