#include "harness/trace/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

namespace shardproof::trace {

namespace {

// What is alive of one class while its facts go by.
class Census {
 public:
  explicit Census(MemoryClass memory) : memory_(memory) {}

  void take(const Fact& fact) {
    if (const auto* allocated = std::get_if<fact::Allocated>(&fact)) {
      if (allocated->memory != memory_ || !bytes_of_.try_emplace(allocated->buffer, allocated->bytes).second) return;
      ++live_.buffers;
      live_.bytes += allocated->bytes;
      peak_.buffers = std::max(peak_.buffers, live_.buffers);
      peak_.bytes = std::max(peak_.bytes, live_.bytes);
    } else if (const auto* released = std::get_if<fact::Released>(&fact)) {
      const auto known = bytes_of_.find(released->buffer);
      if (known == bytes_of_.end()) return;
      --live_.buffers;
      live_.bytes -= known->second;
      bytes_of_.erase(known);
    }
  }

  void forget_peak() { peak_ = live_; }

  const Live& live() const { return live_; }
  const Live& peak() const { return peak_; }

 private:
  MemoryClass memory_;
  std::unordered_map<std::uint64_t, std::uint64_t> bytes_of_;
  Live live_, peak_;
};

[[noreturn]] void refuse(const Trace& trace, std::string_view mark) {
  throw std::out_of_range(fmt::format("no mark \"{}\" in the trace of rank {}", mark, trace.rank));
}

}  // namespace

Live peak(const Trace& trace, MemoryClass memory) {
  Census census(memory);
  for (const Fact& fact : trace.facts) census.take(fact);
  return census.peak();
}

Live peak(const Trace& trace, MemoryClass memory, std::string_view from_mark, std::string_view to_mark) {
  Census census(memory);
  bool inside = false;
  for (const Fact& fact : trace.facts) {
    census.take(fact);
    const auto* set = std::get_if<fact::Mark>(&fact);
    if (set == nullptr) continue;
    if (set->text == from_mark) {
      inside = true;
      census.forget_peak();
    }
    if (inside && set->text == to_mark) return census.peak();
  }
  refuse(trace, inside ? to_mark : from_mark);
}

Live at(const Trace& trace, MemoryClass memory, std::string_view mark) {
  Census census(memory);
  for (const Fact& fact : trace.facts) {
    census.take(fact);
    if (const auto* set = std::get_if<fact::Mark>(&fact); set != nullptr && set->text == mark) return census.live();
  }
  refuse(trace, mark);
}

}  // namespace shardproof::trace
