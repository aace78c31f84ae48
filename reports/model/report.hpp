// The merged report of a run: its data, its JSON, and its exit code. The merger makes it. Commands write, read and
// compare it. Pure.
//
// Fields that are marked *volatile* differ between two runs of one seed (volatile_fields).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "harness/protocol/ending.hpp"
#include "harness/protocol/events.hpp"
#include "harness/protocol/gpu_listing.hpp"
#include "harness/protocol/placement.hpp"
#include "harness/protocol/world_plan.hpp"
#include "reports/model/exit_code.hpp"
#include "reports/model/verdict.hpp"
#include "reports/model/waiver.hpp"

namespace shardproof::reports {

inline constexpr int schema_version = 1;

/// The user's demands on a run beyond verdicts. An unmet demand is a finding (findings.hpp).
struct Demands {
  std::optional<std::size_t> max_skips;    ///< Skipped cases. Empty: any number.
  std::optional<std::size_t> max_waivers;  ///< Waived cases. Empty: any number.
  std::vector<std::string> require;        ///< Clauses that need at least one passed case.
};

/// The report's head. It is known before the first rank starts, and `run.json` keeps it for a later merge.
struct RunHead {
  std::string run_id;                ///< Volatile.
  std::string started;               ///< Volatile. UTC, ISO 8601.
  std::vector<std::string> argv;     ///< Volatile: it may name paths.
  std::uint64_t seed = 0;
  std::string suite_version, subject, subject_version, profile;
  std::string git_commit;            ///< Volatile.
  std::string fault;
  std::vector<std::string> unknown_kinds;  ///< Engine kinds that the subject claims and the worker does not know.
  /// A sentence for each subject or fault in a waiver that the worker does not know.
  std::vector<std::string> unknown_in_waivers;
  std::vector<std::string> warnings;  ///< Volatile: the subject's warnings when it was prepared for all ranks.
  /// The run does not have all cases of the profile, because of filters, shards or fewer worlds.
  bool partial = false;
  std::size_t outside_profile = 0;  ///< Cases of the worker that its profile leaves out.
  std::map<std::string, std::string> machine;  ///< Volatile: host, cpu, cores, kernel, driver, …
  std::vector<protocol::GpuInfo>
      gpus;  ///< Volatile: the machine's GPUs that ranks might have. Empty: ranks run on no GPU.
  std::map<std::string, std::string> environment;  ///< Volatile: an allow-list of variables.
  int repeat = 1;
  Demands demands;
  std::vector<Waiver> waivers;  ///< In the order of their file.
};

void to_json(nlohmann::ordered_json& json, const RunHead& head);
/// Throws std::invalid_argument naming the field.
void from_json(const nlohmann::ordered_json& json, RunHead& head);

struct Failure {
  int rank = 0;
  protocol::event::AssertionFailed assertion;
};

struct Measurement {
  double value = 0;  ///< NaN means any value that is not finite.
  std::string unit;
  friend bool operator==(const Measurement& a, const Measurement& b) {
    return a.unit == b.unit && (a.value == b.value || (a.value != a.value && b.value != b.value));
  }
};

std::string to_text(const Measurement& measurement);

/// Whether all runs and ranks measure the same value. On the simulated device, all values are exact. On a real device,
/// two kinds are not exact:
///   - durations by a clock, which have other units ("us", "ms", "s"),
///   - ratios ("x").
///
/// Nanoseconds are virtual, and exact on every device.
bool is_exact(std::string_view device, std::string_view unit);

struct CaseResult {
  protocol::CaseInfo info;
  int world = 0;  ///< Index into `worlds`.
  std::uint64_t repetition = 0;  ///< Counts the runs of this id from 0.
  int attempt = 0;  ///< How often the case had ended badly before this attempt.
  bool superseded = false;  ///< A later attempt counts instead.
  bool left_out = false;  ///< Not run, because the run ended at its first failed case (--fail-fast).
  Verdict verdict = Verdict::not_run;
  std::uint64_t assertions = 0;  ///< Over all ranks.
  std::vector<RankOutcome> ranks;
  /// By rank: the reason for a skip, an error, a release, or the end of its process. Absent: no reason.
  std::map<int, std::string> reasons;
  int skipped_by = -1;  ///< The rank that asked to skip it. -1: no rank, or all at once, for a missing feature.
  bool unclaimed = false;  ///< Skipped because the subject does not claim a feature that the case needs.
  /// Features and ingredients that the case played together. From the first rank that reports some.
  std::vector<std::string> combined;
  int waiver = -1;  ///< Index into the head's waivers: the waiver that excuses its verdict. -1: none.
  std::vector<std::string> notes;  ///< Results of comparing ranks that contribute to the verdict.
  std::vector<Failure> failures;  ///< First cause first. Released ranks add none.
  std::uint64_t failures_left_out = 0;  ///< Failures beyond those that a report keeps.
  /// From the first passed rank. Without a passed rank, from the first rank that has the measurement. Passed ranks must
  /// agree on exact measurements, else the verdict is `disagreed`. For other measurements, the greatest value counts.
  std::map<std::string, Measurement> measurements;
  std::int64_t duration_ns = 0;  ///< Volatile. The longest time of a rank.
};

/// Whether the case failed, and no waiver excuses it. A case that did not run has not failed.
bool is_unexcused_failure(const CaseResult& result);

/// Facts about a host that its ranks reported.
struct HostDetails {
  std::vector<std::string> interfaces;  ///< Network interfaces that are up, without loopback.
  std::vector<std::string> gpus;  ///< By local rank: the rank's GPU. Empty: the ranks are on no GPU.
};

struct WorldResult {
  int size = 1;
  std::string fabric, device;
  Placement placement;  ///< Volatile. The ranks with a valid stream.
  std::vector<HostDetails> host_details;  ///< Volatile. For each host of the placement.
  /// Volatile. By rank: its variables besides the run's environment.
  std::vector<std::map<std::string, std::string>> environment;
  std::string unfit_for_timing;  ///< Why durations mean nothing. Empty: they are valid.
  std::string times = protocol::event_times;  ///< For ranks on GPUs: the source of measured times.
  std::vector<protocol::Ending> endings;
  std::vector<std::string> defects;  ///< Missing or corrupt evidence, a sentence each.
  std::string explanation;  ///< Volatile. One sentence: why the world ended early (explanation.hpp).
  /// Volatile. If a case went wrong and ranks ran under the tap: the last NCCL calls of the ranks, and where they
  /// differ (nccl_calls.hpp).
  std::vector<std::string> nccl;
  int number = 0;  ///< Its folder is worlds/NUMBER of the run.
};

/// `rank 5`, and in a world on several hosts `rank 5 on n2`.
std::string rank_text(const Placement& placement, int rank);

struct Report {
  RunHead head;
  std::vector<WorldResult> worlds;
  std::vector<CaseResult> cases;  ///< by id, then repetition

