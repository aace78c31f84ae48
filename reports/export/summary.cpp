#include "reports/export/summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <set>
#include <span>
#include <tuple>

#include "harness/base/rank_list.hpp"
#include "harness/base/utf8.hpp"
#include "harness/protocol/failure_text.hpp"
#include "reports/explain/causes.hpp"
#include "reports/export/case_failures.hpp"
#include "reports/export/command_line_words.hpp"
#include "reports/export/terminal.hpp"
#include "reports/model/findings.hpp"

namespace shardproof::reports {

namespace {

std::string_view headline(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed: return "PASS";
    case Verdict::skipped: return "SKIP";
    case Verdict::not_run: return "NOT RUN";
    case Verdict::error: return "ERROR";
    case Verdict::failed: return "FAIL";
    case Verdict::disagreed: return "DISAGREE";
    case Verdict::hung: return "HANG";
    case Verdict::crashed: return "CRASH";
  }
  return "UNKNOWN";
}

Hue hue_of(Verdict verdict) {
  return is_bad(verdict) ? Hue::red : verdict == Verdict::skipped ? Hue::yellow : Hue::green;
}

/// Whether the failure has this reason, or comes from an exception with it. Released ranks have the beginning of a long
/// reason.
bool has_reason(const event::AssertionFailed& failure, std::string_view reason) {
  const std::string exception = unexpected_exception(reason);
  const std::size_t received = unexpected_exception({}).size() + abort_text_limit;
  const auto is_reason = [&](std::string_view text) {
    return text == reason || text == exception || beginning_within(text, received) == exception;
  };
  return is_reason(failure.expansion) || std::ranges::any_of(failure.messages, is_reason);
}

/// The ranks' outcomes and their reasons. Equal sentences appear once, and a reason that a shown failure has does not
/// appear. The guilty ranks come first: they explain the other ranks' reasons.
std::string reasons_text(const CaseResult& result, std::span<const event::AssertionFailed* const> shown,
                         std::string_view explanation) {
  struct Said {
    Outcome outcome;
    std::string_view reason;
    std::vector<int> ranks;
  };
  std::vector<Said> said;
  for (const auto& [rank, reason] : result.reasons) {
    const auto outcome = result.ranks.at(static_cast<std::size_t>(rank)).outcome;
    const auto found = std::find_if(said.begin(), said.end(), [&, &text = reason](const Said& s) {
      return s.outcome == outcome && s.reason == text;
    });
    if (found == said.end()) {
      said.push_back({outcome, reason, {rank}});
    } else {
      found->ranks.push_back(rank);
    }
  }
  // The explanation of a death says everything about it.
  if (!explanation.empty()) std::erase_if(said, [](const Said& s) { return s.outcome == Outcome::crashed; });
  const auto guilt = [](const Said& s) {
    constexpr std::array<Outcome, 8> order{Outcome::crashed, Outcome::hung,    Outcome::failed,   Outcome::error,
                                           Outcome::missing, Outcome::skipped, Outcome::released, Outcome::passed};
    return std::find(order.begin(), order.end(), s.outcome) - order.begin();
  };
  std::stable_sort(said.begin(), said.end(), [&](const Said& a, const Said& b) { return guilt(a) < guilt(b); });
  std::string text;
  for (const auto& s : said) {
    const bool is_shown = std::ranges::any_of(
        shown, [&](const event::AssertionFailed* failure) { return has_reason(*failure, s.reason); });
    if (is_shown && s.outcome == Outcome::error) continue;
    const auto who = fmt::format("{} {}", rank_list(s.ranks), to_string(s.outcome));
    text += indented(is_shown ? who : printable(fmt::format("{}: {}", who, s.reason)), "  ");
  }
  return text;
}

bool is_end_of_process(Verdict verdict) { return verdict == Verdict::crashed || verdict == Verdict::hung; }

/// The number of its world's folder.
int number_of(const CaseResult& result, const Report& report) {
  return report.worlds.at(static_cast<std::size_t>(result.world)).number;
}

/// The last output of ranks that died or hung. Without it, the reader would have to open their logs.
std::string last_words_text(const CaseResult& result, const Report& report, const TextStyle& style) {
  constexpr std::size_t shown = 5;
  std::string text;
  for (const auto& ending : report.worlds.at(static_cast<std::size_t>(result.world)).endings) {
    const auto rank = static_cast<std::size_t>(ending.rank);
    if (ending.last_words.empty() || ending.rank < 0 || rank >= result.ranks.size()) continue;
    if (result.ranks[rank].outcome != Outcome::crashed && result.ranks[rank].outcome != Outcome::hung) continue;
    std::string_view words = ending.last_words;
    std::size_t begin = words.size();
    for (std::size_t lines = 0; lines < shown && begin != std::string_view::npos && begin > 0; ++lines)
      begin = words.rfind('\n', begin - 1);
    if (begin != std::string_view::npos && begin > 0) words.remove_prefix(begin + 1);
    text += fmt::format("  rank {} said last", ending.rank);
    if (style.is_kept)
      text += fmt::format(" ({}worlds/{}/logs/rank-{}.err)", printable(style.place), number_of(result, report),
                          ending.rank);
    text += fmt::format(":\n{}", indented(printable(words), "    "));
  }
  return text;
}

/// The subject as the user named it, by a path or a name. Without --subject, the worker's own name.
std::string subject_of(const Report& report) {
  const std::vector<std::string> words =
      words_given(report.head.argv, std::array<std::string_view, 1>{"--subject"}, {});
  if (words.empty()) return report.head.subject;
  const std::string_view last = words.back();
  return std::string(last.starts_with("--subject=") ? last.substr(last.find('=') + 1) : last);
}

/// The same command plays a scenario again. It does not need another output directory.
std::string play_again(const std::vector<std::string>& argv) {
  std::string command;
  bool is_option = true;
  for (std::size_t i = 0; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    is_option = is_option && word != end_of_options;
    if (is_option && word == "--out") ++i;
    else if (!is_option || (word != "--overwrite" && !word.starts_with("--out=")))
      command += fmt::format("{}{}", command.empty() ? "" : " ", shell_word(word));
  }
  return printable(command);
}

/// Adds the given words of `options`, `flags` and the device's options to `command`, as the user wrote them.
std::string with_options(std::string command, const std::vector<std::string>& argv,
                         std::vector<std::string_view> options, std::vector<std::string_view> flags = {}) {
  options.emplace_back("--device");
  options.insert(options.end(), std::begin(gpu_options), std::end(gpu_options));
  flags.push_back(share_gpus_flag);
  for (const std::string& word : words_given(argv, options, flags)) command += fmt::format(" {}", shell_word(word));
  return printable(command);
}

std::string program(const std::vector<std::string>& argv) {
  return argv.empty() ? "shardproof" : shell_word(argv.front());
}

}  // namespace

