// What a run left on disk, read back for a merge: its worlds, and the cases that they were to run.
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

/// Which cases the plan of a world means by its ids.
class CaseIndex {
 public:
  CaseIndex() = default;
  explicit CaseIndex(const std::vector<CaseInfo>& cases);
  /// One for every id. A drawn case does not have to be listed. An unknown id yields what the id itself says: suite, parameters, world size.
  std::vector<CaseInfo> find(const std::vector<std::string>& ids) const;

 private:
  CaseInfo find_one(const std::string& id) const;

  std::map<std::string, CaseInfo> cases_;
  std::vector<CaseInfo> that_draw_;  // of the listed cases
};

/// Suite, parameters and world size from `suite/name[key=value,…]`; the world size falls back to `world_size`.
CaseInfo parse_case_id(const std::string& id, int world_size);

/// What the worker answered when the run was planned, kept for a merge that has no worker to ask.
std::filesystem::path listing_file(const RunDirectory& run);

/// Its plan. Throws std::runtime_error naming the world.
WorldPlan read_plan(const WorldDirectory& directory);

/// The plans of all worlds that a run was to have; none of a run whose ranks another launcher started. Throws std::runtime_error.
std::vector<WorldPlan> read_planned_worlds(const RunDirectory& run);

/// What the launcher knows of a world that its ranks' streams do not tell.
struct Remains {
  std::vector<Ending> endings;  ///< in rank order
  std::optional<FlightSnapshot> flight;  ///< what ranks were in the middle of when the world ended early
  std::vector<std::string> defects;  ///< sentences: what is there and cannot be read
};

/// What ranks left that ran under the tap.
struct NcclRecords {
  std::vector<nccl_tap::TapRecord> records;  ///< by rank
  std::vector<std::string> defects;  ///< why one cannot be read; a sentence each
  std::vector<std::filesystem::path> damaged;  ///< those files
};

/// Of its records: what ranks asked of NCCL and where they differ (reports/explain/nccl_calls.hpp), and what cannot be read, a sentence each.
std::vector<std::string> tell(const NcclRecords& kept, const WorldDirectory& directory, int world_size);

/// None of a world whose ranks ran under no tap.
std::optional<NcclRecords> read_nccl_records(const WorldDirectory& directory);

/// Ranks whose ending nobody wrote down are `foreign`. Throws std::runtime_error naming the world.
Remains read_remains(const WorldDirectory& directory, int world_size);
/// For a world whose endings cannot be read. Then only the rank streams say how cases ended. `defect` is the reason.
Remains without_endings(int world_size, std::string defect);
/// Throws CommandError (usage) when not all of it can be written.
void write_remains(const WorldDirectory& directory, const Remains& remains);

/// Hands a world to the merger, one rank's stream in memory at a time, and leaves it open there.
void add_world(reports::Merger& merger, const WorldPlan& plan, const CaseIndex& index, const Remains& remains,
               const WorldDirectory& directory);

/// A world that was planned and never begun.
void add_not_started(reports::Merger& merger, const WorldPlan& plan, const CaseIndex& index, const std::string& why);

/// A world whose cases nobody is to run: its plan says why.
void add_skipped(reports::Merger& merger, const WorldPlan& plan, const CaseIndex& index);

/// `worlds/K` of a run, by K.
std::map<int, WorldDirectory> find_worlds(const RunDirectory& run);

}  // namespace shardproof::launcher
