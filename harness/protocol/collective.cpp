#include "harness/protocol/collective.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>

#include <fmt/format.h>

#include "harness/base/utf8.hpp"

namespace shardproof {

static_assert(std::is_trivially_copyable_v<Descriptor>, "descriptors travel through shared memory");

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::i64: return "i64";
    case DType::i32: return "i32";
    case DType::i16: return "i16";
    case DType::i8: return "i8";
    case DType::u8: return "u8";
  }
  return "unknown dtype";
}

std::string_view to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::broadcast: return "broadcast";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::send_recv: return "send_recv";
    case CollectiveKind::barrier: return "barrier";
    case CollectiveKind::coalesced: return "coalesced";
  }
  return "unknown collective";
}

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::none: return "none";
    case ReduceOp::sum: return "sum";
    case ReduceOp::avg: return "avg";
    case ReduceOp::premul_sum: return "premul_sum";
    case ReduceOp::max: return "max";
    case ReduceOp::min: return "min";
  }
  return "unknown operation";
}

void Descriptor::set_tag(std::string_view text) {
  const std::size_t length = base::length_within(text, tag_capacity - 1);
  std::fill(std::copy_n(text.begin(), length, tag), tag + tag_capacity, '\0');
}

std::string_view Descriptor::tag_view() const {
  return {tag, static_cast<std::size_t>(std::find(tag, tag + tag_capacity, '\0') - tag)};
}

namespace {

std::string describe_as(const Descriptor& descriptor, std::string name) {
  auto out = std::back_inserter(name);
  if (descriptor.kind == CollectiveKind::coalesced) {
    fmt::format_to(out, " of {} calls", descriptor.count);
  } else if (descriptor.kind != CollectiveKind::barrier || descriptor.count != 0) {
    fmt::format_to(out, " of {} {}", descriptor.count, to_string(descriptor.dtype));
  }
  if (descriptor.op == ReduceOp::premul_sum) {
    fmt::format_to(out, " (premul_sum, factor {})", descriptor.factor);
  } else if (descriptor.op != ReduceOp::none) {
    fmt::format_to(out, " ({})", to_string(descriptor.op));
  }
  if (descriptor.root >= 0) fmt::format_to(out, " from root {}", descriptor.root);
  if (const auto tag = descriptor.tag_view(); !tag.empty()) fmt::format_to(out, " \"{}\"", tag);
  return name;
}

}  // namespace

std::string describe(const Descriptor& descriptor) {
  return describe_as(descriptor, fmt::format("{} #{}", to_string(descriptor.kind), descriptor.sequence));
}

std::string describe_request(const Descriptor& descriptor) {
  return describe_as(descriptor, std::string(to_string(descriptor.kind)));
}

bool same_request(const Descriptor& a, const Descriptor& b) {
  return a.sequence == b.sequence && a.kind == b.kind && a.dtype == b.dtype && a.count == b.count && a.op == b.op &&
         a.root == b.root && std::bit_cast<std::uint64_t>(a.factor) == std::bit_cast<std::uint64_t>(b.factor) &&
         (!(a.enforces_tag || b.enforces_tag) || a.tag_view() == b.tag_view());
}

}  // namespace shardproof
