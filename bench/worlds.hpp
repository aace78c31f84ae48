// Worlds of the bench worker, run by the launcher's own code, and other programs beside them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/process/process.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::bench {

/// The folder of this program: all that is measured is built into it.
std::filesystem::path programs();

/// A folder in memory that is gone with its handle.
class Scratch {
 public:
  Scratch();
  Scratch(const Scratch&) = delete;
  ~Scratch();
  /// A path in it that was not given before.
  std::filesystem::path fresh();

 private:
  std::filesystem::path path_;
  int given_ = 0;
};

class Bench {
 public:
  Bench();

  /// Milliseconds from nothing to nothing: rendezvous made, ranks spawned, joined, through their cases, ended. Throws when any rank did not
  /// leave in order.
  double world_ms(int size, const std::vector<std::string>& cases);

  /// The ids of the bench worker's cases that begin with `prefix`.
  std::vector<std::string> cases(const std::string& prefix) const;

  /// Runs `count` processes at once and waits for all; throws when one does not end with 0. Their output goes to `output`, for reading.
  void spawn(const std::filesystem::path& program, const std::vector<std::string>& arguments, int count,
             const std::filesystem::path& output);
  double spawn_ms(const std::filesystem::path& program, const std::vector<std::string>& arguments, int count);

  std::filesystem::path fresh() { return scratch_.fresh(); }
  const std::filesystem::path& worker() const { return worker_.program; }

 private:
  launcher::SignalWatch signals_;
  launcher::Worker worker_;
  Scratch scratch_;
};

std::string read(const std::filesystem::path& file);

/// Where a command of the PATH is. Throws when it is not.
std::filesystem::path find_program(const std::string& name);

/// mpirun's arguments that let it start `ranks` of a program here, whoever calls and however few the cores.
std::vector<std::string> mpirun_arguments(int ranks, const std::filesystem::path& program);

}  // namespace shardproof::bench
