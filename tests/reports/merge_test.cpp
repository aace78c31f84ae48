// Every way in which a rank can end, and what becomes of the cases.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <catch2/matchers/catch_matchers_vector.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/reports/streams.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;
using How = Ending::How;

std::vector<std::string> verdicts(const Report& report) {
  std::vector<std::string> words;
  for (const auto& result : report.cases) words.emplace_back(to_string(result.verdict));
  return words;
}

using Words = std::vector<std::string>;

WorldOnPaper three_cases() { return {2, {"a/one", "a/three", "a/two"}}; }

/// Rank 1 stops in the middle of the second case, rank 0 is released from it and leaves.
WorldOnPaper died_in_the_second(const Ending& ending) {
  auto world = three_cases();
  world.begin(1);
  world.pass(1, 0);
  world.start(1, 1);
  world.ending(1) = ending;
  world.begin(0);
  world.pass(0, 0);
  world.start(0, 1);
  world.end(0, 1, Outcome::released, "rank 1 died", 1);
  world.finish(0);
  return world;
}

TEST_CASE("a world in which all is well") {
  const auto report = three_cases().merged();
  CHECK(verdicts(report) == Words{"passed", "passed", "passed"});
  CHECK(report.worlds.at(0).defects.empty());
  CHECK(exit_code(report) == 0);
  const auto& one = report.cases.at(0);
  CHECK(one.assertions == 6);
  CHECK(one.ranks.size() == 2);
  CHECK(one.duration_ns == 12'000'000);
  CHECK(one.measurements.at("forward_ns") == Measurement{85e6, "ns"});
  CHECK(one.reasons.empty());
}

TEST_CASE("a rank that exits with 0 between two cases has ended its world, and the next case with it") {
  auto world = three_cases();
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.pass(rank, 0);
    world.ending(rank) = {rank, How::stopped, 0, -1, "rank 1 ended with exit code 0 between two cases"};
  }
  world.ending(1) = {.rank = 1, .how = How::exited, .code = 0, .position = -1, .text = "", .last_words = "", .is_cause = true};
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

TEST_CASE("a rank killed before its launcher or itself could say where") {
  auto world = died_in_the_second({1, How::signalled, SIGSEGV, -1, ""});
  world.of(1).lines.pop_back();
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "crashed", "not_run"});
  CHECK(report.cases.at(1).reasons.at(1) == "was killed by signal 11 (SIGSEGV) before this case");
}

TEST_CASE("the launcher's word on where a rank died outranks the rank's pass") {
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
  for (const auto& ending : {Ending{1, How::signalled, SIGSEGV, -1, ""}, Ending{1, How::exited, 1, -1, ""},
                             Ending{1, How::overran, 0, -1, "has been after its last case for more than 30 s"}}) {
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
      CHECK(report.cases.at(1).ranks.at(0).outcome == Outcome::released);
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
  CHECK(report.cases.at(1).ranks.at(0).outcome == Outcome::released);
  CHECK(report.cases.at(2).ranks.at(0).outcome == Outcome::missing);
  CHECK(report.worlds.at(0).defects.empty());
}

TEST_CASE("when all ranks are stopped nobody passes") {
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
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"not_run", "not_run", "not_run"});
  CHECK_FALSE(report.worlds.at(0).defects.empty());
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

