#include "harness/scenario/plan/fully_shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "harness/base/closest.hpp"
#include "harness/scenario/calls.hpp"
#include "harness/scenario/document.hpp"
#include "harness/scenario/refusal.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof {

using scenario::fail;
using scenario::Node;
using scenario::require_parameter;

namespace {

using Json = nlohmann::ordered_json;

Json write(const ReshardAfterForward& reshard) {
  using Kind = ReshardAfterForward::Kind;
  switch (reshard.kind) {
    case Kind::automatic: return "automatic";
    case Kind::yes: return true;
    case Kind::no: return false;
    case Kind::size: return reshard.size;
  }
  return {};
}

ReshardAfterForward read_reshard(const Node& node) {
  using Kind = ReshardAfterForward::Kind;
  if (node.is_boolean()) return {.kind = node.boolean() ? Kind::yes : Kind::no};
  if (node.is_integer())
    return {.kind = Kind::size, .size = static_cast<int>(node.integer(-scenario::most_ranks, scenario::most_ranks))};
  if (node.is_text() && node.text() == "automatic") return {};
  node.fail("true, false, a number of ranks or \"automatic\"");
}

Json write(const WrapGroup& group) {
  Json json{{"modules", group.modules}};
  if (group.reshard_after_forward != ReshardAfterForward())
    json["reshard_after_forward"] = write(group.reshard_after_forward);
  if (!group.forward_prefetch.empty()) json["forward_prefetch"] = group.forward_prefetch;
  if (!group.backward_prefetch.empty()) json["backward_prefetch"] = group.backward_prefetch;
  return json;
}

WrapGroup read_group(const Node& node) {
  node.expect_keys({"modules", "reshard_after_forward", "forward_prefetch", "backward_prefetch"});
  WrapGroup group{.modules = node.at("modules").texts()};
  if (group.modules.empty()) node.at("modules").fail("at least one path");
  if (const auto reshard = node.find("reshard_after_forward")) group.reshard_after_forward = read_reshard(*reshard);
  if (const auto prefetch = node.find("forward_prefetch")) group.forward_prefetch = prefetch->texts();
  if (const auto prefetch = node.find("backward_prefetch")) group.backward_prefetch = prefetch->texts();
  return group;
}

constexpr std::int64_t most_live_inputs = 1'048'576;

std::unique_ptr<EngineSection> read(const Node& node) {
  node.expect_keys({"wrap", "backward_prefetch", "ignored_parameters", "shard_dims", "gradient_divide_factor",
                    "live_reduce_inputs"});
  auto section = std::make_unique<FullyShardPlan>();
  for (const Node& group : node.at("wrap").elements()) section->wrap.push_back(read_group(group));
  if (const auto prefetch = node.find("backward_prefetch"))
    section->backward_prefetch = prefetch->choice(BackwardPrefetch::none);
  if (const auto ignored = node.find("ignored_parameters")) section->ignored_parameters = ignored->texts();
  if (const auto dims = node.find("shard_dims")) {
    for (const auto& [parameter, dim] : dims->members())
      section->shard_dims[parameter] = static_cast<int>(dim.integer(-8, 8));
  }
  if (const auto factor = node.find("gradient_divide_factor"))
    section->gradient_divide_factor = factor->positive_number();
  if (const auto inputs = node.find("live_reduce_inputs"))
    section->live_reduce_inputs = static_cast<int>(inputs->integer(1, most_live_inputs));
  return section;
}

void validate_wrapping(const std::vector<WrapGroup>& wrap, const Model& model) {
  std::set<std::string> wrapped;
  for (std::size_t i = 0; i < wrap.size(); ++i) {
    if (wrap[i].modules.empty()) fail(fmt::format("plan.fully_shard.wrap[{}].modules", i), "at least one path");
    for (std::size_t m = 0; m < wrap[i].modules.size(); ++m) {
      const std::string& path = wrap[i].modules[m];
      const std::string place = fmt::format("plan.fully_shard.wrap[{}].modules[{}]", i, m);
      scenario::require_module(model, path, place);
      if (const Module& module = *find(model, path); module.kind == ModuleKind::use)
        fail(place, fmt::format("\"{}\" is a use of \"{}\": wrap \"{}\" instead", path, module.target, module.target));
      const auto above = std::ranges::find_if(
          wrapped, [&](const std::string& earlier) { return earlier != path && is_at_or_under(path, earlier); });
      if (above != wrapped.end()) {
        fail(place, fmt::format("\"{}\" comes after \"{}\": list children before parents", path, *above));
      }
    }
    wrapped.insert(wrap[i].modules.begin(), wrap[i].modules.end());
  }
  for (std::size_t i = 0; i < wrap.size(); ++i) {
    const auto require_groups = [&](const std::vector<std::string>& list, const char* key) {
      for (const std::string& path : list) {
        if (wrapped.contains(path)) continue;
        fail(fmt::format("plan.fully_shard.wrap[{}].{}", i, key),
             fmt::format("\"{}\" is not wrapped; {}", path, base::closest_or_all(wrapped, path)));
      }
    };
    require_groups(wrap[i].forward_prefetch, "forward_prefetch");
    require_groups(wrap[i].backward_prefetch, "backward_prefetch");
  }
}

// Split-off groups would have members that no rank can name.
void validate_imagined(const std::vector<WrapGroup>& wrap) {
  for (const WrapGroup& group : wrap) {
    if (group.reshard_after_forward.kind == ReshardAfterForward::Kind::size)
      scenario::refuse_imagined(fmt::format("group \"{}\" is resharded over fewer ranks", group.modules.front()));
  }
}

}  // namespace

