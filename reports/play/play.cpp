#include "reports/play/play.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/base/rank_list.hpp"
#include "harness/protocol/step_graph_json.hpp"
#include "harness/trace/timeline.hpp"
#include "harness/trace/words.hpp"
#include "reports/export/terminal.hpp"
#include "reports/play/play_calls.hpp"
#include "reports/play/play_norms.hpp"

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

/// The phases of one iteration, or of one micro-batch, on all ranks that have it.
using WorldPhases = std::vector<const PhaseTimes*>;

WorldPhases phases_of(const WorldTimes& ranks, std::size_t iteration) {
  WorldPhases phases;
  for (const protocol::PlayTimes* rank : ranks) {
    if (iteration < rank->phases.size()) phases.push_back(&rank->phases[iteration]);
  }
  return phases;
}

WorldPhases micro_batch_of(const WorldPhases& iteration, std::size_t number) {
  WorldPhases phases;
  for (const PhaseTimes* rank : iteration) {
    if (number < rank->micro_batches.size()) phases.push_back(&rank->micro_batches[number]);
  }
  return phases;
}

std::size_t micro_batches(const WorldPhases& iteration) {
  std::size_t most = 0;
  for (const PhaseTimes* rank : iteration) most = std::max(most, rank->micro_batches.size());
  return most;
}

/// The slowest rank's time of a phase. Empty: no rank has a time.
std::optional<Nanoseconds> slowest(const WorldPhases& ranks, std::optional<Nanoseconds> PhaseTimes::* phase) {
  std::optional<Nanoseconds> most;
  for (const PhaseTimes* rank : ranks) {
    if (const auto& time = rank->*phase; time && (!most || *time > *most)) most = time;
  }
  return most;
}

/// The slowest rank's time of each evaluate of an iteration.
std::vector<Nanoseconds> slowest_evaluates(const std::vector<std::vector<CallTimes>>& ranks, std::size_t iteration) {
  std::vector<Nanoseconds> most;
  for (const std::vector<CallTimes>& calls : ranks) {
    const std::vector<Nanoseconds> times = times_of(calls, static_cast<int>(iteration), "evaluate");
    most.resize(std::max(most.size(), times.size()));
    for (std::size_t i = 0; i < times.size(); ++i) most[i] = std::max(most[i], times[i]);
  }
  return most;
}

