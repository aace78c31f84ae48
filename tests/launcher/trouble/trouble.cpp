// Trouble before a rank has joined, or after it has left.
#include "tests/launcher/trouble/trouble.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "harness/base/file_descriptor.hpp"

namespace trouble {

bool in_trouble(const char* name) {
  const char* const trouble = getenv("TROUBLE");
  const char* const rank = getenv("SHARDPROOF_RANK");
  return trouble != nullptr && rank != nullptr && std::strcmp(trouble, name) == 0 && std::strcmp(rank, "1") == 0;
}

/// The exit code of a rank that fails at its end.
int exit_code() {
  const char* const code = getenv("EXIT_CODE");
  return code == nullptr ? 7 : std::atoi(code);
}

int count() {
  const int file = open(getenv("COUNTER"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0 || write(file, "x", 1) != 1) abort();
  const off_t size = lseek(file, 0, SEEK_END);
  close(file);
  return static_cast<int>(size);
}

void stay() {
  for (;;) pause();
}

pid_t leave_a_child() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return -1;
  const shardproof::base::FileDescriptor out(ends[0]), in(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    alarm(30);
    if (::write(in.get(), "!", 1) == 1) stay();
    _exit(1);
  }
  char sign = 0;
  return ::read(out.get(), &sign, 1) == 1 ? child : -1;
}

namespace {

void say_when(const char* what) {
  const auto now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch());
  std::fprintf(stderr, "%s %lld\n", what, static_cast<long long>(now.count()));
}

}  // namespace

void gone() { say_when("gone"); }

void meet(shardproof::Rank& rank) {
  try {
    rank.world().barrier();
  } catch (...) {
    say_when("free");
    throw;
  }
}

namespace {

bool in_first_world() {
  const char* const plan = getenv("SHARDPROOF_PLAN");
  return plan != nullptr && std::strstr(plan, "/worlds/0/") != nullptr;
}

/// EXIT=`rank microseconds`: that rank of the first world exits with 0 so long after its beginning, wherever it is
/// then.
void exit_in_time() {
  const char* const order = getenv("EXIT");
  const char* const rank = getenv("SHARDPROOF_RANK");
  int victim = 0;
  long microseconds = 0;
  if (order == nullptr || rank == nullptr || std::sscanf(order, "%d %ld", &victim, &microseconds) != 2) return;
  if (!in_first_world() || std::to_string(victim) != rank) return;
  std::thread([microseconds] {
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    _exit(0);
  }).detach();
}

/// As the handler of a sanitizer or of Python's faulthandler.
void end_by_default(int number) {
  ::signal(number, SIG_DFL);
  ::raise(number);
}

/// Runs `act` after all cases have passed, as a destructor of the program could.
void at_the_end(void (*act)()) { ::atexit(act); }

[[maybe_unused]] const bool before_main = [] {
  // These troubles depend on the rank. So ranks must not be copies of one process, and an open file prevents that.
  if (::getenv("TROUBLE") != nullptr || ::getenv("EXIT") != nullptr) ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in_trouble("refuses to join")) {
    std::fputs("no place for me here\n", stderr);
    _exit(3);
  }
  if (in_trouble("vanishes")) _exit(0);
  if (in_trouble("crashes early")) abort();
  if (in_trouble("handles its crashes")) ::signal(SIGSEGV, end_by_default);
  if (in_trouble("never joins in the first world") && in_first_world()) stay();
  if (in_trouble("stops in the first world") && in_first_world()) ::raise(SIGSTOP);
  if (in_trouble("never joins")) stay();
  exit_in_time();
  if (in_trouble("never leaves")) at_the_end(stay);
  if (in_trouble("dies at its end")) at_the_end([] { ::raise(SIGSEGV); });
  if (in_trouble("fails at its end")) at_the_end([] { _exit(exit_code()); });
  return true;
}();

}  // namespace

}  // namespace trouble

/// One more case on one rank: its list is not that of the others.
[[maybe_unused]] static const bool other_list = [] {
  if (!trouble::in_trouble("has another list")) return false;
  shardproof::detail::Registration("other/case", __FILE__, __LINE__, [](shardproof::Rank&) {}, shardproof::ranks(2));
  return true;
}();
