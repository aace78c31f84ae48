// Compiled passes as data: which are well formed, and their JSON.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "harness/protocol/step_graph_json.hpp"
#include "tests/protocol/sample_step.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Message;
using shardproof::testing::sample_backward;
using shardproof::testing::sample_coalesced;
using shardproof::testing::sample_in_place;
using Json = nlohmann::ordered_json;

namespace {

struct Flaw {
  std::function<void(StepGraph&)> make;
  std::string said;
};

StepNode& node(StepGraph& graph, std::size_t index) { return graph.nodes.at(index); }

}  // namespace

TEST_CASE("a compiled pass is well formed, or the objection names the node") {
  CHECK(objection_to(sample_backward()).empty());
  CHECK(objection_to(sample_coalesced()).empty());
  CHECK(objection_to({}).empty());
  const Flaw flaw = GENERATE_COPY(
      Flaw{[](StepGraph& g) { node(g, 1).inputs = {13}; },
           "node 1 (compute fc2.weight): it names value 13, but the graph has 13 values"},
      Flaw{[](StepGraph& g) { node(g, 1).outputs = {99}; },
           "node 1 (compute fc2.weight): it names value 99, but the graph has 13 values"},
      Flaw{[](StepGraph& g) { g.values[6].shape = {-1, 4}; }, "value 6 (divide): its shape has a negative extent"},
      Flaw{[](StepGraph& g) { node(g, 1).inputs = {8}; },
           "node 1 (compute fc2.weight): it reads value 8, which no earlier node writes"},
      Flaw{[](StepGraph& g) { node(g, 4).outputs = {6}; },
           "node 4 (compute fc1.weight): it writes value 6 again, and does not read it"},
      Flaw{[](StepGraph& g) { node(g, 4).inputs = {7}; },
           "node 4 (compute fc1.weight): it reads value 7, the output of node 2 (all_reduce bucket 0); only waits may "
           "read that"},
      Flaw{[](StepGraph& g) { node(g, 6).inputs = {6}; },
           "node 6 (wait bucket 0): it waits for value 6, which no earlier all-reduce writes"},
      Flaw{[](StepGraph& g) { node(g, 6).inputs = {10}; },
           "node 2 (all_reduce bucket 0): no wait reads its output, value 7"},
      Flaw{[](StepGraph& g) { node(g, 7).outputs = {6}; },
           "node 7 (copy fc2.weight): it writes value 6, which does not exist before the pass"},
      Flaw{[](StepGraph& g) { g.values[11].shape = {16}; },
           "node 6 (wait bucket 0): value 7 and its result, value 11, differ in shape"},
      Flaw{[](StepGraph& g) { g.values[7].dtype = DType::bf16; },
           "node 2 (all_reduce bucket 0): value 6 and its result, value 7, differ in dtype"},
      Flaw{[](StepGraph& g) { node(g, 5).inputs = {9, 6}; },
           "node 5 (all_reduce bucket 1): it has 2 inputs and 1 outputs; it needs one output for each input"},
      Flaw{[](StepGraph& g) { node(g, 9).inputs.clear(), node(g, 9).outputs.clear(); },
           "node 9 (copy fc1.weight): it has 0 inputs and 0 outputs; it needs one output for each input"},
      Flaw{[](StepGraph& g) { node(g, 0).operation.clear(); }, "node 0 (compute fc2): it has no operation"},
      Flaw{[](StepGraph& g) { node(g, 6).operation = "wait"; },
           "node 6 (wait bucket 0): only compute nodes have an operation"},
      Flaw{[](StepGraph& g) { node(g, 1).divisor = 0; },
           "node 1 (compute fc2.weight): its divisor is zero or not finite"},
      Flaw{[](StepGraph& g) { node(g, 1).divisor = std::numeric_limits<double>::infinity(); },
           "node 1 (compute fc2.weight): its divisor is zero or not finite"},
      Flaw{[](StepGraph& g) { node(g, 0).divisor = 2; },
           "node 0 (compute fc2): only the operation divide has a divisor"},
      Flaw{[](StepGraph& g) { node(g, 2).op = ReduceOp::none; },
           "node 2 (all_reduce bucket 0): it has no reduction op"},
      Flaw{[](StepGraph& g) { node(g, 6).op = ReduceOp::sum; },
           "node 6 (wait bucket 0): only all-reduces have a reduction op"},
      Flaw{[](StepGraph& g) { node(g, 2).group.clear(); }, "node 2 (all_reduce bucket 0): its group has no rank"},
      Flaw{[](StepGraph& g) { node(g, 6).group = {0}; }, "node 6 (wait bucket 0): only all-reduces have a group"},
      Flaw{[](StepGraph& g) { node(g, 2).group = {1, 1}; }, "node 2 (all_reduce bucket 0): its group has a rank twice"},
      Flaw{[](StepGraph& g) { node(g, 2).group = {-1}; },
           "node 2 (all_reduce bucket 0): its group has a negative rank"});
  StepGraph graph = sample_backward();
  flaw.make(graph);
  CHECK(objection_to(graph) == flaw.said);
}

