#include "reports/diff/diff.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "reports/diff/reach.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::reports {

namespace {

constexpr std::array<std::string_view, all_changes.size()> change_names{
    "new_failure",  "fixed",         "still_failing", "status_changed", "new_case",
    "removed_case", "newly_skipped", "newly_not_run", "newly_waived",   "unchanged"};

/// A case over all its repetitions.
struct Merged {
  std::string device;
  int ranks = 0;  ///< of its world
  Verdict verdict = Verdict::passed;
  bool bad = false;     ///< in a run that no waiver excuses
  bool waived = false;  ///< in some run
  bool left_out = false;  ///< in each run
  std::map<std::string, std::set<std::string>> measurements;  ///< exact measurements, by name, as text
  std::set<std::string> inexact;  ///< names of the other measurements
};

std::map<std::string, Merged> by_id(const Report& report) {
  std::map<std::string, Merged> merged;
  for (const auto& result : report.cases) {
    if (result.superseded) continue;
    const auto [place, is_first] = merged.try_emplace(result.info.id);
    Merged& entry = place->second;
    // If one repetition ran, those that --fail-fast left out do not count.
    if (result.left_out && !is_first) continue;
    if (entry.left_out) entry = {};
    entry.left_out = result.left_out;
    entry.verdict = std::max(entry.verdict, result.verdict);
    entry.bad = entry.bad || (is_bad(result.verdict) && result.waiver < 0);
    entry.waived = entry.waived || result.waiver >= 0;
    const WorldResult& world = report.worlds.at(static_cast<std::size_t>(result.world));
    entry.ranks = world.size;
    const auto& device = entry.device = world.device;
    for (const auto& [name, measurement] : result.measurements) {
      if (is_exact(device, measurement.unit)) entry.measurements[name].insert(to_text(measurement));
      else entry.inexact.insert(name);
    }
  }
  return merged;
}

enum class CaseState : std::uint8_t { absent, passed, skipped, left_out, waived, bad };

CaseState state_of(const Merged* merged) {
  if (!merged) return CaseState::absent;
  if (merged->left_out) return CaseState::left_out;
  if (merged->bad) return CaseState::bad;
  if (merged->waived) return CaseState::waived;
  return merged->verdict == Verdict::skipped ? CaseState::skipped : CaseState::passed;
}

Change classify(const Merged* before, const Merged* after) {
  const auto was = state_of(before);
  const auto is = state_of(after);
  const auto same_verdict = [&] {
    return before->verdict == after->verdict ? Change::still_failing : Change::status_changed;
  };
  switch (is) {
    case CaseState::absent: return Change::removed_case;
    case CaseState::bad: return was == CaseState::bad ? same_verdict() : Change::new_failure;
    case CaseState::waived: return was == CaseState::waived ? same_verdict() : Change::newly_waived;
    case CaseState::left_out: return was == CaseState::left_out ? Change::unchanged : Change::newly_not_run;
    case CaseState::passed:
    case CaseState::skipped: break;
  }
  if (was == CaseState::absent) return Change::new_case;
  if (was == is) return Change::unchanged;
  if (is == CaseState::skipped) return Change::newly_skipped;
  return was == CaseState::skipped || was == CaseState::left_out ? Change::status_changed : Change::fixed;
}

std::vector<std::string> changed_measurements(const Merged& before, const Merged& after) {
  std::vector<std::string> changed;
  for (const auto& [name, values] : before.measurements) {
    const auto found = after.measurements.find(name);
    if (found != after.measurements.end() && found->second == values) continue;
    // virtual time cannot be compared with real time
    if (before.inexact.contains(name) || after.inexact.contains(name)) continue;
    // devices differ in their measurements
    if (found == after.measurements.end() && before.device != after.device) continue;
    const auto now =
        found == after.measurements.end() ? std::string("none") : fmt::format("{}", fmt::join(found->second, ", "));
    changed.push_back(fmt::format("{}: {} -> {}", name, fmt::join(values, ", "), now));
  }
  return changed;
}

CaseChange change_of(const std::string& id, const Merged* before, const Merged* after) {
  CaseChange change;
  change.id = id;
  change.change = classify(before, after);
  if (before) change.before = before->verdict;
  if (after) change.after = after->verdict;
  change.waived_before = state_of(before) == CaseState::waived;
  change.waived_after = state_of(after) == CaseState::waived;
  if (change.before == Verdict::passed && change.after == Verdict::passed)
    change.measurements = changed_measurements(*before, *after);
  return change;
}

bool has_run(const Merged& merged) { return merged.verdict != Verdict::skipped && merged.verdict != Verdict::not_run; }

/// The numbers of ranks on which some case ran.
std::set<int> ranks_that_ran(const std::map<std::string, Merged>& cases) {
  std::set<int> ran;
  for (const auto& [id, merged] : cases) {
    if (has_run(merged)) ran.insert(merged.ranks);
  }
  return ran;
}

/// `ran`: the numbers of ranks on which some case of the new report ran.
bool has_lost_ranks(const Merged& before, const Merged* after, const std::set<int>& ran) {
  if (!has_run(before) || (after != nullptr && after->left_out)) return false;
  if (after != nullptr && has_run(*after)) return after->ranks < before.ranks;
  return !ran.contains(before.ranks);
}

using Evidence = std::map<std::string, EvidenceByClause>;

/// Each clause of both reports. A report without a case of the clause does not test it.
std::vector<ClauseChange> clause_changes(const Evidence& before, const Evidence& after) {
  std::map<std::string, std::map<std::string, ClauseChange, ClauseOrder>> changes;
  const auto add = [&](const Evidence& evidence, ClauseStatus ClauseChange::* status) {
    for (const auto& [engine, clauses] : evidence) {
      for (const auto& [clause, counts] : clauses) {
        ClauseChange& change = changes[engine][clause];
        change.engine = engine;
        change.clause = clause;
        change.*status = status_of(counts);
      }
    }
  };
  add(before, &ClauseChange::before);
  add(after, &ClauseChange::after);
  std::vector<ClauseChange> all;
  for (auto& [engine, clauses] : changes) {
    for (auto& [clause, change] : clauses) all.push_back(std::move(change));
  }
  return all;
}

/// A greater number is stronger.
int strength_of(ClauseStatus status) {
  switch (status) {
    case ClauseStatus::met: return 3;
    case ClauseStatus::waived: return 2;
    case ClauseStatus::not_claimed:
    case ClauseStatus::not_tested: return 1;
    case ClauseStatus::not_met: break;
  }
  return 0;
}

std::string_view class_of(const ClauseChange& change) {
  if (change.is_weaker()) return "clause_weaker";
  if (change.is_stronger()) return "clause_stronger";
  return change.before == change.after ? "unchanged" : "clause_changed";
}

/// Compares the clauses by the cases that both runs were to run. Explains which cases and clauses that leaves out.
void compare_clauses(Diff& diff, const Report& before, const Report& after) {
  std::map<std::string_view, std::vector<std::string_view>> left_out;  // by reason
  std::set<std::string_view> ids;
  for (const CaseChange& change : diff.changes) {
    if (change.not_compared.empty()) continue;
    left_out[change.not_compared].push_back(change.id);
    ids.insert(change.id);
  }
  const auto evidence_of = [&](const Report& report) {
    if (ids.empty()) return clause_evidence(report);
    return clause_evidence(report, [&](const CaseResult& result) { return !ids.contains(result.info.id); });
  };
  diff.clauses = clause_changes(evidence_of(before), evidence_of(after));
  for (const auto& [reason, cases] : left_out)
    diff.not_compared.push_back(fmt::format("{} case{}, because only one run was to run them ({}): {}", cases.size(),
                                            cases.size() == 1 ? "" : "s", reason, reports::few_of(cases)));
  if (ids.empty()) return;
  std::set<std::pair<std::string, std::string>> compared;
  for (const ClauseChange& change : diff.clauses) compared.emplace(change.engine, change.clause);
  std::vector<std::string> names;
  for (const ClauseChange& change : clause_changes(clause_evidence(before), clause_evidence(after))) {
    if (!compared.contains({change.engine, change.clause})) names.push_back(name_of(change));
  }
  if (!names.empty())
    diff.not_compared.push_back(
        fmt::format("{} clause{} that only these cases check: {}", names.size(), names.size() == 1 ? "" : "s",
                    reports::few_of(std::vector<std::string_view>(names.begin(), names.end()))));
}

/// The seed of a run may change what its cases measure.
void compare_seeds(Diff& diff, const Reach& reach) {
  diff.measurements_not_compared = reach.why_measured();
  if (diff.measurements_not_compared.empty()) return;
  const auto changed =
      std::ranges::count_if(diff.changes, [](const CaseChange& change) { return !change.measurements.empty(); });
  if (changed > 0)
    diff.not_compared.push_back(fmt::format("the measurements of {} case{} ({})", changed, changed == 1 ? "" : "s",
                                            diff.measurements_not_compared));
}

std::string word(const std::optional<Verdict>& verdict, bool waived) {
  return fmt::format("{}{}", verdict ? to_string(*verdict) : "none", waived ? " (waived)" : "");
}

/// A fact of the machine. An unknown fact is "none".
std::string fact_of(const RunHead& head, const std::string& name) {
  const auto found = head.machine.find(name);
  return found == head.machine.end() ? "none" : found->second;
}

/// The models of GPUs. Another GPU of the same model makes no difference.
std::string models_of(const RunHead& head) {
  std::set<std::string> models;
  for (const protocol::GpuInfo& gpu : head.gpus) models.insert(gpu.name);
  return models.empty() ? "none" : fmt::format("{}", fmt::join(models, ", "));
}

/// The texts in field `what` of all worlds, each once.
std::string of_worlds(const Report& report, std::string WorldResult::* what) {
  std::set<std::string> all;
  for (const WorldResult& world : report.worlds) {
    if (!(world.*what).empty()) all.insert(world.*what);
  }
  return all.empty() ? "none" : fmt::format("{}", fmt::join(all, ", "));
}

/// The sources of times of its worlds on GPUs. Empty: no world ran on GPUs.
std::string times_of(const Report& report) {
  std::set<std::string> all;
  for (const WorldResult& world : report.worlds) {
    if (world.device == protocol::cuda_device) all.insert(world.times);
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

bool is_regression(const CaseChange& change) {
  return change.change == Change::new_failure || change.change == Change::removed_case ||
         change.change == Change::newly_skipped || change.change == Change::newly_not_run ||
         change.change == Change::newly_waived || !change.measurements.empty();
}

}  // namespace

std::string_view to_string(Change change) {
  const auto index = static_cast<std::size_t>(change);
  return index < change_names.size() ? change_names[index] : "unknown";
}

bool ClauseChange::is_weaker() const { return strength_of(after) < strength_of(before); }

bool ClauseChange::is_stronger() const { return strength_of(after) > strength_of(before); }

std::string name_of(const ClauseChange& change) {
  return change.engine.empty() ? change.clause : fmt::format("{} ({})", change.clause, change.engine);
}

bool Diff::regression() const { return std::any_of(changes.begin(), changes.end(), is_regression); }

Diff diff(const Report& before, const Report& after) {
  Diff result;
  const auto compare = [&](std::string_view what, const auto& a, const auto& b) {
    if (a != b) result.context.push_back(fmt::format("{}: {} -> {}", what, a, b));
  };
  compare("suite version", before.head.suite_version, after.head.suite_version);
  compare("subject", before.head.subject, after.head.subject);
  compare("subject version", before.head.subject_version, after.head.subject_version);
  compare("fault", before.head.fault.empty() ? "none" : before.head.fault,
          after.head.fault.empty() ? "none" : after.head.fault);
  compare("profile", before.head.profile.empty() ? "none" : before.head.profile,
          after.head.profile.empty() ? "none" : after.head.profile);
  compare("seed", before.head.seed, after.head.seed);
  for (const char* fact : {"backend", "cuda_driver", "cuda_runtime", "nccl"})
    compare(fact, fact_of(before.head, fact), fact_of(after.head, fact));
  compare("GPUs", models_of(before.head), models_of(after.head));
  compare("fabric", of_worlds(before, &WorldResult::fabric), of_worlds(after, &WorldResult::fabric));
  const std::size_t in_common = result.context.size();
  compare("device", of_worlds(before, &WorldResult::device), of_worlds(after, &WorldResult::device));
  compare("unfit for timing", of_worlds(before, &WorldResult::unfit_for_timing),
          of_worlds(after, &WorldResult::unfit_for_timing));
  const std::string times_before = times_of(before), times_after = times_of(after);
  if (!times_before.empty() && !times_after.empty()) compare("times from", times_before, times_after);
  for (std::size_t i = in_common; i < result.context.size(); ++i)
    result.context[i] += "; times by a clock are not compared";
  compare("partial run", before.head.partial, after.head.partial);

  const auto old_cases = by_id(before);
  const auto new_cases = by_id(after);
  const Reach reach(before, after);
  const std::set<int> ran = ranks_that_ran(new_cases);
  auto a = old_cases.begin();
  auto b = new_cases.begin();
  while (a != old_cases.end() || b != new_cases.end()) {
    if (b == new_cases.end() || (a != old_cases.end() && a->first < b->first)) {
      CaseChange& change = result.changes.emplace_back(change_of(a->first, &a->second, nullptr));
      change.not_compared = reach.why_removed(a->second.ranks);
      change.lost_ranks = has_lost_ranks(a->second, nullptr, ran);
      ++a;
    } else if (a == old_cases.end() || b->first < a->first) {
      CaseChange& change = result.changes.emplace_back(change_of(b->first, nullptr, &b->second));
      change.not_compared = reach.why_new(b->second.ranks);
      ++b;
    } else {
      CaseChange& change = result.changes.emplace_back(change_of(a->first, &a->second, &b->second));
      change.lost_ranks = has_lost_ranks(a->second, &b->second, ran);
      ++a;
      ++b;
    }
  }
  compare_clauses(result, before, after);
  compare_seeds(result, reach);
  return result;
}

nlohmann::ordered_json to_json(const Diff& diff) {
  using nlohmann::ordered_json;
  ordered_json counts = ordered_json::object();
  for (const auto change : all_changes) counts[std::string(to_string(change))] = 0;
  ordered_json changes = ordered_json::array();
  std::size_t measured = 0;
  for (const auto& change : diff.changes) {
    auto& count = counts[std::string(to_string(change.change))];
    count = count.get<std::size_t>() + 1;
    measured += change.measurements.empty() ? 0U : 1U;
    changes.push_back({{"id", change.id},
                       {"change", to_string(change.change)},
                       {"before", change.before ? ordered_json(to_string(*change.before)) : ordered_json(nullptr)},
                       {"after", change.after ? ordered_json(to_string(*change.after)) : ordered_json(nullptr)},
                       {"waived_before", change.waived_before},
                       {"waived_after", change.waived_after},
                       {"measurements", change.measurements}});
  }
  counts["measurements_changed"] = measured;
  ordered_json clauses = ordered_json::array();
  for (const auto& change : diff.clauses)
    clauses.push_back({{"engine", change.engine.empty() ? ordered_json(nullptr) : ordered_json(change.engine)},
                       {"clause", change.clause},
                       {"change", class_of(change)},
                       {"before", to_string(change.before)},
                       {"after", to_string(change.after)}});
  return {{"regression", diff.regression()}, {"counts", std::move(counts)},   {"context", diff.context},
          {"changes", std::move(changes)},   {"clauses", std::move(clauses)}, {"not_compared", diff.not_compared}};
}

std::string to_text(const Diff& diff, bool color, bool has_gate) {
  const Paint paint(color);
  std::string text;
  for (const auto& line : diff.context) text += fmt::format("context: {}\n", printable_line(line));
  std::map<Change, std::size_t> counts;
  for (const auto& change : diff.changes) {
    ++counts[change.change];
    if (change.change == Change::unchanged && change.measurements.empty()) continue;
    const auto hue = is_regression(change) ? Hue::red : change.change == Change::fixed ? Hue::green : Hue::yellow;
    const auto name = change.change == Change::unchanged ? std::string_view("measured") : to_string(change.change);
    text += fmt::format("{} {}", paint(hue, fmt::format("{:<14}", name)), printable_line(change.id));
    const auto was = word(change.before, change.waived_before);
    const auto is = word(change.after, change.waived_after);
    if (was != is) text += fmt::format("  {} -> {}", was, is);
    text += '\n';
    for (const auto& line : change.measurements) text += fmt::format("{:15}{}\n", "", printable_line(line));
  }
  for (const auto& change : diff.clauses) {
    if (change.before == change.after) continue;
    const auto hue = change.is_weaker() ? Hue::red : change.is_stronger() ? Hue::green : Hue::yellow;
    text += fmt::format("{} {}  {} -> {}\n", paint(hue, fmt::format("{:<14}", class_of(change))),
                        printable_line(name_of(change)), words_of(change.before), words_of(change.after));
  }
  text += fmt::format("{} case{}:", diff.changes.size(), diff.changes.size() == 1 ? "" : "s");
  const char* separator = " ";
  for (const auto change : all_changes) {
    if (counts[change] == 0) continue;
    text += fmt::format("{}{} {}", separator, counts[change], to_string(change));
    separator = ", ";
  }
  if (diff.changes.empty()) text += " none in either report";
  if (has_gate) return text + '\n';
  return text +
         fmt::format("; {}\n", diff.regression() ? paint(Hue::red, "regression") : paint(Hue::green, "no regression"));
}

}  // namespace shardproof::reports
