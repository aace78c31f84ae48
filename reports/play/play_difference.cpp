#include "reports/play/play_difference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <variant>

#include "harness/trace/order.hpp"
#include "harness/trace/words.hpp"
#include "reports/export/terminal.hpp"
#include "reports/export/traceback.hpp"
#include "reports/play/compiled_steps.hpp"
#include "reports/play/play_bits.hpp"

namespace shardproof::reports {

namespace {

using Json = nlohmann::ordered_json;
using PlayedRanks = std::vector<PlayResult>;

// -- Verdicts ---------------------------------------------------------------------------------------------------------

std::string outcome(const SubjectPlay& play) {
  std::string text(to_string(play.verdict));
  if (!play.why.empty()) text += "\n" + play.why;
  return text;
}

std::optional<PlayDifference> compare_verdicts(const SubjectPlay& first, const SubjectPlay& second) {
  if (first.verdict == second.verdict && first.ranks.empty() == second.ranks.empty()) return std::nullopt;
  std::string what = "both play it to its end, and they have different verdicts";
  if (first.ranks.empty() != second.ranks.empty()) what = "only one of them plays it to its end";
  else if (first.ranks.empty()) what = "neither plays it to its end, and they end otherwise";
  return PlayDifference{
      .aspect = Aspect::verdict, .what = std::move(what), .values = {outcome(first), outcome(second)}};
}

// -- Totals -----------------------------------------------------------------------------------------------------------

struct Phase {
  const char* name;
  std::optional<Nanoseconds> PhaseTimes::* time;
};

constexpr Phase compared_phases[] = {{"forward", &PhaseTimes::forward},
                                     {"forward_backward", &PhaseTimes::forward_backward},
                                     {"exposed", &PhaseTimes::exposed}};

std::string time_text(std::optional<Nanoseconds> time) { return time ? trace::in_time(*time) : "none"; }

std::optional<Nanoseconds> time_of(const PlayResult& rank, std::size_t iteration, const Phase& phase) {
  return iteration < rank.times.phases.size() ? rank.times.phases[iteration].*phase.time : std::nullopt;
}

std::optional<PlayDifference> compare_totals(const PlayedRanks& first, const PlayedRanks& second) {
  std::size_t iterations = 0;
  for (const PlayedRanks* ranks : {&first, &second}) {
    for (const PlayResult& rank : *ranks) iterations = std::max(iterations, rank.times.phases.size());
  }
  for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
    for (const Phase& phase : compared_phases) {
      for (std::size_t rank = 0; rank < first.size(); ++rank) {
        const auto one = time_of(first[rank], iteration, phase), other = time_of(second[rank], iteration, phase);
        if (one == other) continue;
        return PlayDifference{.aspect = Aspect::totals,
                              .what = phase.name,
                              .rank = static_cast<int>(rank),
                              .iteration = static_cast<int>(iteration),
                              .values = {time_text(one), time_text(other)}};
      }
    }
  }
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    if (first[rank].times.total == second[rank].times.total) continue;
    return PlayDifference{.aspect = Aspect::totals,
                          .what = "total",
                          .rank = static_cast<int>(rank),
                          .values = {time_text(first[rank].times.total), time_text(second[rank].times.total)}};
  }
  return std::nullopt;
}

// -- Order ------------------------------------------------------------------------------------------------------------

// With more steps, the table of waits is too large to be worth its time.
constexpr std::size_t most_steps_with_waits = 2000;

struct Order {
  trace::Structure structure;  ///< steps have only kind and label
  std::vector<std::size_t> begins, ends;  ///< by step: its first and its last fact
};

/// The fact as a collective, if it is compared. Engines may choose how ranks agree on the sizes of extensions, as long
/// as they agree.
const fact::Collective* compared_collective(const Fact& fact) {
  const auto* collective = std::get_if<fact::Collective>(&fact);
  return collective == nullptr || collective->tag == extension_sizes_tag ? nullptr : collective;
}

/// Removes the host's waits for such agreements: engines may choose them, too.
Trace without_waits_for_agreements(const Trace& trace) {
  Trace rest{.rank = trace.rank, .facts = {}};
  bool has_agreed = false;
  for (const Fact& fact : trace.facts) {
    const auto* collective = std::get_if<fact::Collective>(&fact);
    const bool waits =
        std::holds_alternative<fact::StreamSynchronized>(fact) || std::holds_alternative<fact::EventSynchronized>(fact);
    if (has_agreed && waits) continue;
    // The host waits for events that are recorded in between.
    has_agreed = collective != nullptr ? collective->tag == extension_sizes_tag
                                       : has_agreed && std::holds_alternative<fact::EventRecorded>(fact);
    rest.facts.push_back(fact);
  }
  return rest;
}

