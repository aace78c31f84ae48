#include "harness/device/cuda/nccl_comm.hpp"

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/device/cuda/cuda_kernels.hpp"

namespace shardproof::device::cuda {

namespace {

// The NCCL type that elements of a dtype are moved or reduced as. Each of our elements is `per_element` of NCCL's.
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
    case DType::i16: return {NcclType::u8, 2};  // NCCL has no i16
    case DType::i8: return {NcclType::i8};
    case DType::u8: return {NcclType::u8};
  }
  throw std::invalid_argument("no such dtype");
}

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

NcclOp op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return NcclOp::sum;  // one division follows: NCCL's own average multiplies every operand by a rounded 1 / W
    case ReduceOp::max: return NcclOp::max;
    case ReduceOp::min: return NcclOp::min;
    case ReduceOp::none:
    case ReduceOp::premul_sum: break;
  }
  throw std::logic_error(fmt::format("NCCL has no predefined operation for {}", to_string(op)));
}

std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather: return "ncclAllGather";
    case CollectiveKind::reduce_scatter: return "ncclReduceScatter";
    case CollectiveKind::barrier:
    case CollectiveKind::all_reduce: return "ncclAllReduce";
    case CollectiveKind::broadcast: return "ncclBroadcast";
    case CollectiveKind::all_to_all: return "ncclSend and ncclRecv";
    case CollectiveKind::send_recv:
    case CollectiveKind::coalesced: break;
  }
  throw std::logic_error("check() refuses these");
}

}  // namespace

NcclComm::NcclComm(Gpu& gpu, const Group& hosts, std::unique_ptr<fabric::DescriptorBoard> board)
    : gpu_(gpu), name_(hosts.name()), ranks_(static_cast<std::size_t>(hosts.size())), board_(std::move(board)) {
  gpu_.comms_.push_back(this);
}

std::unique_ptr<NcclComm> NcclComm::make(Gpu& gpu, const Group& hosts, const UniqueId& id,
                                         std::unique_ptr<fabric::DescriptorBoard> board) {
  gpu.require_usable();
  std::unique_ptr<NcclComm> comm(new NcclComm(gpu, hosts, std::move(board)));
  const Status status = gpu.nccl().comm_init_rank(&comm->handle_, hosts.size(), &id, hosts.rank(), comm->name_.c_str());
  comm->settle(status, "ncclCommInitRankConfig");
  comm->warm_up();
  return comm;
}

NcclComm::~NcclComm() {
  try {
    if (handle_ != nullptr) {
      const Status status = gpu_.nccl().comm_finalize(handle_);
      // A rank that unwinds from an exception does not wait long for other ranks, because they may wait for it.
      const auto is_through = [this] { return state("ncclCommFinalize") == 0; };
      if (std::uncaught_exceptions() > 0 && !gpu_.ends_soon(is_through)) gpu_.abandon();
      if (handle_ != nullptr) settle(status, "ncclCommFinalize");
      if (handle_ != nullptr) gpu_.retire(std::exchange(handle_, nullptr));
    }
  } catch (const std::exception& error) {  // the communicator was abandoned, with all others
    gpu_.complain(error);
  }
  if (scratch_ != nullptr && !gpu_.is_lost()) gpu_.cuda().free_async(scratch_, nullptr);
  std::erase(gpu_.comms_, this);
}

// NCCL connects and allocates at the first collective of a kind. That must not happen behind a gate, or during a
// measurement.
void NcclComm::warm_up() {
  const CudaTable& cuda = gpu_.cuda();
  const std::size_t bytes = 2 * ranks_;
  const StreamHandle stream = gpu_.housekeeping();
  gpu_.check(cuda.malloc_async(&scratch_, bytes, stream), "cudaMallocAsync", stream);
  gpu_.check(cuda.memset_async(scratch_, 0, bytes, stream), "cudaMemsetAsync", stream);
  auto* const first = static_cast<std::byte*>(scratch_);
  std::byte* const second = first + ranks_;
  const NcclTable& nccl = gpu_.nccl();
  settle(nccl.all_gather(first, second, 1, NcclType::u8, handle_, stream), "ncclAllGather", stream);
  settle(nccl.reduce_scatter(second, first, 1, NcclType::u8, NcclOp::sum, handle_, stream), "ncclReduceScatter",
         stream);
  settle(nccl.all_reduce(first, second, 1, NcclType::u8, NcclOp::sum, handle_, stream), "ncclAllReduce", stream);
  settle(nccl.broadcast(first, second, 1, NcclType::u8, 0, handle_, stream), "ncclBroadcast", stream);
  gpu_.run_through(stream, "the first collectives");
}

