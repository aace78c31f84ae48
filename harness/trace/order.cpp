#include "harness/trace/order.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "harness/trace/marks.hpp"
#include "harness/trace/vector_clocks.hpp"

namespace shardproof::trace {

HappensBefore::HappensBefore(const Trace& trace) {
  VectorClocks clocks(trace);
  agents_ = clocks.agents();
  rows_.reserve(trace.facts.size());
  for (const Fact& fact : trace.facts) {
    const VectorClocks::Moment moment = clocks.take(fact);
    if (!std::holds_alternative<fact::Work>(fact) && !std::holds_alternative<fact::Collective>(fact)) {
      rows_.push_back(neither);
      continue;
    }
    rows_.push_back(static_cast<std::uint32_t>(agent_.size()));
    agent_.push_back(moment.agent);
    position_.push_back(moment.position);
    clocks_.insert(clocks_.end(), clocks.clock().begin(), clocks.clock().end());
  }
}

std::size_t HappensBefore::row_of(std::size_t fact) const {
  if (fact >= rows_.size())
    throw std::out_of_range(fmt::format("there is no fact {} in a trace of {}", fact, rows_.size()));
  if (rows_[fact] == neither) throw std::out_of_range(fmt::format("fact {} is neither work nor a collective", fact));
  return rows_[fact];
}

bool HappensBefore::before(std::size_t x, std::size_t y) const {
  const std::size_t earlier = row_of(x);
  const std::size_t later = row_of(y);
  return earlier != later && clocks_[later * agents_ + agent_[earlier]] >= position_[earlier];
}

std::vector<fact::Collective> collectives(const Trace& trace, std::string_view from_mark, std::string_view to_mark) {
  const std::size_t from = index_of_mark(trace, from_mark), to = index_of_mark(trace, to_mark, from);
  std::vector<fact::Collective> found;
  for (std::size_t i = from; i < to; ++i) {
    if (const auto* collective = std::get_if<fact::Collective>(&trace.facts[i])) found.push_back(*collective);
  }
  return found;
}

std::string to_string(const Step& step) {
  std::string text = step.kind;
  if (const std::string& name = step.tag.empty() ? step.label : step.tag; !name.empty())
    text += fmt::format(" \"{}\"", name);
  text += fmt::format(" on {}", to_string(step.role));
  if (!step.group.empty()) {
    text += fmt::format(", {} -> {} {}", step.in_count, step.out_count, to_string(step.dtype));
    if (step.op != ReduceOp::none) text += fmt::format(" {}", to_string(step.op));
    text += fmt::format(", group [{}]", fmt::join(step.group, ", "));
  }
  if (!step.phase.empty()) text += fmt::format(", in \"{}\"", step.phase);
  return text;
}

Structure structure(const Trace& trace, bool (*keep)(WorkKind kind, std::string_view label)) {
  const std::map<std::uint32_t, StreamInfo> known = streams(trace);
  const auto role_of = [&](std::uint32_t stream) {
    const auto found = known.find(stream);
    return found == known.end() ? StreamRole::other : found->second.role;
  };
  const HappensBefore order(trace);
  Structure result;
  std::vector<std::size_t> facts;
  std::string phase;
  for (std::size_t index = 0; index < trace.facts.size(); ++index) {
    const Fact& fact = trace.facts[index];
    if (const auto* mark = std::get_if<fact::Mark>(&fact)) {
      phase = mark->text;
    } else if (const auto* work = std::get_if<fact::Work>(&fact)) {
      const bool counts =
          work->kind == WorkKind::forward || work->kind == WorkKind::backward || work->kind == WorkKind::optimizer;
      if (!counts || !keep(work->kind, work->label)) continue;
      Step step{.kind = std::string(to_string(work->kind)),
                .role = role_of(work->stream),
                .label = work->label,
                .group = {},
                .phase = phase};
      result.steps.push_back(std::move(step));
      facts.push_back(index);
    } else if (const auto* collective = std::get_if<fact::Collective>(&fact)) {
      result.steps.push_back({.kind = std::string(to_string(collective->kind)),
                              .role = role_of(collective->stream),
                              .label = {},
                              .in_count = collective->in_count,
                              .out_count = collective->out_count,
                              .dtype = collective->dtype,
                              .op = collective->op,
                              .group = collective->group,
                              .phase = phase,
                              .tag = collective->tag});
      facts.push_back(index);
    }
  }
  const std::size_t n = facts.size();
  result.before.resize(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) result.before[i * n + j] = order.before(facts[i], facts[j]);
  }
  return result;
}

std::optional<Edge> different_edge(const Structure& expected, const Structure& actual) {
  const std::size_t common = std::min(expected.steps.size(), actual.steps.size());
  // The nearest pair first: a missing edge also removes the edges that follow from it, between steps further apart.
  for (std::size_t apart = 1; apart < common; ++apart) {
    for (std::size_t to = apart; to < common; ++to) {
      const std::size_t from = to - apart;
      const bool is_expected = expected.before[from * expected.steps.size() + to];
      if (is_expected != actual.before[from * actual.steps.size() + to])
        return Edge{.from = from, .to = to, .is_expected = is_expected};
    }
  }
  return std::nullopt;
}

std::string difference(const Structure& expected, const Structure& actual) {
  const std::size_t common = std::min(expected.steps.size(), actual.steps.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (expected.steps[i] == actual.steps[i]) continue;
    std::string text = fmt::format("step {}: expected {}\n        but found {}", i, to_string(expected.steps[i]),
                                   to_string(actual.steps[i]));
    // A record of a collective has no name. The steps before and after it show which one it is.
    if (i > 0) text += fmt::format("\n        after {}", to_string(actual.steps[i - 1]));
    if (i + 1 < expected.steps.size()) text += fmt::format("\n        and before {}", to_string(expected.steps[i + 1]));
    return text;
  }
  if (expected.steps.size() > common) {
    return fmt::format("step {} is missing, {} of {}: {}", common, expected.steps.size() - common,
                       expected.steps.size(), to_string(expected.steps[common]));
  }
  if (actual.steps.size() > common) {
    return fmt::format("step {} is unexpected, the first of {}: {}", common, actual.steps.size() - common,
                       to_string(actual.steps[common]));
  }
  if (const auto edge = different_edge(expected, actual)) {
    return fmt::format("step {} {} come before step {}: {}\n  {}\n  {}", edge->from,
                       edge->is_expected ? "must" : "need not", edge->to,
                       edge->is_expected ? "nothing orders them" : "yet something makes it wait",
                       to_string(actual.steps[edge->from]), to_string(actual.steps[edge->to]));
  }
  return {};
}

}  // namespace shardproof::trace