// The order of collectives and modules' computation. An engine may compute a module's forward in one piece or in
// several. So consecutive work for one module is one step.
Order order_of(const Trace& trace) {
  Order order;
  for (std::size_t index = 0; index < trace.facts.size(); ++index) {
    trace::Step step;
    if (const auto* work = std::get_if<fact::Work>(&trace.facts[index])) {
      if (work->kind != WorkKind::forward && work->kind != WorkKind::backward) continue;
      step.kind = to_string(work->kind);
      step.label = work->label;
      if (!order.structure.steps.empty() && order.structure.steps.back() == step) {
        order.ends.back() = index;
        continue;
      }
    } else if (const auto* collective = compared_collective(trace.facts[index])) {
      step.kind = to_string(collective->kind);
      step.label = collective->tag;
    } else {
      continue;
    }
    order.structure.steps.push_back(std::move(step));
    order.begins.push_back(index);
    order.ends.push_back(index);
  }
  return order;
}

void find_waits(Order& order, const Trace& trace) {
  const trace::HappensBefore before(trace);
  const std::size_t count = order.structure.steps.size();
  order.structure.before.resize(count * count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j)
      order.structure.before[i * count + j] = before.before(order.ends[i], order.begins[j]);
  }
}

std::string step_text(const trace::Step& step) { return fmt::format("{} \"{}\"", step.kind, step.label); }

std::string step_text(const Order& order, std::size_t step) {
  return step < order.structure.steps.size() ? step_text(order.structure.steps[step]) : "nothing more";
}

std::string before_it(const Order& order, std::size_t step) {
  constexpr std::size_t shown = 3;
  std::string text = step > shown ? "before it, on both: …" : "before it, on both:";
  for (std::size_t i = step > shown ? step - shown : 0; i < step; ++i)
    text += fmt::format("{} {}", i == 0 || text.ends_with("…") || text.ends_with(":") ? "" : ",", step_text(order, i));
  return step == 0 ? "it is the first" : text;
}

std::optional<PlayDifference> compare_order(const Order& first, const Order& second, std::size_t rank) {
  const std::vector<trace::Step>&one = first.structure.steps, &other = second.structure.steps;
  const auto [here, there] = std::ranges::mismatch(one, other);
  if (here == one.end() && there == other.end()) return std::nullopt;
  const auto step = static_cast<std::size_t>(here - one.begin());
  return PlayDifference{.aspect = Aspect::order,
                        .what = fmt::format("step {}", step),
                        .rank = static_cast<int>(rank),
                        .values = {step_text(first, step), step_text(second, step)},
                        .more = before_it(first, step)};
}

std::optional<PlayDifference> compare_waits(const Order& first, const Order& second, std::size_t rank) {
  const auto edge = trace::different_edge(first.structure, second.structure);
  if (!edge) return std::nullopt;
  const std::string waits = "waits", need_not = "need not wait";
  return PlayDifference{.aspect = Aspect::order,
                        .what = fmt::format("step {}, {}, and what it waits for: step {}, {}", edge->to,
                                            step_text(first, edge->to), edge->from, step_text(first, edge->from)),
                        .rank = static_cast<int>(rank),
                        .values = {edge->is_expected ? waits : need_not, edge->is_expected ? need_not : waits}};
}

std::optional<PlayDifference> compare_orders(const PlayedRanks& first, const PlayedRanks& second,
                                             PlayComparison& comparison) {
  std::vector<std::pair<Trace, Trace>> traces;
  std::vector<std::pair<Order, Order>> orders;
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    const auto& [here, there] = traces.emplace_back(without_waits_for_agreements(first[rank].times.trace),
                                                    without_waits_for_agreements(second[rank].times.trace));
    auto& [one, other] = orders.emplace_back(order_of(here), order_of(there));
    comparison.steps += one.structure.steps.size();
    comparison.with_waits = comparison.with_waits && one.structure.steps.size() <= most_steps_with_waits;
  }
  for (std::size_t rank = 0; rank < orders.size(); ++rank) {
    if (auto found = compare_order(orders[rank].first, orders[rank].second, rank)) return found;
  }
  if (!comparison.with_waits) return std::nullopt;
  for (std::size_t rank = 0; rank < orders.size(); ++rank) {
    auto& [one, other] = orders[rank];
    find_waits(one, traces[rank].first);
    find_waits(other, traces[rank].second);
    if (auto found = compare_waits(one, other, rank)) return found;
  }
  return std::nullopt;
}

// -- Counts -----------------------------------------------------------------------------------------------------------

/// The properties that distinguish collectives. Each property includes those before it.
enum class Sense : std::uint8_t {
  kind,
  tag,  ///< what the collectives are for
  sizes,  ///< sizes and ranks of the exchange
};

struct Sort {
  std::string kind, tag, sizes;
  friend auto operator<=>(const Sort&, const Sort&) = default;
};

