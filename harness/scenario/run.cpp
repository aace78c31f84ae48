#include "harness/scenario/run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/trace/timeline.hpp"

namespace shardproof::scenario {

std::string mark(int iteration, std::string_view call, bool end, int occurrence) {
  const std::string number = occurrence > 1 ? fmt::format(" ({})", occurrence) : "";
  return fmt::format("iter {} {}{}{}", iteration, call, number, end ? " end" : "");
}

std::string mark(int iteration, ActionKind action, bool end, int occurrence) { return mark(iteration, to_string(action), end, occurrence); }

Run::Run(Scenario scenario, Trace trace, std::vector<Iteration> iterations, std::vector<std::string> warnings, std::size_t left_alive)
    : scenario_(std::move(scenario)),
      trace_(std::move(trace)),
      iterations_(std::move(iterations)),
      warnings_(std::move(warnings)),
      left_alive_(left_alive) {}

Nanoseconds Run::forward(int iteration) const {
  return trace::between(trace_, mark(iteration, ActionKind::forward), mark(iteration, ActionKind::forward, true));
}

Nanoseconds Run::forward_backward(int iteration) const {
  return trace::between(trace_, mark(iteration, ActionKind::forward), mark(iteration, ActionKind::backward, true));
}

Nanoseconds Run::total() const { return trace::total(trace_); }

Nanoseconds Run::exposed(int iteration) const {
  return trace::exposed(trace_, mark(iteration, ActionKind::forward), mark(iteration, ActionKind::backward, true));
}

std::vector<trace::Race> Run::races() const { return trace::find_races(trace_); }

trace::Live Run::peak(MemoryClass memory) const { return trace::peak(trace_, memory); }

std::size_t Run::count(CollectiveKind kind) const {
  return static_cast<std::size_t>(std::ranges::count_if(trace_.facts, [kind](const Fact& fact) {
    const auto* collective = std::get_if<fact::Collective>(&fact);
    return collective != nullptr && collective->kind == kind;
  }));
}

}  // namespace shardproof::scenario
