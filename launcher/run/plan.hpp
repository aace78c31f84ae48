// A run's plan: its worlds, and the order of cases in each. Commands make it from the worker's listing and their
// options. Pure: the same listing and options give the same plan on every machine. So shards of one suite that are
// planned separately fit together.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/random.hpp"
#include "harness/protocol/case_info.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/process/gpus.hpp"
#include "launcher/run/nccl_tap.hpp"

namespace shardproof::launcher {

/// Part `index` of `count` parts. The first index is 1.
struct Shard {
  int index = 1;
  int count = 1;
};

/// Reads `2/5`. Throws CommandError.
Shard parse_shard(std::string_view text);

/// The ranks that are copies of one process. All others are started one by one.
enum class Copies : std::uint8_t { all, of_prepared_subjects, none };

enum class Order : std::uint8_t { listed, random };

/// A guard of each host answers four times in this time, and does little else.
inline constexpr std::chrono::milliseconds default_host_silence{800};

struct PlanOptions {
  std::vector<std::string> filters;
  std::filesystem::path named_worker;  ///< as the user named it, for hints; empty: the user did not
  std::vector<int> ranks;  ///< world sizes to keep; empty: all
  /// Cases that draw what they play have the numbers from 1 to this one. None: the listed numbers.
  std::optional<int> generated;
  /// The one selected case plays this scenario instead of what it draws. Empty: the case draws.
  std::filesystem::path scenario;
  std::string subject;     ///< empty: the worker's first subject
  std::filesystem::path subject_library;  ///< the shared object with the subject; empty: the worker has it
  std::string device = protocol::sim_device;
  std::string fabric = protocol::shm_fabric;
  std::filesystem::path backend;  ///< for ranks on GPUs
  std::filesystem::path mpi_modules;  ///< for the fabric `mpi`: the folder of its modules
  std::string times = protocol::event_times;  ///< for ranks on GPUs
  GpuChoice gpus;
  bool share_gpus = false;            ///< Several ranks may use one GPU.
  std::optional<GpuSupply> supply;    ///< The GPUs that `gpus` selects. Empty: ranks run on no GPU.
  /// The user chose the fabric: cases whose ranks have to be threads are skipped.
  bool processes_only = false;
  std::optional<protocol::Scheduler> scheduler;  ///< for ranks that are threads; empty: they take turns
  std::string fault;
  std::uint64_t seed = 0;
  Order order = Order::listed;
  int repeat = 1;          ///< how often to run the whole selection
  /// Each case, and each of its repetitions, runs in its own world.
  bool isolate = false;
  Shard shard;
  /// The time limit for every case, used unchanged. Empty: each case has its own limit or the usual limit, stretched.
  std::optional<std::chrono::milliseconds> timeout;
  /// Time limits grow with the number of ranks per core. 0: every rank has its own core.
  int cores = 0;
  int jobs = 1;  ///< worlds that may run at the same time
  std::string launcher;  ///< a command that starts the ranks of a world; empty: the launcher starts them
  /// With `launcher`: the time for the command to start all ranks of a world, and for guards to find GPUs.
  std::chrono::milliseconds join_timeout = protocol::joining_limit;
  /// With `launcher`: a host whose guards send nothing for this time is lost.
  std::chrono::milliseconds host_silence = default_host_silence;
  Copies copies = Copies::all;
  bool trace = false;
  std::optional<NcclTap> tap;  ///< ranks call NCCL through it; empty: they call NCCL directly
};

struct Plan {
  /// By ascending size. For one size, worlds of processes come before worlds of threads. Numbered in planned order. The
  /// nonces and directories are still empty.
  std::vector<protocol::WorldPlan> worlds;
  std::size_t selected = 0;  ///< cases, each counted once
  std::optional<GpuSupply> supply;  ///< as in the options
  std::optional<NcclTap> tap;  ///< as in the options
  int jobs = 1;  ///< as in the options
  std::string launcher;  ///< as in the options
  std::chrono::milliseconds join_timeout = protocol::joining_limit;  ///< as in the options
  std::chrono::milliseconds host_silence = default_host_silence;  ///< as in the options
  bool partial = false;  ///< the worker has cases that are not selected
};

/// The time limit of a case that does not set one, if every rank has a core.
inline constexpr std::chrono::milliseconds usual_timeout{60'000};

/// A world of this size with the settings of `options`, without cases. Throws CommandError (usage) for a setting that
/// does not exist, with the existing ones.
protocol::WorldPlan world_of(const protocol::Listing& listing, const PlanOptions& options, int size);

/// Makes the plan. Throws like `world_of`, and for filters that select no case. Some worlds cannot run here:
///   - A world with more ranks than GPUs allow. Throws if the user asked for this size, or if no other world is
///     selected. Else its plan says why it is skipped.
///   - A world of cases whose ranks have to be threads, if they cannot be. Its plan says why it is skipped.
Plan plan(const protocol::Listing& listing, const PlanOptions& options);

/// The world for the cases of `lost` from position `from` on, which `lost` did not reach. `number` is the number of
/// `lost` in its run.
protocol::WorldPlan continuation(const protocol::WorldPlan& lost, int number, std::size_t from);
/// A world that runs one case of `plan` again, alone, after it ended badly. No earlier case can then be the cause.
protocol::WorldPlan retry_of(const protocol::WorldPlan& plan, const std::string& id);

/// The cases that the filters select, including cases on request. A filter may be the id of a drawn case that is not
/// listed. Throws CommandError naming the first filter without a match, its closest match, and the command that lists
/// the cases of `named_worker`, which is empty if the user named no worker.
std::vector<protocol::CaseInfo> matching_cases(const protocol::Listing& listing, std::span<const std::string> filters,
                                               const std::filesystem::path& named_worker);
/// Keeps only cases of these world sizes. Throws CommandError (usage) for a size that no case has.
void keep_sizes(std::vector<protocol::CaseInfo>& cases, const std::vector<int>& wanted);

/// The cases that the options select. A case on request is selected by its world size, or by a filter that is its id.
/// Throws CommandError if no case is left, or for a size that no case has.
std::vector<protocol::CaseInfo> select_cases(const protocol::Listing& listing, const PlanOptions& options);

/// Whether the worker has further cases, besides cases on request.
bool lacks_usual_cases(const std::vector<protocol::CaseInfo>& cases, const protocol::Listing& listing);

/// Shuffles `items` by `state` alone. The order does not depend on the standard library.
template <class T>
void shuffle(std::span<T> items, std::uint64_t& state);

template <class T>
void shuffle(std::span<T> items, std::uint64_t& state) {
  for (std::size_t left = items.size(); left > 1; --left) {
    // The bias of the remainder is at most 2^-40 for any list of cases, and does not matter here.
    const std::size_t other = base::next_random(state) % left;
    std::swap(items[left - 1], items[other]);
  }
}

}  // namespace shardproof::launcher
