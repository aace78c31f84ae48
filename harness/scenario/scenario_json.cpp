#include "harness/scenario/scenario_json.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/protocol/json_parse.hpp"
#include "harness/scenario/document.hpp"

namespace shardproof::scenario {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t most_features = 1 << 20;  // a typing error should not take all memory
constexpr std::int64_t most_iterations = 1'000'000;

// -- Model ---------------------------------------------------------------------------------------------------------------------------------

Json write(const Module& module, bool is_root) {
  const Module usual;
  Json json = Json::object();
  if (!is_root) json["name"] = module.name;
  json["kind"] = to_string(module.kind);
  if (module.kind == ModuleKind::linear) {
    json["in_features"] = module.in_features;
    json["out_features"] = module.out_features;
    if (module.bias != usual.bias) json["bias"] = module.bias;
  }
  if (module.forward_sleep != 0) json["forward_sleep"] = duration_text(module.forward_sleep);
  if (module.backward_sleep != 0) json["backward_sleep"] = duration_text(module.backward_sleep);
  if (module.kind == ModuleKind::sequential) {
    Json& children = json["children"] = Json::array();
    for (const Module& child : module.children) children.push_back(write(child, false));
  }
  return json;
}

Module read_module(const Node& node, bool is_root) {
  Module module;
  if (!is_root) module.name = node.at("name").text();
  module.kind = node.at("kind").choice(ModuleKind::relu);
  switch (module.kind) {
    case ModuleKind::sequential:
      if (is_root) {
        node.expect_keys({"kind", "children"});
      } else {
        node.expect_keys({"name", "kind", "children"});
      }
      for (const Node& child : node.at("children").elements()) module.children.push_back(read_module(child, false));
      break;
    case ModuleKind::linear:
      node.expect_keys({"name", "kind", "in_features", "out_features", "bias", "forward_sleep", "backward_sleep"});
      module.in_features = node.at("in_features").integer(1, most_features);
      module.out_features = node.at("out_features").integer(1, most_features);
      if (const auto bias = node.find("bias")) module.bias = bias->boolean();
      if (const auto sleep = node.find("forward_sleep")) module.forward_sleep = sleep->duration();
      if (const auto sleep = node.find("backward_sleep")) module.backward_sleep = sleep->duration();
      break;
    case ModuleKind::relu: node.expect_keys({"name", "kind"}); break;
  }
  return module;
}

Json write(const Loss& loss) {
  Json json{{"kind", to_string(loss.kind)}};
  if (loss.divisor != Loss().divisor) json["divisor"] = loss.divisor;
  if (loss.kind == LossKind::dot && loss.dot_seed != Loss().dot_seed) json["seed"] = loss.dot_seed;
  return json;
}

Loss read_loss(const Node& node) {
  Loss loss;
  loss.kind = node.at("kind").choice(LossKind::dot);
  switch (loss.kind) {
    case LossKind::sum: node.expect_keys({"kind"}); break;
    case LossKind::sum_of_squares: node.expect_keys({"kind", "divisor"}); break;
    case LossKind::dot: node.expect_keys({"kind", "divisor", "seed"}); break;
  }
  if (const auto divisor = node.find("divisor")) loss.divisor = divisor->number();
  if (const auto seed = node.find("seed"))
    loss.dot_seed = static_cast<std::uint32_t>(seed->integer(0, std::numeric_limits<std::uint32_t>::max()));
  return loss;
}

Json write(const Model& model) {
  Json json{{"root", write(model.root, true)}};
  if (model.loss != Loss()) json["loss"] = write(model.loss);
  if (model.init_divisor != Model().init_divisor) json["init_divisor"] = model.init_divisor;
  return json;
}

int read_divisor(const Node& node) { return static_cast<int>(node.integer(1, std::numeric_limits<int>::max())); }

Model read_model(const Node& node) {
  node.expect_keys({"root", "loss", "init_divisor"});
  Model model;
  model.root = read_module(node.at("root"), true);
  if (const auto loss = node.find("loss")) model.loss = read_loss(*loss);
  if (const auto divisor = node.find("init_divisor")) model.init_divisor = read_divisor(*divisor);
  return model;
}

// -- Plan ----------------------------------------------------------------------------------------------------------------------------------

Json write(const WrapGroup& group) {
  using Kind = ReshardAfterForward::Kind;
  Json json{{"modules", group.modules}};
  if (group.reshard_after_forward.kind != Kind::automatic) json["reshard_after_forward"] = group.reshard_after_forward.kind == Kind::yes;
  return json;
}

ReshardAfterForward read_reshard(const Node& node) {
  using Kind = ReshardAfterForward::Kind;
  if (node.is_boolean()) return {node.boolean() ? Kind::yes : Kind::no};
  if (node.is_text() && node.text() == "automatic") return {};
  node.fail("true, false or \"automatic\"");
}

WrapGroup read_group(const Node& node) {
  node.expect_keys({"modules", "reshard_after_forward"});
  WrapGroup group{.modules = node.at("modules").texts(), .reshard_after_forward = {}};
  if (const auto reshard = node.find("reshard_after_forward")) group.reshard_after_forward = read_reshard(*reshard);
  return group;
}

Json write(const Optimizer& optimizer) {
  const Optimizer usual{.kind = optimizer.kind};
  Json json{{"kind", to_string(optimizer.kind)}};
  const auto put = [&](const char* key, double value, double otherwise) {
    if (value != otherwise) json[key] = value;
  };
  put("rate", optimizer.rate, usual.rate);
  if (optimizer.kind == OptimizerKind::adamw) {
    put("beta1", optimizer.beta1, usual.beta1);
    put("beta2", optimizer.beta2, usual.beta2);
    put("epsilon", optimizer.epsilon, usual.epsilon);
    put("weight_decay", optimizer.weight_decay, usual.weight_decay);
  }
  return json;
}

Optimizer read_optimizer(const Node& node) {
  Optimizer optimizer;
  optimizer.kind = node.at("kind").choice(OptimizerKind::adamw);
  if (optimizer.kind == OptimizerKind::sgd) {
    node.expect_keys({"kind", "rate"});
  } else {
    node.expect_keys({"kind", "rate", "beta1", "beta2", "epsilon", "weight_decay"});
  }
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, double*>>{{"rate", &optimizer.rate},
                                                                                         {"beta1", &optimizer.beta1},
                                                                                         {"beta2", &optimizer.beta2},
                                                                                         {"epsilon", &optimizer.epsilon},
                                                                                         {"weight_decay", &optimizer.weight_decay}}) {
    if (const auto number = node.find(key)) *value = number->number();
  }
  return optimizer;
}

