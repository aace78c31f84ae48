// `play` shows what an engine compiled: as text, as JSON and as a drawing.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/protocol/step_graph_json.hpp"
#include "reports/export/terminal.hpp"
#include "reports/play/step_graph_text.hpp"
#include "tests/launcher/command.hpp"
#include "tests/launcher/temporary.hpp"
#include "tests/protocol/sample_step.hpp"

using namespace shardproof;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using shardproof::testing::sample_backward;
using Json = nlohmann::ordered_json;

namespace {

struct Plays {
  TemporaryDirectory directory;
  std::string document = directory / "scenario.json";

  explicit Plays(bool compiles) {
    Json scenario = Json::parse(R"({"version": 2, "plan": {"replicate": {}},
      "model": {"root": {"kind": "linear", "in_features": 4, "out_features": 4}, "loss": {"kind": "sum"}},
      "script": {"input": [2, 4], "segments": [{"iterations": 4, "body": ["forward", "backward"]}]}})");
    if (compiles) scenario["plan"]["replicate"]["compile"] = Json::object();
    write_text(document, scenario.dump());
  }

  Said operator()(const std::vector<std::string>& more) const {
    std::vector<std::string> all{"play", document, "--worker", SHARDPROOF_COMPILING_PROGRAM};
    all.insert(all.end(), more.begin(), more.end());
    return call(all);
  }
};

constexpr char nothing[] =
    "no compiled step: a compiled step needs \"compile\": {} in the plan's section replicate, and a backward in the "
    "script.\n";

}  // namespace

TEST_CASE("a compiled step is printed, and again where it is another one") {
  const Plays play(true);
  const Said said = play({"--show-plan"});
  CHECK(said.end == code(0));
  StepGraph other = sample_backward();
  other.nodes[2].op = ReduceOp::avg;
  CHECK_THAT(said.out, EndsWith("rank 0: compiled step of iterations 0 to 1\n" +
                                reports::indented(reports::to_text(sample_backward()), "  ") +
                                "\nrank 0: compiled step of iterations 2 to 3\n" +
                                reports::indented(reports::to_text(other), "  ")));
  CHECK_THAT(play({}).out, !ContainsSubstring("compiled"));
}

TEST_CASE("a play without a compiled step says what to do") {
  const Plays play(false);
  const Said shown = play({"--show-plan"});
  CHECK(shown.end == code(0));
  CHECK_THAT(shown.out, EndsWith(nothing));
  const std::string dot = play.directory / "plan.dot";
  const Said drawn = play({"--plan-dot", dot});
  CHECK(drawn.end == code(2));
  CHECK_THAT(drawn.err, EndsWith(dot + " is not written: " + nothing));
  CHECK_FALSE(std::filesystem::exists(dot));
  CHECK_FALSE(Json::parse(play({"--json"}).out)["ranks"][0].contains("plans"));
}

TEST_CASE("JSON has each plan once, and which backward played which") {
  const Json rank = Json::parse(Plays(true)({"--json"}).out)["ranks"][1];
  REQUIRE(rank["plans"].size() == 2);
  CHECK(rank["plans"][0].get<std::vector<StepGraph>>() == std::vector{sample_backward()});
  CHECK(rank["compiled_steps"].size() == 4);
  CHECK(rank["compiled_steps"][2] == Json{{"iteration", 2}, {"backward", 1}, {"plan", 1}});
}

TEST_CASE("a drawing of the compiled step is a new file, in the output directory or elsewhere") {
  const Plays play(true);
  const std::string dot = play.directory / "plan.dot", out = play.directory / "out";
  const Said said = play({"--plan-dot", dot});
  CHECK(said.end == code(0));
  CHECK_THAT(said.out, ContainsSubstring("plan: " + dot + "\n"));
  CHECK_THAT(text_of(dot), ContainsSubstring("label=\"rank 0, iterations 0 to 1: backward\"") &&
                               ContainsSubstring("label=\"rank 0, iterations 2 to 3: backward\""));
  CHECK(play({"--plan-dot", dot}).end == code(2));  // it is there
  CHECK(play({"--plan-dot", out + "/plan.dot", "--trace", out + "/trace.json", "--out", out}).end == code(0));
  CHECK(play({"--plan-dot", out + "/plan.dot", "--out", out, "--overwrite"}).end == code(0));
  CHECK_FALSE(std::filesystem::exists(out + "/trace.json"));
  CHECK_THAT(play({"--plan-dot", out + "/report.json", "--out", out, "--overwrite"}).err,
             ContainsSubstring("the run keeps its own files there: write --plan-dot " + out +
                               "/plan.dot, or name a file outside"));
}

TEST_CASE("incompatible options are refused") {
  const Plays play(true);
  const auto refusal = [&](const std::vector<std::string>& more) {
    const Said said = play(more);
    CHECK(said.end == code(2));
    return said.err;
  };
  CHECK_THAT(refusal({"--show-plan", "--json"}),
             ContainsSubstring("leave --show-plan out; the JSON has the plans in `ranks[].plans`"));
  const std::string file = play.directory / "file";
  CHECK_THAT(refusal({"--trace", file, "--plan-dot", file}),
             ContainsSubstring("--trace and --plan-dot name the same file"));
  CHECK_THAT(refusal({"--show-plan", "--subject", "a,b"}), ContainsSubstring("--show-plan with two subjects"));
  CHECK_THAT(refusal({"--plan-dot", file, "--subject", "a,b"}), ContainsSubstring("--plan-dot with two subjects"));
}