std::string again(const CaseResult& result, const Report& report, bool with_waivers) {
  const auto& argv = report.head.argv;
  if (argv.size() > 1 && argv[1] == "play") return play_again(argv);
  std::vector<std::string_view> options{"--worker",  "--subject",     "--fabric",  "--fault",
                                        "--timeout", "--nccl-faults", "--scenario"};
  if (with_waivers) options.emplace_back("--waivers");
  // The option may be meant for other cases of the run.
  if (report.worlds.at(static_cast<std::size_t>(result.world)).fabric == thread_fabric)
    options.emplace_back("--scheduler");
  return with_options(fmt::format("{} run {} --seed {}", program(argv), shell_word(result.info.id), report.head.seed),
                      argv, std::move(options), {"--nccl-tap"});
}

namespace {

/// The commands that play the case's scenarios alone.
std::string scenarios_text(const CaseResult& result, const Report& report, const TextStyle& style) {
  std::string text;
  if (!style.scenarios) return text;
  for (const std::string& file : style.scenarios(result, number_of(result, report))) {
    const auto& argv = report.head.argv;
    const std::string play =
        fmt::format("{} play {} --ranks {}", program(argv), shell_word(file), result.info.world_size);
    text += fmt::format("  what it played: {}\n",
                        with_options(play, argv, {"--worker", "--subject", "--fault", "--timeout"}));
  }
  return text;
}

/// Shows the stacks of the first rank that hung.
std::string stacks_text(const CaseResult& result, const Report& report, const TextStyle& style) {
  const auto hung = std::ranges::find(result.ranks, Outcome::hung, &RankOutcome::outcome);
  if (!style.stacks || hung == result.ranks.end()) return {};
  const std::string line = style.stacks(number_of(result, report), static_cast<int>(hung - result.ranks.begin()));
  return line.empty() ? std::string() : fmt::format("  {}\n", printable(line));
}

std::string repetition_of(const CaseResult& result) {
  if (result.attempt > 0 || result.superseded) return fmt::format(" (attempt {})", result.attempt + 1);
  return result.repetition == 0 ? std::string() : fmt::format(" (repetition {})", result.repetition);
}

/// The problems of its ranks' GPUs that make the world slow.
std::string gpu_troubles_text(const WorldResult& world, const std::vector<GpuInfo>& known) {
  std::vector<GpuInfo> by_rank;
  for (const auto& variables : world.environment) {
    const auto visible = variables.find("CUDA_VISIBLE_DEVICES");
    const auto gpu =
        visible == variables.end() ? known.end() : std::ranges::find(known, visible->second, &GpuInfo::uuid);
    by_rank.push_back(gpu == known.end() ? GpuInfo{} : *gpu);
  }
  std::string text;
  if (const auto pairs = unreachable_pairs(by_rank); !pairs.empty())
    text += fmt::format("; GPUs that cannot reach each other's memory: of ranks {}", pairs_text(pairs));
  std::map<std::string, std::vector<int>> slowed;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto& reasons = by_rank[rank].slowed_by;
    if (reasons && !reasons->empty())
      slowed[fmt::format("{}", fmt::join(*reasons, ", "))].push_back(static_cast<int>(rank));
  }
  for (const auto& [reasons, ranks] : slowed)
    text += fmt::format("; when the run began, {} had a GPU slowed by {}", rank_list(ranks), reasons);
  return printable(text);
}

