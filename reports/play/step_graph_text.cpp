#include "reports/play/step_graph_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "reports/export/foreign_text.hpp"

namespace shardproof::reports {

namespace {

/// `80 x f32`, `4 x 4 x f32`, and `f32` of one element.
std::string size_text(const StepValue& value) {
  std::string text;
  for (const std::int64_t extent : value.shape) text += fmt::format("{} x ", extent);
  return text + std::string(to_string(value.dtype));
}

std::string join_texts(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, ", ")); }

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// The names of values. Values that exist before the pass have their own names. Others are `%N`.
class ValueNames {
 public:
  explicit ValueNames(const StepGraph& graph) : graph_(graph) {
    for (const StepValue& value : graph.values) ++uses_[own_name(value)];
  }

  std::string of(std::size_t index) const {
    const std::string number = fmt::format("%{}", index);
    if (index >= graph_.values.size()) return number;
    const std::string name = own_name(graph_.values[index]);
    if (name.empty()) return number;
    return uses_.at(name) == 1 ? name : fmt::format("{} {}", name, number);
  }

  std::string of(const std::vector<std::size_t>& indices) const {
    std::vector<std::string> names;
    for (const std::size_t index : indices) names.push_back(of(index));
    return join_texts(names);
  }

 private:
  static std::string own_name(const StepValue& value) {
    if (value.kind == StepValueKind::computed || value.name.empty()) return {};
    return value.kind == StepValueKind::gradient ? value.name + " gradient" : value.name;
  }

  const StepGraph& graph_;
  std::map<std::string, std::size_t> uses_;
};

/// Maps each wait to the all-reduces whose outputs it reads.
class Reductions {
 public:
  explicit Reductions(const StepGraph& graph) : graph_(graph) {
    std::map<std::size_t, std::size_t> written_by;  // by value: its last all-reduce
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      const StepNode& at = graph.nodes[node];
      if (at.kind == StepNodeKind::wait) {
        for (const std::size_t value : at.inputs) {
          const auto found = written_by.find(value);
          if (found == written_by.end()) continue;
          waits_[node].push_back(found->second);
          last_wait_[found->second] = node;
        }
      }
      for (const std::size_t value : at.outputs) {
        written_by.erase(value);
        if (at.kind == StepNodeKind::all_reduce) written_by[value] = node;
      }
    }
  }

  bool is_waited_for(std::size_t reduction) const { return last_wait_.contains(reduction); }
  std::size_t last_wait(std::size_t reduction) const { return last_wait_.at(reduction); }
  bool waits_for(std::size_t node, std::size_t reduction) const {
    const auto found = waits_.find(node);
    return found != waits_.end() && std::ranges::find(found->second, reduction) != found->second.end();
  }
  /// The labels of the all-reduces that this wait is for.
  std::string labels(std::size_t wait) const {
    std::vector<std::string> labels;
    const auto found = waits_.find(wait);
    if (found == waits_.end()) return {};
    for (const std::size_t reduction : found->second) {
      const std::string& label = graph_.nodes[reduction].label;
      if (std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
    }
    return join_texts(labels);
  }

 private:
  const StepGraph& graph_;
  std::map<std::size_t, std::vector<std::size_t>> waits_;  // by wait: its all-reduces
  std::map<std::size_t, std::size_t> last_wait_;           // by all-reduce
};

/// The lines at the left of the text. A column belongs to an all-reduce until its last wait, and then to a later one.
std::vector<std::string> gutter(const StepGraph& graph, const Reductions& reductions) {
  constexpr std::size_t most_columns = 16;
  std::vector<std::string> lines(graph.nodes.size());
  std::vector<std::optional<std::size_t>> columns;
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    if (graph.nodes[node].kind == StepNodeKind::all_reduce && reductions.is_waited_for(node)) {
      auto free = std::ranges::find_if(columns, [](const auto& column) { return !column.has_value(); });
      if (free == columns.end() && columns.size() < most_columns) free = columns.insert(columns.end(), std::nullopt);
      if (free != columns.end()) *free = node;
    }
    for (std::optional<std::size_t>& reduction : columns) {
      if (!reduction) {
        lines[node] += ' ';
      } else if (*reduction == node) {
        lines[node] += "┌";
      } else if (reductions.last_wait(*reduction) == node) {
        lines[node] += "└";
        reduction.reset();
      } else {
        lines[node] += reductions.waits_for(node, *reduction) ? "├" : "│";
      }
    }
  }
  for (std::string& line : lines) line = fmt::format("{:<{}}", line, columns.size());
  return lines;
}

/// `divide by 2`, `all_reduce sum over ranks 0 1`, `wait`.
std::string action_text(const StepNode& node) {
  switch (node.kind) {
    case StepNodeKind::compute:
      return node.operation == "divide" ? fmt::format("divide by {}", node.divisor) : node.operation;
    case StepNodeKind::all_reduce:
      return fmt::format("all_reduce {} over ranks {}", to_string(node.op), fmt::join(node.group, " "));
    case StepNodeKind::wait:
    case StepNodeKind::copy: return std::string(to_string(node.kind));
  }
  return {};
}

