// The NCCL functions that the tap replaces, as a list and as a table of pointers. Functions that only answer questions
// are left to NCCL: ncclGetErrorString, ncclGetVersion, ncclGetLastError, and the ncclTeam* and *Requirement functions.
#pragma once

#pragma GCC visibility push(default)  // the file that includes nccl.h here exports the functions that it declares
#include <nccl.h>
#pragma GCC visibility pop

#include <array>
#include <cstddef>
#include <string_view>

extern "C" {
#if NCCL_VERSION_CODE >= 22800
// NCCL declares these for device code only, with structures that the tap never reads.
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void* requirements, void* device_comm)
    __attribute__((visibility("default")));
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void* device_comm) __attribute__((visibility("default")));
#endif
}

namespace shardproof::nccl_tap {

// NOLINTBEGIN(readability-identifier-naming,bugprone-macro-parentheses): NCCL's own names do not allow parentheses
// Each list holds the functions that a version of NCCL added. An older header does not declare them.
#if NCCL_VERSION_CODE >= 22700
#define SHARDPROOF_NCCL_FUNCTIONS_OF_2_27(X) X(CommShrink) X(CommWindowRegister) X(CommWindowDeregister)
#else
#define SHARDPROOF_NCCL_FUNCTIONS_OF_2_27(X)
#endif
#if NCCL_VERSION_CODE >= 22800
#define SHARDPROOF_NCCL_FUNCTIONS_OF_2_28(X) \
  X(AlltoAll) X(Gather) X(Scatter) X(CommRevoke) X(DevCommCreate) X(DevCommDestroy)
#else
#define SHARDPROOF_NCCL_FUNCTIONS_OF_2_28(X)
#endif

// clang-format off
#define SHARDPROOF_NCCL_FUNCTIONS(X)                                                                       \
  X(AllGather) X(ReduceScatter) X(AllReduce) X(Broadcast) X(Bcast) X(Reduce) X(Send) X(Recv)               \
  X(GroupStart) X(GroupEnd) X(GroupSimulateEnd)                                                            \
  X(GetUniqueId) X(CommInitRank) X(CommInitRankConfig) X(CommInitRankScalable) X(CommInitAll) X(CommSplit) \
  X(CommFinalize) X(CommDestroy) X(CommAbort) X(CommGetAsyncError)                                         \
  X(RedOpCreatePreMulSum) X(RedOpDestroy) X(CommRegister) X(CommDeregister) X(MemAlloc) X(MemFree)         \
  SHARDPROOF_NCCL_FUNCTIONS_OF_2_27(X) SHARDPROOF_NCCL_FUNCTIONS_OF_2_28(X)
// clang-format on

/// NCCL's own functions, by their names without `nccl`. A pointer is nullptr where NCCL has no function of that name.
struct NcclFunctions {
#define SHARDPROOF_NCCL_POINTER(name) decltype(&::nccl##name) name = nullptr;
  SHARDPROOF_NCCL_FUNCTIONS(SHARDPROOF_NCCL_POINTER)
#undef SHARDPROOF_NCCL_POINTER
  // The tap itself calls these:
  decltype(&::ncclGetVersion) GetVersion = nullptr;
  decltype(&::ncclCommCount) CommCount = nullptr;
  decltype(&::ncclCommUserRank) CommUserRank = nullptr;
};
// NOLINTEND(readability-identifier-naming,bugprone-macro-parentheses)

/// The tap's own function of that full name (`ncclAllGather`); nullptr where the tap does not replace it.
void* tap_function(std::string_view name);

}  // namespace shardproof::nccl_tap
