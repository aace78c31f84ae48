// Ranks that crash in code of their own. Each crash is in a function that its stack must name, with its line.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/launcher/trouble/trouble.hpp"

using trouble::gone;
using trouble::meet;

namespace crashes {

// The compiler must neither see that a call crashes, nor end a function with a jump to another one.
int* volatile nowhere = nullptr;
void (*volatile no_function)() = nullptr;
volatile int depth = 0;

[[gnu::noinline]] void write_to_null() {
  *nowhere = 1;
  depth = 0;
}

[[gnu::noinline]] void call_null() {
  no_function();
  depth = 0;
}

[[gnu::noinline]] void corrupt_the_heap() {
  char* volatile block = static_cast<char*>(::malloc(24));
  char* const size_of_block = block - sizeof(std::uint64_t);  // it belongs to malloc
  std::memset(size_of_block, 0x41, sizeof(std::uint64_t));
  ::free(block);
  depth = 0;
}

/// Without an end.
[[gnu::noinline]] int call_itself(int level) {
  volatile char frame[512];
  frame[level % 512] = 1;
  depth = level;
  return (depth < 0 ? 0 : call_itself(level + 1)) + frame[level % 256];
}

[[gnu::noinline]] void handle_alarm(int) { write_to_null(); }

[[gnu::noinline]] void fill(volatile std::uint64_t* words) {
  for (int word = 0; word < 24; ++word) words[word] = 0x4141'4141'4141;  // an address that no program has
}

/// Overwrites its own return address and the frames of its callers, then crashes.
[[gnu::noinline]] void overwrite_its_callers() {
  volatile std::uint64_t local[2] = {1, 2};
  fill(local);
  write_to_null();
  depth = static_cast<int>(local[0]);
}

/// From now on, the system call with this number has this result. Returns false if the kernel has no such result.
bool filter_calls(unsigned number, unsigned result, unsigned flags) {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, result),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{.len = 4, .filter = code};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter) >= 0;
}

/// From now on, the kernel asks a process that never answers whether this thread may write at a place of a file. The
/// handler of a crash writes so.
void hang_in_writes() {
  if (!filter_calls(SYS_pwrite64, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER))
    std::fputs("this kernel has no listener for system calls\n", stderr);
}

[[gnu::noinline]] void make_a_refused_call() {
  filter_calls(SYS_getpriority, SECCOMP_RET_TRAP, 0);
  ::syscall(SYS_getpriority, 0, 0);
  depth = 0;
}

/// For rank 1: calls `crash` and does not come back. The others wait for it.
template <class Crash>
void crash_on_rank_1(Rank& rank, const Crash& crash) {
  if (rank.index() == 1) {
    gone();
    crash();
  }
  meet(rank);
  CHECK(true);
}

}  // namespace crashes

using namespace crashes;

RANKED_TEST_CASE("crash/writes_to_null", ranks(2)) { crash_on_rank_1(rank, write_to_null); }

RANKED_TEST_CASE("crash/calls_null", ranks(2)) { crash_on_rank_1(rank, call_null); }

RANKED_TEST_CASE("crash/corrupts_the_heap", ranks(2)) { crash_on_rank_1(rank, corrupt_the_heap); }

RANKED_TEST_CASE("crash/makes_a_refused_call", ranks(2)) { crash_on_rank_1(rank, make_a_refused_call); }

RANKED_TEST_CASE("crash/overflows_its_stack", ranks(2)) {
  crash_on_rank_1(rank, [] { call_itself(0); });
}

RANKED_TEST_CASE("crash/overwrites_its_callers", ranks(2)) { crash_on_rank_1(rank, overwrite_its_callers); }

RANKED_TEST_CASE("crash/in_a_signal_handler", ranks(2)) {
  crash_on_rank_1(rank, [] {
    ::signal(SIGALRM, handle_alarm);
    ::raise(SIGALRM);
  });
}

RANKED_TEST_CASE("crash/in_a_thread", ranks(2)) {
  crash_on_rank_1(rank, [] { std::thread(write_to_null).join(); });
}

/// The program's own thread has no alternate stack, on which a handler could run.
RANKED_TEST_CASE("crash/overflows_the_stack_of_a_thread", ranks(2)) {
  crash_on_rank_1(rank, [] { std::thread(call_itself, 0).join(); });
}

RANKED_TEST_CASE("crash/in_a_rank_that_cannot_write", ranks(2)) {
  crash_on_rank_1(rank, [] {
    hang_in_writes();
    write_to_null();
  });
}

/// The record of the rank must not come from another process.
RANKED_TEST_CASE("crash/in_a_child_first", ranks(2)) {
  crash_on_rank_1(rank, [] {
    const pid_t child = ::fork();
    if (child == 0) call_null();
    ::waitpid(child, nullptr, 0);
    write_to_null();
  });
}
