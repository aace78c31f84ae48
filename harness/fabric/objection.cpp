#include "harness/fabric/objection.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>

#include "harness/tensor/elements.hpp"

namespace shardproof::fabric {

namespace {

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

std::string objection_to_factor(DType dtype, double factor) {
  return tensor::elements::visit(dtype, [&](auto type) -> std::string {
    using T = typename decltype(type)::type;
    if constexpr (std::is_integral_v<T>) {
      // As doubles, the limits of i64 round up to 2^63, which no longer fits: hence the half-open interval.
      const double least = static_cast<double>(std::numeric_limits<T>::min());
      const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
      if (!(factor >= least && factor < above) || factor != std::trunc(factor)) {
        return fmt::format("factor {} is not a value of {}", factor, to_string(dtype));
      }
    }
    return {};
  });
}

std::string objection_to_operation(const Descriptor& asked, int size) {
  const auto kind = asked.kind;
  const auto op = asked.op;
  const int root = asked.root;
  if (reduces(kind) && op == ReduceOp::none) return "a reduction needs an operation";
  if (!reduces(kind) && op != ReduceOp::none)
    return fmt::format("this kind reduces nothing, but the operation is {}", to_string(op));
  if (kind == CollectiveKind::broadcast && (root < 0 || root >= size))
    return fmt::format("root {} is not a rank of a group of {}", root, size);
  if (kind != CollectiveKind::broadcast && root != -1)
    return fmt::format("this kind has no root, but root {} is given", root);
  if (op == ReduceOp::premul_sum) return objection_to_factor(asked.dtype, asked.factor);
  return {};
}

std::string objection_to_peer(const char* what, int peer, CollectiveKind kind, int size) {
  if (peer == -1) return {};
  if (kind != CollectiveKind::send_recv) return fmt::format("`{}` is {}, and only a send_recv has one", what, peer);
  if (peer < 0 || peer >= size) return fmt::format("`{}` is {}, and the group has {} ranks", what, peer, size);
  return {};
}

// The bytes that `in` and `out` must have; either may be empty where `may_be_empty` says so.
struct Sizes {
  std::uint64_t in = 0, out = 0;
  bool may_lack_in = false, may_lack_out = false;
};

Sizes sizes_of(const Call& call, std::uint64_t bytes, int rank, std::uint64_t ranks) {
  switch (call.descriptor.kind) {
    case CollectiveKind::all_gather: return {bytes, bytes * ranks};
    case CollectiveKind::reduce_scatter: return {bytes, bytes / ranks};
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_to_all: return {bytes, bytes};
    case CollectiveKind::broadcast: return {bytes, bytes, call.descriptor.root != rank, false};
    case CollectiveKind::send_recv: return {bytes, bytes, call.to < 0, call.from < 0};
    case CollectiveKind::barrier:
    case CollectiveKind::coalesced: break;
  }
  return {};
}

std::string objection_to_size(const char* what, std::size_t has, std::uint64_t wanted, bool may_be_empty,
                              const Descriptor& asked) {
  if (has == wanted || (has == 0 && may_be_empty)) return {};
  return fmt::format("`{}` has {} bytes, not the {} of {} {}", what, has, wanted, wanted / size_of(asked.dtype),
                     to_string(asked.dtype));
}

bool are_well_placed(const Call& call, int rank) {
  const std::byte* const in = call.in.data();
  const std::byte* const out = call.out.data();
  const std::less<> before;
  if (call.in.empty() || call.out.empty() || !before(in, out + call.out.size()) || !before(out, in + call.in.size()))
    return true;
  const auto part = static_cast<std::size_t>(rank);
  switch (call.descriptor.kind) {
    case CollectiveKind::all_gather: return in == out + part * call.in.size();
    case CollectiveKind::reduce_scatter: return out == in + part * call.out.size();
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast: return in == out;
    default: return false;  // data may leave after the data that replaces it has arrived
  }
}

}  // namespace

std::string objection(const Call& call, int rank, int size) {
  const Descriptor& asked = call.descriptor;
  const auto ranks = static_cast<std::uint64_t>(size);
  const std::uint64_t element = size_of(asked.dtype);
  if (element == 0) return "unknown dtype";
  if (asked.count > std::numeric_limits<std::uint64_t>::max() / element / ranks)
    return "more bytes than memory can hold";
  if (asked.kind == CollectiveKind::coalesced) return "make a batch with run_coalesced";
  if (asked.kind == CollectiveKind::barrier && (asked.count != 0 || !call.in.empty() || !call.out.empty())) {
    return "a barrier moves no data, but has operands";
  }
  const bool in_parts = asked.kind == CollectiveKind::reduce_scatter || asked.kind == CollectiveKind::all_to_all;
  if (in_parts && asked.count % ranks != 0) {
    return fmt::format("the count, {}, does not divide by the {} ranks of the group", asked.count, ranks);
  }
  const Sizes sizes = sizes_of(call, asked.count * element, rank, ranks);
  std::string why = objection_to_operation(asked, size);
  if (why.empty()) why = objection_to_peer("to", call.to, asked.kind, size);
  if (why.empty()) why = objection_to_peer("from", call.from, asked.kind, size);
  if (why.empty()) why = objection_to_size("in", call.in.size(), sizes.in, sizes.may_lack_in, asked);
  if (why.empty()) why = objection_to_size("out", call.out.size(), sizes.out, sizes.may_lack_out, asked);
  if (why.empty() && !are_well_placed(call, rank)) {
    why = "`in` and `out` overlap, but this kind allows only identical memory, or a part at the rank's own place";
  }
  return why;
}

}  // namespace shardproof::fabric
