// The worker, the program that ranks run: what it answers to the launcher's questions, and whether it is a shardproof
// worker.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/protocol/case_info.hpp"
#include "harness/protocol/gpu_listing.hpp"
#include "launcher/process/signal_watch.hpp"

namespace shardproof::launcher {

class WarmProcess;

struct Worker {
  std::filesystem::path program;         ///< absolute
  /// The environment of each of its processes: the launcher's environment, without the variables of another launcher's
  /// ranks.
  std::vector<std::string> environment;
  /// The environment variable for its runtime's cache folder. Empty: the runtime keeps no cache.
  std::string cache_variable;
  std::string listing_text;  ///< the worker's own text, for a later merge
  protocol::Listing listing;
  std::shared_ptr<WarmProcess> warm;  ///< ranks are copies of it; nullptr: each rank is started by itself
  /// The warm processes that this launcher has started, for this worker or another one. Leftovers uses it to
  /// distinguish them from other processes' children.
  std::vector<pid_t> started;
};

/// The time limit for a worker to list its cases, which takes it milliseconds.
inline constexpr std::chrono::seconds worker_time_limit{60};

/// Finds the worker and asks it for its cases. `requested` is its path; if empty, the worker is `shardproof-worker`
/// next to this executable. The program has ended when this returns. Throws CommandError:
///   - usage if the file `requested` does not exist,
///   - infrastructure with the problem of the program, for instance that it did not answer in time,
///   - with code 128 + n if signal n arrives meanwhile.
Worker ask_worker(const std::filesystem::path& requested, SignalWatch& signals,
                  std::chrono::milliseconds time_limit = worker_time_limit);

/// The same program, but without its cases.
Worker find_worker(const std::filesystem::path& requested);

/// Asks the worker for its cases, like `ask_worker`. With `subject_library`, asks for its cases with that shared
/// object. If the worker answers only without the object, the error names the object as the problem.
void ask_for_cases(Worker& worker, const std::filesystem::path& subject_library, SignalWatch& signals,
                   std::chrono::milliseconds time_limit = worker_time_limit);

/// The GPUs that ranks of the worker can use through this backend, or the reason why there is no GPU. Throws
/// CommandError (infrastructure), with one line of text, if the worker does not answer: a driver may crash or hang the
/// process that asks it.
protocol::GpuListing ask_gpus(const Worker& worker, const std::filesystem::path& backend, SignalWatch& signals,
                              std::chrono::milliseconds time_limit = worker_time_limit);

/// The question of `ask_gpus`, for a caller that waits for other events, too. The destructor ends the worker.
class GpuQuestion {
 public:
  /// Starts the worker. Throws CommandError (infrastructure).
  GpuQuestion(const Worker& worker, const std::filesystem::path& backend,
              std::chrono::milliseconds time_limit = worker_time_limit);
  ~GpuQuestion();
  GpuQuestion(const GpuQuestion&) = delete;
  GpuQuestion& operator=(const GpuQuestion&) = delete;

  /// Readable once the worker has ended.
  int descriptor() const;
  /// From then on, `listing` throws if the worker has not ended.
  control::Deadline deadline() const;
  /// Empty: the worker may still answer. Throws like `ask_gpus`.
  std::optional<protocol::GpuListing> listing();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Checks that the worker can read the document, and that this many ranks can make the calls of its script. Without
/// `ranks`, the worker takes the document's own number, or its default. Returns the number of ranks.
///
/// Throws CommandError (usage) with the document's error.
int check_scenario(const Worker& worker, const std::filesystem::path& document, std::optional<int> ranks,
                   SignalWatch& signals);

/// A scenario that a worker has made. Only workers read its text.
struct MadeScenario {
  std::uint64_t seed = 0;  ///< if it was made from a seed
  int ranks = 1;
  std::string document;
};

/// The settings for random scenarios.
struct ScenarioSource {
  std::string engine;  ///< Kind of engine.
  std::vector<int> ranks;  ///< Numbers of ranks. A seed chooses among them.
  std::vector<std::string> features;  ///< Features that scenarios may need.
  std::vector<std::string> left_out;  ///< Features or ingredients that no scenario has.
};

/// Makes the scenarios of `count` seeds, beginning with `first_seed`. Throws CommandError: usage for an ingredient that
/// the worker does not know, else infrastructure.
std::vector<MadeScenario> make_scenarios(const Worker& worker, const ScenarioSource& source, std::uint64_t first_seed,
                                         std::uint64_t count, SignalWatch& signals);
/// Makes smaller variants of a document that `ranks` ranks play. The variants that leave out most come first.
std::vector<MadeScenario> smaller_scenarios(const Worker& worker, const std::filesystem::path& document, int ranks,
                                            SignalWatch& signals);

/// Reads a listing. Throws std::invalid_argument if the text is not a valid listing or has another protocol, with the
/// reason.
protocol::Listing parse_listing(const std::string& text);

}  // namespace shardproof::launcher
