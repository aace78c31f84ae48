// An engine's use of communicators, groups, threads and processes: `scenario NAME`. It prints the answers that it got.
// The NCCL that it is linked to prints the calls that reached it.
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

namespace {

char buffer[64];

void print_result(ncclResult_t result) { std::printf("told %d\n", static_cast<int>(result)); }

ncclComm_t join(int size, int rank, char id_byte = 'x') {
  ncclUniqueId id = {};
  id.internal[0] = id_byte;
  ncclComm_t comm = nullptr;
  ncclCommInitRank(&comm, size, id, rank);
  return comm;
}

ncclResult_t all_gather(ncclComm_t comm, size_t count) {
  return ncclAllGather(buffer, buffer, count, ncclFloat32, comm, nullptr);
}
ncclResult_t all_reduce(ncclComm_t comm, size_t count, ncclRedOp_t op = ncclSum) {
  return ncclAllReduce(buffer, buffer, count, ncclFloat32, op, comm, nullptr);
}

void communicators() {
  ncclComm_t world = join(4, 2);
  ncclComm_t half = nullptr, none = nullptr, background = nullptr, lost = join(13, 0);
  ncclGroupStart();
  half = reinterpret_cast<ncclComm_t>(buffer);  // a value before the group's end means nothing
  const ncclUniqueId id = {};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "grouped";
  auto grouped = reinterpret_cast<ncclComm_t>(buffer);
  ncclCommInitRankConfig(&grouped, 3, id, 1, &config);
  ncclGroupEnd();
  ncclCommSplit(world, 1, 0, &half, nullptr);
  ncclCommSplit(world, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr);
  config.commName = "background";
  config.blocking = 0;
  ncclCommInitRankConfig(&background, 5, id, 3, &config);
  for (int i = 0; i < 4; ++i) {
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(background, &state);
    ncclCommGetAsyncError(lost, &state);
  }
  ncclComm_t both[2];
  ncclCommInitAll(both, 2, nullptr);
  std::size_t count = 10;
  for (ncclComm_t comm : {world, half, grouped, background, both[0], both[1]}) all_reduce(comm, count++);
  ncclCommDestroy(half);
  half = join(2, 1, 'y');  // where the other one was, mostly
  all_reduce(half, count);
  float factor = 0.25F;
  ncclRedOp_t op = ncclSum;
  ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, world);
  all_reduce(world, 20, op);
  ncclRedOpDestroy(op, world);
  all_reduce(world, 21, op);
  ncclBcast(buffer, 22, ncclFloat32, 1, world, nullptr);
}

void order() {
  ncclComm_t world = join(2, 1), other = join(2, 1, 'y');
  for (size_t i = 0; i < 3; ++i) print_result(all_gather(world, i));
  print_result(all_gather(other, 3));
  print_result(ncclGroupStart());
  print_result(all_reduce(world, 4));
  print_result(all_reduce(other, 5));
  print_result(all_reduce(world, 6));
  print_result(ncclGroupEnd());
  print_result(all_gather(world, 7));
  print_result(ncclCommAbort(world));
}

void fork_once() {
  ncclComm_t world = join(2, 1);
  all_gather(world, 1);
  std::fflush(stdout);
  const pid_t child = fork();
  all_gather(world, child == 0 ? 100 : 2);
  std::fflush(stdout);
  if (child != 0) waitpid(child, nullptr, 0);
}

void threads() {
  ncclMemFree(nullptr);
  std::vector<std::thread> all;
  all.reserve(4);
  for (int i = 0; i < 4; ++i) {
    all.emplace_back([i] {
      ncclComm_t comm = join(4, i);
      for (size_t call = 0; call < 500; ++call) all_gather(comm, call);
    });
  }
  for (std::thread& thread : all) thread.join();
}

void cost() {
  ncclComm_t world = join(2, 1);
  ncclMemFree(nullptr);
  constexpr int calls = 1'000'000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) all_gather(world, 1);
  const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - begin;
  std::printf("%.1f ns a call\n", static_cast<double>(taken.count()) / calls);
}

void streams() {
  ncclComm_t world = join(2, 1);
  print_result(all_gather(world, 1));
  print_result(ncclAllReduce(buffer, buffer, 2, ncclFloat32, ncclSum, world, reinterpret_cast<cudaStream_t>(0x1000)));
  print_result(ncclBroadcast(buffer, buffer, 3, ncclFloat32, 0, world, reinterpret_cast<cudaStream_t>(0xbad)));
}

/// A run that a test ends in the middle. It prints a line when it is there, and never ends by itself.
void endless() {
  ncclComm_t world = join(2, 1);
  ncclMemFree(nullptr);
  for (size_t i = 0;; ++i) {
    all_gather(world, i);
    if (i == 10'000) std::puts("under way"), std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view name = count > 1 ? arguments[1] : "";
  if (name == "communicators") communicators();
  else if (name == "order") order();
  else if (name == "fork") fork_once();
  else if (name == "threads") threads();
  else if (name == "cost") cost();
  else if (name == "streams") streams();
  else if (name == "endless") endless();
  else return 2;
}