/// The number of collectives of each sort that a rank has issued.
using Counts = std::map<Sort, std::size_t>;

Sort sort_of(const fact::Collective& collective, Sense sense) {
  Sort sort{.kind = std::string(to_string(collective.kind)), .tag = {}, .sizes = {}};
  if (sense == Sense::kind) return sort;
  sort.tag = collective.tag;
  if (sense == Sense::tag) return sort;
  if (collective.op != ReduceOp::none) sort.sizes = fmt::format("{}, ", to_string(collective.op));
  sort.sizes += fmt::format("{} -> {} {}, ranks {}", collective.in_count, collective.out_count,
                            to_string(collective.dtype), fmt::join(collective.group, " "));
  return sort;
}

Counts counts(const Trace& trace, Sense sense) {
  Counts counts;
  for (const Fact& fact : trace.facts) {
    if (const auto* collective = compared_collective(fact)) ++counts[sort_of(*collective, sense)];
  }
  return counts;
}

/// The first sort with different numbers.
std::optional<Sort> different(const Counts& first, const Counts& second) {
  for (const auto& [sort, count] : first) {
    const auto found = second.find(sort);
    if (found == second.end() || found->second != count) return sort;
  }
  const auto surplus = std::ranges::find_if(second, [&](const auto& entry) { return !first.contains(entry.first); });
  return surplus == second.end() ? std::nullopt : std::optional(surplus->first);
}

std::string count_text(const Counts& counts, const Sort& sort) {
  const auto found = counts.find(sort);
  return fmt::format("{}", found == counts.end() ? 0 : found->second);
}

/// The exchanges of the collectives with this kind and tag.
std::string exchanged(const Counts& counts, const Sort& wanted) {
  std::vector<std::string> texts;
  for (const auto& [sort, count] : counts) {
    if (sort.kind == wanted.kind && sort.tag == wanted.tag) texts.push_back(fmt::format("{} of {}", count, sort.sizes));
  }
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, "\n"));
}

PlayDifference unlike(const Counts& first, const Counts& second, const Sort& sort, Sense sense) {
  const std::string what = sense == Sense::kind ? sort.kind : fmt::format("{} \"{}\"", sort.kind, sort.tag);
  if (sense == Sense::sizes)
    return {.aspect = Aspect::counts,
            .what = what + ", what is exchanged",
            .values = {exchanged(first, sort), exchanged(second, sort)}};
  return {.aspect = Aspect::counts,
          .what = what + ", how many",
          .values = {count_text(first, sort), count_text(second, sort)}};
}

std::optional<PlayDifference> compare_counts(const PlayedRanks& first, const PlayedRanks& second) {
  for (const Sense sense : {Sense::kind, Sense::tag, Sense::sizes}) {
    for (std::size_t rank = 0; rank < first.size(); ++rank) {
      const Counts one = counts(first[rank].times.trace, sense), other = counts(second[rank].times.trace, sense);
      const auto sort = different(one, other);
      if (!sort) continue;
      PlayDifference found = unlike(one, other, *sort, sense);
      found.rank = static_cast<int>(rank);
      return found;
    }
  }
  return std::nullopt;
}

std::size_t collectives(const PlayedRanks& ranks) {
  std::size_t count = 0;
  for (const PlayResult& rank : ranks)
    count += static_cast<std::size_t>(std::ranges::count_if(
        rank.times.trace.facts, [](const Fact& fact) { return compared_collective(fact) != nullptr; }));
  return count;
}

// -- Words ------------------------------------------------------------------------------------------------------------

std::string place_text(const PlayDifference& difference) {
  std::string text = difference.what;
  if (difference.index) text += fmt::format(", element {}", *difference.index);
  if (difference.iteration)
    text += fmt::format(", {} {}", difference.aspect == Aspect::bits ? "capture" : "iteration", *difference.iteration);
  if (difference.rank) text += fmt::format(", rank {}", *difference.rank);
  return text;
}

std::string alike_text(const PlayComparison& comparison, Aspect aspect) {
  switch (aspect) {
    case Aspect::verdict: return comparison.both_played ? "alike" : "alike: neither plays it to its end";
    case Aspect::totals: return "alike";
    case Aspect::order:
      return fmt::format(
          "alike: {} collectives and computations of modules{}", comparison.steps,
          comparison.with_waits ? ", and what each waits for" : "; too many to look at what each waits for");
    case Aspect::counts: return fmt::format("alike: {} collectives", comparison.collectives);
    case Aspect::plan: return fmt::format("alike: {} compiled steps", comparison.compiled_steps);
    case Aspect::bits:
      return comparison.elements == 0 ? "nothing was captured"
                                      : fmt::format("alike: {} captured values", comparison.elements);
  }
  return {};
}

constexpr std::string_view value_margin = "         ";

