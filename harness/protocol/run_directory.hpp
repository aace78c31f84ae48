// Where a run keeps what: fixed points that scripts outside the project rely on.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

namespace shardproof {

/// What files call a case: its id, with dots for slashes; `.play-2` behind it for the second scenario that it plays.
inline std::string case_file_name(std::string id, int play = 1) {
  std::ranges::replace(id, '/', '.');
  return play > 1 ? id + ".play-" + std::to_string(play) : id;
}

/// `RUN/worlds/K`: everything about one world.
struct WorldDirectory {
  std::filesystem::path root;

  std::filesystem::path plan() const { return root / "plan.json"; }
  std::filesystem::path ranks() const { return root / "ranks"; }
  std::filesystem::path logs() const { return root / "logs"; }
  std::filesystem::path evidence() const { return root / "evidence"; }
  std::filesystem::path traces() const { return root / "traces"; }
  /// A scenario that a failed case has played, from 1.
  std::filesystem::path scenario(const std::string& id, int play) const {
    return evidence() / (case_file_name(id, play) + ".scenario.json");
  }
  /// The stacks of the threads of a rank that hung, or a line that says why they are missing.
  std::filesystem::path stacks(int rank) const { return evidence() / ("rank-" + std::to_string(rank) + ".stacks"); }
  /// The last calls of all ranks, when the launcher saw that the world would end early.
  std::filesystem::path flight() const { return evidence() / "flight.json"; }
  /// The order in which ranks took turns, where they did: a line for each case, `id: 0 1 1 0`.
  std::filesystem::path turns() const { return root / "turns"; }
  /// What ranks asked of NCCL, where they ran under the tap (nccl_record.hpp); what a rank's own children asked stands beside its record.
  std::filesystem::path nccl() const { return root / "nccl"; }
  std::filesystem::path nccl_record(int rank) const { return nccl() / ("rank-" + std::to_string(rank) + ".tap"); }
  /// What came of the case of a scenario that is played outside any suite.
  std::filesystem::path play_result(const std::string& id, int rank) const {
    return root / "play" / case_file_name(id) / ("rank-" + std::to_string(rank) + ".json");
  }
  std::filesystem::path rank_stream(int rank) const { return ranks() / ("rank-" + std::to_string(rank) + ".jsonl"); }
  std::filesystem::path standard_output(int rank) const { return logs() / ("rank-" + std::to_string(rank) + ".out"); }
  std::filesystem::path standard_error(int rank) const { return logs() / ("rank-" + std::to_string(rank) + ".err"); }
  /// How the processes of the world ended, written by the launcher: what no rank can say of itself.
  std::filesystem::path endings() const { return root / "endings.json"; }
};

/// `shardproof run --out RUN`.
struct RunDirectory {
  std::filesystem::path root;

  std::filesystem::path report() const { return root / "report.json"; }
  std::filesystem::path run() const { return root / "run.json"; }  ///< argv, seed, machine: the report's head, for a later merge
  std::filesystem::path plan() const { return root / "plan.json"; }  ///< of all worlds, written before the first begins
  std::filesystem::path warm_log() const { return root / "warm.log"; }  ///< what the process says that ranks are copies of
  std::filesystem::path worlds() const { return root / "worlds"; }
  WorldDirectory world(int index) const { return {worlds() / std::to_string(index)}; }
};

}  // namespace shardproof
