// The vocabulary by which ranks name a collective call to each other: element type, kind, reduction, descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardproof {

enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, i16, i8, u8 };

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16:
    case DType::i16: return 2;
    case DType::i8:
    case DType::u8: return 1;
  }
  return 0;
}

enum class CollectiveKind : std::uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  all_to_all,
  send_recv,
  barrier,
  coalesced,
};

/// The tag of the collectives in which ranks agree on the sizes of all-gather extensions' contributions.
inline constexpr std::string_view extension_sizes_tag = "extension sizes";

/// `avg` is the sum in rank order, followed by one division by the group's size. `premul_sum` first multiplies every
/// operand by a factor.
enum class ReduceOp : std::uint8_t { none, sum, avg, premul_sum, max, min };

std::string_view to_string(DType dtype);
std::string_view to_string(CollectiveKind kind);
std::string_view to_string(ReduceOp op);

/// One rank's request to its group in one call. It travels through shared memory, so it is trivially copyable and of
/// fixed size. All fields but `tag` and `ready_ns` must be equal on all ranks of the group. The tag says what the call
/// is for. It is only recorded, unless a rank enforces it.
struct Descriptor {
  static constexpr std::size_t tag_capacity = 72;

  std::uint64_t sequence = 0;  ///< Position in the group's order of calls, from 0.
  /// Elements of this rank's contribution. For an all-gather: its shard. For a reduce-scatter: its whole operand.
  std::uint64_t count = 0;
  /// Virtual time at which this rank could start. Unused where time is real.
  std::int64_t ready_ns = 0;
  double factor = 1.0;         ///< Of premul_sum.
  std::int32_t root = -1;      ///< For broadcast. -1 for other kinds.
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::none;
  bool enforces_tag = false;  ///< If any rank sets it, all tags must be equal, too.
  char tag[tag_capacity] = {};  ///< Ends in NUL. A longer tag is cut between characters.

  void set_tag(std::string_view text);
  std::string_view tag_view() const;
};

/// The form in which messages name a call. Roots are ranks of the group. Examples:
/// `all_gather #17 of 276 f32 "layers.1"`, `all_reduce #3 of 4 f32 (avg) "head"`, `broadcast #5 of 4 f32 from root 2`,
/// `barrier #4`.
std::string describe(const Descriptor& descriptor);
/// The same without the sequence number, for messages that compare calls of one number.
std::string describe_request(const Descriptor& descriptor);

/// True when both request the same call. The ready time does not count, and the tag counts only if one of them enforces
/// it. The factor is compared bit by bit.
bool same_request(const Descriptor& a, const Descriptor& b);

}  // namespace shardproof
