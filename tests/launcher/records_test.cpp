// Files of runs, read back: complete, truncated, or not written by us.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "harness/protocol/ending.hpp"
#include "harness/protocol/rank_end.hpp"
#include "harness/protocol/trace_json.hpp"
#include "launcher/run/records.hpp"
#include "launcher/run/trace_files.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

void make_world(const protocol::WorldDirectory& world, const protocol::WorldPlan& plan) {
  std::filesystem::create_directories(world.ranks());
  write_text(world.plan(), nlohmann::ordered_json(plan).dump());
}

/// A rank that passed the plan's cases up to `ended`.
void write_stream(const protocol::WorldDirectory& world, const protocol::WorldPlan& plan, int rank, std::size_t ended) {
  std::string text = protocol::to_line(protocol::event::RankStarted{.rank = rank,
                                                                    .world_size = plan.size,
                                                                    .pid = 1,
                                                                    .host = "h",
                                                                    .nonce = plan.nonce,
                                                                    .suite_version = "1",
                                                                    .build = "b",
                                                                    .protocol = protocol::Listing::current_protocol}) +
                     "\n";
  for (std::size_t i = 0; i < ended; ++i) {
    text += protocol::to_line(protocol::event::CaseStarted{.id = plan.cases[i], .position = i}) + "\n";
    text += protocol::to_line(protocol::event::CaseEnded{
                .id = plan.cases[i], .position = i, .outcome = protocol::Outcome::passed, .assertions = 1}) +
            "\n";
  }
  if (ended == plan.cases.size()) text += protocol::to_line(protocol::event::RankEnded{.rank = rank}) + "\n";
  write_text(world.rank_stream(rank), text);
}

}  // namespace

TEST_CASE("a case id gives the suite, the parameters and the world size") {
  const protocol::CaseInfo info = parse_case_id("overlap/post[W=2,event=true]", 4);
  CHECK(info.id == "overlap/post[W=2,event=true]");
  CHECK(info.suite == "overlap");
  CHECK(info.world_size == 2);
  CHECK(info.params == std::map<std::string, std::string>{{"W", "2"}, {"event", "true"}});
  CHECK(parse_case_id("a/b", 4).world_size == 4);
  CHECK(parse_case_id("a/b[W=x]", 4).world_size == 4);
  CHECK(parse_case_id("a/b[", 4).params.empty());
  CHECK(parse_case_id("", 4).suite.empty());
}

TEST_CASE("known cases are found whole, unknown ones by their id") {
  const CaseIndex index({{.id = "a/b[W=1]", .suite = "a", .clauses = {"A-1"}, .file = "a.cpp", .line = 9}});
  const auto found = index.find({"a/b[W=1]", "c/d[W=3]"});
  REQUIRE(found.size() == 2);
  CHECK(found[0].clauses == std::vector<std::string>{"A-1"});
  CHECK(found[1].world_size == 3);
}

TEST_CASE("worlds are found by number, and by nothing else") {
  TemporaryDirectory directory;
  for (const char* name : {"10", "2", "0", "-1", "x", "3.old"})
    std::filesystem::create_directories(directory / "worlds" / name);
  const auto numbers = [](const std::map<int, protocol::WorldDirectory>& worlds) {
    std::vector<int> result;
    for (const auto& [number, world] : worlds) {
      CHECK(world.root.filename() == std::to_string(number));
      result.push_back(number);
    }
    return result;
  };
  CHECK(numbers(find_worlds({directory.path()})) == std::vector<int>{0, 2, 10});
  CHECK(find_worlds({directory / "nothing"}).empty());
}

TEST_CASE("a world comes back with what its ranks said and how they ended") {
  TemporaryDirectory directory;
  const protocol::WorldDirectory world{directory / "0"};
  const protocol::WorldPlan plan{.size = 2, .nonce = "n", .cases = {"a/one[W=2]", "a/two[W=2]"}};
  make_world(world, plan);
  write_stream(world, plan, 0, 2);
  write_stream(world, plan, 1, 1);
  CHECK(read_plan(world).cases == plan.cases);

  // Nobody wrote the endings: another launcher's ranks.
  CHECK(read_evidence(world, 2).endings == std::vector<protocol::Ending>{{.rank = 0}, {.rank = 1}});
  const std::vector<protocol::Ending> endings{
      {.rank = 0, .how = protocol::Ending::How::exited},
      {.rank = 1, .how = protocol::Ending::How::signalled, .code = 9, .position = 1}};
  write_text(world.endings(), nlohmann::ordered_json(endings).dump());
  CHECK(read_evidence(world, 2).endings == endings);

  reports::Merger merger({});
  add_world(merger, plan, CaseIndex(), {.endings = endings, .flight = std::nullopt}, world);
  const reports::Report report = merger.finish();
  REQUIRE(report.cases.size() == 2);
  CHECK(report.cases[0].verdict == reports::Verdict::passed);
  CHECK(report.cases[1].verdict == reports::Verdict::crashed);
}

