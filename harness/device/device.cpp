#include "harness/device/device.hpp"

#include <fmt/format.h>

#include <functional>
#include <stdexcept>

#include "harness/fabric/objection.hpp"

namespace shardproof {

namespace {

bool share_bytes(const Tensor& a, const Tensor& b) {
  const std::less<> before;
  return a.bytes() > 0 && b.bytes() > 0 && before(a.data(), b.data() + b.bytes()) &&
         before(b.data(), a.data() + a.bytes());
}

void require_peers(int size, std::string_view where) {
  if (size == 1)
    throw std::logic_error(fmt::format("{}: a group of one rank has no peers and must issue no collective", where));
}

}  // namespace

Tensor DeviceMemory::empty(Stream stream, DType dtype, const Shape& shape, MemoryClass memory, std::string_view label) {
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

Descriptor coalesced_descriptor(std::span<const Collective> collectives) {
  Descriptor descriptor{.count = collectives.size(), .kind = CollectiveKind::coalesced};
  if (!collectives.empty()) descriptor.set_tag(collectives.front().tag);
  return descriptor;
}

void check(const Collective& collective, int rank, int size, std::string_view where) {
  require_peers(size, where);
  const auto refuse = [&](std::string_view why) { throw std::invalid_argument(fmt::format("{}: {}", where, why)); };
  const auto& [kind, op, factor, root, in, out, tag, enforces_tag] = collective;
  if (kind == CollectiveKind::send_recv || kind == CollectiveKind::coalesced) {
    refuse("a stream cannot run this kind; call it on the group");
  }
  if (kind != CollectiveKind::barrier) {
    if (!in.defined() || !out.defined())
      refuse(fmt::format("{} is not defined", in.defined() ? "the output" : "the input"));
    if (in.dtype() != out.dtype()) {
      refuse(fmt::format("the input is {} and the output {}; both must have one dtype", to_string(in.dtype()),
                         to_string(out.dtype())));
    }
  }
  if (const std::string why = fabric::objection(as_call(collective), rank, size); !why.empty()) refuse(why);
}

void check_coalesced(std::span<const Collective> collectives, int rank, int size, std::string_view where) {
  require_peers(size, where);
  const auto refuse = [&](const std::string& why) { throw std::invalid_argument(fmt::format("{}: {}", where, why)); };
  if (collectives.empty()) refuse("a coalesced call needs a collective");
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    const Collective& one = collectives[i];
    check(one, rank, size, fmt::format("{}, collective {}", where, i));
    if (one.kind != collectives.front().kind)
      refuse(fmt::format("{} and {} cannot be in one call: issue a call for each kind",
                         to_string(collectives.front().kind), to_string(one.kind)));
    for (std::size_t other = 0; other < collectives.size(); ++other) {
      if (other != i && (share_bytes(one.out, collectives[other].out) || share_bytes(one.out, collectives[other].in)))
        refuse(fmt::format("collective {} writes memory that collective {} uses: issue them one after the other", i,
                           other));
    }
  }
}

void Communicator::run_coalesced(Stream stream, std::span<const Collective> collectives) {
  for (const Collective& collective : collectives) run(stream, collective);
}

}  // namespace shardproof
