// StepGraph is one pass of a compiled training step as data. It has nodes, in the order in which the host issues them,
// and the values that the nodes read and write. An engine that compiles gives it to the harness. A case compares the
// whole plan, and a reader sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/collective.hpp"

namespace shardproof {

enum class StepPass : std::uint8_t { forward, backward };

enum class StepNodeKind : std::uint8_t {
  compute,     ///< Work on the compute stream.
  all_reduce,  ///< Starts a reduction. Its outputs may be read only after a wait.
  /// The compute stream waits for the reduction of its input. Its output is the result.
  wait,
  copy,        ///< Writes its input to its output, a gradient that exists before the pass.
};

enum class StepValueKind : std::uint8_t {
  /// Exists before the pass: a batch, or a value that the forward kept for the backward.
  input,
  parameter,  ///< Exists before the pass.
  gradient,   ///< Gradient of a parameter.
  computed,   ///< Belongs to this pass alone.
};

struct StepValue {
  std::string name;  ///< For a parameter or gradient: the parameter's name. Else its origin.
  StepValueKind kind = StepValueKind::computed;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  friend bool operator==(const StepValue&, const StepValue&) = default;
};

struct StepNode {
  StepNodeKind kind = StepNodeKind::compute;
  /// For a compute node: `forward`, `backward`, `loss`, `divide`, `cast`, `concat`, `split`, …
  std::string operation;
  std::string label;      ///< Module path, parameter or bucket.
  std::vector<std::size_t> inputs, outputs;  ///< Indices of values.
  double divisor = 1;                        ///< For `divide`.
  ReduceOp op = ReduceOp::none;              ///< For an all-reduce.
  std::vector<int> group;                    ///< For an all-reduce: global ranks.
  friend bool operator==(const StepNode&, const StepNode&) = default;
};

struct StepGraph {
  StepPass pass = StepPass::backward;
  std::vector<StepValue> values;
  std::vector<StepNode> nodes;
  friend bool operator==(const StepGraph&, const StepGraph&) = default;
};

std::string_view to_string(StepPass pass);
std::string_view to_string(StepNodeKind kind);
std::string_view to_string(StepValueKind kind);

/// The reason why the graph is not well formed, with the node or value. Empty: it is well formed. The rules:
///
/// - Indices and shapes exist, and a node has only the fields of its kind.
/// - A node writes a computed value before any node reads it. A node that writes the value again also reads it: it
///   works in place.
/// - Only waits read the output of an all-reduce, and a wait reads nothing else.
/// - A wait follows each all-reduce, unless the all-reduce's output is a gradient, which stays after the pass.
std::string objection_to(const StepGraph& graph);

}  // namespace shardproof
