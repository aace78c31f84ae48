// Reads a run's files back for a merge: its worlds, their plans and how their ranks ended.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "harness/protocol/flight_record.hpp"
#include "harness/protocol/nccl_record.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "reports/merge/merger.hpp"

namespace shardproof::launcher {

/// Maps the case ids in a world's plan to cases.
class CaseIndex {
 public:
  CaseIndex() = default;
  explicit CaseIndex(const std::vector<protocol::CaseInfo>& cases);
  /// Returns one case for each id. A drawn case does not have to be listed. For an unknown id, the id gives suite,
  /// parameters and world size.
  std::vector<protocol::CaseInfo> find(const std::vector<std::string>& ids) const;

 private:
  protocol::CaseInfo find_one(const std::string& id) const;

  std::map<std::string, protocol::CaseInfo> cases_;
  std::vector<protocol::CaseInfo> that_draw_;  // the listed cases that draw what they play
};

/// Suite, parameters and world size from `suite/name[key=value,…]`; the world size falls back to `world_size`.
protocol::CaseInfo parse_case_id(const std::string& id, int world_size);

/// The number of a world, from the name of its folder `worlds/K`. Nullopt: the folder has another name.
std::optional<int> world_number(const protocol::WorldDirectory& directory);

/// The worker's listing when the run was planned. A merge that has no worker reads it.
std::filesystem::path listing_file(const protocol::RunDirectory& run);

/// Whether a rank of the world left a stream, or its launcher left endings.
bool has_begun(const protocol::WorldDirectory& directory);

/// Reads the world's plan. Throws std::runtime_error naming the world.
protocol::WorldPlan read_plan(const protocol::WorldDirectory& directory);

/// The plans of all worlds of a run. Empty if another launcher started the run's ranks. Throws std::runtime_error.
std::vector<protocol::WorldPlan> read_planned_worlds(const protocol::RunDirectory& run);

/// The launcher's own evidence of a world, besides its ranks' streams.
struct WorldEvidence {
  std::vector<protocol::Ending> endings;  ///< in rank order
  std::optional<protocol::FlightSnapshot> flight;  ///< the ranks' last records when the world ended early
  std::vector<std::string> defects;  ///< a sentence for each unreadable file
};

/// The records of ranks that ran under the NCCL tap.
struct NcclRecords {
  std::vector<protocol::TapRecord> records;  ///< by rank
  std::vector<std::string> defects;  ///< a sentence for each unreadable record
  std::vector<std::filesystem::path> damaged;  ///< the unreadable files
};

/// Sentences about the NCCL calls of the ranks and where these differ (reports/explain/nccl_calls.hpp), and a sentence
/// for each unreadable record.
std::vector<std::string> describe_nccl_calls(const NcclRecords& records, const protocol::WorldDirectory& directory,
                                             int world_size);

/// Empty if the world's ranks did not run under the tap.
std::optional<NcclRecords> read_nccl_records(const protocol::WorldDirectory& directory);

/// Reads how a world's ranks ended. Without the launcher's record, the ends that guards saw count, if a rank died by
/// itself. Otherwise a rank without a recorded ending is `foreign`. Throws std::runtime_error naming the
/// world.
WorldEvidence read_evidence(const protocol::WorldDirectory& directory, int world_size);
/// For a world with unreadable endings. Then only the rank streams show how cases ended. `defect` is the reason.
WorldEvidence without_endings(int world_size, std::string defect);
/// Throws CommandError (usage) if the remains cannot be written completely.
void write_evidence(const protocol::WorldDirectory& directory, const WorldEvidence& evidence);

/// Adds a world to the merger, and leaves it open there. Holds one rank's stream in memory at a time.
void add_world(reports::Merger& merger, const protocol::WorldPlan& plan, const CaseIndex& index,
               const WorldEvidence& evidence, const protocol::WorldDirectory& directory);

/// Adds a world that was planned but never begun.
void add_not_started(reports::Merger& merger, const protocol::WorldPlan& plan, const CaseIndex& index,
                     const std::string& why);

/// Adds a world whose cases no rank runs. Its plan has the reason.
void add_skipped(reports::Merger& merger, const protocol::WorldPlan& plan, const CaseIndex& index);

/// Adds a world that a run with --fail-fast did not begin.
void add_left_out(reports::Merger& merger, const protocol::WorldPlan& plan, const CaseIndex& index);

/// The directories `worlds/K` of a run, by K. A symbolic link is none of them.
std::map<int, protocol::WorldDirectory> find_worlds(const protocol::RunDirectory& run);

}  // namespace shardproof::launcher
