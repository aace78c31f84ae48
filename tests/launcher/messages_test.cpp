// Messages of commands name what the user gave: the directory, the report, the worker, the seed. And commands need the
// current directory only for paths that are relative to it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("commands with absolute paths work in a current directory that was deleted") {
  TemporaryDirectory directory;
  const Setting setting{.prelude = "mkdir gone; cd gone; rmdir ../gone;"};
  const std::string run = (directory / "run").string();
  const Said said = run_trouble(run, {"good/alone"}, setting);
  INFO(said.out << said.err);
  REQUIRE(said.end == code(0));
  CHECK(run_trouble(run, {"good/alone", "--overwrite"}, setting).end == code(0));
  CHECK(call({"merge", run}, setting).end == code(0));
  CHECK(call({"diff", run, run}, setting).end == code(0));
  CHECK(call({"explain", run}, setting).end == code(0));

  const Said homeless = call({"run", "good/alone", "--worker", trouble_program().string()}, setting);
  CHECK(homeless.end == code(2));
  CHECK_THAT(homeless.err,
             ContainsSubstring("the current directory was deleted: name a directory for the run with --out"));
}

TEST_CASE("merge says that a directory does not exist") {
  TemporaryDirectory directory;
  Said said = call({"merge", (directory / "nowhere").string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("nowhere: no such directory"));
  write_text(directory / "file", "");
  said = call({"merge", (directory / "file").string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("file: not a directory"));
}

TEST_CASE("run --rerun-failed names the report whose options are not valid") {
  TemporaryDirectory directory;
  run_trouble(directory / "run", {"bad/check", "--timeout", "77"});
  std::string report = text_of(directory / "run/report.json");
  const std::size_t place = report.find("\"77\"");
  REQUIRE(place != std::string::npos);
  report.replace(place, 4, "\"-7\"");
  write_text(directory / "broken.json", report);
  const Said said = run_trouble(directory / "again", {"--rerun-failed", (directory / "broken.json").string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("broken.json: the options of that run are not valid: --timeout"));
}

TEST_CASE("the hint about cases names the worker of the user") {
  const std::string worker = trouble_program().string();
  const std::string hint = "`shardproof list --worker " + worker + "` shows all cases";
  CHECK_THAT(call({"run", "nothing", "--worker", worker}).err, ContainsSubstring(hint));
  CHECK_THAT(call({"list", "nothing", "--worker", worker}).err, ContainsSubstring(hint));
}

TEST_CASE("explore refuses seeds that its rounds would go beyond") {
  const auto explore = [](const std::string& seed, const std::string& rounds) {
    return call({"explore", "--worker", SHARDPROOF_FICKLE_PROGRAM, "--subject", "steady,steady", "--ranks", "1",
                 "--seed", seed, "--rounds", rounds, "--quiet"});
  };
  const Said said = explore("18446744073709551614", "3");
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("--seed 18446744073709551614: 3 rounds go beyond the last seed"));
  CHECK_THAT(explore("18446744073709551614", "2").err, !ContainsSubstring("go beyond"));
}

TEST_CASE("with a gate, diff has one verdict") {
  TemporaryDirectory directory;
  run_trouble(directory / "run", {"good/alone"});
  const std::string run = (directory / "run").string();
  CHECK_THAT(call({"diff", run, run}).out, ContainsSubstring("1 case: 1 unchanged; no regression\n"));
  const Said said = call({"diff", run, run, "--fail-on", "new_failure"});
  CHECK_THAT(said.out, ContainsSubstring("1 case: 1 unchanged\ngate: passed") && !ContainsSubstring("regression"));
}

TEST_CASE("the exit codes 2 and 3 after the last case of a rank are no refusal of its world") {
  for (const std::string exit_code : {"2", "3", "7"}) {
    TemporaryDirectory directory;
    const Said said = run_trouble(directory / "run", {"good/meets[W=2]"},
                                  {.environment = {"TROUBLE=fails at its end", "EXIT_CODE=" + exit_code}});
    INFO(said.out << said.err);
    CHECK(said.end == code(4));
    CHECK(verdicts(directory / "run").at("good/meets[W=2]") == "passed");
    CHECK_THAT(said.out, ContainsSubstring("rank 1 exited with code " + exit_code + " after its last case") &&
                             !ContainsSubstring("could not join"));
    CHECK(call({"merge", (directory / "run").string()}).end == code(4));
  }
}
