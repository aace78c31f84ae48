#include "reports/play/compiled_steps.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "harness/base/rank_list.hpp"
#include "reports/export/terminal.hpp"
#include "reports/play/step_graph_text.hpp"

namespace shardproof::reports {

using protocol::PlayedStep;
using protocol::PlayResult;

namespace {

/// Consecutive steps with the same plan.
struct StepRange {
  PlayedStep first, last;
};

std::vector<StepRange> step_ranges(const PlayResult& rank) {
  std::vector<StepRange> ranges;
  for (const PlayedStep& step : rank.compiled_steps) {
    if (ranges.empty() || ranges.back().first.plan != step.plan) ranges.push_back({step, step});
    else ranges.back().last = step;
  }
  return ranges;
}

/// `1`, or `1 (backward 2)` if an iteration has several backward passes.
std::string step_number(const PlayResult& rank, const PlayedStep& step) {
  const bool has_several =
      std::ranges::any_of(rank.compiled_steps, [](const PlayedStep& other) { return other.backward > 1; });
  return fmt::format("{}{}", step.iteration, has_several ? fmt::format(" (backward {})", step.backward) : "");
}

std::string step_name(const PlayResult& rank, const PlayedStep& step) { return "iteration " + step_number(rank, step); }

std::string range_name(const PlayResult& rank, const StepRange& range) {
  if (range.first == range.last) return step_name(rank, range.first);
  return fmt::format("iterations {} to {}", step_number(rank, range.first), step_number(rank, range.last));
}

bool compiled_the_same(const PlayResult& a, const PlayResult& b) {
  return a.compiled_steps == b.compiled_steps && a.plans == b.plans;
}

/// Describes the communication of a pass: a line for each all-reduce and each wait. All-reduces have their numbers in
/// the pass.
std::vector<std::string> communication(const StepGraph& graph) {
  std::vector<std::string> lines;
  std::map<std::size_t, std::size_t> written_by;  // by value: the number of its all-reduce
  std::size_t reductions = 0;
  for (const StepNode& node : graph.nodes) {
    if (node.kind == StepNodeKind::all_reduce) {
      std::vector<std::string> operands;
      for (const std::size_t input : node.inputs) {
        if (input >= graph.values.size()) continue;
        std::uint64_t elements = 1;
        for (const std::int64_t extent : graph.values[input].shape) elements *= static_cast<std::uint64_t>(extent);
        operands.push_back(fmt::format("{} {}", elements, to_string(graph.values[input].dtype)));
      }
      for (const std::size_t output : node.outputs) written_by[output] = reductions;
      lines.push_back(fmt::format("all_reduce {} ({}), {}, ranks {}", reductions++, to_string(node.op),
                                  fmt::join(operands, " and "), fmt::join(node.group, " ")));
    } else if (node.kind == StepNodeKind::wait) {
      std::set<std::size_t> waited;
      for (const std::size_t input : node.inputs) {
        if (const auto found = written_by.find(input); found != written_by.end()) waited.insert(found->second);
      }
      lines.push_back(fmt::format("wait for all_reduce {}", fmt::join(waited, ", ")));
    }
  }
  return lines;
}

/// Describes the communication of a step. Each pass begins with a line that names it.
std::vector<std::string> communication(const PlayResult& rank, const PlayedStep& step) {
  std::vector<std::string> lines;
  for (const StepGraph& graph : rank.plans.at(step.plan)) {
    lines.push_back(fmt::format("compiled {}", to_string(graph.pass)));
    for (std::string& line : communication(graph)) lines.push_back(std::move(line));
  }
  return lines;
}

std::optional<PlayDifference> compare_step(const PlayResult& first, const PlayResult& second, std::size_t step) {
  const PlayedStep &here = first.compiled_steps[step], &there = second.compiled_steps[step];
  PlayDifference difference{.aspect = Aspect::plan, .rank = first.rank, .iteration = here.iteration};
  if (here.iteration != there.iteration || here.backward != there.backward) {
    difference.what = "which backwards are compiled";
    difference.values = {step_name(first, here), step_name(second, there)};
    return difference;
  }
  const std::vector<std::string> one = communication(first, here), other = communication(second, there);
  const auto [at, its] = std::ranges::mismatch(one, other);
  if (at == one.end() && its == other.end()) return std::nullopt;
  const auto text = [](auto place, const std::vector<std::string>& lines) {
    return place == lines.end() ? "nothing more" : *place;
  };
  difference.what = fmt::format("communication {} of backward {}", at - one.begin(), here.backward);
  difference.values = {text(at, one), text(its, other)};
  difference.more = at == one.begin() ? "it is the first" : fmt::format("before it, on both: {}", *(at - 1));
  return difference;
}

}  // namespace

bool has_compiled_step(std::span<const PlayResult> ranks) {
  return !ranks.empty() && !ranks.front().compiled_steps.empty();
}

std::string compiled_steps_text(std::span<const PlayResult> ranks) {
  if (!has_compiled_step(ranks)) return fmt::format("{}\n", no_compiled_step);
  const PlayResult& rank = ranks.front();
  std::string text;
  std::map<std::size_t, std::string> shown;  // plans, by the name of their first step
  for (const StepRange& range : step_ranges(rank)) {
    text +=
        fmt::format("{}rank {}: compiled step of {}\n", text.empty() ? "" : "\n", rank.rank, range_name(rank, range));
    const auto [plan, is_new] = shown.try_emplace(range.first.plan, step_name(rank, range.first));
    if (!is_new) {
      text += fmt::format("  as in {}\n", plan->second);
      continue;
    }
    const std::vector<StepGraph>& graphs = rank.plans.at(range.first.plan);
    for (const StepGraph& graph : graphs) text += indented(to_text(graph), "  ");
    if (graphs.empty()) text += "  nothing: all passes ran eagerly\n";
  }
  std::vector<int> others;
  for (const PlayResult& other : ranks) {
    if (!compiled_the_same(rank, other)) others.push_back(other.rank);
  }
  if (!others.empty())
    text += fmt::format("\n{} compiled other steps: --json prints all ranks\n", base::rank_list(others));
  return printable(text);
}

std::string compiled_steps_dot(const PlayResult& rank) {
  std::vector<TitledStepGraph> graphs;
  std::set<std::size_t> drawn;
  for (const StepRange& range : step_ranges(rank)) {
    if (!drawn.insert(range.first.plan).second) continue;
    for (const StepGraph& graph : rank.plans.at(range.first.plan))
      graphs.push_back(
          {fmt::format("rank {}, {}: {}", rank.rank, range_name(rank, range), to_string(graph.pass)), &graph});
  }
  return to_dot(graphs);
}

CompiledStepsComparison compare_compiled_steps(const std::vector<PlayResult>& first,
                                               const std::vector<PlayResult>& second) {
  CompiledStepsComparison comparison;
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    const std::size_t here = first[rank].compiled_steps.size(), there = second[rank].compiled_steps.size();
    comparison.compared += here;
    if (comparison.first) continue;
    if (here != there) {
      comparison.first = PlayDifference{.aspect = Aspect::plan,
                                        .what = "compiled steps, how many",
                                        .rank = first[rank].rank,
                                        .values = {fmt::format("{}", here), fmt::format("{}", there)}};
    }
    for (std::size_t step = 0; step < here && !comparison.first; ++step)
      comparison.first = compare_step(first[rank], second[rank], step);
  }
  return comparison;
}

}  // namespace shardproof::reports
