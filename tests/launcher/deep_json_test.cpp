// Documents that go deeper than any of ours: refused wherever they come from, where walking them would end the stack.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sstream>

#include "harness/base/json_parse.hpp"
#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

/// The document with one more field, of `depth` brackets.
std::string with_deep_field(std::string document, std::size_t depth = 200'000) {
  return document.insert(document.find('{') + 1, "\"unknown\": " + nested(depth) + ", ");
}

}  // namespace

TEST_CASE("depth has a limit, breadth has none") {
  CHECK(base::parse_json(nested(base::deepest_json)).size() == 1);
  CHECK_THROWS_AS(base::parse_json(nested(base::deepest_json + 1)), std::invalid_argument);
  std::string wide = "[[]";
  for (int i = 0; i < 1000; ++i) wide += ",{\"a\":[1]}";
  CHECK(base::parse_json(wide + "]").size() == 1001);
  std::istringstream deep(nested(base::deepest_json + 1)), flat("[1, 2]");
  CHECK_THROWS_AS(base::parse_json(deep), std::invalid_argument);
  CHECK(base::parse_json(flat).size() == 2);
  CHECK_THROWS_AS(base::parse_json("[[["), nlohmann::json::parse_error);
  CHECK(base::parse_json("[\"" + std::string(200, '[') + "\\\"" + std::string(200, '{') + "\"]").size() ==
        1);  // text is not nested
}

TEST_CASE("a report that is nested too deeply is refused") {
  TemporaryDirectory directory;
  const std::string run = (directory / "run").string();
  REQUIRE(call({"run", "good/alone", "--worker", trouble_program().string(), "--out", run}).end == code(0));
  const auto deep = directory / "deep.json";
  write_text(deep, with_deep_field(text_of(directory / "run/report.json")));
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"stable", deep.string()}, {"diff", deep.string(), run}}) {
    const Said said = call(arguments);
    CHECK(said.end == code(2));
    CHECK_THAT(said.err, ContainsSubstring("is not a report: JSON nested deeper than 100 levels"));
  }
}

TEST_CASE("a run directory with a document that is too deep is evidence that cannot be used") {
  TemporaryDirectory directory;
  const auto run = directory / "run";
  REQUIRE(call({"run", "good/alone", "--worker", trouble_program().string(), "--out", run.string()}).end == code(0));
  for (const char* file : {"run.json", "listing.json", "plan.json", "worlds/0/plan.json", "worlds/0/endings.json",
                           "worlds/0/ranks/rank-0.jsonl"}) {
    const std::string before = text_of(run / file);
    write_text(run / file, with_deep_field(before));
    const Said said = call({"merge", run.string()});
    INFO(file << ": " << said.out << said.err);
    CHECK(said.end == code(5));
    CHECK_THAT(unwrapped(said.out + said.err), ContainsSubstring("JSON nested deeper than 100 levels"));
    write_text(run / file, before);
  }
  CHECK(call({"merge", run.string()}).end == code(0));
}

TEST_CASE("a worker whose answer is nested too deeply is refused") {
  TemporaryDirectory directory;
  const auto worker = directory / "worker";
  write_text(directory / "answer", with_deep_field("{\"protocol\": 1}"));
  write_text(worker, "#!/bin/sh\ncat '" + (directory / "answer").string() + "'\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const Said said = call({"list", "--worker", worker.string()});
  CHECK(said.end == code(3));
  CHECK_THAT(said.err, ContainsSubstring("its answer is malformed: JSON nested deeper than 100 levels"));
}