/// The number of cases by verdict. A waived case does not count for its verdict: a reader of "failed" looks for unknown
/// failures.
struct Tally {
  std::array<std::size_t, all_verdicts.size()> verdicts{};
  std::size_t waived = 0;

  void add(const CaseResult& result) {
    ++(result.waiver >= 0 ? waived : verdicts[static_cast<std::size_t>(result.verdict)]);
  }
  std::size_t cases() const { return std::accumulate(verdicts.begin(), verdicts.end(), waived); }
};

/// `3 cases: 2 passed, 1 waived`
std::string text_of(const Tally& tally, const Paint& paint, std::string_view where = {}) {
  const auto cases = tally.cases();
  std::string text = fmt::format("{} {}{}", cases, cases == 1 ? "case" : "cases", where);
  const char* separator = ": ";
  const auto say = [&](std::size_t count, Hue hue, std::string_view how) {
    if (count == 0) return;
    text += separator + paint(hue, fmt::format("{} {}", count, how));
    separator = ", ";
  };
  for (const auto verdict : all_verdicts) {
    say(tally.verdicts[static_cast<std::size_t>(verdict)], hue_of(verdict), to_string(verdict));
    if (verdict == Verdict::skipped) say(tally.waived, Hue::yellow, "waived");
  }
  return text;
}

std::string world_text(const Report& report) {
  std::vector<Tally> tallies(report.worlds.size());
  for (const auto& result : report.cases) tallies.at(static_cast<std::size_t>(result.world)).add(result);
  std::string text;
  for (std::size_t i = 0; i < report.worlds.size(); ++i) {
    const auto& world = report.worlds[i];
    text += fmt::format("world {}: {} {} of {} on {}, {}", world.number, world.size, world.size == 1 ? "rank" : "ranks",
                        printable(world.fabric), printable(world.device), text_of(tallies[i], Paint(false)));
    text += gpu_troubles_text(world, report.head.gpus);
    if (world.times != event_times) text += fmt::format("; times from {}", printable(world.times));
    if (!world.unfit_for_timing.empty())
      text += fmt::format("; unfit for timing: {}", printable(world.unfit_for_timing));
    text += '\n';
  }
  return text;
}

