// Subjects and faults: chosen by the plan, asked for what they claim, and held to leave nothing behind.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <nlohmann/json.hpp>

#include "harness/protocol/case_info.hpp"
#include "tests/runner/world_driver.hpp"

using namespace shardproof;
using namespace shardproof::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string played_program = SHARDPROOF_PLAYED_PROGRAM;

WorldRemains play(const std::string& id, const std::string& subject, const std::string& fault = {},
                  bool trace = false) {
  return run_world(played_program, 2, {id}, {.plan = [&](protocol::WorldPlan& plan) {
                     plan.subject = subject;
                     plan.fault = fault;
                     plan.trace = trace;
                   }});
}

}  // namespace

TEST_CASE("A scenario is played on the subject that the plan names") {
  for (const auto& rank : play("play/idle[W=2]", "idle").ranks) {
    CHECK(rank.only_case().outcome == protocol::Outcome::passed);
    CHECK(rank.left);
  }
}

TEST_CASE("A case that needs what the subject does not claim is skipped by all") {
  for (const auto& rank : play("play/idle[W=2]", "modest").ranks) {
    CHECK(rank.only_case().outcome == protocol::Outcome::skipped);
    CHECK(rank.only_case().reason == "subject modest does not claim timeline");
    CHECK(rank.only_case().assertions == 0);
    CHECK(rank.left);
  }
}

TEST_CASE("Features of several engine kinds do not add up") {
  for (const auto& rank : play("play/needs_both[W=2]", "idle").ranks) {
    CHECK(rank.only_case().outcome == protocol::Outcome::skipped);
    CHECK(rank.only_case().reason == "subject idle does not claim module_groups for the engine kind first");
  }
}

TEST_CASE("A case plays on the kind of its suite, or on the kinds that it names, and knows which") {
  const auto ends = [](const std::string& id, const std::string& subject) {
    const auto ranks = play(id, subject).ranks;
    return std::pair(ranks.at(1).only_case().outcome, ranks.at(1).only_case().reason);
  };
  using End = std::pair<protocol::Outcome, std::string>;
  CHECK(ends("kinds/own[W=2]", "idle") == End(protocol::Outcome::passed, ""));
  CHECK(ends("kinds/own[W=2]", "modest") == End(protocol::Outcome::skipped, "subject modest does not claim serial"));
  CHECK(ends("kinds/each[W=2]", "idle") == End(protocol::Outcome::passed, ""));
  CHECK(ends("kinds/each[W=2,engine=second]", "idle") ==
        End(protocol::Outcome::skipped, "subject idle does not claim timeline for the engine kind second"));
  CHECK(ends("kinds/each[W=2,engine=third]", "idle") ==
        End(protocol::Outcome::skipped,
            "subject idle does not claim the engine kind third; it claims first, second, fully_shard"));
  CHECK(ends("kinds/nothing[W=2]", "modest") == End(protocol::Outcome::passed, ""));
  CHECK(ends("play/no_kind[W=2]", "idle") == End(protocol::Outcome::passed, ""));
}

TEST_CASE("A case plays plans for its engine kind, and an engine sees plans that no reader knows") {
  for (const char* id : {"play/of_its_kind[W=2,engine=fully_shard]", "play/of_no_kind[W=2,engine=fully_shard]"}) {
    for (const auto& rank : play(id, "idle").ranks) CHECK(rank.only_case().outcome == protocol::Outcome::passed);
  }
  for (const auto& rank : play("play/of_another_kind[W=2,engine=fully_shard]", "idle").ranks) {
    CHECK(rank.only_case().outcome == protocol::Outcome::error);
    CHECK_THAT(
        rank.only_case().reason,
        ContainsSubstring(
            "case play/of_another_kind[W=2,engine=fully_shard] is for the engine kind fully_shard, but its plan has a "
            "section for flat_shard: write the plan's section for fully_shard, or"));
  }
}

