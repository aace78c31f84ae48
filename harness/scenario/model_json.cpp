#include <limits>

#include "harness/scenario/parts_json.hpp"

namespace shardproof::scenario {

namespace {

using Json = nlohmann::ordered_json;

// Writes the keys of a module besides name and kind, in the order of the document.
void write_own(const Module& module, Json& json) {
  const Module usual;
  switch (module.kind) {
    case ModuleKind::linear:
      json["in_features"] = module.in_features;
      json["out_features"] = module.out_features;
      if (module.bias != usual.bias) json["bias"] = module.bias;
      if (module.tied_to != usual.tied_to) json["tied_to"] = module.tied_to;
      if (module.contiguous != usual.contiguous) json["contiguous"] = module.contiguous;
      if (module.tensor != usual.tensor) json["tensor"] = to_string(module.tensor);
      if (module.forward_sleep != 0) json["forward_sleep"] = duration_text(module.forward_sleep);
      if (module.backward_sleep != 0) json["backward_sleep"] = duration_text(module.backward_sleep);
      break;
    case ModuleKind::convolution:
      json["channels"] = module.channels;
      json["in_features"] = module.in_features;
      json["out_features"] = module.out_features;
      if (module.bias != usual.bias) json["bias"] = module.bias;
      if (module.tensor != usual.tensor) json["tensor"] = to_string(module.tensor);
      break;
    case ModuleKind::embedding:
      json["vocabulary"] = module.vocabulary;
      json["features"] = module.features;
      if (module.positions != usual.positions) json["positions"] = module.positions;
      break;
    case ModuleKind::layer_norm:
    case ModuleKind::attention: json["features"] = module.features; break;
    case ModuleKind::scale:
      if (module.scalar != usual.scalar) json["scalar"] = module.scalar;
      break;
    case ModuleKind::use: json["module"] = module.target; break;
    case ModuleKind::relu:
    case ModuleKind::sequential:
    case ModuleKind::residual:
    case ModuleKind::discard:
    case ModuleKind::list:
    case ModuleKind::choice: break;
  }
}

Json write(const Module& module, bool is_root) {
  Json json = Json::object();
  if (!is_root) json["name"] = module.name;
  json["kind"] = to_string(module.kind);
  write_own(module, json);
  if (module.frozen) json["frozen"] = true;
  if (is_container(module.kind)) {
    Json& children = json["children"] = Json::array();
    for (const Module& child : module.children) children.push_back(write(child, false));
  }
  return json;
}

void read_linear(const Node& node, Module& module) {
  module.in_features = node.at("in_features").integer(1, most_features);
  module.out_features = node.at("out_features").integer(1, most_features);
  if (const auto bias = node.find("bias")) module.bias = bias->boolean();
  if (const auto owner = node.find("tied_to")) module.tied_to = owner->nonempty_text();
  if (const auto contiguous = node.find("contiguous")) module.contiguous = contiguous->boolean();
  if (const auto tensor = node.find("tensor")) module.tensor = tensor->choice(TensorKind::low_precision);
  if (const auto sleep = node.find("forward_sleep")) module.forward_sleep = sleep->duration();
  if (const auto sleep = node.find("backward_sleep")) module.backward_sleep = sleep->duration();
}

void read_convolution(const Node& node, Module& module) {
  module.channels = node.at("channels").integer(1, most_features);
  module.in_features = node.at("in_features").integer(1, most_features);
  module.out_features = node.at("out_features").integer(1, most_features);
  if (const auto bias = node.find("bias")) module.bias = bias->boolean();
  if (const auto tensor = node.find("tensor")) module.tensor = tensor->choice(TensorKind::low_precision);
}

Module read_module(const Node& node, bool is_root);

void read_own(const Node& node, Module& module) {
  switch (module.kind) {
    case ModuleKind::linear: read_linear(node, module); break;
    case ModuleKind::convolution: read_convolution(node, module); break;
    case ModuleKind::embedding:
      module.vocabulary = node.at("vocabulary").integer(1, most_features);
      module.features = node.at("features").integer(1, most_features);
      if (const auto positions = node.find("positions")) module.positions = positions->integer(1, most_features);
      break;
    case ModuleKind::layer_norm:
    case ModuleKind::attention: module.features = node.at("features").integer(1, most_features); break;
    case ModuleKind::scale:
      if (const auto scalar = node.find("scalar")) module.scalar = scalar->boolean();
      break;
    case ModuleKind::use: module.target = node.at("module").text(); break;
    case ModuleKind::relu: break;
    case ModuleKind::sequential:
    case ModuleKind::residual:
    case ModuleKind::discard:
    case ModuleKind::list:
    case ModuleKind::choice:
      for (const Node& child : node.at("children").elements()) module.children.push_back(read_module(child, false));
      break;
  }
}

std::vector<std::string_view> own_keys(ModuleKind kind) {
  switch (kind) {
    case ModuleKind::linear:
      return {"in_features", "out_features",  "bias",           "tied_to", "contiguous",
              "tensor",      "forward_sleep", "backward_sleep", "frozen"};
    case ModuleKind::convolution: return {"channels", "in_features", "out_features", "bias", "tensor", "frozen"};
    case ModuleKind::embedding: return {"vocabulary", "features", "positions", "frozen"};
    case ModuleKind::layer_norm:
    case ModuleKind::attention: return {"features", "frozen"};
    case ModuleKind::scale: return {"scalar", "frozen"};
    case ModuleKind::use: return {"module"};
    case ModuleKind::relu: return {};
    case ModuleKind::sequential:
    case ModuleKind::residual:
    case ModuleKind::discard:
    case ModuleKind::list:
    case ModuleKind::choice: return {"children", "frozen"};
  }
  return {};
}

Module read_module(const Node& node, bool is_root) {
  Module module;
  if (!is_root) module.name = node.at("name").text();
  module.kind = node.choice_at("kind", ModuleKind::use);
  std::vector<std::string_view> known{"name", "kind"};
  if (is_root) known.erase(known.begin());
  const std::vector<std::string_view> own = own_keys(module.kind);
  known.insert(known.end(), own.begin(), own.end());
  node.expect_keys(known);
  if (const auto frozen = node.find("frozen")) module.frozen = frozen->boolean();
  read_own(node, module);
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
  loss.kind = node.choice_at("kind", LossKind::cross_entropy);
  switch (loss.kind) {
    case LossKind::sum:
    case LossKind::cross_entropy: node.expect_keys({"kind"}); break;
    case LossKind::sum_of_squares: node.expect_keys({"kind", "divisor"}); break;
    case LossKind::dot: node.expect_keys({"kind", "divisor", "seed"}); break;
  }
  if (const auto divisor = node.find("divisor")) loss.divisor = divisor->number();
  if (const auto seed = node.find("seed"))
    loss.dot_seed = static_cast<std::uint32_t>(seed->integer(0, std::numeric_limits<std::uint32_t>::max()));
  return loss;
}

}  // namespace

Json write_model(const Model& model) {
  Json json{{"root", write(model.root, true)}};
  if (model.loss != Loss()) json["loss"] = write(model.loss);
  if (model.init_divisor != Model().init_divisor) json["init_divisor"] = model.init_divisor;
  if (model.init != Model().init) json["init"] = to_string(model.init);
  return json;
}

int read_divisor(const Node& node) { return static_cast<int>(node.integer(1, std::numeric_limits<int>::max())); }

Model read_model(const Node& node) {
  node.expect_keys({"root", "loss", "init_divisor", "init"});
  Model model;
  model.root = read_module(node.at("root"), true);
  if (const auto loss = node.find("loss")) model.loss = read_loss(*loss);
  if (const auto divisor = node.find("init_divisor")) model.init_divisor = read_divisor(*divisor);
  if (const auto init = node.find("init")) model.init = init->choice(Distribution::truncated_normal);
  return model;
}

}  // namespace shardproof::scenario
