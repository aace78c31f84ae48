// How cases end, seen from outside: real processes run one case each, and their streams are read back.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>

#include "tests/runner/world_driver.hpp"

using namespace shardproof;
using namespace shardproof::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string program = SHARDPROOF_RANKED_PROGRAM;

WorldRemains run_case(const std::string& id, int size) { return run_world(program, size, {id}); }

/// All that a world in which no process died leaves behind, whatever its cases did.
void check_left_in_order(const WorldRemains& world) {
  for (const RankRemains& rank : world.ranks) {
    INFO(rank.errors);
    CHECK(rank.exit_code == 0);
    CHECK(rank.began);
    CHECK(rank.ended);
    CHECK(rank.left);
    CHECK(rank.output.empty());
  }
}

}  // namespace

TEST_CASE("The example of the documentation passes on 2 and 4 ranks") {
  for (const int size : {2, 4}) {
    const auto world = run_case("mine/all_gather_keeps_rank_order[W=" + std::to_string(size) + "]", size);
    check_left_in_order(world);
    for (const auto& rank : world.ranks) {
      CHECK(rank.only_case().outcome == protocol::Outcome::passed);
      CHECK(rank.only_case().assertions == static_cast<std::uint64_t>(size));
      CHECK(rank.only_case().culprit == -1);
      CHECK(rank.only_case().duration_ns > 0);
    }
  }
}

TEST_CASE("A world of one rank works") {
  const auto world = run_case("ends/passed[W=1]", 1);
  check_left_in_order(world);
  CHECK(world.ranks[0].only_case().outcome == protocol::Outcome::passed);
}

TEST_CASE("A failed CHECK is reported with its values, and the body goes on") {
  const auto world = run_case("ends/failed_check[W=2]", 2);
  check_left_in_order(world);
  CHECK(world.ranks[0].only_case().outcome == protocol::Outcome::passed);
  CHECK(world.ranks[0].failures.empty());
  CHECK(world.ranks[1].only_case().outcome == protocol::Outcome::failed);
  CHECK(world.ranks[1].only_case().assertions == 2);
  REQUIRE(world.ranks[1].failures.size() == 1);
  const auto& failure = world.ranks[1].failures.front();
  CHECK(failure.macro == "CHECK");
  CHECK(failure.expression == "index == 0");
  CHECK(failure.expansion == "1 == 0");
  CHECK(failure.messages == std::vector<std::string>{"before"});
  CHECK(failure.clauses == std::vector<std::string>{"END-1"});
  CHECK_THAT(failure.file, ContainsSubstring("ranked_program.cpp"));
  CHECK(failure.line > 0);
  CHECK(failure.monotonic_ns > 0);
}

TEST_CASE("A failure names the clauses of the innermost scope, and outside of scopes those of the case") {
  using Clauses = std::vector<std::string>;
  const auto world = run_case("ends/failed_in_scopes[W=2]", 2);
  check_left_in_order(world);
  CHECK(world.ranks[0].failures.empty());
  std::vector<Clauses> named;
  for (const auto& failure : world.ranks[1].failures) named.push_back(failure.clauses);
  CHECK(named ==
        std::vector<Clauses>{{"END-1", "END-2"}, {"END-3"}, {"END-4", "END-6"}, {"END-3"}, {"END-1", "END-2"}});

  const auto thrown = run_case("ends/thrown_in_scope[W=1]", 1);
  REQUIRE(thrown.ranks[0].failures.size() == 1);
  CHECK(thrown.ranks[0].failures[0].clauses == Clauses{"END-1"});
}

