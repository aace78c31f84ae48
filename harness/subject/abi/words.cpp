#include "harness/subject/abi/words.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>

namespace shardproof::subject::abi {

namespace {

/// A value of the harness, and its number in C.
template <class Ours>
struct Word {
  Ours ours;
  std::uint32_t number;
};
template <class Ours>
Word(Ours, std::uint32_t) -> Word<Ours>;

constexpr std::array dtypes{
    std::pair{DType::f64, DLDataType{kDLFloat, 64, 1}},   std::pair{DType::f32, DLDataType{kDLFloat, 32, 1}},
    std::pair{DType::bf16, DLDataType{kDLBfloat, 16, 1}}, std::pair{DType::f16, DLDataType{kDLFloat, 16, 1}},
    std::pair{DType::i64, DLDataType{kDLInt, 64, 1}},     std::pair{DType::i32, DLDataType{kDLInt, 32, 1}},
    std::pair{DType::i16, DLDataType{kDLInt, 16, 1}},     std::pair{DType::i8, DLDataType{kDLInt, 8, 1}},
    std::pair{DType::u8, DLDataType{kDLUInt, 8, 1}}};

constexpr std::array roles{
    Word{StreamRole::compute, SHARDPROOF_STREAM_COMPUTE},       Word{StreamRole::copy_in, SHARDPROOF_STREAM_COPY_IN},
    Word{StreamRole::all_gather, SHARDPROOF_STREAM_ALL_GATHER}, Word{StreamRole::reduce, SHARDPROOF_STREAM_REDUCE},
    Word{StreamRole::all_reduce, SHARDPROOF_STREAM_ALL_REDUCE}, Word{StreamRole::other, SHARDPROOF_STREAM_OTHER}};

constexpr std::array work_kinds{Word{WorkKind::forward, SHARDPROOF_WORK_FORWARD},
                                Word{WorkKind::backward, SHARDPROOF_WORK_BACKWARD},
                                Word{WorkKind::copy_in, SHARDPROOF_WORK_COPY_IN},
                                Word{WorkKind::copy_out, SHARDPROOF_WORK_COPY_OUT},
                                Word{WorkKind::reduce_copy_in, SHARDPROOF_WORK_REDUCE_COPY_IN},
                                Word{WorkKind::reduce_copy_out, SHARDPROOF_WORK_REDUCE_COPY_OUT},
                                Word{WorkKind::loss, SHARDPROOF_WORK_LOSS},
                                Word{WorkKind::optimizer, SHARDPROOF_WORK_OPTIMIZER},
                                Word{WorkKind::fill, SHARDPROOF_WORK_FILL},
                                Word{WorkKind::other, SHARDPROOF_WORK_OTHER}};

constexpr std::array memories{Word{MemoryClass::shard, SHARDPROOF_MEMORY_SHARD},
                              Word{MemoryClass::gathered, SHARDPROOF_MEMORY_GATHERED},
                              Word{MemoryClass::parameter, SHARDPROOF_MEMORY_PARAMETER},
                              Word{MemoryClass::gradient, SHARDPROOF_MEMORY_GRADIENT},
                              Word{MemoryClass::sharded_gradient, SHARDPROOF_MEMORY_SHARDED_GRADIENT},
                              Word{MemoryClass::reduce_input, SHARDPROOF_MEMORY_REDUCE_INPUT},
                              Word{MemoryClass::optimizer_state, SHARDPROOF_MEMORY_OPTIMIZER_STATE},
                              Word{MemoryClass::activation, SHARDPROOF_MEMORY_ACTIVATION},
                              Word{MemoryClass::other, SHARDPROOF_MEMORY_OTHER}};

constexpr std::array collectives{Word{CollectiveKind::all_gather, SHARDPROOF_ALL_GATHER},
                                 Word{CollectiveKind::reduce_scatter, SHARDPROOF_REDUCE_SCATTER},
                                 Word{CollectiveKind::all_reduce, SHARDPROOF_ALL_REDUCE},
                                 Word{CollectiveKind::broadcast, SHARDPROOF_BROADCAST},
                                 Word{CollectiveKind::all_to_all, SHARDPROOF_ALL_TO_ALL},
                                 Word{CollectiveKind::barrier, SHARDPROOF_BARRIER}};

constexpr std::array ops{Word{ReduceOp::none, SHARDPROOF_OP_NONE}, Word{ReduceOp::sum, SHARDPROOF_OP_SUM},
                         Word{ReduceOp::avg, SHARDPROOF_OP_AVG},   Word{ReduceOp::premul_sum, SHARDPROOF_OP_PREMUL_SUM},
                         Word{ReduceOp::max, SHARDPROOF_OP_MAX},   Word{ReduceOp::min, SHARDPROOF_OP_MIN}};

constexpr std::array statuses{Word{CallStatus::ok, SHARDPROOF_OK}, Word{CallStatus::failed, SHARDPROOF_FAILED},
                              Word{CallStatus::planned_failure, SHARDPROOF_PLANNED_FAILURE},
                              Word{CallStatus::unsupported, SHARDPROOF_UNSUPPORTED}};

template <class Words, class Ours>
auto find_c(const Words& words, Ours ours, const char* what) {
  for (const auto& [mine, c] : words) {
    if (mine == ours) return c;
  }
  throw std::invalid_argument(fmt::format("shardproof.h has no {} \"{}\"", what, to_string(ours)));
}

template <class Words>
auto find_ours(const Words& words, std::uint32_t number, const char* what) {
  for (const auto& [mine, theirs] : words) {
    if (theirs == number) return mine;
  }
  throw std::invalid_argument(fmt::format("{} is no {}: shardproof.h has 0 to {}", number, what, words.size() - 1));
}

std::optional<DType> known(DLDataType dtype) {
  for (const auto& [ours, c] : dtypes) {
    if (c.code == dtype.code && c.bits == dtype.bits && c.lanes == dtype.lanes) return ours;
  }
  return std::nullopt;
}

}  // namespace

std::string described(DLDataType dtype) {
  if (const auto ours = known(dtype)) return std::string(to_string(*ours));
  return fmt::format("dtype of code {}, {} bits, {} lanes", static_cast<int>(dtype.code), static_cast<int>(dtype.bits),
                     static_cast<int>(dtype.lanes));
}

DLDataType to_c(DType dtype) { return find_c(dtypes, dtype, "dtype"); }
shardproof_stream_role to_c(StreamRole role) { return find_c(roles, role, "role of a stream"); }
shardproof_work_kind to_c(WorkKind kind) { return find_c(work_kinds, kind, "kind of work"); }
shardproof_memory to_c(MemoryClass memory) { return find_c(memories, memory, "class of memory"); }
shardproof_collective_kind to_c(CollectiveKind kind) { return find_c(collectives, kind, "kind of collective"); }
shardproof_reduce_op to_c(ReduceOp op) { return find_c(ops, op, "operation"); }
shardproof_status to_c(CallStatus status) { return find_c(statuses, status, "status"); }

DType dtype_from_c(DLDataType dtype) {
  if (const auto ours = known(dtype)) return *ours;
  throw std::invalid_argument(
      fmt::format("{} is not supported: use float of 64, 32 or 16 bits, bfloat of 16, int of 64, 32, 16 or 8, uint of "
                  "8, with one lane",
                  described(dtype)));
}
StreamRole role_from_c(std::uint32_t role) { return find_ours(roles, role, "role of a stream"); }
WorkKind work_from_c(std::uint32_t kind) { return find_ours(work_kinds, kind, "kind of work"); }
MemoryClass memory_from_c(std::uint32_t memory) { return find_ours(memories, memory, "class of memory"); }
CollectiveKind collective_from_c(std::uint32_t kind) { return find_ours(collectives, kind, "kind of collective"); }
ReduceOp op_from_c(std::uint32_t op) { return find_ours(ops, op, "operation"); }
CallStatus status_from_c(std::uint32_t status) { return find_ours(statuses, status, "status"); }

}  // namespace shardproof::subject::abi
