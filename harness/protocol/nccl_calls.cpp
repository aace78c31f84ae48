#include "harness/protocol/nccl_calls.hpp"
#include "harness/base/enum_names.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "harness/protocol/collective.hpp"

namespace shardproof::protocol {

namespace {

constexpr std::array result_names = {"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
                                     "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
                                     "ncclRemoteError",   "ncclInProgress"};

}  // namespace

std::string_view to_string(CallKind kind) {
  switch (kind) {
    case CallKind::all_gather: return to_string(CollectiveKind::all_gather);
    case CallKind::reduce_scatter: return to_string(CollectiveKind::reduce_scatter);
    case CallKind::all_reduce: return to_string(CollectiveKind::all_reduce);
    case CallKind::broadcast: return to_string(CollectiveKind::broadcast);
    case CallKind::all_to_all: return to_string(CollectiveKind::all_to_all);
    case CallKind::reduce: return "reduce";
    case CallKind::gather: return "gather";
    case CallKind::scatter: return "scatter";
    case CallKind::send: return "send";
    case CallKind::recv: return "recv";
    case CallKind::group_start: return "group_start";
    case CallKind::group_end: return "group_end";
    case CallKind::group_simulate_end: return "group_simulate_end";
    case CallKind::get_unique_id: return "get_unique_id";
    case CallKind::comm_init_rank: return "comm_init_rank";
    case CallKind::comm_init_rank_config: return "comm_init_rank_config";
    case CallKind::comm_init_rank_scalable: return "comm_init_rank_scalable";
    case CallKind::comm_init_all: return "comm_init_all";
    case CallKind::comm_split: return "comm_split";
    case CallKind::comm_shrink: return "comm_shrink";
    case CallKind::comm_finalize: return "comm_finalize";
    case CallKind::comm_destroy: return "comm_destroy";
    case CallKind::comm_abort: return "comm_abort";
    case CallKind::comm_revoke: return "comm_revoke";
    case CallKind::comm_get_async_error: return "comm_get_async_error";
    case CallKind::red_op_create_premul_sum: return "red_op_create_premul_sum";
    case CallKind::red_op_destroy: return "red_op_destroy";
    case CallKind::comm_register: return "comm_register";
    case CallKind::comm_deregister: return "comm_deregister";
    case CallKind::window_register: return "window_register";
    case CallKind::window_deregister: return "window_deregister";
    case CallKind::dev_comm_create: return "dev_comm_create";
    case CallKind::dev_comm_destroy: return "dev_comm_destroy";
    case CallKind::mem_alloc: return "mem_alloc";
    case CallKind::mem_free: return "mem_free";
  }
  return "unknown call";
}

std::optional<CallKind> call_kind(std::string_view name) {
  for (int number = 0; number <= static_cast<int>(last_call_kind); ++number) {
    if (to_string(static_cast<CallKind>(number)) == name) return static_cast<CallKind>(number);
  }
  return std::nullopt;
}

std::string to_string(ElementType type) {
  switch (type) {
    case ElementType::none: return "no type";
    case ElementType::i8: return std::string(to_string(DType::i8));
    case ElementType::u8: return std::string(to_string(DType::u8));
    case ElementType::i32: return std::string(to_string(DType::i32));
    case ElementType::u32: return "u32";
    case ElementType::i64: return std::string(to_string(DType::i64));
    case ElementType::u64: return "u64";
    case ElementType::f16: return std::string(to_string(DType::f16));
    case ElementType::f32: return std::string(to_string(DType::f32));
    case ElementType::f64: return std::string(to_string(DType::f64));
    case ElementType::bf16: return std::string(to_string(DType::bf16));
    case ElementType::f8e4m3: return "f8e4m3";
    case ElementType::f8e5m2: return "f8e5m2";
  }
  return fmt::format("type {}", static_cast<std::int32_t>(type));
}

std::string to_string(Reduction op) {
  switch (op) {
    case Reduction::none: return std::string(to_string(ReduceOp::none));
    case Reduction::sum: return std::string(to_string(ReduceOp::sum));
    case Reduction::prod: return "prod";
    case Reduction::max: return std::string(to_string(ReduceOp::max));
    case Reduction::min: return std::string(to_string(ReduceOp::min));
    case Reduction::avg: return std::string(to_string(ReduceOp::avg));
    default: break;
  }
  if (op < Reduction::none) return fmt::format("operation {}", static_cast<std::int32_t>(op));
  return std::string(to_string(ReduceOp::premul_sum));
}

std::string to_string(Result result) {
  const auto number = static_cast<std::int32_t>(result);
  if (number < 0 || number >= static_cast<std::int32_t>(result_names.size()))
    return fmt::format("ncclResult_t {}", number);
  return result_names[static_cast<std::size_t>(number)];
}

std::optional<Result> result_of_name(std::string_view name) {
  for (std::size_t number = 0; number < result_names.size(); ++number) {
    if (result_names[number] == name) return static_cast<Result>(number);
  }
  return std::nullopt;
}

std::string_view to_string(Fate fate) {
  return base::name_of<Fate::swapped>(fate, {"untouched", "dropped", "failed", "held back", "swapped"});
}

namespace {

std::string_view words_before_root(CallKind kind) {
  switch (kind) {
    case CallKind::broadcast:
    case CallKind::scatter: return "from root";
    case CallKind::reduce:
    case CallKind::gather: return "to root";
    case CallKind::send: return "to";
    default: return "from";
  }
}

std::string describe_move(const Call& call) {
  std::string text = fmt::format(" of {} {}", call.count, to_string(call.dtype));
  if (call.op >= Reduction::first_made) {
    text += std::isnan(call.factor) ? " (premul_sum, factor unknown)"
                                    : fmt::format(" (premul_sum, factor {})", call.factor);
  } else if (call.op != Reduction::none) {
    text += fmt::format(" ({})", to_string(call.op));
  }
  if (call.root >= 0) text += fmt::format(" {} {}", words_before_root(call.kind), call.root);
  return text;
}

std::string describe_making(const Call& call) {
  std::string text;
  if (call.kind == CallKind::comm_split || call.kind == CallKind::comm_shrink) {
    text = call.comm < 0 ? " of no communicator" : fmt::format(" of comm {}", call.comm);
    if (call.kind == CallKind::comm_split)
      text += call.root < 0 ? ", of no color" : fmt::format(", color {}", call.root);
  } else if (call.kind == CallKind::comm_init_all) {
    text = fmt::format(" of {} ranks", call.count);
  } else {
    text = fmt::format(" as rank {} of {}", call.root, call.count);
  }
  return call.made < 0 ? text : text + fmt::format(" into comm {}", call.made);
}

bool has_bytes(CallKind kind) {
  return kind == CallKind::comm_register || kind == CallKind::window_register || kind == CallKind::mem_alloc;
}

bool has_communicator(CallKind kind) {
  return moves_data(kind) || (kind >= CallKind::comm_finalize && kind < CallKind::mem_alloc);
}

}  // namespace

std::string describe(const Call& call) {
  std::string text = fmt::format("{} #{}", to_string(call.kind), call.of_kind);
  if (moves_data(call.kind)) text += describe_move(call);
  if (makes_communicators(call.kind)) text += describe_making(call);
  if (call.kind == CallKind::red_op_create_premul_sum)
    text += fmt::format(" of {}, factor {}", to_string(call.dtype), call.factor);
  if (has_bytes(call.kind)) text += fmt::format(" of {} bytes", call.count);
  if (has_communicator(call.kind))
    text += call.comm < 0 ? " on no communicator" : fmt::format(" on comm {}", call.comm);
  if (call.stream_index >= 0) text += fmt::format(", stream {}", call.stream_index);
  return text;
}

std::string describe_outcome(const Call& call) {
  std::string text;
  if (call.delay_ns != 0) text += fmt::format(", delayed by {} ms", static_cast<double>(call.delay_ns) / 1e6);
  if (call.stall_ns != 0)
    text += fmt::format(", its stream stalled for {} ms", static_cast<double>(call.stall_ns) / 1e6);
  switch (call.fate) {
    case Fate::untouched: break;
    case Fate::dropped: text += ", dropped"; break;
    case Fate::failed: text += ", made to fail"; break;
    case Fate::held: text += ", held back and never passed on"; break;
    case Fate::swapped: text += ", passed on after a later call"; break;
  }
  if (!call.has_left()) return text + ", had not returned";
  if (call.result != Result::success) text += fmt::format(", returned {}", to_string(call.result));
  return text;
}

}  // namespace shardproof::protocol
