// The tap's functions with NCCL's own names. The tap exports only these and dlsym. Each function describes its call and
// passes it on to the engine's NCCL.
#include <cmath>
#include <cstdio>
#include <limits>

#include "harness/nccl_tap/functions.hpp"
#include "harness/nccl_tap/nccl_library.hpp"
#include "harness/nccl_tap/scalar.hpp"
#include "harness/nccl_tap/tap.hpp"

namespace shardproof::nccl_tap {

using protocol::CallKind;

namespace {

ncclResult_t without_nccl(const char* name) {
  static std::atomic<bool> is_said = false;
  if (!is_said.exchange(true)) {
    std::fprintf(stderr,
                 "shardproof: nccl%s was called, but no libnccl.so.2 in this process has it; the tap loads no NCCL: "
                 "link the engine to one, or load it first\n",
                 name);
  }
  return ncclSystemError;
}

/// Passes a call on to NCCL's function of that name. A call that makes communicators gives what it knows about them in
/// `making`.
template <class Function, class... Arguments>
ncclResult_t pass_on(Function NcclFunctions::* which, const char* name, const Asked& asked, const Making* making,
                     Arguments... arguments) {
  const NcclLibrary* const library = nccl_library();
  const Function function = library == nullptr ? nullptr : library->functions.*which;
  if (function == nullptr) return without_nccl(name);
  Tap* const tap = Tap::active();
  if (tap == nullptr) return function(arguments...);
  return tap->call(asked, making, [=] { return function(arguments...); });
}

#define SHARDPROOF_NCCL_NAMED(name) &NcclFunctions::name, #name

protocol::ElementType type_of(ncclDataType_t type) { return static_cast<protocol::ElementType>(type); }
protocol::Reduction op_of(ncclRedOp_t op) { return static_cast<protocol::Reduction>(op); }

std::uint64_t key_of(const ncclUniqueId& id) { return key_of_unique_id({id.internal, sizeof id.internal}); }

}  // namespace

}  // namespace shardproof::nccl_tap

using namespace shardproof::nccl_tap;

// NOLINTBEGIN(readability-identifier-naming): NCCL's own names

// -- Calls that move data ---------------------------------------------------------------------------------------------

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const Asked asked{
      .kind = CallKind::all_gather, .count = count, .dtype = type_of(type), .comm = comm, .stream = stream};
  return pass_on(SHARDPROOF_NCCL_NAMED(AllGather), asked, nullptr, send, receive, count, type, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  const Asked asked{.kind = CallKind::reduce_scatter,
                    .count = count,
                    .dtype = type_of(type),
                    .op = op_of(op),
                    .comm = comm,
                    .stream = stream};
  return pass_on(SHARDPROOF_NCCL_NAMED(ReduceScatter), asked, nullptr, send, receive, count, type, op, comm, stream);
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  const Asked asked{.kind = CallKind::all_reduce,
                    .count = count,
                    .dtype = type_of(type),
                    .op = op_of(op),
                    .comm = comm,
                    .stream = stream};
  return pass_on(SHARDPROOF_NCCL_NAMED(AllReduce), asked, nullptr, send, receive, count, type, op, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const Asked asked{.kind = CallKind::broadcast,
                    .count = count,
                    .dtype = type_of(type),
                    .root = root,
                    .comm = comm,
                    .stream = stream};
  return pass_on(SHARDPROOF_NCCL_NAMED(Broadcast), asked, nullptr, send, receive, count, type, root, comm, stream);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  const Asked asked{.kind = CallKind::broadcast,
                    .count = count,
                    .dtype = type_of(type),
                    .root = root,
                    .comm = comm,
                    .stream = stream};
  return pass_on(SHARDPROOF_NCCL_NAMED(Bcast), asked, nullptr, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  const Asked asked{.kind = CallKind::reduce,
                    .count = count,
                    .dtype = type_of(type),
                    .op = op_of(op),
                    .root = root,
                    .comm = comm,
                    .stream = stream};
  return pass_on(SHARDPROOF_NCCL_NAMED(Reduce), asked, nullptr, send, receive, count, type, op, root, comm, stream);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const Asked asked{
      .kind = CallKind::send, .count = count, .dtype = type_of(type), .root = peer, .comm = comm, .stream = stream};
  return pass_on(SHARDPROOF_NCCL_NAMED(Send), asked, nullptr, send, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const Asked asked{
      .kind = CallKind::recv, .count = count, .dtype = type_of(type), .root = peer, .comm = comm, .stream = stream};
  return pass_on(SHARDPROOF_NCCL_NAMED(Recv), asked, nullptr, receive, count, type, peer, comm, stream);
}

#if NCCL_VERSION_CODE >= 22800
ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  const Asked asked{
      .kind = CallKind::all_to_all, .count = count, .dtype = type_of(type), .comm = comm, .stream = stream};
  return pass_on(SHARDPROOF_NCCL_NAMED(AlltoAll), asked, nullptr, send, receive, count, type, comm, stream);
}

ncclResult_t ncclGather(const void* send, void* receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  const Asked asked{
      .kind = CallKind::gather, .count = count, .dtype = type_of(type), .root = root, .comm = comm, .stream = stream};
  return pass_on(SHARDPROOF_NCCL_NAMED(Gather), asked, nullptr, send, receive, count, type, root, comm, stream);
}

ncclResult_t ncclScatter(const void* send, void* receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         cudaStream_t stream) {
  const Asked asked{
      .kind = CallKind::scatter, .count = count, .dtype = type_of(type), .root = root, .comm = comm, .stream = stream};
  return pass_on(SHARDPROOF_NCCL_NAMED(Scatter), asked, nullptr, send, receive, count, type, root, comm, stream);
}
#endif

// -- Groups -----------------------------------------------------------------------------------------------------------

ncclResult_t ncclGroupStart() {
  return pass_on(SHARDPROOF_NCCL_NAMED(GroupStart), {.kind = CallKind::group_start}, nullptr);
}

ncclResult_t ncclGroupEnd() { return pass_on(SHARDPROOF_NCCL_NAMED(GroupEnd), {.kind = CallKind::group_end}, nullptr); }

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return pass_on(SHARDPROOF_NCCL_NAMED(GroupSimulateEnd), {.kind = CallKind::group_simulate_end}, nullptr, info);
}

// -- Communicators ----------------------------------------------------------------------------------------------------

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return pass_on(SHARDPROOF_NCCL_NAMED(GetUniqueId), {.kind = CallKind::get_unique_id}, nullptr, id);
}

