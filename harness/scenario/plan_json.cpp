#include <array>

#include "harness/scenario/parts_json.hpp"

namespace shardproof::scenario {

namespace {

using Json = nlohmann::ordered_json;

constexpr int most_ranks = 1 << 20;

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
  if (node.is_integer()) return {.kind = Kind::size, .size = static_cast<int>(node.integer(-most_ranks, most_ranks))};
  if (node.is_text() && node.text() == "automatic") return {};
  node.fail("true, false, a number of ranks or \"automatic\"");
}

Json write(const WrapGroup& group) {
  Json json{{"modules", group.modules}};
  if (group.reshard_after_forward != ReshardAfterForward()) json["reshard_after_forward"] = write(group.reshard_after_forward);
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

Json write(const Mesh& mesh) {
  Json json{{"shape", mesh.shape}};
  if (!mesh.names.empty()) json["names"] = mesh.names;
  return json;
}

Mesh read_mesh(const Node& node) {
  node.expect_keys({"shape", "names"});
  Mesh mesh;
  for (const Node& size : node.at("shape").elements()) mesh.shape.push_back(static_cast<int>(size.integer(1, most_ranks)));
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
  if (optimizer.kind != OptimizerKind::sgd) {
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

// Not all dtypes: what layers can compute in.
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
  if (mixed.cast_forward_inputs != MixedPrecision().cast_forward_inputs) json["cast_forward_inputs"] = mixed.cast_forward_inputs;
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

Json write_plan(const Plan& plan) {
  Json json{{"engine", plan.engine}};
  if (plan.mesh != Mesh()) json["mesh"] = write(plan.mesh);
  Json& wrap = json["wrap"] = Json::array();
  for (const WrapGroup& group : plan.wrap) wrap.push_back(write(group));
  if (plan.backward_prefetch != Plan().backward_prefetch) json["backward_prefetch"] = to_string(plan.backward_prefetch);
  if (!plan.ignored_parameters.empty()) json["ignored_parameters"] = plan.ignored_parameters;
  if (!plan.shard_dims.empty()) json["shard_dims"] = plan.shard_dims;
  if (plan.gradient_divide_factor != 0) json["gradient_divide_factor"] = plan.gradient_divide_factor;
  if (plan.mixed_precision != MixedPrecision()) json["mixed_precision"] = write_mixed_precision(plan.mixed_precision);
  if (plan.initialisation != Plan().initialisation) json["initialisation"] = to_string(plan.initialisation);
  if (plan.optimizer != Optimizer()) json["optimizer"] = write(plan.optimizer);
  return json;
}

Plan read_plan(const Node& node) {
  node.expect_keys({"engine", "mesh", "wrap", "backward_prefetch", "ignored_parameters", "shard_dims", "gradient_divide_factor",
                    "mixed_precision", "initialisation", "optimizer"});
  Plan plan;
  plan.engine = node.at("engine").text();
  if (const auto mesh = node.find("mesh")) plan.mesh = read_mesh(*mesh);
  for (const Node& group : node.at("wrap").elements()) plan.wrap.push_back(read_group(group));
  if (const auto prefetch = node.find("backward_prefetch")) plan.backward_prefetch = prefetch->choice(BackwardPrefetch::none);
  if (const auto ignored = node.find("ignored_parameters")) plan.ignored_parameters = ignored->texts();
  if (const auto dims = node.find("shard_dims")) {
    for (const auto& [parameter, dim] : dims->members()) plan.shard_dims[parameter] = static_cast<int>(dim.integer(-8, 8));
  }
  if (const auto factor = node.find("gradient_divide_factor")) plan.gradient_divide_factor = factor->positive_number();
  if (const auto mixed = node.find("mixed_precision")) plan.mixed_precision = read_mixed_precision(*mixed);
  if (const auto initialisation = node.find("initialisation")) plan.initialisation = initialisation->choice(Initialisation::meta);
  if (const auto optimizer = node.find("optimizer")) plan.optimizer = read_optimizer(*optimizer);
  return plan;
}

}  // namespace shardproof::scenario