TEST_CASE("A failed REQUIRE releases the peers that wait in a collective") {
  const auto world = run_case("ends/failed_require[W=3]", 3);
  check_left_in_order(world);
  CHECK(world.ranks[1].only_case().outcome == protocol::Outcome::failed);
  for (const std::size_t peer : {0U, 2U}) {
    CHECK(world.ranks[peer].only_case().outcome == protocol::Outcome::released);
    CHECK(world.ranks[peer].only_case().culprit == 1);
    CHECK_THAT(world.ranks[peer].only_case().reason, ContainsSubstring("REQUIRE(rank.index() != 1) failed at"));
    CHECK(world.ranks[peer].failures.empty());
  }
}

TEST_CASE("A failure reports the seed that its case used, and all ranks have the same seed") {
  const auto world = run_case("ends/failed_require_after_seed[W=2]", 2);
  check_left_in_order(world);
  REQUIRE(world.ranks[0].failures.size() == 1);
  REQUIRE(world.ranks[1].failures.size() == 1);
  CHECK_THAT(world.ranks[0].failures[0].messages.at(0), ContainsSubstring("rank.seed() = "));
  CHECK(world.ranks[0].failures[0].messages == world.ranks[1].failures[0].messages);
}

TEST_CASE("A released wait inside an assertion is no failure of that assertion") {
  const auto world = run_case("ends/require_in_a_call[W=2]", 2);
  check_left_in_order(world);
  CHECK(world.ranks[1].only_case().outcome == protocol::Outcome::failed);
  CHECK(world.ranks[1].failures.at(0).macro == "FAIL");
  CHECK(world.ranks[1].failures.at(0).expansion == "rank 1 leaves");
  CHECK(world.ranks[0].only_case().outcome == protocol::Outcome::released);
  CHECK(world.ranks[0].only_case().assertions == 0);
  CHECK(world.ranks[0].failures.empty());
}

TEST_CASE("An exception outside an assertion is an error with its text and the messages in scope") {
  const auto world = run_case("ends/thrown[W=2]", 2);
  check_left_in_order(world);
  CHECK(world.ranks[1].only_case().outcome == protocol::Outcome::error);
  CHECK(world.ranks[1].only_case().reason == "out of luck");
  CHECK(world.ranks[1].only_case().assertions == 1);
  REQUIRE(world.ranks[1].failures.size() == 1);
  CHECK(world.ranks[1].failures[0].macro.empty());
  CHECK(world.ranks[1].failures[0].expansion == "unexpected exception: out of luck");
  CHECK_THAT(world.ranks[1].failures[0].file, ContainsSubstring("ranked_program.cpp"));
  CHECK(world.ranks[1].failures[0].messages == std::vector<std::string>{"about to throw"});
  CHECK(world.ranks[0].only_case().outcome == protocol::Outcome::released);
  CHECK(world.ranks[0].only_case().culprit == 1);
  CHECK(world.ranks[0].only_case().reason == "out of luck");
}

TEST_CASE("A body that swallows its release is released all the same, and what it asserts then counts for nothing") {
  const auto world = run_case("ends/swallowed_release[W=2]", 2);
  check_left_in_order(world);
  CHECK(world.ranks[0].only_case().outcome == protocol::Outcome::released);
  CHECK(world.ranks[0].failures.empty());
  CHECK(world.ranks[1].only_case().outcome == protocol::Outcome::error);
  // Where no assertion came before the exception, the case's own place has to do.
  CHECK_THAT(world.ranks[1].failures.at(0).file, ContainsSubstring("ranked_program.cpp"));
}

TEST_CASE("A rank that never met the abort has not passed either") {
  const auto world = run_case("ends/unnoticed_abort[W=2]", 2);
  check_left_in_order(world);
  CHECK(world.ranks[0].only_case().outcome == protocol::Outcome::released);
  CHECK(world.ranks[1].only_case().outcome == protocol::Outcome::error);
}

TEST_CASE("SECTION and GENERATE are refused") {
  for (const std::string name : {"section", "generate"}) {
    INFO(name);
    const auto world = run_case("ends/" + name + "[W=2]", 2);
    check_left_in_order(world);
    for (const auto& rank : world.ranks) {
      CHECK(rank.only_case().outcome == protocol::Outcome::error);
      CHECK(rank.only_case().assertions == 1);
      CHECK_THAT(rank.only_case().reason, ContainsSubstring("parameters are cases"));
    }
  }
}

