#include "harness/device/facts.hpp"

#include <algorithm>
#include <variant>

#include "harness/trace/virtual_clock.hpp"

namespace shardproof {

std::vector<ByteRange> ranges(const std::vector<Tensor>& tensors) {
  std::vector<ByteRange> found;
  found.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    const ByteRange range = tensor.range();
    if (range.buffer != 0 && range.length != 0) found.push_back(range);
  }
  return found;
}

void describe(Trace& trace, std::size_t fact, std::uint64_t buffer, MemoryClass memory, std::string_view label) {
  if (fact >= trace.facts.size()) return;
  auto* const allocated = std::get_if<fact::Allocated>(&trace.facts[fact]);
  if (allocated == nullptr || allocated->buffer != buffer) return;
  allocated->memory = memory;
  allocated->label = label;
}

Nanoseconds cost_of(const CostModel& costs, const Collective& collective) {
  return costs.of_collective(collective.kind, collective.tag, std::max(collective.in.bytes(), collective.out.bytes()));
}

Nanoseconds cost_of(const CostModel& costs, const Work& work) {
  const Nanoseconds modelled = work.stands_for ? cost_of(costs, work.stands_for->collective) : costs.of_work(work.kind, work.label);
  return trace::later(modelled, work.cost);
}

Fact fact_of(const Work& work, std::uint32_t stream, Nanoseconds start, Nanoseconds end) {
  if (work.stands_for) {
    return fact_of(work.stands_for->collective, stream, work.stands_for->members, work.stands_for->sequence, start, end);
  }
  return fact::Work{.stream = stream,
                    .kind = work.kind,
                    .label = work.label,
                    .start = start,
                    .end = end,
                    .reads = ranges(work.reads),
                    .writes = ranges(work.writes)};
}

fact::Collective fact_of(const Collective& collective, std::uint32_t stream, std::span<const int> members, std::uint64_t sequence,
                         Nanoseconds start, Nanoseconds end) {
  return {.stream = stream,
          .kind = collective.kind,
          .dtype = collective.in.defined() ? collective.in.dtype() : DType::u8,
          .op = collective.op,
          .in_count = static_cast<std::uint64_t>(collective.in.numel()),
          .out_count = static_cast<std::uint64_t>(collective.out.numel()),
          .sequence = sequence,
          .group = {members.begin(), members.end()},
          .tag = collective.tag,
          .start = start,
          .end = end,
          .reads = ranges({collective.in}),
          .writes = ranges({collective.out})};
}

}  // namespace shardproof
