#include "harness/device/facts.hpp"

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

fact::Work fact_of(const Work& work, std::uint32_t stream, Nanoseconds start, Nanoseconds end) {
  return {.stream = stream,
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