/// The first lines of a text, as many as a shortened traceback needs, and the number of further lines.
std::string beginning(std::string_view whole) {
  constexpr std::size_t shown = 10;
  const std::string text = shortened_tracebacks(whole);
  std::size_t end = 0;
  for (std::size_t line = 0; line < shown && end < text.size(); ++line)
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  const auto more = std::ranges::count(std::string_view(text).substr(end), '\n');
  return fmt::format("{}{}", text.substr(0, end), more > 0 ? fmt::format("and {} more lines\n", more) : std::string());
}

std::string difference_text(const PlayComparison& comparison, const PlayDifference& difference) {
  std::string text = fmt::format("differ: {}\n", printable(place_text(difference)));
  for (std::size_t side = 0; side < comparison.subjects.size(); ++side) {
    const std::string value = printable(difference.values[side]);
    const std::size_t end = std::min(value.find('\n'), value.size());
    text += fmt::format("{}{}: {}\n", value_margin, printable(comparison.subjects[side]), value.substr(0, end));
    if (end < value.size())
      text += indented(beginning(value.substr(end + 1) + "\n"), fmt::format("{}  ", value_margin));
  }
  return text + indented(printable(difference.more), value_margin);
}

}  // namespace

std::string_view to_string(Aspect aspect) {
  switch (aspect) {
    case Aspect::verdict: return "verdict";
    case Aspect::totals: return "totals";
    case Aspect::order: return "order";
    case Aspect::counts: return "counts";
    case Aspect::plan: return "plan";
    case Aspect::bits: return "bits";
  }
  return "unknown";
}

const PlayDifference* PlayComparison::find(Aspect aspect) const {
  const auto found = std::ranges::find(differences, aspect, &PlayDifference::aspect);
  return found == differences.end() ? nullptr : &*found;
}

PlayComparison compare(const SubjectPlay& first, const SubjectPlay& second, std::uint64_t ulps) {
  PlayComparison comparison{.subjects = {first.subject, second.subject},
                            .both_played = !first.ranks.empty() && !second.ranks.empty()};
  const auto keep = [&](std::optional<PlayDifference> difference) {
    if (difference) comparison.differences.push_back(*std::move(difference));
  };
  keep(compare_verdicts(first, second));
  if (!comparison.both_played) return comparison;
  if (first.ranks.size() != second.ranks.size()) {
    throw std::invalid_argument(
        fmt::format("{} played on {} ranks, {} on {}: only plays on as many ranks can be compared", first.subject,
                    first.ranks.size(), second.subject, second.ranks.size()));
  }
  comparison.ranks = first.ranks.size();
  keep(compare_totals(first.ranks, second.ranks));
  keep(compare_orders(first.ranks, second.ranks, comparison));
  comparison.collectives = collectives(first.ranks);
  keep(compare_counts(first.ranks, second.ranks));
  CompiledStepsComparison compiled = compare_compiled_steps(first.ranks, second.ranks);
  comparison.compiled_steps = compiled.compared;
  keep(std::move(compiled.first));
  BitsComparison bits = compare_bits(first.ranks, second.ranks, ulps);
  comparison.elements = bits.compared;
  keep(std::move(bits.first));
  return comparison;
}

Json to_json(const PlayComparison& comparison) {
  Json json{{"alike", comparison.alike()},
            {"subjects", comparison.subjects},
            {"both_played", comparison.both_played},
            {"differences", Json::array()}};
  for (const PlayDifference& difference : comparison.differences) {
    Json& written =
        json["differences"].emplace_back(Json{{"aspect", to_string(difference.aspect)}, {"what", difference.what}});
    if (difference.rank) written["rank"] = *difference.rank;
    if (difference.iteration) written["iteration"] = *difference.iteration;
    if (difference.index) written["index"] = *difference.index;
    written["values"] = difference.values;
    if (!difference.more.empty()) written["more"] = difference.more;
  }
  json["compared"] = {{"ranks", comparison.ranks},
                      {"steps", comparison.steps},
                      {"waits", comparison.with_waits},
                      {"collectives", comparison.collectives},
                      {"values", comparison.elements}};
  if (comparison.compiled_steps > 0) json["compared"]["compiled_steps"] = comparison.compiled_steps;
  return json;
}

std::string to_text(const PlayComparison& comparison) {
  std::string text;
  for (const Aspect aspect : all_aspects) {
    if (aspect != Aspect::verdict && !comparison.both_played) continue;
    const PlayDifference* difference = comparison.find(aspect);
    if (aspect == Aspect::plan && difference == nullptr && comparison.compiled_steps == 0) continue;
    text += fmt::format(
        "{:9}{}", to_string(aspect),
        difference != nullptr ? difference_text(comparison, *difference) : alike_text(comparison, aspect) + "\n");
  }
  return text;
}

}  // namespace shardproof::reports
