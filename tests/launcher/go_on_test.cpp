// A run goes on after one of its cases has ended its world. The other cases run, failed cases are tried again if the
// user asks for it, and a merge of the files makes the same report.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <string>
#include <vector>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

std::size_t worlds_in(const std::filesystem::path& run_directory) {
  return report_of(run_directory).at("worlds").size();
}

}  // namespace

TEST_CASE("every case has its verdict, however many of them end their world") {
  TemporaryDirectory directory;
  const Said said = run_trouble(
      directory / "run", {"bad/killed", "bad/segfault", "bad/exits", "bad/check", "many", "skip/asked[W=2]", "good"});
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  Verdicts expected{
      {"bad/killed[W=2]", "crashed"},       {"bad/segfault[W=2]", "crashed"},     {"bad/exits[W=2,code=0]", "crashed"},
      {"bad/exits[W=2,code=2]", "crashed"}, {"bad/exits[W=2,code=3]", "crashed"}, {"bad/check[W=2]", "failed"},
      {"skip/asked[W=2]", "skipped"},       {"good/alone[W=1]", "passed"},        {"good/meets[W=2]", "passed"},
      {"good/stays[W=2]", "passed"},        {"good/meets[W=3]", "passed"}};
  for (int n = 0; n < 10; ++n) expected["many/rounds[W=2,n=" + std::to_string(n) + "]"] = "passed";
  CHECK(verdicts(directory / "run") == expected);
  CHECK(worlds_in(directory / "run") == 8);  // five lost worlds, and one fresh world after the last of them

  const auto report = report_of(directory / "run");
  REQUIRE(call({"merge", (directory / "run").string()}).end == code(4));
  CHECK(report_of(directory / "run") == report);
}

TEST_CASE("after an aborted case, a fabric of messages needs a fresh world only if a call ended early") {
  TemporaryDirectory directory;
  const auto worlds_of = [&](std::vector<std::string> cases) {
    cases.insert(cases.end(),
                 {"good/meets[W=2]", "good/stays[W=2]", "--repeat", "2", "--fabric", "tcp", "--overwrite"});
    const Said said = run_trouble(directory / "run", cases);
    INFO(said.out << said.err);
    const auto summary = report_of(directory / "run").at("summary");
    CHECK(summary.at("passed") == 4);
    CHECK(summary.at("not_run") == 0);
    return worlds_in(directory / "run");
  };
  CHECK(worlds_of({"skip/asked[W=2]", "fails/asks_for_another_collective"}) == 1);
  CHECK(worlds_of({"fails/requires"}) == 3);  // a rank waits for the other one in each repetition
}

TEST_CASE("a run of repetitions loses only those that end their world") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"bad/killed", "good/stays", "--repeat", "3"});
  INFO(said.out << said.err);
  const auto report = report_of(directory / "run");
  CHECK(report.at("summary").at("crashed") == 3);
  CHECK(report.at("summary").at("passed") == 3);
  CHECK(report.at("summary").at("not_run") == 0);
}

TEST_CASE("a case that takes its world along when it is the last leaves nothing to run") {
  TemporaryDirectory directory;
  run_trouble(directory / "run", {"bad/killed", "bad/segfault"});
  CHECK(worlds_in(directory / "run") == 2);
}

TEST_CASE("ranks that die before their first case would do so in a fresh world, too") {
  TemporaryDirectory directory;
  const Said said =
      run_trouble(directory / "run", {"many", "good/alone", "good/meets"}, {.environment = {"TROUBLE=crashes early"}});
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  CHECK(verdicts(directory / "run").at("many/rounds[W=2,n=9]") == "not_run");
  CHECK(verdicts(directory / "run").at("good/alone[W=1]") == "passed");
  CHECK(worlds_in(directory / "run") == 3);  // of every size one
}