TEST_CASE("A case without an assertion is an error, on the ranks that made none") {
  auto world = run_case("ends/no_assertion[W=2]", 2);
  check_left_in_order(world);
  for (const auto& rank : world.ranks) {
    CHECK(rank.only_case().outcome == protocol::Outcome::error);
    CHECK_THAT(rank.only_case().reason, ContainsSubstring("no assertion"));
  }
  world = run_case("ends/no_assertion_on_one_rank[W=2]", 2);
  CHECK(world.ranks[0].only_case().outcome == protocol::Outcome::passed);
  CHECK(world.ranks[1].only_case().outcome == protocol::Outcome::error);
}

TEST_CASE("A skip is everybody's") {
  const auto check = [](const WorldRemains& world, int culprit, const std::string& reason) {
    check_left_in_order(world);
    for (const auto& rank : world.ranks) {
      CHECK(rank.only_case().outcome == protocol::Outcome::skipped);
      CHECK(rank.only_case().culprit == culprit);
      CHECK(rank.only_case().reason == reason);
      CHECK(rank.failures.empty());
    }
  };
  check(run_case("ends/skipped_by_one[W=3]", 3), 2, "rank 2 has no luck");
  check(run_case("ends/skipped_by_all[W=2]", 2), 0, "nobody wants to");
  check(run_case("ends/skipped_by_macro[W=2]", 2), 1, "by Catch2's macro");
  check(run_case("ends/needs[W=2]", 2), -1, "the program has no subject that could claim timeline");
}

TEST_CASE("A skip does not hide a failure") {
  const auto world = run_case("ends/skipped_after_failure[W=2]", 2);
  check_left_in_order(world);
  CHECK(world.ranks[1].only_case().outcome == protocol::Outcome::failed);
  CHECK(world.ranks[0].only_case().outcome == protocol::Outcome::released);
  CHECK(world.ranks[0].only_case().culprit == 1);
  CHECK(world.ranks[0].only_case().reason == "rank 1 asked to skip the case, but rank 1 went wrong");
}

TEST_CASE("Different numbers of calls are an error on every rank at once") {
  const auto world = run_case("ends/different_call_counts[W=2]", 2);
  check_left_in_order(world);
  for (const auto& rank : world.ranks) {
    CHECK(rank.only_case().outcome == protocol::Outcome::error);
    CHECK_THAT(rank.only_case().reason, ContainsSubstring("rank 0 made 2, rank 1 made 1"));
  }
}

TEST_CASE("Ranks that ask for different things fail with the same text, which names both ranks and both collectives") {
  const auto world = run_case("ends/mismatch[W=2]", 2);
  check_left_in_order(world);
  for (const auto& rank : world.ranks) {
    CHECK(rank.only_case().outcome == protocol::Outcome::failed);
    CHECK(rank.only_case().assertions == 2);
    REQUIRE(rank.failures.size() == 1);
    const auto& failure = rank.failures.front();
    CHECK(failure.macro == "equal collectives");
    CHECK(failure.expression.empty());
    CHECK_THAT(failure.expansion, ContainsSubstring("rank 0") && ContainsSubstring("all_gather of 2 f32") &&
                                      ContainsSubstring("rank 1") && ContainsSubstring("all_gather of 3 f32"));
    CHECK(failure.expansion == world.ranks[0].failures.at(0).expansion);
    CHECK(failure.clauses == std::vector<std::string>{"END-7"});
    CHECK_THAT(failure.file, ContainsSubstring("ranked_program.cpp"));
  }
}