TEST_CASE("a stream that is not of this rank, world or program is no evidence") {
  auto world = three_cases();
  auto start = started(1, 2);
  const char* sentence = nullptr;
  SECTION("nonce") {
    start.nonce = "other";
    sentence = "another world (nonce \"other\", not \"nonce-1\")";
  }
  SECTION("rank") {
    start.rank = 0;
    sentence = "has the stream of rank 0";
  }
  SECTION("world size") {
    start.world_size = 4;
    sentence = "a world of 4 ranks, not 2";
  }
  SECTION("protocol") {
    start.protocol = 2;
    sentence = "of protocol 2";
  }
  SECTION("build") {
    start.build = "build-b";
    sentence = "ran suite 0.1.0, build build-b; rank 0 ran suite 0.1.0, build build-a";
  }
  SECTION("suite version") {
    start.suite_version = "0.2.0";
    sentence = "ran suite 0.2.0, build build-a; rank 0";
  }
  world.of(1).lines[0] = to_line(start);
  if (start.rank != 1) world.of(1).lines.pop_back();  // else the stream contradicts itself
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"disagreed", "disagreed", "disagreed"});
  REQUIRE(report.worlds.at(0).defects.size() == 1);
  CHECK_THAT(report.worlds.at(0).defects[0], ContainsSubstring(std::string("rank 1 ")) && ContainsSubstring(sentence));
  CHECK(report.cases.at(0).notes == std::vector<std::string>{"no evidence from rank 1"});
  CHECK(exit_code(report) == 5);
}

TEST_CASE("a missing, empty or headless stream is no evidence") {
  auto world = three_cases();
  SECTION("empty") { world.clear(1); }
  SECTION("headless") { world.of(1).lines.erase(world.of(1).lines.begin()); }
  SECTION("garbage") {
    world.of(1).lines[0] =
        "\x7f"
        "ELF";
  }
  auto report = world.merged();
  CHECK(verdicts(report) == Words{"disagreed", "disagreed", "disagreed"});
  CHECK(report.worlds.at(0).defects.size() == 1);
  CHECK(exit_code(report) == 5);

  auto record = world.record();
  record.streams.pop_back();
  report = merge({}, std::span(&record, 1));
  CHECK(verdicts(report) == Words{"disagreed", "disagreed", "disagreed"});
}

TEST_CASE("a corrupt line ends a rank's evidence there") {
  auto world = three_cases();
  world.of(1).lines[5] = "{\"event\":\"measured\"}";  // inside the second case
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "disagreed", "disagreed"});
  REQUIRE(report.worlds.at(0).defects.size() == 1);
  CHECK_THAT(report.worlds.at(0).defects[0], ContainsSubstring("rank 1 has a corrupt stream: line 6, byte"));
  CHECK(report.cases.at(1).reasons.at(1) == "its stream stops inside this case");
}

TEST_CASE("a corrupt stream does not say where a rank died, its launcher does") {
  auto world = three_cases();
  world.of(1).lines[5] = "{}";
  world.ending(1) = {1, How::signalled, SIGKILL, 2, ""};
  CHECK(verdicts(world.merged()) == Words{"passed", "disagreed", "crashed"});
}

TEST_CASE("a line cut off before code 0 is a full disk, not a crash") {
  auto world = three_cases();
  auto record = world.record();
  auto text = world.of(1).text();
  record.streams[1] = parse(text.substr(0, text.find("case_ended", text.find("a/three"))));
  const auto report = merge({}, std::span(&record, 1));
  CHECK(verdicts(report) == Words{"passed", "disagreed", "disagreed"});
  CHECK_THAT(report.worlds.at(0).defects.at(0), ContainsSubstring("its stream has no end"));
}

TEST_CASE("ranks that ran different cases disagree") {
  auto world = three_cases();
  world.begin(1);
  world.pass(1, 0);
  world.of(1).add(event::CaseStarted{"a/other[W=2]", 1, 0}).add(event::CaseEnded{"a/other[W=2]", 1, Outcome::passed, 3, "", -1, 0});
  world.pass(1, 2);
  world.finish(1);
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "disagreed", "passed"});
  CHECK(report.cases.at(1).reasons.at(1) == "ran \"a/other[W=2]\" instead");
}

TEST_CASE("even when all ranks ran the same wrong case, the planned one is not passed") {
  WorldOnPaper world(1, {"a/one"});
  world.begin(0);
  world.of(0).add(event::CaseStarted{"a/other[W=1]", 0, 0}).add(event::CaseEnded{"a/other[W=1]", 0, Outcome::passed, 3, "", -1, 0});
  world.finish(0);
  CHECK(verdicts(world.merged()) == Words{"disagreed"});
}

