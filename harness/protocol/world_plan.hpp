// WorldPlan is a launcher's order to the ranks of one world, as a file that all of them read.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/subject_name.hpp"

namespace shardproof::protocol {

/// The time limit for a rank to reach its first case. A world of many ranks on few cores takes its time.
inline constexpr std::chrono::milliseconds joining_limit{30'000};

/// Marks a world that runs the cases that an earlier world had not reached when a rank ended it.
struct Continuation {
  /// The earlier world's number in the run. It answers for its cases before `from`, and for no others.
  int world = 0;
  std::uint64_t from = 0;  ///< This world's cases are the earlier world's cases from here on.
  friend bool operator==(const Continuation&, const Continuation&) = default;
};

inline constexpr char shm_fabric[] = "shm";        ///< Ranks are processes of one machine.
inline constexpr char thread_fabric[] = "thread";  ///< Ranks are threads of one process.
/// Ranks are processes of one or several machines, and engines' collectives run on their GPUs.
inline constexpr char nccl_fabric[] = "nccl";
/// Ranks are processes of one or several machines, which send messages over TCP.
inline constexpr char tcp_fabric[] = "tcp";
/// Ranks are processes of one or several machines, which an MPI library has started and which send messages.
inline constexpr char mpi_fabric[] = "mpi";

inline constexpr char sim_device[] = "sim";
inline constexpr char cuda_device[] = "cuda";

// The source of the times of GPU work: CUDA's events before and after the work, or CUPTI's records of it.
inline constexpr char event_times[] = "events";
inline constexpr char cupti_times[] = "cupti";

/// Decides which of the ranks that are threads may run.
enum class Scheduler : std::uint8_t {
  seeded,  ///< One rank at a time, in an order that the seed draws.
  free,    ///< The operating system decides.
};

std::string_view to_string(Scheduler scheduler);

/// Makes the ranks leave their world after a case that did not pass (`run --fail-fast`). Lists the ids whose verdict a
/// waiver excuses in this world, because ranks do not know waivers.
struct FailFast {
  std::vector<std::string> may_fail;  ///< The verdict `failed` is excused.
  std::vector<std::string> may_have_error;  ///< The verdict `error` is excused.
  friend bool operator==(const FailFast&, const FailFast&) = default;
};

/// Why a run or a world ends at this case: `suite/case[W=2] did not pass (--fail-fast)`.
std::string fail_fast_reason(std::string_view id);

/// The largest number of threads in one process.
inline constexpr int max_threads = 128;

struct WorldPlan {
  int size = 1;
  std::string nonce;                  ///< Unique to this world. Part of the path and of the stored values.
  /// Private directory of this world on the rank's host, on a memory file system where one exists.
  std::filesystem::path rendezvous;
  /// Where ranks of several hosts find each other: a directory that all of them see. Empty: all ranks are on one host,
  /// and find each other in `rendezvous`.
  std::filesystem::path store;
  /// `worlds/K` of the run: rank streams, logs, evidence, traces.
  std::filesystem::path directory;
  std::string fabric = shm_fabric;
  Scheduler scheduler = Scheduler::seeded;  ///< For ranks that are threads.
  std::string device = sim_device;
  std::filesystem::path backend;  ///< For ranks on GPUs: the shared object that reaches CUDA.
  /// For the fabric `mpi`: the folder of the shared objects that reach MPI libraries. Empty: the rank's own build has
  /// them.
  std::filesystem::path mpi_modules;
  std::string times = event_times;  ///< For ranks on GPUs: the source of times.
  std::string subject{reference_subject};
  /// The shared object that contains the subject. Empty: a subject of the worker program.
  std::filesystem::path subject_library;
  std::string fault;  ///< Name of a fault to apply to the subject. Empty: no fault.
  std::uint64_t seed = 0;
  std::vector<std::string> cases;  ///< Ids in the order to run. A repeated case is listed several times.
  std::chrono::milliseconds case_timeout{60'000};
  std::map<std::string, std::chrono::milliseconds> timeouts;  ///< For cases with a timeout of their own, by id.
  /// Both times above are longer than what was asked for, by this factor: so many ranks share a core.
  int ranks_per_core = 1;
  /// By rank: environment variables of its process, in addition to the launcher's own. Empty: none.
  std::vector<std::map<std::string, std::string>> environment;
  /// The reason why durations of this world mean nothing. Empty: they are valid.
  std::string unfit_for_timing;
  /// The reason why the world's cases cannot run here. Empty: they can.
  std::string skipped;
  bool trace = false;  ///< Write each case's recorded facts to `traces/`.
  std::optional<FailFast> fail_fast;  ///< Empty: a failed case does not end the world.
  /// The ranks meet in the world's directory on the disk: an earlier world found no room on the memory file system.
  bool on_disk = false;
  /// The run's planned world that this world is, or continues. -1: not a planned world.
  int planned = -1;
  std::optional<Continuation> continues;
  int attempt = 0;  ///< How often its cases have ended badly before.
  /// Documents, each of which is played as a case of its own. None: the program's cases run.
  std::vector<std::filesystem::path> scenarios;
  /// Documents, one for each of `cases`, that the cases play in place of drawn scenarios. None: the cases draw.
  std::vector<std::filesystem::path> given;

  /// Shared memory does not reach all ranks.
  bool is_on_several_hosts() const { return !store.empty(); }
  /// The directory of the file store in which the ranks find each other.
  std::filesystem::path meeting_store() const { return store.empty() ? rendezvous / "store" : store; }
  /// The time limit of the case at this place.
  std::chrono::milliseconds time_for(std::uint64_t position) const;
};

/// `play/scenario[W=2]`, or `play/scenario[W=2,n=3]` where several are played. No program declares these cases.
std::string play_case_id(int world_size, std::optional<std::size_t> number = std::nullopt);
/// The ids of a plan's played cases, in the order of its scenarios.
std::vector<std::string> play_case_ids(const WorldPlan& plan);

void to_json(nlohmann::ordered_json& json, const WorldPlan& plan);
void from_json(const nlohmann::ordered_json& json, WorldPlan& plan);

}  // namespace shardproof::protocol