namespace {

Asked asked_to_join(CallKind kind, int size, int rank) {
  return {.kind = kind, .count = size < 0 ? 0 : static_cast<std::uint64_t>(size), .root = rank};
}

}  // namespace

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  const Making making{.where = comm, .size = size, .rank = rank, .key = key_of(id)};
  return pass_on(SHARDPROOF_NCCL_NAMED(CommInitRank), asked_to_join(CallKind::comm_init_rank, size, rank), &making,
                 comm, size, id, rank);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const Making making{.where = comm, .size = size, .rank = rank, .key = key_of(id), .config = config};
  return pass_on(SHARDPROOF_NCCL_NAMED(CommInitRankConfig), asked_to_join(CallKind::comm_init_rank_config, size, rank),
                 &making, comm, size, id, rank, config);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int size, int rank, int id_count, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  const bool has_id = ids != nullptr && id_count > 0;
  const Making making{.where = comm, .size = size, .rank = rank, .key = has_id ? key_of(ids[0]) : 0, .config = config};
  return pass_on(SHARDPROOF_NCCL_NAMED(CommInitRankScalable),
                 asked_to_join(CallKind::comm_init_rank_scalable, size, rank), &making, comm, size, rank, id_count, ids,
                 config);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  const Making making{.where = comms, .made = count < 0 ? 0 : count, .size = count};
  return pass_on(SHARDPROOF_NCCL_NAMED(CommInitAll), asked_to_join(CallKind::comm_init_all, count, -1), &making, comms,
                 count, devices);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  const Making making{.where = part, .made = color == NCCL_SPLIT_NOCOLOR ? 0 : 1, .config = config};
  const Asked asked{.kind = CallKind::comm_split, .root = color, .comm = comm};
  return pass_on(SHARDPROOF_NCCL_NAMED(CommSplit), asked, &making, comm, color, key, part, config);
}

#if NCCL_VERSION_CODE >= 22700
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* part, ncclConfig_t* config,
                            int flags) {
  const Making making{.where = part, .config = config};
  const Asked asked{.kind = CallKind::comm_shrink, .comm = comm};
  return pass_on(SHARDPROOF_NCCL_NAMED(CommShrink), asked, &making, comm, excluded, excluded_count, part, config,
                 flags);
}
#endif

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return pass_on(SHARDPROOF_NCCL_NAMED(CommFinalize), {.kind = CallKind::comm_finalize, .comm = comm}, nullptr, comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return pass_on(SHARDPROOF_NCCL_NAMED(CommDestroy), {.kind = CallKind::comm_destroy, .comm = comm}, nullptr, comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return pass_on(SHARDPROOF_NCCL_NAMED(CommAbort), {.kind = CallKind::comm_abort, .comm = comm}, nullptr, comm);
}

#if NCCL_VERSION_CODE >= 22800
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  return pass_on(SHARDPROOF_NCCL_NAMED(CommRevoke), {.kind = CallKind::comm_revoke, .comm = comm}, nullptr, comm,
                 flags);
}
#endif

