// Draws the section of a plan for `replicate`.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/scenario/generator/alterations.hpp"
#include "harness/scenario/generator/factors.hpp"
#include "harness/scenario/generator/parts.hpp"
#include "harness/scenario/generator/replicate.hpp"
#include "harness/scenario/plan/replicate.hpp"

namespace shardproof::scenario {

namespace {

std::vector<std::int64_t> bytes_of_gradients(const Scenario& scenario) {
  std::vector<std::int64_t> sizes;
  for (const ParameterShape& parameter : parameters(scenario.model)) {
    const auto width = static_cast<std::int64_t>(size_of(replicate_plan(scenario.plan).dtype_of(parameter.name)));
    if (parameter.trainable) sizes.push_back(numel(parameter.shape) * width);
  }
  return sizes;
}

// A limit that is often small enough for several buckets. It may be the size of a gradient, which fills a bucket
// exactly.
std::int64_t limit(const std::vector<std::int64_t>& sizes, std::int64_t usual, Dice& dice) {
  const int what = dice.between(0, 99);
  if (what < 35) return dice.one_of(sizes);
  if (what < 70) return dice.between(1, 80);
  return what < 80 ? 1 : usual;
}

// Makes every parameter take part in the loss. Removes modules that take no part, because they pass on their input.
// Removes each `use` of a removed module, which has as many outputs as inputs, and each tie to one. Each choice becomes
// its first child.
void use_all_parameters(Model& model) {
  change_modules(model.root, [](Module& module) {
    std::erase_if(module.children, [](const Module& child) {
      return child.kind == ModuleKind::discard || child.kind == ModuleKind::list;
    });
    if (module.kind != ModuleKind::choice) return;
    module.kind = ModuleKind::sequential;
    module.children.resize(1);
  });
  bool is_complete = false;
  while (!is_complete) {
    is_complete = true;
    change_modules(model.root, [&](Module& module) {
      const auto lost = std::erase_if(module.children, [&](const Module& child) {
        return child.kind == ModuleKind::use && find(model, child.target) == nullptr;
      });
      is_complete = is_complete && lost == 0;
      if (!module.tied_to.empty() && find(model, module.tied_to) == nullptr) module.tied_to.clear();
    });
  }
}

CompilePlan compile_plan(Dice& dice) {
  return {.region = dice.chance(30) ? CompiledRegion::backward : CompiledRegion::forward_backward,
          .fusion = dice.one_of(std::vector{BucketFusion::concat, BucketFusion::coalesce, BucketFusion::none}),
          .schedule_waits = !dice.chance(20)};
}

bool is_divisible(const Model& model, const Module& module, const std::string& path) {
  if (module.kind != ModuleKind::linear || !module.tied_to.empty()) return false;
  bool is_used_elsewhere = false;
  visit(model.root, "", [&](const Module& other, const std::string&) {
    is_used_elsewhere =
        is_used_elsewhere || other.tied_to == path || (other.kind == ModuleKind::use && other.target == path);
  });
  return !is_used_elsewhere;
}

// The features between the modules of a pair become a multiple of the number of parts.
void divide_modules(Scenario& scenario, int ranks, Dice& dice) {
  ReplicatePlan& section = replicate_plan(scenario.plan);
  const int parts = dice.one_of(factors(ranks));
  for (const auto& [column, row] : divisible_pairs(scenario.model)) {
    if (!dice.chance(70)) continue;
    section.tensor_parallel[column] = TensorParallel::column;
    section.tensor_parallel[row] = TensorParallel::row;
    const std::int64_t between = std::int64_t{parts} * dice.between(1, 2);
    change_modules_at(scenario.model.root, [&](Module& module, const std::string& path) {
      if (path == column) module.out_features = between;
      if (path == row) module.in_features = between;
    });
  }
  if (!section.tensor_parallel.empty())
    scenario.plan.mesh = {.shape = {ranks / parts, parts}, .names = {"copies", "parts"}};
}

// Modules that share a weight have the dtype of its owner.
void draw_parameter_dtypes(Scenario& scenario, Dice& dice, const Palette& palette) {
  ReplicatePlan& section = replicate_plan(scenario.plan);
  visit(scenario.model.root, "", [&](const Module& module, const std::string& path) {
    if (!has_parameters(module.kind) || !module.tied_to.empty() || section.tensor_parallel.contains(path) ||
        !dice.chance(50))
      return;
    section.parameter_dtypes[path] =
        draws(palette, Ingredient::half_precision, dice, 33, 60) ? DType::f16 : DType::bf16;
  });
  share_parameter_dtypes(scenario);
}

}  // namespace

void share_parameter_dtypes(Scenario& scenario) {
  std::map<std::string, DType>& dtypes = replicate_plan(scenario.plan).parameter_dtypes;
  visit(scenario.model.root, "", [&](const Module& module, const std::string& path) {
    if (module.tied_to.empty()) return;
    dtypes.erase(path);
    if (const auto owner = dtypes.find(module.tied_to); owner != dtypes.end()) dtypes[path] = owner->second;
  });
}

std::vector<DivisiblePair> divisible_pairs(const Model& model) {
  std::vector<DivisiblePair> pairs;
  visit(model.root, "", [&](const Module& container, const std::string& path) {
    if (container.kind != ModuleKind::sequential && container.kind != ModuleKind::residual) return;
    std::string column;
    for (const Module& child : container.children) {
      const std::string at = child_path(path, child.name);
      if (child.kind == ModuleKind::relu) continue;
      const bool can_be_divided = is_divisible(model, child, at);
      const bool is_row = can_be_divided && !column.empty();
      if (is_row) pairs.push_back({column, at});
      column = can_be_divided && !is_row ? at : "";
    }
  });
  return pairs;
}

void draw_replicate_options(Scenario& scenario, int ranks, Dice& dice, const Palette& palette) {
  ReplicatePlan& section = replicate_plan(scenario.plan);
  if (draws(palette, ReplicateFeature::compiled_step, dice, 30)) section.compile = compile_plan(dice);
  const bool may_be_unused = palette.has(ReplicateFeature::unused_parameters) && !section.compile;
  if (!may_be_unused || dice.chance(30)) use_all_parameters(scenario.model);
  section.unused_parameters = may_leave_out_parameters(scenario.model) ||
                              (may_be_unused && draws(palette, ReplicateFeature::unused_parameters, dice, 15));
  const bool can_divide =
      palette.has(ReplicateFeature::tensor_parallel) && ranks > 1 && scenario.device.imagined_ranks == 0;
  if (can_divide && draws(palette, ReplicateFeature::tensor_parallel, dice, 30)) divide_modules(scenario, ranks, dice);
  const bool wants_half = palette.wants(Ingredient::half_precision);
  if (draws(palette, ReplicateFeature::parameter_dtypes, dice, wants_half ? 100 : 25))
    draw_parameter_dtypes(scenario, dice, palette);
  const ReplicatePlan usual;
  const std::vector<std::int64_t> sizes = bytes_of_gradients(scenario);
  section.first_bucket_bytes = limit(sizes, usual.first_bucket_bytes, dice);
  section.bucket_bytes = limit(sizes, usual.bucket_bytes, dice);
  if (!section.compile && draws(palette, ReplicateFeature::gradient_views, dice, 40))
    section.gradients = BucketGradients::views;
}

}  // namespace shardproof::scenario
