// Builds traces for tests, fact by fact.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/protocol/trace.hpp"

namespace shardproof::test {

constexpr Nanoseconds ms = 1'000'000;

class TraceBuilder {
 public:
  using Ranges = std::vector<ByteRange>;

  TraceBuilder& stream(std::uint32_t id, StreamRole role, std::string name) {
    return add(fact::StreamCreated{id, role, std::move(name)});
  }
  TraceBuilder& allocate(std::uint32_t stream, std::uint64_t buffer, std::uint64_t bytes, std::string label = "memory",
                         MemoryClass memory = MemoryClass::gathered) {
    return add(fact::Allocated{stream, buffer, bytes, memory, std::move(label)});
  }
  TraceBuilder& adopt(std::uint32_t stream, std::uint64_t buffer, std::uint64_t bytes, std::string label = "memory") {
    return add(fact::Allocated{stream, buffer, bytes, MemoryClass::gathered, std::move(label), true});
  }
  TraceBuilder& release(std::uint32_t stream, std::uint64_t buffer) { return add(fact::Released{stream, buffer}); }
  TraceBuilder& release_to_cache(std::uint32_t stream, std::uint64_t buffer) {
    return add(fact::Released{stream, buffer, true});
  }
  TraceBuilder& work(std::uint32_t stream, std::string label, Ranges reads, Ranges writes) {
    return add(fact::Work{.stream = stream,
                          .kind = WorkKind::forward,
                          .label = std::move(label),
                          .start = 0,
                          .end = 0,
                          .reads = std::move(reads),
                          .writes = std::move(writes)});
  }
  TraceBuilder& span(std::uint32_t stream, WorkKind kind, std::string label, Nanoseconds start, Nanoseconds end) {
    return add(fact::Work{.stream = stream,
                          .kind = kind,
                          .label = std::move(label),
                          .start = start,
                          .end = end,
                          .reads = {},
                          .writes = {}});
  }
  TraceBuilder& gather(std::uint32_t stream, std::string tag, Nanoseconds start, Nanoseconds end, Ranges reads = {},
                       Ranges writes = {}, std::vector<int> group = {0, 1}) {
    return add(fact::Collective{.stream = stream,
                                .kind = CollectiveKind::all_gather,
                                .dtype = DType::f32,
                                .op = ReduceOp::none,
                                .in_count = 10,
                                .out_count = 20,
                                .sequence = gathers_++,
                                .group = std::move(group),
                                .tag = std::move(tag),
                                .start = start,
                                .end = end,
                                .reads = std::move(reads),
                                .writes = std::move(writes)});
  }
  TraceBuilder& record(std::uint32_t stream, std::uint64_t event) { return add(fact::EventRecorded{stream, event}); }
  TraceBuilder& wait(std::uint32_t stream, std::uint64_t event) { return add(fact::EventWaited{stream, event}); }
  TraceBuilder& synchronize_stream(std::uint32_t stream) { return add(fact::StreamSynchronized{stream}); }
  TraceBuilder& synchronize_event(std::uint64_t event) { return add(fact::EventSynchronized{event}); }
  TraceBuilder& host(std::string label, Ranges reads, Ranges writes) {
    return add(fact::HostAccess{std::move(label), std::move(reads), std::move(writes)});
  }
  TraceBuilder& mark(std::string text, Nanoseconds time) { return add(fact::Mark{std::move(text), time}); }

  operator const Trace&() const { return trace_; }  // NOLINT: a builder is as good as what it builds
  const Trace& trace() const { return trace_; }

 private:
  template <class F>
  TraceBuilder& add(F fact) {
    trace_.facts.emplace_back(std::move(fact));
    return *this;
  }

  Trace trace_;
  std::uint64_t gathers_ = 0;
};

}  // namespace shardproof::test