// Engines poll this function. The tap reads the answer and records only errors.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const NcclLibrary* const library = nccl_library();
  if (library == nullptr || library->functions.CommGetAsyncError == nullptr) return without_nccl("CommGetAsyncError");
  Tap* const tap = Tap::active();
  const ncclResult_t result = library->functions.CommGetAsyncError(comm, state);
  if (tap != nullptr && result == ncclSuccess && state != nullptr) tap->notice_state(comm, *state);
  return result;
}

// -- Resources of a communicator, and memory --------------------------------------------------------------------------

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  const bool is_readable = residence == ncclScalarHostImmediate && scalar != nullptr;
  const double factor = is_readable ? scalar_value(scalar, type_of(type)) : std::numeric_limits<double>::quiet_NaN();
  const Asked asked{.kind = CallKind::red_op_create_premul_sum, .dtype = type_of(type), .factor = factor, .comm = comm};
  const ncclResult_t result =
      pass_on(SHARDPROOF_NCCL_NAMED(RedOpCreatePreMulSum), asked, nullptr, op, scalar, type, residence, comm);
  Tap* const tap = Tap::active();
  if (tap != nullptr && result == ncclSuccess && op != nullptr) tap->notice_operation(comm, *op, factor);
  return result;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  if (Tap* const tap = Tap::active()) tap->notice_operation(comm, op, std::nullopt);
  return pass_on(SHARDPROOF_NCCL_NAMED(RedOpDestroy), {.kind = CallKind::red_op_destroy, .comm = comm}, nullptr, op,
                 comm);
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t size, void** handle) {
  const Asked asked{.kind = CallKind::comm_register, .count = size, .comm = comm};
  return pass_on(SHARDPROOF_NCCL_NAMED(CommRegister), asked, nullptr, comm, buffer, size, handle);
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  return pass_on(SHARDPROOF_NCCL_NAMED(CommDeregister), {.kind = CallKind::comm_deregister, .comm = comm}, nullptr,
                 comm, handle);
}

#if NCCL_VERSION_CODE >= 22700
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window, int flags) {
  const Asked asked{.kind = CallKind::window_register, .count = size, .comm = comm};
  return pass_on(SHARDPROOF_NCCL_NAMED(CommWindowRegister), asked, nullptr, comm, buffer, size, window, flags);
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return pass_on(SHARDPROOF_NCCL_NAMED(CommWindowDeregister), {.kind = CallKind::window_deregister, .comm = comm},
                 nullptr, comm, window);
}
#endif

#if NCCL_VERSION_CODE >= 22800
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void* requirements, void* device_comm) {
  return pass_on(SHARDPROOF_NCCL_NAMED(DevCommCreate), {.kind = CallKind::dev_comm_create, .comm = comm}, nullptr, comm,
                 requirements, device_comm);
}

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void* device_comm) {
  return pass_on(SHARDPROOF_NCCL_NAMED(DevCommDestroy), {.kind = CallKind::dev_comm_destroy, .comm = comm}, nullptr,
                 comm, device_comm);
}
#endif

ncclResult_t ncclMemAlloc(void** memory, size_t size) {
  return pass_on(SHARDPROOF_NCCL_NAMED(MemAlloc), {.kind = CallKind::mem_alloc, .count = size}, nullptr, memory, size);
}

ncclResult_t ncclMemFree(void* memory) {
  return pass_on(SHARDPROOF_NCCL_NAMED(MemFree), {.kind = CallKind::mem_free}, nullptr, memory);
}

#undef SHARDPROOF_NCCL_NAMED
// NOLINTEND(readability-identifier-naming)

// -- By name ----------------------------------------------------------------------------------------------------------

void* shardproof::nccl_tap::tap_function(std::string_view name) {
#define SHARDPROOF_NCCL_FIND(function) \
  if (name == "nccl" #function) return reinterpret_cast<void*>(&::nccl##function);
  SHARDPROOF_NCCL_FUNCTIONS(SHARDPROOF_NCCL_FIND)
#undef SHARDPROOF_NCCL_FIND
  return nullptr;
}
