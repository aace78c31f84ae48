// Step graphs as text, and step graphs that tests build by hand.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/protocol/step_graph.hpp"

namespace shardproof::testing {

/// `divide a: gradient a -> divide a`, `all_reduce bucket 0: …`.
inline std::string in_words(const StepGraph& graph, const StepNode& node) {
  const auto names = [&graph](const std::vector<std::size_t>& values) {
    std::vector<std::string> found;
    for (const std::size_t value : values) found.push_back(graph.values.at(value).name);
    return found;
  };
  return fmt::format("{} {}: {} -> {}",
                     node.kind == StepNodeKind::compute ? std::string_view(node.operation) : to_string(node.kind),
                     node.label, fmt::join(names(node.inputs), ", "), fmt::join(names(node.outputs), ", "));
}

inline std::vector<std::string> in_words(const StepGraph& graph) {
  std::vector<std::string> words;
  for (const StepNode& node : graph.nodes) words.push_back(in_words(graph, node));
  return words;
}

/// A backward by hand. Each module makes one gradient; the reduction of the gradient follows at once, the copies come
/// at the end.
class BackwardByHand {
 public:
  struct Gradient {
    std::string name;
    std::int64_t elements = 1;
    bool existed = false;
    DType dtype = DType::f32;
    double divisor = 2;
  };

  explicit BackwardByHand(const std::vector<Gradient>& gradients) {
    for (const Gradient& gradient : gradients) add(gradient);
    for (StepNode& copy : copies_) graph_.nodes.push_back(std::move(copy));
  }
  const StepGraph& graph() const { return graph_; }

 private:
  void add(const Gradient& gradient) {
    const std::size_t own =
        value(gradient, "own " + gradient.name, gradient.existed ? StepValueKind::gradient : StepValueKind::computed);
    graph_.nodes.push_back({.operation = "backward", .label = gradient.name, .outputs = {own}});
    const std::size_t divided = value(gradient, "divided " + gradient.name);
    graph_.nodes.push_back({.operation = "divide",
                            .label = gradient.name,
                            .inputs = {own},
                            .outputs = {divided},
                            .divisor = gradient.divisor});
    const std::size_t reduced = value(gradient, "reduced " + gradient.name);
    const std::string bucket = fmt::format("bucket {}", buckets_++);
    graph_.nodes.push_back({.kind = StepNodeKind::all_reduce,
                            .label = bucket,
                            .inputs = {divided},
                            .outputs = {reduced},
                            .op = ReduceOp::sum,
                            .group = {0, 1}});
    const std::size_t mean =
        value(gradient, "mean " + gradient.name, gradient.existed ? StepValueKind::computed : StepValueKind::gradient);
    graph_.nodes.push_back({.kind = StepNodeKind::wait, .label = bucket, .inputs = {reduced}, .outputs = {mean}});
    if (gradient.existed)
      copies_.push_back({.kind = StepNodeKind::copy, .label = gradient.name, .inputs = {mean}, .outputs = {own}});
  }
  std::size_t value(const Gradient& of, std::string name, StepValueKind kind = StepValueKind::computed) {
    graph_.values.push_back({.name = std::move(name), .kind = kind, .dtype = of.dtype, .shape = {of.elements}});
    return graph_.values.size() - 1;
  }

  StepGraph graph_;
  std::vector<StepNode> copies_;
  std::size_t buckets_ = 0;
};

}  // namespace shardproof::testing
