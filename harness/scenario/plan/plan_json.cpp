#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/closest.hpp"
#include "harness/scenario/parts_json.hpp"
#include "harness/scenario/refusal.hpp"

namespace shardproof::scenario {

namespace {

using Json = nlohmann::ordered_json;

Json write(const Mesh& mesh) {
  Json json{{"shape", mesh.shape}};
  if (!mesh.names.empty()) json["names"] = mesh.names;
  return json;
}

Mesh read_mesh(const Node& node) {
  node.expect_keys({"shape", "names"});
  Mesh mesh;
  for (const Node& size : node.at("shape").elements())
    mesh.shape.push_back(static_cast<int>(size.integer(1, most_ranks)));
  if (const auto names = node.find("names")) mesh.names = names->texts();
  return mesh;
}

Json write(const Optimizer& optimizer) {
  const Optimizer usual{.kind = optimizer.kind};
  Json json{{"kind", to_string(optimizer.kind)}};
  const auto put = [&](const char* key, double value, double otherwise) {
    if (value != otherwise) json[key] = value;
  };
  put("rate", optimizer.rate, usual.rate);
  if (optimizer.kind == OptimizerKind::sgd) {
    put("momentum", optimizer.momentum, usual.momentum);
  } else {
    put("beta1", optimizer.beta1, usual.beta1);
    put("beta2", optimizer.beta2, usual.beta2);
    put("epsilon", optimizer.epsilon, usual.epsilon);
    put("weight_decay", optimizer.weight_decay, usual.weight_decay);
  }
  return json;
}

Optimizer read_optimizer(const Node& node) {
  Optimizer optimizer;
  optimizer.kind = node.choice_at("kind", OptimizerKind::adamw);
  if (optimizer.kind == OptimizerKind::sgd) {
    node.expect_keys({"kind", "rate", "momentum"});
  } else {
    node.expect_keys({"kind", "rate", "beta1", "beta2", "epsilon", "weight_decay"});
  }
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, double*>>{{"rate", &optimizer.rate},
                                                              {"momentum", &optimizer.momentum},
                                                              {"beta1", &optimizer.beta1},
                                                              {"beta2", &optimizer.beta2},
                                                              {"epsilon", &optimizer.epsilon},
                                                              {"weight_decay", &optimizer.weight_decay}}) {
    if (const auto number = node.find(key)) *value = number->number();
  }
  return optimizer;
}

// The dtypes that layers can compute in.
constexpr std::array real_dtypes{DType::bf16, DType::f16, DType::f32};

DType read_dtype(const Node& node) {
  for (const DType dtype : real_dtypes) {
    if (node.is_text() && node.text() == to_string(dtype)) return dtype;
  }
  node.fail("\"bf16\", \"f16\" or \"f32\"");
}

}  // namespace

Json write_mixed_precision(const MixedPrecision& mixed) {
  Json json = Json::object();
  if (mixed.param) json["param"] = to_string(*mixed.param);
  if (mixed.reduce) json["reduce"] = to_string(*mixed.reduce);
  if (mixed.output) json["output"] = to_string(*mixed.output);
  if (mixed.cast_forward_inputs != MixedPrecision().cast_forward_inputs)
    json["cast_forward_inputs"] = mixed.cast_forward_inputs;
  return json;
}

MixedPrecision read_mixed_precision(const Node& node) {
  node.expect_keys({"param", "reduce", "output", "cast_forward_inputs"});
  MixedPrecision mixed;
  if (const auto dtype = node.find("param")) mixed.param = read_dtype(*dtype);
  if (const auto dtype = node.find("reduce")) mixed.reduce = read_dtype(*dtype);
  if (const auto dtype = node.find("output")) mixed.output = read_dtype(*dtype);
  if (const auto cast = node.find("cast_forward_inputs")) mixed.cast_forward_inputs = cast->boolean();
  return mixed;
}

