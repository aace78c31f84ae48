#include "reports/play/play_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "harness/trace/order.hpp"
#include "reports/play/play_counts.hpp"

namespace shardproof::reports {

namespace {

// With more steps, the table of waits is too large to be worth its time.
constexpr std::size_t most_steps_with_waits = 2000;

struct Order {
  trace::Structure structure;  ///< steps have only kind and label
  std::vector<std::size_t> begins, ends;  ///< by step: its first and its last fact
};

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

std::optional<PlayDifference> compare_steps(const Order& first, const Order& second, std::size_t rank) {
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

}  // namespace

OrderComparison compare_orders(const std::vector<protocol::PlayResult>& first,
                               const std::vector<protocol::PlayResult>& second) {
  OrderComparison comparison;
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
    comparison.first = compare_steps(orders[rank].first, orders[rank].second, rank);
    if (comparison.first) return comparison;
  }
  for (std::size_t rank = 0; comparison.with_waits && rank < orders.size(); ++rank) {
    auto& [one, other] = orders[rank];
    find_waits(one, traces[rank].first);
    find_waits(other, traces[rank].second);
    comparison.first = compare_waits(one, other, rank);
    if (comparison.first) return comparison;
  }
  return comparison;
}

}  // namespace shardproof::reports
