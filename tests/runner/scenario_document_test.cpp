// A scenario's document on disk: read once, however often the file changes afterwards.
#include "harness/runner/play/scenario_document.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tests/runner/world_driver.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using test::TemporaryDirectory;

namespace {

constexpr char model_and_script[] =
    R"("model": {"root": {"kind": "relu"}},
"script": {"input": [1, 2], "segments": [{"body": [
"forward"]}]},
"plan": {"fully_shard": {"wrap": []}, "optimizer": {"kind": "sgd", "rate": 1}}})";

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("the scenario and the lines of its calls are of one text, also after the file changed") {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "a.json";
  write_text(file, std::string(R"({"version": 2,)") + "\n" + model_and_script);
  const runner::ScenarioDocument document(file);
  write_text(file, "\n\n\n[]");
  CHECK(document.scenario().script.segments.size() == 1);
  CHECK(document.line_of(ScriptPlace{.segment = 0, .call = 0}) == 4);
  CHECK(document.line_of(std::nullopt) == 5);
  CHECK_THROWS_WITH(runner::read_scenario(file), ContainsSubstring("a.json:4:1: scenario: expected an object"));
}

TEST_CASE("a document is playable on the ranks that are asked for, on its own, or on two") {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "a.json";
  write_text(file, std::string(R"({"version": 2,)") + model_and_script);
  CHECK(runner::ScenarioDocument(file).playable_scenario(std::nullopt).world_size == 2);
  CHECK(runner::ScenarioDocument(file).playable_scenario(3).world_size == 3);
  write_text(file, std::string(R"({"version": 2, "world_size": 5,)") + model_and_script);
  CHECK(runner::ScenarioDocument(file).playable_scenario(std::nullopt).world_size == 5);
  CHECK_THROWS_WITH(runner::ScenarioDocument(file).playable_scenario(4), ContainsSubstring("use --ranks 5"));
}
