// Tests the verdicts of a world's cases for every way in which one of its ranks can end.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>

#include "harness/protocol/failure_text.hpp"
#include "tests/reports/merged.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;
using How = protocol::Ending::How;

TEST_CASE("a rank that exits with 0 between two cases has ended its world, and the next case with it") {
  auto world = three_cases();
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.pass(rank, 0);
    world.ending(rank) = {rank, How::stopped, 0, -1, "rank 1 ended with exit code 0 between two cases"};
  }
  world.ending(1) = {
      .rank = 1, .how = How::exited, .code = 0, .position = -1, .text = "", .last_words = "", .is_cause = true};
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "crashed", "not_run"});
  CHECK(report.worlds.at(0).defects.empty());
  CHECK(report.cases.at(1).reasons.at(1) == "exited with code 0 before this case");
  CHECK(exit_code(report) == 4);
}

TEST_CASE("a rank killed inside a case crashed it, and the rest did not run") {
  for (const std::int64_t position : {-1, 1}) {  // the launcher may or may not know
    CAPTURE(position);
    const auto report = died_in_the_second({1, How::signalled, SIGKILL, position, ""}).merged();
    CHECK(verdicts(report) == Words{"passed", "crashed", "not_run"});
    CHECK(report.cases.at(1).reasons.at(1) == "was killed by signal 9 (SIGKILL) inside this case");
    CHECK(report.cases.at(1).reasons.at(0) == "rank 1 died");
    CHECK(report.worlds.at(0).defects.empty());
    CHECK(exit_code(report) == 4);
  }
}

TEST_CASE("a rank that dies after a case that left its process changed crashed that case, and the next one can run") {
  auto world = three_cases();
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.start(rank, 0);
    auto failure = check_failed("", "not quiet at its end: a timer (alarm, setitimer) still runs: restore this", 5);
    failure.macro = protocol::unchanged_process_check;
    world.of(rank).add(failure);
    world.end(rank, 0, protocol::Outcome::failed);
  }
  world.ending(0) = {0, How::stopped, 0, -1, "rank 1 died by signal 14 (SIGALRM)"};
  world.ending(1) = {1, How::signalled, SIGALRM, -1, ""};
  const WorldRecord record = world.record();
  Merger merger(RunHead{});
  merger.open_world(record.plan, record.cases, record.endings);
  for (const RankStream& stream : record.streams) merger.add(stream);
  CHECK(merger.answered() == 1);
  const auto report = merger.finish();
  CHECK(verdicts(report) == Words{"crashed", "not_run", "not_run"});
  CHECK(report.cases.at(0).reasons.at(1) == "was killed by signal 14 (SIGALRM) after this case");
  // Rank 0 was stopped because of rank 1. It has its own result of the case.
  CHECK(report.cases.at(0).ranks.at(0).outcome == protocol::Outcome::failed);
}

TEST_CASE("a rank killed before its launcher or itself could say where") {
  auto world = died_in_the_second({1, How::signalled, SIGSEGV, -1, ""});
  world.of(1).lines.pop_back();
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "crashed", "not_run"});
  CHECK(report.cases.at(1).reasons.at(1) == "was killed by signal 11 (SIGSEGV) before this case");
}

TEST_CASE("the launcher's record of where a rank died outranks the rank's pass") {
  auto world = three_cases();
  world.ending(1) = {1, How::signalled, SIGBUS, 1, ""};
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "crashed", "passed"});
  CHECK(exit_code(report) == 4);
}

TEST_CASE("a launcher and a stream that differ on where a rank died spoil both cases") {
  const auto report = died_in_the_second({1, How::signalled, SIGKILL, 2, ""}).merged();
  CHECK(verdicts(report) == Words{"passed", "crashed", "crashed"});
}

TEST_CASE("a rank that dies after its last case fails the run but no case") {
  for (const auto& ending :
       {protocol::Ending{1, How::signalled, SIGSEGV, -1, ""}, protocol::Ending{1, How::exited, 1, -1, ""},
        protocol::Ending{1, How::overran, 0, -1, "has been after its last case for more than 30 s"}}) {
    auto world = three_cases();
    world.ending(1) = ending;
    const auto report = world.merged();
    CHECK(verdicts(report) == Words{"passed", "passed", "passed"});
    REQUIRE(report.worlds.at(0).defects.size() == 1);
    CHECK_THAT(report.worlds.at(0).defects[0], ContainsSubstring("rank 1") && ContainsSubstring("after its last case"));
    CHECK(exit_code(report) == 4);
  }
}

