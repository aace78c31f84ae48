// The layout of a run's directory. Scripts outside the project rely on these paths.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

namespace shardproof::protocol {

/// A case's name in file names: its id, with dots for slashes. For the second scenario that the case plays, it ends in
/// `.play-2`.
inline std::string case_file_name(std::string id, int play = 1) {
  std::ranges::replace(id, '/', '.');
  return play > 1 ? id + ".play-" + std::to_string(play) : id;
}

/// The directory of one world, `RUN/worlds/K`.
struct WorldDirectory {
  std::filesystem::path root;

  std::filesystem::path plan() const { return root / "plan.json"; }
  std::filesystem::path ranks() const { return root / "ranks"; }
  std::filesystem::path logs() const { return root / "logs"; }
  std::filesystem::path evidence() const { return root / "evidence"; }
  std::filesystem::path traces() const { return root / "traces"; }
  /// A scenario that a failed case has played, numbered from 1.
  std::filesystem::path scenario(const std::string& id, int play) const {
    return evidence() / (case_file_name(id, play) + ".scenario.json");
  }
  /// The end of what a rank printed on standard output or standard error while a case ran that went wrong.
  std::filesystem::path case_output(const std::string& id, int rank) const {
    return evidence() / (case_file_name(id) + ".rank-" + std::to_string(rank) + ".out");
  }
  std::filesystem::path case_errors(const std::string& id, int rank) const {
    return evidence() / (case_file_name(id) + ".rank-" + std::to_string(rank) + ".err");
  }
  /// The stacks of the threads of a rank that hung, or a line that says why they are missing.
  std::filesystem::path stacks(int rank) const { return evidence() / ("rank-" + std::to_string(rank) + ".stacks"); }
  /// The stack of a rank that died by a signal, or a line that says why it is missing.
  std::filesystem::path crash(int rank) const { return evidence() / ("rank-" + std::to_string(rank) + ".crash"); }
  /// The last calls of all ranks at the time when the launcher saw that the world would end early.
  std::filesystem::path flight() const { return evidence() / "flight.json"; }
  /// The order in which ranks took turns, where they took turns. It has a line for each case: `id: 0 1 1 0`.
  std::filesystem::path turns() const { return root / "turns"; }
  /// The NCCL calls of ranks that ran under the tap (nccl_record.hpp). The records of a rank's own children are next to
  /// its record.
  std::filesystem::path nccl() const { return root / "nccl"; }
  std::filesystem::path nccl_record(int rank) const { return nccl() / ("rank-" + std::to_string(rank) + ".tap"); }
  /// The result of the case of a scenario that is played outside any suite.
  std::filesystem::path play_result(const std::string& id, int rank) const {
    return root / "play" / case_file_name(id) / ("rank-" + std::to_string(rank) + ".json");
  }
  std::filesystem::path rank_stream(int rank) const { return ranks() / ("rank-" + std::to_string(rank) + ".jsonl"); }
  std::filesystem::path standard_output(int rank) const { return logs() / ("rank-" + std::to_string(rank) + ".out"); }
  std::filesystem::path standard_error(int rank) const { return logs() / ("rank-" + std::to_string(rank) + ".err"); }
  /// The output of a command of the user that starts ranks (`run --launcher`).
  std::filesystem::path launcher_log() const { return logs() / "launcher.log"; }
  /// A document for the guards of ranks (launcher/run/guard.hpp).
  std::filesystem::path guard_order() const { return root / "guard.json"; }
  /// The secret that the guards of ranks and their launcher share. Only this user can read it. It is removed at the end
  /// of the world.
  std::filesystem::path key() const { return root / "key"; }
  /// The plan of the ranks of one host, with the directory in which they meet. `first`: the first rank of the host.
  /// Only a world whose ranks are not all on the launcher's host has such plans.
  std::filesystem::path host_plan(int first) const { return root / ("plan-" + std::to_string(first) + ".json"); }
  /// The file store of a world whose ranks are on several hosts.
  std::filesystem::path store() const { return root / "store"; }
  /// The end of a rank that has a guard. The guard writes it.
  std::filesystem::path rank_end(int rank) const { return ranks() / ("rank-" + std::to_string(rank) + ".end.json"); }
  /// How the processes of the world ended. The launcher writes it, because a rank cannot report its own end.
  std::filesystem::path endings() const { return root / "endings.json"; }
};

/// The directory that `shardproof run --out RUN` writes.
struct RunDirectory {
  std::filesystem::path root;

  std::filesystem::path report() const { return root / "report.json"; }
  /// Argv, seed and machine: the report's head, for a later merge.
  std::filesystem::path run() const { return root / "run.json"; }
  /// Covers all worlds. Written before the first world begins.
  std::filesystem::path plan() const { return root / "plan.json"; }
  /// Output of the process that ranks are copies of.
  std::filesystem::path warm_log() const { return root / "warm.log"; }
  std::filesystem::path worlds() const { return root / "worlds"; }
  WorldDirectory world(int index) const { return {worlds() / std::to_string(index)}; }
};

}  // namespace shardproof::protocol
