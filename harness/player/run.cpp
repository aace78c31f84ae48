#include "harness/player/run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/trace/timeline.hpp"

namespace shardproof {

std::string to_string(const Warning& warning) {
  return fmt::format("iter {} {}: {}", warning.iteration, warning.call, warning.text);
}

Run::Run(Scenario scenario, Recording recording, Notes notes, std::size_t left_alive)
    : scenario_(std::move(scenario)),
      recording_(std::move(recording)),
      notes_(std::move(notes)),
      left_alive_(left_alive) {}

trace::Resource Run::resource() const {
  return scenario_.device.separate_resources ? trace::Resource::of_group_and_kind : trace::Resource::of_group;
}

Nanoseconds Run::total() const { return trace::total(trace()); }

std::vector<trace::Race> Run::races() const { return trace::find_races(trace()); }

trace::Live Run::peak(MemoryClass memory) const { return trace::peak(trace(), memory); }

std::size_t Run::count(CollectiveKind kind) const {
  return static_cast<std::size_t>(std::ranges::count_if(trace().facts, [kind](const Fact& fact) {
    const auto* collective = std::get_if<fact::Collective>(&fact);
    return collective != nullptr && collective->kind == kind;
  }));
}

}  // namespace shardproof
