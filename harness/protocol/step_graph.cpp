#include "harness/protocol/step_graph.hpp"
#include "harness/base/enum_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace shardproof {

namespace {

// Follows the nodes of a graph in their order. Each function returns its objection, or an empty text.
class StepGraphCheck {
 public:
  explicit StepGraphCheck(const StepGraph& graph)
      : graph_(graph),
        is_written_(graph.values.size()),
        reduced_by_(graph.values.size()),
        is_waited_for_(graph.values.size()) {}

  std::string take() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      if (std::ranges::any_of(graph_.values[i].shape, [](std::int64_t extent) { return extent < 0; }))
        return fmt::format("value {} ({}): its shape has a negative extent", i, graph_.values[i].name);
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (const std::string why = look_at(i); !why.empty()) return fmt::format("{}: {}", place(i), why);
    }
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const bool stays = graph_.values[i].kind != StepValueKind::computed;
      if (reduced_by_[i] && !stays && !is_waited_for_[i])
        return fmt::format("{}: no wait reads its output, value {}", place(*reduced_by_[i]), i);
    }
    return {};
  }

 private:
  std::string place(std::size_t node) const {
    const std::string& label = graph_.nodes[node].label;
    return fmt::format("node {} ({}{}{})", node, to_string(graph_.nodes[node].kind), label.empty() ? "" : " ", label);
  }

  std::string look_at(std::size_t index) {
    const StepNode& node = graph_.nodes[index];
    for (const std::vector<std::size_t>* const indices : {&node.inputs, &node.outputs}) {
      for (const std::size_t value : *indices) {
        if (value >= graph_.values.size())
          return fmt::format("it names value {}, but the graph has {} values", value, graph_.values.size());
      }
    }
    for (const std::string& why : {own(node), operands(node), reads(node)}) {
      if (!why.empty()) return why;
    }
    return writes(node, index);
  }

  // Looks for members that belong to another kind of node.
  static std::string own(const StepNode& node) {
    const bool computes = node.kind == StepNodeKind::compute, reduces = node.kind == StepNodeKind::all_reduce;
    const bool divides = computes && node.operation == "divide";
    if (computes == node.operation.empty())
      return computes ? "it has no operation" : "only compute nodes have an operation";
    if (divides ? node.divisor == 0 || !std::isfinite(node.divisor) : node.divisor != 1)
      return divides ? "its divisor is zero or not finite" : "only the operation divide has a divisor";
    if (reduces == (node.op == ReduceOp::none))
      return reduces ? "it has no reduction op" : "only all-reduces have a reduction op";
    if (reduces == node.group.empty()) return reduces ? "its group has no rank" : "only all-reduces have a group";
    if (std::set(node.group.begin(), node.group.end()).size() != node.group.size()) return "its group has a rank twice";
    if (std::ranges::any_of(node.group, [](int rank) { return rank < 0; })) return "its group has a negative rank";
    return {};
  }

  std::string operands(const StepNode& node) const {
    if (node.kind == StepNodeKind::compute) return {};
    if (node.inputs.empty() || node.inputs.size() != node.outputs.size())
      return fmt::format("it has {} inputs and {} outputs; it needs one output for each input", node.inputs.size(),
                         node.outputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const StepValue &in = graph_.values[node.inputs[i]], &out = graph_.values[node.outputs[i]];
      const bool may_cast = node.kind == StepNodeKind::copy;
      if (in.shape != out.shape || (in.dtype != out.dtype && !may_cast))
        return fmt::format("value {} and its result, value {}, differ in {}", node.inputs[i], node.outputs[i],
                           in.shape != out.shape ? "shape" : "dtype");
      if (node.kind == StepNodeKind::copy && out.kind == StepValueKind::computed)
        return fmt::format("it writes value {}, which does not exist before the pass", node.outputs[i]);
    }
    return {};
  }

  std::string reads(const StepNode& node) {
    for (const std::size_t value : node.inputs) {
      if (graph_.values[value].kind == StepValueKind::computed && !is_written_[value])
        return fmt::format("it reads value {}, which no earlier node writes", value);
      if (node.kind != StepNodeKind::wait && reduced_by_[value])
        return fmt::format("it reads value {}, the output of {}; only waits may read that", value,
                           place(*reduced_by_[value]));
      if (node.kind != StepNodeKind::wait) continue;
      if (!reduced_by_[value]) return fmt::format("it waits for value {}, which no earlier all-reduce writes", value);
      is_waited_for_[value] = true;
    }
    return {};
  }

  std::string writes(const StepNode& node, std::size_t index) {
    for (const std::size_t value : node.outputs) {
      const bool is_in_place = std::ranges::find(node.inputs, value) != node.inputs.end();
      if (graph_.values[value].kind == StepValueKind::computed && is_written_[value] && !is_in_place)
        return fmt::format("it writes value {} again, and does not read it", value);
      is_written_[value] = true;
      is_waited_for_[value] = false;
      reduced_by_[value] = node.kind == StepNodeKind::all_reduce ? std::optional(index) : std::nullopt;
    }
    return {};
  }

  const StepGraph& graph_;
  std::vector<bool> is_written_;
  std::vector<std::optional<std::size_t>> reduced_by_;  // the all-reduce that wrote the value last
  std::vector<bool> is_waited_for_;
};

}  // namespace

std::string_view to_string(StepPass pass) { return pass == StepPass::forward ? "forward" : "backward"; }

std::string_view to_string(StepNodeKind kind) {
  return base::name_of<StepNodeKind::copy>(kind, {"compute", "all_reduce", "wait", "copy"});
}

std::string_view to_string(StepValueKind kind) {
  return base::name_of<StepValueKind::computed>(kind, {"input", "parameter", "gradient", "computed"});
}

std::string objection_to(const StepGraph& graph) { return StepGraphCheck(graph).take(); }

}  // namespace shardproof