TEST_CASE("a rank over its deadline hung") {
  const auto report = died_in_the_second({1, How::overran, SIGKILL, 1, "60 s"}).merged();
  CHECK(verdicts(report) == Words{"passed", "hung", "not_run"});
  CHECK(report.cases.at(1).reasons.at(1) == "60 s");
  CHECK(exit_code(report) == 4);
}

TEST_CASE("leaving the process inside a case is a crash, whatever the code") {
  for (const int code : {0, 1, 2, 3, 42}) {
    CAPTURE(code);
    const auto report = died_in_the_second({1, How::exited, code, -1, ""}).merged();
    CHECK(verdicts(report) == Words{"passed", "crashed", "not_run"});
    CHECK(report.cases.at(1).reasons.at(1) == "exited with code " + std::to_string(code) + " inside this case");
  }
}

TEST_CASE("a peer that fails to leave because another rank died is not to blame") {
  for (const int code : {1, 3, 4}) {
    for (const std::int64_t position : {-1, 1}) {
      CAPTURE(code, position);
      auto world = died_in_the_second({1, How::signalled, SIGKILL, 1, ""});
      world.of(0).lines.pop_back();
      world.ending(0) = {0, How::exited, code, position, ""};
      const auto report = world.merged();
      CHECK(verdicts(report) == Words{"passed", "crashed", "not_run"});
      CHECK(report.cases.at(1).ranks.at(0).outcome == protocol::Outcome::released);
      CHECK(exit_code(report) == 4);
    }
  }
}

TEST_CASE("a rank stopped because of another is released from the case it was in") {
  auto world = died_in_the_second({1, How::signalled, SIGKILL, 1, ""});
  world.begin(0);
  world.pass(0, 0);
  SECTION("inside it") { world.start(0, 1); }
  SECTION("before it") {}
  world.ending(0) = {0, How::stopped, SIGKILL, -1, ""};
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "crashed", "not_run"});
  CHECK(report.cases.at(1).ranks.at(0).outcome == protocol::Outcome::released);
  CHECK(report.cases.at(2).ranks.at(0).outcome == protocol::Outcome::missing);
  CHECK(report.worlds.at(0).defects.empty());
}

TEST_CASE("when all ranks are stopped no case passes") {
  auto world = three_cases();
  for (const int rank : {0, 1}) {
    world.begin(rank);
    world.pass(rank, 0);
    world.ending(rank) = {rank, How::stopped, SIGKILL, -1, "interrupted"};
  }
  SECTION("between cases: the next did not run") {
    const auto report = world.merged();
    CHECK(verdicts(report) == Words{"passed", "not_run", "not_run"});
    CHECK(exit_code(report) == 5);
  }
  SECTION("inside a case: released without a culprit") {
    world.start(0, 1);
    world.start(1, 1);
    CHECK(verdicts(world.merged()) == Words{"passed", "error", "not_run"});
  }
}

TEST_CASE("a rank that could not start or join is infrastructure, and nothing of its world ran") {
  auto world = three_cases();
  for (const int rank : {0, 1}) world.clear(rank);
  SECTION("not started") {
    world.ending(1) = {1, How::not_started, 0, -1, "no such file"};
    world.ending(0) = {0, How::stopped, SIGKILL, -1, ""};
  }
  SECTION("refused") {
    world.ending(1) = {1, How::exited, 3, -1, ""};
    world.ending(0) = {0, How::exited, 3, -1, ""};
  }
  SECTION("wrong arguments") { world.ending(1) = {1, How::exited, 2, -1, ""}; }
  SECTION("refused, and its peer was stopped: only the refusal is a defect") {
    world.ending(1) = {1, How::exited, 3, -1, ""};
    world.ending(0) = {0, How::stopped, SIGTERM, -1, "rank 1 ended with exit code 3"};
    CHECK(world.merged().worlds.at(0).defects ==
          std::vector<std::string>{"rank 1 has an empty stream",
                                   "rank 1 could not join or stay in its world: exited with code 3"});
  }
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"not_run", "not_run", "not_run"});
  CHECK_FALSE(report.worlds.at(0).defects.empty());
  CHECK(exit_code(report) == 3);
}

