// One pass of a compiled training step as data: nodes in the order in which the host issues them, and the values that they read and write.
// An engine that compiles gives this to the harness, so that a case compares the whole plan, and a reader sees it.
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
  compute,     ///< work on the compute stream
  all_reduce,  ///< starts a reduction; its outputs may be read after a wait only
  wait,        ///< the compute stream waits for the reduction of its input; its output is the result
  copy,        ///< writes its input to its output, which exists before the pass: a gradient
};

enum class StepValueKind : std::uint8_t {
  input,      ///< exists before the pass: a batch, or a value that the forward kept for the backward
  parameter,  ///< exists before the pass
  gradient,   ///< of a parameter
  computed,   ///< of this pass alone
};

struct StepValue {
  std::string name;  ///< of a parameter or gradient: the parameter's name; else what made it
  StepValueKind kind = StepValueKind::computed;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  friend bool operator==(const StepValue&, const StepValue&) = default;
};

struct StepNode {
  StepNodeKind kind = StepNodeKind::compute;
  std::string operation;  ///< of a compute node: `forward`, `backward`, `loss`, `divide`, `cast`, `concat`, `split`, …
  std::string label;      ///< module path, parameter or bucket
  std::vector<std::size_t> inputs, outputs;  ///< indices of values
  double divisor = 1;                        ///< of `divide`
  ReduceOp op = ReduceOp::none;              ///< of an all-reduce
  std::vector<int> group;                    ///< of an all-reduce: global ranks
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

/// Why the graph is not well formed, with the node or value. Empty: it is well formed.
///   - Indices and shapes exist, and a node has only what its kind has.
///   - A node writes a computed value before any node reads it. A node that writes it again also reads it: it works in place.
///   - Only waits read the output of an all-reduce, and a wait reads nothing else.
///   - A wait follows each all-reduce, unless its output is a gradient, which stays after the pass.
std::string objection_to(const StepGraph& graph);

}  // namespace shardproof
