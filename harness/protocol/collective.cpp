#include "harness/protocol/collective.hpp"
#include "harness/base/enum_names.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>

#include <fmt/format.h>

#include "harness/base/utf8.hpp"

namespace shardproof {

static_assert(std::is_trivially_copyable_v<Descriptor>, "descriptors travel through shared memory");

std::string_view to_string(DType dtype) {
  return base::name_of<DType::u8>(dtype, {"f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8"});
}

std::string_view to_string(CollectiveKind kind) {
  return base::name_of<CollectiveKind::coalesced>(kind, {"all_gather", "reduce_scatter", "all_reduce", "broadcast",
                                                         "all_to_all", "send_recv", "barrier", "coalesced"});
}

std::string_view to_string(ReduceOp op) {
  return base::name_of<ReduceOp::min>(op, {"none", "sum", "avg", "premul_sum", "max", "min"});
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
