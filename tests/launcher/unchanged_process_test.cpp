// A case that leaves a thread, a limit or another change in its ranks' processes fails itself, and no case after it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Matches;

namespace {

/// The first failure of the case. Empty: it did not fail.
std::string failure_of(const nlohmann::json& report, const std::string& id) {
  for (const auto& result : report.at("cases")) {
    if (result.at("id") == id && result.contains("failures")) return result.at("failures").at(0).at("expansion");
  }
  return {};
}

}  // namespace

TEST_CASE("a case that changes its process fails, and the cases after it run in a fresh world") {
  TemporaryDirectory directory;
  const std::vector<std::string> changes{
      "a_thread",         "a_check",   "many_threads", "a_thread_with_an_odd_name", "a_limit",
      "a_blocked_signal", "a_handler", "a_timer",      "all_signals_blocked",       "an_umask",
      "no_death_signal"};
  std::vector<std::string> cases;
  Verdicts expected{{"quiet/restored[W=2]", "passed"},
                    {"quiet/lets_others_check[W=2]", "passed"},
                    {"loud/changes_directory[W=2]", "failed"}};
  for (const std::string& change : changes) {
    cases.push_back("leaves/" + change);
    expected["leaves/" + change + "[W=2]"] = "failed";
  }
  cases.insert(cases.end(), {"loud/changes_directory", "quiet/lets_others_check", "quiet/restored", "many"});
  for (int n = 0; n < 10; ++n) expected["many/rounds[W=2,n=" + std::to_string(n) + "]"] = "passed";
  const Said said = run_trouble(directory / "run", cases);
  INFO(said.out << said.err);
  CHECK(said.end == code(1));  // no limit of worlds ends the run: the machine is not to blame
  CHECK(verdicts(directory / "run") == expected);

  const nlohmann::json report = report_of(directory / "run");
  CHECK(report.at("worlds").size() == changes.size() + 1);
  const auto failure = [&](const std::string& name) { return failure_of(report, "leaves/" + name + "[W=2]"); };
  CHECK_THAT(
      failure("a_thread"),
      Matches(
          R"(not quiet at its end: thread \d+ "late"( \(in \w+\))? still runs: join it before the body ends, or .*)"));
  CHECK_THAT(failure("a_check"), ContainsSubstring("still runs"));
  CHECK_THAT(failure("many_threads"),
             ContainsSubstring("\"many\"") && ContainsSubstring(" and 3 more still run: join them"));
  CHECK_THAT(failure("a_limit"), ContainsSubstring("the soft limit RLIMIT_AS is 1048576, and was unlimited"));
  CHECK_THAT(failure("a_blocked_signal"),
             ContainsSubstring("signal 10 (SIGUSR1) is blocked in the rank's thread: restore this"));
  CHECK_THAT(failure("a_handler"), ContainsSubstring("signal 12 (SIGUSR2) has another handler"));
  CHECK_THAT(failure("a_timer"), ContainsSubstring("a timer (alarm, setitimer) still runs"));
  CHECK_THAT(failure("all_signals_blocked"), ContainsSubstring("signal 4 (SIGILL) and ") &&
                                                 ContainsSubstring(" more are blocked in the rank's thread"));
  CHECK_THAT(failure("no_death_signal"),
             ContainsSubstring("the signal at the parent's end (PR_SET_PDEATHSIG) is 0, and was 9"));
  CHECK_THAT(failure("an_umask"), ContainsSubstring("the umask is 0777, and was 0"));
  CHECK_THAT(failure_of(report, "loud/changes_directory[W=2]"),
             ContainsSubstring("the working directory is /, and was "));

  REQUIRE(call({"merge", (directory / "run").string()}).end == code(1));
  CHECK(report_of(directory / "run") == report);
}

TEST_CASE("a case whose timer or thread ends the process after it gets the blame, and the next case runs") {
  TemporaryDirectory directory;
  int round = 0;
  for (const std::string change : {"a_timer_that_ends_soon", "a_thread_that_crashes"}) {
    for (int i = 0; i < 4; ++i) {
      CAPTURE(change, i);
      const auto run = directory / std::to_string(round++);
      const Said said = run_trouble(run, {"leaves/" + change, "many/rounds"});
      INFO(said.out << said.err);
      Verdicts found = verdicts(run);
      const std::string verdict = found.at("leaves/" + change + "[W=2]");
      CHECK((verdict == "failed" || (verdict == "crashed" && change == "a_thread_that_crashes")));
      found.erase("leaves/" + change + "[W=2]");
      CHECK(found.size() == 10);
      for (const auto& [id, passed] : found) CHECK(passed == "passed");
    }
  }
}

TEST_CASE("a failed case also reports the thread that it left") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"leaves/a_thread_and_fails", "good/stays"});
  INFO(said.out << said.err);
  CHECK(verdicts(directory / "run") ==
        Verdicts{{"leaves/a_thread_and_fails[W=2]", "failed"}, {"good/stays[W=2]", "passed"}});
  CHECK_THAT(said.out, ContainsSubstring("rank.index() == 0") && ContainsSubstring("\"late\""));
}

TEST_CASE("ended threads, restored settings and declared threads are no finding") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"quiet", "good/stays", "--repeat", "5"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(report_of(directory / "run").at("worlds").size() == 1);
}

TEST_CASE("of ranks that are threads of one process, only the signal mask is compared") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run",
                                {"leaves/a_thread", "leaves/a_blocked_signal", "good/stays", "--fabric", "thread"});
  INFO(said.out << said.err);
  CHECK(verdicts(directory / "run") == Verdicts{{"leaves/a_thread[W=2]", "passed"},
                                                {"leaves/a_blocked_signal[W=2]", "failed"},
                                                {"good/stays[W=2]", "passed"}});
}
