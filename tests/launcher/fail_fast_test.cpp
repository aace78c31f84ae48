// `run --fail-fast`: after the first failed case, no other case begins. Finished cases keep their results, the report
// says why the other cases did not run, and the exit code is that of the failure.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

std::ptrdiff_t count(const Verdicts& verdicts, const std::string& wanted) {
  return std::ranges::count(verdicts, wanted, [](const auto& entry) { return entry.second; });
}

/// Each case that did not run says so, with the failed case.
void check_left_out(const nlohmann::json& report, const std::string& failed) {
  for (const auto& result : report.at("cases")) {
    const bool is_left_out = result.at("verdict") == "not_run";
    CHECK(result.value("left_out", false) == is_left_out);
    if (is_left_out) {
      INFO(result.dump());
      CHECK_THAT(result.at("notes").dump(), ContainsSubstring(failed) && ContainsSubstring("--fail-fast"));
    }
  }
  for (const auto& world : report.at("worlds")) CHECK(world.at("defects").empty());
}

void check_merge(const std::filesystem::path& run, int end) {
  const auto report = report_of(run);
  CHECK(call({"merge", run.string()}).end == code(end));
  CHECK(report_of(run) == report);
}

std::filesystem::path waivers_for(const TemporaryDirectory& directory, const std::string& pattern,
                                  const std::string& verdict) {
  const auto file = directory / "waivers.json";
  write_text(file, R"({"version": 1, "waivers": [{"pattern": ")" + pattern + R"(", "verdict": ")" + verdict +
                       R"(", "reason": "known", "link": "none", "owner": "me", "expires": "2999-12-31"}]})");
  return file;
}

}  // namespace

TEST_CASE("with --fail-fast, no case begins after a failed case") {
  for (const std::string fabric : {"shm", "thread"}) {
    TemporaryDirectory directory;
    const Said said = run_trouble(directory / "run", {"bad/check", "many", "good", "--fail-fast", "--fabric", fabric});
    INFO(said.out << said.err);
    CHECK(said.end == code(1));
    CHECK_THAT(said.out, ContainsSubstring("bad/check[W=2] did not pass (--fail-fast)"));
    const Verdicts seen = verdicts(directory / "run");
    CHECK(seen.size() == 15);
    CHECK(seen.at("good/alone[W=1]") == "passed");
    CHECK(seen.at("bad/check[W=2]") == "failed");
    CHECK(count(seen, "not_run") == 13);
    check_left_out(report_of(directory / "run"), "bad/check[W=2]");
    CHECK_FALSE(std::filesystem::exists(directory / "run/worlds/2"));
    check_merge(directory / "run", 1);
  }
}

TEST_CASE("with --fail-fast, a rank's crash or hang ends the run, with its own exit code") {
  TemporaryDirectory directory;
  const Said crashed = run_trouble(directory / "crashed", {"bad/killed", "many", "good/meets", "--fail-fast"});
  INFO(crashed.out << crashed.err);
  CHECK(crashed.end == code(4));
  CHECK(verdicts(directory / "crashed").at("bad/killed[W=2]") == "crashed");
  CHECK(count(verdicts(directory / "crashed"), "not_run") == 12);
  check_left_out(report_of(directory / "crashed"), "bad/killed[W=2]");
  check_merge(directory / "crashed", 4);
  const Said hung = run_trouble(directory / "hung", {"bad/hangs", "good/meets", "--fail-fast", "--timeout", "0.5"});
  CHECK(hung.end == code(4));
  CHECK(verdicts(directory / "hung").at("good/meets[W=3]") == "not_run");
  check_left_out(report_of(directory / "hung"), "bad/hangs[W=2]");
}

TEST_CASE("with --fail-fast, a failed case is no world that a deadline cost") {
  TemporaryDirectory directory;
  for (const auto& [failing, end] : {std::pair{"bad/check", 1}, std::pair{"bad/hangs", 4}}) {
    const Said said = run_trouble(directory / std::to_string(end),
                                  {failing, "good", "--fail-fast", "--max-hangs", "0", "--timeout", "0.5"});
    INFO(said.out << said.err);
    CHECK(said.end == code(end));
    CHECK_THAT(said.out + said.err, !ContainsSubstring("--max-hangs"));
  }
}

