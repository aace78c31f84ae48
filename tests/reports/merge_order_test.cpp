// Cases that were run in another order than the plan's, or not at all.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/reports/merged.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;
using How = protocol::Ending::How;

TEST_CASE("ranks that ran different cases disagree") {
  auto world = three_cases();
  world.begin(1);
  world.pass(1, 0);
  world.of(1)
      .add(protocol::event::CaseStarted{"a/other[W=2]", 1, 0})
      .add(protocol::event::CaseEnded{"a/other[W=2]", 1, protocol::Outcome::passed, 3, "", -1, 0});
  world.pass(1, 2);
  world.finish(1);
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "disagreed", "passed"});
  CHECK(report.cases.at(1).reasons.at(1) == "ran \"a/other[W=2]\" instead");
}

TEST_CASE("even when all ranks ran the same wrong case, the planned one is not passed") {
  WorldOnPaper world(1, {"a/one"});
  world.begin(0);
  world.of(0)
      .add(protocol::event::CaseStarted{"a/other[W=1]", 0, 0})
      .add(protocol::event::CaseEnded{"a/other[W=1]", 0, protocol::Outcome::passed, 3, "", -1, 0});
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
    world.of(1)
        .add(protocol::event::CaseStarted{"a/x", 3, 0})
        .add(protocol::event::CaseEnded{"a/x", 3, protocol::Outcome::passed, 3, "", -1, 0});
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
    world.of(rank).add(protocol::event::RankEnded{rank, "rank 1 cannot go on: lost"});
  }
  SECTION("no world runs the rest: that is a defect, with the reason") {
    const auto report = world.merged();
    CHECK(verdicts(report) == Words{"passed", "not_run", "not_run"});
    REQUIRE(report.worlds.at(0).defects.size() == 1);
    CHECK(report.worlds.at(0).explanation == "rank 1 cannot go on: lost");
    CHECK_THAT(report.worlds.at(0).defects[0],
               ContainsSubstring("1 of 3 cases") && ContainsSubstring("rank 1 cannot go on: lost"));
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

TEST_CASE("a plan that is not what the launcher answers for is a defect") {
  auto world = three_cases();
  world.plan.cases[1] = "a/other[W=2]";
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "disagreed", "passed"});
  CHECK_THAT(report.worlds.at(0).defects.at(0),
             ContainsSubstring("position 1 of the plan is \"a/other[W=2]\", not \"a/three[W=2]\""));
}

}  // namespace
}  // namespace shardproof::reports
