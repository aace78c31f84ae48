#include "harness/device/device.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace shardproof {

namespace {

// Where operands may meet: an all-gather's input inside its output at this rank's part, a reduce-scatter's output inside its input
// likewise, the two of any other kind only as one and the same.
bool in_place(const Collective& collective, int rank) {
  const std::byte* in = collective.in.data();
  const std::byte* out = collective.out.data();
  const auto part = static_cast<std::size_t>(rank);
  switch (collective.kind) {
    case CollectiveKind::all_gather: return in == out + part * collective.in.bytes();
    case CollectiveKind::reduce_scatter: return out == in + part * collective.out.bytes();
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast: return in == out;
    default: return false;
  }
}

bool overlap(const Tensor& a, const Tensor& b) {
  return a.bytes() != 0 && b.bytes() != 0 && a.data() < b.data() + b.bytes() && b.data() < a.data() + a.bytes();
}

}  // namespace

Tensor Device::empty(Stream stream, DType dtype, const Shape& shape, MemoryClass memory, std::string_view label) {
  const std::size_t bytes = static_cast<std::size_t>(numel(shape)) * size_of(dtype);
  return Tensor(allocate(stream, bytes, memory, label), dtype, shape);
}

void check(const Collective& collective, int rank, int size, std::string_view where) {
  const auto refuse = [&](const std::string& why) { throw std::invalid_argument(fmt::format("{}: {}", where, why)); };
  const auto& [kind, op, factor, root, in, out, tag] = collective;

  switch (kind) {
    case CollectiveKind::barrier:
      if (in.defined() || out.defined()) refuse("a barrier takes no tensors");
      break;
    case CollectiveKind::send_recv:
    case CollectiveKind::coalesced: refuse("this kind is not run on a stream; the group itself offers it"); break;
    default:
      if (!in.defined() || !out.defined()) refuse(fmt::format("{} is not defined", in.defined() ? "the output" : "the input"));
      if (in.dtype() != out.dtype()) {
        refuse(fmt::format("the input is {} and the output {}; they must be alike", to_string(in.dtype()), to_string(out.dtype())));
      }
  }

  const std::int64_t ins = in.numel();
  const std::int64_t outs = out.numel();
  if (kind == CollectiveKind::all_gather && outs != ins * size) {
    refuse(fmt::format("the output has {} elements; {} ranks with {} each make {}", outs, size, ins, ins * size));
  }
  if (kind == CollectiveKind::reduce_scatter && ins != outs * size) {
    refuse(fmt::format("the input has {} elements; {} ranks that keep {} each need {}", ins, size, outs, outs * size));
  }
  const bool alike = kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast || kind == CollectiveKind::all_to_all;
  if (alike && ins != outs) refuse(fmt::format("the input has {} elements and the output {}; they must be alike", ins, outs));
  if (kind == CollectiveKind::all_to_all && ins % size != 0) {
    refuse(fmt::format("the input has {} elements, which {} ranks cannot share evenly", ins, size));
  }

  const bool reduces = kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
  if (reduces && op == ReduceOp::none) refuse("a reduction needs an operation");
  if (!reduces && op != ReduceOp::none) refuse(fmt::format("nothing is reduced here, yet the operation is {}", to_string(op)));
  if (kind == CollectiveKind::broadcast && (root < 0 || root >= size)) {
    refuse(fmt::format("root {} is no rank of a group of {}", root, size));
  }
  if (kind != CollectiveKind::broadcast && root != -1) refuse(fmt::format("it has no root, yet {} is given", root));
  if (overlap(in, out) && !in_place(collective, rank)) {
    refuse("input and output share memory, but not as this kind allows: a part at its own rank's place, or one and the same");
  }
}

}  // namespace shardproof