std::string skips_text(const Report& report, const Paint& paint) {
  std::map<std::string, std::vector<std::string_view>> by_reason;
  for (const auto& result : report.cases) {
    if (result.verdict != Verdict::skipped) continue;
    std::string reason = skip_reason(result);
    if (reason.empty()) reason = "no reason given";
    if (result.skipped_by >= 0) reason += fmt::format(" (asked by rank {})", result.skipped_by);
    by_reason[std::move(reason)].push_back(result.info.id);
  }
  std::string text;
  for (const auto& [reason, ids] : by_reason) {
    text += fmt::format("{} {} {}: {}\n", paint(Hue::yellow, "SKIP"), ids.size(), ids.size() == 1 ? "case" : "cases",
                        printable(reason));
    text += fmt::format("  {}\n", few_of(ids));
  }
  return text;
}

/// Adds `WAIVED`, so that no reader takes the case for a new failure or for a pass.
std::string head_of(const CaseResult& result) {
  return result.waiver >= 0 ? fmt::format("WAIVED {}", headline(result.verdict))
                            : std::string(headline(result.verdict));
}

Hue hue_of(const CaseResult& result) { return result.waiver >= 0 ? Hue::yellow : hue_of(result.verdict); }

/// The waiver's owner, last day, reason and link.
std::string waiver_text(const CaseResult& result, const Report& report) {
  const Waiver& waiver = report.head.waivers.at(static_cast<std::size_t>(result.waiver));
  return printable(
      fmt::format("  waived by {} until {}: {} ({})\n", waiver.owner, waiver.expires, waiver.reason, waiver.link));
}

/// The command that shows the failure of a waived case. It plays the scenario that the waiver names, or runs the case
/// without waivers, which shows it in full.
std::string see(const CaseResult& result, const Report& report) {
  const auto& shown_by = report.head.waivers.at(static_cast<std::size_t>(result.waiver)).shown_by;
  if (!shown_by) return again(result, report, false);
  const auto& argv = report.head.argv;
  std::string command = fmt::format("{} play {}", program(argv), shell_word(shown_by->scenario));
  if (shown_by->ranks) command += fmt::format(" --ranks {}", *shown_by->ranks);
  if (!shown_by->beside)
    return with_options(std::move(command), argv, {"--worker", "--subject", "--fault", "--timeout"});
  // A fault is written after its subject.
  const std::string fault = report.head.fault.empty() ? std::string() : "+" + report.head.fault;
  command +=
      fmt::format(" --subject {}", shell_word(fmt::format("{},{}{}", *shown_by->beside, subject_of(report), fault)));
  return with_options(std::move(command), argv, {"--worker", "--timeout"});
}

/// The waived cases, once for each reason: how many, a few ids, the owner, and how to see the failure.
std::string waivers_text(const Report& report, const Paint& paint) {
  using Reason = std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>;
  struct Group {
    Reason reason;
    int first_waiver;
    /// The first case whose waiver names a scenario. Without such a waiver, the first case.
    const CaseResult* shown;
    std::map<Verdict, std::size_t> verdicts;
    std::vector<std::string_view> ids;
  };
  const auto names_a_scenario = [&](const CaseResult& result) {
    return report.head.waivers.at(static_cast<std::size_t>(result.waiver)).shown_by.has_value();
  };
  std::vector<Group> groups;
  for (const CaseResult& result : report.cases) {
    if (result.waiver < 0 || result.superseded) continue;
    const Waiver& waiver = report.head.waivers.at(static_cast<std::size_t>(result.waiver));
    const Reason reason{waiver.reason, waiver.link, waiver.owner, waiver.expires};
    auto group = std::ranges::find(groups, reason, &Group::reason);
    if (group == groups.end()) group = groups.insert(group, {reason, result.waiver, &result, {}, {}});
    group->first_waiver = std::min(group->first_waiver, result.waiver);
    if (!names_a_scenario(*group->shown) && names_a_scenario(result)) group->shown = &result;
    ++group->verdicts[result.verdict];
    group->ids.push_back(result.info.id);
  }
  std::ranges::sort(groups, {}, &Group::first_waiver);
  std::string text;
  for (const auto& [reason, first_waiver, shown, verdicts, ids] : groups) {
    std::string how;
    for (const auto& [verdict, count] : verdicts)
      how += fmt::format("{}{} {}", how.empty() ? "" : ", ", count, to_string(verdict));
    const auto& [why, link, owner, expires] = reason;
    text += fmt::format("{} {}: {}\n", paint(Hue::yellow, "WAIVED"), how, printable(fmt::format("{} ({})", why, link)));
    text += fmt::format("  {}\n", few_of(ids));
    text += fmt::format("  by {} until {}; to see it: {}\n", printable(owner), expires, see(*shown, report));
  }
  return text;
}

