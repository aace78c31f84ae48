#include "reports/export/summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/base/rank_list.hpp"
#include "reports/export/columns.hpp"
#include "reports/export/failure_text.hpp"
#include "reports/export/repeat_command.hpp"
#include "reports/export/terminal.hpp"
#include "reports/export/verdict_text.hpp"
#include "reports/model/findings.hpp"

namespace shardproof::reports {

using protocol::GpuInfo;

namespace {

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
  if (const auto pairs = protocol::unreachable_pairs(by_rank); !pairs.empty())
    text += fmt::format("; GPUs that cannot reach each other's memory: of ranks {}", protocol::pairs_text(pairs));
  std::map<std::string, std::vector<int>> slowed;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto& reasons = by_rank[rank].slowed_by;
    if (reasons && !reasons->empty())
      slowed[fmt::format("{}", fmt::join(*reasons, ", "))].push_back(static_cast<int>(rank));
  }
  for (const auto& [reasons, ranks] : slowed)
    text += fmt::format("; when the run began, {} had a GPU slowed by {}", base::rank_list(ranks), reasons);
  return printable_line(text);
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
  const auto add = [&](std::size_t count, Hue hue, std::string_view how) {
    if (count == 0) return;
    text += separator + paint(hue, fmt::format("{} {}", count, how));
    separator = ", ";
  };
  for (const auto verdict : all_verdicts) {
    add(tally.verdicts[static_cast<std::size_t>(verdict)], hue_of(verdict), to_string(verdict));
    if (verdict == Verdict::skipped) add(tally.waived, Hue::yellow, "waived");
  }
  return text;
}

std::string world_text(const Report& report) {
  std::vector<Tally> tallies(report.worlds.size());
  for (const auto& result : report.cases) tallies.at(static_cast<std::size_t>(result.world)).add(result);
  std::string text;
  for (const std::size_t i : by_number(report.worlds)) {
    const auto& world = report.worlds[i];
    text += fmt::format("world {}: {} {} of {} on {}, {}", world.number, world.size, world.size == 1 ? "rank" : "ranks",
                        printable_line(world.fabric), printable_line(world.device), text_of(tallies[i], Paint(false)));
    if (world.placement.hosts().size() > 1) text += fmt::format("; {}", printable_line(world.placement.text()));
    text += gpu_troubles_text(world, report.head.gpus);
    if (world.times != protocol::event_times) text += fmt::format("; times from {}", printable_line(world.times));
    if (!world.unfit_for_timing.empty())
      text += fmt::format("; unfit for timing: {}", printable_line(world.unfit_for_timing));
    text += '\n';
  }
  return text;
}

std::string skips_text(const Report& report, const Paint& paint) {
  std::map<std::string, std::vector<std::string_view>> by_reason;
  for (const auto& result : report.cases) {
    if (result.verdict != Verdict::skipped) continue;
    by_reason[skip_text(result)].push_back(result.info.id);
  }
  std::string text;
  for (const auto& [reason, ids] : by_reason) {
    text += fmt::format("{} {} {}: {}\n", paint(Hue::yellow, "SKIP"), ids.size(), ids.size() == 1 ? "case" : "cases",
                        printable_line(reason));
    text += fmt::format("  {}\n", few_of(ids));
  }
  return text;
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
    text += fmt::format("{} {}: {}\n", paint(Hue::yellow, "WAIVED"), how,
                        printable_line(fmt::format("{} ({})", why, link)));
    text += fmt::format("  {}\n", few_of(ids));
    text += fmt::format("  by {} until {}; to see it: {}\n", printable_line(owner), expires,
                        waived_failure_command(*shown, report));
  }
  return text;
}

std::string findings_text(const Report& report, const Paint& paint) {
  std::string text;
  for (const auto& finding : findings(report))
    text += fmt::format("{} {}\n", paint(Hue::red, "FINDING"), printable_line(finding));
  return text;
}

std::string all_cases_text(const Report& report, const Paint& paint) {
  std::string text;
  for (const auto& result : report.cases) {
    text += fmt::format("{} {}{}  {}\n", paint(hue_of(result), fmt::format("{:<8}", headline(result))),
                        printable_line(result.info.id), repetition_text(result), duration_text(result.duration_ns));
    for (const auto& [name, measurement] : result.measurements)
      text += fmt::format("{:9}{}\n", "", printable_line(fmt::format("{} = {}", name, to_text(measurement))));
  }
  return text;
}

std::string slowest_text(const Report& report, std::size_t most) {
  std::string text;
  for (const CaseResult* const result : slowest_cases(report, most))
    text += fmt::format("  {:>9}  {}{}\n", duration_text(result->duration_ns), printable_line(result->info.id),
                        repetition_text(*result));
  return text.empty() ? text : "slowest:\n" + text;
}