TEST_CASE("a run gives up when more worlds hang than it may lose") {
  TemporaryDirectory directory;
  const Said said = run_trouble(
      directory / "run", {"bad/hangs", "bad/waits", "many", "--repeat", "2", "--timeout", "0.3", "--max-hangs", "1"});
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  const auto summary = report_of(directory / "run").at("summary");
  CHECK(summary.at("hung") == 2);
  CHECK(summary.at("not_run") == 12);
  CHECK_THAT(said.out, ContainsSubstring("NOT RUN 12 cases"));
}

TEST_CASE("isolated cases have a world each, and the same verdicts") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"good", "many", "bad/check", "bad/killed", "--isolate"});
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  CHECK(worlds_in(directory / "run") == 16);
  run_trouble(directory / "together", {"good", "many", "bad/check", "bad/killed"});
  CHECK(verdicts(directory / "run") == verdicts(directory / "together"));
}

TEST_CASE("a case that passes after a failure is flaky, and a case that fails every time is not") {
  TemporaryDirectory directory;
  const auto counter = directory / "counter";
  const Setting setting{.environment = {"COUNTER=" + counter.string()}};
  Said said =
      run_trouble(directory / "run", {"flaky/third_time", "bad/check", "good/stays", "--retries", "2"}, setting);
  INFO(said.out << said.err);
  CHECK(said.end == code(1));
  CHECK_THAT(said.out, ContainsSubstring("FLAKY flaky/third_time[W=2]") && ContainsSubstring("1 flaky") &&
                           ContainsSubstring("FAIL bad/check[W=2] (attempt 1)") &&
                           ContainsSubstring("also in: 2 more runs of this case\n"));
  auto report = report_of(directory / "run");
  CHECK(report.at("summary").at("cases") == 3);
  CHECK(report.at("summary").at("passed") == 2);
  CHECK(report.at("summary").at("failed") == 1);
  CHECK(report.at("summary").at("flaky") == 1);
  std::vector<std::string> attempts;
  for (const auto& result : report.at("cases")) {
    if (result.at("id") == "flaky/third_time[W=2]")
      attempts.push_back(result.at("verdict").get<std::string>() + (result.value("superseded", false) ? "" : "!"));
  }
  CHECK(attempts == std::vector<std::string>{"failed", "failed", "passed!"});

  REQUIRE(call({"merge", (directory / "run").string()}).end == code(1));
  CHECK(report_of(directory / "run") == report);

  std::filesystem::remove(counter);
  said = run_trouble(directory / "again", {"flaky/third_time", "--retries", "2"}, setting);
  CHECK(said.end == code(0));
  CHECK_THAT(said.out, ContainsSubstring("1 passed; 1 flaky"));
}

TEST_CASE(
    "a case that ended its world is tried again where that is asked for, alone, and its first end does not count") {
  TemporaryDirectory directory;
  const Setting setting{.environment = {"COUNTER=" + (directory / "counter").string()}};
  const Said said = run_trouble(directory / "run", {"flaky/dies_once", "loud/forks", "--retries", "1"}, setting);
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  const auto report = report_of(directory / "run");
  CHECK(report.at("summary").at("flaky") == 1);
  CHECK(report.at("summary").at("crashed") == 0);
  CHECK(worlds_in(directory / "run") == 3);
  CHECK(call({"diff", (directory / "run").string(), (directory / "run").string()}).end == code(0));
}

