// A compiled backward of two linear layers without biases, for tests. It has two buckets. The second bucket's gradient
// is computed while the first bucket is reduced.
#pragma once

#include <utility>
#include <vector>

#include "harness/protocol/step_graph.hpp"

namespace shardproof::testing {

inline StepGraph sample_backward() {
  const auto computed = [](const char* name, std::vector<std::int64_t> shape) {
    return StepValue{.name = name, .kind = StepValueKind::computed, .dtype = DType::f32, .shape = std::move(shape)};
  };
  StepGraph graph{.pass = StepPass::backward, .values = {}, .nodes = {}};
  graph.values = {
      {.name = "loss slope", .kind = StepValueKind::input, .dtype = DType::f32, .shape = {}},  // 0
      {.name = "fc2.weight", .kind = StepValueKind::parameter, .dtype = DType::f32, .shape = {4, 4}},  // 1
      {.name = "fc1.weight", .kind = StepValueKind::gradient, .dtype = DType::f32, .shape = {4, 4}},  // 2
      {.name = "fc2.weight", .kind = StepValueKind::gradient, .dtype = DType::f32, .shape = {4, 4}},  // 3
      computed("slope", {2, 4}),
      computed("fc2.weight", {4, 4}),
      computed("divide", {4, 4}),  // 4 5 6
      computed("all_reduce", {4, 4}),
      computed("fc1.weight", {4, 4}),
      computed("divide", {4, 4}),  // 7 8 9
      computed("all_reduce", {4, 4}),
      computed("wait", {4, 4}),
      computed("wait", {4, 4}),  // 10 11 12
  };
  const auto reduce = [](const char* bucket, std::size_t in, std::size_t out) {
    return StepNode{.kind = StepNodeKind::all_reduce,
                    .label = bucket,
                    .inputs = {in},
                    .outputs = {out},
                    .op = ReduceOp::sum,
                    .group = {0, 1}};
  };
  graph.nodes = {
      {.operation = "backward", .label = "fc2", .inputs = {0, 1}, .outputs = {4, 5}},
      {.operation = "divide", .label = "fc2.weight", .inputs = {5}, .outputs = {6}, .divisor = 2},
      reduce("bucket 0", 6, 7),
      {.operation = "backward", .label = "fc1", .inputs = {4}, .outputs = {8}},
      {.operation = "divide", .label = "fc1.weight", .inputs = {8}, .outputs = {9}, .divisor = 2},
      reduce("bucket 1", 9, 10),
      {.kind = StepNodeKind::wait, .label = "bucket 0", .inputs = {7}, .outputs = {11}},
      {.kind = StepNodeKind::copy, .label = "fc2.weight", .inputs = {11}, .outputs = {3}},
      {.kind = StepNodeKind::wait, .label = "bucket 1", .inputs = {10}, .outputs = {12}},
      {.kind = StepNodeKind::copy, .label = "fc1.weight", .inputs = {12}, .outputs = {2}},
  };
  return graph;
}

/// The same backward, with both gradients reduced in one call, as in a coalesced bucket.
inline StepGraph sample_coalesced() {
  StepGraph graph = sample_backward();
  graph.nodes.at(5).inputs = {9, 6};
  graph.nodes.at(5).outputs = {10, 7};
  graph.nodes.erase(graph.nodes.begin() + 2);
  return graph;
}

/// Both layers have one weight. Nodes accumulate its gradient, reduce it and wait for it in place.
inline StepGraph sample_in_place() {
  StepGraph graph = sample_backward();
  std::vector<StepNode>& nodes = graph.nodes;
  nodes.at(3).inputs = {4, 5};
  nodes.at(3).outputs = {8, 5};
  std::swap(nodes[1], nodes[3]);
  nodes[4].operation = "add";
  nodes[4].divisor = 1;
  nodes.at(5).outputs = {9};
  nodes.at(8).inputs = {9};
  nodes.at(8).outputs = {9};
  nodes.at(9).inputs = {9};
  std::swap(nodes[2], nodes[3]);
  return graph;
}

}  // namespace shardproof::testing