/// The ranks' activities when the user ended the run.
std::string interruptions_text(const Report& report, const Paint& paint) {
  std::string text;
  for (const WorldResult& world : report.worlds) {
    const bool was_interrupted = std::ranges::any_of(
        world.endings, [](const protocol::Ending& ending) { return ending.how == protocol::Ending::How::interrupted; });
    if (was_interrupted && !world.explanation.empty())
      text += fmt::format("{} world {}: {}\n", paint(Hue::yellow, "INTERRUPTED"), world.number,
                          printable_line(world.explanation));
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
      text += fmt::format("{} world {}: {}\n", paint(Hue::yellow, "NCCL"), world.number, printable_line(world.nccl[k]));
  }
  return text;
}

}  // namespace

std::vector<std::size_t> by_number(const std::vector<WorldResult>& worlds) {
  std::vector<std::size_t> order(worlds.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t index) { return worlds[index].number; });
  return order;
}

std::string defects_text(const Report& report, const TextStyle& style) {
  const Paint paint(style.color);
  constexpr std::size_t shown = 20;
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  std::map<std::string, std::size_t> index_of;
  const auto add = [&](int world, std::string text) {
    const auto [index, is_new] = index_of.try_emplace(text, groups.size());
    if (is_new) groups.push_back({std::move(text), {}});
    groups[index->second].second.push_back(world);
  };
  for (const std::size_t index : by_number(report.worlds)) {
    const WorldResult& world = report.worlds[index];
    const auto& defects = world.defects;
    const auto few = style.verbose ? defects.size() : std::min(defects.size(), shown);
    for (std::size_t k = 0; k < few; ++k) add(world.number, printable_line(defects[k]));
    if (few < defects.size()) add(world.number, fmt::format("{} more", defects.size() - few));
  }
  std::string text;
  for (const auto& [sentence, worlds] : groups) {
    const std::size_t others = worlds.size() - 1;
    text +=
        fmt::format("{} world {}{}: {}\n", paint(Hue::red, "EVIDENCE"), worlds.front(),
                    others == 0 ? "" : fmt::format(" and {} {}", others, others == 1 ? "other" : "others"), sentence);
  }
  return text;
}

std::string not_run_text(const Report& report, const TextStyle& style) {
  const Paint paint(style.color);
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
    text += fmt::format("{} {}{}", i == 0 ? ":" : ",", printable_line(ids[i]),
                        times[ids[i]] == 1 ? "" : fmt::format(" ({} times)", times[ids[i]]));
  }
  return text + (ids.size() > few ? fmt::format(" and {} more\n", ids.size() - few) : "\n");
}

std::vector<const CaseResult*> slowest_cases(const Report& report, std::size_t most) {
  std::vector<const CaseResult*> slowest;
  for (const auto& result : report.cases) slowest.push_back(&result);
  const auto few = std::min(slowest.size(), most);
  std::ranges::partial_sort(slowest, slowest.begin() + static_cast<std::ptrdiff_t>(few),
                            [](const CaseResult* a, const CaseResult* b) {
                              // equally slow cases keep the order of the report
                              return a->duration_ns != b->duration_ns ? a->duration_ns > b->duration_ns : a < b;
                            });
  slowest.resize(few);
  return slowest;
}

std::string totals_text(const Report& report, bool color) {
  const Paint paint(color);
  Tally tally;
  for (const CaseResult& result : report.cases) {
    if (!result.superseded) tally.add(result);
  }
  std::string text = text_of(
      tally, paint, fmt::format(" in {} {}", report.worlds.size(), report.worlds.size() == 1 ? "world" : "worlds"));
  if (report.cases.empty()) text += ": nothing ran";
  const auto flaky = report.flaky();
  if (!flaky.empty()) text += fmt::format("; {}", paint(Hue::yellow, fmt::format("{} flaky", flaky.size())));
  return text;
}

std::string summary(const Report& report, const TextStyle& style) {
  const Paint paint(style.color);
  std::string text;
  if (style.verbose && !style.quiet) text += all_cases_text(report, paint);
  if (const std::string failures = failures_text(report, style); !failures.empty())
    text += fmt::format("{}{}", text.empty() ? "" : "\n", failures);
  std::string rest = defects_text(report, style) + interruptions_text(report, paint) + nccl_text(report, style, paint) +
                     not_run_text(report, style) + findings_text(report, paint);
  if (!style.quiet) {
    rest += waivers_text(report, paint) + skips_text(report, paint);
    for (const auto& id : report.flaky())
      rest += fmt::format("{} {}\n", paint(Hue::yellow, "FLAKY"), printable_line(id));
  }
  rest += slowest_text(report, style.slowest.value_or(style.verbose && !style.quiet ? slowest_shown : 0));
  if (!style.quiet) rest += world_text(report);
  if (!text.empty() && !rest.empty()) text += '\n';
  const std::string time =
      style.run_time ? fmt::format(" ({:.2f} s)", std::chrono::duration<double>(*style.run_time).count()) : "";
  return fitted(text + rest + totals_text(report, style.color) + time + "\n");
}

}  // namespace shardproof::reports
