#include "harness/protocol/environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace shardproof::protocol {

namespace {

/// More ranks than any machine has. A larger value belongs to a variable with another meaning.
constexpr int most_ranks = 1 << 24;

int number(const char* name, std::string_view text, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw std::invalid_argument(
        fmt::format("environment variable {}=\"{}\" is not an integer from {} to {}", name, text, least, most));
  }
  return value;
}

struct Variables {
  const char* rank;
  const char* size;
  const char* launcher;
  std::array<const char*, 2> job;  ///< Together they tell one start from any other. MPICH has none.
};

constexpr char slurm_size[] = "SLURM_NTASKS";

/// The order matters: torchrun and mpirun run inside Slurm allocations, and then Slurm's variables describe the
/// allocation, not the ranks. PMIx gives a process its rank but not the number of ranks; the launcher's own variable
/// gives that.
constexpr std::array<const char*, 2> torchrun_job{"TORCHELASTIC_RUN_ID", "MASTER_PORT"};
constexpr std::array<const char*, 2> open_mpi_job{"PMIX_NAMESPACE", nullptr};
constexpr std::array<const char*, 2> slurm_job{"SLURM_JOB_ID", "SLURM_STEP_ID"};
constexpr std::array<Variables, 6> foreign{{{"RANK", "WORLD_SIZE", "torchrun", torchrun_job},
                                            {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun", open_mpi_job},
                                            {"PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun", open_mpi_job},
                                            {"PMI_RANK", "PMI_SIZE", "mpirun", {nullptr, nullptr}},
                                            {"PMIX_RANK", slurm_size, "srun", slurm_job},
                                            {"SLURM_PROCID", slurm_size, "srun", slurm_job}}};

std::string job_of(const Variables& names, const std::function<const char*(const char*)>& get) {
  std::string text;
  for (const char* name : names.job) {
    if (name == nullptr) continue;
    if (const char* value = get(name)) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

/// The script of sbatch is in a step with a special number, above all others, or in none.
bool is_in_step(const std::function<const char*(const char*)>& get) {
  const char* const step = get("SLURM_STEP_ID");
  if (step == nullptr) return false;
  constexpr std::uint32_t first_special = 0xfffffff0;
  const std::string_view text = step;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value < first_special;
}

}  // namespace

std::optional<Identity> identity(const std::function<const char*(const char*)>& get) {
  if (const char* own = get(environment::rank))
    return Identity{number(environment::rank, own, 0, most_ranks - 1), 0, "shardproof", environment::rank, {}};
  const Variables* half = nullptr;
  for (const auto& names : foreign) {
    if (std::string_view(names.size) == slurm_size && !is_in_step(get)) continue;
    const char* rank = get(names.rank);
    const char* size = get(names.size);
    if (rank && size) {
      const int world_size = number(names.size, size, 1, most_ranks);
      return Identity{number(names.rank, rank, 0, world_size - 1), world_size, names.launcher,
                      fmt::format("{} and {}", names.rank, names.size), job_of(names, get)};
    }
    if (rank && !half) half = &names;
  }
  // Rank 3 of 4 would hang its peers if it took itself for the only process.
  if (half) {
    throw std::invalid_argument(fmt::format(
        "environment variable {} is set but {} is not: cannot tell how many ranks there are", half->rank, half->size));
  }
  return std::nullopt;
}

const char* own_variable(const char* name) { return std::getenv(name); }

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace shardproof::protocol
