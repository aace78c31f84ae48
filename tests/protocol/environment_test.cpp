#include "harness/protocol/environment.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <stdexcept>
#include <string>

namespace shardproof {
namespace {

using Catch::Matchers::ContainsSubstring;

std::optional<protocol::Identity> identity_in(const std::map<std::string, std::string>& variables) {
  return protocol::identity([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

void check(const std::map<std::string, std::string>& variables, int rank, int world_size, const std::string& launcher) {
  const auto who = identity_in(variables);
  REQUIRE(who.has_value());
  CHECK(who->rank == rank);
  CHECK(who->world_size == world_size);
  CHECK(who->launcher == launcher);
}

TEST_CASE("no launcher, no identity") {
  CHECK_FALSE(identity_in({}).has_value());
  CHECK_FALSE(identity_in({{"WORLD_SIZE", "4"}, {"SLURM_NTASKS", "4"}}).has_value());
  // The script of sbatch is no rank.
  CHECK_FALSE(identity_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).has_value());
  for (const char* step : {"4294967291", "batch", ""})
    CHECK_FALSE(identity_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", step}}).has_value());
}

TEST_CASE("each launcher is understood") {
  check({{"SHARDPROOF_RANK", "3"}}, 3, 0, "shardproof");
  check({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}, 1, 4, "torchrun");
  check({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"PMIX_RANK", "2"}}, 2, 8, "mpirun");
  check({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, 0, 1, "mpirun");
  check({{"PMIX_RANK", "5"}, {"SLURM_NTASKS", "6"}, {"SLURM_STEP_ID", "0"}}, 5, 6, "srun");
  check({{"SLURM_PROCID", "7"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_ID", "3"}}, 7, 8, "srun");
}

TEST_CASE("a launcher's own name of its start tells one job from another") {
  const std::map<std::string, std::string> step{
      {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "3"}, {"SLURM_JOB_ID", "12"}};
  CHECK(identity_in(step)->job == "SLURM_JOB_ID=12, SLURM_STEP_ID=3");
  auto open_mpi = step;
  open_mpi.insert({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_NAMESPACE", "77"}});
  CHECK(identity_in(open_mpi)->job == "PMIX_NAMESPACE=77");
  auto torchrun = open_mpi;
  torchrun.insert({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "none"}, {"MASTER_PORT", "29500"}});
  CHECK(identity_in(torchrun)->job == "TORCHELASTIC_RUN_ID=none, MASTER_PORT=29500");
  CHECK(identity_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}})->job.empty());
}

TEST_CASE("the innermost launcher wins") {
  std::map<std::string, std::string> all{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "9"}, {"SLURM_STEP_ID", "0"}};
  check(all, 0, 9, "srun");
  all.insert({{"PMI_RANK", "1"}, {"PMI_SIZE", "8"}});
  check(all, 1, 8, "mpirun");
  all.insert({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "7"}});
  check(all, 2, 7, "mpirun");
  all.insert({{"RANK", "3"}, {"WORLD_SIZE", "6"}});
  check(all, 3, 6, "torchrun");
  all.insert({"SHARDPROOF_RANK", "4"});
  check(all, 4, 0, "shardproof");
}

TEST_CASE("a value that is no rank is refused by name") {
  for (const char* bad : {"", " 1", "1 ", "-1", "0x1", "1.0", "one", "99999999999999999999"}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH(identity_in({{"SHARDPROOF_RANK", bad}}),
                      ContainsSubstring("SHARDPROOF_RANK=\"" + std::string(bad) + "\""));
    CHECK_THROWS_WITH(identity_in({{"RANK", bad}, {"WORLD_SIZE", "2"}}),
                      ContainsSubstring("RANK=\"" + std::string(bad) + "\""));
  }
  CHECK_THROWS_WITH(identity_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
                    ContainsSubstring("RANK=\"2\" is not an integer from 0 to 1"));
  CHECK_THROWS_WITH(identity_in({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), ContainsSubstring("WORLD_SIZE=\"0\""));
}

TEST_CASE("a rank without a world size is refused unless another launcher says both") {
  CHECK_THROWS_WITH(identity_in({{"RANK", "1"}}), ContainsSubstring("RANK is set but WORLD_SIZE is not"));
  CHECK_THROWS_WITH(identity_in({{"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}}),
                    ContainsSubstring("SLURM_NTASKS is not"));
  check({{"RANK", "1"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}}, 2, 4, "srun");
}

}  // namespace
}  // namespace shardproof