TEST_CASE("what failed in a report can be run again, with its seed, and nothing else") {
  TemporaryDirectory directory;
  run_trouble(directory / "run", {"good", "bad/check", "bad/killed", "--seed", "77"});
  const std::string report = (directory / "run").string();
  Said said = run_trouble(directory / "again", {"--rerun-failed", report});
  INFO(said.out << said.err);
  CHECK(verdicts(directory / "again") == Verdicts{{"bad/check[W=2]", "failed"}, {"bad/killed[W=2]", "crashed"}});
  CHECK(report_of(directory / "again").at("run").at("seed") == 77);
  run_trouble(directory / "narrower", {"bad/check", "good", "--rerun-failed", report});
  CHECK(verdicts(directory / "narrower") == Verdicts{{"bad/check[W=2]", "failed"}});

  said = run_trouble(directory / "none", {"good", "--rerun-failed", report});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring(
                           "none of the 2 cases that ended badly there is among the selected ones, as bad/check[W=2]"));
  run_trouble(directory / "well", {"good"});
  said = run_trouble(directory / "none", {"--rerun-failed", (directory / "well").string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("no case of it ended badly"));
  CHECK(run_trouble(directory / "none", {"--rerun-failed", (directory / "nowhere").string()}).end == code(2));
  said = run_trouble(directory / "none", {"good", "--retries", "1", "--repeat", "2"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("--retries with --repeat"));
}

TEST_CASE("a merge knows which world answers for a case, and when a world has other cases than it should") {
  TemporaryDirectory directory;
  run_trouble(directory / "run", {"bad/killed", "many"});
  const auto fresh = directory / "run/worlds/1/plan.json";
  auto plan = nlohmann::ordered_json::parse(text_of(fresh));
  CHECK(plan.at("continues") == nlohmann::ordered_json{{"world", 0}, {"from", 1}});
  plan["cases"] = {"good/meets[W=2]"};
  write_text(fresh, plan.dump());
  Said said = call({"merge", (directory / "run").string()});
  CHECK(said.end == code(4));
  CHECK_THAT(said.err,
             ContainsSubstring("worlds/1/plan.json has other cases than") && ContainsSubstring("run/plan.json says"));
  CHECK(verdicts(directory / "run").at("many/rounds[W=2,n=0]") == "not_run");

  // As a launcher leaves it that is killed before it begins the fresh world.
  std::filesystem::remove_all(directory / "run/worlds/1");
  said = call({"merge", (directory / "run").string()});
  CHECK(said.end == code(4));
  CHECK(verdicts(directory / "run").at("bad/killed[W=2]") == "crashed");
  CHECK(report_of(directory / "run").at("summary").at("not_run") == 10);
}

TEST_CASE("a merge counts every case once, also when the plan of the run is lost") {
  TemporaryDirectory directory;
  run_trouble(directory / "run", {"bad/killed", "many"});
  const Verdicts seen = verdicts(directory / "run");
  std::filesystem::remove(directory / "run/plan.json");
  CHECK(call({"merge", (directory / "run").string()}).end == code(4));
  CHECK(verdicts(directory / "run") == seen);
  CHECK(report_of(directory / "run").at("summary").at("cases") == 11);
}

TEST_CASE("a merge keeps what ran in a fresh world when the plan of the world before it is lost") {
  TemporaryDirectory directory;
  run_trouble(directory / "run", {"bad/killed", "many"});
  write_text(directory / "run/worlds/0/plan.json", "x");
  const Said said = call({"merge", (directory / "run").string()});
  INFO(said.out << said.err);
  CHECK(said.end == code(5));
  const Verdicts seen = verdicts(directory / "run");
  CHECK(seen.size() == 11);
  CHECK(seen.at("bad/killed[W=2]") == "not_run");
  CHECK(report_of(directory / "run").at("summary").at("passed") == 10);
  CHECK_THAT(said.out, ContainsSubstring("world 1: 2 ranks of shm on sim, 10 cases: 10 passed"));
}

TEST_CASE("a merge keeps the cases of a world whose endings cannot be read, and reports the damage") {
  TemporaryDirectory directory;
  run_trouble(directory / "run", {"good/meets", "many/rounds[W=2,n=0]"});
  const Verdicts seen = verdicts(directory / "run");
  REQUIRE(worlds_in(directory / "run") > 1);
  write_text(directory / "run/worlds/0/endings.json", "{}");
  const Said said = call({"merge", (directory / "run").string()});
  INFO(said.out << said.err);
  CHECK(said.end == code(5));
  CHECK(verdicts(directory / "run") == seen);
  CHECK_THAT(report_of(directory / "run").at("worlds").at(0).at("defects").dump(), ContainsSubstring("endings.json"));
}
