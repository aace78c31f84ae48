#include "reports/export/failure_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "harness/base/rank_list.hpp"
#include "harness/base/utf8.hpp"
#include "harness/protocol/failure_text.hpp"
#include "reports/explain/causes.hpp"
#include "reports/export/case_failures.hpp"
#include "reports/export/crash_text.hpp"
#include "reports/export/printed_text.hpp"
#include "reports/export/repeat_command.hpp"
#include "reports/export/terminal.hpp"
#include "reports/export/verdict_text.hpp"

namespace shardproof::reports {

using protocol::Outcome;

namespace {

/// Whether the failure has this reason, or comes from an exception with it. Released ranks have the beginning of a long
/// reason.
bool has_reason(const protocol::event::AssertionFailed& failure, std::string_view reason) {
  const std::string exception = protocol::unexpected_exception(reason);
  const std::size_t received = protocol::unexpected_exception({}).size() + protocol::abort_text_limit;
  const auto is_reason = [&](std::string_view text) {
    return text == reason || text == exception || base::beginning_within(text, received) == exception;
  };
  return is_reason(failure.expansion) || std::ranges::any_of(failure.messages, is_reason);
}

/// Which rank left the case by a failure that the reader sees.
std::string left_text(const CaseResult& result, const protocol::event::AssertionFailed& shown) {
  const auto failed =
      std::ranges::find_if(result.failures, [&](const Failure& one) { return &one.assertion == &shown; });
  return failed == result.failures.end() ? "another rank left the case because of this failure"
                                         : fmt::format("rank {} left the case because of this failure", failed->rank);
}

/// The ranks' outcomes and their reasons. Equal sentences appear once, and a reason that a shown failure has does not
/// appear. The guilty ranks come first: they explain the other ranks' reasons.
std::string reasons_text(const CaseResult& result, std::span<const protocol::event::AssertionFailed* const> shown,
                         std::string_view explanation, const Placement& placement) {
  struct SharedReason {
    Outcome outcome;
    std::string_view reason;
    std::vector<int> ranks;
  };
  std::vector<SharedReason> reasons;
  for (const auto& [rank, reason] : result.reasons) {
    const auto outcome = result.ranks.at(static_cast<std::size_t>(rank)).outcome;
    const auto found = std::find_if(reasons.begin(), reasons.end(), [&, &text = reason](const SharedReason& shared) {
      return shared.outcome == outcome && shared.reason == text;
    });
    if (found == reasons.end()) {
      reasons.push_back({outcome, reason, {rank}});
    } else {
      found->ranks.push_back(rank);
    }
  }
  // The explanation of a death says everything about it.
  if (!explanation.empty())
    std::erase_if(reasons, [](const SharedReason& shared) { return shared.outcome == Outcome::crashed; });
  const auto guilt = [](const SharedReason& shared) {
    constexpr std::array<Outcome, 8> order{Outcome::crashed, Outcome::hung,    Outcome::failed,   Outcome::error,
                                           Outcome::missing, Outcome::skipped, Outcome::released, Outcome::passed};
    return std::find(order.begin(), order.end(), shared.outcome) - order.begin();
  };
  std::stable_sort(reasons.begin(), reasons.end(),
                   [&](const SharedReason& a, const SharedReason& b) { return guilt(a) < guilt(b); });
  std::string text;
  for (const auto& shared : reasons) {
    const auto same = std::ranges::find_if(
        shown, [&](const protocol::event::AssertionFailed* failure) { return has_reason(*failure, shared.reason); });
    if (same != shown.end() && shared.outcome == Outcome::error) continue;
    const auto actor = fmt::format(
        "{} {}", shared.ranks.size() == 1 ? rank_text(placement, shared.ranks.front()) : base::rank_list(shared.ranks),
        protocol::to_string(shared.outcome));
    text += indented(
        printable(fmt::format("{}: {}", actor, same == shown.end() ? shared.reason : left_text(result, **same))), "  ");
  }
  return text;
}

bool is_end_of_process(Verdict verdict) { return verdict == Verdict::crashed || verdict == Verdict::hung; }

/// The number of its world's folder.
int number_of(const CaseResult& result, const Report& report) {
  return report.worlds.at(static_cast<std::size_t>(result.world)).number;
}

/// The last output of ranks that died or hung. Without it, the reader would have to open their logs.
std::string last_output_text(const CaseResult& result, const Report& report, const TextStyle& style) {
  std::string text;
  for (const auto& ending : report.worlds.at(static_cast<std::size_t>(result.world)).endings) {
    const auto rank = static_cast<std::size_t>(ending.rank);
    if (ending.last_words.empty() || ending.rank < 0 || rank >= result.ranks.size()) continue;
    if (result.ranks[rank].outcome != Outcome::crashed && result.ranks[rank].outcome != Outcome::hung) continue;
    const std::string log = style.is_kept ? fmt::format("{}worlds/{}/logs/rank-{}.err", style.run_directory,
                                                        number_of(result, report), ending.rank)
                                          : std::string();
    text += printed_text(ending.rank, ending.last_words, log);
  }
  return text;
}

/// Shows what the first ranks that failed have printed in the case.
std::string case_output_text(const CaseResult& result, const Report& report, const TextStyle& style) {
  constexpr std::size_t most_ranks = 2;
  std::string text;
  if (!style.printed || result.world < 0) return text;
  std::size_t ranks = 0;
  for (std::size_t rank = 0; rank < result.ranks.size() && ranks < most_ranks; ++rank) {
    const Outcome outcome = result.ranks[rank].outcome;
    if (outcome != Outcome::failed && outcome != Outcome::error) continue;
    const auto printed = style.printed(result, number_of(result, report), static_cast<int>(rank));
    for (const PrintedText& one : printed)
      text += printed_text(static_cast<int>(rank), one.text, style.is_kept ? one.log : std::string());
    if (!printed.empty()) ++ranks;
  }
  return text;
}

/// The commands that play the case's scenarios alone.
std::string scenarios_text(const CaseResult& result, const Report& report, const TextStyle& style) {
  std::string text;
  if (!style.scenarios) return text;
  for (const std::string& file : style.scenarios(result, number_of(result, report)))
    text += fmt::format("  what it played: {}\n", scenario_command(file, result, report));
  return text;
}

/// Shows the stacks of the first rank that hung.
std::string stacks_text(const CaseResult& result, const Report& report, const TextStyle& style) {
  const auto hung = std::ranges::find(result.ranks, Outcome::hung, &RankOutcome::outcome);
  if (!style.stacks || hung == result.ranks.end()) return {};
  const std::string line = style.stacks(number_of(result, report), static_cast<int>(hung - result.ranks.begin()));
  return line.empty() ? std::string() : fmt::format("  {}\n", printable_line(line));
}

/// Shows the first frames of the ranks that died first.
std::string crash_stacks_text(const CaseResult& result, const Report& report, const TextStyle& style) {
  std::string text;
  if (!style.crash) return text;
  const int world = number_of(result, report);
  for (const auto& ending : report.worlds.at(static_cast<std::size_t>(result.world)).endings) {
    if (!ending.is_cause || ending.rank < 0 || static_cast<std::size_t>(ending.rank) >= result.ranks.size()) continue;
    if (result.ranks[static_cast<std::size_t>(ending.rank)].outcome != Outcome::crashed) continue;
    const std::string file =
        style.is_kept ? fmt::format("{}worlds/{}/evidence/rank-{}.crash", style.run_directory, world, ending.rank)
                      : std::string();
    text += crash_excerpt(ending.rank, style.crash(world, ending.rank), file);
  }
  return text;
}

/// The causes that made the case bad, first cause first. `seen_clauses`: see CaseFailures::text.
std::string cause_text(const CaseResult& result, const Report& report, const TextStyle& style,
                       std::set<std::string>* seen_clauses) {
  // A death explains the rest; a failed assertion explains releases and disagreement.
  const bool reasons_first = is_end_of_process(result.verdict);
  std::string text;
  for (const auto& note : result.notes) text += indented(printable(note), "  ");
  const WorldResult& world = report.worlds.at(static_cast<std::size_t>(result.world));
  const std::string& explanation = world.explanation;
  if (reasons_first && !explanation.empty()) text += indented(printable(explanation), "  ");
  if (reasons_first)
    text += reasons_text(result, {}, explanation, world.placement) + crash_stacks_text(result, report, style) +
            last_output_text(result, report, style);

  const CaseFailures failures(result, style.verbose);
  text += failures.text(style, seen_clauses);
  if (!reasons_first)
    text += reasons_text(result, failures.covered(), {}, world.placement) + case_output_text(result, report, style);
  return text;
}

/// The number of other cases with the same cause: `14 cases of overlap: any_costs, mesh and 3 more`, a line for each
/// suite.
std::string others_text(const CaseResult& shown, const std::vector<const CaseResult*>& others) {
  constexpr std::size_t named = 3;
  struct Suite {
    std::set<std::string_view> ids;
    std::vector<std::string_view> names;  // names of cases, without suite and parameters
  };
  std::map<std::string_view, Suite> suites;
  std::size_t more_runs = 0;
  for (const CaseResult* const other : others) {
    const std::string_view id = other->info.id;
    if (id == shown.info.id) {
      ++more_runs;
      continue;
    }
    Suite& suite = suites[other->info.suite];
    suite.ids.insert(id);
    std::string_view name = id.substr(0, id.find('['));
    name.remove_prefix(std::min(name.find('/') + 1, name.size()));
    if (std::ranges::find(suite.names, name) == suite.names.end()) suite.names.push_back(name);
  }
  std::string text;
  const auto add_line = [&text](const std::string& line) {
    text += fmt::format("  {} {}\n", text.empty() ? "also in:" : "        ", line);
  };
  if (more_runs > 0) add_line(fmt::format("{} more {} of this case", more_runs, more_runs == 1 ? "run" : "runs"));
  for (const auto& [name, suite] : suites) {
    const std::span few = std::span(suite.names).first(std::min(named, suite.names.size()));
    std::string line = fmt::format("{} {} of {}: {}", suite.ids.size(), suite.ids.size() == 1 ? "case" : "cases", name,
                                   fmt::join(few, ", "));
    if (few.size() < suite.names.size()) line += fmt::format(" and {} more", suite.names.size() - few.size());
    add_line(printable_line(line));
  }
  return text;
}

/// The clauses that only the other cases break: `they also break OVL-20 (3 cases), OVL-21 (48 cases)`. The first defect
/// must not hide another.
std::string also_broken_text(const CaseResult& shown, const std::vector<const CaseResult*>& others) {
  const auto clauses_of = [](const CaseResult& result) {
    std::set<std::string_view> clauses;
    for (const Failure& failure : result.failures)
      clauses.insert(failure.assertion.clauses.begin(), failure.assertion.clauses.end());
    return clauses;
  };
  const std::set<std::string_view> known = clauses_of(shown);
  std::map<std::string_view, std::size_t> cases;  // by clause
  for (const CaseResult* const other : others) {
    for (const std::string_view clause : clauses_of(*other)) {
      if (!known.contains(clause)) ++cases[clause];
    }
  }
  std::vector<std::string> texts;
  for (const auto& [clause, count] : cases)
    texts.push_back(fmt::format("{} ({} {})", clause, count, count == 1 ? "case" : "cases"));
  return texts.empty()
             ? std::string()
             : fmt::format("  they also break {}\n", printable_line(fmt::format("{}", fmt::join(texts, ", "))));
}

/// The text of a bad case, and of other cases with the same cause.
std::string failure_text(const CaseResult& result, const Report& report, const TextStyle& style,
                         const std::vector<const CaseResult*>& others, std::set<std::string>& seen_clauses) {
  const Placement& placement = report.worlds.at(static_cast<std::size_t>(result.world)).placement;
  std::string text = failure_line(result, style, placement);
  if (result.waiver >= 0)
    text += fmt::format("  {}\n",
                        printable_line(waiver_text(report.head.waivers.at(static_cast<std::size_t>(result.waiver)))));
  text += cause_text(result, report, style, &seen_clauses);
  if (placement.hosts().size() > 1) text += fmt::format("  hosts: {}\n", printable_line(placement.text()));
  if (is_end_of_process(result.verdict) &&
      !report.worlds.at(static_cast<std::size_t>(result.world)).explanation.empty())
    text += style.is_kept ? fmt::format("  evidence: {}worlds/{}/evidence\n", printable_line(style.run_directory),
                                        number_of(result, report))
                          : "  evidence: deleted with the run; --out DIRECTORY keeps it\n";
  if (style.is_kept) text += stacks_text(result, report, style);
  text += others_text(result, others) + also_broken_text(result, others);
  return text + fmt::format("  again: {}\n", repeat_command(result, report)) + scenarios_text(result, report, style);
}

}  // namespace

bool has_own_text(const CaseResult& result, const TextStyle& style) {
  return is_bad(result.verdict) && result.verdict != Verdict::not_run && (result.waiver < 0 || style.verbose);
}

std::string cause_text(const CaseResult& result, const Report& report, const TextStyle& style) {
  return cause_text(result, report, style, nullptr);
}

std::string failure_line(const CaseResult& result, const TextStyle& style, const Placement& placement) {
  const Paint paint(style.color);
  const auto total = result.failures.size() + result.failures_left_out;
  std::string text = fmt::format("{} {}{}", paint(hue_of(result), headline(result)), printable_line(result.info.id),
                                 repetition_text(result));
  std::vector<std::string> facts;
  if (total > 0) facts.push_back(rank_text(placement, result.failures.empty() ? 0 : result.failures.front().rank));
  if (result.duration_ns > 0) facts.push_back(duration_text(result.duration_ns));  // if 0, no rank finished the case
  if (total > 1) facts.push_back(fmt::format("first of {} failures", total));
  if (!facts.empty()) text += fmt::format("      {}", fmt::join(facts, ", "));
  return text + '\n';
}

std::string failure_text(const CaseResult& result, const Report& report, const TextStyle& style) {
  std::set<std::string> seen_clauses;
  return failure_text(result, report, style, {}, seen_clauses);
}

std::string failure_text(const CauseGroup& group, const Report& report, const TextStyle& style) {
  std::set<std::string> seen_clauses;
  return failure_text(*group.shown, report, style, group.others, seen_clauses);
}

std::vector<CauseGroup> failure_groups(const Report& report, const TextStyle& style) {
  std::vector<const CaseResult*> bad;
  for (const CaseResult& result : report.cases) {
    if (has_own_text(result, style)) bad.push_back(&result);
  }
  if (!style.verbose) return by_cause(bad);
  std::vector<CauseGroup> groups;
  std::ranges::transform(bad, std::back_inserter(groups),
                         [](const CaseResult* result) { return CauseGroup{.shown = result, .others = {}}; });
  return groups;
}

std::string failures_text(const Report& report, const TextStyle& style) {
  std::string text;
  std::set<std::string> seen_clauses;
  for (const CauseGroup& group : failure_groups(report, style))
    text += fmt::format("{}{}", text.empty() ? "" : "\n",
                        failure_text(*group.shown, report, style, group.others, seen_clauses));
  return text;
}

}  // namespace shardproof::reports
