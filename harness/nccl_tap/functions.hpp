// The functions of NCCL that the tap stands in front of, as a list and as a table of pointers. What only asks or tells (ncclGetErrorString,
// ncclGetVersion, ncclGetLastError, the ncclTeam* and *Requirement functions) is left to NCCL.
#pragma once

#pragma GCC visibility push(default)  // whoever includes it here is to export what it declares
#include <nccl.h>
#pragma GCC visibility pop

#include <array>
#include <cstddef>
#include <string_view>

extern "C" {
#if NCCL_VERSION_CODE >= 22800
// Declared for device code only, with structures that nobody here looks into.
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void* requirements, void* device_comm) __attribute__((visibility("default")));
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void* device_comm) __attribute__((visibility("default")));
#endif
}

namespace shardproof::nccl_tap {

// NOLINTBEGIN(readability-identifier-naming,bugprone-macro-parentheses): NCCL's own names, which cannot stand in parentheses
// What a version of NCCL added; a header that is older does not declare it.
#if NCCL_VERSION_CODE >= 22700
#define SHARDPROOF_NCCL_FUNCTIONS_OF_2_27(X) X(CommShrink) X(CommWindowRegister) X(CommWindowDeregister)
#else
#define SHARDPROOF_NCCL_FUNCTIONS_OF_2_27(X)
#endif
#if NCCL_VERSION_CODE >= 22800
#define SHARDPROOF_NCCL_FUNCTIONS_OF_2_28(X) X(AlltoAll) X(Gather) X(Scatter) X(CommRevoke) X(DevCommCreate) X(DevCommDestroy)
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

/// NCCL's own, by their names without `nccl`; nullptr where it has none of that name.
struct NcclFunctions {
#define SHARDPROOF_NCCL_POINTER(name) decltype(&::nccl##name) name = nullptr;
  SHARDPROOF_NCCL_FUNCTIONS(SHARDPROOF_NCCL_POINTER)
#undef SHARDPROOF_NCCL_POINTER
  // Asked by the tap itself:
  decltype(&::ncclGetVersion) GetVersion = nullptr;
  decltype(&::ncclCommCount) CommCount = nullptr;
  decltype(&::ncclCommUserRank) CommUserRank = nullptr;
};
// NOLINTEND(readability-identifier-naming,bugprone-macro-parentheses)

/// The tap's own function of that whole name (`ncclAllGather`); nullptr where it stands in front of none.
void* tap_function(std::string_view name);

}  // namespace shardproof::nccl_tap
