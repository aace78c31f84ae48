// The program that ranks run, seen from outside: what it answers when asked for its cases, and whether it is one of ours at all.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "harness/protocol/gpu_listing.hpp"
#include "launcher/process/signal_watch.hpp"

namespace shardproof::launcher {

class WarmProcess;

struct Worker {
  std::filesystem::path program;         ///< absolute
  std::vector<std::string> environment;  ///< of every process of it: the launcher's own, without another launcher's ranks
  std::string cache_variable;            ///< of its environment: names a folder for what its runtime keeps; empty: it keeps nothing
  std::string listing_text;              ///< as the worker wrote it, for a later merge
  Listing listing;
  std::shared_ptr<WarmProcess> warm;  ///< that its ranks are copies of; none: each is started by itself
  /// What this launcher has started for good, be it for another worker: its warm processes, to be told from what others have left to it.
  std::vector<pid_t> started;
};

/// For a worker to list its cases, which costs it milliseconds.
inline constexpr std::chrono::seconds worker_patience{60};

/// `asked` or, where it is empty, `shardproof-worker` beside this executable. Throws CommandError: usage where there is no such file as was
/// asked for; infrastructure saying what is wrong with the program, among it that it did not answer in time; with 128 + n when signal n
/// came meanwhile. The program is gone after it.
Worker ask_worker(const std::filesystem::path& asked, SignalWatch& signals, std::chrono::milliseconds patience = worker_patience);

/// The same program, asked for nothing yet.
Worker find_worker(const std::filesystem::path& asked);

/// Asks it, as `ask_worker` does; with a shared object that its subject is in, for what it is with that one, which is named as what is
/// wrong where the worker answers without it.
void ask_for_cases(Worker& worker, const std::filesystem::path& subject_library, SignalWatch& signals,
                   std::chrono::milliseconds patience = worker_patience);

/// The GPUs that ranks of the worker could run on by this backend, or why there are none. Throws CommandError (infrastructure) in one line
/// when it does not say: a driver may crash or hang whoever asks it.
GpuListing ask_gpus(const Worker& worker, const std::filesystem::path& backend, SignalWatch& signals,
                    std::chrono::milliseconds patience = worker_patience);

/// Returns if the worker can read the document, and this many ranks can make the calls of its script. Throws CommandError (usage) with what
/// is wrong in it.
void check_scenario(const Worker& worker, const std::filesystem::path& document, int ranks, SignalWatch& signals);

/// A scenario that a worker has made, as text that only workers read.
struct MadeScenario {
  std::uint64_t seed = 0;  ///< of those that are made from one
  int ranks = 1;
  std::string document;
};

/// What scenarios are made from.
struct ScenarioSource {
  std::string engine;  ///< the kind of engine that they are for
  std::vector<int> ranks;  ///< of which a seed chooses one
  std::vector<std::string> features;  ///< that scenarios may need
  std::vector<std::string> left_out;  ///< features, or ingredients of scenarios
};

/// Those of `count` seeds. Throws CommandError: usage for what the worker knows no ingredient by, else infrastructure.
std::vector<MadeScenario> make_scenarios(const Worker& worker, const ScenarioSource& source, std::uint64_t first_seed, std::uint64_t count,
                                         SignalWatch& signals);
/// Such as are smaller than this one, played by so many ranks, those that leave out most first.
std::vector<MadeScenario> smaller_scenarios(const Worker& worker, const std::filesystem::path& document, int ranks, SignalWatch& signals);

/// Reads a listing. Throws std::invalid_argument saying why the text is none, or of another protocol.
Listing parse_listing(const std::string& text);

}  // namespace shardproof::launcher
