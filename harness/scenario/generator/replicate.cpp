#include "harness/scenario/generator/replicate.hpp"

#include <map>
#include <utility>

#include "harness/scenario/generator/draw_hook.hpp"
#include "harness/scenario/plan/replicate.hpp"

namespace shardproof::scenario {

namespace {

class ReplicateGenerator final : public EngineGenerator {
 public:
  std::string_view kind() const override { return ReplicatePlan::name; }

  Palette fitted(Palette palette) const override {
    for (const Feature feature : {Feature::clip_grad_norm, Feature::ignored_parameters, Feature::all_gather_extensions,
                                  Feature::mixed_precision, Feature::replicated_mesh, Feature::thread_ranks})
      palette.features.erase(feature);
    return palette;
  }

  std::vector<std::pair<Trait, Trait>> excluded_pairs() const override {
    return {{"adam", "half_precision"},
            {"adam", "parameter_dtypes"},
            {"choices", "compiled_step"},
            {"compiled_step", "gradient_hooks"},
            {"compiled_step", "gradient_views"},
            {"compiled_step", "unused_modules"},
            {"compiled_step", "unused_parameters"},
            {"compressing_hooks", "gradient_hooks"},
            {"gradient_hooks", "tensor_parallel"},
            {"language_model", "module_groups"}};  // a language model brings its own kinds of modules
  }

  std::vector<Feature> needed_features(const Scenario& scenario) const override {
    std::vector<Feature> needed;
    const auto need = [&](Feature feature, bool is_needed) {
      if (is_needed) needed.push_back(feature);
    };
    const ReplicatePlan& section = replicate_plan(scenario.plan);
    need(Feature::gradient_accumulation, any_call(scenario.script, [](const Action& action) {
           return action.kind == ActionKind::set_requires_gradient_sync;
         }));
    need(ReplicateFeature::gradient_hooks,
         any_call(scenario.script, [](const Action& action) { return action.hook && !registers_compression(action); }));
    need(ReplicateFeature::compressing_hooks, any_call(scenario.script, registers_compression));
    need(ReplicateFeature::gradient_views, section.gradients == BucketGradients::views);
    need(ReplicateFeature::unused_parameters, section.unused_parameters);
    need(ReplicateFeature::compiled_step, section.compile.has_value());
    need(ReplicateFeature::tensor_parallel, !section.tensor_parallel.empty());
    need(ReplicateFeature::parameter_dtypes, !section.parameter_dtypes.empty());
    return needed;
  }

  // -- Drawing

  // There are no groups of modules.
  void draw_groups(Scenario& scenario, Dice& /*dice*/) const override { replicate_plan(scenario.plan); }

  void draw_options(Scenario& scenario, int shards, Dice& dice, const Palette& palette) const override {
    draw_replicate_options(scenario, shards, dice, palette);
  }

  bool casts_whole_model(const Plan& /*plan*/) const override { return false; }
  bool casts_outputs() const override { return false; }