void NcclComm::check_agreement(fabric::DescriptorBoard::Look look) const {
  if (handle_ != nullptr) board_->check(look);
}

Status NcclComm::state(std::string_view operation) const {
  Status state = 0;
  const Status asked = gpu_.nccl().comm_get_async_error(handle_, &state);
  if (asked != 0) fail(asked, operation, nullptr, std::source_location::current());
  return state;
}

bool NcclComm::is_busy() const {
  return handle_ != nullptr && state("ncclCommGetAsyncError") == gpu_.nccl().in_progress;
}

bool NcclComm::is_bereft() const {
  if (handle_ == nullptr) return false;
  const Status now = state("ncclCommGetAsyncError");
  if (now == gpu_.nccl().remote_error) return true;
  if (now != 0 && now != gpu_.nccl().in_progress)
    fail(now, "ncclCommGetAsyncError", nullptr, std::source_location::current());
  return false;
}

void NcclComm::fail_bereft() const {
  fail(gpu_.nccl().remote_error, "ncclCommGetAsyncError", nullptr, std::source_location::current());
}

void NcclComm::fail(Status status, std::string_view operation, StreamHandle stream,
                    std::source_location location) const {
  const std::string words = handle_ == nullptr ? "" : fmt::format(": {}", gpu_.nccl().last_error(handle_));
  gpu_.fail_nccl(status, operation, fmt::format("communicator {}{}", name_, words), stream, location);
}

void NcclComm::settle(Status status, std::string_view operation, StreamHandle stream, std::source_location location) {
  gpu_.await(
      [&] {
        if (status != 0 && status != gpu_.nccl().in_progress) fail(status, operation, stream, location);
        const Status now = state(operation);
        if (now != 0 && now != gpu_.nccl().in_progress && now != gpu_.nccl().remote_error)
          fail(now, operation, stream, location);
        return now == 0;
      },
      [&] { return fmt::format("{} of communicator {} on rank {} has not finished", operation, name_, gpu_.rank()); });
}

void NcclComm::require_runnable(const Collective& collective) const {
  if (is_gone()) throw std::logic_error(fmt::format("communicator {} on rank {} was aborted", name_, gpu_.rank()));
  if (reduces(collective.kind) && collective.in.dtype() == DType::i16) {
    throw std::invalid_argument(fmt::format("{} \"{}\": NCCL does not reduce {}", to_string(collective.kind),
                                            collective.tag, to_string(collective.in.dtype())));
  }
}

std::uint64_t NcclComm::post(const Descriptor& asked) {
  // A rank waits if it is so far ahead of another rank that their calls could not be compared.
  gpu_.await([this] { return board_->has_room(); },
             [this] { return fmt::format("group {} on rank {} is too far ahead of other ranks", name_, gpu_.rank()); });
  return board_->post(asked);
}

std::uint64_t NcclComm::run(StreamHandle stream, const Collective& collective) {
  require_runnable(collective);
  const std::uint64_t number = post(as_call(collective).descriptor);
  gpu_.await([] { return true; }, [] { return std::string(); });
  const NcclOp op = make_op(stream, collective);
  settle(enqueue(stream, collective, op), name_of(collective.kind), stream);
  finish(stream, collective, op);
  return number;
}

