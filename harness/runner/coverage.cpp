#include "harness/runner/coverage.hpp"

#include <pthread.h>
#include <signal.h>

// The compilers' coverage runtimes. A program that is built without coverage has none of these functions, and a program
// with coverage has one of them:
//   - __gcov_exit: gcc --coverage. The linker does not take gcc's __gcov_dump by itself.
//   - __gcov_dump: clang --coverage
//   - __llvm_profile_write_file: clang -fprofile-instr-generate
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
[[gnu::weak]] void __gcov_exit();
[[gnu::weak]] void __gcov_dump();
[[gnu::weak]] int __llvm_profile_write_file();
}
// NOLINTEND(bugprone-reserved-identifier)

namespace shardproof::runner {

bool has_coverage() { return __gcov_exit != nullptr || __gcov_dump != nullptr || __llvm_profile_write_file != nullptr; }

namespace {

/// SIGTERM has its default effect again when this function runs, and is not blocked (SA_RESETHAND, SA_NODEFER).
void save_and_end(int number) {
  save_coverage();
  ::raise(number);
}

/// A forked child is not the rank. Its counters begin with the rank's counters, which would count twice.
void restore_sigterm_in_child() {
  struct sigaction current{};
  if (::sigaction(SIGTERM, nullptr, &current) == 0 && current.sa_handler == save_and_end) ::signal(SIGTERM, SIG_DFL);
}

}  // namespace

void save_coverage_at_sigterm() {
  if (!has_coverage()) return;
  struct sigaction action{};
  action.sa_handler = save_and_end;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  ::sigaction(SIGTERM, &action, nullptr);
  ::pthread_atfork(nullptr, nullptr, restore_sigterm_in_child);
}

void save_coverage() {
  if (__gcov_exit != nullptr) __gcov_exit();
  else if (__gcov_dump != nullptr) __gcov_dump();
  if (__llvm_profile_write_file != nullptr) __llvm_profile_write_file();
}

}  // namespace shardproof::runner
