#include "harness/device/facts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/fabric/group.hpp"
#include "harness/trace/virtual_clock.hpp"

namespace shardproof::device {

std::vector<ByteRange> ranges(const std::vector<Tensor>& tensors) {
  std::vector<ByteRange> found;
  found.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    const ByteRange range = tensor.range();
    if (range.buffer != 0 && range.length != 0) found.push_back(range);
  }
  return found;
}

Nanoseconds cost_of(const CostModel& costs, const Collective& collective) {
  return cost_of(costs, std::span(&collective, 1));
}

Nanoseconds cost_of(const CostModel& costs, std::span<const Collective> collectives) {
  std::size_t bytes = 0;
  for (const Collective& each : collectives) bytes += std::max(each.in.bytes(), each.out.bytes());
  return costs.of_collective(collectives.front().kind, collectives.front().tag, bytes);
}

Nanoseconds cost_of(const CostModel& costs, const Work& work) {
  const Nanoseconds modelled =
      work.imagined_call ? cost_of(costs, work.imagined_call->collectives) : costs.of_work(work.kind, work.label);
  return trace::later(modelled, work.cost);
}

void note(Trace& trace, const Work& work, std::uint32_t stream, Nanoseconds start, Nanoseconds end) {
  if (work.imagined_call) {
    const ImaginedCall& call = *work.imagined_call;
    for (const Collective& collective : call.collectives)
      trace.facts.emplace_back(fact_of(collective, stream, call.members, call.sequence, start, end));
    return;
  }
  trace.facts.emplace_back(fact::Work{.stream = stream,
                                      .kind = work.kind,
                                      .label = work.label,
                                      .start = start,
                                      .end = end,
                                      .reads = ranges(work.reads),
                                      .writes = ranges(work.writes)});
}

std::string text_of_call(std::string_view kind, std::string_view tag, const Group& group, int rank) {
  return fmt::format("{} \"{}\" of group {} on rank {}", kind, tag, group.name(), rank);
}

fact::Collective fact_of(const Collective& collective, std::uint32_t stream, std::span<const int> members,
                         std::uint64_t sequence, Nanoseconds start, Nanoseconds end) {
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

}  // namespace shardproof::device
