#include "harness/protocol/step_graph_json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "harness/base/json_fields.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"

namespace shardproof {

using base::Fields;
using base::read_enum;

namespace {

using Json = nlohmann::ordered_json;

Json write(const StepValue& value) {
  return {
      {"name", value.name}, {"kind", to_string(value.kind)}, {"dtype", to_string(value.dtype)}, {"shape", value.shape}};
}

Json write(const StepNode& node) {
  Json json{{"kind", to_string(node.kind)}};
  if (!node.operation.empty()) json["operation"] = node.operation;
  json["label"] = node.label;
  json["inputs"] = node.inputs;
  json["outputs"] = node.outputs;
  if (node.divisor != 1) json["divisor"] = node.divisor;
  if (node.op != ReduceOp::none) json["op"] = to_string(node.op);
  if (!node.group.empty()) json["group"] = node.group;
  return json;
}

template <class Integer>
std::vector<Integer> read_integers(const Fields& fields, const char* name) {
  std::vector<Integer> integers;
  for (const Json& element : fields.array(name))
    integers.push_back(base::read_integer<Integer>(element, fields.where(name)));
  return integers;
}

StepValue read_value(const Json& json, const std::string& place) {
  const Fields fields(json, place);
  fields.expect_only({"name", "kind", "dtype", "shape"});
  return {.name = fields.text("name"),
          .kind = read_enum(fields, "kind", StepValueKind::computed),
          .dtype = read_enum(fields, "dtype", DType::u8),
          .shape = read_integers<std::int64_t>(fields, "shape")};
}

StepNode read_node(const Json& json, const std::string& place) {
  const Fields fields(json, place);
  fields.expect_only({"kind", "operation", "label", "inputs", "outputs", "divisor", "op", "group"});
  StepNode node{.kind = read_enum(fields, "kind", StepNodeKind::copy),
                .label = fields.text("label"),
                .inputs = read_integers<std::size_t>(fields, "inputs"),
                .outputs = read_integers<std::size_t>(fields, "outputs")};
  if (fields.has("operation")) node.operation = fields.text("operation");
  if (fields.has("divisor")) {
    node.divisor = fields.number("divisor");
    if (std::isnan(node.divisor)) base::refuse(fields.where("divisor"), "a number", fields.at("divisor", "a number"));
  }
  if (fields.has("op")) node.op = read_enum(fields, "op", ReduceOp::min);
  if (fields.has("group")) node.group = read_integers<int>(fields, "group");
  return node;
}

StepGraph read_graph(const Json& json, const std::string& place) {
  const Fields fields(json, place);
  fields.expect_only({"pass", "values", "nodes"});
  StepGraph read{.pass = read_enum(fields, "pass", StepPass::backward), .values = {}, .nodes = {}};
  for (const Json& value : fields.array("values"))
    read.values.push_back(read_value(value, fmt::format("{}, value {}", place, read.values.size())));
  for (const Json& node : fields.array("nodes"))
    read.nodes.push_back(read_node(node, fmt::format("{}, node {}", place, read.nodes.size())));
  return read;
}

Json parsed(std::string_view text) {
  try {
    return base::parse_json(text);
  } catch (const Json::exception& error) {
    throw std::invalid_argument(fmt::format("compiled plan: not JSON: {}", error.what()));
  }
}

}  // namespace

void to_json(Json& json, const StepGraph& graph) {
  json = Json{{"pass", to_string(graph.pass)}, {"values", Json::array()}, {"nodes", Json::array()}};
  for (const StepValue& value : graph.values) json["values"].push_back(write(value));
  for (const StepNode& node : graph.nodes) json["nodes"].push_back(write(node));
}

void from_json(const Json& json, StepGraph& graph) { graph = read_graph(json, "compiled pass"); }

std::string write_compiled_plan(const std::vector<StepGraph>& graphs) {
  Json json = Json::array();
  for (const StepGraph& graph : graphs) json.push_back(graph);
  return base::dump_line(json);
}

std::vector<StepGraph> read_compiled_plan(std::string_view text) {
  const Json json = parsed(text);
  if (!json.is_array()) base::refuse("compiled plan", "an array of passes", json);
  std::vector<StepGraph> graphs;
  for (const Json& pass : json)
    graphs.push_back(read_graph(pass, fmt::format("compiled plan, pass {}", graphs.size())));
  return graphs;
}

}  // namespace shardproof