  /// The number of results that count, by verdict. All verdicts are keys.
  std::map<Verdict, std::size_t> counts() const;
  /// The number of results that count: all except results that a later attempt supersedes.
  std::size_t counted() const;
  /// Ids that passed in one repetition or attempt and were bad in another. Sorted.
  std::vector<std::string> flaky() const;
  std::size_t waived() const;  ///< of the results that count
};

/// The names of the hosts of worlds on several hosts, each once, in order. Empty: each world is on one host.
std::vector<std::string> names_of_hosts(const Report& report);

/// The first results in `cases` that have the same id. All repetitions of a case are adjacent.
std::span<const CaseResult> repetitions(std::span<const CaseResult> cases);

/// Why a case was skipped. Empty: no rank gave a reason.
std::string skip_reason(const CaseResult& result);

/// The report's numbers of cases: `summary` of report.json.
nlohmann::ordered_json summary_json(const Report& report);

/// Also writes derived fields for readers of the file: summary, skips, requirements, waiver states and flags.
/// `from_json` refuses a summary that is not the sum of the cases, and lists of another length.
nlohmann::ordered_json to_json(const Report& report);
/// Reads this schema version. Throws std::invalid_argument naming the place, also for a report that contradicts itself
/// (consistency.hpp).
Report from_json(const nlohmann::ordered_json& json);

/// Writes the text of `to_json(report)`, case by case, one case per line.
void write_report(std::ostream& out, const Report& report);
/// Reads a report, case by case. Any program may have written it. Throws std::invalid_argument naming the place.
Report read_report(std::istream& in);
/// Reads the whole document, and refuses what `read_report` refuses.
nlohmann::ordered_json read_report_document(std::istream& in);

/// All fields that may differ between two runs of one seed, as places in the report. `*` means every element.
std::span<const std::string_view> volatile_fields();

/// The part that is equal byte for byte between runs of one seed: without volatile fields, and without durations on a
/// real device. Failures are sorted by rank, because their order in time may differ between runs. `from_json` accepts
/// the document.
nlohmann::ordered_json stable_part(const nlohmann::ordered_json& report);

/// The exit code of a report. Never `usage`. A waived case, and the death of a rank in it, counts for no code.
///   - `infrastructure`: a rank could not start, join or leave its world, and no rank crashed or hung there.
///   - `evidence_unusable`: also if there is no case at all.
///   - `over_budget`: any finding.
/// A case that --fail-fast left out counts for no code: the failed case does.
ExitCode exit_code(const Report& report);

}  // namespace shardproof::reports
