// The order that a launcher gives to the ranks of one world, as a file that all of them read.
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

namespace shardproof {

/// For a rank to come to its first case. A world of many ranks on few cores takes its time.
inline constexpr std::chrono::milliseconds joining_limit{30'000};

/// A world that ran what an earlier one had not come to when a rank ended it.
struct Continuation {
  int world = 0;           ///< the earlier one's number in the run: it answers for its cases before `from`, and for no others
  std::uint64_t from = 0;  ///< this world's cases are those of the earlier one from here on
  friend bool operator==(const Continuation&, const Continuation&) = default;
};

inline constexpr char shm_fabric[] = "shm";        ///< ranks are processes of one machine
inline constexpr char thread_fabric[] = "thread";  ///< ranks are threads of one process
inline constexpr char nccl_fabric[] = "nccl";      ///< ranks are processes of one machine, and engines' collectives run on their GPUs

inline constexpr char sim_device[] = "sim";
inline constexpr char cuda_device[] = "cuda";

// Where the times of work on a GPU come from: CUDA's events before and behind it, or CUPTI's records of what it put there.
inline constexpr char event_times[] = "events";
inline constexpr char cupti_times[] = "cupti";

/// What decides which of the ranks that are threads run.
enum class Scheduler : std::uint8_t {
  seeded,  ///< one at a time, in an order that the seed draws
  free,    ///< the operating system
};

std::string_view to_string(Scheduler scheduler);

/// Threads of one process, at most.
inline constexpr int max_threads = 128;

struct WorldPlan {
  int size = 1;
  std::string nonce;                  ///< unlike in any other world; in the path and in the stored values
  std::filesystem::path rendezvous;   ///< private directory of this world, on a memory file system where there is one
  std::filesystem::path directory;    ///< `worlds/K` of the run: rank streams, logs, evidence, traces
  std::string fabric = shm_fabric;
  Scheduler scheduler = Scheduler::seeded;  ///< of ranks that are threads
  std::string device = sim_device;
  std::filesystem::path backend;      ///< of ranks on GPUs: the shared object that reaches CUDA
  std::string times = event_times;    ///< of ranks on GPUs: where times come from
  std::string subject{reference_subject};
  std::filesystem::path subject_library;  ///< the shared object that the subject is in; empty: one of the program's own
  std::string fault;                  ///< name of a fault to apply to the subject; empty for none
  std::uint64_t seed = 0;
  std::vector<std::string> cases;     ///< ids in the order to run; a repeated case stands several times
  std::chrono::milliseconds case_timeout{60'000};
  std::map<std::string, std::chrono::milliseconds> timeouts;  ///< of cases that have one of their own, by id
  /// By rank: what its process is told beside what the launcher itself was told; empty: nothing.
  std::vector<std::map<std::string, std::string>> environment;
  std::string unfit_for_timing;       ///< why durations of this world say nothing; empty: they do
  std::string skipped;                ///< why none of its cases can be run here; empty: they can
  bool trace = false;                 ///< write each case's recorded facts to `traces/`
  int planned = -1;                   ///< which of the run's planned worlds this is, or continues; -1: none of them
  std::optional<Continuation> continues;
  int attempt = 0;                    ///< how often its cases have ended badly before
  std::vector<std::filesystem::path> scenarios;  ///< documents, each to be played as a case of its own; none: the program's cases run
  /// Documents, one for each of `cases`, that the cases play instead of what they draw; none: the cases draw.
  std::vector<std::filesystem::path> given;

  /// How long the case at this place may take.
  std::chrono::milliseconds time_for(std::uint64_t position) const;
};

/// `play/scenario[W=2]`, or `play/scenario[W=2,n=3]` where several are played: the cases that no program declares.
std::string play_case_id(int world_size, std::optional<std::size_t> number = std::nullopt);
/// Those of a plan, in the order of its scenarios.
std::vector<std::string> play_case_ids(const WorldPlan& plan);

void to_json(nlohmann::ordered_json& json, const WorldPlan& plan);
void from_json(const nlohmann::ordered_json& json, WorldPlan& plan);

}  // namespace shardproof