  // A compiled step cannot call a user's hook, and such a hook knows one group of ranks.
  std::vector<Action> draw_registrations(const Scenario& scenario, Dice& dice, const Palette& palette) const override {
    const ReplicatePlan& section = replicate_plan(scenario.plan);
    Palette possible = palette;
    if (section.compile || !section.tensor_parallel.empty()) possible.features.erase(ReplicateFeature::gradient_hooks);
    return draw_hook(
        possible, {.user = ReplicateFeature::gradient_hooks, .compressing = ReplicateFeature::compressing_hooks}, dice);
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

  void offer_smaller_groups(const Plan& /*plan*/, const Offer& /*offer*/) const override {}

  void offer_smaller_options(const Plan& plan, const Offer& offer) const override {
    const ReplicatePlan usual;
    offer([](Plan& p) { replicate_plan(p).tensor_parallel.clear(); });
    for (const auto& [path, way] : replicate_plan(plan).tensor_parallel)
      offer([&lost = path](Plan& p) { replicate_plan(p).tensor_parallel.erase(lost); });
    offer([](Plan& p) { replicate_plan(p).parameter_dtypes.clear(); });
    for (const auto& [path, dtype] : replicate_plan(plan).parameter_dtypes)
      offer([&lost = path](Plan& p) { replicate_plan(p).parameter_dtypes.erase(lost); });
    offer([](Plan& p) { replicate_plan(p).compile.reset(); });
    if (replicate_plan(plan).compile) offer([](Plan& p) { replicate_plan(p).compile = CompilePlan(); });
    offer([&](Plan& p) { replicate_plan(p).gradients = usual.gradients; });
    offer([&](Plan& p) { replicate_plan(p).unused_parameters = usual.unused_parameters; });
    // Without limits there is one bucket; with the smallest ones, each gradient has its own.
    offer([&](Plan& p) {
      replicate_plan(p).first_bucket_bytes = usual.first_bucket_bytes;
      replicate_plan(p).bucket_bytes = usual.bucket_bytes;
    });
    offer([&](Plan& p) { replicate_plan(p).first_bucket_bytes = usual.first_bucket_bytes; });
    offer([&](Plan& p) { replicate_plan(p).bucket_bytes = usual.bucket_bytes; });
    const auto is_limited = [&](std::int64_t limit) {
      return limit > 1 && limit != usual.first_bucket_bytes && limit != usual.bucket_bytes;
    };
    if (is_limited(replicate_plan(plan).first_bucket_bytes))
      offer([](Plan& p) { replicate_plan(p).first_bucket_bytes = 1; });
    if (is_limited(replicate_plan(plan).bucket_bytes)) offer([](Plan& p) { replicate_plan(p).bucket_bytes = 1; });
  }

  // -- After a change of the model

  void repair(Scenario& scenario, int /*shards*/) const override {
    ReplicatePlan& section = replicate_plan(scenario.plan);
    keep_divided_pairs(scenario);
    keep_parameter_dtypes(scenario);
    if (!section.compile && may_leave_out_parameters(scenario.model)) section.unused_parameters = true;
  }

  // A module is divided with its partner.
  static void keep_divided_pairs(Scenario& scenario) {
    std::map<std::string, TensorParallel>& parallel = replicate_plan(scenario.plan).tensor_parallel;
    const std::map<std::string, TensorParallel> before = std::exchange(parallel, {});
    Mesh& mesh = scenario.plan.mesh;
    for (const auto& [column, row] : divisible_pairs(scenario.model)) {
      const bool is_divisible =
          mesh.shape.size() == 2 && find(scenario.model, column)->out_features % mesh.shape[1] == 0;
      if (is_divisible && before.contains(column) && before.contains(row))
        parallel.insert({{column, TensorParallel::column}, {row, TensorParallel::row}});
    }
    if (parallel.empty() && mesh.shape.size() == 2) mesh = {};
  }

  static void keep_parameter_dtypes(Scenario& scenario) {
    std::erase_if(replicate_plan(scenario.plan).parameter_dtypes, [&](const auto& entry) {
      const Module* const module = find(scenario.model, entry.first);
      return module == nullptr || !has_parameters(module->kind);
    });
    share_parameter_dtypes(scenario);
  }

  void rename(Plan& plan, const std::function<void(std::string&)>& change) const override {
    rename_paths(replicate_plan(plan).tensor_parallel, change);
    rename_paths(replicate_plan(plan).parameter_dtypes, change);
  }

  template <class Way> static void rename_paths(std::map<std::string, Way>& ways,
                                                const std::function<void(std::string&)>& change) {
    for (auto& [path, way] : std::exchange(ways, {})) {
      std::string renamed = path;
      change(renamed);
      ways.emplace(std::move(renamed), way);
    }
  }
};

}  // namespace

const EngineGenerator& replicate_generator() {
  static const ReplicateGenerator generator;
  return generator;
}

bool may_leave_out_parameters(const Model& model) {
  bool may = false;
  visit(model.root, "", [&](const Module& module, const std::string&) {
    may = may || module.kind == ModuleKind::discard || module.kind == ModuleKind::list ||
          module.kind == ModuleKind::choice;
  });
  return may;
}

}  // namespace shardproof::scenario
