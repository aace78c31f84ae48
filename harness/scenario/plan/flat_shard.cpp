#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/base/enum_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "harness/scenario/document.hpp"
#include "harness/scenario/refusal.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof {

using scenario::fail;

namespace {

using Json = nlohmann::ordered_json;

std::unique_ptr<EngineSection> read_flat_shard(const scenario::Node& node) {
  node.expect_keys({"wrap", "strategy", "use_orig_params", "backward_prefetch", "forward_prefetch", "limit_all_gathers",
                    "validate_order"});
  auto section = std::make_unique<FlatShardPlan>();
  section->wrap = node.at("wrap").texts();
  if (const auto strategy = node.find("strategy")) section->strategy = strategy->choice(ShardStrategy::hybrid_zero2);
  if (const auto orig = node.find("use_orig_params")) section->use_orig_params = orig->boolean();
  if (const auto prefetch = node.find("backward_prefetch"))
    section->backward_prefetch = prefetch->choice(FlatPrefetch::none);
  if (const auto prefetch = node.find("forward_prefetch")) section->forward_prefetch = prefetch->boolean();
  if (const auto limit = node.find("limit_all_gathers")) section->limit_all_gathers = limit->boolean();
  if (const auto validates = node.find("validate_order")) section->validate_order = validates->boolean();
  return section;
}

void validate_units(const std::vector<std::string>& wrap, const Model& model) {
  std::set<std::string> wrapped;
  for (std::size_t i = 0; i < wrap.size(); ++i) {
    const std::string place = fmt::format("plan.flat_shard.wrap[{}]", i);
    const std::string& path = wrap[i];
    scenario::require_module(model, path, place);
    const Module& module = *find(model, path);
    if (module.kind == ModuleKind::use)
      fail(place, fmt::format("\"{}\" is a use of \"{}\": wrap \"{}\" instead", path, module.target, module.target));
    if (module.kind == ModuleKind::list)
      fail(place, fmt::format("\"{}\" is a list, which has no forward: wrap its children", path));
    const auto above =
        std::ranges::find_if(wrapped, [&](const std::string& earlier) { return is_at_or_under(path, earlier); });
    if (above != wrapped.end() && *above == path) fail(place, fmt::format("\"{}\" is wrapped twice", path));
    if (above != wrapped.end())
      fail(place, fmt::format("\"{}\" comes after \"{}\": list children before parents", path, *above));
    wrapped.insert(path);
  }
}

}  // namespace

constinit const EngineKind flat_shard_kind{
    .name = FlatShardPlan::name, .read = read_flat_shard, .own_features = FlatShardFeature::all};

std::string_view to_string(ShardStrategy strategy) {
  return base::name_of<ShardStrategy::hybrid_zero2>(
      strategy, {"full_shard", "shard_grad_op", "no_shard", "hybrid", "hybrid_zero2"});
}

bool has_replicas(ShardStrategy strategy) {
  return strategy == ShardStrategy::hybrid || strategy == ShardStrategy::hybrid_zero2;
}

bool frees_after_forward(ShardStrategy strategy) {
  return strategy == ShardStrategy::full_shard || strategy == ShardStrategy::hybrid;
}

std::string_view to_string(FlatPrefetch prefetch) {
  return base::name_of<FlatPrefetch::none>(prefetch, {"before", "after", "none"});
}

Json FlatShardPlan::to_json() const {
  const FlatShardPlan usual;
  Json json{{"wrap", wrap}};
  if (strategy != usual.strategy) json["strategy"] = to_string(strategy);
  if (use_orig_params != usual.use_orig_params) json["use_orig_params"] = use_orig_params;
  if (backward_prefetch != usual.backward_prefetch) json["backward_prefetch"] = to_string(backward_prefetch);
  if (forward_prefetch != usual.forward_prefetch) json["forward_prefetch"] = forward_prefetch;
  if (limit_all_gathers != usual.limit_all_gathers) json["limit_all_gathers"] = limit_all_gathers;
  if (validate_order != usual.validate_order) json["validate_order"] = validate_order;
  return json;
}

void FlatShardPlan::validate(const Scenario& scenario) const {
  validate_units(wrap, scenario.model);
  const std::size_t dimensions = std::max<std::size_t>(1, scenario.plan.mesh.shape.size());
  if (dimensions != (has_replicas(strategy) ? 2U : 1U))
    fail("plan.mesh",
         fmt::format("the strategy {} is for a mesh of {}, found {}", to_string(strategy),
                     has_replicas(strategy) ? "two dimensions, copies and parts" : "one dimension", dimensions));
  if (scenario.plan.mixed_precision.output)
    fail("plan.mixed_precision.output", "flat_shard has no dtype of outputs: leave the key out");
}

std::vector<std::string> FlatShardPlan::collective_tags(const Model& model) const {
  std::vector<std::string> tags = groups(model);
  tags.emplace_back(execution_order_tag);
  return tags;
}

std::string FlatShardPlan::objection_to_call(const Action& action) const {
  return objection_to_call_of_groups(name, action);
}

std::string FlatShardPlan::objection_to_extension(const ParameterShape& parameter) const {
  return fmt::format("\"{}\" is part of a flat parameter, which is gathered as it is", parameter.name);
}

const std::string* FlatShardPlan::unit_of(std::string_view parameter) const {
  // Children come before parents: the first that holds it is the deepest.
  const auto found =
      std::ranges::find_if(wrap, [&](const std::string& path) { return is_at_or_under(parameter, path); });
  return found == wrap.end() ? nullptr : &*found;
}

}  // namespace shardproof
