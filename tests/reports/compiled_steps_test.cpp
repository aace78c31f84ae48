// Compiled steps of a play: how they are shown, and where those of two subjects differ.
#include "reports/play/compiled_steps.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "harness/protocol/step_graph_json.hpp"
#include "reports/export/terminal.hpp"
#include "reports/play/play.hpp"
#include "reports/play/step_graph_text.hpp"
#include "tests/protocol/sample_step.hpp"

using namespace shardproof;
using namespace shardproof::reports;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using shardproof::testing::sample_backward;
using Json = nlohmann::ordered_json;

namespace {

/// A step that reduces by another operation.
StepGraph averaging() {
  StepGraph graph = sample_backward();
  graph.nodes[2].op = ReduceOp::avg;
  return graph;
}

protocol::PlayResult compiled(int rank,
                              std::vector<protocol::PlayedStep> steps = {{0, 1, 0}, {1, 1, 1}, {2, 1, 1}, {3, 1, 0}}) {
  protocol::PlayResult result{
      .rank = rank, .compiled_steps = std::move(steps), .plans = {{sample_backward()}, {averaging()}}};
  result.iterations = {{.iteration = 0}, {.iteration = 2}};
  return result;
}

std::string text_of(const StepGraph& graph) { return indented(to_text(graph), "  "); }

SubjectPlay play(std::vector<protocol::PlayResult> ranks) {
  return {.subject = "one", .verdict = Verdict::passed, .why = {}, .ranks = std::move(ranks)};
}

}  // namespace

TEST_CASE("a step is shown once for each plan, with the iterations that played it") {
  CHECK(compiled_steps_text(std::vector{compiled(0), compiled(1)}) ==
        "rank 0: compiled step of iteration 0\n" + text_of(sample_backward()) +
            "\nrank 0: compiled step of iterations 1 to 2\n" + text_of(averaging()) +
            "\nrank 0: compiled step of iteration 3\n  as in iteration 0\n");
  CHECK_THAT(compiled_steps_text(std::vector{compiled(0, {{0, 1, 0}, {0, 2, 0}, {1, 1, 1}})}),
             StartsWith("rank 0: compiled step of iterations 0 (backward 1) to 0 (backward 2)\n") &&
                 ContainsSubstring("\nrank 0: compiled step of iteration 1 (backward 1)\n"));
  protocol::PlayResult eager = compiled(0, {{0, 1, 0}});
  eager.plans = {{}};
  CHECK(compiled_steps_text(std::vector{eager}) ==
        "rank 0: compiled step of iteration 0\n  nothing: all passes ran eagerly\n");
}

TEST_CASE("ranks that compiled otherwise are named, and names cannot control the terminal") {
  std::vector ranks{compiled(0), compiled(1), compiled(2)};
  ranks[2].plans[1][0].nodes[0].label = "other";
  CHECK_THAT(compiled_steps_text(ranks), EndsWith("\nrank 2 compiled other steps: --json prints all ranks\n"));
  ranks[0].plans[0][0].nodes[0].label = "a\x1b[2J";
  CHECK_THAT(compiled_steps_text(ranks), !ContainsSubstring("\x1b"));
}

TEST_CASE("without a compiled step there is a line that says what to do") {
  const std::vector ranks{protocol::PlayResult{.rank = 0}};
  CHECK_FALSE(has_compiled_step(ranks));
  CHECK_FALSE(has_compiled_step({}));
  CHECK(compiled_steps_text(ranks) == std::string(no_compiled_step) + "\n");
}

TEST_CASE("a drawing has each plan once") {
  const std::string dot = compiled_steps_dot(compiled(0));
  CHECK_THAT(dot, ContainsSubstring("label=\"rank 0, iteration 0: backward\"") &&
                      ContainsSubstring("label=\"rank 0, iterations 1 to 2: backward\"") &&
                      !ContainsSubstring("iteration 3"));
}

