#include "harness/scenario/plan/replicate.hpp"
#include "harness/base/enum_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "harness/scenario/document.hpp"
#include "harness/scenario/refusal.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof {

using scenario::fail;
using scenario::member_place;
using scenario::Node;
using scenario::require_module;

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t most_bytes = std::int64_t{1} << 40;

CompilePlan read_compile(const Node& node) {
  node.expect_keys({"region", "fusion", "schedule_waits"});
  CompilePlan compile;
  if (const auto region = node.find("region")) compile.region = region->choice(CompiledRegion::backward);
  if (const auto fusion = node.find("fusion")) compile.fusion = fusion->choice(BucketFusion::none);
  if (const auto schedules = node.find("schedule_waits")) compile.schedule_waits = schedules->boolean();
  return compile;
}

DType read_low_dtype(const Node& node) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    if (node.is_text() && node.text() == to_string(dtype)) return dtype;
  }
  node.fail("\"bf16\" or \"f16\"");
}

std::unique_ptr<EngineSection> read_replicate(const Node& node) {
  node.expect_keys({"first_bucket_bytes", "bucket_bytes", "gradients", "unused_parameters", "compile",
                    "tensor_parallel", "parameter_dtypes"});
  auto section = std::make_unique<ReplicatePlan>();
  if (const auto limit = node.find("first_bucket_bytes")) section->first_bucket_bytes = limit->integer(1, most_bytes);
  if (const auto limit = node.find("bucket_bytes")) section->bucket_bytes = limit->integer(1, most_bytes);
  if (const auto gradients = node.find("gradients")) section->gradients = gradients->choice(BucketGradients::views);
  if (const auto unused = node.find("unused_parameters")) section->unused_parameters = unused->boolean();
  if (const auto compile = node.find("compile")) section->compile = read_compile(*compile);
  if (const auto parallel = node.find("tensor_parallel")) {
    for (const auto& [path, way] : parallel->members())
      section->tensor_parallel[path] = way.choice(TensorParallel::row);
  }
  if (const auto dtypes = node.find("parameter_dtypes")) {
    for (const auto& [path, dtype] : dtypes->members()) section->parameter_dtypes[path] = read_low_dtype(dtype);
  }
  return section;
}

Json write(const CompilePlan& compile) {
  const CompilePlan usual;
  Json json = Json::object();
  if (compile.region != usual.region) json["region"] = to_string(compile.region);
  if (compile.fusion != usual.fusion) json["fusion"] = to_string(compile.fusion);
  if (compile.schedule_waits != usual.schedule_waits) json["schedule_waits"] = compile.schedule_waits;
  return json;
}

void validate_tensor_parallel(const ReplicatePlan& section, const Scenario& scenario) {
  const std::size_t dimensions = std::max<std::size_t>(1, scenario.plan.mesh.shape.size());
  if (section.tensor_parallel.empty()) {
    if (dimensions != 1)
      fail("plan.mesh",
           fmt::format("{} dimensions need tensor_parallel: divide modules, or give the mesh one dimension",
                       dimensions));
    return;
  }
  if (dimensions != 2)
    fail("plan.mesh",
         fmt::format("tensor_parallel needs two dimensions, copies and parts, as in {{\"shape\": [2, 2]}}; found {}",
                     dimensions));
  visit(scenario.model.root, "", [&](const Module& module, const std::string& path) {
    if (!module.tied_to.empty() && section.tensor_parallel.contains(module.tied_to))
      fail(member_place("plan.replicate.tensor_parallel", module.tied_to),
           fmt::format("\"{}\" shares the weight of \"{}\": divide neither", path, module.tied_to));
  });
  const int parts = scenario.plan.mesh.shape[1];
  for (const auto& [path, way] : section.tensor_parallel) {
    const std::string place = member_place("plan.replicate.tensor_parallel", path);
    require_module(scenario.model, path, place);
    const Module& module = *find(scenario.model, path);
    if (module.kind != ModuleKind::linear)
      fail(place, fmt::format("expected a linear module, found \"{}\", of kind {}", path, to_string(module.kind)));
    if (!module.tied_to.empty())
      fail(place, fmt::format("\"{}\" shares the weight of \"{}\": divide neither", path, module.tied_to));
    const std::int64_t divided = way == TensorParallel::column ? module.out_features : module.in_features;
    if (divided % parts != 0)
      fail(place, fmt::format("\"{}\" has {} {} features for {} ranks: choose a multiple of {}", path, divided,
                              way == TensorParallel::column ? "output" : "input", parts, parts));
  }
}

