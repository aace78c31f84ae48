#include "harness/device/device.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "harness/fabric/objection.hpp"

namespace shardproof {

Tensor Device::empty(Stream stream, DType dtype, const Shape& shape, MemoryClass memory, std::string_view label) {
  const std::size_t bytes = static_cast<std::size_t>(numel(shape)) * size_of(dtype);
  return Tensor(allocate(stream, bytes, memory, label), dtype, shape);
}

Call as_call(const Collective& collective) {
  Call call;
  call.descriptor.count = static_cast<std::uint64_t>(collective.in.numel());
  call.descriptor.factor = collective.factor;
  call.descriptor.root = collective.root;
  call.descriptor.kind = collective.kind;
  call.descriptor.dtype = collective.in.defined() ? collective.in.dtype() : DType::u8;
  call.descriptor.op = collective.op;
  call.descriptor.set_tag(collective.tag);
  call.descriptor.enforces_tag = collective.enforces_tag;
  call.in = {collective.in.data(), collective.in.bytes()};
  call.out = {collective.out.data(), collective.out.bytes()};
  return call;
}

void check(const Collective& collective, int rank, int size, std::string_view where) {
  const auto refuse = [&](std::string_view why) { throw std::invalid_argument(fmt::format("{}: {}", where, why)); };
  const auto& [kind, op, factor, root, in, out, tag, enforces_tag] = collective;
  if (kind == CollectiveKind::send_recv || kind == CollectiveKind::coalesced) {
    refuse("this kind is not run on a stream; the group itself offers it");
  }
  if (kind != CollectiveKind::barrier) {
    if (!in.defined() || !out.defined()) refuse(fmt::format("{} is not defined", in.defined() ? "the output" : "the input"));
    if (in.dtype() != out.dtype()) {
      refuse(fmt::format("the input is {} and the output {}; they must be alike", to_string(in.dtype()), to_string(out.dtype())));
    }
  }
  if (const std::string why = objection(as_call(collective), rank, size); !why.empty()) refuse(why);
}

}  // namespace shardproof
