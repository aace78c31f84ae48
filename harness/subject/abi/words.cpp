#include "harness/subject/abi/words.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

namespace shardproof::abi {

namespace {

constexpr std::array dtypes{std::pair{DType::f64, DLDataType{kDLFloat, 64, 1}},   std::pair{DType::f32, DLDataType{kDLFloat, 32, 1}},
                            std::pair{DType::bf16, DLDataType{kDLBfloat, 16, 1}}, std::pair{DType::f16, DLDataType{kDLFloat, 16, 1}},
                            std::pair{DType::i64, DLDataType{kDLInt, 64, 1}},     std::pair{DType::i32, DLDataType{kDLInt, 32, 1}},
                            std::pair{DType::i16, DLDataType{kDLInt, 16, 1}},     std::pair{DType::i8, DLDataType{kDLInt, 8, 1}},
                            std::pair{DType::u8, DLDataType{kDLUInt, 8, 1}}};

constexpr std::array roles{
    std::pair{StreamRole::compute, SHARDPROOF_STREAM_COMPUTE},       std::pair{StreamRole::copy_in, SHARDPROOF_STREAM_COPY_IN},
    std::pair{StreamRole::all_gather, SHARDPROOF_STREAM_ALL_GATHER}, std::pair{StreamRole::reduce, SHARDPROOF_STREAM_REDUCE},
    std::pair{StreamRole::all_reduce, SHARDPROOF_STREAM_ALL_REDUCE}, std::pair{StreamRole::other, SHARDPROOF_STREAM_OTHER}};

constexpr std::array work_kinds{std::pair{WorkKind::forward, SHARDPROOF_WORK_FORWARD},
                                std::pair{WorkKind::backward, SHARDPROOF_WORK_BACKWARD},
                                std::pair{WorkKind::copy_in, SHARDPROOF_WORK_COPY_IN},
                                std::pair{WorkKind::copy_out, SHARDPROOF_WORK_COPY_OUT},
                                std::pair{WorkKind::reduce_copy_in, SHARDPROOF_WORK_REDUCE_COPY_IN},
                                std::pair{WorkKind::reduce_copy_out, SHARDPROOF_WORK_REDUCE_COPY_OUT},
                                std::pair{WorkKind::loss, SHARDPROOF_WORK_LOSS},
                                std::pair{WorkKind::optimizer, SHARDPROOF_WORK_OPTIMIZER},
                                std::pair{WorkKind::fill, SHARDPROOF_WORK_FILL},
                                std::pair{WorkKind::other, SHARDPROOF_WORK_OTHER}};

constexpr std::array memories{std::pair{MemoryClass::shard, SHARDPROOF_MEMORY_SHARD},
                              std::pair{MemoryClass::gathered, SHARDPROOF_MEMORY_GATHERED},
                              std::pair{MemoryClass::parameter, SHARDPROOF_MEMORY_PARAMETER},
                              std::pair{MemoryClass::gradient, SHARDPROOF_MEMORY_GRADIENT},
                              std::pair{MemoryClass::sharded_gradient, SHARDPROOF_MEMORY_SHARDED_GRADIENT},
                              std::pair{MemoryClass::reduce_input, SHARDPROOF_MEMORY_REDUCE_INPUT},
                              std::pair{MemoryClass::optimizer_state, SHARDPROOF_MEMORY_OPTIMIZER_STATE},
                              std::pair{MemoryClass::activation, SHARDPROOF_MEMORY_ACTIVATION},
                              std::pair{MemoryClass::other, SHARDPROOF_MEMORY_OTHER}};

constexpr std::array collectives{
    std::pair{CollectiveKind::all_gather, SHARDPROOF_ALL_GATHER}, std::pair{CollectiveKind::reduce_scatter, SHARDPROOF_REDUCE_SCATTER},
    std::pair{CollectiveKind::all_reduce, SHARDPROOF_ALL_REDUCE}, std::pair{CollectiveKind::broadcast, SHARDPROOF_BROADCAST},
    std::pair{CollectiveKind::all_to_all, SHARDPROOF_ALL_TO_ALL}, std::pair{CollectiveKind::barrier, SHARDPROOF_BARRIER}};

constexpr std::array ops{std::pair{ReduceOp::none, SHARDPROOF_OP_NONE}, std::pair{ReduceOp::sum, SHARDPROOF_OP_SUM},
                         std::pair{ReduceOp::avg, SHARDPROOF_OP_AVG},   std::pair{ReduceOp::premul_sum, SHARDPROOF_OP_PREMUL_SUM},
                         std::pair{ReduceOp::max, SHARDPROOF_OP_MAX},   std::pair{ReduceOp::min, SHARDPROOF_OP_MIN}};

template <class Words, class Ours>
auto find_c(const Words& words, Ours ours, const char* what) {
  for (const auto& [mine, c] : words) {
    if (mine == ours) return c;
  }
  throw std::invalid_argument(fmt::format("shardproof.h has no {} \"{}\"", what, to_string(ours)));
}

template <class Words, class C>
auto find_ours(const Words& words, C c, const char* what) {
  for (const auto& [mine, theirs] : words) {
    if (theirs == c) return mine;
  }
  throw std::invalid_argument(fmt::format("{} is no {}: shardproof.h has 0 to {}", static_cast<std::int64_t>(c), what, words.size() - 1));
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

DType from_c(DLDataType dtype) {
  if (const auto ours = known(dtype)) return *ours;
  throw std::invalid_argument(fmt::format(
      "{} is none that tensors have here: float of 64, 32 or 16 bits, bfloat of 16, int of 64, 32, 16 or 8, uint of 8, with one lane",
      described(dtype)));
}
StreamRole from_c(shardproof_stream_role role) { return find_ours(roles, role, "role of a stream"); }
WorkKind from_c(shardproof_work_kind kind) { return find_ours(work_kinds, kind, "kind of work"); }
MemoryClass from_c(shardproof_memory memory) { return find_ours(memories, memory, "class of memory"); }
CollectiveKind from_c(shardproof_collective_kind kind) { return find_ours(collectives, kind, "kind of collective"); }
ReduceOp from_c(shardproof_reduce_op op) { return find_ours(ops, op, "operation"); }

}  // namespace shardproof::abi