std::vector<std::vector<CallTimes>> calls_of(const WorldTimes& ranks) {
  std::vector<std::vector<CallTimes>> calls;
  for (const protocol::PlayTimes* rank : ranks) calls.push_back(call_times(rank->trace));
  return calls;
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

Json times(const WorldPhases& ranks) {
  Json json = Json::object();
  const auto put = [&](const char* name, std::optional<Nanoseconds> PhaseTimes::* phase) {
    if (const auto time = slowest(ranks, phase)) json[name] = *time;
  };
  put("forward", &PhaseTimes::forward);
  put("forward_backward", &PhaseTimes::forward_backward);
  put("exposed", &PhaseTimes::exposed);
  return json;
}

/// A text for a number that JSON does not have: `inf`, `nan`.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value)); }

Json iteration_times(const WorldTimes& ranks, const std::vector<std::vector<CallTimes>>& calls, std::size_t iteration) {
  const WorldPhases phases = phases_of(ranks, iteration);
  Json json = times(phases);
  if (const auto evaluates = slowest_evaluates(calls, iteration); !evaluates.empty()) json["evaluate"] = evaluates;
  for (std::size_t i = 0; i < micro_batches(phases); ++i)
    json["micro_batches"].push_back(times(micro_batch_of(phases, i)));
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
  const std::vector<CallTimes> calls = call_times(rank.times.trace);
  json["compute_end"] = compute_end(calls);
  json["calls"] = Json::array();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const CallTimes& call = calls[i];
    Json& written = json["calls"].emplace_back(Json{{"iteration", call.iteration},
                                                    {"call", call.call},
                                                    {"number", call.number},
                                                    {"start", call.start},
                                                    {"end", call.end},
                                                    {"collectives", {call.first_collective, call.end_collective}}});
    if (i < rank.micro_batches.size()) written["micro_batch"] = rank.micro_batches[i];
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
    Json& written = json["iterations"].emplace_back(Json{{"iteration", iteration.iteration},
                                                         {"loss", protocol::bits_of(iteration.loss)},
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

// Four digits, in the largest unit that gives at least one.
std::string about(double nanoseconds) {
  struct Unit {
    double ns;
    std::string_view name;
  };
  constexpr Unit units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}};
  for (const Unit& unit : units) {
    if (nanoseconds >= unit.ns) return fmt::format("{:.4g} {}", nanoseconds / unit.ns, unit.name);
  }
  return fmt::format("{:.4g} ns", nanoseconds);
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
  return fmt::format("{}  a column is {}; {}\n", text, about(column), legend);
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

// A name that is too long for its column takes room of the next.
std::string row(std::string_view name, std::string_view forward, std::string_view both, std::string_view exposed) {
  constexpr std::size_t first = 14, second = 12;
  const std::size_t more = std::min(name.size() - std::min(name.size(), first), second);
  return fmt::format("{:{}} {:>{}} {:>18} {:>12}\n", name, first, forward, second - more, both, exposed);
}

std::string row(std::string_view name, const WorldPhases& ranks) {
  const auto cell = [&](std::optional<Nanoseconds> PhaseTimes::* phase) {
    const auto time = slowest(ranks, phase);
    return time ? in_time(*time) : std::string("-");
  };
  return row(name, cell(&PhaseTimes::forward), cell(&PhaseTimes::forward_backward), cell(&PhaseTimes::exposed));
}

constexpr std::size_t most_rows = 8;  // of iterations, and of micro-batches in each

std::string micro_batch_rows(const WorldPhases& iteration) {
  const std::size_t count = micro_batches(iteration);
  std::string text;
  for (std::size_t i = 0; i < std::min(count, most_rows); ++i)
    text += row(fmt::format("  micro-batch {}", i), micro_batch_of(iteration, i));
  if (count > most_rows) text += fmt::format("  … and {} more micro-batches\n", count - most_rows);
  return text;
}

std::string table(std::span<const PlayResult> ranks, const WorldResult& world) {
  const WorldTimes exact = virtual_times(ranks), measured = measured_times(ranks);
  const std::vector<std::vector<CallTimes>> calls = calls_of(exact);
  std::string text = row("", "forward", "forward+backward", "exposed");
  for (std::size_t i = 0; i < std::min(iterations(ranks), most_rows); ++i) {
    text += row(fmt::format("iteration {}", i), phases_of(exact, i));
    if (!measured.empty()) text += row("    measured", phases_of(measured, i));
    text += micro_batch_rows(phases_of(exact, i));
    for (const Nanoseconds time : slowest_evaluates(calls, i)) text += row("  evaluate", in_time(time), "-", "-");
  }
  if (iterations(ranks) > most_rows) text += fmt::format("… and {} more iterations\n", iterations(ranks) - most_rows);
  text += fmt::format("total {}", in_time(total(exact)));
  for (const GradientNorm& norm : gradient_norms(ranks) | std::views::take(most_rows))
    text += fmt::format("\niteration {}: gradients have the norm {:.6g} before they are clipped to {:.6g}",
                        norm.iteration, norm.norm, norm.max_norm);
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
  const std::vector<std::vector<CallTimes>> calls = calls_of(exact);
  Json json{{"totals_ns", times(phases_of(exact, 0))}};
  json["totals_ns"]["total"] = total(exact);
  if (!measured.empty()) {
    json["measured_ns"] = times(phases_of(measured, 0));
    json["measured_ns"]["total"] = total(measured);
    json["times"] = world.times;
    if (!world.unfit_for_timing.empty()) json["unfit_for_timing"] = world.unfit_for_timing;
  }
  json["iterations_ns"] = Json::array();
  for (std::size_t i = 0; i < iterations(ranks); ++i) json["iterations_ns"].push_back(iteration_times(exact, calls, i));
  Nanoseconds end = 0;
  for (const std::vector<CallTimes>& rank : calls) end = std::max(end, compute_end(rank));
  json["compute_end_ns"] = end;
  json["gradient_norms"] = Json::array();
  for (const GradientNorm& norm : gradient_norms(ranks))
    json["gradient_norms"].push_back(
        {{"iteration", norm.iteration}, {"norm", number(norm.norm)}, {"max_norm", number(norm.max_norm)}});
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
