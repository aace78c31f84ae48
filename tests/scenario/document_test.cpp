// Scenarios as documents: a written document is read back, and an error names its place.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/builder.hpp"
#include "harness/scenario/document.hpp"
#include "harness/scenario/document_error.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/scenario/plan/replicate.hpp"
#include "harness/scenario/scenario_json.hpp"

using namespace shardproof;
using namespace shardproof::scenario;
using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

namespace {

Json document() {
  return Json::parse(R"({
    "version": 2,
    "model": {
      "root": {"kind": "sequential", "children": [
        {"name": "layer", "kind": "linear", "in_features": 4, "out_features": 3, "forward_sleep": "25ms"},
        {"name": "relu", "kind": "relu"}
      ]},
      "loss": {"kind": "dot", "divisor": 2, "seed": 9}
    },
    "plan": {
      "optimizer": {"kind": "adamw", "rate": 0.125},
      "fully_shard": {"wrap": [{"modules": ["layer"], "reshard_after_forward": true}, {"modules": [""]}]}
    },
    "script": {"input": [2, 4], "segments": [{"iterations": 3, "body": ["forward", "backward", "step", "zero_grad"]}]},
    "costs": {
      "work": {"optimizer": "10ms", "forward": {"each": 7, "labelled": {"layer": "1.5us"}}},
      "collectives": {
        "all_gather": "10 ms",
        "reduce_scatter": {"each": {"fixed": "1ms", "per_kib": "2us"}, "tagged": {"layer": "3ms"}}
      },
      "host_call": "1us"
    }
  })");
}