TEST_CASE("an all-reduce into a gradient needs no wait, and a gradient may be read before") {
  StepGraph graph = sample_backward();
  graph.nodes.resize(2);
  graph.nodes.push_back({.kind = StepNodeKind::all_reduce,
                         .label = "bucket 0",
                         .inputs = {6},
                         .outputs = {3},
                         .op = ReduceOp::sum,
                         .group = {0, 1}});
  CHECK(objection_to(graph).empty());
  graph.nodes.insert(graph.nodes.begin(), {.operation = "add", .label = "", .inputs = {3, 3}, .outputs = {9}});
  CHECK(objection_to(graph).empty());
  graph.nodes.push_back({.operation = "add", .label = "", .inputs = {3, 6}, .outputs = {10}});
  CHECK_THAT(objection_to(graph), ContainsSubstring("only waits may read that"));
}

TEST_CASE("nodes may work in place: they accumulate a gradient, reduce it and wait for it") {
  StepGraph graph = sample_in_place();
  CHECK(objection_to(graph).empty());
  graph.nodes.insert(graph.nodes.begin() + 8, {.operation = "add", .label = "early", .inputs = {9}, .outputs = {}});
  CHECK_THAT(objection_to(graph), ContainsSubstring("node 8 (compute early): it reads value 9, the output of node 5"));
}

TEST_CASE("a compiled plan reads as it was written, and each key counts") {
  std::vector<StepGraph> plan{sample_backward(), sample_coalesced()};
  plan[0].pass = StepPass::forward;
  const std::string text = write_compiled_plan(plan);
  CHECK(read_compiled_plan(text) == plan);
  CHECK(read_compiled_plan("[]").empty());

  const Json json = Json::parse(text)[0];
  CHECK(json["nodes"][1] == Json::parse(R"({"kind": "compute", "operation": "divide", "label": "fc2.weight", )"
                                        R"("inputs": [5], "outputs": [6], "divisor": 2.0})"));
  CHECK(json["nodes"][2] == Json::parse(R"({"kind": "all_reduce", "label": "bucket 0", "inputs": [6], )"
                                        R"("outputs": [7], "op": "sum", "group": [0, 1]})"));
  CHECK(json["values"][2] ==
        Json::parse(R"({"name": "fc1.weight", "kind": "gradient", "dtype": "f32", "shape": [4, 4]})"));
}

TEST_CASE("a compiled plan that cannot be read is refused with the place") {
  const auto refusal = [](const std::function<void(Json&)>& spoil) {
    Json json = Json::parse(write_compiled_plan({sample_backward()}));
    spoil(json);
    try {
      read_compiled_plan(json.dump());
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(refusal([](Json& plan) { plan = Json::object(); }) ==
        "compiled plan: expected an array of passes, found an object of 0");
  CHECK_THAT(refusal([](Json& plan) { plan[0]["pass"] = "sideways"; }),
             ContainsSubstring("compiled plan, pass 0: \"pass\""));
  CHECK_THAT(refusal([](Json& plan) { plan[0].erase("nodes"); }),
             ContainsSubstring("compiled plan, pass 0: \"nodes\""));
  CHECK_THAT(refusal([](Json& plan) { plan[0]["values"][3]["dtype"] = "f8"; }),
             ContainsSubstring("compiled plan, pass 0, value 3: \"dtype\""));
  CHECK_THAT(refusal([](Json& plan) { plan[0]["values"][3]["shape"] = {0.5}; }),
             ContainsSubstring("pass 0, value 3: \"shape\""));
  CHECK_THAT(refusal([](Json& plan) { plan[0]["nodes"][4]["inputs"] = {-1}; }),
             ContainsSubstring("pass 0, node 4: \"inputs\""));
  CHECK_THAT(refusal([](Json& plan) { plan[0]["nodes"][4]["divisor"] = nullptr; }),
             ContainsSubstring("pass 0, node 4: \"divisor\": expected a number"));
  CHECK_THAT(refusal([](Json& plan) { plan[0]["nodes"][2]["op"] = "mean"; }),
             ContainsSubstring("pass 0, node 2: \"op\""));
  CHECK_THAT(refusal([](Json& plan) { plan[0]["nodes"][2]["group"] = {0, "1"}; }),
             ContainsSubstring("pass 0, node 2: \"group\""));
  CHECK_THAT(refusal([](Json& plan) { plan[0]["nodes"][2]["divsor"] = 2; }), ContainsSubstring("divsor"));
  CHECK_THROWS_WITH(read_compiled_plan("[{"), ContainsSubstring("compiled plan: not JSON: "));
  CHECK_THROWS_AS(read_compiled_plan(std::string(1000, '[')), std::invalid_argument);
}
