// Compiled passes as readers see them: as text and as a drawing.
#include "reports/play/step_graph_text.hpp"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "tests/protocol/sample_step.hpp"

using namespace shardproof;
using namespace shardproof::reports;
using Catch::Matchers::ContainsSubstring;
using shardproof::testing::sample_backward;
using shardproof::testing::sample_coalesced;
using shardproof::testing::sample_in_place;

TEST_CASE("a compiled pass is one line for each node, and a line connects each all-reduce with its wait") {
  CHECK(to_text(sample_backward()) ==
        "backward: 10 nodes, 2 all-reduces, 2 waits\n"
        "    %4, %5 = backward (loss slope, fc2.weight)  # fc2, slope 2 x 4 x f32, fc2.weight 4 x 4 x f32\n"
        "    %6 = divide by 2 (%5)                       # fc2.weight, 4 x 4 x f32\n"
        "┌   %7 = all_reduce sum over ranks 0 1 (%6)     # bucket 0, 4 x 4 x f32\n"
        "│   %8 = backward (%4)                          # fc1, fc1.weight 4 x 4 x f32\n"
        "│   %9 = divide by 2 (%8)                       # fc1.weight, 4 x 4 x f32\n"
        "│┌  %10 = all_reduce sum over ranks 0 1 (%9)    # bucket 1, 4 x 4 x f32\n"
        "└│  %11 = wait (%7)                             # all_reduce of bucket 0, 4 x 4 x f32\n"
        " │  fc2.weight gradient = copy (%11)            # fc2.weight, 4 x 4 x f32\n"
        " └  %12 = wait (%10)                            # all_reduce of bucket 1, 4 x 4 x f32\n"
        "    fc1.weight gradient = copy (%12)            # fc1.weight, 4 x 4 x f32\n");
}

TEST_CASE("several waits of one all-reduce are connected, and values of one name have their numbers") {
  StepGraph graph = sample_coalesced();
  graph.values[0].name = graph.values[1].name;
  const std::string text = to_text(graph);
  CHECK_THAT(text, ContainsSubstring("%4, %5 = backward (fc2.weight %0, fc2.weight %1)"));
  CHECK_THAT(text, ContainsSubstring("\n┌  %10, %7 = all_reduce sum over ranks 0 1 (%9, %6)"));
  CHECK_THAT(text, ContainsSubstring("\n├  %11 = wait (%7)") && ContainsSubstring("\n│  fc2.weight gradient = copy") &&
                       ContainsSubstring("\n└  %12 = wait (%10)"));
}

TEST_CASE("a pass that is not well formed still has a text and a drawing") {
  StepGraph graph = sample_backward();
  graph.nodes[1].inputs = {99};
  graph.nodes[6].inputs = {};
  graph.nodes[7].outputs = {99};
  graph.nodes[8].inputs = {5};
  CHECK_THAT(to_text(graph), ContainsSubstring("%6 = divide by 2 (%99)") && ContainsSubstring("%99 = copy (%11)"));
  CHECK_THAT(to_dot(std::array{TitledStepGraph{"odd", &graph}}), ContainsSubstring("divide by 2"));
}

TEST_CASE("a drawing has a vertex for each node and an edge for each value, and all-reduces and waits are coloured") {
  StepGraph graph = sample_backward();
  graph.nodes[0].label = "say \"fc2\"";
  const std::string dot =
      to_dot(std::array{TitledStepGraph{"iteration 0: backward", &graph}, TitledStepGraph{"other", &graph}});
  CHECK_THAT(dot, ContainsSubstring("subgraph cluster_0 {\n    label=\"iteration 0: backward\";"));
  CHECK_THAT(dot, ContainsSubstring("n0_0 [label=\"backward\\nsay \\\"fc2\\\"\"];"));
  CHECK_THAT(dot,
             ContainsSubstring(
                 "n0_2 [label=\"all_reduce sum over ranks 0 1\\nbucket 0\", style=filled, fillcolor=\"#f4b183\"];"));
  CHECK_THAT(dot, ContainsSubstring("n0_6 [label=\"wait\\nbucket 0\", style=filled, fillcolor=\"#ffe699\"];"));
  CHECK_THAT(dot, ContainsSubstring("v0_1 [label=\"fc2.weight\\n4 x 4 x f32\", shape=ellipse];"));
  CHECK_THAT(dot, ContainsSubstring("v0_1 -> n0_0 [label=\"4 x 4 x f32\"];"));
  CHECK_THAT(dot, ContainsSubstring("n0_2 -> n0_6 [label=\"4 x 4 x f32\"];"));
  CHECK_THAT(dot, ContainsSubstring("n0_7 -> v0_3;"));
  CHECK_THAT(dot, ContainsSubstring("subgraph cluster_1 {\n    label=\"other\";"));
}

TEST_CASE("values that nodes write in place keep their numbers") {
  CHECK_THAT(to_text(sample_in_place()), ContainsSubstring("%8, %5 = backward (%4, %5)") &&
                                             ContainsSubstring("┌  %9 = all_reduce sum over ranks 0 1 (%9)") &&
                                             ContainsSubstring("└  %9 = wait (%9)"));
}