TEST_CASE("positions left out, run again or beyond the plan") {
  auto world = three_cases();
  world.begin(1);
  world.pass(1, 0);
  SECTION("left out") {
    world.pass(1, 2);
    world.finish(1);
    CHECK(verdicts(world.merged()) == Words{"passed", "disagreed", "passed"});
  }
  SECTION("again") {
    world.pass(1, 0);
    world.finish(1);
    const auto report = world.merged();
    CHECK(verdicts(report) == Words{"disagreed", "disagreed", "disagreed"});
    CHECK_THAT(report.worlds.at(0).defects.at(0), ContainsSubstring("rank 1 ran position 0 again"));
  }
  SECTION("beyond") {
    world.of(1).add(event::CaseStarted{"a/x", 3, 0}).add(event::CaseEnded{"a/x", 3, Outcome::passed, 3, "", -1, 0});
    world.finish(1);
    const auto report = world.merged();
    CHECK(verdicts(report) == Words{"passed", "disagreed", "disagreed"});
    CHECK_THAT(report.worlds.at(0).defects.at(0), ContainsSubstring("ran \"a/x\" at position 3, but the plan has 3"));
  }
}

TEST_CASE("ranks that leave early in order left cases that did not run") {
  auto world = three_cases();
  for (const int rank : {0, 1}) {
    world.begin(rank);
    world.pass(rank, 0);
    world.finish(rank);
  }
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "not_run", "not_run"});
  CHECK_THAT(report.worlds.at(0).defects.at(0), ContainsSubstring("rank 0 left after 1 of 3 cases"));
  CHECK(exit_code(report) == 5);
}

TEST_CASE("ranks that say why they all left early answer for what they ran") {
  auto world = three_cases();
  for (const int rank : {0, 1}) {
    world.begin(rank);
    world.pass(rank, 0);
    world.of(rank).add(event::RankEnded{rank, "rank 1 cannot go on: lost"});
  }
  SECTION("nobody runs the rest: that is a defect, with the reason") {
    const auto report = world.merged();
    CHECK(verdicts(report) == Words{"passed", "not_run", "not_run"});
    REQUIRE(report.worlds.at(0).defects.size() == 1);
    CHECK(report.worlds.at(0).explanation == "rank 1 cannot go on: lost");
    CHECK_THAT(report.worlds.at(0).defects[0], ContainsSubstring("1 of 3 cases") && ContainsSubstring("rank 1 cannot go on: lost"));
    CHECK(exit_code(report) == 5);
  }
  SECTION("another world runs the rest") {
    Merger merger{RunHead{}};
    WorldRecord record = world.record();
    merger.open_world(record.plan, record.cases, record.endings);
    for (RankStream& stream : record.streams) merger.add(std::move(stream));
    CHECK(merger.cut_short() == "rank 1 cannot go on: lost");
    REQUIRE(merger.answered() == 1);
    merger.keep(1);
    const auto report = merger.finish();
    CHECK(verdicts(report) == Words{"passed"});
    CHECK(report.worlds.at(0).defects.empty());
    CHECK(exit_code(report) == 0);
  }
  SECTION("what a process comes to after that is no case's") {
    world.ending(1) = {1, How::signalled, 11, -1, "rank 1 ended with signal 11"};
    const auto report = world.merged();
    CHECK(verdicts(report) == Words{"passed", "not_run", "not_run"});
    CHECK(exit_code(report) == 4);
  }
  SECTION("a rank that does not say so has left for no reason") {
    world.begin(0);
    world.pass(0, 0);
    world.finish(0);
    CHECK_THAT(world.merged().worlds.at(0).defects.at(0), ContainsSubstring("rank 0 left after 1 of 3 cases"));
  }
}