std::string findings_text(const Report& report, const Paint& paint) {
  std::string text;
  for (const auto& finding : findings(report))
    text += fmt::format("{} {}\n", paint(Hue::red, "FINDING"), printable(finding));
  return text;
}

std::string all_cases_text(const Report& report, const Paint& paint) {
  std::string text;
  for (const auto& result : report.cases) {
    text += fmt::format("{} {}{}  {}\n", paint(hue_of(result), fmt::format("{:<8}", head_of(result))),
                        printable(result.info.id), repetition_of(result), duration_text(result.duration_ns));
    for (const auto& [name, measurement] : result.measurements)
      text += printable(fmt::format("{:9}{} = {}", "", name, to_text(measurement))) + "\n";
  }
  return text;
}

std::string slowest_text(const Report& report) {
  constexpr std::size_t shown = 5;
  std::vector<const CaseResult*> slowest;
  for (const auto& result : report.cases) slowest.push_back(&result);
  const auto few = static_cast<std::ptrdiff_t>(std::min(slowest.size(), shown));
  std::partial_sort(slowest.begin(), slowest.begin() + few, slowest.end(),
                    [](const CaseResult* a, const CaseResult* b) {
                      // equally slow cases keep the order of the report
                      return a->duration_ns != b->duration_ns ? a->duration_ns > b->duration_ns : a < b;
                    });
  std::string text = few > 0 ? "slowest:\n" : "";
  for (std::ptrdiff_t i = 0; i < few; ++i) {
    const auto& result = *slowest[static_cast<std::size_t>(i)];
    text += fmt::format("  {:>9}  {}{}\n", duration_text(result.duration_ns), printable(result.info.id),
                        repetition_of(result));
  }
  return text;
}

/// A sentence that many worlds share appears once. Worlds that an interrupted run did not reach have such a sentence.
std::string defects_text(const Report& report, const TextStyle& style, const Paint& paint) {
  constexpr std::size_t shown = 20;
  std::vector<std::pair<std::string, std::vector<int>>> said;
  std::map<std::string, std::size_t> places;
  const auto say = [&](int world, std::string text) {
    const auto [place, is_new] = places.try_emplace(text, said.size());
    if (is_new) said.push_back({std::move(text), {}});
    said[place->second].second.push_back(world);
  };
  for (const WorldResult& world : report.worlds) {
    const auto& defects = world.defects;
    const auto few = style.verbose ? defects.size() : std::min(defects.size(), shown);
    for (std::size_t k = 0; k < few; ++k) say(world.number, printable(defects[k]));
    if (few < defects.size()) say(world.number, fmt::format("{} more", defects.size() - few));
  }
  std::string text;
  for (const auto& [sentence, worlds] : said) {
    const std::size_t others = worlds.size() - 1;
    text +=
        fmt::format("{} world {}{}: {}\n", paint(Hue::red, "EVIDENCE"), worlds.front(),
                    others == 0 ? "" : fmt::format(" and {} {}", others, others == 1 ? "other" : "others"), sentence);
  }
  return text;
}

/// The ranks' activities when the user ended the run.
std::string interruptions_text(const Report& report, const Paint& paint) {
  std::string text;
  for (const WorldResult& world : report.worlds) {
    const bool was_interrupted =
        std::ranges::any_of(world.endings, [](const Ending& ending) { return ending.how == Ending::How::interrupted; });
    if (was_interrupted && !world.explanation.empty())
      text += fmt::format("{} world {}: {}\n", paint(Hue::yellow, "INTERRUPTED"), world.number,
                          printable(world.explanation));
  }
  return text;
}

