#include "reports/play/play.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/base/rank_list.hpp"
#include "harness/protocol/step_graph_json.hpp"
#include "harness/trace/timeline.hpp"
#include "harness/trace/words.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::reports {

using protocol::PhaseTimes;
using protocol::PlayResult;

namespace {

using Json = nlohmann::ordered_json;
using trace::in_time;

/// The times of all ranks, by one clock.
using WorldTimes = std::vector<const protocol::PlayTimes*>;

WorldTimes virtual_times(std::span<const PlayResult> ranks) {
  WorldTimes times;
  for (const PlayResult& rank : ranks) times.push_back(&rank.times);
  return times;
}

/// Empty if no times were measured.
WorldTimes measured_times(std::span<const PlayResult> ranks) {
  WorldTimes times;
  for (const PlayResult& rank : ranks) {
    if (rank.measured) times.push_back(&*rank.measured);
  }
  return times;
}

/// The slowest rank's time of a phase. Empty: no rank has a time.
std::optional<Nanoseconds> slowest(const WorldTimes& ranks, std::size_t iteration,
                                   std::optional<Nanoseconds> PhaseTimes::* phase) {
  std::optional<Nanoseconds> most;
  for (const protocol::PlayTimes* rank : ranks) {
    if (iteration >= rank->phases.size()) continue;
    if (const auto& time = rank->phases[iteration].*phase; time && (!most || *time > *most)) most = time;
  }
  return most;
}

Nanoseconds total(const WorldTimes& ranks) {
  Nanoseconds most = 0;
  for (const protocol::PlayTimes* rank : ranks) most = std::max(most, rank->total);
  return most;
}

std::size_t iterations(std::span<const PlayResult> ranks) {
  return ranks.empty() ? 0 : ranks.front().times.phases.size();
}

std::vector<fact::Collective> collectives(const Trace& trace) {
  std::vector<fact::Collective> found;
  for (const Fact& fact : trace.facts) {
    if (const auto* collective = std::get_if<fact::Collective>(&fact)) found.push_back(*collective);
  }
  return found;
}

// -- JSON -------------------------------------------------------------------------------------------------------------

Json times(const WorldTimes& ranks, std::size_t iteration) {
  Json json = Json::object();
  const auto put = [&](const char* name, std::optional<Nanoseconds> PhaseTimes::* phase) {
    if (const auto time = slowest(ranks, iteration, phase)) json[name] = *time;
  };
  put("forward", &PhaseTimes::forward);
  put("forward_backward", &PhaseTimes::forward_backward);
  put("exposed", &PhaseTimes::exposed);
  return json;
}

Json values(const std::vector<protocol::PlayedTensor>& tensors) {
  Json json = Json::object();
  for (const protocol::PlayedTensor& tensor : tensors) {
    json[tensor.name] = {{"dtype", to_string(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"dim", tensor.dim},
                         {"start", tensor.start},
                         {"hex", tensor.bits}};
  }
  return json;
}

/// The compiled passes of an iteration of the script, in the order in which the rank played them.
Json compiled(const PlayResult& rank, int iteration) {
  Json json = Json::array();
  for (const protocol::PlayedStep& step : rank.compiled_steps) {
    if (step.iteration != iteration) continue;
    for (const StepGraph& graph : rank.plans.at(step.plan)) json.push_back(graph);
  }
  return json;
}

Json write(const PlayResult& rank) {
  const auto names = streams(rank.times.trace);
  Json json{{"rank", rank.rank},           {"spans", Json::array()},    {"collectives", Json::array()},
            {"iterations", Json::array()}, {"warnings", rank.warnings}, {"hooks", Json::array()},
            {"refusals", rank.refusals}};
  for (const protocol::PlayedHookCall& call : rank.hook_calls) {
    Json& written = json["hooks"].emplace_back(Json{{"iteration", call.iteration},
                                                    {"call", call.during},
                                                    {"hook", call.hook},
                                                    {"point", call.point},
                                                    {"state", call.state},
                                                    {"label", call.label},
                                                    {"count", call.count},
                                                    {"dtype", to_string(call.dtype)},
                                                    {"collective", nullptr}});
    if (call.collective) written["collective"] = *call.collective;
  }
  for (const trace::Span& span : trace::spans(rank.times.trace)) {
    json["spans"].push_back({{"stream", names.at(span.stream).name},
                             {"kind", span.kind},
                             {"label", span.label},
                             {"start", span.start},
                             {"end", span.end}});
  }
  for (const fact::Collective& collective : collectives(rank.times.trace)) {
    json["collectives"].push_back({{"kind", to_string(collective.kind)},
                                   {"group", collective.group},
                                   {"count", collective.in_count},
                                   {"dtype", to_string(collective.dtype)},
                                   {"op", to_string(collective.op)},
                                   {"tag", collective.tag},
                                   {"start", collective.start},
                                   {"end", collective.end}});
  }
  for (const protocol::PlayedIteration& iteration : rank.iterations) {
    Json& written = json["iterations"].emplace_back(Json{{"loss", protocol::bits_of(iteration.loss)},
                                                         {"gradients", values(iteration.gradients)},
                                                         {"parameters", values(iteration.parameters)}});
    if (!iteration.seconds.empty()) written["seconds"] = values(iteration.seconds);
    if (!rank.compiled_steps.empty()) written["compiled"] = compiled(rank, iteration.iteration);
  }
  if (rank.compiled_steps.empty()) return json;
  json["compiled_steps"] = Json::array();
  for (const protocol::PlayedStep& step : rank.compiled_steps)
    json["compiled_steps"].push_back({{"iteration", step.iteration}, {"backward", step.backward}, {"plan", step.plan}});
  json["plans"] = rank.plans;
  return json;
}

// -- Text -------------------------------------------------------------------------------------------------------------

struct Letter {
  std::string_view kind;
  char letter;
};

// The kinds of work in a timeline: those that usually take time.
constexpr Letter letters[] = {{"forward", 'F'},    {"backward", 'B'},       {"optimizer", 'O'},      {"loss", 'L'},
                              {"all_gather", 'A'}, {"reduce_scatter", 'R'}, {"all_reduce", 'S'},     {"copy_in", 'i'},
                              {"copy_out", 'o'},   {"reduce_copy_in", 'i'}, {"reduce_copy_out", 'o'}};

char letter_of(std::string_view kind) {
  const auto found = std::ranges::find(letters, kind, &Letter::kind);
  return found == std::end(letters) ? '#' : found->letter;
}

// A line for each stream with work that took time. A column shows the work that fills most of it.
std::string timeline(const Trace& trace, int width) {
  const Nanoseconds end = trace::total(trace);
  if (end == 0) return "  nothing took any time\n";
  const auto names = streams(trace);
  std::map<std::uint32_t, std::vector<trace::Span>> by_stream;
  std::size_t longest_name = 0;
  for (trace::Span& span : trace::spans(trace)) {
    longest_name = std::max(longest_name, names.at(span.stream).name.size());
    by_stream[span.stream].push_back(std::move(span));
  }
  const auto columns =
      static_cast<int>(std::min<Nanoseconds>(end, std::max(10, width - static_cast<int>(longest_name) - 4)));
  const double column = static_cast<double>(end) / columns;
  std::string text;
  std::map<std::string, char> used;
  for (const auto& [stream, spans] : by_stream) {
    std::string line(static_cast<std::size_t>(columns), '.');
    std::vector<double> filled(line.size(), 0);
    for (const trace::Span& span : spans) {
      used[span.kind] = letter_of(span.kind);
      const auto first = static_cast<int>(static_cast<double>(span.start) / column);
      for (int at = first; at < columns && at * column < static_cast<double>(span.end); ++at) {
        const double part = std::min((at + 1) * column, static_cast<double>(span.end)) -
                            std::max(at * column, static_cast<double>(span.start));
        const auto place = static_cast<std::size_t>(at);
        if (part <= filled[place] || part * 4 < column) continue;  // a sliver at the edge is not shown
        filled[place] = part;
        line[place] = letter_of(span.kind);
      }
    }
    text += fmt::format("  {:{}}  {}\n", names.at(stream).name, longest_name, line);
  }
  std::string legend;
  for (const auto& [kind, letter] : used) legend += fmt::format("{}{} {}", legend.empty() ? "" : ", ", letter, kind);
  return fmt::format("{}  a column is {:.4g} ms; {}\n", text, column / 1e6, legend);
}

std::string order(const PlayResult& rank) {
  std::string text;
  std::size_t number = 0;
  for (const fact::Collective& collective : collectives(rank.times.trace)) {
    text += fmt::format("  {:>3}  {:>9} .. {:<9}  {}", number, in_time(collective.start), in_time(collective.end),
                        to_string(collective.kind));
    if (collective.op != ReduceOp::none) text += fmt::format(" ({})", to_string(collective.op));
    text += fmt::format(" \"{}\", {} -> {} {}, ranks {}", collective.tag, collective.in_count, collective.out_count,
                        to_string(collective.dtype), fmt::join(collective.group, " "));
    const auto hook =
        std::ranges::find(rank.hook_calls, std::optional(number++), &protocol::PlayedHookCall::collective);
    text += hook == rank.hook_calls.end() ? "\n" : fmt::format(", by the hook {}, state {}\n", hook->hook, hook->state);
  }
  return text.empty() ? "  none\n" : text;
}

std::string hook_calls(const PlayResult& rank) {
  std::string text;
  for (const protocol::PlayedHookCall& call : rank.hook_calls) {
    text += fmt::format("  iter {} {}: {} at {}, state {}, of \"{}\", {} {}{}\n", call.iteration, call.during,
                        call.hook, call.point, call.state, call.label, call.count, to_string(call.dtype),
                        call.collective ? fmt::format(", collective {}", *call.collective) : "");
  }
  return text.empty() ? "  none\n" : text;
}

std::string row(std::string_view name, const WorldTimes& ranks, std::size_t iteration) {
  const auto cell = [&](std::optional<Nanoseconds> PhaseTimes::* phase) {
    const auto time = slowest(ranks, iteration, phase);
    return time ? in_time(*time) : std::string("-");
  };
  return fmt::format("{:14} {:>12} {:>18} {:>12}\n", name, cell(&PhaseTimes::forward),
                     cell(&PhaseTimes::forward_backward), cell(&PhaseTimes::exposed));
}

std::string table(std::span<const PlayResult> ranks, const WorldResult& world) {
  constexpr std::size_t most_rows = 8;
  const WorldTimes exact = virtual_times(ranks), measured = measured_times(ranks);
  std::string text = fmt::format("{:14} {:>12} {:>18} {:>12}\n", "", "forward", "forward+backward", "exposed");
  for (std::size_t i = 0; i < std::min(iterations(ranks), most_rows); ++i) {
    text += row(fmt::format("iteration {}", i), exact, i);
    if (!measured.empty()) text += row("    measured", measured, i);
  }
  if (iterations(ranks) > most_rows) text += fmt::format("… and {} more iterations\n", iterations(ranks) - most_rows);
  text += fmt::format("total {}", in_time(total(exact)));
  if (measured.empty()) return text + "\n";
  text += fmt::format(", measured {}\nmeasured times come from {}", in_time(total(measured)), printable(world.times));
  if (!world.unfit_for_timing.empty()) text += fmt::format("; unfit for timing: {}", printable(world.unfit_for_timing));
  return text + "\n";
}

/// Groups ranks with equal texts, the lowest rank first.
std::vector<std::vector<int>> ranks_by_text(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<int>> by_text;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) by_text[texts[rank]].push_back(static_cast<int>(rank));
  std::vector<std::vector<int>> groups;
  for (auto& entry : by_text) groups.push_back(std::move(entry.second));
  std::ranges::sort(groups);
  return groups;
}

// Shows text that ranks share once, as `ranks 0, 1: timeline`.
std::string sections(std::span<const PlayResult> ranks, std::string_view heading,
                     const std::function<std::string(const PlayResult&)>& to_text) {
  std::vector<std::string> texts;
  for (const PlayResult& rank : ranks) texts.push_back(to_text(rank));
  std::string text;
  for (const std::vector<int>& group : ranks_by_text(texts)) {
    text +=
        fmt::format("\n{}: {}\n{}", base::rank_list(group), heading, texts[static_cast<std::size_t>(group.front())]);
  }
  return text;
}

}  // namespace