TEST_CASE("with --fail-fast, a waived failure does not end the run, and a failure of another kind does") {
  TemporaryDirectory directory;
  const auto run = [&](const std::string& out, const std::string& verdict, std::vector<std::string> cases) {
    cases.insert(cases.end(), {"many", "--fail-fast", "--waivers", waivers_for(directory, "bad/*", verdict).string()});
    return run_trouble(directory / out, cases);
  };
  const Said excused = run("excused", "failed", {"bad/check"});
  INFO(excused.out << excused.err);
  CHECK(excused.end == code(0));
  CHECK(count(verdicts(directory / "excused"), "passed") == 10);
  CHECK(run("other", "error", {"bad/check"}).end == code(1));
  CHECK(count(verdicts(directory / "other"), "passed") == 0);
  CHECK(run("died", "crashed", {"bad/killed"}).end == code(0));
  CHECK(count(verdicts(directory / "died"), "passed") == 10);
}

TEST_CASE("with --fail-fast, worlds that run at the same time end, and keep their finished cases") {
  TemporaryDirectory directory;
  // `bad/waits` holds one of the two jobs. So the smaller worlds have ended when the failing world begins.
  const std::string failing = "fails/leaves_the_others_waiting[W=3]";
  const Said said = run_trouble(
      directory / "run", {"bad/waits", "good/alone", failing, "good/meets", "--isolate", "--jobs", "2", "--fail-fast"});
  INFO(said.out << said.err);
  CHECK(said.end == code(1));
  CHECK(verdicts(directory / "run") == Verdicts{{"good/alone[W=1]", "passed"},
                                                {"good/meets[W=2]", "passed"},
                                                {"bad/waits[W=2]", "not_run"},
                                                {failing, "error"},
                                                {"good/meets[W=3]", "not_run"}});
  check_left_out(report_of(directory / "run"), failing);
  check_merge(directory / "run", 1);
}

TEST_CASE("after --fail-fast, --rerun-failed runs the failed case and the cases that did not run") {
  TemporaryDirectory directory;
  run_trouble(directory / "run", {"bad/check", "many", "good", "--fail-fast"});
  const Said said = run_trouble(directory / "again", {"--rerun-failed", (directory / "run").string()});
  INFO(said.out << said.err);
  CHECK(said.end == code(1));
  const Verdicts seen = verdicts(directory / "again");
  CHECK(seen.size() == 14);
  CHECK_FALSE(seen.contains("good/alone[W=1]"));
  CHECK(count(seen, "passed") == 13);
}

TEST_CASE("diff shows the cases that a run with --fail-fast did not reach as not run") {
  TemporaryDirectory directory;
  run_trouble(directory / "whole", {"bad/check", "many"});
  run_trouble(directory / "short", {"bad/check", "many", "--fail-fast"});
  const std::string whole = (directory / "whole").string(), cut = (directory / "short").string();
  Said said = call({"diff", whole, cut});
  INFO(said.out << said.err);
  CHECK(said.end == code(1));
  CHECK_THAT(said.out, ContainsSubstring("1 still_failing, 10 newly_not_run") && !ContainsSubstring("new_failure") &&
                           !ContainsSubstring("removed_case"));
  CHECK(call({"diff", whole, cut, "--fail-on", "new_failure"}).end == code(0));
  said = call({"diff", whole, cut, "--fail-on", "newly_not_run"});
  CHECK(said.end == code(1));
  CHECK_THAT(said.out, ContainsSubstring("forbidden: 10 newly_not_run: many/rounds[W=2,n=0]"));
  said = call({"diff", cut, whole});
  CHECK(said.end == code(0));
  CHECK_THAT(said.out, ContainsSubstring("10 status_changed"));
}

TEST_CASE("run --fail-fast does not go with --retries") {
  const Said said = call({"run", "--worker", "/nowhere", "--fail-fast", "--retries", "1"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("--fail-fast with --retries"));
}