Json write(const Plan& plan) {
  Json json{{"engine", plan.engine}};
  Json& wrap = json["wrap"] = Json::array();
  for (const WrapGroup& group : plan.wrap) wrap.push_back(write(group));
  if (plan.backward_prefetch != Plan().backward_prefetch) json["backward_prefetch"] = to_string(plan.backward_prefetch);
  if (plan.optimizer != Optimizer()) json["optimizer"] = write(plan.optimizer);
  return json;
}

Plan read_plan(const Node& node) {
  node.expect_keys({"engine", "wrap", "backward_prefetch", "optimizer"});
  Plan plan;
  plan.engine = node.at("engine").text();
  for (const Node& group : node.at("wrap").elements()) plan.wrap.push_back(read_group(group));
  if (const auto prefetch = node.find("backward_prefetch")) plan.backward_prefetch = prefetch->choice(BackwardPrefetch::none);
  if (const auto optimizer = node.find("optimizer")) plan.optimizer = read_optimizer(*optimizer);
  return plan;
}

// -- Script --------------------------------------------------------------------------------------------------------------------------------

Json write(const Script& script) {
  Json json{{"input", script.input}};
  if (script.input_divisor != Script().input_divisor) json["input_divisor"] = script.input_divisor;
  Json& segments = json["segments"] = Json::array();
  for (const Script::Segment& segment : script.segments) {
    Json body = Json::array();
    for (const Action& action : segment.body) body.push_back(to_string(action.kind));
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
    for (const Node& action : segment.at("body").elements()) read.body.push_back({action.choice(ActionKind::capture)});
  }
  return script;
}

// -- Costs ---------------------------------------------------------------------------------------------------------------------------------

template <class Kind>
Json named_costs(const std::map<std::pair<Kind, std::string>, Nanoseconds>& costs, Kind kind) {
  Json json = Json::object();
  for (const auto& [which, cost] : costs) {
    if (which.first == kind) json[which.second] = duration_text(cost);
  }
  return json;
}

template <class Kind>
std::map<std::pair<Kind, std::string>, Nanoseconds> read_named(const Node& node, Kind kind) {
  std::map<std::pair<Kind, std::string>, Nanoseconds> costs;
  for (const auto& [name, cost] : node.members()) costs[{kind, name}] = cost.duration();
  return costs;
}

// The kinds that anything is said of.
template <class Kind, class Each>
std::set<Kind> kinds(const std::map<Kind, Each>& each, const std::map<std::pair<Kind, std::string>, Nanoseconds>& named) {
  std::set<Kind> all;
  for (const auto& entry : each) all.insert(entry.first);
  for (const auto& entry : named) all.insert(entry.first.first);
  return all;
}

Json write_work(const CostModel& costs, WorkKind kind) {
  const Json labelled = named_costs(costs.labelled_work, kind);
  const auto each = costs.work.find(kind);
  if (labelled.empty()) return duration_text(each->second);
  Json json = Json::object();
  if (each != costs.work.end()) json["each"] = duration_text(each->second);
  json["labelled"] = labelled;
  return json;
}

