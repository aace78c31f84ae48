// A run as its files record it: its head, its cases, its worlds, and what is lost of them. `merge` writes the report of
// a recorded run, and `explain` prints from it. Each file is read once, except NCCL records.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/run/demands.hpp"
#include "launcher/run/records.hpp"
#include "reports/merge/merger.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

/// The content of a run's files.
struct MergedRun {
  reports::Report report;
  /// A sentence for each file or folder that is missing or unusable. Worlds in the report have their own defects.
  std::vector<std::string> defects;
  bool misses_plans = false;  ///< Some worlds have lost their plan.
};

/// Throws CommandError (usage) if `directory` is not a directory. The error says what to name.
void require_run_directory(const std::filesystem::path& directory);

/// The world whose folder `directory` is. Nullopt: it is not the folder of a world.
std::optional<protocol::WorldDirectory> as_world(const std::filesystem::path& directory);

/// The run that has the world.
protocol::RunDirectory run_of(const protocol::WorldDirectory& world);

class RecordedRun {
 public:
  /// All worlds of a run.
  explicit RecordedRun(protocol::RunDirectory run);
  /// One world. The other worlds of its run do not count.
  explicit RecordedRun(const protocol::WorldDirectory& world);

  /// True if the directory has no trace of a world.
  bool is_empty() const { return worlds_.empty() && planned_.empty() && merged_.defects.empty(); }

  const protocol::RunDirectory& run() const { return run_; }

  /// The directories of the worlds that can be read, by number.
  std::map<int, protocol::WorldDirectory> worlds() const;

  /// The cases that the run recorded. Nullopt: it recorded none, or they cannot be read, which is a defect.
  std::optional<protocol::Listing> read_recorded_listing();

  /// Adds a defect, such as a sentence about a file that only the caller reads.
  void add_defect(std::string defect) { merged_.defects.push_back(std::move(defect)); }

  /// Merges the worlds. `listing` has the known cases and clauses. Without it, the ids of cases are the only source.
  /// `demands` replace the run's own. Throws CommandError (usage) for impossible demands. Call it once.
  MergedRun merge(const std::optional<protocol::Listing>& listing, const DemandOptions& demands = {});

 private:
  /// A world that began, as its files record it, with the plan that it had.
  struct RecordedWorld {
    protocol::WorldDirectory directory;
    protocol::WorldPlan plan;
    /// The number of its first cases that it answers for. Another world runs the cases that it did not reach because of
    /// a rank's end.
    std::size_t answers_for = 0;
  };

  bool is_own_run() const;
  void lose_plan(std::string defect);
  void take_world(int number, const protocol::WorldDirectory& directory);
  void find_links(const std::map<int, protocol::WorldDirectory>& found);
  void find_lost_files(const std::map<int, protocol::WorldDirectory>& found);
  void keep(int number, const protocol::WorldDirectory& directory);
  bool is_planned(const protocol::WorldPlan& plan) const;
  void assign_cases();
  std::string start() const;
  reports::RunHead read_head(const protocol::WorldPlan& plan);
  WorldEvidence evidence_of(const RecordedWorld& world) const;
  void add_recorded_world(reports::Merger& merger, const RecordedWorld& world, const CaseIndex& index);

  const protocol::RunDirectory run_;
  const bool is_whole_;  ///< False: it has one world of the run.
  std::vector<protocol::WorldPlan> planned_;
  std::map<int, RecordedWorld> worlds_;
  std::vector<int> lost_numbers_;  ///< The numbers of missing folders between other worlds.
  /// For each planned world: the number of its first cases that no world can answer for.
  std::map<int, std::size_t> begun_;
  MergedRun merged_;
};

}  // namespace shardproof::launcher
