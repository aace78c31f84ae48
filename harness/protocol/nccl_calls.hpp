// The words for what an engine asks of NCCL: kinds of calls, element types, reductions, results, and one call with all that the tap keeps
// of it (harness/nccl_tap, a shared object that stands between any engine and its NCCL). They know nothing of NCCL's header and are
// built everywhere; numbers of types, reductions and results are NCCL's own, so that ones of a later NCCL survive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardproof::nccl_tap {

enum class CallKind : std::uint8_t {
  // Those that move data:
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
  comm_get_async_error,  ///< only where it reports an error, and that once
  // What belongs to a communicator, and memory:
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

/// Enqueues work on a stream: collectives, sends and receives.
constexpr bool moves_data(CallKind kind) { return kind <= CallKind::recv; }
/// Every rank of the communicator has to make the same call.
constexpr bool is_collective(CallKind kind) { return kind <= CallKind::scatter; }
/// Makes one communicator or several.
constexpr bool makes_communicators(CallKind kind) { return kind >= CallKind::comm_init_rank && kind <= CallKind::comm_shrink; }

/// ncclDataType_t.
enum class ElementType : std::int32_t { none = -1, i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16, f8e4m3, f8e5m2 };

/// ncclRedOp_t; from `first_made` on those that ncclRedOpCreatePreMulSum made.
enum class Reduction : std::int32_t { none = -1, sum, prod, max, min, avg, first_made };

/// ncclResult_t.
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

/// What a fault made of a call.
enum class Fate : std::uint8_t {
  untouched,  ///< passed on to NCCL, after a delay perhaps
  dropped,  ///< never passed on; the engine was told ncclSuccess
  failed,  ///< never passed on; the engine was told an error
  held,  ///< kept back; the engine was told ncclSuccess
  swapped,  ///< kept back and passed on after a later call
};

/// `all_gather`, `comm_split`, as in fault lists.
std::string_view to_string(CallKind kind);
std::optional<CallKind> call_kind(std::string_view name);
std::string to_string(ElementType type);  ///< `f32`; of a number that is not known here `type 12`
std::string to_string(Reduction op);
std::string to_string(Result result);  ///< NCCL's own name, `ncclInvalidArgument`
std::optional<Result> result_of_name(std::string_view name);
std::string_view to_string(Fate fate);

struct Call {
  std::uint64_t number = 0;  ///< among all calls of its process, from 0, in order of entering
  std::uint64_t of_kind = 0;  ///< among its process' calls of this kind, from 0: what a fault list counts
  /// In the order in which calls reached NCCL, from 0: of a collective among those of its communicator, of a send or receive among those
  /// with this peer there; -1: it did not reach NCCL, or moves no data.
  std::int64_t place = -1;
  std::uint64_t count = 0;  ///< elements, as NCCL counts them; of memory bytes; of comm_init_* the size of the communicator
  std::uint64_t stream = 0;  ///< its address; 0 is the default stream
  std::int64_t entered_ns = 0, left_ns = 0;  ///< CLOCK_MONOTONIC; `left_ns` 0: it had not returned
  std::int64_t delay_ns = 0;  ///< by which a fault put it off
  std::int64_t stall_ns = 0;  ///< by which a fault holds up its stream in front of it; enqueued, whether or not it has begun
  double factor = 0;  ///< of a reduction made by ncclRedOpCreatePreMulSum; not a number: it is in device memory, or unknown
  std::int32_t stream_index = -1;  ///< by first use of its address, from 0; -1 where there is none
  std::int32_t comm = -1;  ///< id of the communicator; -1: null, or none
  std::int32_t made = -1;  ///< id of the (first) communicator that it was to make
  std::int32_t root = -1;  ///< or peer; of comm_init_* its own rank; of comm_split the color
  std::uint32_t thread = 0;  ///< as the system numbers it
  std::uint32_t group_depth = 0;  ///< ncclGroupStart of this thread that had no end yet
  ElementType dtype = ElementType::none;
  Reduction op = Reduction::none;
  Result result = Result::success;  ///< told to the engine, or of a call that was swapped NCCL's own
  CallKind kind = CallKind::all_gather;
  Fate fate = Fate::untouched;

  bool has_left() const { return left_ns != 0; }
};

/// `all_gather #17 of 276 f32 on comm 0, stream 1`, `broadcast #5 of 4 f32 from root 2 on comm 0, stream 0`,
/// `comm_init_rank #0 as rank 1 of 2 into comm 0`, `group_end #3`. The number after # is `of_kind`.
std::string describe(const Call& call);
/// What became of it, to stand behind that: `, returned ncclInvalidArgument`, `, delayed by 20 ms`; empty where there is nothing to say.
std::string describe_outcome(const Call& call);

}  // namespace shardproof::nccl_tap