TEST_CASE("without the launcher's record, the ends that guards saw count") {
  const TemporaryDirectory root;
  const protocol::WorldDirectory world{root.path() / "worlds" / "0"};
  std::filesystem::create_directories(world.ranks());
  const auto write_end = [&](const protocol::RankEnd& end) {
    write_text(world.rank_end(end.rank), nlohmann::ordered_json(end).dump());
  };
  using How = protocol::Ending::How;
  using AskedBy = protocol::RankEnd::AskedBy;
  write_end({.rank = 0, .signalled = true, .code = 9, .asked_by = AskedBy::launcher, .asked_signal = 9});
  write_end({.rank = 1, .signalled = false, .code = 0});
  const auto unknown = read_evidence(world, 4);
  for (const auto& ending : unknown.endings) CHECK(ending.how == How::foreign);

  write_end({.rank = 2, .signalled = true, .code = 11, .last_words = "oh"});
  write_end({.rank = 3, .signalled = false, .code = protocol::rank_released});
  const auto evidence = read_evidence(world, 4);
  CHECK(evidence.defects.empty());
  CHECK(evidence.endings[0].how == How::stopped);
  CHECK(evidence.endings[1].how == How::exited);
  CHECK(evidence.endings[2].how == How::signalled);
  CHECK(evidence.endings[2].text == "rank 2 ended with signal 11 (SIGSEGV), as its guard saw");
  CHECK(evidence.endings[2].last_words == "oh");
  CHECK(evidence.endings[3].how == How::stopped);

  write_text(world.rank_end(3), "{");
  CHECK(read_evidence(world, 4).defects.size() == 1);
  write_text(world.endings(), "[]");
  CHECK(read_evidence(world, 4).endings[2].how == How::foreign);
}

TEST_CASE("a plan or endings that cannot be read are named with their world") {
  TemporaryDirectory directory;
  const protocol::WorldDirectory world{directory / "7"};
  CHECK_THROWS_MATCHES(read_plan(world), std::runtime_error,
                       MessageMatches(ContainsSubstring("/7, plan.json: cannot read")));
  make_world(world, {});
  write_text(world.plan(), "{");
  CHECK_THROWS_MATCHES(read_plan(world), std::runtime_error, MessageMatches(ContainsSubstring("the plan of")));
  write_text(world.plan(), nlohmann::ordered_json(protocol::WorldPlan{.size = 2'000'000'000}).dump());
  CHECK_THROWS_MATCHES(read_plan(world), std::runtime_error, MessageMatches(ContainsSubstring("the limit is 1024")));
  write_text(world.endings(), "[{}]");
  CHECK_THROWS_MATCHES(read_evidence(world, 1), std::runtime_error,
                       MessageMatches(ContainsSubstring("what is left of")));
}

TEST_CASE("a world that was never begun is not run, on any rank") {
  reports::Merger merger({});
  add_not_started(merger, {.size = 3, .cases = {"a/one[W=3]"}}, CaseIndex(), "no time");
  const reports::Report report = merger.finish();
  REQUIRE(report.cases.size() == 1);
  CHECK(report.cases[0].verdict == reports::Verdict::not_run);
  REQUIRE(report.worlds.size() == 1);
  CHECK(report.worlds[0].endings.at(0).text == "no time");
}

TEST_CASE("the traces of all ranks become one file per case") {
  TemporaryDirectory directory;
  const protocol::WorldDirectory world{directory.path()};
  CHECK(merge_traces(world).empty());
  std::filesystem::create_directories(world.traces());
  for (const int rank : {0, 1}) {
    write_text(world.traces() / ("a.one[W=2].rank-" + std::to_string(rank) + ".json"),
               nlohmann::ordered_json(Trace{.rank = rank, .facts = {}}).dump());
  }
  write_text(world.traces() / "a.two[W=2].rank-0.json", "{");
  write_text(world.traces() / "notes.txt", "kept");
  const auto defects = merge_traces(world);
  REQUIRE(defects.size() == 1);
  CHECK_THAT(defects[0], ContainsSubstring("a.two[W=2]"));
  CHECK(std::filesystem::exists(world.traces() / "a.one[W=2].trace.json"));
  CHECK_FALSE(std::filesystem::exists(world.traces() / "a.one[W=2].rank-0.json"));
  CHECK_FALSE(std::filesystem::exists(world.traces() / "a.one[W=2].rank-1.json"));
  CHECK(std::filesystem::exists(world.traces() / "a.two[W=2].rank-0.json"));
  CHECK(std::filesystem::exists(world.traces() / "notes.txt"));
  CHECK(nlohmann::json::parse(text_of(world.traces() / "a.one[W=2].trace.json")).contains("traceEvents"));
}
