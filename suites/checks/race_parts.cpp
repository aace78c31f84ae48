#include "suites/checks/race_parts.hpp"

namespace shardproof::suites {

bool is_work(const Fact& fact, WorkKind kind) {
  const auto* const work = std::get_if<fact::Work>(&fact);
  return work != nullptr && work->kind == kind;
}

bool is_collective(const Fact& fact, CollectiveKind kind) {
  const auto* const call = std::get_if<fact::Collective>(&fact);
  return call != nullptr && call->kind == kind;
}

MemoryClass memory_of(const Trace& trace, std::uint64_t buffer) {
  for (const Fact& fact : trace.facts) {
    if (const auto* const made = std::get_if<fact::Allocated>(&fact); made != nullptr && made->buffer == buffer)
      return made->memory;
  }
  return MemoryClass::other;
}

bool is_after_fill(const Trace& trace, const trace::Race& race) {
  return is_work(trace.facts.at(race.first.fact), WorkKind::fill);
}

bool is_about_release(const trace::Race& race) {
  return race.first.releases || race.second.releases || race.first.takes || race.second.takes;
}

}  // namespace shardproof::suites