/// The NCCL calls of ranks under the tap, for worlds in which a case went wrong.
std::string nccl_text(const Report& report, const TextStyle& style, const Paint& paint) {
  constexpr std::size_t shown = 10;
  std::string text;
  for (const WorldResult& world : report.worlds) {
    const auto few = style.verbose ? world.nccl.size() : std::min(world.nccl.size(), shown);
    // The last sentence is the first difference, which the reader looks for.
    const std::size_t from = world.nccl.size() - few;
    if (from > 0)
      text += fmt::format("{} world {}: {} more (`shardproof explain` has them)\n", paint(Hue::yellow, "NCCL"),
                          world.number, from);
    for (std::size_t k = from; k < world.nccl.size(); ++k)
      text += fmt::format("{} world {}: {}\n", paint(Hue::yellow, "NCCL"), world.number, printable(world.nccl[k]));
  }
  return text;
}

/// After a crash, most of a plan may not have run. These cases get one line together, not a page each.
std::string not_run_text(const Report& report, const TextStyle& style, const Paint& paint) {
  constexpr std::size_t shown = 3;
  std::vector<std::string_view> ids;
  std::map<std::string_view, std::size_t> times;  // a repeated case is named once
  std::size_t count = 0;
  for (const auto& result : report.cases) {
    if (result.verdict != Verdict::not_run) continue;
    if (++times[result.info.id] == 1) ids.push_back(result.info.id);
    ++count;
  }
  if (ids.empty()) return {};
  std::string text = fmt::format("{} {} {}", paint(Hue::red, "NOT RUN"), count, count == 1 ? "case" : "cases");
  const auto few = style.verbose ? ids.size() : std::min(ids.size(), shown);
  for (std::size_t i = 0; i < few; ++i) {
    text += fmt::format("{} {}{}", i == 0 ? ":" : ",", printable(ids[i]),
                        times[ids[i]] == 1 ? "" : fmt::format(" ({} times)", times[ids[i]]));
  }
  return text + (ids.size() > few ? fmt::format(" and {} others\n", ids.size() - few) : "\n");
}

std::string last_line(const Report& report, const Paint& paint) {
  Tally tally;
  for (const CaseResult& result : report.cases) {
    if (!result.superseded) tally.add(result);
  }
  std::string text = text_of(
      tally, paint, fmt::format(" in {} {}", report.worlds.size(), report.worlds.size() == 1 ? "world" : "worlds"));
  if (report.cases.empty()) text += ": nothing ran";
  const auto flaky = report.flaky();
  if (!flaky.empty()) text += fmt::format("; {}", paint(Hue::yellow, fmt::format("{} flaky", flaky.size())));
  return text + "\n";
}

