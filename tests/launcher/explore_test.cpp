// `shardproof explore` on subjects that cannot be explored, or not to the end.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

namespace {

nlohmann::json explored(const std::filesystem::path& directory) {
  std::ifstream file(directory / "explored.json");
  return nlohmann::json::parse(file);
}

/// The fickle program behind a shell that does this first.
std::filesystem::path wrapped(const TemporaryDirectory& directory, const std::string& first) {
  const std::filesystem::path file = directory / "wrapped";
  write_text(file, "#!/bin/sh\n" + first + "\nexec " SHARDPROOF_FICKLE_PROGRAM " \"$@\"\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return file;
}

/// Explores with a worker that makes three scenarios in its own way.
Said explore_three(const TemporaryDirectory& directory, const std::string& first) {
  return call({"explore", "--worker", wrapped(directory, first).string(), "--subject", "steady,fickle", "--ranks", "1",
               "--rounds", "3", "--out", (directory / "out").string()},
              {.environment = {"FICKLE_MARK=" + (directory / "mark").string()}});
}

}  // namespace

TEST_CASE("explore reports a difference that it could not reproduce") {
  const TemporaryDirectory directory;
  const std::filesystem::path out = directory / "out";
  const Said said = call({"explore", "--worker", SHARDPROOF_FICKLE_PROGRAM, "--subject", "steady,fickle", "--ranks",
                          "1", "--rounds", "3", "--timeout", "70.5", "--ulps", "2", "--out", out.string()},
                         {.environment = {"FICKLE_MARK=" + (directory / "mark").string()}});
  INFO(said.out << said.err);
  CHECK(said.end == code(1));
  CHECK_THAT(said.out, ContainsSubstring("verdict differ; made smaller in 0 steps of") &&
                           ContainsSubstring("; played once more, it did not show:\n"));
  CHECK_THAT(said.out, ContainsSubstring("this once it is another matter"));
  const auto found = explored(out).at("differences").at(0);
  const std::string options =
      std::string(" --ranks 1 --subject steady,fickle --ulps 2 --timeout 70.5 --worker ") + SHARDPROOF_FICKLE_PROGRAM;
  CHECK_THAT(found.at("play").get<std::string>(), EndsWith("differences/1/scenario.json" + options));
  CHECK_THAT(found.at("find").get<std::string>(),
             EndsWith(" explore --engine fully_shard --seed 0 --rounds 1" + options));
  CHECK(found.at("steady") == false);
  CHECK(found.at("smallest") == true);
}

TEST_CASE("a difference that cannot be made smaller, since the worker does not do that, is kept") {
  const TemporaryDirectory directory;
  const Said said = explore_three(directory, R"(test "$1" != --shrink-scenario || { echo no room >&2; exit 1; })");
  INFO(said.out << said.err);
  CHECK(said.end == code(3));
  CHECK_THAT(
      said.err,
      ContainsSubstring(
          "asked with --shrink-scenario, it ended with exit code 1: no room; what was found until then is kept"));
  CHECK_THAT(said.out, ContainsSubstring("verdict differ; made smaller, not to the end, in 0 steps of 0 plays"));
  const auto exploration = explored(directory / "out");
  CHECK(exploration.at("interrupted") == false);
  CHECK_THAT(exploration.at("error").get<std::string>(), ContainsSubstring("no room"));
  REQUIRE(exploration.at("differences").size() == 1);
  CHECK(exploration.at("differences").at(0).at("smallest") == false);
  CHECK(std::filesystem::exists(directory / "out" / "differences" / "1" / "scenario.json"));
}

TEST_CASE("explore reports what a worker made instead of scenarios") {
  const TemporaryDirectory directory;
  const auto [answer, exploration] = GENERATE(table<std::string, std::string>(
      {{"echo '{\"seed\": 1}'", "--make-scenario, its answer is malformed: scenario"},
       {"echo 'nothing'", "--make-scenario, its answer is malformed: "},
       {"true", "made 0 scenarios instead of 1"},
       {"kill -TERM $$",
        "cannot make scenarios: asked with --make-scenario, it ended with signal 15 (SIGTERM): it prints no error"}}));
  const Said said = explore_three(directory, "test \"$1\" != --make-scenario || { " + answer + "; exit 0; }");
  CHECK(said.end == code(3));
  CHECK_THAT(said.err, ContainsSubstring(exploration));
}

TEST_CASE(
    "a worker in which something is thrown that is no exception of the library says so, and ends as one that cannot do "
    "its work") {
  const Said said = call({"list", "--worker", SHARDPROOF_FICKLE_PROGRAM}, {.environment = {"FICKLE_THROWS=1"}});
  CHECK(said.end == code(3));
  CHECK_THAT(said.err, ContainsSubstring("it ended with exit code 3 (standard error: ") &&
                           ContainsSubstring("an exception that is not a std::exception)"));
}

TEST_CASE("two subjects that refuse everything agree on everything") {
  const TemporaryDirectory directory;
  const std::filesystem::path out = directory / "out";
  const Said said = call({"explore", "--worker", SHARDPROOF_FICKLE_PROGRAM, "--subject", "steady,fickle", "--rounds",
                          "5", "--out", out.string()});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(explored(out).at("alike") == 5);
  CHECK(explored(out).at("features") == nlohmann::json::array());
  CHECK(explored(out).at("engine") == "fully_shard");
}

TEST_CASE("explore refuses subjects without an engine kind for which it draws scenarios") {
  const Said said = call({"explore", "--worker", SHARDPROOF_SUBJECTS_PROGRAM, "--subject", "first,second"});
  CHECK(said.end == code(2));
  CHECK(said.err ==
        "shardproof: subjects first and second both claim none of the engine kinds for which scenarios are drawn: "
        "fully_shard, flat_shard, replicate\n");
  const auto asked = [](const char* kind) {
    return call({"explore", "--worker", SHARDPROOF_SUBJECTS_PROGRAM, "--subject", "first,second", "--engine", kind})
        .err;
  };
  CHECK(asked("flat_shard") == "shardproof: subject first does not claim the engine kind flat_shard\n");
  CHECK(asked("tea") == "shardproof: --engine tea: scenarios are drawn for fully_shard, flat_shard, replicate\n");
}