TEST_CASE("a rank that its launcher takes for not started keeps the results in its stream") {
  auto world = three_cases();
  world.ending(1) = {1, How::not_started, 0, -1, "the process that ranks are copies of died"};
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "passed", "passed"});
  CHECK(report.worlds.at(0).defects ==
        std::vector<std::string>{"rank 1 was not started: the process that ranks are copies of died"});
  CHECK(exit_code(report) == 3);
}

TEST_CASE("a death outranks infrastructure in one world, infrastructure in another outranks a death") {
  const auto dead = died_in_the_second({1, How::signalled, SIGKILL, 1, ""});
  auto refused = three_cases();
  for (const int rank : {0, 1}) refused.clear(rank);
  refused.ending(0) = {0, How::exited, 3, -1, ""};
  auto untried = refused;
  for (const int rank : {0, 1}) untried.ending(rank) = {rank, How::not_started, 0, -1, "the run ended before"};
  const auto code = [](const std::vector<WorldRecord>& worlds) { return exit_code(merge({}, worlds)); };
  CHECK(code({dead.record(), refused.record()}) == 3);
  CHECK(code({dead.record(), untried.record()}) == 4);
  CHECK(code({untried.record()}) == 3);
}

TEST_CASE("a rank that exits with code 0 inside a case crashed it, and its peers were stopped for a reason") {
  auto world = three_cases();
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.pass(rank, 0);
    world.start(rank, 1);
  }
  world.ending(0) = {0, How::stopped, 15, -1, "rank 1 ended with exit code 0"};
  world.ending(1) = {1, How::exited, 0, 1, "rank 1 ended with exit code 0"};
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "crashed", "not_run"});
  CHECK(report.worlds.at(0).defects.empty());
  CHECK(exit_code(report) == 4);
}

TEST_CASE("an interrupted case did not run; a case that failed before keeps its verdict") {
  auto world = three_cases();
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.pass(rank, 0);
    world.start(rank, 1);
    world.ending(rank) = {rank, How::interrupted, 4, -1, "the launcher was interrupted by signal 2 (SIGINT)", {}};
  }
  world.end(0, 1, protocol::Outcome::released, "the launcher was interrupted by signal 2 (SIGINT)");
  auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "not_run", "not_run"});
  CHECK(report.worlds.at(0).defects.empty());
  CHECK(report.flaky().empty());
  CHECK(exit_code(report) == 5);

  world.end(1, 1, protocol::Outcome::failed);
  report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "failed", "not_run"});
}

TEST_CASE("a rank that was interrupted before its first line needs no stream") {
  auto world = three_cases();
  for (int rank = 0; rank < 2; ++rank) {
    world.clear(rank);
    world.ending(rank) = {rank, How::interrupted, SIGKILL, -1, "the launcher was interrupted", {}};
  }
  CHECK(world.merged().worlds.at(0).defects.empty());
}

TEST_CASE("a world of which no rank was started has one defect") {
  auto world = three_cases();
  for (int rank = 0; rank < 2; ++rank) {
    world.clear(rank);
    world.ending(rank) = {rank, How::not_started, 0, -1, "the run ended before", {}};
  }
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"not_run", "not_run", "not_run"});
  CHECK(report.worlds.at(0).defects == std::vector<std::string>{"no rank was started: the run ended before"});
}

TEST_CASE("an ending that was not recorded is missing evidence, but cases that ended before it count") {
  auto world = three_cases();
  world.endings.pop_back();
  auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "passed", "passed"});
  CHECK(report.worlds.at(0).defects == std::vector<std::string>{"rank 1 has no recorded ending"});
  CHECK(exit_code(report) == 5);

  world.endings.push_back({0, How::exited, 0, -1, ""});
  world.endings.push_back({7, How::exited, 0, -1, ""});
  report = world.merged();
  CHECK(report.worlds.at(0).defects.size() == 3);
}

TEST_CASE("foreign ranks are judged by their streams alone") {
  auto world = three_cases();
  for (auto& ending : world.endings) ending.how = How::foreign;
  CHECK(exit_code(world.merged()) == 0);
  world.of(1).lines.pop_back();  // its end
  auto report = world.merged();
  CHECK(exit_code(report) == 5);
  world.of(1).lines.pop_back();  // the end of its last case
  report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "passed", "disagreed"});
}

}  // namespace
}  // namespace shardproof::reports
