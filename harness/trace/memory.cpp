#include "harness/trace/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "harness/trace/marks.hpp"

namespace shardproof::trace {

namespace {

// Counts the live memory of one class, fact by fact.
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

}  // namespace

Live peak(const Trace& trace, MemoryClass memory) {
  Census census(memory);
  for (const Fact& fact : trace.facts) census.take(fact);
  return census.peak();
}

Live peak(const Trace& trace, MemoryClass memory, std::string_view from_mark, std::string_view to_mark) {
  const std::size_t from = index_of_mark(trace, from_mark), to = index_of_mark(trace, to_mark, from);
  Census census(memory);
  for (std::size_t i = 0; i <= to; ++i) {
    census.take(trace.facts[i]);
    if (i == from) census.forget_peak();
  }
  return census.peak();
}

Live at(const Trace& trace, MemoryClass memory, std::string_view mark) {
  const std::size_t end = index_of_mark(trace, mark);
  Census census(memory);
  for (std::size_t i = 0; i < end; ++i) census.take(trace.facts[i]);
  return census.live();
}

std::vector<fact::Allocated> left_alive(const Trace& trace) {
  std::vector<fact::Allocated> alive;
  for (const Fact& fact : trace.facts) {
    if (const auto* allocated = std::get_if<fact::Allocated>(&fact)) alive.push_back(*allocated);
    if (const auto* released = std::get_if<fact::Released>(&fact))
      std::erase_if(alive, [&](const auto& one) { return one.buffer == released->buffer; });
  }
  return alive;
}

std::string describe(const std::vector<fact::Allocated>& buffers) {
  constexpr std::size_t most = 3;
  std::string text = fmt::format("{} buffer{}", buffers.size(), buffers.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < std::min(most, buffers.size()); ++i)
    text += fmt::format("{}{} \"{}\" of {} bytes", i == 0 ? ": " : ", ", to_string(buffers[i].memory), buffers[i].label,
                        buffers[i].bytes);
  return text + (buffers.size() > most ? fmt::format(" and {} more", buffers.size() - most) : "");
}

}  // namespace shardproof::trace