Json write_collective(const CostModel& costs, CollectiveKind kind) {
  const Json tagged = named_costs(costs.tagged_collectives, kind);
  const auto each = costs.collectives.find(kind);
  if (tagged.empty() && each->second.per_kib == 0) return duration_text(each->second.fixed);
  Json json = Json::object();
  if (each != costs.collectives.end()) {
    json["fixed"] = duration_text(each->second.fixed);
    if (each->second.per_kib != 0) json["per_kib"] = duration_text(each->second.per_kib);
  }
  if (!tagged.empty()) json["tagged"] = tagged;
  return json;
}

Json write(const CostModel& costs) {
  Json json = Json::object();
  for (const WorkKind kind : kinds(costs.work, costs.labelled_work)) {
    json["work"][std::string(to_string(kind))] = write_work(costs, kind);
  }
  for (const CollectiveKind kind : kinds(costs.collectives, costs.tagged_collectives)) {
    json["collectives"][std::string(to_string(kind))] = write_collective(costs, kind);
  }
  if (costs.host_call != 0) json["host_call"] = duration_text(costs.host_call);
  if (costs.separate_resources) json["separate_resources"] = true;
  if (costs.single_stream) json["single_stream"] = true;
  return json;
}

template <class Kind>
Kind read_kind(const std::string& name, const Node& node, Kind last) {
  const Json text = name;
  return Node(text, node.place() + ", the key").choice(last);
}

void read_work(const Node& node, CostModel& costs) {
  for (const auto& [name, cost] : node.members()) {
    const WorkKind kind = read_kind(name, node, WorkKind::other);
    if (!cost.is_object()) {
      costs.work[kind] = cost.duration();
      continue;
    }
    cost.expect_keys({"each", "labelled"});
    if (const auto each = cost.find("each")) costs.work[kind] = each->duration();
    if (const auto labelled = cost.find("labelled")) costs.labelled_work.merge(read_named(*labelled, kind));
  }
}

void read_collectives(const Node& node, CostModel& costs) {
  for (const auto& [name, cost] : node.members()) {
    const CollectiveKind kind = read_kind(name, node, CollectiveKind::coalesced);
    if (!cost.is_object()) {
      costs.collectives[kind] = {.fixed = cost.duration()};
      continue;
    }
    cost.expect_keys({"fixed", "per_kib", "tagged"});
    const auto fixed = cost.find("fixed");
    const auto per_kib = cost.find("per_kib");
    if (fixed || per_kib) {
      costs.collectives[kind] = {.fixed = fixed ? fixed->duration() : 0, .per_kib = per_kib ? per_kib->duration() : 0};
    }
    if (const auto tagged = cost.find("tagged")) costs.tagged_collectives.merge(read_named(*tagged, kind));
  }
}

CostModel read_costs(const Node& node) {
  node.expect_keys({"work", "collectives", "host_call", "separate_resources", "single_stream"});
  CostModel costs;
  if (const auto work = node.find("work")) read_work(*work, costs);
  if (const auto collectives = node.find("collectives")) read_collectives(*collectives, costs);
  if (const auto host_call = node.find("host_call")) costs.host_call = host_call->duration();
  if (const auto separate = node.find("separate_resources")) costs.separate_resources = separate->boolean();
  if (const auto single = node.find("single_stream")) costs.single_stream = single->boolean();
  return costs;
}

// Of two values with one key a parser keeps one, and the writer of the other would wonder.
class KeyWatch {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    require_shallow(depth, event);
    switch (event) {
      case Json::parse_event_t::object_start: open_.emplace_back(); break;
      case Json::parse_event_t::object_end: open_.pop_back(); break;
      case Json::parse_event_t::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!open_.back().insert(key).second)
          throw std::invalid_argument(fmt::format("scenario: the key \"{}\" stands twice in one object", key));
        break;
      }
      default: break;
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> open_;
};

}  // namespace

void to_json(Json& json, const Scenario& scenario) {
  json = Json{{"model", write(scenario.model)}, {"plan", write(scenario.plan)}, {"script", write(scenario.script)}};
  if (scenario.costs != CostModel()) json["costs"] = write(scenario.costs);
}

void from_json(const Json& json, Scenario& scenario) {
  const Node node(json, "");
  node.expect_keys({"model", "plan", "script", "costs"});
  Scenario read{.model = read_model(node.at("model")),
                .plan = read_plan(node.at("plan")),
                .script = read_script(node.at("script")),
                .costs = node.has("costs") ? read_costs(node.at("costs")) : CostModel()};
  validate(read);
  scenario = std::move(read);
}

Scenario parse_scenario(std::string_view text) {
  try {
    return Json::parse(text, KeyWatch()).get<Scenario>();
  } catch (const Json::exception& error) {  // also a number that no double can hold
    throw std::invalid_argument(fmt::format("scenario: no JSON: {}", error.what()));
  }
}

}  // namespace shardproof::scenario