constinit const EngineKind fully_shard_kind{
    .name = FullyShardPlan::name, .read = read, .own_features = FullyShardFeature::all};

std::string_view to_string(BackwardPrefetch prefetch) {
  return prefetch == BackwardPrefetch::previous ? "previous" : "none";
}

nlohmann::ordered_json FullyShardPlan::to_json() const {
  const FullyShardPlan usual;
  Json json = Json::object();
  Json& groups = json["wrap"] = Json::array();
  for (const WrapGroup& group : wrap) groups.push_back(write(group));
  if (backward_prefetch != usual.backward_prefetch) json["backward_prefetch"] = to_string(backward_prefetch);
  if (!ignored_parameters.empty()) json["ignored_parameters"] = ignored_parameters;
  if (!shard_dims.empty()) json["shard_dims"] = shard_dims;
  if (gradient_divide_factor != usual.gradient_divide_factor) json["gradient_divide_factor"] = gradient_divide_factor;
  if (live_reduce_inputs != usual.live_reduce_inputs) json["live_reduce_inputs"] = live_reduce_inputs;
  return json;
}

void FullyShardPlan::validate(const Scenario& scenario) const {
  validate_wrapping(wrap, scenario.model);
  const std::vector<ParameterShape> all = parameters(scenario.model);
  for (const std::string& parameter : ignored_parameters)
    require_parameter(all, parameter, "plan.fully_shard.ignored_parameters");
  for (const auto& [parameter, dim] : shard_dims)
    require_parameter(all, parameter, scenario::member_place("plan.fully_shard.shard_dims", parameter));
  if (!(gradient_divide_factor >= 0))
    fail("plan.fully_shard.gradient_divide_factor",
         fmt::format("expected a positive number, found {}", gradient_divide_factor));
  if (live_reduce_inputs < 1)
    fail("plan.fully_shard.live_reduce_inputs",
         fmt::format("expected an integer from 1 to {}, found {}", most_live_inputs, live_reduce_inputs));
  if (scenario.device.imagined_ranks != 0) validate_imagined(wrap);
}

std::vector<std::string> FullyShardPlan::groups(const Model& /*model*/) const {
  std::vector<std::string> names;
  for (const WrapGroup& group : wrap) {
    if (!group.modules.empty()) names.push_back(group.modules.front());
  }
  return names;
}

std::vector<std::string> FullyShardPlan::wrapped_modules() const {
  std::vector<std::string> paths;
  for (const WrapGroup& group : wrap) paths.insert(paths.end(), group.modules.begin(), group.modules.end());
  return paths;
}

std::string FullyShardPlan::objection_to_call(const Action& action) const {
  if (scenario::call_of(action.kind).scope != scenario::CallScope::groups) return {};
  const std::vector<std::string> wrapped = wrapped_modules();
  const bool some =
      std::ranges::any_of(wrapped, [&](const std::string& path) { return is_at_or_under(path, action.module); });
  return some ? std::string() : fmt::format("no module at or under \"{}\" is wrapped", action.module);
}

std::string FullyShardPlan::objection_to_extension(const ParameterShape& parameter) const {
  const std::string& of = parameter.name;
  if (std::ranges::find(ignored_parameters, of) != ignored_parameters.end())
    return fmt::format("\"{}\" is ignored: no rank gathers it", of);
  if (group_of(of) == nullptr) return fmt::format("no wrapped module holds \"{}\": no rank gathers it", of);
  const auto dim = shard_dims.find(of);
  if (dim != shard_dims.end() && dim->second != 0 && dim->second != -static_cast<int>(parameter.shape.size()))
    return fmt::format("\"{}\" is sharded along dimension {}: hooks are given rows", of, dim->second);
  return {};
}

const WrapGroup* FullyShardPlan::group_of(const std::string& parameter) const {
  if (std::ranges::find(ignored_parameters, parameter) != ignored_parameters.end()) return nullptr;
  // Children come before parents: the first that holds it is the deepest.
  const auto found = std::ranges::find_if(wrap, [&](const WrapGroup& group) {
    return std::ranges::any_of(group.modules, [&](const std::string& path) { return is_at_or_under(parameter, path); });
  });
  return found == wrap.end() ? nullptr : &*found;
}

}  // namespace shardproof
