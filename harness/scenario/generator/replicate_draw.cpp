// Draws the section of a plan for `replicate`.
#include <cstdint>
#include <vector>

#include "harness/scenario/generator/alterations.hpp"
#include "harness/scenario/generator/replicate.hpp"
#include "harness/scenario/plan/replicate.hpp"

namespace shardproof::scenario {

namespace {

std::vector<std::int64_t> bytes_of_gradients(const Model& model) {
  std::vector<std::int64_t> sizes;
  for (const ParameterShape& parameter : parameters(model)) {
    if (parameter.trainable) sizes.push_back(numel(parameter.shape) * static_cast<std::int64_t>(sizeof(float)));
  }
  return sizes;
}

// So small that there are several buckets, often: also the size of a gradient, which fills a bucket to the byte.
std::int64_t limit(const std::vector<std::int64_t>& sizes, std::int64_t usual, Dice& dice) {
  const int what = dice.between(0, 99);
  if (what < 35) return dice.one_of(sizes);
  if (what < 70) return dice.between(1, 80);
  return what < 80 ? 1 : usual;
}

// Modules that take no part pass on what they get, and so do modules that run others again. Each choice becomes its first child.
void use_all_parameters(Model& model) {
  change_modules(model.root, [](Module& module) {
    std::erase_if(module.children, [](const Module& child) { return child.kind == ModuleKind::discard || child.kind == ModuleKind::list; });
    if (module.kind != ModuleKind::choice) return;
    module.kind = ModuleKind::sequential;
    module.children.resize(1);
  });
  bool is_complete = false;
  while (!is_complete) {
    is_complete = true;
    change_modules(model.root, [&](Module& module) {
      const auto lost = std::erase_if(
          module.children, [&](const Module& child) { return child.kind == ModuleKind::use && find(model, child.target) == nullptr; });
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

}  // namespace

void draw_replicate_options(Scenario& scenario, Dice& dice, const Palette& palette) {
  ReplicatePlan& section = replicate(scenario.plan);
  if (palette.has(ReplicateFeature::compiled_step) && dice.chance(30)) section.compile = compile_plan(dice);
  const bool may_be_unused = palette.has(ReplicateFeature::unused_parameters) && !section.compile;
  if (!may_be_unused || dice.chance(30)) use_all_parameters(scenario.model);
  section.unused_parameters = may_leave_out_parameters(scenario.model) || (may_be_unused && dice.chance(15));
  const ReplicatePlan usual;
  const std::vector<std::int64_t> sizes = bytes_of_gradients(scenario.model);
  section.first_bucket_bytes = limit(sizes, usual.first_bucket_bytes, dice);
  section.bucket_bytes = limit(sizes, usual.bucket_bytes, dice);
  if (palette.has(ReplicateFeature::gradient_views) && !section.compile && dice.chance(40)) section.gradients = BucketGradients::views;
}

}  // namespace shardproof::scenario
