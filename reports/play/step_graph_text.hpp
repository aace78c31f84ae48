// Writes compiled passes for readers: as lines of text, and as a Graphviz file. Any graph has a text, even an invalid
// one. Pure.
#pragma once

#include <span>
#include <string>

#include "harness/protocol/step_graph.hpp"

namespace shardproof::reports {

/// A headline, then one line for each node:
///
///     backward: 4 nodes, 1 all-reduce, 1 wait
///        %3 = concat (%1, %2)                     # bucket 0, 80 x f32
///     ┌  %4 = all_reduce sum over ranks 0 1 (%3)  # bucket 0, 80 x f32
///     └  %5 = wait (%4)                           # all_reduce of bucket 0, 80 x f32
///        fc4.weight gradient = copy (%5)          # fc4.weight, 80 x f32
///
/// `%N` is value N. A line at the left connects an all-reduce and its waits: it passes the nodes that run during the
/// reduction.
std::string to_text(const StepGraph& graph);

struct TitledStepGraph {
  std::string title;
  const StepGraph* graph = nullptr;
};

/// A directed graph for Graphviz, with a cluster for each pass. All-reduces and waits are coloured.
std::string to_dot(std::span<const TitledStepGraph> graphs);

}  // namespace shardproof::reports
