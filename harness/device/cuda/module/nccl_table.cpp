#include <nccl.h>

#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "harness/device/cuda/kernels/conversions.hpp"
#include "harness/device/cuda/module/tables.hpp"

namespace shardproof::device::cuda {

namespace {

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 0),
              "communicators are aborted together, in one group: NCCL can do so since 2.22");
static_assert(ncclSuccess == 0);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));

consteval bool is_same(NcclType ours, ncclDataType_t theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
consteval bool is_same(NcclOp ours, ncclRedOp_t theirs) { return static_cast<int>(ours) == static_cast<int>(theirs); }
static_assert(is_same(NcclType::i8, ncclInt8) && is_same(NcclType::u8, ncclUint8) &&
              is_same(NcclType::i32, ncclInt32) && is_same(NcclType::i64, ncclInt64) &&
              is_same(NcclType::f16, ncclFloat16) && is_same(NcclType::f32, ncclFloat32) &&
              is_same(NcclType::f64, ncclFloat64) && is_same(NcclType::bf16, ncclBfloat16));
static_assert(is_same(NcclOp::sum, ncclSum) && is_same(NcclOp::max, ncclMax) && is_same(NcclOp::min, ncclMin) &&
              is_same(NcclOp::avg, ncclAvg));

ncclComm_t native_comm(CommHandle comm) { return static_cast<ncclComm_t>(comm); }
cudaStream_t stream_of(StreamHandle stream) { return static_cast<cudaStream_t>(stream); }
ncclDataType_t native_type(NcclType type) { return static_cast<ncclDataType_t>(type); }
ncclRedOp_t native_op(NcclOp op) { return static_cast<ncclRedOp_t>(op); }

DType element_type(NcclType type) {
  switch (type) {
    case NcclType::i8: return DType::i8;
    case NcclType::u8: return DType::u8;
    case NcclType::i32: return DType::i32;
    case NcclType::i64: return DType::i64;
    case NcclType::f16: return DType::f16;
    case NcclType::f32: return DType::f32;
    case NcclType::f64: return DType::f64;
    case NcclType::bf16: return DType::bf16;
  }
  return DType::u8;
}

// NCCL does not promise to copy the name, and an abort may outlive the caller's string. So this function keeps every
// name, once.
[[maybe_unused]] const char* kept(const char* name) {
  static std::mutex mutex;
  static std::set<std::string> names;
  const std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}

ncclConfig_t never_blocking(const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  config.commName = kept(name);
#else
  static_cast<void>(name);
#endif
  return config;
}

Status nccl_version(int* version) { return ncclGetVersion(version); }

Status get_unique_id(UniqueId* id) {
  ncclUniqueId made{};
  const ncclResult_t status = ncclGetUniqueId(&made);
  if (status == ncclSuccess) std::memcpy(id->bytes, made.internal, sizeof id->bytes);
  return status;
}

Status comm_init_rank(CommHandle* comm, int size, const UniqueId* id, int rank, const char* name) {
  ncclUniqueId shared{};
  std::memcpy(shared.internal, id->bytes, sizeof id->bytes);
  ncclConfig_t config = never_blocking(name);
  ncclComm_t made = nullptr;
  const ncclResult_t status = ncclCommInitRankConfig(&made, size, shared, rank, &config);
  *comm = made;
  return status;
}

Status comm_get_async_error(CommHandle comm, Status* state) {
  ncclResult_t found = ncclSuccess;
  const ncclResult_t status = ncclCommGetAsyncError(native_comm(comm), &found);
  *state = found;
  return status;
}

Status comm_finalize(CommHandle comm) { return ncclCommFinalize(native_comm(comm)); }
Status comm_destroy(CommHandle comm) { return ncclCommDestroy(native_comm(comm)); }
Status comm_abort(CommHandle comm) { return ncclCommAbort(native_comm(comm)); }
Status group_start() { return ncclGroupStart(); }
Status group_end() { return ncclGroupEnd(); }

Status red_op_create_premul_sum(NcclOp* op, double factor, NcclType type, CommHandle comm) {
  alignas(std::int64_t) std::byte scalar[sizeof(std::int64_t)] = {};
  bodies::store(element_type(type), scalar, 0, factor);
  ncclRedOp_t made{};
  const ncclResult_t status =
      ncclRedOpCreatePreMulSum(&made, scalar, native_type(type), ncclScalarHostImmediate, native_comm(comm));
  if (status == ncclSuccess) *op = static_cast<NcclOp>(made);
  return status;
}

Status red_op_destroy(NcclOp op, CommHandle comm) { return ncclRedOpDestroy(native_op(op), native_comm(comm)); }

Status all_gather(const void* in, void* out, std::size_t count, NcclType type, CommHandle comm, StreamHandle stream) {
  return ncclAllGather(in, out, count, native_type(type), native_comm(comm), stream_of(stream));
}

Status reduce_scatter(const void* in, void* out, std::size_t count, NcclType type, NcclOp op, CommHandle comm,
                      StreamHandle stream) {
  return ncclReduceScatter(in, out, count, native_type(type), native_op(op), native_comm(comm), stream_of(stream));
}

Status all_reduce(const void* in, void* out, std::size_t count, NcclType type, NcclOp op, CommHandle comm,
                  StreamHandle stream) {
  return ncclAllReduce(in, out, count, native_type(type), native_op(op), native_comm(comm), stream_of(stream));
}

Status broadcast(const void* in, void* out, std::size_t count, NcclType type, int root, CommHandle comm,
                 StreamHandle stream) {
  return ncclBroadcast(in, out, count, native_type(type), root, native_comm(comm), stream_of(stream));
}

Status send(const void* in, std::size_t count, NcclType type, int peer, CommHandle comm, StreamHandle stream) {
  return ncclSend(in, count, native_type(type), peer, native_comm(comm), stream_of(stream));
}

Status recv(void* out, std::size_t count, NcclType type, int peer, CommHandle comm, StreamHandle stream) {
  return ncclRecv(out, count, native_type(type), peer, native_comm(comm), stream_of(stream));
}

const char* nccl_error_text(Status status) { return ncclGetErrorString(static_cast<ncclResult_t>(status)); }

const char* last_error(CommHandle comm) {
  const char* const text = ncclGetLastError(native_comm(comm));
  return text == nullptr || *text == '\0' ? "NCCL gives no details; set NCCL_DEBUG=WARN to get them" : text;
}

}  // namespace

const NcclTable& nccl_table() {
  static constexpr NcclTable table{.in_progress = ncclInProgress,
                                   .remote_error = ncclRemoteError,
                                   .version = nccl_version,
                                   .get_unique_id = get_unique_id,
                                   .comm_init_rank = comm_init_rank,
                                   .comm_get_async_error = comm_get_async_error,
                                   .comm_finalize = comm_finalize,
                                   .comm_destroy = comm_destroy,
                                   .comm_abort = comm_abort,
                                   .group_start = group_start,
                                   .group_end = group_end,
                                   .red_op_create_premul_sum = red_op_create_premul_sum,
                                   .red_op_destroy = red_op_destroy,
                                   .all_gather = all_gather,
                                   .reduce_scatter = reduce_scatter,
                                   .all_reduce = all_reduce,
                                   .broadcast = broadcast,
                                   .send = send,
                                   .recv = recv,
                                   .error_text = nccl_error_text,
                                   .last_error = last_error};
  return table;
}

}  // namespace shardproof::device::cuda