// NCCL cannot make or destroy operators within a group of calls.
std::uint64_t NcclComm::run_coalesced(StreamHandle stream, std::span<const Collective> collectives) {
  for (const Collective& collective : collectives) require_runnable(collective);
  const std::uint64_t number = post(coalesced_descriptor(collectives));
  for (const Collective& collective : collectives) post(as_call(collective).descriptor);
  gpu_.await([] { return true; }, [] { return std::string(); });
  std::vector<NcclOp> ops;
  for (const Collective& collective : collectives) ops.push_back(make_op(stream, collective));
  Status status = gpu_.nccl().group_start();
  for (std::size_t i = 0; i < collectives.size() && is_fine(status); ++i)
    status = enqueue(stream, collectives[i], ops[i]);
  const Status ended = gpu_.nccl().group_end();  // also after an error: an open group would swallow all later calls
  settle(status, name_of(collectives.front().kind), stream);
  settle(ended, "ncclGroupEnd", stream);
  for (std::size_t i = 0; i < collectives.size(); ++i) finish(stream, collectives[i], ops[i]);
  return number;
}

NcclOp NcclComm::make_op(StreamHandle stream, const Collective& collective) {
  if (!reduces(collective.kind)) return NcclOp::sum;
  if (collective.op != ReduceOp::premul_sum) return op_of(collective.op);
  NcclOp op = NcclOp::sum;
  settle(gpu_.nccl().red_op_create_premul_sum(&op, collective.factor, elements_of(collective.in.dtype()).type, handle_),
         "ncclRedOpCreatePreMulSum", stream);
  return op;
}

Status NcclComm::enqueue(StreamHandle stream, const Collective& collective, NcclOp op) {
  const NcclTable& nccl = gpu_.nccl();
  const auto [type, per_element] =
      collective.kind == CollectiveKind::barrier ? Elements{NcclType::u8} : elements_of(collective.in.dtype());
  const std::size_t count = static_cast<std::size_t>(collective.in.numel()) * per_element;
  const std::byte* const in = collective.in.data();
  std::byte* const out = collective.out.data();
  switch (collective.kind) {
    case CollectiveKind::all_gather: return nccl.all_gather(in, out, count, type, handle_, stream);
    case CollectiveKind::reduce_scatter: return nccl.reduce_scatter(in, out, count / ranks_, type, op, handle_, stream);
    case CollectiveKind::all_reduce: return nccl.all_reduce(in, out, count, type, op, handle_, stream);
    case CollectiveKind::broadcast: return nccl.broadcast(in, out, count, type, collective.root, handle_, stream);
    case CollectiveKind::all_to_all: {
      const std::size_t part = count / ranks_, bytes = collective.in.bytes() / ranks_;
      Status status = nccl.group_start();
      for (std::size_t peer = 0; peer < ranks_ && is_fine(status); ++peer) {
        status = nccl.send(in + peer * bytes, part, type, static_cast<int>(peer), handle_, stream);
        if (is_fine(status))
          status = nccl.recv(out + peer * bytes, part, type, static_cast<int>(peer), handle_, stream);
      }
      const Status ended = nccl.group_end();  // also after an error, as above
      return is_fine(status) ? ended : status;
    }
    case CollectiveKind::barrier:
      return nccl.all_reduce(scratch_, scratch_, 1, NcclType::u8, NcclOp::sum, handle_, stream);
    case CollectiveKind::send_recv:
    case CollectiveKind::coalesced: break;
  }
  throw std::logic_error("check() refuses these");
}

void NcclComm::finish(StreamHandle stream, const Collective& collective, NcclOp op) {
  if (!reduces(collective.kind)) return;
  if (collective.op == ReduceOp::premul_sum)
    settle(gpu_.nccl().red_op_destroy(op, handle_), "ncclRedOpDestroy", stream);
  if (collective.op == ReduceOp::avg)
    gpu_.kernels().divide(stream, collective.out, collective.out, static_cast<double>(ranks_));
}

bool NcclComm::is_fine(Status status) const { return status == 0 || status == gpu_.nccl().in_progress; }

}  // namespace shardproof::device::cuda