/// Its label, then the size of each output. An output has its name if the name says more than the line does.
std::string remark(const StepGraph& graph, std::size_t index, const Reductions& reductions) {
  const StepNode& node = graph.nodes[index];
  const std::string reduced = reductions.labels(index);
  const std::string label = reduced.empty() ? node.label : "all_reduce of " + reduced;
  std::vector<std::string> parts;
  if (!label.empty()) parts.push_back(label);
  for (const std::size_t output : node.outputs) {
    if (output >= graph.values.size()) continue;
    const StepValue& value = graph.values[output];
    const bool says_more = node.kind == StepNodeKind::compute && value.kind == StepValueKind::computed &&
                           !value.name.empty() && value.name != node.label && !value.name.starts_with(node.operation);
    parts.push_back(says_more ? fmt::format("{} {}", value.name, size_text(value)) : size_text(value));
  }
  return join_texts(parts);
}

/// In a dot string that is in quotes.
std::string escaped(std::string_view text) {
  std::string escaped;
  for (const char c : visible_text(text)) {
    if (c == '"' || c == '\\') escaped += '\\';
    if (c == '\n') escaped += "\\n";
    else escaped += c;
  }
  return escaped;
}

std::string colour_text(StepNodeKind kind) {
  if (kind == StepNodeKind::all_reduce) return ", style=filled, fillcolor=\"#f4b183\"";
  if (kind == StepNodeKind::wait) return ", style=filled, fillcolor=\"#ffe699\"";
  return {};
}

std::string cluster(const TitledStepGraph& titled, std::size_t number) {
  const StepGraph& graph = *titled.graph;
  const ValueNames names(graph);
  std::string text = fmt::format("  subgraph cluster_{} {{\n    label=\"{}\";\n", number, escaped(titled.title));
  std::string edges;
  std::map<std::size_t, std::string> holders;  // the vertex that a value comes from
  const auto vertex_of_value = [&](std::size_t index) {
    const std::string vertex = fmt::format("v{}_{}", number, index);
    if (holders.try_emplace(index, vertex).second)
      text += fmt::format("    {} [label=\"{}\\n{}\", shape=ellipse];\n", vertex, escaped(names.of(index)),
                          size_text(graph.values[index]));
    return vertex;
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const StepNode& node = graph.nodes[i];
    const std::string vertex = fmt::format("n{}_{}", number, i);
    for (const std::size_t input : node.inputs) {
      if (input >= graph.values.size()) continue;
      if (!holders.contains(input)) vertex_of_value(input);
      edges += fmt::format("    {} -> {} [label=\"{}\"];\n", holders.at(input), vertex, size_text(graph.values[input]));
    }
    text += fmt::format("    {} [label=\"{}\\n{}\"{}];\n", vertex, escaped(action_text(node)), escaped(node.label),
                        colour_text(node.kind));
    for (const std::size_t output : node.outputs) {
      if (output >= graph.values.size()) continue;
      if (graph.values[output].kind != StepValueKind::computed)
        edges += fmt::format("    {} -> {};\n", vertex, vertex_of_value(output));
      holders[output] = vertex;
    }
  }
  return text + edges + "  }\n";
}

}  // namespace

std::string to_text(const StepGraph& graph) {
  const ValueNames names(graph);
  const Reductions reductions(graph);
  const auto count = [&](StepNodeKind kind) {
    return static_cast<std::size_t>(std::ranges::count(graph.nodes, kind, &StepNode::kind));
  };
  std::vector<std::string> calls;
  for (const StepNode& node : graph.nodes) {
    const std::string outputs = node.outputs.empty() ? "" : names.of(node.outputs) + " = ";
    calls.push_back(fmt::format("{}{} ({})", outputs, action_text(node), names.of(node.inputs)));
  }
  constexpr std::size_t widest = 72;  // a longer call only moves its own remark
  std::size_t width = 0;
  for (const std::string& call : calls) width = std::max(width, std::min(call.size(), widest));

  std::string text =
      fmt::format("{}: {}, {}, {}\n", to_string(graph.pass), counted(graph.nodes.size(), "node"),
                  counted(count(StepNodeKind::all_reduce), "all-reduce"), counted(count(StepNodeKind::wait), "wait"));
  const std::vector<std::string> left = gutter(graph, reductions);
  for (std::size_t i = 0; i < calls.size(); ++i)
    text += fmt::format("{}  {:<{}}  # {}\n", left[i], calls[i], width, remark(graph, i, reductions));
  return text;
}

std::string to_dot(std::span<const TitledStepGraph> graphs) {
  std::string text = "digraph \"compiled step\" {\n  node [shape=box];\n";
  for (std::size_t i = 0; i < graphs.size(); ++i) text += cluster(graphs[i], i);
  return text + "}\n";
}

}  // namespace shardproof::reports
