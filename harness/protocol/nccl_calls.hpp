// The vocabulary of NCCL calls: kinds, element types, reductions, results, and one call with everything that the tap
// keeps of it. The tap is harness/nccl_tap, a shared object between any engine and its NCCL. This header does not need
// NCCL's header and is built everywhere. The numbers of types, reductions and results are NCCL's own, so numbers of a
// later NCCL survive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardproof::protocol {

enum class CallKind : std::uint8_t {
  // Calls that move data:
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  all_to_all,
  reduce,
  gather,
  scatter,
  send,
  recv,
  // Groups of calls:
  group_start,
  group_end,
  group_simulate_end,
  // Communicators:
  get_unique_id,
  comm_init_rank,
  comm_init_rank_config,
  comm_init_rank_scalable,
  comm_init_all,
  comm_split,
  comm_shrink,
  comm_finalize,
  comm_destroy,
  comm_abort,
  comm_revoke,
  comm_get_async_error,  ///< only the first report of an error
  // Resources of a communicator, and memory:
  red_op_create_premul_sum,
  red_op_destroy,
  comm_register,
  comm_deregister,
  window_register,
  window_deregister,
  dev_comm_create,
  dev_comm_destroy,
  mem_alloc,
  mem_free,
};
inline constexpr CallKind last_call_kind = CallKind::mem_free;

/// The call enqueues work on a stream: collectives, sends and receives.
constexpr bool moves_data(CallKind kind) { return kind <= CallKind::recv; }
/// Every rank of the communicator must make the same call.
constexpr bool is_collective(CallKind kind) { return kind <= CallKind::scatter; }
/// The call makes one communicator or several.
constexpr bool makes_communicators(CallKind kind) {
  return kind >= CallKind::comm_init_rank && kind <= CallKind::comm_shrink;
}

/// Numbers of ncclDataType_t.
enum class ElementType : std::int32_t { none = -1, i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16, f8e4m3, f8e5m2 };

/// Numbers of ncclRedOp_t. From `first_made` on, ncclRedOpCreatePreMulSum made the operation.
enum class Reduction : std::int32_t { none = -1, sum, prod, max, min, avg, first_made };

/// Numbers of ncclResult_t.
enum class Result : std::int32_t {
  success,
  unhandled_cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress,
};

/// The effect of a fault on a call.
enum class Fate : std::uint8_t {
  untouched,  ///< passed on to NCCL, perhaps after a delay
  dropped,  ///< never passed on; the engine got ncclSuccess
  failed,  ///< never passed on; the engine got an error
  held,  ///< kept back; the engine got ncclSuccess
  swapped,  ///< kept back and passed on after a later call
};

/// Names as in fault lists: `all_gather`, `comm_split`.
std::string_view to_string(CallKind kind);
std::optional<CallKind> call_kind(std::string_view name);
std::string to_string(ElementType type);  ///< `f32`; `type 12` for a number that is not known here
std::string to_string(Reduction op);
std::string to_string(Result result);  ///< NCCL's own name, such as `ncclInvalidArgument`
std::optional<Result> result_of_name(std::string_view name);
std::string_view to_string(Fate fate);

struct Call {
  std::uint64_t number = 0;  ///< Among all calls of its process, from 0, in order of entry.
  std::uint64_t of_kind = 0;  ///< Among its process's calls of this kind, from 0. Fault lists count by it.
  /// Place in the order in which calls reached NCCL, from 0. A collective counts among the collectives of its
  /// communicator. A send or receive counts among those with the same peer on that communicator. -1: the call did not
  /// reach NCCL, or moves no data.
  std::int64_t place = -1;
  /// Elements, as NCCL counts them. For memory: bytes. For comm_init_*: the size of the communicator.
  std::uint64_t count = 0;
  std::uint64_t stream = 0;  ///< Address of the stream. 0 is the default stream.
  std::int64_t entered_ns = 0, left_ns = 0;  ///< CLOCK_MONOTONIC. `left_ns` is 0 for a call that had not returned.
  std::int64_t delay_ns = 0;  ///< Delay that a fault added before the call.
  /// Stall that a fault enqueued on the stream before the call, whether or not the stall has begun.
  std::int64_t stall_ns = 0;
  /// Factor of a reduction that ncclRedOpCreatePreMulSum made. NaN: the factor is in device memory or unknown.
  double factor = 0;
  std::int32_t stream_index = -1;  ///< By first use of the address, from 0. -1: no stream.
  std::int32_t comm = -1;  ///< Id of the communicator. -1: null or no communicator.
  std::int32_t made = -1;  ///< Id of the (first) communicator that the call makes.
  std::int32_t root = -1;  ///< Root or peer. For comm_init_*: the own rank. For comm_split: the color.
  std::uint32_t thread = 0;  ///< The system's thread number.
  std::uint32_t group_depth = 0;  ///< Number of this thread's ncclGroupStart calls without an end so far.
  ElementType dtype = ElementType::none;
  Reduction op = Reduction::none;
  Result result = Result::success;  ///< Result that the engine got. For a swapped call: NCCL's own.
  CallKind kind = CallKind::all_gather;
  Fate fate = Fate::untouched;

  bool has_left() const { return left_ns != 0; }
};

/// `all_gather #17 of 276 f32 on comm 0, stream 1`, `broadcast #5 of 4 f32 from root 2 on comm 0, stream 0`,
/// `comm_init_rank #0 as rank 1 of 2 into comm 0`, `group_end #3`. The number after # is `of_kind`.
std::string describe(const Call& call);
/// The outcome of the call, as a suffix to that text: `, returned ncclInvalidArgument`, `, delayed by 20 ms`. Empty
/// where there is nothing to add.
std::string describe_outcome(const Call& call);

}  // namespace shardproof::protocol