TEST_CASE("A rank that waits in vain names the one that did not come, and the world goes on") {
  const auto world =
      run_world(program, 2, {"ends/late[W=2]", "ends/passed[W=2]"},
                {.plan = [](protocol::WorldPlan& plan) { plan.case_timeout = std::chrono::seconds(2); }});
  check_left_in_order(world);
  for (const auto& rank : world.ranks) {
    REQUIRE(rank.cases.size() == 2);
    CHECK(rank.cases[1].outcome == protocol::Outcome::passed);
  }
  CHECK(world.ranks[0].cases[0].outcome == protocol::Outcome::error);
  CHECK_THAT(world.ranks[0].cases[0].reason, ContainsSubstring("no sign of rank 1"));
  CHECK(world.ranks[1].cases[0].outcome == protocol::Outcome::released);
  CHECK(world.ranks[1].cases[0].culprit == 0);
  CHECK(world.ranks[1].cases[0].reason == world.ranks[0].cases[0].reason);
}

TEST_CASE("A rank that dies in a body releases its peers, who leave the doomed world") {
  for (const std::string name : {"exit", "abort"}) {
    INFO(name);
    const std::string id = "ends/" + name + "_in_body[W=2]";
    const auto world = run_world(program, 2, {"ends/passed[W=2]", id, "ends/passed[W=2]"});
    const auto& dead = world.ranks[1];
    CHECK(dead.exit_code == (name == "exit" ? 0 : -1));
    CHECK(dead.signal == (name == "exit" ? 0 : SIGABRT));
    CHECK_FALSE(dead.left);
    CHECK(dead.cases.size() == 1);
    CHECK(dead.failures.empty());
    const auto& peer = world.ranks[0];
    CHECK(peer.exit_code == 4);
    CHECK_FALSE(peer.left);
    CHECK_FALSE(peer.ended);
    REQUIRE(peer.cases.size() == 2);
    CHECK(peer.cases[0].outcome == protocol::Outcome::passed);
    CHECK(peer.cases[1].id == id);
    CHECK(peer.cases[1].outcome == protocol::Outcome::released);
    CHECK(peer.cases[1].culprit == 1);
    CHECK(peer.cases[1].reason == "rank 1 is gone");
  }
}

TEST_CASE("The same processes take case after case, whatever the one before did") {
  const std::vector<std::string> cases{
      "ends/passed[W=2]",         "ends/thrown[W=2]",  "ends/passed[W=2]",   "ends/different_call_counts[W=2]",
      "ends/passed[W=2]",         "ends/section[W=2]", "ends/mismatch[W=2]", "ends/generate[W=2]",
      "ends/skipped_by_all[W=2]", "ends/passed[W=2]"};
  const auto world = run_world(program, 2, cases);
  check_left_in_order(world);
  for (const auto& rank : world.ranks) {
    REQUIRE(rank.cases.size() == cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      CHECK(rank.cases[i].id == cases[i]);
      CHECK(rank.cases[i].position == i);
      if (cases[i] == "ends/passed[W=2]") CHECK(rank.cases[i].outcome == protocol::Outcome::passed);
    }
  }
}

