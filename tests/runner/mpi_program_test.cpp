// Ranks that an MPI library has started, and that send messages by it.
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/runner/world_driver.hpp"

using namespace shardproof;
using namespace shardproof::test;
using Catch::Matchers::ContainsSubstring;
using protocol::Outcome;

namespace {

const std::vector<std::vector<std::string>> libraries = {
#ifdef SHARDPROOF_OPENMPI_RUN
    {SHARDPROOF_OPENMPI_RUN, "--oversubscribe", "--allow-run-as-root"},
#endif
#ifdef SHARDPROOF_MPICH_RUN
    {SHARDPROOF_MPICH_RUN},
#endif
};

WorldRemains run_by(const std::vector<std::string>& mpirun, int size, std::vector<std::string> cases) {
  return run_world(
      SHARDPROOF_RANKED_PROGRAM, size, std::move(cases),
      {.plan = [](protocol::WorldPlan& plan) { plan.fabric = protocol::mpi_fabric; }, .shell = {}, .mpirun = mpirun});
}

std::vector<Outcome> outcomes(const RankRemains& rank) {
  std::vector<Outcome> all;
  for (const auto& ended : rank.cases) all.push_back(ended.outcome);
  return all;
}

/// All ranks left their world, and finalized the library: otherwise it would complain.
void check_finalized(const WorldRemains& world) {
  INFO(world.ranks.front().errors);
  for (const RankRemains& rank : world.ranks) {
    CHECK(rank.exit_code == 0);
    CHECK(rank.ended);
    CHECK(rank.left);
  }
  CHECK(world.ranks.front().errors.empty());
}

}  // namespace

TEST_CASE("Ranks that an MPI library has started run their cases in one world") {
  const auto& mpirun = GENERATE(from_range(libraries));
  CAPTURE(mpirun.front());
  const auto world =
      run_by(mpirun, 2, {"mine/all_gather_keeps_rank_order[W=2]", "ends/failed_check[W=2]", "ends/passed[W=2]"});
  check_finalized(world);
  CHECK(outcomes(world.ranks[0]) == std::vector{Outcome::passed, Outcome::passed, Outcome::passed});
  CHECK(outcomes(world.ranks[1]) == std::vector{Outcome::passed, Outcome::failed, Outcome::passed});
}

TEST_CASE("After an aborted call, ranks of an MPI library leave in order, for others that go on") {
  const auto& mpirun = GENERATE(from_range(libraries));
  CAPTURE(mpirun.front());
  const auto world = run_by(mpirun, 2, {"ends/passed[W=2]", "ends/require_in_a_call[W=2]", "ends/passed[W=2]"});
  check_finalized(world);
  CHECK(outcomes(world.ranks[0]) == std::vector{Outcome::passed, Outcome::released});
  CHECK(outcomes(world.ranks[1]) == std::vector{Outcome::passed, Outcome::failed});
}

TEST_CASE("A rank of the fabric mpi that no MPI library has started says so") {
  const auto world = run_world(SHARDPROOF_RANKED_PROGRAM, 2, {"ends/passed[W=2]"},
                               {.plan = [](protocol::WorldPlan& plan) { plan.fabric = protocol::mpi_fabric; },
                                .shell = R"(unset OMPI_COMM_WORLD_SIZE PMIX_RANK PMI_RANK; "$0"; exit $?)"});
  for (const auto& rank : world.ranks) {
    CHECK(rank.exit_code == 3);
    CHECK_THAT(rank.errors, ContainsSubstring("fabric mpi: no MPI has started this process"));
  }
}