TEST_CASE("a rank that exits with code 0 inside a case has died of it, and its peers were stopped for a reason") {
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

TEST_CASE("a case in which the run was interrupted says nothing; what failed before does") {
  auto world = three_cases();
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.pass(rank, 0);
    world.start(rank, 1);
    world.ending(rank) = {rank, How::interrupted, 4, -1, "the launcher was interrupted by signal 2 (SIGINT)", {}};
  }
  world.end(0, 1, Outcome::released, "the launcher was interrupted by signal 2 (SIGINT)");
  auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "not_run", "not_run"});
  CHECK(report.worlds.at(0).defects.empty());
  CHECK(report.flaky().empty());
  CHECK(exit_code(report) == 5);

  world.end(1, 1, Outcome::failed);
  report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "failed", "not_run"});
}

TEST_CASE("a world of which no rank was started has one defect") {
  auto world = three_cases();
  for (int rank = 0; rank < 2; ++rank) {
    world.clear(rank);
    world.ending(rank) = {rank, How::not_started, 0, -1, "the run ended before", {}};
  }
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"not_run", "not_run", "not_run"});
  CHECK(report.worlds.at(0).defects == std::vector<std::string>{"none of its ranks was started: the run ended before"});
}

TEST_CASE("an ending that nobody recorded is missing evidence, but what ended before it counts") {
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

TEST_CASE("a stream without an end is missing evidence even after code 0") {
  auto world = three_cases();
  world.of(0).lines.pop_back();
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "passed", "passed"});
  CHECK_THAT(report.worlds.at(0).defects.at(0), ContainsSubstring("rank 0 exited with code 0, but its stream has no end"));
  CHECK(exit_code(report) == 5);
}

TEST_CASE("repetitions are numbered over all worlds, and one that differs is flaky") {
  WorldOnPaper first(1, {"b/x", "a/x", "b/x"});
  WorldOnPaper second(1, {"b/x"});
  second.begin(0);
  second.start(0, 0);
  second.of(0).add(check_failed("x", "y", 1));
  second.end(0, 0, Outcome::failed);
  second.finish(0);
  const std::vector<WorldRecord> worlds{first.record(), second.record()};
  const auto report = merge({}, worlds);
  REQUIRE(report.cases.size() == 4);
  CHECK(report.cases[0].info.id == "a/x[W=1]");
  for (std::uint64_t i = 0; i < 3; ++i) {
    CHECK(report.cases[i + 1].info.id == "b/x[W=1]");
    CHECK(report.cases[i + 1].repetition == i);
  }
  CHECK(report.cases[3].world == 1);
  CHECK(report.flaky() == std::vector<std::string>{"b/x[W=1]"});
  CHECK(exit_code(report) == 1);
}

TEST_CASE("a world answers only for the cases it is given") {
  auto world = died_in_the_second({1, How::signalled, SIGKILL, 1, ""});
  world.cases.pop_back();
  CHECK(verdicts(world.merged()) == Words{"passed", "crashed"});
}

TEST_CASE("a plan that is not what the launcher answers for is a defect") {
  auto world = three_cases();
  world.plan.cases[1] = "a/other[W=2]";
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "disagreed", "passed"});
  CHECK_THAT(report.worlds.at(0).defects.at(0), ContainsSubstring("position 1 of the plan is \"a/other[W=2]\", not \"a/three[W=2]\""));
}

TEST_CASE("nothing at all is no pass") {
  CHECK(exit_code(merge({}, {})) == 5);
  CHECK(exit_code(WorldOnPaper(2, {}).merged()) == 5);
}

TEST_CASE("a merger refuses to be used out of order") {
  Merger merger({});
  CHECK_THROWS_AS(merger.add({}), std::logic_error);
  CHECK_THROWS_AS(merger.tell_nccl({}), std::logic_error);
  WorldOnPaper world(1, {"a/x"});
  merger.open_world(world.plan, world.cases, world.endings);
  merger.add(parse(world.of(0).text()));
  CHECK_THROWS_AS(merger.add({}), std::logic_error);
  CHECK(merger.finish().cases.at(0).verdict == Verdict::passed);
  CHECK(merger.finish().cases.empty());
}