TEST_CASE("Three hundred cases in one world") {
  std::vector<std::string> cases;
  for (int a = 0; a < 10; ++a) {
    for (int b = 0; b < 10; ++b) {
      for (int c = 0; c < 3; ++c)
        cases.push_back("crowd/of[W=2,a=" + std::to_string(a) + ",b=" + std::to_string(b) + ",c=" + std::to_string(c) +
                        "]");
    }
  }
  const auto world = run_world(SHARDPROOF_CROWDED_PROGRAM, 2, cases);
  check_left_in_order(world);
  for (const auto& rank : world.ranks) {
    REQUIRE(rank.cases.size() == cases.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (rank.cases[i].id != cases[i] || rank.cases[i].outcome != protocol::Outcome::passed ||
          rank.cases[i].assertions != 1)
        ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("A body reads its parameters and reports its measurements; its warnings go to its log") {
  const auto world = run_case("says/measured[W=2,event=false,n=2]", 2);
  check_left_in_order(world);
  for (const auto& rank : world.ranks) {
    CHECK(rank.only_case().outcome == protocol::Outcome::passed);
    REQUIRE(rank.measurements.size() == 1);
    CHECK(rank.measurements[0].name == "time_ns");
    CHECK(rank.measurements[0].value == 425);
    CHECK(rank.measurements[0].unit == "ns");
    CHECK_THAT(rank.errors, ContainsSubstring("warning: a warning"));
  }
}

TEST_CASE("Failures show tensors and enumerators in words") {
  const auto world = run_case("says/values[W=1]", 1);
  check_left_in_order(world);
  REQUIRE(world.ranks[0].failures.size() == 2);
  CHECK_THAT(world.ranks[0].failures[0].expansion, ContainsSubstring("f32") && !ContainsSubstring("{?}"));
  CHECK(world.ranks[0].failures[1].expansion == "{ sum } == { avg }");
}

TEST_CASE("Groups split from the world work in a case") {
  const auto world = run_case("says/splits[W=4]", 4);
  check_left_in_order(world);
  for (const auto& rank : world.ranks) CHECK(rank.only_case().outcome == protocol::Outcome::passed);
}

TEST_CASE("A case for two hosts runs on two, and its ranks know where they are") {
  const auto world = run_world(program, 4, {"placed/on_two_hosts[W=4]", "says/splits[W=4]"},
                               {.shell = R"(SLURMD_NODENAME=n$((SHARDPROOF_RANK / 2 + 1)) "$0"; exit $?)"});
  check_left_in_order(world);
  for (const auto& rank : world.ranks) CHECK(rank.cases.at(0).outcome == protocol::Outcome::passed);
}

TEST_CASE("A case for two hosts is skipped on one, on all ranks for the same reason") {
  const auto world = run_case("placed/on_two_hosts[W=4]", 4);
  check_left_in_order(world);
  for (const auto& rank : world.ranks) {
    CHECK(rank.only_case().outcome == protocol::Outcome::skipped);
    CHECK(rank.only_case().reason == "its ranks must be on 2 hosts, and here they are on 1");
    CHECK_FALSE(rank.only_case().unclaimed);
  }
}

TEST_CASE("A wrapper program may start a rank for the launcher") {
  const auto world = run_world(program, 2, {"ends/passed[W=2]"}, {.shell = R"("$0"; exit $?)"});
  check_left_in_order(world);
  for (const auto& rank : world.ranks) CHECK(rank.only_case().outcome == protocol::Outcome::passed);
}

TEST_CASE("A plan that this program cannot follow is refused before the ranks meet") {
  const auto refused = [](const std::function<void(protocol::WorldPlan&)>& change, int code, const std::string& text) {
    const auto world = run_world(program, 2, {"ends/passed[W=2]"}, {.plan = change});
    for (const auto& rank : world.ranks) {
      CHECK(rank.exit_code == code);
      CHECK_THAT(rank.errors, ContainsSubstring(text));
      CHECK_FALSE(rank.left);
    }
  };
  refused([](protocol::WorldPlan& plan) { plan.cases = {"ends/nothing[W=2]"}; }, 2,
          "ends/nothing[W=2], which this program does not declare");
  refused([](protocol::WorldPlan& plan) { plan.cases = {"ends/passed[W=3]"}; }, 2,
          "does not belong in a world of 2 ranks");
  refused([](protocol::WorldPlan& plan) { plan.subject = "torch"; }, 2,
          "this program has no subject 'torch': link it to shardproof::play");
  refused([](protocol::WorldPlan& plan) { plan.fabric = "pigeon"; }, 3,
          "there is no fabric 'pigeon' for ranks that are processes on the device 'sim'; use shm, tcp or mpi");
  refused([](protocol::WorldPlan& plan) { plan.device = "abacus"; }, 3,
          "there is no device 'abacus'; there are: sim, cuda");
}
