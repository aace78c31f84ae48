// A fake NCCL for tests that would otherwise need a GPU: it creates communicators and groups, and returns ncclSuccess.
// It moves no data, and prints the calls that reach it. As in NCCL, each function has two names, and other libraries
// may replace the first one.
#include <nccl.h>

#include <csignal>
#include <cstdio>
#include <vector>

struct ncclComm {
  int number, size, rank;
  int questions_until_ready = 0;
};

namespace {

struct Promise {
  ncclComm_t* where;
  ncclComm_t comm;
};

std::vector<Promise> promised;
int group_depth = 0;
int communicators_made = 0;
bool is_quiet = false;

int number_of(ncclComm_t comm) { return comm == nullptr ? -1 : comm->number; }

ncclResult_t reached(const char* name, size_t count, ncclComm_t comm) {
  if (!is_quiet) std::printf("%s%s %zu on %d\n", group_depth > 0 ? "in group " : "", name, count, number_of(comm));
  return ncclSuccess;
}

/// In a group a communicator comes with the end of the group.
ncclResult_t give(ncclComm_t* where, ncclComm comm) {
  comm.number = communicators_made++;
  auto* const made = new ncclComm(comm);
  if (group_depth > 0) {
    promised.push_back({where, made});
  } else {
    *where = made;
  }
  return comm.questions_until_ready > 0 ? ncclInProgress : ncclSuccess;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming,bugprone-macro-parentheses): NCCL's own names, and whole lists of
// parameters
#define STAND_IN(name, parameters)                                                           \
  extern "C" ncclResult_t pnccl##name parameters;                                            \
  extern "C" ncclResult_t nccl##name parameters __attribute__((weak, alias("pnccl" #name))); \
  extern "C" ncclResult_t pnccl##name parameters

STAND_IN(GetVersion, (int* version)) {
  *version = 22801;
  return ncclSuccess;
}
STAND_IN(GetUniqueId, (ncclUniqueId * id)) {
  *id = {.internal = "stand-in"};
  return ncclSuccess;
}
STAND_IN(CommInitRankConfig, (ncclComm_t * comm, int size, ncclUniqueId, int rank, ncclConfig_t* config)) {
  return give(comm, {.number = 0,
                     .size = size,
                     .rank = rank,
                     .questions_until_ready = config != nullptr && config->blocking == 0 ? 2 : 0});
}
STAND_IN(CommInitRank, (ncclComm_t * comm, int size, ncclUniqueId, int rank)) {
  return give(comm, {.number = 0, .size = size, .rank = rank});
}
STAND_IN(CommInitAll, (ncclComm_t * comms, int count, const int*)) {
  for (int rank = 0; rank < count; ++rank) give(comms + rank, {.number = 0, .size = count, .rank = rank});
  return ncclSuccess;
}
STAND_IN(CommSplit, (ncclComm_t comm, int color, int, ncclComm_t* part, ncclConfig_t*)) {
  *part = nullptr;
  return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess
                                     : give(part, {.number = 0, .size = comm->size / 2, .rank = comm->rank / 2});
}
STAND_IN(CommCount, (ncclComm_t comm, int* size)) {
  *size = comm->size;
  return ncclSuccess;
}
STAND_IN(CommUserRank, (ncclComm_t comm, int* rank)) {
  *rank = comm->rank;
  return ncclSuccess;
}
STAND_IN(CommGetAsyncError, (ncclComm_t comm, ncclResult_t* state)) {
  const bool is_lost = comm->size == 13;
  *state = is_lost ? ncclRemoteError : comm->questions_until_ready > 0 ? ncclInProgress : ncclSuccess;
  if (comm->questions_until_ready > 0) --comm->questions_until_ready;
  return ncclSuccess;
}
STAND_IN(CommDestroy, (ncclComm_t comm)) {
  reached("comm_destroy", 0, comm);
  delete comm;
  return ncclSuccess;
}
STAND_IN(CommAbort, (ncclComm_t comm)) { return reached("comm_abort", 0, comm); }
STAND_IN(GroupStart, ()) {
  ++group_depth;
  return ncclSuccess;
}
STAND_IN(GroupEnd, ()) {
  reached("group_end", 0, nullptr);
  if (--group_depth > 0) return ncclSuccess;
  for (const Promise& promise : promised) *promise.where = promise.comm;
  promised.clear();
  return ncclSuccess;
}
STAND_IN(AllGather, (const void*, void*, size_t count, ncclDataType_t, ncclComm_t comm, cudaStream_t)) {
  return reached("all_gather", count, comm);
}
STAND_IN(AllReduce, (const void*, void*, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t comm, cudaStream_t)) {
  return reached("all_reduce", count, comm);
}
STAND_IN(Broadcast, (const void*, void*, size_t count, ncclDataType_t, int, ncclComm_t comm, cudaStream_t)) {
  return reached("broadcast", count, comm);
}
// As on a GPU that fails: the call never returns.
STAND_IN(Reduce, (const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t)) {
  std::raise(SIGKILL);
  return ncclUnhandledCudaError;
}
// Calls by the name that other libraries may replace.
STAND_IN(Bcast, (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
STAND_IN(RedOpCreatePreMulSum, (ncclRedOp_t * op, void*, ncclDataType_t, ncclScalarResidence_t, ncclComm_t)) {
  *op = static_cast<ncclRedOp_t>(ncclNumOps + 1);
  return ncclSuccess;
}
STAND_IN(RedOpDestroy, (ncclRedOp_t, ncclComm_t)) { return ncclSuccess; }
STAND_IN(MemFree, (void*)) {
  is_quiet = true;  // by an engine that measures
  return ncclSuccess;
}
// NOLINTEND(readability-identifier-naming,bugprone-macro-parentheses)
