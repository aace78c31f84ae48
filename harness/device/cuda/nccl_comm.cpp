#include "harness/device/cuda/nccl_comm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace shardproof::cuda {

namespace {

// What NCCL moves or reduces elements as; `per_element` of its own for each of ours.
struct Elements {
  NcclType type;
  std::size_t per_element = 1;
};

Elements elements_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return {NcclType::f64};
    case DType::f32: return {NcclType::f32};
    case DType::bf16: return {NcclType::bf16};
    case DType::f16: return {NcclType::f16};
    case DType::i64: return {NcclType::i64};
    case DType::i32: return {NcclType::i32};
    case DType::i16: return {NcclType::u8, 2};  // NCCL has none
    case DType::i8: return {NcclType::i8};
    case DType::u8: return {NcclType::u8};
  }
  throw std::invalid_argument("no such dtype");
}

bool reduces(CollectiveKind kind) { return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter; }

NcclOp op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return NcclOp::sum;
    case ReduceOp::avg: return NcclOp::avg;
    case ReduceOp::max: return NcclOp::max;
    case ReduceOp::min: return NcclOp::min;
    case ReduceOp::none:
    case ReduceOp::premul_sum: break;
  }
  throw std::logic_error(fmt::format("{} is no operation of its own", to_string(op)));
}

constexpr std::size_t token_bytes = 4;

}  // namespace

NcclComm::NcclComm(Gpu& gpu, const Group& hosts, std::unique_ptr<DescriptorBoard> board)
    : gpu_(gpu), name_(hosts.name()), ranks_(static_cast<std::size_t>(hosts.size())), board_(std::move(board)) {
  gpu_.comms_.push_back(this);
}

std::unique_ptr<NcclComm> NcclComm::make(Gpu& gpu, const Group& hosts, const UniqueId& id, std::unique_ptr<DescriptorBoard> board) {
  std::unique_ptr<NcclComm> comm(new NcclComm(gpu, hosts, std::move(board)));
  const Status status = gpu.nccl().comm_init_rank(&comm->handle_, hosts.size(), &id, hosts.rank(), comm->name_.c_str());
  comm->settle(status, "ncclCommInitRankConfig");
  return comm;
}

std::unique_ptr<NcclComm> NcclComm::split(int color, int key, const Group* hosts, std::unique_ptr<DescriptorBoard> board) {
  if (hosts == nullptr) {
    CommHandle none = nullptr;
    settle(gpu_.nccl().comm_split(handle_, -1, key, &none, ""), "ncclCommSplit");
    return nullptr;
  }
  std::unique_ptr<NcclComm> part(new NcclComm(gpu_, *hosts, std::move(board)));
  const Status status = gpu_.nccl().comm_split(handle_, color, key, &part->handle_, part->name_.c_str());
  settle(status, "ncclCommSplit");
  part->settle(0, "ncclCommSplit");
  return part;
}

NcclComm::~NcclComm() {
  try {
    if (handle_ != nullptr) {
      settle(gpu_.nccl().comm_finalize(handle_), "ncclCommFinalize");
      gpu_.nccl().comm_destroy(std::exchange(handle_, nullptr));
    }
  } catch (const std::exception&) {
    // Whoever waits next hears of it; here it only has to go.
    if (handle_ != nullptr) gpu_.nccl().comm_abort(handle_);
  }
  if (token_ != nullptr) gpu_.cuda().free_async(token_, nullptr);
  std::erase(gpu_.comms_, this);
}

void NcclComm::check_agreement(DescriptorBoard::Look look) const {
  if (handle_ != nullptr) board_->check(look);
}

void NcclComm::check_health() const {
  if (handle_ == nullptr) return;
  Status state = 0;
  const Status status = gpu_.nccl().comm_get_async_error(handle_, &state);
  if (status != 0) gpu_.fail_nccl(status, "ncclCommGetAsyncError", fmt::format("communicator {}", name_));
  if (state == 0 || state == gpu_.nccl().in_progress) return;
  gpu_.fail_nccl(state, "ncclCommGetAsyncError", fmt::format("communicator {}: {}", name_, gpu_.nccl().last_error(handle_)));
}