namespace {

Plan read_shared(const Node& node) {
  Plan plan;
  if (const auto mesh = node.find("mesh")) plan.mesh = read_mesh(*mesh);
  if (const auto mixed = node.find("mixed_precision")) plan.mixed_precision = read_mixed_precision(*mixed);
  if (const auto initialisation = node.find("initialisation"))
    plan.initialisation = initialisation->choice(Initialisation::meta);
  if (const auto optimizer = node.find("optimizer")) plan.optimizer = read_optimizer(*optimizer);
  return plan;
}

// `closest is "flat_shard"; kinds: fully_shard, flat_shard`
std::string kinds_near(const std::string& asked) {
  std::string kinds;
  for (const EngineKind& kind : engine_kinds())
    kinds += fmt::format("{}{}", kinds.empty() ? "kinds: " : ", ", kind.name);
  return base::closest_hint(names_of_engine_kinds(), asked, '"') + kinds;
}

void expect_shared_keys_and_kinds(const Node& node) {
  for (const auto& [key, value] : node.members()) {
    if (std::ranges::find(shared_plan_keys, key) != shared_plan_keys.end() || find_engine_kind(key) != nullptr)
      continue;
    if (key == "engine")
      fail(value.place(),
           "is a key of version 1: in version 2, a plan has a section with the name of its engine kind; " +
               kinds_near(""));
    fail(value.place(), fmt::format("no such key, and no engine kind of this worker; {}; other keys: {}",
                                    kinds_near(key), fmt::join(shared_plan_keys, ", ")));
  }
}

}  // namespace

Json write_plan(const Plan& plan) {
  Json json = Json::object();
  if (plan.mesh != Mesh()) json["mesh"] = write(plan.mesh);
  if (plan.mixed_precision != MixedPrecision()) json["mixed_precision"] = write_mixed_precision(plan.mixed_precision);
  if (plan.initialisation != Plan().initialisation) json["initialisation"] = to_string(plan.initialisation);
  if (plan.optimizer != Optimizer()) json["optimizer"] = write(plan.optimizer);
  if (const EngineSection* const section = plan.engine.get()) json[std::string(section->kind())] = section->to_json();
  return json;
}

Plan read_plan(const Node& node) {
  expect_shared_keys_and_kinds(node);
  Plan plan = read_shared(node);
  for (const EngineKind& kind : engine_kinds()) {
    const auto section = node.find(kind.name);
    if (!section) continue;
    if (plan.engine.get() != nullptr)
      fail(node.place(),
           fmt::format("it has two engine sections, \"{}\" and \"{}\": keep one", plan.engine.kind(), kind.name));
    plan.engine = ChosenEngine(kind.read(*section));
  }
  if (plan.engine.get() == nullptr)
    fail(node.place(), "it has no engine section: add a section with the name of an engine kind; " + kinds_near(""));
  return plan;
}

Plan read_plan_of_version_1(const Node& node) {
  for (const EngineKind& kind : engine_kinds()) {
    if (node.has(kind.name))
      fail(member_place(node.place(), kind.name), R"(is a section of version 2: write "version": 2 into the document)");
  }
  if (!node.has("engine"))
    fail(node.place(),
         R"(it has no "engine", which version 1 requires: for version 2, write "version": 2 into the document)");
  const Node engine = node.at("engine");
  const EngineKind* const kind = find_engine_kind(engine.text());
  if (kind == nullptr)
    fail(engine.place(),
         fmt::format("no engine kind of this worker is named \"{}\"; {}", engine.text(), kinds_near(engine.text())));
  Json section = Json::object();
  for (const auto& [key, value] : node.members()) {
    if (key != "engine" && std::ranges::find(shared_plan_keys, key) == shared_plan_keys.end())
      section[key] = value.json();
  }
  Plan plan = read_shared(node);
  plan.engine = ChosenEngine(kind->read({section, node.place()}));
  return plan;
}

}  // namespace shardproof::scenario
