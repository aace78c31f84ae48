// The words in which ranks name a collective call to each other: element type, kind, reduction, descriptor.
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

/// The tag of collectives in which ranks agree on the sizes of what all-gather extensions contribute.
inline constexpr std::string_view extension_sizes_tag = "extension sizes";

/// `avg` is the sum in rank order followed by one division by the group's size; `premul_sum` multiplies every operand by a factor first.
enum class ReduceOp : std::uint8_t { none, sum, avg, premul_sum, max, min };

std::string_view to_string(DType dtype);
std::string_view to_string(CollectiveKind kind);
std::string_view to_string(ReduceOp op);

/// What one rank asks of its group in one call. Travels through shared memory, hence trivially copyable and of fixed size.
/// All but `tag` and `ready_ns` must be equal on all ranks of the group. The tag says what the call is for. It is only recorded, unless a
/// rank enforces it.
struct Descriptor {
  static constexpr std::size_t tag_capacity = 72;

  std::uint64_t sequence = 0;  ///< position in the group's order of calls, from 0
  std::uint64_t count = 0;     ///< elements of this rank's contribution (all-gather: its shard; reduce-scatter: its whole operand)
  std::int64_t ready_ns = 0;   ///< virtual time at which this rank could start; unused where time is real
  double factor = 1.0;         ///< of premul_sum
  std::int32_t root = -1;      ///< of broadcast; -1 where there is none
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::none;
  bool enforces_tag = false;  ///< if any rank says so, the tags of all must be equal, too
  char tag[tag_capacity] = {};  ///< NUL-terminated, cut between characters when longer

  void set_tag(std::string_view text);
  std::string_view tag_view() const;
};

/// `all_gather #17 of 276 f32 "layers.1"`, `all_reduce #3 of 4 f32 (avg) "head"`, `broadcast #5 of 4 f32 from root 2`, `barrier #4`: how
/// messages name a call. Roots are ranks of the group.
std::string describe(const Descriptor& descriptor);
/// The same without the sequence number, for messages that compare calls of one number.
std::string describe_request(const Descriptor& descriptor);

/// True when both ask for the same thing: the ready time is left aside, and the tag unless one of them enforces it. The factor counts by its
/// bits.
bool same_request(const Descriptor& a, const Descriptor& b);

}  // namespace shardproof
