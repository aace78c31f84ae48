// Calls each function of NCCL that refuses a call without a GPU, with arguments that differ from each other, and prints
// NCCL's results. Streams are invalid addresses, because NCCL refuses the null communicator before it uses the stream.
#pragma once

#include <nccl.h>

#include <cstdio>
#include <cstring>

namespace engine {

// NOLINTBEGIN(readability-identifier-naming,bugprone-macro-parentheses): NCCL's names, and no parentheses around them
// clang-format off
#define ENGINE_FUNCTIONS(X) \
  X(AllGather) X(ReduceScatter) X(AllReduce) X(Broadcast) X(Bcast) X(Reduce) X(Send) X(Recv) X(AlltoAll) X(Gather) \
  X(Scatter) X(GroupStart) X(GroupEnd) X(GetUniqueId) X(CommInitRank) X(CommInitRankConfig) \
  X(CommInitRankScalable) X(CommSplit) X(CommFinalize) X(CommDestroy) X(CommAbort) X(CommRevoke) \
  X(RedOpCreatePreMulSum) X(RedOpDestroy) X(CommRegister) X(CommDeregister) X(CommWindowRegister) \
  X(CommWindowDeregister) X(CommGetAsyncError) X(GetErrorString)
// clang-format on

struct Nccl {
#define ENGINE_POINTER(name) decltype(&::nccl##name) name;
  ENGINE_FUNCTIONS(ENGINE_POINTER)
#undef ENGINE_POINTER
};
// NOLINTEND(readability-identifier-naming,bugprone-macro-parentheses)

inline void say(const char* name, ncclResult_t result) { std::printf("%s %d\n", name, static_cast<int>(result)); }

inline void make_all_calls(const Nccl& nccl) {
  char buffer[64] = {}, no_streams[64] = {};
  const auto stream = [&](int number) { return reinterpret_cast<cudaStream_t>(no_streams + number); };
  say("all_gather", nccl.AllGather(buffer, buffer, 276, ncclFloat32, nullptr, stream(2)));
  say("reduce_scatter", nccl.ReduceScatter(buffer, buffer, 10, ncclBfloat16, ncclAvg, nullptr, stream(1)));
  say("all_reduce", nccl.AllReduce(buffer, buffer, 4, ncclFloat64, ncclMax, nullptr, nullptr));
  say("broadcast", nccl.Broadcast(buffer, buffer, 7, ncclInt32, 2, nullptr, stream(2)));
  say("bcast", nccl.Bcast(buffer, 8, ncclUint8, 1, nullptr, stream(2)));
  say("reduce", nccl.Reduce(buffer, buffer, 9, ncclFloat16, ncclProd, 3, nullptr, stream(3)));
  say("all_to_all", nccl.AlltoAll(buffer, buffer, 11, ncclUint64, nullptr, stream(3)));
  say("gather", nccl.Gather(buffer, buffer, 12, ncclInt8, 4, nullptr, stream(3)));
  say("scatter", nccl.Scatter(buffer, buffer, 13, ncclFloat8e4m3, 5, nullptr, stream(3)));
  say("group_start", nccl.GroupStart());
  say("send", nccl.Send(buffer, 14, ncclInt64, 6, nullptr, stream(3)));
  say("recv", nccl.Recv(buffer, 15, ncclUint32, 7, nullptr, stream(3)));
  say("group_end", nccl.GroupEnd());
  ncclUniqueId id = {};
  say("get_unique_id", nccl.GetUniqueId(&id));
  ncclComm_t comm = nullptr;
  say("comm_init_rank", nccl.CommInitRank(&comm, 1, id, 0));  // without a GPU an error; with one a communicator
  if (comm != nullptr) say("comm_abort", nccl.CommAbort(comm));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "mesh";
  say("comm_init_rank_config", nccl.CommInitRankConfig(nullptr, 2, id, 1, &config));
  say("comm_init_rank_scalable", nccl.CommInitRankScalable(nullptr, 3, 2, 1, &id, &config));
  ncclComm_t part = nullptr;
  say("comm_split", nccl.CommSplit(nullptr, 3, 0, &part, nullptr));
  ncclRedOp_t op = ncclSum;
  float factor = 0.25F;
  say("red_op_create_premul_sum",
      nccl.RedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, nullptr));
  say("red_op_destroy", nccl.RedOpDestroy(static_cast<ncclRedOp_t>(9), nullptr));
  void* handle = nullptr;
  say("comm_register", nccl.CommRegister(nullptr, buffer, 64, &handle));
  say("comm_deregister", nccl.CommDeregister(nullptr, handle));
  ncclWindow_t window = nullptr;
  say("window_register", nccl.CommWindowRegister(nullptr, buffer, 32, &window, NCCL_WIN_DEFAULT));
  say("window_deregister", nccl.CommWindowDeregister(nullptr, window));
  ncclResult_t state = ncclSuccess;
  say("comm_get_async_error", nccl.CommGetAsyncError(nullptr, &state));
  say("comm_finalize", nccl.CommFinalize(nullptr));
  say("comm_revoke", nccl.CommRevoke(nullptr, NCCL_REVOKE_DEFAULT));
  say("comm_destroy", nccl.CommDestroy(nullptr));
  say("comm_abort", nccl.CommAbort(nullptr));
  std::printf("error string: %s\n", nccl.GetErrorString(ncclInvalidArgument));
  std::fflush(stdout);
}

/// The files of a kind of library that are mapped into this process, a line for each.
inline void print_mapped(const char* part) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  char line[4096];
  while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
    const char* const path = std::strchr(line, '/');
    if (path != nullptr && std::strstr(line, "r-xp") != nullptr && std::strstr(path, part) != nullptr)
      std::printf("mapped %s", path);
  }
  if (maps != nullptr) std::fclose(maps);
}

}  // namespace engine
