// The merged report of a run: its data, its JSON, and what it means as an exit code. Pure.
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
#include "harness/protocol/world_plan.hpp"
#include "reports/model/exit_code.hpp"
#include "reports/model/verdict.hpp"
#include "reports/model/waiver.hpp"

namespace shardproof::reports {

inline constexpr int schema_version = 1;

/// What a run must show beyond verdicts. What it does not meet is a finding (findings.hpp).
struct Demands {
  std::optional<std::size_t> max_skips;    ///< skipped cases; none for any number
  std::optional<std::size_t> max_waivers;  ///< waived cases; none for any number
  std::vector<std::string> require;        ///< clauses, each with at least one case that passed
};

/// The report's head: known before the first rank starts, kept in `run.json` so that a merge can be done later.
struct RunHead {
  std::string run_id;                ///< volatile
  std::string started;               ///< volatile; UTC, ISO 8601
  std::vector<std::string> argv;     ///< volatile: it may name paths
  std::uint64_t seed = 0;
  std::string suite_version, subject, subject_version, profile;
  std::string git_commit;            ///< volatile
  std::string fault;
  std::vector<std::string> unknown_kinds;  ///< engine kinds that the subject claims and the worker does not know
  std::vector<std::string> unknown_in_waivers;  ///< a sentence for each subject or fault that a waiver names and the worker does not know
  std::vector<std::string> warnings;  ///< volatile: what the subject said when it was prepared for all ranks
  bool partial = false;  ///< filters, shards or fewer worlds than the profile has
  std::size_t outside_profile = 0;  ///< cases of the worker that its profile leaves out
  std::map<std::string, std::string> machine;  ///< volatile: host, cpu, cores, kernel, driver, …
  std::vector<GpuInfo> gpus;  ///< volatile: of the machine, those that ranks might have; none: they run on no GPU
  std::map<std::string, std::string> environment;  ///< volatile: an allow-list of variables
  int repeat = 1;
  Demands demands;
  std::vector<Waiver> waivers;  ///< in the order of their file
};

void to_json(nlohmann::ordered_json& json, const RunHead& head);
/// Throws std::invalid_argument naming the field.
void from_json(const nlohmann::ordered_json& json, RunHead& head);

struct Failure {
  int rank = 0;
  event::AssertionFailed assertion;
};

struct Measurement {
  double value = 0;  ///< NaN stands for any value that is not finite
  std::string unit;
  friend bool operator==(const Measurement& a, const Measurement& b) {
    return a.unit == b.unit && (a.value == b.value || (a.value != a.value && b.value != b.value));
  }
};

std::string to_text(const Measurement& measurement);

/// Nanoseconds are virtual, and exact on every device. On a real one durations by a clock, which are said in other units ("us", "ms", "s"), and
/// how often one is another ("x"), are what they happen to be; everything else is exact there too.
bool is_exact(std::string_view device, std::string_view unit);

struct CaseResult {
  CaseInfo info;
  int world = 0;  ///< index into worlds
  std::uint64_t repetition = 0;  ///< of the same id in this run, from 0
  int attempt = 0;  ///< how often it had ended badly before it was tried again here
  bool superseded = false;  ///< a later attempt says what counts
  Verdict verdict = Verdict::not_run;
  std::uint64_t assertions = 0;  ///< over all ranks
  std::vector<RankOutcome> ranks;
  std::map<int, std::string> reasons;  ///< by rank, where there is one: of a skip, an error, a release, an end of the process
  int skipped_by = -1;  ///< the rank that asked to skip it; -1: nobody, or all of them at once, for a missing feature
  bool unclaimed = false;  ///< skipped, because the subject does not claim what the case needs
  std::vector<std::string> combined;  ///< features and ingredients that it played together; of the first rank that says so
  int waiver = -1;  ///< index into the head's waivers of the one that excuses its verdict; -1: none
  std::vector<std::string> notes;  ///< what the verdict has from comparing ranks
  std::vector<Failure> failures;  ///< first cause first; released ranks add none
  std::uint64_t failures_left_out = 0;  ///< more than a report keeps
  std::map<std::string, Measurement> measurements;  ///< of the first rank that has it; passed ranks must agree, else `disagreed`
  std::int64_t duration_ns = 0;  ///< volatile; longest rank
};

struct WorldResult {
  int size = 1;
  std::string fabric, device;
  std::vector<std::map<std::string, std::string>> environment;  ///< volatile; by rank: what it was told beside the run's environment
  std::string unfit_for_timing;  ///< why durations say nothing; empty: they do
  std::string times = event_times;  ///< of ranks on GPUs: where they come from
  std::vector<Ending> endings;
  std::vector<std::string> defects;  ///< missing or corrupt evidence, per sentence
  std::string explanation;  ///< volatile; one sentence: why it ended early (see explanation.hpp)
  /// Volatile; where a case went wrong among ranks under the tap: what they asked of NCCL last, and where they differ (see nccl_calls.hpp).
  std::vector<std::string> nccl;
  int number = 0;  ///< its folder is worlds/NUMBER of the run
};

struct Report {
  RunHead head;
  std::vector<WorldResult> worlds;
  std::vector<CaseResult> cases;  ///< by id, then repetition

  /// Of the results that count; all verdicts are keys.
  std::map<Verdict, std::size_t> counts() const;
  /// Results that count: all but those that a later attempt supersedes.
  std::size_t counted() const;
  /// Ids that passed in one repetition or attempt and were bad in another, sorted.
  std::vector<std::string> flaky() const;
  std::size_t waived() const;  ///< of the results that count
};

/// Those runs at the front of `cases` that are of one id: the repetitions of a case stand together.
std::span<const CaseResult> repetitions(std::span<const CaseResult> cases);

/// Why a case was skipped; empty where nobody said.
std::string skip_reason(const CaseResult& result);

/// What follows from the rest is written for those who read, and not read: summary, skips, requirements, what became of waivers, flags.
nlohmann::ordered_json to_json(const Report& report);
/// Throws std::invalid_argument naming the place; reads this schema version.
Report from_json(const nlohmann::ordered_json& json);

/// The text of `to_json(report)`, one case per line, written case by case.
void write_report(std::ostream& out, const Report& report);
/// Reads what `write_report` or anybody else wrote, case by case. Throws std::invalid_argument naming the place.
Report read_report(std::istream& in);

/// Fields that differ between two runs of one seed, as places in the report; `*` is every element. The whole list: nothing else may differ.
std::span<const std::string_view> volatile_fields();

/// The part that is equal byte for byte between runs of one seed: volatile fields dropped. Failures stand by rank there, since whose came
/// first is a matter of time, and durations on a real device are left out. `from_json` accepts the document.
nlohmann::ordered_json stable_part(const nlohmann::ordered_json& report);

/// `infrastructure` when a rank could not start, join or leave its world while none crashed or hung there; `evidence_unusable` also when there
/// is no case at all; `over_budget` for any finding. A waived case counts as none of these, nor does the death of a
/// rank in it. Never `usage`.
ExitCode exit_code(const Report& report);

}  // namespace shardproof::reports