/// The causes that made the case bad, first cause first. `told`: see CaseFailures::text.
std::string cause_text(const CaseResult& result, const Report& report, const TextStyle& style,
                       std::set<std::string>* told) {
  // A death explains the rest; a failed assertion explains releases and disagreement.
  const bool reasons_first = is_end_of_process(result.verdict);
  std::string text;
  for (const auto& note : result.notes) text += indented(printable(note), "  ");
  const std::string& explanation = report.worlds.at(static_cast<std::size_t>(result.world)).explanation;
  if (reasons_first && !explanation.empty()) text += indented(printable(explanation), "  ");
  if (reasons_first) text += reasons_text(result, {}, explanation) + last_words_text(result, report, style);

  const CaseFailures failures(result, style.verbose);
  text += failures.text(style, told);
  if (!reasons_first) text += reasons_text(result, failures.covered(), {});
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
  std::size_t again = 0;
  for (const CaseResult* const other : others) {
    const std::string_view id = other->info.id;
    if (id == shown.info.id) {
      ++again;
      continue;
    }
    Suite& suite = suites[other->info.suite];
    suite.ids.insert(id);
    std::string_view name = id.substr(0, id.find('['));
    name.remove_prefix(std::min(name.find('/') + 1, name.size()));
    if (std::ranges::find(suite.names, name) == suite.names.end()) suite.names.push_back(name);
  }
  std::string text;
  const auto say = [&text](const std::string& line) {
    text += fmt::format("  {} {}\n", text.empty() ? "also in:" : "        ", line);
  };
  if (again > 0) say(fmt::format("{} more {} of this case", again, again == 1 ? "run" : "runs"));
  for (const auto& [name, suite] : suites) {
    const std::span few = std::span(suite.names).first(std::min(named, suite.names.size()));
    std::string line = fmt::format("{} {} of {}: {}", suite.ids.size(), suite.ids.size() == 1 ? "case" : "cases", name,
                                   fmt::join(few, ", "));
    if (few.size() < suite.names.size()) line += fmt::format(" and {} more", suite.names.size() - few.size());
    say(printable(line));
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
  return texts.empty() ? std::string() : printable(fmt::format("  they also break {}", fmt::join(texts, ", "))) + "\n";
}

/// The text of a bad case, and of other cases with the same cause.
std::string failure_text(const CaseResult& result, const Report& report, const TextStyle& style,
                         const std::vector<const CaseResult*>& others, std::set<std::string>& told) {
  std::string text = failure_line(result, style);
  if (result.waiver >= 0) text += waiver_text(result, report);
  text += cause_text(result, report, style, &told);
  if (is_end_of_process(result.verdict) &&
      !report.worlds.at(static_cast<std::size_t>(result.world)).explanation.empty())
    text += style.is_kept
                ? fmt::format("  evidence: {}worlds/{}/evidence\n", printable(style.place), number_of(result, report))
                : "  evidence: deleted with the run; --out DIRECTORY keeps it\n";
  if (style.is_kept) text += stacks_text(result, report, style);
  text += others_text(result, others) + also_broken_text(result, others);
  return text + fmt::format("  again: {}\n", again(result, report)) + scenarios_text(result, report, style);
}

/// Shows each cause once, in the order of the report. A verbose text shows each case.
std::string failures_text(const Report& report, const TextStyle& style) {
  std::vector<const CaseResult*> bad;
  for (const CaseResult& result : report.cases) {
    if (is_worth_telling(result, style)) bad.push_back(&result);
  }
  std::vector<CauseGroup> groups;
  if (!style.verbose) groups = by_cause(bad);
  else
    std::ranges::transform(bad, std::back_inserter(groups),
                           [](const CaseResult* result) { return CauseGroup{.shown = result, .others = {}}; });
  std::string text;
  std::set<std::string> told;
  for (const CauseGroup& group : groups)
    text +=
        fmt::format("{}{}", text.empty() ? "" : "\n", failure_text(*group.shown, report, style, group.others, told));
  return text;
}

}  // namespace

bool is_worth_telling(const CaseResult& result, const TextStyle& style) {
  return is_bad(result.verdict) && result.verdict != Verdict::not_run && (result.waiver < 0 || style.verbose);
}

std::string cause_text(const CaseResult& result, const Report& report, const TextStyle& style) {
  return cause_text(result, report, style, nullptr);
}

std::string failure_line(const CaseResult& result, const TextStyle& style) {
  const Paint paint(style.color);
  const auto total = result.failures.size() + result.failures_left_out;
  std::string text =
      fmt::format("{} {}{}", paint(hue_of(result), head_of(result)), printable(result.info.id), repetition_of(result));
  if (total > 0) {
    text += fmt::format("      rank {}, {}", result.failures.empty() ? 0 : result.failures.front().rank,
                        duration_text(result.duration_ns));
    if (total > 1) text += fmt::format(", first of {} failures", total);
  } else {
    // if 0, no rank finished the case
    if (result.duration_ns > 0) text += fmt::format("      {}", duration_text(result.duration_ns));
  }
  return text + '\n';
}

std::string failure_text(const CaseResult& result, const Report& report, const TextStyle& style) {
  std::set<std::string> told;
  return failure_text(result, report, style, {}, told);
}

std::string summary(const Report& report, const TextStyle& style) {
  const Paint paint(style.color);
  std::string text;
  if (style.verbose && !style.quiet) text += all_cases_text(report, paint);
  if (const std::string failures = failures_text(report, style); !failures.empty())
    text += fmt::format("{}{}", text.empty() ? "" : "\n", failures);
  std::string rest = defects_text(report, style, paint) + interruptions_text(report, paint) +
                     nccl_text(report, style, paint) + not_run_text(report, style, paint) +
                     findings_text(report, paint);
  if (!style.quiet) {
    rest += waivers_text(report, paint) + skips_text(report, paint);
    for (const auto& id : report.flaky()) rest += fmt::format("{} {}\n", paint(Hue::yellow, "FLAKY"), printable(id));
    if (style.verbose) rest += slowest_text(report);
    rest += world_text(report);
  }
  if (!text.empty() && !rest.empty()) text += '\n';
  return text + rest + last_line(report, paint);
}

}  // namespace shardproof::reports