TEST_CASE("A case fails when its subject leaves memory alive") {
  for (const auto& rank : play("play/idle[W=2]", "idle", "leak").ranks) {
    CHECK(rank.only_case().outcome == protocol::Outcome::failed);
    CHECK_THAT(rank.failures.at(0).expansion,
               ContainsSubstring("left 64 bytes of device memory alive, in 1 buffer: parameter \"kept\" of 64 bytes"));
    CHECK(rank.failures.at(0).macro == "freed memory");
    CHECK(rank.failures.at(0).clauses.empty());
    CHECK(rank.left);
  }
}

TEST_CASE("A case names the first of many buffers that its subject does not release") {
  for (const auto& rank : play("play/in_order[W=2]", "idle", "leak").ranks) {
    CHECK_THAT(
        rank.failures.at(0).expansion,
        ContainsSubstring(
            "left 256 bytes of device memory alive, in 4 buffers: parameter \"kept\" of 64 bytes, parameter \"kept\" "
            "of 64 bytes, parameter \"kept\" of 64 bytes and 1 more"));
  }
}

TEST_CASE("The harness judges a run by the clauses of its engine kind") {
  const auto clauses_of = [](const std::string& id, const std::string& fault = {}) {
    const auto world = play(id, "idle", fault);
    REQUIRE(world.ranks.at(1).failures.size() == 1);
    return world.ranks.at(1).failures.front().clauses;
  };
  using Clauses = std::vector<std::string>;
  CHECK(clauses_of("play/leaking[W=2,engine=fully_shard]", "leak") == Clauses{"PLY-1"});
  CHECK(clauses_of("play/unlike[W=2,engine=fully_shard]") == Clauses{"PLY-2"});
  // Only scopes judge PLY-3.
  CHECK(clauses_of("play/judged[W=2,engine=fully_shard]", "leak") == Clauses{"PLY-4"});
}

TEST_CASE("An error for an unknown subject or fault lists the known names") {
  for (const auto& rank : play("play/idle[W=2]", "torch").ranks) {
    CHECK(rank.exit_code == 2);
    CHECK_THAT(rank.errors, ContainsSubstring("there is no subject \"torch\"; there are \"idle\", \"modest\""));
  }
  for (const auto& rank : play("play/idle[W=2]", "idle", "gremlin").ranks) {
    CHECK(rank.exit_code == 2);
    CHECK_THAT(rank.errors, ContainsSubstring("there is no fault \"gremlin\"; there is \"leak\""));
  }
}

TEST_CASE("Traces are left where they were asked for, one file for each rank and play") {
  CHECK(play("play/idle[W=2]", "idle").traces.empty());
  const auto traces = play("play/twice[W=2]", "idle", {}, true).traces;
  std::vector<std::string> names;
  for (const auto& [name, text] : traces) {
    names.push_back(name);
    CHECK(nlohmann::ordered_json::parse(text).at("facts").is_array());
  }
  CHECK(names == std::vector<std::string>{"play.twice[W=2].play-2.rank-0.json", "play.twice[W=2].play-2.rank-1.json",
                                          "play.twice[W=2].rank-0.json", "play.twice[W=2].rank-1.json"});
}

TEST_CASE("A listing has the subjects, faults and clauses") {
  const auto end = run_program(played_program, {"--list-json"}).front();
  REQUIRE(end.exit_code == 0);
  const auto listing = nlohmann::ordered_json::parse(end.output).get<protocol::Listing>();
  CHECK(listing.suite_version == "3");
  CHECK(listing.engine_kinds ==
        std::vector<std::string>{"fully_shard", "flat_shard", "replicate", "first", "second", "third"});
  CHECK(
      listing.subjects ==
      std::vector<protocol::SubjectInfo>{
          {"idle", "1", false, {{"first", {"serial", "timeline"}}, {"second", {"module_groups"}}, {"fully_shard", {}}}},
          {"modest", "1", false, {{"first", {}}}}});
  REQUIRE(listing.faults.size() == 1);
  CHECK(listing.faults[0] == protocol::FaultInfo{"leak", {"PLY-1"}, "keeps what it allocates"});
  REQUIRE(listing.clauses.size() == 1);
  CHECK(listing.clauses[0] == protocol::ClauseInfo{"PLY-1", true, "releases its memory"});
}
