#include <cmath>
#include <limits>
#include <utility>

#include "harness/scenario/parts_json.hpp"

namespace shardproof::scenario {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t most_iterations = 1'000'000;

// What a call may say besides its name.
struct Arguments {
  bool module = false, fails_in = false, value = false, async = false, norm = false;
  bool required() const { return value || norm; }
};

Arguments arguments(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward: return {.module = true, .fails_in = true};
    case ActionKind::evaluate:
    case ActionKind::wait_for_unshard:
    case ActionKind::reshard: return {.module = true};
    case ActionKind::unshard: return {.module = true, .async = true};
    case ActionKind::set_requires_gradient_sync:
    case ActionKind::set_requires_all_reduce:
    case ActionKind::set_reshard_after_backward:
    case ActionKind::set_unshard_in_backward: return {.module = true, .value = true};
    case ActionKind::set_is_last_backward: return {.value = true};
    case ActionKind::clip_grad_norm: return {.norm = true};
    case ActionKind::backward:
    case ActionKind::step:
    case ActionKind::zero_grad:
    case ActionKind::post_optim_event:
    case ActionKind::extend:
    case ActionKind::capture: return {};
    case ActionKind::materialize:
    case ActionKind::initialize: return {.module = true};
  }
  return {};
}

Json write(const Action& action) {
  const Arguments has = arguments(action.kind);
  if (!has.required() && action == Action{.kind = action.kind}) return to_string(action.kind);
  Json json{{"call", to_string(action.kind)}};
  if (!action.module.empty()) json["module"] = action.module;
  if (action.fails_in) json["fails_in"] = *action.fails_in;
  if (has.value) json["value"] = action.value;
  if (action.async) json["async"] = true;
  if (has.norm) {
    json["max_norm"] = action.max_norm;
    if (std::isinf(action.norm_type)) {
      json["norm_type"] = "infinity";
    } else if (action.norm_type != Action().norm_type) {
      json["norm_type"] = action.norm_type;
    }
  }
  return json;
}

double read_norm_type(const Node& node) {
  if (!node.is_text()) return node.positive_number();
  if (node.text() != "infinity") node.fail("a positive number or \"infinity\"");
  return std::numeric_limits<double>::infinity();
}

Action read_action(const Node& node) {
  if (node.is_text()) {
    const Action action{.kind = node.choice(ActionKind::initialize)};
    if (arguments(action.kind).required()) node.fail("an object: this call says more than its name");
    return action;
  }
  if (!node.is_object()) node.fail("the name of a call, or an object that has it as \"call\"");
  Action action{.kind = node.at("call").choice(ActionKind::initialize)};
  const Arguments has = arguments(action.kind);
  std::vector<std::string_view> known{"call"};
  if (has.module) known.push_back("module");
  if (has.fails_in) known.push_back("fails_in");
  if (has.value) known.push_back("value");
  if (has.async) known.push_back("async");
  if (has.norm) known.insert(known.end(), {"max_norm", "norm_type"});
  node.expect_keys(known);
  if (const auto module = node.find("module")) action.module = module->text();
  if (const auto module = node.find("fails_in")) action.fails_in = module->text();
  if (has.value) action.value = node.at("value").boolean();
  if (const auto async = node.find("async")) action.async = async->boolean();
  if (has.norm) {
    action.max_norm = node.at("max_norm").positive_number();
    if (const auto type = node.find("norm_type")) action.norm_type = read_norm_type(*type);
  }
  return action;
}

}  // namespace

Json write_script(const Script& script) {
  Json json{{"input", script.input}};
  if (script.input_divisor != Script().input_divisor) json["input_divisor"] = script.input_divisor;
  Json& segments = json["segments"] = Json::array();
  for (const Script::Segment& segment : script.segments) {
    Json body = Json::array();
    for (const Action& action : segment.body) body.push_back(write(action));
    Json& written = segments.emplace_back(Json::object());
    if (segment.iterations != 1) written["iterations"] = segment.iterations;
    written["body"] = std::move(body);
  }
  return json;
}

Script read_script(const Node& node) {
  node.expect_keys({"input", "input_divisor", "segments"});
  Script script;
  for (const Node& extent : node.at("input").elements()) script.input.push_back(extent.integer(1, most_features));
  if (const auto divisor = node.find("input_divisor")) script.input_divisor = read_divisor(*divisor);
  for (const Node& segment : node.at("segments").elements()) {
    segment.expect_keys({"iterations", "body"});
    Script::Segment& read = script.segments.emplace_back();
    if (const auto iterations = segment.find("iterations")) read.iterations = static_cast<int>(iterations->integer(1, most_iterations));
    for (const Node& action : segment.at("body").elements()) read.body.push_back(read_action(action));
  }
  return script;
}

}  // namespace shardproof::scenario
