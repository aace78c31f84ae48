// The merged report of a run: its data, its JSON, and what it means as an exit code. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "harness/protocol/ending.hpp"
#include "harness/protocol/world_plan.hpp"
#include "reports/rank_stream.hpp"
#include "reports/verdict.hpp"

namespace shardproof::reports {

inline constexpr int schema_version = 1;

/// The report's head: known before the first rank starts, kept in `run.json` so that a merge can be done later.
struct RunHead {
  std::string run_id;                ///< volatile
  std::string started;               ///< volatile; UTC, ISO 8601
  std::vector<std::string> argv;     ///< volatile: it may name paths
  std::uint64_t seed = 0;
  std::string suite_version, git_commit, subject, subject_version, profile = "pytorch-compatible";
  std::string fault;
  bool partial = false;              ///< filters, shards or fewer worlds than the suite has
  std::map<std::string, std::string> machine;      ///< volatile: host, cpu, cores, kernel, driver, …
  std::map<std::string, std::string> environment;  ///< volatile: an allow-list of variables
  int repeat = 1;
};

void to_json(nlohmann::ordered_json& json, const RunHead& head);
void from_json(const nlohmann::ordered_json& json, RunHead& head);

/// All that is left of one world. Streams and endings stand in rank order.
struct WorldRecord {
  WorldPlan plan;
  std::vector<CaseInfo> cases;  ///< one for every position of the plan
  std::vector<RankStream> streams;
  std::vector<Ending> endings;
};

struct Failure {
  int rank = 0;
  event::AssertionFailed assertion;
};

struct Measurement { double value = 0; std::string unit; };

struct CaseResult {
  CaseInfo info;
  int world = 0;                  ///< index into worlds
  std::uint64_t repetition = 0;   ///< of the same id in this run, from 0
  Verdict verdict = Verdict::not_run;
  std::uint64_t assertions = 0;   ///< over all ranks
  std::vector<RankOutcome> ranks;
  std::vector<std::string> reasons;                 ///< per rank, empty where there is none
  std::vector<Failure> failures;                    ///< first cause first
  std::map<std::string, Measurement> measurements;  ///< of rank 0; a value that differs on another rank is a failure of the report: `disagreed`
  std::int64_t duration_ns = 0;   ///< volatile; longest rank
};

struct World {
  int size = 1;
  std::string fabric, device;
  std::vector<Ending> endings;
  std::vector<std::string> defects;  ///< missing or corrupt evidence, per sentence
};

struct Report {
  RunHead head;
  std::vector<World> worlds;
  std::vector<CaseResult> cases;  ///< by id, then repetition

  std::map<Verdict, std::size_t> counts() const;
};

/// Never throws for content: what is missing or corrupt becomes a verdict and a defect. A process's ending outranks what its stream says.
Report merge(RunHead head, std::span<const WorldRecord> worlds);

nlohmann::ordered_json to_json(const Report& report);
/// Throws std::invalid_argument naming the place; reads this schema version and the one before.
Report from_json(const nlohmann::ordered_json& json);

/// The part that is equal byte for byte between runs of one seed: volatile fields dropped.
nlohmann::ordered_json stable_part(const nlohmann::ordered_json& report);

/// Exit codes of design: 0 all passed, 1 some failed, 4 crashed or hung, 5 evidence missing, corrupt or ranks disagree, 6 skips over budget.
int exit_code(const Report& report, std::optional<std::size_t> allowed_skips);

}  // namespace shardproof::reports