TEST_CASE("compiled steps survive the way through JSON, and each captured iteration has its own") {
  const protocol::PlayResult result = compiled(1);
  CHECK(Json(Json(result).get<protocol::PlayResult>()) == Json(result));
  CHECK(Json(result).get<protocol::PlayResult>().plans == result.plans);
  Json spoiled = result;
  spoiled["compiled_steps"][1]["plan"] = 2;
  CHECK_THROWS_WITH(spoiled.get<protocol::PlayResult>(),
                    ContainsSubstring("\"plan\"") && ContainsSubstring("one of 2 plans"));
  CHECK_FALSE(Json(protocol::PlayResult()).contains("plans"));

  const Json rank = to_json(std::vector{result}, {})["ranks"][0];
  CHECK(rank["compiled_steps"][1] == Json{{"iteration", 1}, {"backward", 1}, {"plan", 1}});
  CHECK(rank["plans"] == Json(result.plans));
  CHECK(rank["iterations"][0]["compiled"] == Json(result.plans[0]));
  CHECK(rank["iterations"][1]["compiled"] == Json(result.plans[1]));
  protocol::PlayResult plain = result;
  plain.compiled_steps.clear();
  const Json without = to_json(std::vector{plain}, {})["ranks"][0];
  CHECK_FALSE(without.contains("plans"));
  CHECK_FALSE(without["iterations"][0].contains("compiled"));
}

TEST_CASE("compiled steps of two subjects differ where they communicate otherwise") {
  const SubjectPlay one = play({compiled(0), compiled(1)});
  const PlayComparison alike = compare(one, one);
  CHECK(alike.alike());
  CHECK_THAT(to_text(alike), ContainsSubstring("\nplan     alike: 8 compiled steps\n"));
  CHECK(to_json(alike).at("compared").at("compiled_steps") == 8);

  SubjectPlay other = one;
  other.ranks[1].plans[1][0].nodes[2].op = ReduceOp::max;
  const PlayComparison comparison = compare(one, other);
  REQUIRE(comparison.differences.size() == 1);
  const PlayDifference& found = comparison.differences.front();
  CHECK(found.aspect == Aspect::plan);
  CHECK(found.rank == 1);
  CHECK(found.iteration == 1);
  CHECK(found.what == "communication 1 of backward 1");
  CHECK(found.values ==
        std::array<std::string, 2>{"all_reduce 0 (avg), 16 f32, ranks 0 1", "all_reduce 0 (max), 16 f32, ranks 0 1"});
  CHECK(found.more == "before it, on both: compiled backward");
  CHECK(to_json(comparison).at("differences").at(0).at("aspect") == "plan");
}

TEST_CASE("a wait at another place is a difference of compiled steps, and computation of other names is not") {
  const SubjectPlay one = play({compiled(0)});
  SubjectPlay other = one;
  StepGraph& graph = other.ranks[0].plans[0][0];
  graph.nodes[0].label = "0.weight";
  graph.nodes[3].operation = "mm";
  std::swap(graph.nodes[7], graph.nodes[9]);
  CHECK(compare(one, other).alike());
  std::swap(graph.nodes[6], graph.nodes[8]);
  const PlayComparison comparison = compare(one, other);
  REQUIRE(comparison.find(Aspect::plan) != nullptr);
  CHECK(comparison.find(Aspect::plan)->values ==
        std::array<std::string, 2>{"wait for all_reduce 0", "wait for all_reduce 1"});
  graph.nodes.erase(graph.nodes.begin() + 8);
  CHECK(compare(other, one).find(Aspect::plan) != nullptr);
}

TEST_CASE("a subject without compiled steps differs from one that has them") {
  const SubjectPlay one = play({compiled(0)}),
                    other = play({protocol::PlayResult{.rank = 0, .iterations = {{.iteration = 0}, {.iteration = 2}}}});
  const PlayComparison comparison = compare(other, one);
  REQUIRE(comparison.find(Aspect::plan) != nullptr);
  CHECK(comparison.find(Aspect::plan)->values == std::array<std::string, 2>{"0", "4"});
  SubjectPlay late = one;
  late.ranks[0].compiled_steps[2].iteration = 5;
  CHECK(compare(one, late).find(Aspect::plan)->values == std::array<std::string, 2>{"iteration 2", "iteration 5"});
  CHECK_THAT(to_text(compare(other, other)), !ContainsSubstring("plan "));
}