std::string refusal(const Json& json) {
  try {
    json.get<Scenario>();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

std::string refusal(const std::string& text) {
  try {
    parse_scenario(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

/// The same as a command that reads a file shows it.
std::string refusal_in_file(const std::string& text, std::optional<int> world_size = std::nullopt) {
  try {
    parse_scenario(text, world_size);
  } catch (const DocumentError& error) {
    return error.in_file("a.json");
  }
  return "none";
}

struct Dice {
  explicit Dice(std::uint32_t seed) : engine(seed) {}
  std::int64_t up_to(std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(engine); }
  bool toss() { return up_to(1) == 1; }
  Nanoseconds time() { return toss() ? 0 : up_to(3'000'000'000) / (toss() ? 1 : 1000); }
  std::mt19937 engine;
};

Module random_module(Dice& dice, const std::string& name, int depth, std::int64_t& features) {
  Module module{.name = name};
  const auto choice = dice.up_to(depth > 0 ? 4 : 3);
  if (choice == 0) return {.name = name, .kind = ModuleKind::relu};
  if (choice == 1) {
    module.kind = ModuleKind::linear;
    module.in_features = features;
    module.out_features = features = 1 + dice.up_to(5);
    module.bias = dice.toss();
    module.tensor = static_cast<TensorKind>(dice.up_to(2));
    module.forward_sleep = dice.time();
    module.backward_sleep = dice.time();
    return module;
  }
  if (choice == 2) {
    module.kind = ModuleKind::convolution;
    module.in_features = features;
    module.channels = dice.toss() ? features : 1;
    module.out_features = features = 1 + dice.up_to(5);
    module.bias = dice.toss();
    module.tensor = static_cast<TensorKind>(dice.up_to(2));
    return module;
  }
  if (choice == 3) return {.name = name, .kind = ModuleKind::scale, .scalar = dice.toss(), .frozen = dice.toss()};
  // A residual adds what arrives: the features must come out as they came in.
  const std::int64_t arriving = features;
  module.frozen = dice.toss();
  for (int i = 0; i < 3; ++i)
    module.children.push_back(random_module(dice, "m" + std::to_string(i), depth - 1, features));
  if (features == arriving && dice.toss()) module.kind = ModuleKind::residual;
  if (module.kind == ModuleKind::sequential && dice.toss()) {
    module.kind = dice.toss() ? ModuleKind::discard : ModuleKind::list;
    features = arriving;
  }
  // Whichever child runs, what comes out has the features of what arrived.
  if (module.kind == ModuleKind::residual && dice.toss()) {
    module.children = {{.name = "m0", .kind = ModuleKind::residual, .children = std::move(module.children)},
                       {.name = "m1", .kind = ModuleKind::relu}};
    module.kind = ModuleKind::choice;
  }
  return module;
}

// The possible labels of this kind of work. Empty if the scenario has no such work.
std::optional<std::string> label_of(const Scenario& scenario, WorkKind kind) {
  if (kind == WorkKind::optimizer) {
    const auto all = parameters(scenario.model);
    return all.empty() ? std::nullopt : std::optional(all.front().name);
  }
  if (kind != WorkKind::forward && kind != WorkKind::backward) {
    return fully_shard_plan(scenario.plan).wrap.empty()
               ? std::nullopt
               : std::optional(fully_shard_plan(scenario.plan).wrap.front().modules.front());
  }
  for (const std::string& path : paths(scenario.model)) {
    if (!is_container(find(scenario.model, path)->kind)) return path;
  }
  return std::nullopt;
}

DType random_dtype(Dice& dice) {
  return std::array{DType::f32, DType::bf16, DType::f16}.at(static_cast<std::size_t>(dice.up_to(2)));
}

bool is_valid(const Scenario& scenario) {
  try {
    validate(scenario);
  } catch (const std::invalid_argument&) {
    return false;
  }
  return true;
}

Action random_registration(Dice& dice, std::string module) {
  Hook hook{.kind = static_cast<HookKind>(dice.up_to(5)),
            .point = static_cast<HookPoint>(dice.up_to(2)),
            .state = dice.toss() ? 0 : dice.up_to((1LL << 31) - 1),
            .direct = dice.toss(),
            .refused = dice.toss(),
            .fails_on = {}};
  if (dice.toss()) hook.fails_on = {0, static_cast<int>(1 + dice.up_to(6))};
  return {.kind = ActionKind::register_hook, .module = std::move(module), .hook = std::move(hook)};
}

// Before all else, what only comes before all else; extensions and hooks where the validator has nothing against them.
void begin_with_preparations(Dice& dice, Scenario& scenario) {
  std::vector<Action>& body =
      scenario.script.segments.insert(scenario.script.segments.begin(), Script::Segment())->body;
  const std::vector<ParameterShape> all = parameters(scenario.model);
  if (scenario.plan.initialisation == Initialisation::meta && !all.empty()) {
    if (dice.toss()) body.push_back({.kind = ActionKind::materialize});
    body.push_back({.kind = ActionKind::initialize});
  }
  for (const ParameterShape& parameter : all) {
    if (dice.toss()) continue;
    Extension extension{.kind = static_cast<ExtensionKind>(dice.up_to(4)),
                        .form = static_cast<ExtensionForm>(dice.up_to(1))};
    extension.pre = dice.toss();
    extension.post = dice.toss();
    if (dice.toss()) {
      extension.parameter = parameter.name;
    } else {
      extension.tensor = parameter.tensor;
    }
    body.push_back({.kind = ActionKind::extend, .extension = extension});
    if (!is_valid(scenario)) body.pop_back();
  }
  for (const std::string& path : paths(scenario.model)) {
    if (dice.toss()) continue;
    body.push_back(random_registration(dice, path));
    if (!is_valid(scenario)) body.pop_back();
  }
}

std::map<std::string, std::string> random_paths(Dice& dice, const Model& model) {
  std::map<std::string, std::string> chosen;
  visit(model.root, "", [&](const Module& module, const std::string& path) {
    if (module.kind == ModuleKind::choice && dice.toss()) chosen[path] = module.children.back().name;
  });
  return chosen;
}

std::vector<double> random_input(Dice& dice, const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(numel(shape)));
  for (double& value : values)
    value = static_cast<double>(dice.up_to(1000) - 500) / static_cast<double>(1 + dice.up_to(9));
  return values;
}

Scenario random_scenario(Dice& dice) {
  using Reshard = ReshardAfterForward::Kind;
  Scenario scenario;
  std::int64_t features = 1 + dice.up_to(5);
  scenario.script.input = {1 + dice.up_to(3), features};
  for (int i = 0; i < 3; ++i)
    scenario.model.root.children.push_back(random_module(dice, "m" + std::to_string(i), 2, features));
  scenario.model.loss = {.kind = static_cast<LossKind>(dice.up_to(2))};
  if (scenario.model.loss.kind != LossKind::sum) scenario.model.loss.divisor = static_cast<double>(1 + dice.up_to(4));
  if (scenario.model.loss.kind == LossKind::dot)
    scenario.model.loss.dot_seed = static_cast<std::uint32_t>(dice.up_to(1LL << 31));
  scenario.model.init_divisor = static_cast<int>(1 + dice.up_to(9));
  scenario.model.init = static_cast<Distribution>(dice.up_to(1));
  const auto all = paths(scenario.model);
  for (auto path = all.rbegin(); path != all.rend(); ++path) {  // depth first from the end: children before parents
    if (!dice.toss()) continue;
    const auto reshard = static_cast<Reshard>(dice.up_to(3));
    fully_shard_plan(scenario.plan)
        .wrap.push_back({.modules = {*path}, .reshard_after_forward = {reshard, reshard == Reshard::size ? 2 : 0}});
    if (dice.toss())
      fully_shard_plan(scenario.plan).wrap.back().forward_prefetch = {
          fully_shard_plan(scenario.plan).wrap.front().modules.front()};
    if (dice.toss()) fully_shard_plan(scenario.plan).wrap.back().backward_prefetch = {*path, *path};
  }
  if (dice.toss()) scenario.plan.mesh.shape = {2, 3};
  if (!scenario.plan.mesh.shape.empty() && dice.toss()) scenario.plan.mesh.names = {"replicate", "shard"};
  for (const ParameterShape& parameter : parameters(scenario.model)) {
    if (dice.up_to(3) == 0) fully_shard_plan(scenario.plan).ignored_parameters.push_back(parameter.name);
    if (dice.up_to(3) == 0)
      fully_shard_plan(scenario.plan).shard_dims[parameter.name] = static_cast<int>(dice.up_to(3)) - 2;
  }
  if (dice.toss()) fully_shard_plan(scenario.plan).gradient_divide_factor = 0.5;
  if (dice.toss()) fully_shard_plan(scenario.plan).live_reduce_inputs = 3;
  fully_shard_plan(scenario.plan).backward_prefetch = static_cast<BackwardPrefetch>(dice.up_to(1));
  scenario.plan.optimizer = {.kind = static_cast<OptimizerKind>(dice.up_to(2)),
                             .rate = static_cast<double>(dice.up_to(9)) / 7};
  if (scenario.plan.optimizer.kind == OptimizerKind::adamw)
    scenario.plan.optimizer.weight_decay = static_cast<double>(dice.up_to(3)) / 3;
  if (scenario.plan.optimizer.kind == OptimizerKind::sgd && dice.toss()) scenario.plan.optimizer.momentum = 0.5;
  if (dice.toss()) scenario.plan.mixed_precision.param = random_dtype(dice);
  if (dice.toss()) scenario.plan.mixed_precision.reduce = random_dtype(dice);
  if (dice.toss()) scenario.plan.mixed_precision.output = random_dtype(dice);
  scenario.plan.mixed_precision.cast_forward_inputs = dice.toss();
  scenario.plan.initialisation = static_cast<Initialisation>(dice.up_to(1));
  if (dice.toss())
    scenario.script.given = {{random_input(dice, scenario.script.input)}, {random_input(dice, scenario.script.input)}};
  scenario.script.keep_tensors = dice.toss();
  scenario.script.enforce_tags = dice.toss();
  scenario.script.input_divisor = static_cast<int>(1 + dice.up_to(9));
  for (int i = 0; i < 2; ++i) {
    scenario.script.segments.push_back(
        {.iterations = static_cast<int>(1 + dice.up_to(3)),
         .body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}}});
    std::vector<Action>& body = scenario.script.segments.back().body;
    const char* const runs = scenario.model.root.children.front().kind == ModuleKind::list || dice.toss() ? "" : "m0";
    if (dice.toss()) body.insert(body.begin(), {.kind = ActionKind::forward, .fails_in = runs});
    if (dice.toss()) body.front().paths = random_paths(dice, scenario.model);
    if (!is_valid(scenario)) body.front().paths.clear();  // a choice that does not run
    if (dice.toss())
      body.insert(body.begin(), {.kind = ActionKind::forward, .ranks = {0, static_cast<int>(1 + dice.up_to(6))}});
    if (dice.toss()) body.push_back({.kind = ActionKind::zero_grad, .to_zero = dice.toss()});
    if (dice.toss())
      body.push_back({.kind = ActionKind::clip_grad_norm, .max_norm = 0.5, .norm_type = dice.toss() ? 3 : HUGE_VAL});
    if (dice.toss()) {
      body.push_back({.kind = ActionKind::set_is_last_backward, .value = false});
      body.push_back({.kind = ActionKind::set_is_last_backward, .value = true});
    }
    if (!fully_shard_plan(scenario.plan).wrap.empty() && dice.toss())
      body.push_back({.kind = ActionKind::unshard, .async = dice.toss()});
    if (!fully_shard_plan(scenario.plan).wrap.empty() && dice.toss()) {
      body.push_back({.kind = ActionKind::set_requires_all_reduce,
                      .module = fully_shard_plan(scenario.plan).wrap[0].modules[0],
                      .value = dice.toss()});
    }
  }
  for (int i = 0; i < 3; ++i) {
    const auto kind = static_cast<WorkKind>(dice.up_to(static_cast<int>(WorkKind::other)));
    if (dice.toss()) scenario.costs.work[kind] = dice.time();
    if (const auto label = label_of(scenario, kind); label && dice.toss())
      scenario.costs.labelled_work[{kind, *label}] = dice.time();
    const auto collective = static_cast<CollectiveKind>(dice.up_to(static_cast<int>(CollectiveKind::coalesced)));
    if (dice.toss()) scenario.costs.collectives[collective] = {.fixed = dice.time(), .per_kib = dice.time()};
    const bool named = !fully_shard_plan(scenario.plan).wrap.empty() && dice.toss();
    const std::string tag =
        named ? fully_shard_plan(scenario.plan).wrap.back().modules.front() : std::string(gradient_norm_tag);
    if (dice.toss()) scenario.costs.tagged_collectives[{collective, tag}] = dice.time();
  }
  scenario.costs.host_call = dice.time();
  scenario.device.separate_resources = dice.toss();
  const bool splits = std::ranges::any_of(fully_shard_plan(scenario.plan).wrap, [](const auto& group) {
    return group.reshard_after_forward.kind == Reshard::size;
  });
  if (!splits && scenario.plan.mesh.shape.size() < 2 && dice.toss())
    scenario.device.imagined_ranks = static_cast<int>(2 + dice.up_to(6));
  scenario.device.single_stream = dice.toss();
  scenario.device.hide_undeclared_memory = dice.toss();
  begin_with_preparations(dice, scenario);
  return scenario;
}

}  // namespace

TEST_CASE("a document says what it says") {
  const auto scenario = document().get<Scenario>();
  CHECK(scenario.model.root.children[0].forward_sleep == 25'000'000);
  CHECK(scenario.model.loss == Loss{.kind = LossKind::dot, .divisor = 2, .dot_seed = 9});
  CHECK(fully_shard_plan(scenario.plan).wrap[0].reshard_after_forward.kind == ReshardAfterForward::Kind::yes);
  CHECK(fully_shard_plan(scenario.plan).wrap[1].reshard_after_forward.kind == ReshardAfterForward::Kind::automatic);
  CHECK(scenario.plan.optimizer == Optimizer{.kind = OptimizerKind::adamw, .rate = 0.125});
  CHECK(scenario.script.segments[0].iterations == 3);
  CHECK(scenario.script.segments[0].body[2].kind == ActionKind::step);
  CHECK(scenario.costs.of_work(WorkKind::forward, "other") == 7);
  CHECK(scenario.costs.of_work(WorkKind::forward, "layer") == 1'500);
  CHECK(scenario.costs.of_collective(CollectiveKind::all_gather, "", 1) == 10'000'000);
  CHECK(scenario.costs.of_collective(CollectiveKind::reduce_scatter, "", 1025) == 1'004'000);
  CHECK(scenario.costs.of_collective(CollectiveKind::reduce_scatter, "layer", 1025) == 3'000'000);
  CHECK(scenario.costs.host_call == 1'000);
}

// As the format was before plans had sections.
Json of_version_1(Json json) {
  Json plan{{"engine", "fully_shard"}};
  for (const auto& [key, value] : json["plan"].items()) {
    if (key == "fully_shard") plan.update(value);
    else plan[key] = value;
  }
  json.erase("version");
  json["plan"] = std::move(plan);
  return json;
}

TEST_CASE("a document of version 1 is read, and written as one of version 2") {
  const Json now = document(), then = of_version_1(now);
  CHECK(Json(then.get<Scenario>()) == Json(now.get<Scenario>()));
  Json with_version = then;
  with_version["version"] = 1;
  CHECK(with_version.get<Scenario>() == now.get<Scenario>());

  Json other_kind = then;
  other_kind["plan"]["engine"] = "telepathy";
  CHECK(refusal(other_kind) ==
        "scenario: plan.engine: no engine kind of this worker is named \"telepathy\"; kinds: fully_shard, flat_shard, "
        "replicate");
  other_kind["plan"]["engine"] = "fully_shrad";
  CHECK(refusal(other_kind) ==
        "scenario: plan.engine: no engine kind of this worker is named \"fully_shrad\"; closest is \"fully_shard\"; "
        "kinds: fully_shard, flat_shard, replicate");
  Json wrong = then;
  wrong["plan"]["wrap"][0]["modules"] = Json::array();
  CHECK(refusal(wrong) == "scenario: plan.wrap[0].modules: expected at least one path, found an array of 0");
  Json of_both = then;
  of_both["plan"]["fully_shard"] = now["plan"]["fully_shard"];
  CHECK(refusal(of_both) ==
        "scenario: plan.fully_shard: is a section of version 2: write \"version\": 2 into the document");
}

TEST_CASE("a document that mixes versions is answered with what to change") {
  Json forgotten = document();
  forgotten.erase("version");
  CHECK(refusal(forgotten) ==
        "scenario: plan.fully_shard: is a section of version 2: write \"version\": 2 into the document");
  forgotten["version"] = 1;
  CHECK(refusal(forgotten) ==
        "scenario: plan.fully_shard: is a section of version 2: write \"version\": 2 into the document");
  forgotten["plan"].erase("fully_shard");
  CHECK(refusal(forgotten) ==
        "scenario: plan: it has no \"engine\", which version 1 requires: for version 2, write \"version\": 2 into the "
        "document");
  Json late = of_version_1(document());
  late["version"] = 2;
  CHECK(refusal(late) ==
        "scenario: plan.engine: is a key of version 1: in version 2, a plan has a section with the name of its "
        "engine kind; kinds: fully_shard, flat_shard, replicate");
}

TEST_CASE("a plan has one engine section") {
  Json none = document();
  none["plan"].erase("fully_shard");
  CHECK(refusal(none) ==
        "scenario: plan: it has no engine section: add a section with the name of an engine kind; kinds: fully_shard, "
        "flat_shard, replicate");
  none["plan"]["flat_shrad"] = {{"wrap", {""}}};
  CHECK(refusal(none) ==
        "scenario: plan.flat_shrad: no such key, and no engine kind of this worker; closest is \"flat_shard\"; "
        "kinds: fully_shard, flat_shard, replicate; other keys: mesh, mixed_precision, initialisation, optimizer");
  Json two = document();
  two["plan"]["flat_shard"] = {{"wrap", {""}}};
  CHECK(refusal(two) == "scenario: plan: it has two engine sections, \"fully_shard\" and \"flat_shard\": keep one");
  Json newer = document();
  newer["version"] = 3;
  CHECK(refusal(newer) == "scenario: version: expected an integer from 1 to 2, found 3");
  CHECK_THROWS_AS(validate(Scenario{.script = {.input = {1, 1}}}), std::invalid_argument);
}

TEST_CASE("the ranks of a call may be in any order") {
  Json json = document();
  json["script"]["segments"][0]["body"][0] = {{"call", "forward"}, {"ranks", {2, 0, 1}}};
  json["script"]["segments"][0]["body"][1] = {{"call", "backward"}, {"ranks", {0, 1, 2}}};
  json["script"]["segments"][0]["body"][2] = "zero_grad";
  CHECK(json.get<Scenario>().script.segments[0].body[0].ranks == std::vector<int>{0, 1, 2});
}

TEST_CASE("places in a plan for flat_shard are in the document, and its calls are those that the kind has") {
  Json json = document();
  json["plan"] = {{"flat_shard", {{"wrap", {"layer", ""}}}}};
  const auto with_call = [&](const Json& call) {
    Json changed = json;
    changed["script"]["segments"][0]["body"].insert(changed["script"]["segments"][0]["body"].begin(), call);
    return refusal(changed);
  };
  CHECK(with_call("forward") == "none");
  CHECK(with_call({{"call", "set_requires_gradient_sync"}, {"value", true}}) == "none");
  CHECK(with_call({{"call", "set_requires_gradient_sync"}, {"module", "layer"}, {"value", true}}) ==
        "scenario: script.segments[0].body[0] (set_requires_gradient_sync): flat_shard has this switch for the "
        "whole model only: leave the module out");
  for (const char* call : {"unshard", "wait_for_unshard", "reshard", "post_optim_event"})
    CHECK(with_call(call) ==
          fmt::format("scenario: script.segments[0].body[0] ({}): engines of the kind flat_shard have no such call",
                      call));
  for (const char* call :
       {"set_requires_all_reduce", "set_reshard_after_backward", "set_unshard_in_backward", "set_is_last_backward"}) {
    CHECK(with_call({{"call", call}, {"value", false}}) ==
          fmt::format("scenario: script.segments[0].body[0] ({}): engines of the kind flat_shard have no such call",
                      call));
  }
  CHECK(with_call({{"call", "evaluate"}, {"module", "layer"}, {"method", true}}) ==
        "scenario: script.segments[0].body[0] (evaluate): engines of the kind flat_shard run no methods as forwards");
  CHECK(with_call({{"call", "clip_grad_norm"}, {"max_norm", 1}}) ==
        "scenario: script.segments[0].body[0] (clip_grad_norm): engines of the kind flat_shard have no such call");

  json["costs"]["collectives"]["all_gather"] = {{"each", "1ms"}, {"tagged", {{"execution order", "1us"}}}};
  CHECK(refusal(json) == "none");
  json["costs"]["collectives"]["all_gather"]["tagged"] = {{"execution odor", "1us"}};
  CHECK(refusal(json) ==
        "scenario: costs.collectives.all_gather.tagged.\"execution odor\": no collective has the tag \"execution "
        "odor\"; closest is \"execution order\"");
  for (const std::string key : {"fixed", "per_kib"}) {
    json["costs"]["collectives"]["all_gather"] = {{key, "1ms"}, {"tagged", {{"execution order", "1us"}}}};
    CHECK(refusal(json) == "scenario: costs.collectives.all_gather." + key +
                               ": not clear beside \"tagged\"; write the cost of collectives with other tags as "
                               "\"each\": {\"" +
                               key + "\": …}");
  }
  json["costs"].erase("collectives");

  json["plan"]["flat_shard"]["wrap"] = {"lair"};
  CHECK(refusal(json) == "scenario: plan.flat_shard.wrap[0]: the model has no module \"lair\"; closest is \"layer\"");
  json["plan"]["flat_shard"]["wrap"] = {"", "layer"};
  CHECK(refusal(json) == "scenario: plan.flat_shard.wrap[1]: \"layer\" comes after \"\": list children before parents");
  json["plan"]["flat_shard"] = {{"wrap", {""}}, {"strategy", "hybrid"}};
  CHECK(refusal(json).starts_with("scenario: plan.mesh: "));
}

namespace {

Json replicated() {
  Json json = document();
  json["plan"] = {{"replicate", Json::object()}};
  json.erase("costs");
  return json;
}

// The document with this section, or with these calls at its beginning.
std::string refusal_of_section(const Json& section) {
  Json json = replicated();
  json["plan"]["replicate"] = section;
  return refusal(json);
}

std::string refusal_of_replicated_call(const Json& call) {
  Json json = replicated();
  Json& body = json["script"]["segments"][0]["body"];
  body.insert(body.begin(), call);
  return refusal(json);
}

}  // namespace

TEST_CASE("a plan for replicate is read whole, and what is usual is not written") {
  Json json = replicated();
  const auto usual = json.get<Scenario>();
  CHECK(replicate_plan(usual.plan) == ReplicatePlan());
  CHECK(Json(usual)["plan"]["replicate"] == Json::object());

  const Json eager{
      {"first_bucket_bytes", 16}, {"bucket_bytes", 1}, {"gradients", "views"}, {"unused_parameters", true}};
  json["plan"]["replicate"] = eager;
  const auto of_eager = json.get<Scenario>();
  const ReplicatePlan& section = replicate_plan(of_eager.plan);
  CHECK((section.first_bucket_bytes == 16 && section.bucket_bytes == 1 && section.unused_parameters));
  CHECK(section.gradients == BucketGradients::views);
  CHECK(Json(of_eager)["plan"]["replicate"] == eager);

  for (const char* fusion : {"concat", "coalesce", "none"}) {
    for (const char* region : {"forward_backward", "backward"}) {
      CAPTURE(fusion, region);
      json["plan"]["replicate"] = {{"compile", {{"region", region}, {"fusion", fusion}, {"schedule_waits", false}}}};
      const auto compiled = json.get<Scenario>();
      CHECK(to_string(replicate_plan(compiled.plan).compile.value().fusion) == fusion);
      CHECK(to_string(replicate_plan(compiled.plan).compile.value().region) == region);
      CHECK_FALSE(replicate_plan(compiled.plan).compile.value().schedule_waits);
      CHECK(Json(compiled).get<Scenario>() == compiled);
    }
  }
  json["plan"]["replicate"] = {{"compile", Json::object()}};
  CHECK(replicate_plan(json.get<Scenario>().plan).compile == CompilePlan());
  CHECK(Json(json.get<Scenario>())["plan"]["replicate"] == json["plan"]["replicate"]);

  json["plan"] = {{"mesh", {{"shape", {2, 2}}, {"names", {"copies", "parts"}}}},
                  {"replicate", {{"tensor_parallel", {{"layer", "row"}}}}}};
  const auto parallel = json.get<Scenario>();
  CHECK(replicate_plan(parallel.plan).tensor_parallel ==
        std::map<std::string, TensorParallel>{{"layer", TensorParallel::row}});
  CHECK(Json(parallel)["plan"]["replicate"] == json["plan"]["replicate"]);

  json["plan"] = {{"replicate", {{"parameter_dtypes", {{"layer", "f16"}}}}}};
  const auto low = json.get<Scenario>();
  CHECK(replicate_plan(low.plan).parameter_dtypes == std::map<std::string, DType>{{"layer", DType::f16}});
  CHECK((replicate_plan(low.plan).dtype_of("layer.bias") == DType::f16 &&
         replicate_plan(low.plan).dtype_of("other.weight") == DType::f32));
  CHECK(Json(low)["plan"]["replicate"] == json["plan"]["replicate"]);
}

TEST_CASE("groups of replicate are the buckets that there can be, and only they and agreements are tags") {
  Json json = replicated();
  CHECK(json.get<Scenario>().plan.engine.get()->groups(json.get<Scenario>().model) ==
        std::vector<std::string>{"bucket 0", "bucket 1"});
  json["costs"]["collectives"] = {
      {"all_reduce", {{"each", "1ms"}, {"tagged", {{"bucket 1", "2ms"}, {"used parameters", "1us"}}}}}};
  CHECK(refusal(json) == "none");
  json["costs"]["collectives"]["all_reduce"]["tagged"] = {{"bucket 2", "2ms"}};
  CHECK(refusal(json).starts_with(
      "scenario: costs.collectives.all_reduce.tagged.\"bucket 2\": no collective has the tag \"bucket 2\""));
  json.erase("costs");
  json["model"]["root"]["children"][0]["frozen"] = true;
  CHECK(json.get<Scenario>().plan.engine.get()->groups(json.get<Scenario>().model).empty());
}

TEST_CASE("places in a plan for replicate are in the document") {
  CHECK(refusal_of_section({{"buckets", 1}})
            .starts_with("scenario: plan.replicate.buckets: no such key; there is first_bucket_bytes"));
  for (const char* limit : {"first_bucket_bytes", "bucket_bytes"}) {
    CHECK(refusal_of_section({{limit, 0}}) ==
          fmt::format("scenario: plan.replicate.{}: expected an integer from 1 to 1099511627776, found 0", limit));
  }
  CHECK(refusal_of_section({{"gradients", "vies"}}).starts_with("scenario: plan.replicate.gradients: "));
  CHECK(refusal_of_section({{"unused_parameters", 1}}).starts_with("scenario: plan.replicate.unused_parameters: "));
  CHECK(
      refusal_of_section({{"compile", {{"fusion", "all"}}}}).starts_with("scenario: plan.replicate.compile.fusion: "));
  CHECK(refusal_of_section({{"compile", {{"region", "forward"}}}})
            .starts_with("scenario: plan.replicate.compile.region: "));
  CHECK(refusal_of_section({{"compile", {{"wait", true}}}})
            .starts_with("scenario: plan.replicate.compile.wait: no such key"));
  CHECK(refusal_of_section({{"compile", Json::object()}, {"unused_parameters", true}}) ==
        "scenario: plan.replicate.unused_parameters: a compiled step needs a gradient of each parameter: leave out "
        "this key or compile");
  CHECK(refusal_of_section({{"compile", Json::object()}, {"gradients", "views"}}) ==
        "scenario: plan.replicate.gradients: a compiled step has no gradients in buckets: leave the key out");
  Json json = replicated();
  json["plan"]["mixed_precision"] = {{"reduce", "bf16"}};
  CHECK(refusal(json) ==
        "scenario: plan.mixed_precision: replicate has no mixed precision: leave the key out, or register a hook that "
        "compresses gradients");
}

TEST_CASE("dtypes are for modules that have parameters, alike where these are shared, and for sgd") {
  Json json = replicated();
  const auto of = [&](const Json& dtypes) {
    json["plan"]["replicate"]["parameter_dtypes"] = dtypes;
    return refusal(json);
  };
  const std::string place = "scenario: plan.replicate.parameter_dtypes.";
  CHECK(of({{"layer", "bf16"}}) == "none");
  CHECK(of({{"layer", "f32"}}) == place + "layer: expected \"bf16\" or \"f16\", found \"f32\"");
  CHECK(of({{"lair", "bf16"}}) == place + "lair: the model has no module \"lair\"; closest is \"layer\"");
  CHECK(of({{"relu", "bf16"}}) == place + "relu: expected a module that has parameters, found \"relu\", of kind relu");
  CHECK(of({{"", "bf16"}}) == place + "\"\": expected a module that has parameters, found \"\", of kind sequential");

  json["plan"]["optimizer"] = {{"kind", "adam"}};
  CHECK(of({{"layer", "bf16"}}) ==
        "scenario: plan.optimizer.kind: parameter_dtypes need sgd, found adam: its averages lose too much in a low "
        "dtype");
  json["plan"].erase("optimizer");

  Json& children = json["model"]["root"]["children"];
  children.push_back({{"name", "back"}, {"kind", "linear"}, {"in_features", 3}, {"out_features", 4}});
  children.push_back(
      {{"name", "head"}, {"kind", "linear"}, {"in_features", 4}, {"out_features", 3}, {"tied_to", "layer"}});
  CHECK(of({{"layer", "bf16"}, {"head", "bf16"}}) == "none");
  CHECK(of({{"layer", "bf16"}}) == place +
                                       "layer: \"head\" shares the weight of \"layer\", but one is f32 and the other "
                                       "bf16: give both the same dtype");
  CHECK(
      of({{"layer", "bf16"}, {"head", "f16"}}) ==
      place +
          "head: \"head\" shares the weight of \"layer\", but one is f16 and the other bf16: give both the same dtype");

  json = replicated();
  json["plan"]["mesh"] = {{"shape", {2, 2}}, {"names", {"copies", "parts"}}};
  json["plan"]["replicate"]["tensor_parallel"] = {{"layer", "row"}};
  CHECK(of({{"layer", "bf16"}}) ==
        place + "layer: \"layer\" is divided, and sums over parts would round in bf16: divide it, or give it a dtype");
}

TEST_CASE("tensor parallelism is for linear modules whose features divide, on a mesh of two dimensions") {
  const Json parallel{{"tensor_parallel", {{"layer", "row"}}}};
  CHECK(refusal_of_section(parallel) ==
        "scenario: plan.mesh: tensor_parallel needs two dimensions, copies and parts, as in {\"shape\": [2, 2]}; found "
        "1");
  Json json = replicated();
  json["plan"]["mesh"] = {{"shape", {2, 2}}, {"names", {"copies", "parts"}}};
  CHECK(refusal(json) ==
        "scenario: plan.mesh: 2 dimensions need tensor_parallel: divide modules, or give the mesh one dimension");
  const auto of = [&](const char* module, const char* way) {
    json["plan"]["replicate"] = {{"tensor_parallel", {{module, way}}}};
    return refusal(json);
  };
  CHECK(of("layer", "row") == "none");
  CHECK(of("layer", "column") ==
        "scenario: plan.replicate.tensor_parallel.layer: \"layer\" has 3 output features for 2 ranks: choose a "
        "multiple of 2");
  CHECK(of("lair", "row") ==
        "scenario: plan.replicate.tensor_parallel.lair: the model has no module \"lair\"; closest is \"layer\"");
  CHECK(of("relu", "row") ==
        "scenario: plan.replicate.tensor_parallel.relu: expected a linear module, found \"relu\", of kind relu");
  CHECK(of("layer", "rows").starts_with("scenario: plan.replicate.tensor_parallel.layer: "));
  Json& children = json["model"]["root"]["children"];
  children.push_back({{"name", "back"}, {"kind", "linear"}, {"in_features", 3}, {"out_features", 4}});
  children.push_back(
      {{"name", "head"}, {"kind", "linear"}, {"in_features", 4}, {"out_features", 3}, {"tied_to", "layer"}});
  CHECK(of("head", "row")
            .starts_with("scenario: plan.replicate.tensor_parallel.head: \"head\" shares the weight of \"layer\""));
}

TEST_CASE("calls in a plan for replicate are those that the kind has") {
  CHECK(refusal_of_replicated_call("forward") == "none");
  CHECK(refusal_of_replicated_call({{"call", "set_requires_gradient_sync"}, {"value", true}}) == "none");
  CHECK(refusal_of_replicated_call({{"call", "register_hook"}, {"hook", "plain"}}) == "none");
  CHECK(refusal_of_replicated_call({{"call", "set_requires_gradient_sync"}, {"module", "layer"}, {"value", true}}) ==
        "scenario: script.segments[0].body[0] (set_requires_gradient_sync): replicate has this switch for the whole "
        "model only: leave the module out");
  CHECK(refusal_of_replicated_call({{"call", "evaluate"}, {"module", "layer"}, {"method", true}}) ==
        "scenario: script.segments[0].body[0] (evaluate): engines of the kind replicate run no methods as forwards");
  const auto no_such_call = [](const char* call) {
    return fmt::format("scenario: script.segments[0].body[0] ({}): engines of the kind replicate have no such call",
                       call);
  };
  for (const char* call : {"unshard", "wait_for_unshard", "reshard", "post_optim_event"})
    CHECK(refusal_of_replicated_call(call) == no_such_call(call));
  for (const char* call :
       {"set_requires_all_reduce", "set_reshard_after_backward", "set_unshard_in_backward", "set_is_last_backward"})
    CHECK(refusal_of_replicated_call({{"call", call}, {"value", false}}) == no_such_call(call));
  CHECK(refusal_of_replicated_call({{"call", "clip_grad_norm"}, {"max_norm", 1}}) == no_such_call("clip_grad_norm"));
  CHECK(refusal_of_replicated_call({{"call", "extend"}, {"parameter", "layer.weight"}, {"extension", "bf16"}})
            .ends_with("\"layer.weight\" is whole on every rank, and is not gathered"));
}

TEST_CASE("what is written is read back, and written the same again") {
  const auto seed = Catch::getSeed();
  INFO("replay with --rng-seed " << seed);
  Dice dice(seed);
  for (int i = 0; i < 300; ++i) {
    const Scenario scenario = random_scenario(dice);
    const std::string text = Json(scenario).dump();
    INFO(text);
    const Scenario again = parse_scenario(text);
    REQUIRE(again == scenario);
    REQUIRE(Json(again).dump() == text);
  }
}

TEST_CASE("a document says which extensions there are, and what is given") {
  Json json = document();
  json["plan"]["initialisation"] = "meta";
  json["plan"]["mixed_precision"] = {{"reduce", "bf16"}, {"cast_forward_inputs", false}};
  json["script"]["given"] = {{{1, 2, 3, 4, 5, 6, 7, 0.5}}};
  json["script"]["keep_tensors"] = true;
  json["script"]["segments"][0]["iterations"] = 1;
  Json& body = json["script"]["segments"][0]["body"];
  body = {{{"call", "extend"},
           {"parameter", "layer.weight"},
           {"extension", "int8"},
           {"form", "minimal"},
           {"hooks", {"post"}}},
          {{"call", "materialize"}, {"module", "layer"}},
          "initialize"};
  const auto scenario = json.get<Scenario>();
  CHECK(scenario.plan.initialisation == Initialisation::meta);
  CHECK(scenario.plan.mixed_precision == MixedPrecision{.reduce = DType::bf16, .cast_forward_inputs = false});
  CHECK(scenario.script.given == std::vector<std::vector<std::vector<double>>>{{{1, 2, 3, 4, 5, 6, 7, 0.5}}});
  CHECK(scenario.script.keep_tensors);
  const std::vector<Action> read{
      {.kind = ActionKind::extend,
       .extension =
           Extension{
               .parameter = "layer.weight", .kind = ExtensionKind::int8, .form = ExtensionForm::minimal, .pre = false}},
      {.kind = ActionKind::materialize, .module = "layer"},
      {.kind = ActionKind::initialize}};
  CHECK(scenario.script.segments[0].body == read);
}

TEST_CASE("a document says which hooks there are, and where") {
  Json json = document();
  Json& body = json["script"]["segments"][0]["body"];
  const auto registration = [](const Json& keys) {
    Json call{{"call", "register_hook"}};
    call.update(keys);
    return call;
  };
  const Json full = registration({{"module", "layer"},
                                  {"hook", "doubled"},
                                  {"point", "after_accumulation"},
                                  {"state", 5},
                                  {"direct", true},
                                  {"fails_on", {0, 2}}});
  body = {full, registration({{"hook", "fp16_compress"}, {"refused", true}})};
  const auto scenario = json.get<Scenario>();
  const std::vector<Action> read{
      {.kind = ActionKind::register_hook,
       .module = "layer",
       .hook = Hook{.kind = HookKind::doubled,
                    .point = HookPoint::after_accumulation,
                    .state = 5,
                    .direct = true,
                    .fails_on = {0, 2}}},
      {.kind = ActionKind::register_hook, .hook = Hook{.kind = HookKind::fp16_compress, .refused = true}}};
  CHECK(scenario.script.segments[0].body == read);
  CHECK(Json(scenario)["script"]["segments"][0]["body"] == body);

  const auto refused = [&](const Json& call) {
    body = Json::array({call});
    return refusal(json);
  };
  const std::string place = "scenario: script.segments[0].body[0]";
  CHECK(refused("register_hook").starts_with(place));
  CHECK(refused(registration({{"hook", "half"}})) ==
        place +
            ".hook: unknown hook \"half\"; hooks: \"plain\", \"doubled\", \"sum\", \"fp16_compress\", "
            "\"bf16_compress\", \"not_callable\"");
  CHECK(refused(registration({{"hook", "plain"}, {"point", "late"}})) ==
        place + ".point: unknown name \"late\"; names: \"reduction\", \"after_reduction\", \"after_accumulation\"");
  CHECK(refused(registration({{"hook", "sum"}, {"point", "after_reduction"}})) ==
        place + ".hook: a sum is for the point reduction only");
  CHECK(refused(registration({{"hook", "bf16_compress"}, {"fails_on", {0}}})) ==
        place + ".fails_on: the engine's own hooks cannot fail as planned");
  for (const Json& never : {Json{{"hook", "plain"}, {"refused", true}}, Json{{"hook", "not_callable"}}}) {
    Json call = registration(never);
    call["fails_on"] = {0};
    CHECK(refused(call) == place + ".fails_on: a hook that engines refuse is never called");
  }
  CHECK(refused(registration({{"hook", "plain"}, {"module", "lair"}})) ==
        place + ".module: the model has no module \"lair\"; closest is \"layer\"");
  CHECK(refused(registration({{"hook", "plain"}, {"module", "relu"}})) ==
        place + " (register_hook): no module at or under \"relu\" is wrapped");
}

TEST_CASE("a document omits default values") {
  const Json json = Scenario(sleeping_stack(1));
  CHECK(json["plan"] == Json::parse(R"({"fully_shard": {"wrap": [{"modules": ["0"]}, {"modules": [""]}]}})"));
  CHECK_FALSE(json.contains("costs"));
  CHECK_FALSE(json["model"].contains("loss"));
}

TEST_CASE("an error names the place, what was expected there and what was found") {
  struct Wrong {
    const char* pointer;
    Json value;
    const char* message;
  };
  const std::vector<Wrong> all{
      {"", 7, "scenario: expected an object, found 7"},
      {"/costs/colectives", "1ms",
       "scenario: costs.colectives: no such key; closest is \"collectives\"; there is work, collectives, host_call, "
       "separate_resources, "
       "imagined_ranks, single_stream, hide_undeclared_memory"},
      {"/model/root/kind", "liner",
       R"(scenario: model.root.kind: unknown kind "liner"; closest is "linear"; kinds: "sequential", "linear", )"
       R"("convolution", "relu", "scale", "embedding", "layer_norm", "attention", "residual", "discard", "list", )"
       R"("choice", "use")"},
      {"/model/root/kind", 3,
       R"(scenario: model.root.kind: expected one of "sequential", "linear", "convolution", "relu", "scale", )"
       R"("embedding", "layer_norm", "attention", "residual", "discard", "list", "choice", "use", found 3)"},
      {"/plan/optimizer/kind", "adamW",
       R"(scenario: plan.optimizer.kind: unknown kind "adamW"; closest is "adamw"; kinds: "sgd", "adam", "adamw")"},
      {"/costs/collectives/all_gathr", "1ms",
       R"(scenario: costs.collectives.all_gathr: unknown kind "all_gathr"; closest is "all_gather"; kinds: )"
       R"("all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all", "send_recv", "barrier", )"
       R"("coalesced")"},
      {"/model/root/children/0/in_features", 0,
       "scenario: model.root.children[0].in_features: expected an integer from 1 to 1048576, found 0"},
      {"/model/root/children/0/in_features", 4.0,
       "scenario: model.root.children[0].in_features: expected an integer from 1 to 1048576, found 4.0"},
      {"/model/init", "normal", R"(scenario: model.init: unknown name "normal"; names: "uniform", "truncated_normal")"},
      {"/model/root/children/0",
       Json::object({{"name", "c"}, {"kind", "convolution"}, {"in_features", 4}, {"out_features", 4}}),
       "scenario: model.root.children[0].channels: is missing"},
      {"/model/root/children/0",
       Json::object({{"name", "c"}, {"kind", "convolution"}, {"channels", 0}, {"in_features", 4}, {"out_features", 4}}),
       "scenario: model.root.children[0].channels: expected an integer from 1 to 1048576, found 0"},
      {"/model/root/children/0",
       Json::object({{"name", "c"}, {"kind", "convolution"}, {"channels", 3}, {"in_features", 4}, {"out_features", 4}}),
       R"(scenario: model.root.children[0] ("c"): 3 channels do not divide its 4 input features: )"
       R"(choose a divisor of 4)"},
      {"/model/root/children/0/bias", "no",
       "scenario: model.root.children[0].bias: expected true or false, found \"no\""},
      {"/model/root/children/0/forward_sleep", "25 parsecs",
       "scenario: model.root.children[0].forward_sleep: expected a duration from 0 to a day: up to 86400000000000 "
       "nanoseconds, or a text like \"25ms\" or \"1.5us\", found \"25 parsecs\""},
      {"/model/root/children/1/children", Json::array(),
       "scenario: model.root.children[1].children: no such key; there is name, kind"},
      {"/model/root/children/1", Json::object({{"kind", "relu"}}), "scenario: model.root.children[1].name: is missing"},
      {"/model/root/children/1", Json::object({{"name", "relu"}}),
       R"(scenario: model.root.children[1].kind: is missing; )"
       R"(one of "sequential", "linear", "convolution", "relu", "scale", "embedding", "layer_norm", )"
       R"("attention", "residual", "discard", "list", "choice", "use")"},
      {"/plan/fully_shard/wrap/0/reshard_after_forward", 2.5,
       "scenario: plan.fully_shard.wrap[0].reshard_after_forward: expected true, false, a number of ranks or "
       "\"automatic\", found 2.5"},
      {"/plan/fully_shard/wrap/0/modules", Json::array(),
       "scenario: plan.fully_shard.wrap[0].modules: expected at least one path, found an array of 0"},
      {"/plan/mesh",
       {{"shape", {2, 0}}},
       "scenario: plan.mesh.shape[1]: expected an integer from 1 to 1048576, found 0"},
      {"/plan/fully_shard/shard_dims",
       {{"layer.weight", 9}},
       "scenario: plan.fully_shard.shard_dims.\"layer.weight\": expected an integer from -8 to 8, found 9"},
      {"/plan/fully_shard/gradient_divide_factor", 0,
       "scenario: plan.fully_shard.gradient_divide_factor: expected a positive number, found 0"},
      {"/model/root/children/0/tied_to", "",
       "scenario: model.root.children[0].tied_to: expected a text that is not empty, found \"\""},
      {"/script/segments/0/body/1", "clip_grad_norm",
       "scenario: script.segments[0].body[1]: expected an object: this call says more than its name, found "
       "\"clip_grad_norm\""},
      {"/model/root/children/0/tensor", "pair",
       "scenario: model.root.children[0].tensor: unknown name \"pair\"; closest is \"plain\"; names: \"plain\", "
       "\"two_tensor\", \"low_precision\""},
      {"/plan/mixed_precision",
       {{"param", "f64"}},
       "scenario: plan.mixed_precision.param: expected \"bf16\", \"f16\" or \"f32\", found \"f64\""},
      {"/plan/mixed_precision",
       {{"params", "f32"}},
       "scenario: plan.mixed_precision.params: no such key; closest is \"param\"; there is param, reduce, output, "
       "cast_forward_inputs"},
      {"/plan/initialisation", "deferred",
       "scenario: plan.initialisation: unknown name \"deferred\"; names: \"direct\", \"meta\""},
      {"/script/given", Json::array(),
       "scenario: script.given: expected inputs for at least one iteration, found an array of 0"},
      {"/script/given", Json::array({Json::array()}),
       "scenario: script.given[0]: expected the input of at least one rank, found an array of 0"},
      {"/script/given", {{{1, "2"}}}, "scenario: script.given[0][0][1]: expected a finite number, found \"2\""},
      {"/script/segments/0/body/0", "extend",
       "scenario: script.segments[0].body[0]: expected an object: this call says more than its name, found \"extend\""},
      {"/script/segments/0/body/0",
       {{"call", "extend"}, {"extension", "bf16"}},
       "scenario: script.segments[0].body[0]: expected what it is for, as \"parameter\" or as \"tensor\", found an "
       "object of 2"},
      {"/script/segments/0/body/0",
       {{"call", "extend"}, {"parameter", "layer.weight"}, {"tensor", "two_tensor"}, {"extension", "bf16"}},
       "scenario: script.segments[0].body[0]: expected what it is for, as \"parameter\" or as \"tensor\", found an "
       "object of 4"},
      {"/script/segments/0/body/0",
       {{"call", "extend"}, {"tensor", "plain"}, {"extension", "bf16"}},
       "scenario: script.segments[0].body[0].tensor: expected a kind that is not plain: plain parameters are named "
       "one by one, found \"plain\""},
      {"/script/segments/0/body/0",
       {{"call", "extend"}, {"parameter", "layer.weight"}},
       "scenario: script.segments[0].body[0].extension: is missing; one of \"components\", \"bf16\", \"int8\", "
       "\"unpadded\", \"truncated\""},
      {"/script/segments/0/body/0",
       {{"call", "register_hook"}},
       "scenario: script.segments[0].body[0].hook: is missing; one of \"plain\", \"doubled\", \"sum\", "
       "\"fp16_compress\", \"bf16_compress\", \"not_callable\""},
      {"/script/segments/0/body/0",
       {{"call", "extend"}, {"parameter", "layer.weight"}, {"extension", "bf16"}, {"hooks", {"pre", "pre"}}},
       "scenario: script.segments[0].body[0].hooks[1]: expected \"pre\" or \"post\", each once at most, found \"pre\""},
      {"/script/segments/0/body/1",
       {{"call", "set_is_last_backward"}},
       "scenario: script.segments[0].body[1].value: is missing"},
      {"/script/segments/0/body/1",
       {{"call", "clip_grad_norm"}, {"max_norm", 1}, {"norm_type", "inf"}},
       "scenario: script.segments[0].body[1].norm_type: expected a positive number or \"infinity\", found \"inf\""},
      {"/script/segments/0/body/1",
       {{"call", "backward"}, {"module", "layer"}},
       "scenario: script.segments[0].body[1].module: no such key; there is call, micro_batch, ranks"},
      {"/script/segments/0/body/1",
       {{"call", "backward"}, {"ranks", Json::array()}},
       "scenario: script.segments[0].body[1].ranks: expected at least one rank: leave the key out for all, found an "
       "array of 0"},
      {"/script/segments/0/body/1",
       {{"call", "backward"}, {"ranks", {1, 1}}},
       "scenario: script.segments[0].body[1].ranks[1]: expected each rank once, found 1"},
      {"/script/segments/0/body/1",
       {{"call", "zero_grad"}, {"to", "nothing"}},
       "scenario: script.segments[0].body[1].to: expected \"zero\" or \"none\", found \"nothing\""},
      {"/script/segments/0/body/1",
       {{"call", "evaluate"}, {"paths", {{"layer", 1}}}},
       "scenario: script.segments[0].body[1].paths.layer: expected a text that is not empty, found 1"},
      {"/script/segments/0/body/1",
       {{"call", "evaluate"}, {"method", true}},
       "scenario: script.segments[0].body[1].method: only a forward of one module can use a method: name the module"},
      {"/plan/fully_shard/live_reduce_inputs", 0,
       "scenario: plan.fully_shard.live_reduce_inputs: expected an integer from 1 to 1048576, found 0"},
      {"/script/segments/0/body/1", 7,
       "scenario: script.segments[0].body[1]: expected the name of a call, or an object that has it as \"call\", found "
       "7"},
      {"/plan/fully_shard/wrap/0/modules", Json::array({"lair"}),
       "scenario: plan.fully_shard.wrap[0].modules[0]: the model has no module \"lair\"; closest is \"layer\""},
      {"/plan/optimizer/rate", nullptr, "scenario: plan.optimizer.rate: expected a finite number, found null"},
      {"/script/segments/0/body/1", "backwards",
       "scenario: script.segments[0].body[1]: unknown call \"backwards\"; closest is \"backward\"; calls: \"forward\", "
       "\"backward\", \"step\", \"zero_grad\", "
       "\"post_optim_event\", \"capture\", \"evaluate\", \"clip_grad_norm\", \"unshard\", \"wait_for_unshard\", "
       "\"reshard\", \"set_requires_gradient_sync\", \"set_requires_all_reduce\", \"set_reshard_after_backward\", "
       "\"set_unshard_in_backward\", \"set_is_last_backward\", \"extend\", \"materialize\", \"initialize\", "
       "\"register_hook\""},
      {"/costs/work/optimiser", "1ms",
       "scenario: costs.work.optimiser: unknown kind \"optimiser\"; closest is \"optimizer\"; kinds: \"forward\", "
       "\"backward\", \"copy_in\", \"copy_out\", "
       "\"reduce_copy_in\", \"reduce_copy_out\", \"loss\", \"optimizer\", \"fill\", \"snapshot\", \"other\""},
      {"/costs/host_call", -1,
       "scenario: costs.host_call: expected a duration from 0 to a day: up to 86400000000000 nanoseconds, or a text "
       "like \"25ms\" or \"1.5us\", found -1"},
  };
  for (const Wrong& wrong : all) {
    Json json = document();
    json[Json::json_pointer(wrong.pointer)] = wrong.value;
    CHECK(refusal(json) == wrong.message);
  }
}

TEST_CASE("what is no document at all is refused as well") {
  CHECK(refusal(std::string("{")).starts_with("scenario: invalid JSON: "));
  CHECK(refusal(std::string(R"({"model": 1e999})")).starts_with("scenario: invalid JSON: "));
  CHECK(refusal(std::string(R"({"model": 1, "plan": {}, "model": 2})")) ==
        "scenario: duplicate key \"model\": remove one of the two");
  CHECK(refusal(std::string(200, '[')) == "JSON nested deeper than 100 levels");
}

TEST_CASE("a document names its world size, and other sizes are refused with the size to use") {
  Json json = document();
  json["world_size"] = 4;
  CHECK(json.get<Scenario>().world_size == 4);
  CHECK(Json(json.get<Scenario>())["world_size"] == 4);
  CHECK_FALSE(Json(document().get<Scenario>()).contains("world_size"));
  CHECK(parse_scenario(json.dump(), 4).world_size == 4);
  CHECK(refusal_in_file(json.dump(), 2) ==
        fmt::format("a.json:1:{}: scenario: world_size: is 4, but the world has 2 ranks: use --ranks 4, or leave "
                    "--ranks out",
                    json.dump().find("\"world_size\"") + 1));
  json.erase("world_size");
  json["plan"]["mesh"] = {{"shape", {2, 2}}, {"names", {"copies", "parts"}}};
  const std::string refused = refusal_in_file(json.dump(), 2);
  CHECK(refused.starts_with("a.json:1:"));
  CHECK(refused.ends_with(": scenario: plan.mesh.shape: the mesh has 4 ranks, and the world has 2: use --ranks 4"));
  CHECK(refusal_in_file(json.dump(), 4) == "none");
  json["world_size"] = 2;
  CHECK(refusal(json) == "scenario: plan.mesh.shape: the mesh has 4 ranks, and the world has 2");
  json["world_size"] = 0;
  CHECK(refusal(json) == "scenario: world_size: expected an integer from 1 to 1024, found 0");
}

TEST_CASE("micro-batches are written out as calls with the numbers of their inputs") {
  Json json = document();
  Json& body = json["script"]["segments"][0]["body"];
  body = Json::parse(R"([
    {"call": "set_requires_gradient_sync", "value": false},
    {"micro_batches": 3, "body": ["forward", "backward"]},
    {"call": "set_requires_gradient_sync", "value": true},
    {"micro_batches": 1, "body": ["forward", "backward"]}, "step", "zero_grad"])");
  const Scenario read = json.get<Scenario>();
  std::vector<std::pair<ActionKind, int>> calls;
  for (const Action& action : read.script.segments[0].body) calls.emplace_back(action.kind, action.micro_batch);
  using enum ActionKind;
  const std::vector<std::pair<ActionKind, int>> expected{{set_requires_gradient_sync, 0},
                                                         {forward, 0},
                                                         {backward, 0},
                                                         {forward, 1},
                                                         {backward, 1},
                                                         {forward, 2},
                                                         {backward, 2},
                                                         {set_requires_gradient_sync, 0},
                                                         {forward, 3},
                                                         {backward, 3},
                                                         {step, 0},
                                                         {zero_grad, 0}};
  CHECK(calls == expected);
  const Json written = read;
  CHECK(written["script"]["segments"][0]["body"][3].dump() == R"({"call":"forward","micro_batch":1})");
  CHECK(written.get<Scenario>() == read);
}

TEST_CASE("errors in micro-batches have their place in the document") {
  Json json = document();
  const auto refused = [&](const char* text) {
    json["script"]["segments"][0]["body"] = Json::parse(text);
    return refusal(json);
  };
  CHECK(refused(R"([{"micro_batches": 2, "body": ["forward", "backward"]}, "backward"])") ==
        "scenario: script.segments[0].body[1] (backward): rank 0 has run no forward before it");
  CHECK(refused(R"([{"micro_batches": 2, "body": ["forward", "backward", "backward"]}])") ==
        "scenario: script.segments[0].body[0].body[2] (backward): rank 0 has run no forward before it");
  CHECK(refused(R"([{"micro_batches": 0, "body": []}])") ==
        "scenario: script.segments[0].body[0].micro_batches: expected an integer from 1 to 1000, found 0");
  CHECK(refused(R"([{"micro_batches": 600, "body": []}, {"micro_batches": 600, "body": []}])") ==
        "scenario: script.segments[0].body[1].micro_batches: the blocks up to here have 1200 micro-batches, "
        "and an iteration has at most 1000: shorten a block");
  CHECK(refused(R"([{"micro_batches": 2, "body": [{"micro_batches": 2, "body": []}]}])") ==
        "scenario: script.segments[0].body[0].body[0]: a block of micro-batches cannot contain another block: move it "
        "out");
  CHECK(refused(R"([{"micro_batches": 2, "body": [{"call": "forward", "micro_batch": 1}]}])") ==
        "scenario: script.segments[0].body[0].body[0].micro_batch: leave \"micro_batch\" out: the block numbers its "
        "calls");
  CHECK(refused(R"(["forward", {"micro_batchs": 2, "body": []}])") ==
        "scenario: script.segments[0].body[1].micro_batchs: no such key; closest is \"micro_batches\"; there is "
        "micro_batches, body");
  CHECK(refused(R"([{"body": []}])") == "scenario: script.segments[0].body[0].micro_batches: is missing");
  CHECK(refused(R"([{"micro_batches": 2, "body": [], "steps": 1}])")
            .starts_with("scenario: script.segments[0].body[0].steps: no such key"));
  json["script"]["given"] = {{std::vector<double>(8, 1)}};
  CHECK(refused(R"([{"micro_batches": 2, "body": ["forward", "backward"]}])") ==
        "scenario: script.given: inputs of micro-batches come only from the formula: leave `given` out");
}

TEST_CASE("a text has the line and the column of an error") {
  CHECK(refusal_in_file("{\n  \"version\": 2,\n  \"model\": {,}\n}")
            .starts_with("a.json:3:13: scenario: invalid JSON: syntax error "));
  CHECK(refusal_in_file("{\n  \"version\": 2,\n  \"version\": 2}") ==
        "a.json:3:3: scenario: duplicate key \"version\": remove one of the two");
  CHECK(refusal_in_file("{\n  \"version\": 2,\n  \"plam\": 2}")
            .starts_with("a.json:3:3: scenario: plam: no such key; closest is \"plan\""));
  CHECK(refusal_in_file("{\n  \"version\": 2}").starts_with("a.json:1:1: scenario: model: is missing"));
  CHECK(refusal_in_file("{\"version\": 2").starts_with("a.json:1:14: scenario: invalid JSON: syntax error "));
  CHECK(refusal_in_file("[1]").starts_with("a.json:1:1: scenario: expected an object"));
  std::string text = document().dump(2);
  text.replace(text.find("\"1ms\""), 5, "\"-1ms\"");
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("\"-1ms\"")), '\n');
  CHECK(refusal_in_file(text).starts_with(
      fmt::format("a.json:{}:11: scenario: costs.collectives.reduce_scatter.each.fixed: expected a duration", line)));
}

TEST_CASE("a cost by tag is for its tag, and other collectives keep `each`") {
  const CostModel costs = document().get<Scenario>().costs;
  CHECK(costs.of_collective(CollectiveKind::reduce_scatter, "layer", 4096) == 3'000'000);
  CHECK(costs.of_collective(CollectiveKind::reduce_scatter, "", 4096) == 1'008'000);
}

TEST_CASE("durations that no clock holds are refused") {
  for (const char* text : {"-1ms", "1e3ms", "99999999999999999999s", "9223372036854775807s", "1.5ns", "25 hours", ""}) {
    CAPTURE(text);
    Json json = document();
    json["costs"]["host_call"] = text;
    CHECK(refusal(json).starts_with("scenario: costs.host_call: expected a duration from 0 to a day"));
  }
  for (const Json& number : {Json(-1), Json(86'400'000'000'001), Json(18'446'744'073'709'551'615U), Json(1.5)}) {
    CAPTURE(number);
    Json json = document();
    json["costs"]["host_call"] = number;
    CHECK(refusal(json).starts_with("scenario: costs.host_call: expected a duration from 0 to a day"));
  }
}

TEST_CASE("durations are exact in both directions") {
  CHECK(duration_text(0) == "0ns");
  CHECK(duration_text(25'000'000) == "25ms");
  CHECK(duration_text(1'500) == "1.5us");
  CHECK(duration_text(1'000'000'001) == "1.000000001s");
  CHECK(parse_duration("0.25 ms") == 250'000);
  CHECK(parse_duration("1.0ns") == 1);
  for (const char* wrong : {"", "ms", "1", "1 m", "-1ms", "1.ms", ".5ms", "1.5ns", "0.0001us", "1e3ms", "1  ms",
                            "99999999999999999999ns", "9223372037s"}) {
    INFO(wrong);
    CHECK(parse_duration(wrong) == std::nullopt);
  }
  const auto seed = Catch::getSeed();
  INFO("replay with --rng-seed " << seed);
  Dice dice(seed);
  for (int i = 0; i < 1000; ++i) {
    const Nanoseconds time = dice.up_to(90'000'000'000'000) >> dice.up_to(46);
    REQUIRE(parse_duration(duration_text(time)) == time);
  }
}
