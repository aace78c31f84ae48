// Several worlds in one report, and worlds in which nothing ran.
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/reports/merged.hpp"

namespace shardproof::reports {
namespace {

using namespace testing;
using How = protocol::Ending::How;

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

TEST_CASE("repetitions are numbered over all worlds, and one that differs is flaky") {
  WorldOnPaper first(1, {"b/x", "a/x", "b/x"});
  WorldOnPaper second(1, {"b/x"});
  second.begin(0);
  second.start(0, 0);
  second.of(0).add(check_failed("x", "y", 1));
  second.end(0, 0, protocol::Outcome::failed);
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

TEST_CASE("an empty run does not pass") {
  CHECK(exit_code(merge({}, {})) == 5);
  CHECK(exit_code(WorldOnPaper(2, {}).merged()) == 5);
}

TEST_CASE("a merger refuses to be used out of order") {
  Merger merger({});
  CHECK_THROWS_AS(merger.add({}), std::logic_error);
  CHECK_THROWS_AS(merger.add_nccl_calls({}), std::logic_error);
  WorldOnPaper world(1, {"a/x"});
  merger.open_world(world.plan, world.cases, world.endings);
  merger.add(parse(world.of(0).text()));
  CHECK_THROWS_AS(merger.add({}), std::logic_error);
  CHECK(merger.finish().cases.at(0).verdict == Verdict::passed);
  CHECK(merger.finish().cases.empty());
}

TEST_CASE("a report keeps the NCCL calls of worlds with a failed case, and of no others") {
  Merger merger({});
  WorldOnPaper world(1, {"a/x"});
  for (const bool has_stream : {true, false}) {
    merger.open_world(world.plan, world.cases, world.endings);
    merger.add_nccl_calls({"rank 0 called NCCL"});
    if (has_stream) merger.add(parse(world.of(0).text()));
  }
  const Report report = merger.finish();
  CHECK(report.worlds.at(0).nccl.empty());
  CHECK(report.worlds.at(1).nccl == std::vector<std::string>{"rank 0 called NCCL"});
}

TEST_CASE("worlds are in planned order, whatever order they ended in") {
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

TEST_CASE("a world without a folder is numbered after those that have one") {
  Merger merger({});
  for (const int place : {2, 0, 1}) {
    WorldOnPaper paper(1, {"a/" + std::to_string(place)});
    paper.plan.planned = place;
    const WorldRecord world = paper.record();
    merger.open_world(world.plan, world.cases, world.endings,
                      place == 0 ? std::nullopt : std::optional(place == 1 ? 4 : 0));
    merger.add(world.streams.front());
  }
  const Report report = merger.finish();
  REQUIRE(report.worlds.size() == 3);
  CHECK(report.worlds[0].number == 5);
  CHECK(report.worlds[1].number == 4);
  CHECK(report.worlds[2].number == 0);
  CHECK(report.cases[2].world == 2);
}

TEST_CASE("a world of which nothing can be read has one defect, and claims no end of its ranks") {
  WorldOnPaper paper(2, {"a/one"});
  Merger merger({});
  merger.lose_world(paper.plan, paper.cases, "its folder is lost", 7);
  const Report report = merger.finish();
  CHECK(report.cases.at(0).verdict == Verdict::not_run);
  CHECK(report.worlds.at(0).defects == std::vector<std::string>{"its folder is lost"});
  CHECK(report.worlds.at(0).endings.empty());
  CHECK(report.worlds.at(0).number == 7);
  CHECK(exit_code(report) == evidence_unusable);
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
