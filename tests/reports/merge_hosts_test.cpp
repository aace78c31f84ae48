// Ranks on several hosts in a merge: where each rank was, whose failure was first, and the hosts in texts.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/export/ctrf.hpp"
#include "reports/export/exported_cases.hpp"
#include "reports/export/failure_text.hpp"
#include "reports/export/junit.hpp"
#include "reports/export/markdown.hpp"
#include "reports/export/summary.hpp"
#include "tests/reports/streams.hpp"

namespace shardproof::reports::testing {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::ordered_json;

constexpr std::int64_t one_second = 1'000'000'000;

/// A host whose clock has counted since `started_s` of the clock of the day.
struct Machine {
  std::string name;
  std::int64_t started_s = 0;
};

/// Rank `i` is on `machines[i]`.
WorldOnPaper world_on(const std::vector<Machine>& machines) {
  WorldOnPaper world(static_cast<int>(machines.size()), {"a/one"});
  for (int rank = 0; rank < world.plan.size; ++rank) {
    const Machine& machine = machines.at(static_cast<std::size_t>(rank));
    auto start = started(rank, world.plan.size);
    start.host = machine.name;
    start.host_id = "id of " + machine.name;
    start.interfaces = {"ib0"};
    const std::int64_t now_s = 5000 + rank;
    start.clocks = {.monotonic_ns = (now_s - machine.started_s) * one_second, .realtime_ns = now_s * one_second};
    world.of(rank).lines.front() = protocol::to_line(start);
  }
  return world;
}

/// The only case of the world failed on this rank, at this time of its host.
void fail(WorldOnPaper& world, int rank, std::int64_t at_ns) {
  world.of(rank).lines.resize(1);
  world.start(rank, 0);
  world.of(rank).add(check_failed("a == b", "1 == 2", at_ns));
  world.end(rank, 0, protocol::Outcome::failed);
  world.finish(rank);
}

std::vector<int> order_of_failures(const Report& report) {
  std::vector<int> ranks;
  for (const Failure& failure : report.cases.at(0).failures) ranks.push_back(failure.rank);
  return ranks;
}

TEST_CASE("a world has its hosts, and each host its ranks") {
  const Report report = world_on({{"n1"}, {"n2"}, {"n1"}}).merged();
  const ordered_json hosts = to_json(report).at("worlds").at(0).at("hosts");
  CHECK(hosts == ordered_json::parse(R"([{"name":"n1","id":"id of n1","ranks":[0,2],"interfaces":["ib0"]},
                                         {"name":"n2","id":"id of n2","ranks":[1],"interfaces":["ib0"]}])"));
  CHECK(to_json(from_json(to_json(report))) == to_json(report));
}

TEST_CASE("the GPU of each rank is in the order of local ranks") {
  auto world = world_on({{"n1"}, {"n1"}, {"n1"}});
  auto start = std::get<protocol::event::RankStarted>(protocol::parse_line(world.of(1).lines.front()));
  start.gpu = "GPU-2";
  world.of(1).lines.front() = protocol::to_line(start);
  const ordered_json json = to_json(world.merged());
  CHECK(json["worlds"][0]["hosts"][0]["gpus"] == ordered_json({"", "GPU-2", ""}));
  CHECK(to_json(from_json(json)) == json);
}

TEST_CASE("a stream without a host, or a stream that does not count, places no rank") {
  WorldOnPaper old(2, {"a/one"});
  CHECK_FALSE(to_json(old.merged())["worlds"][0].contains("hosts"));
  auto world = world_on({{"n1"}, {"n2"}});
  world.clear(1);
  CHECK(world.merged().worlds[0].placement.hosts().size() == 1);
}

TEST_CASE("the first failure of two hosts is found by both clocks") {
  // n2 started 3000 s after n1. So its clock shows less, also for a later failure.
  auto world = world_on({{"n1", 1000}, {"n2", 4000}, {"n2", 4000}});
  fail(world, 0, 4010 * one_second);  // at 5010 s of the day
  fail(world, 1, 1020 * one_second);  // at 5020 s
  fail(world, 2, 1005 * one_second);  // at 5005 s
  const Report report = world.merged();
  CHECK(order_of_failures(report) == std::vector{2, 0, 1});
  CHECK(report.cases[0].failures[0].assertion.monotonic_ns == 4005 * one_second);
  CHECK(report.cases[0].failures[2].assertion.monotonic_ns == 4020 * one_second);
}

TEST_CASE("ranks of one host keep their order, however their clock of the day changes") {
  auto world = world_on({{"n1"}, {"n1"}});
  auto start = std::get<protocol::event::RankStarted>(protocol::parse_line(world.of(1).lines.front()));
  start.clocks->realtime_ns += 60 * one_second;
  world.of(1).lines.front() = protocol::to_line(start);
  fail(world, 0, 11);
  fail(world, 1, 10);
  const Report report = world.merged();
  CHECK(order_of_failures(report) == std::vector{1, 0});
  CHECK(report.cases[0].failures[0].assertion.monotonic_ns == 10);
}

TEST_CASE("texts name the host of a rank if a world has several") {
  auto world = world_on({{"n1"}, {"n2"}});
  fail(world, 1, 10);
  const Report report = world.merged();
  const TextStyle style;
  CHECK_THAT(failures_text(report, style), ContainsSubstring("rank 1 on n2"));
  CHECK_THAT(failures_text(report, style), ContainsSubstring("  hosts: rank 0 on n1, rank 1 on n2\n"));
  CHECK_THAT(cause_line(report.cases[0], report), ContainsSubstring("rank 1 on n2: CHECK( a == b )"));
  CHECK_THAT(summary(report, style), ContainsSubstring("; rank 0 on n1, rank 1 on n2\n"));
  CHECK_THAT(junit(report, style), ContainsSubstring(R"(<property name="hosts" value="n1, n2"/>)"));
  CHECK_THAT(markdown(report, style, 60'000), ContainsSubstring(", 2 hosts: `n1, n2`."));
  CHECK(ctrf(report, style)["results"]["tests"][0]["extra"]["hosts"] == ordered_json({"n1", "n2"}));
}

TEST_CASE("texts name no host if each world has one") {
  auto world = world_on({{"n1"}, {"n1"}});
  fail(world, 1, 10);
  const Report report = world.merged();
  const TextStyle style;
  for (const std::string& text : {failures_text(report, style), summary(report, style), junit(report, style),
                                  markdown(report, style, 60'000), ctrf(report, style).dump()}) {
    CHECK(text.find("n1") == std::string::npos);
    CHECK(text.find("hosts") == std::string::npos);
  }
}

TEST_CASE("the explanation of a death names the host") {
  for (const bool has_flight : {false, true}) {
    auto world = world_on({{"n1"}, {"n2"}});
    world.of(1).lines.resize(1);
    world.start(1, 0);
    world.ending(1) = {1, protocol::Ending::How::signalled, SIGKILL, 0, "SIGKILL"};
    world.ending(1).is_cause = true;
    const WorldRecord record = world.record();
    Merger merger(RunHead{});
    merger.open_world(record.plan, record.cases, record.endings);
    if (has_flight) merger.explain({});
    for (const RankStream& stream : record.streams) merger.add(stream);
    CHECK_THAT(merger.finish().worlds.at(0).explanation,
               ContainsSubstring("rank 1 on n2 died by signal 9 (SIGKILL) in a/one[W=2]"));
  }
}

TEST_CASE("a report with a placement that no world has is refused") {
  const ordered_json right = to_json(world_on({{"n1"}, {"n2"}}).merged());
  const auto refused = [&](const char* place, ordered_json value, const std::string& why) {
    ordered_json wrong = right;
    wrong["worlds"][0]["hosts"][1][place] = std::move(value);
    CHECK_THROWS_WITH(from_json(wrong), ContainsSubstring("worlds[0]") && ContainsSubstring(why));
  };
  refused("ranks", {2}, "ranks below 2");
  refused("ranks", {0}, "rank 0 is listed twice");
  refused("ranks", ordered_json::array(), "no rank is on n2");
  refused("id", "id of n1", "is listed twice");
  refused("gpus", {"a", "b"}, "a GPU for each rank");
  refused("name", 7, "\"name\"");
}

}  // namespace
}  // namespace shardproof::reports::testing