void NcclComm::settle(Status status, std::string_view operation, StreamHandle stream, std::source_location location) {
  const auto fail = [&](Status why) {
    const std::string words = handle_ == nullptr ? "" : fmt::format(": {}", gpu_.nccl().last_error(handle_));
    gpu_.fail_nccl(why, operation, fmt::format("communicator {}{}", name_, words), stream, location);
  };
  if (status != 0 && status != gpu_.nccl().in_progress) {
    gpu_.abandon();
    fail(status);
  }
  gpu_.await(
      [&] {
        Status state = 0;
        if (const Status asked = gpu_.nccl().comm_get_async_error(handle_, &state); asked != 0) fail(asked);
        if (state == gpu_.nccl().in_progress) return false;
        if (state != 0) fail(state);
        return true;
      },
      [&] {
        return fmt::format("{} of communicator {} on rank {} is not through; a rank may not have come", operation, name_, gpu_.rank());
      });
}

std::uint64_t NcclComm::run(StreamHandle stream, const Collective& collective) {
  if (is_gone()) throw std::logic_error(fmt::format("communicator {} on rank {} was aborted", name_, gpu_.rank()));
  if (reduces(collective.kind) && collective.in.dtype() == DType::i16) {
    throw std::invalid_argument(
        fmt::format("{} \"{}\": NCCL does not reduce {}", to_string(collective.kind), collective.tag, to_string(collective.in.dtype())));
  }
  const std::uint64_t number = board_->post(as_call(collective).descriptor);
  try {
    board_->check(DescriptorBoard::Look::at_whole_calls);
  } catch (const Mismatch&) {
    gpu_.abandon();
    throw;
  }
  issue(stream, collective);
  return number;
}

void NcclComm::issue(StreamHandle stream, const Collective& collective) {
  const NcclTable& nccl = gpu_.nccl();
  const auto [type, per_element] = collective.kind == CollectiveKind::barrier ? Elements{NcclType::u8} : elements_of(collective.in.dtype());
  const std::size_t count = static_cast<std::size_t>(collective.in.numel()) * per_element;
  const std::byte* const in = collective.in.data();
  std::byte* const out = collective.out.data();
  const bool premultiplies = reduces(collective.kind) && collective.op == ReduceOp::premul_sum;
  NcclOp op = NcclOp::sum;
  if (premultiplies) {
    settle(nccl.red_op_create_premul_sum(&op, collective.factor, type, handle_), "ncclRedOpCreatePreMulSum", stream);
  } else if (reduces(collective.kind)) {
    op = op_of(collective.op);
  }
  switch (collective.kind) {
    case CollectiveKind::all_gather: settle(nccl.all_gather(in, out, count, type, handle_, stream), "ncclAllGather", stream); break;
    case CollectiveKind::reduce_scatter:
      settle(nccl.reduce_scatter(in, out, count / ranks_, type, op, handle_, stream), "ncclReduceScatter", stream);
      break;
    case CollectiveKind::all_reduce: settle(nccl.all_reduce(in, out, count, type, op, handle_, stream), "ncclAllReduce", stream); break;
    case CollectiveKind::broadcast:
      settle(nccl.broadcast(in, out, count, type, collective.root, handle_, stream), "ncclBroadcast", stream);
      break;
    case CollectiveKind::all_to_all: {
      const std::size_t part = count / ranks_, bytes = collective.in.bytes() / ranks_;
      Status status = nccl.group_start();
      for (std::size_t peer = 0; peer < ranks_ && status == 0; ++peer) {
        status = nccl.send(in + peer * bytes, part, type, static_cast<int>(peer), handle_, stream);
        if (status == 0) status = nccl.recv(out + peer * bytes, part, type, static_cast<int>(peer), handle_, stream);
      }
      const Status ended = nccl.group_end();  // also after an error: a group that stays open swallows all that comes
      settle(status, "ncclSend and ncclRecv", stream);
      settle(ended, "ncclGroupEnd", stream);
      break;
    }
    case CollectiveKind::barrier:
      if (token_ == nullptr) {
        gpu_.check(gpu_.cuda().malloc_async(&token_, token_bytes, stream), "cudaMallocAsync", stream);
        gpu_.check(gpu_.cuda().memset_async(token_, 0, token_bytes, stream), "cudaMemsetAsync", stream);
      }
      settle(nccl.all_reduce(token_, token_, token_bytes, NcclType::u8, NcclOp::sum, handle_, stream), "ncclAllReduce", stream);
      break;
    case CollectiveKind::send_recv:
    case CollectiveKind::coalesced: throw std::logic_error("check() refuses these");
  }
  if (premultiplies) settle(nccl.red_op_destroy(op, handle_), "ncclRedOpDestroy", stream);
}

}  // namespace shardproof::cuda
