// `shardproof statement` on a kept run: it finds the clauses' texts, and refuses what is not a report.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("statement prints the clauses of a run with the texts that the run recorded") {
  TemporaryDirectory directory;
  const auto run = directory / "run";
  REQUIRE(call({"run", "--worker", SHARDPROOF_FAULTY_PROGRAM, "--out", run.string()}).end == code(0));
  const Said said = call({"statement", run.string()});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK_THAT(said.out, ContainsSubstring("# Statement of conformance: "));
  CHECK_THAT(said.out, ContainsSubstring("| SEE-1 | met | "));
  const Said json = call({"statement", (run / "report.json").string(), "--json"});
  const auto kinds = nlohmann::json::parse(json.out).at("engine_kinds");
  CHECK(kinds.at(0).at("clauses").at(0).at("status") == "met");
  const std::string text = kinds.at(0).at("clauses").at(0).at("text");
  CHECK_FALSE(text.empty());

  // A report alone has no texts. --worker gives them.
  std::filesystem::copy(run / "report.json", directory / "alone.json");
  const std::string alone = directory / "alone.json";
  CHECK_THAT(call({"statement", alone}).out, !ContainsSubstring(text));
  CHECK(call({"statement", alone, "--worker", SHARDPROOF_FAULTY_PROGRAM}).out == said.out);

  // A clause that is not met is a result, not an error of the command.
  const auto broken = directory / "broken";
  CHECK(call({"run", "--worker", SHARDPROOF_FAULTY_PROGRAM, "--fault", "noticed", "--out", broken.string()}).end ==
        code(1));
  const Said bad = call({"statement", broken.string()});
  CHECK(bad.end == code(0));
  CHECK_THAT(bad.out, ContainsSubstring(" | not met | ") && ContainsSubstring("the fault `noticed`"));
}

TEST_CASE("statement refuses what is not a report, and a listing that cannot be read") {
  TemporaryDirectory directory;
  CHECK(call({"statement"}).end == code(2));
  CHECK(call({"statement", "/nowhere"}).end == code(2));
  const auto run = directory / "run";
  REQUIRE(call({"run", "--worker", SHARDPROOF_FAULTY_PROGRAM, "--out", run.string()}).end == code(0));
  write_text(run / "listing.json", "{");
  const Said said = call({"statement", run.string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("listing.json") && ContainsSubstring("--worker"));
  CHECK(call({"statement", run.string(), "--worker", "/nowhere"}).end != code(0));
}