void validate_parameter_dtypes(const ReplicatePlan& section, const Scenario& scenario) {
  if (section.parameter_dtypes.empty()) return;
  const auto place_of = [](const std::string& path) { return member_place("plan.replicate.parameter_dtypes", path); };
  for (const auto& [path, dtype] : section.parameter_dtypes) {
    require_module(scenario.model, path, place_of(path));
    const ModuleKind kind = find(scenario.model, path)->kind;
    if (!has_parameters(kind))
      fail(place_of(path),
           fmt::format("expected a module that has parameters, found \"{}\", of kind {}", path, to_string(kind)));
    if (section.tensor_parallel.contains(path))
      fail(place_of(path),
           fmt::format("\"{}\" is divided, and sums over parts would round in {}: divide it, or give it a dtype", path,
                       to_string(dtype)));
  }
  visit(scenario.model.root, "", [&](const Module& module, const std::string& path) {
    if (module.tied_to.empty()) return;
    const DType own = section.dtype_of(child_path(path, "weight")),
                shared = section.dtype_of(child_path(module.tied_to, "weight"));
    if (own == shared) return;
    fail(place_of(own == DType::f32 ? module.tied_to : path),
         fmt::format("\"{}\" shares the weight of \"{}\", but one is {} and the other {}: give both the same dtype",
                     path, module.tied_to, to_string(own), to_string(shared)));
  });
  if (scenario.plan.optimizer.kind != OptimizerKind::sgd)
    fail("plan.optimizer.kind",
         fmt::format("parameter_dtypes need sgd, found {}: its averages lose too much in a low dtype",
                     to_string(scenario.plan.optimizer.kind)));
}

// Refuses calls that a divided module cannot make. The input and output of a divided module have a meaning only inside
// the model. A hook of the script reduces over the whole world.
std::string objection_to_call_on_parts(const Action& action) {
  const bool runs = action.kind == ActionKind::forward || action.kind == ActionKind::evaluate;
  if (runs && !action.module.empty()) return "with tensor_parallel the model runs as a whole: leave the module out";
  if (action.kind == ActionKind::register_hook && !registers_compression(action) && !action.hook->refused)
    return "with tensor_parallel ranks of the world have different gradients: use fp16_compress or bf16_compress, or "
           "no hook";
  return {};
}

}  // namespace

constinit const EngineKind replicate_kind{
    .name = ReplicatePlan::name, .read = read_replicate, .own_features = ReplicateFeature::all};

std::string bucket_tag(std::size_t index) { return fmt::format("bucket {}", index); }

std::string_view to_string(BucketGradients gradients) {
  return gradients == BucketGradients::copies ? "copies" : "views";
}

std::string_view to_string(CompiledRegion region) {
  return region == CompiledRegion::backward ? "backward" : "forward_backward";
}

std::string_view to_string(BucketFusion fusion) {
  return base::name_of<BucketFusion::none>(fusion, {"concat", "coalesce", "none"});
}

std::string_view to_string(TensorParallel parallel) { return parallel == TensorParallel::column ? "column" : "row"; }

Json ReplicatePlan::to_json() const {
  const ReplicatePlan usual;
  Json json = Json::object();
  if (first_bucket_bytes != usual.first_bucket_bytes) json["first_bucket_bytes"] = first_bucket_bytes;
  if (bucket_bytes != usual.bucket_bytes) json["bucket_bytes"] = bucket_bytes;
  if (gradients != usual.gradients) json["gradients"] = to_string(gradients);
  if (unused_parameters != usual.unused_parameters) json["unused_parameters"] = unused_parameters;
  if (compile) json["compile"] = write(*compile);
  for (const auto& [path, way] : tensor_parallel) json["tensor_parallel"][path] = to_string(way);
  for (const auto& [path, dtype] : parameter_dtypes) json["parameter_dtypes"][path] = to_string(dtype);
  return json;
}

void ReplicatePlan::validate(const Scenario& scenario) const {
  if (scenario.plan.mixed_precision != MixedPrecision())
    fail("plan.mixed_precision",
         "replicate has no mixed precision: leave the key out, or register a hook that compresses gradients");
  validate_tensor_parallel(*this, scenario);
  validate_parameter_dtypes(*this, scenario);
  if (compile && unused_parameters)
    fail("plan.replicate.unused_parameters",
         "a compiled step needs a gradient of each parameter: leave out this key or compile");
  if (compile && gradients != BucketGradients::copies)
    fail("plan.replicate.gradients", "a compiled step has no gradients in buckets: leave the key out");
}

DType ReplicatePlan::dtype_of(const std::string& parameter) const {
  const std::size_t dot = parameter.rfind('.');
  const auto found = parameter_dtypes.find(dot == std::string::npos ? "" : parameter.substr(0, dot));
  return found == parameter_dtypes.end() ? DType::f32 : found->second;
}

std::vector<std::string> ReplicatePlan::groups(const Model& model) const {
  const auto all = parameters(model);
  const auto trainable = static_cast<std::size_t>(std::ranges::count_if(all, &ParameterShape::trainable));
  std::vector<std::string> tags;
  for (std::size_t i = 0; i < trainable; ++i) tags.push_back(bucket_tag(i));
  return tags;
}

std::vector<std::string> ReplicatePlan::collective_tags(const Model& model) const {
  std::vector<std::string> tags = groups(model);
  for (const std::string_view tag : {parameter_list_tag, parameter_values_tag, ready_order_tag, used_parameters_tag})
    tags.emplace_back(tag);
  for (const auto& [path, way] : tensor_parallel) tags.push_back(path);
  return tags;
}

std::string ReplicatePlan::objection_to_call(const Action& action) const {
  if (!tensor_parallel.empty()) {
    if (std::string objection = objection_to_call_on_parts(action); !objection.empty()) return objection;
  }
  return objection_to_call_of_groups(name, action);
}

std::string ReplicatePlan::objection_to_extension(const ParameterShape& parameter) const {
  return fmt::format("\"{}\" is whole on every rank, and is not gathered", parameter.name);
}

}  // namespace shardproof
