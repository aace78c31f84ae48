// Which worlds does a run consist of, and which cases in which order does each run? Pure: the same listing and options give the same plan
// on every machine, so that shards of one suite, planned apart, fit together.
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

/// Part `index` of `count`, from 1.
struct Shard {
  int index = 1;
  int count = 1;
};

/// Reads `2/5`. Throws CommandError.
Shard parse_shard(std::string_view text);

enum class Order : std::uint8_t { listed, random };

struct PlanOptions {
  std::vector<std::string> filters;
  std::vector<int> ranks;  ///< world sizes to keep; empty for all
  /// Cases that draw what they play have the numbers from 1 to this one. None: the listed numbers.
  std::optional<int> generated;
  /// The one selected case plays this scenario instead of what it draws. Empty: the case draws.
  std::filesystem::path scenario;
  std::string subject;     ///< empty for the worker's first
  std::filesystem::path subject_library;  ///< the shared object that the subject is in; empty: the worker itself
  std::string device = sim_device;
  std::string fabric = shm_fabric;
  std::filesystem::path backend;  ///< of ranks on GPUs
  std::string times = event_times;  ///< of ranks on GPUs
  GpuChoice gpus;
  bool share_gpus = false;            ///< several ranks on one
  std::optional<GpuSupply> supply;    ///< what `gpus` turned out to mean; none: ranks run on no GPU
  bool processes_only = false;        ///< the fabric was asked for: cases whose ranks are to be threads are skipped
  std::optional<Scheduler> scheduler;  ///< of ranks that are threads; none: by turns
  std::string fault;
  std::uint64_t seed = 0;
  Order order = Order::listed;
  int repeat = 1;          ///< the whole selection, as often
  bool isolate = false;    ///< each case, and each repetition of it, in a world of its own
  Shard shard;
  std::optional<std::chrono::milliseconds> timeout;  ///< for every case, as it is; none: each case's own or the usual one, stretched
  int cores = 0;           ///< times are stretched by the ranks that share one; 0: every rank has its own
  int jobs = 1;            ///< worlds that may run side by side
  bool trace = false;
  std::optional<NcclTap> tap;  ///< under which ranks call NCCL; none: they call it themselves
};

struct Plan {
  /// By size, ascending, those of processes before those of threads; numbered as planned. Their nonce and directories are still empty.
  std::vector<WorldPlan> worlds;
  std::size_t selected = 0;  ///< cases, each counted once
  std::optional<GpuSupply> supply;  ///< as in the options
  std::optional<NcclTap> tap;  ///< as in the options
  int jobs = 1;  ///< as in the options
  bool partial = false;  ///< the worker has cases that are not selected
};

/// Of a case that says nothing of its own, where every rank has a core.
inline constexpr std::chrono::milliseconds usual_timeout{60'000};

/// A world of this size with the settings of `options`, without cases. Throws CommandError (usage) naming what does not exist and what there
/// is instead.
WorldPlan world_of(const Listing& listing, const PlanOptions& options, int size);

/// Throws as `world_of`, for filters that select nothing, and for worlds that there are not enough GPUs for, where those were asked for or are
/// all that is selected; else such a world says why it is skipped. So does one of cases whose ranks are to be threads, where they cannot.
Plan plan(const Listing& listing, const PlanOptions& options);

/// The world for what `lost`, which has this number in its run, did not come to: its cases from `from` on.
WorldPlan continuation(const WorldPlan& lost, int number, std::size_t from);
/// The world in which a case of `plan` that ended badly is tried again, alone: nothing that ran before it may be to blame for it then.
WorldPlan another_attempt(const WorldPlan& plan, const std::string& id);

/// The cases that the filters mean, those on request among them. A filter may be the id of a drawn case that is not listed. Throws CommandError naming the first filter that matches nothing, and what
/// comes closest to it.
std::vector<CaseInfo> matching_cases(const Listing& listing, std::span<const std::string> filters);
/// Leaves only cases of these world sizes. Throws CommandError (usage) for a size that none of them has.
void keep_sizes(std::vector<CaseInfo>& cases, const std::vector<int>& wanted);

/// Of these, those that the options ask for: cases on request are by the size of their world, or by a filter that is their id. Throws
/// CommandError where none is left, and for a size that none of them has.
std::vector<CaseInfo> select_cases(const Listing& listing, const PlanOptions& options);

/// Whether the worker has cases that are not among these, besides those on request.
bool lacks_usual_cases(const std::vector<CaseInfo>& cases, const Listing& listing);

/// An order that depends on the seed alone, not on the standard library.
template <class T>
void shuffle(std::span<T> items, std::uint64_t& state);

template <class T>
void shuffle(std::span<T> items, std::uint64_t& state) {
  for (std::size_t left = items.size(); left > 1; --left) {
    // The bias of the remainder, at most 2^-40 for any list of cases, is of no interest here.
    const std::size_t other = next_random(state) % left;
    std::swap(items[left - 1], items[other]);
  }
}

}  // namespace shardproof::launcher