TEST_CASE("what ranks asked of NCCL is kept of worlds in which a case went wrong, and of no others") {
  Merger merger({});
  WorldOnPaper world(1, {"a/x"});
  for (const bool has_stream : {true, false}) {
    merger.open_world(world.plan, world.cases, world.endings);
    merger.tell_nccl({"rank 0 called NCCL"});
    if (has_stream) merger.add(parse(world.of(0).text()));
  }
  const Report report = merger.finish();
  CHECK(report.worlds.at(0).nccl.empty());
  CHECK(report.worlds.at(1).nccl == std::vector<std::string>{"rank 0 called NCCL"});
}

TEST_CASE("worlds stand as planned, in whatever order they ended") {
  const auto planned = [](int place, std::vector<std::string> names) {
    WorldOnPaper world(2, std::move(names));
    world.plan.planned = place;
    return world;
  };
  const auto again = [](int attempt, const std::string& name) {
    WorldOnPaper world(2, {name});
    world.plan.attempt = attempt;
    return world;
  };
  const std::vector<WorldOnPaper> in_order{planned(0, {"a/one", "a/two", "a/three"}),
                                           planned(0, {"a/three"}),
                                           planned(1, {"b/one", "a/one"}),
                                           again(1, "a/two"),
                                           again(1, "b/one"),
                                           again(2, "a/two")};
  const auto merged = [&](const std::vector<std::size_t>& order) {
    Merger merger({});
    for (const std::size_t i : order) {
      const WorldRecord world = in_order[i].record();
      merger.open_world(world.plan, world.cases, world.endings);
      for (const RankStream& stream : world.streams) merger.add(stream);
      if (i == 0) merger.keep(2);
      merger.close_world();
    }
    return to_json(merger.finish()).dump();
  };
  const std::string expected = merged({0, 1, 2, 3, 4, 5});
  CHECK(merged({2, 0, 4, 1, 3, 5}) == expected);
  CHECK(merged({5, 4, 3, 2, 1, 0}) == expected);
}

TEST_CASE("a world without a folder is numbered behind those that have one") {
  Merger merger({});
  for (const int place : {2, 0, 1}) {
    WorldOnPaper paper(1, {"a/" + std::to_string(place)});
    paper.plan.planned = place;
    const WorldRecord world = paper.record();
    merger.open_world(world.plan, world.cases, world.endings, place == 0 ? std::nullopt : std::optional(place == 1 ? 4 : 0));
    merger.add(world.streams.front());
  }
  const Report report = merger.finish();
  REQUIRE(report.worlds.size() == 3);
  CHECK(report.worlds[0].number == 5);
  CHECK(report.worlds[1].number == 4);
  CHECK(report.worlds[2].number == 0);
  CHECK(report.cases[2].world == 2);
}

TEST_CASE("a world that is skipped skips its cases on all ranks, and is no defect") {
  WorldOnPaper paper(2, {"a/one", "a/two"});
  paper.plan.skipped = "too few GPUs";
  Merger merger({});
  merger.skip_world(paper.plan, paper.cases);
  const Report report = merger.finish();
  REQUIRE(report.cases.size() == 2);
  CHECK(report.cases[0].verdict == Verdict::skipped);
  CHECK(report.cases[1].reasons.at(1) == "too few GPUs");
  CHECK(skip_reason(report.cases[0]) == "too few GPUs");
  CHECK(report.cases[0].skipped_by == -1);
  CHECK(report.worlds.at(0).endings.empty());
  CHECK(report.worlds.at(0).defects.empty());
  CHECK(exit_code(report) == all_passed);
}

}  // namespace
}  // namespace shardproof::reports
