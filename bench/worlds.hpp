// Runs worlds of the bench worker by the launcher's own code, and other programs for comparison.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/process/process.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/worker_client/warm_process.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::bench {

/// The folder of this program. It contains all measured programs.
std::filesystem::path programs();

/// A folder in memory. The destructor removes it.
class Scratch {
 public:
  Scratch();
  Scratch(const Scratch&) = delete;
  ~Scratch();
  /// A new path in the folder.
  std::filesystem::path fresh();

 private:
  std::filesystem::path path_;
  int given_ = 0;
};

/// How the ranks of a world are made.
enum class Ranks { copied, started };

class Bench {
 public:
  Bench();
  Bench(const Bench&) = delete;

  /// The milliseconds of a whole world: make the rendezvous, spawn the ranks, let them join, run their cases and end.
  /// Throws if any rank did not leave in order.
  double world_ms(int size, const std::vector<std::string>& cases, Ranks ranks = Ranks::copied);

  /// The ids of the bench worker's cases that begin with `prefix`.
  std::vector<std::string> cases(const std::string& prefix) const;

  /// Runs `count` processes at once and waits for all of them. Writes their output to the file `output`. Throws if a
  /// process does not end with 0.
  void spawn(const std::filesystem::path& program, const std::vector<std::string>& arguments, int count,
             const std::filesystem::path& output);
  double spawn_ms(const std::filesystem::path& program, const std::vector<std::string>& arguments, int count);

  std::filesystem::path fresh() { return scratch_.fresh(); }
  const std::filesystem::path& worker() const { return worker_.program; }
  const launcher::Worker& asked_worker() const { return worker_; }

 private:
  launcher::SignalWatch signals_;
  launcher::Worker worker_;
  Scratch scratch_;
  launcher::WarmProcess warm_;
};

std::string read(const std::filesystem::path& file);

/// The path of a command on the PATH. Throws if the PATH does not contain it.
std::filesystem::path find_program(const std::string& name);

/// Arguments of mpirun to start `ranks` ranks of a program here, for any user and any number of cores.
std::vector<std::string> mpirun_arguments(int ranks, const std::filesystem::path& program);

}  // namespace shardproof::bench
