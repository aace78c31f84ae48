// `shardproof diff` by clause, and its gates, on runs with and without a fault.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

TEST_CASE("a gate of diff ends with 1 if a forbidden change is present, and lists it") {
  TemporaryDirectory directory;
  const std::string right = directory / "right", broken = directory / "broken", less = directory / "less";
  const auto run = [](const std::string& out, const std::vector<std::string>& options) {
    std::vector<std::string> arguments{"run", "--worker", SHARDPROOF_FAULTY_PROGRAM, "--out", out};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return call(arguments).end;
  };
  REQUIRE(run(right, {}) == code(0));
  REQUIRE(run(broken, {"--fault", "noticed"}) == code(1));
  REQUIRE(run(less, {"plain", "blind"}) == code(0));

  const Said plain = call({"diff", right, broken});
  CHECK(plain.end == code(1));
  CHECK_THAT(plain.out, ContainsSubstring("clause_weaker  SEE-1  met -> not met\n") && EndsWith("; regression\n"));
  const Said gated = call({"diff", right, broken, "--fail-on", "clause_weaker,fixed"});
  CHECK(gated.end == code(1));
  CHECK_THAT(gated.out, ContainsSubstring("forbidden: 1 clause_weaker: SEE-1\n") && EndsWith("gate: failed\n"));
  CHECK(call({"diff", right, broken, "--fail-on", "fixed", "--fail-on", "removed_case"}).end == code(0));
  CHECK(call({"diff", broken, right, "--fail-on", "fixed"}).end == code(1));

  CHECK(call({"diff", right, less}).end == code(1));
  CHECK(call({"diff", right, less, "--allow", "seen"}).end == code(0));
  CHECK(call({"diff", right, less, "--fail-on", "regression,clause_weaker", "--allow", "seen"}).end == code(1));
  CHECK(call({"diff", right, less, "--fail-on", "clause_weaker", "--allow", "SEE-1"}).end == code(0));
  CHECK(call({"diff", right, broken, "--allow", "seen"}).end == code(1));  // only a waiver excuses a failure

  const auto json = nlohmann::json::parse(call({"diff", right, broken, "--json", "--fail-on", "new_failure"}).out);
  CHECK(json.at("gate").at("found").at("new_failure").at(0) == "seen/looks[W=1]");
  CHECK_FALSE(nlohmann::json::parse(call({"diff", right, right, "--json"}).out).contains("gate"));
}

TEST_CASE("diff refuses a class that it does not know, and names the classes") {
  const Said said = call({"diff", "a", "b", "--fail-on", "weaker"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("--fail-on: unknown class 'weaker'; known: clause_weaker, fixed, "));
  CHECK_THAT(call({"diff", "a", "b", "--fail-on", "new_failures"}).err,
             ContainsSubstring("unknown class 'new_failures'; closest is 'new_failure'; known: "));
}