Json to_json(std::span<const PlayResult> ranks, const WorldResult& world) {
  const WorldTimes exact = virtual_times(ranks), measured = measured_times(ranks);
  Json json{{"totals_ns", times(exact, 0)}};
  json["totals_ns"]["total"] = total(exact);
  if (!measured.empty()) {
    json["measured_ns"] = times(measured, 0);
    json["measured_ns"]["total"] = total(measured);
    json["times"] = world.times;
    if (!world.unfit_for_timing.empty()) json["unfit_for_timing"] = world.unfit_for_timing;
  }
  json["iterations_ns"] = Json::array();
  for (std::size_t i = 0; i < iterations(ranks); ++i) json["iterations_ns"].push_back(times(exact, i));
  json["ranks"] = Json::array();
  for (const PlayResult& rank : ranks) json["ranks"].push_back(write(rank));
  return json;
}

std::string to_text(std::span<const PlayResult> ranks, const WorldResult& world, int width) {
  std::string text = table(ranks, world);
  text += sections(ranks, "timeline", [width](const PlayResult& rank) { return timeline(rank.times.trace, width); });
  text += sections(ranks, "collectives, in the order in which they were issued", order);
  if (std::ranges::any_of(ranks, [](const PlayResult& rank) { return !rank.hook_calls.empty(); }))
    text += sections(ranks, "calls of gradient hooks", hook_calls);
  for (const PlayResult& rank : ranks) {
    for (const std::string& warning : rank.warnings)
      text += fmt::format("warning on rank {}: {}\n", rank.rank, warning);
    for (const std::string& refusal : rank.refusals)
      text += fmt::format("refused on rank {}: {}\n", rank.rank, refusal);
  }
  return printable(text);  // names and warnings come from the engine
}

}  // namespace shardproof::reports
