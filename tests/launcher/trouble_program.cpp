// A program of ranked cases as a user would write it, but for what its ranks do to themselves. TROUBLE in the environment names what goes
// wrong before a rank has even joined.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <shardproof.hpp>
#include <string>

namespace {

bool in_trouble(const char* name) {
  const char* const trouble = getenv("TROUBLE");
  const char* const rank = getenv("SHARDPROOF_RANK");
  return trouble != nullptr && rank != nullptr && std::strcmp(trouble, name) == 0 && std::strcmp(rank, "1") == 0;
}

/// How often this has been called in all processes that have the same COUNTER, a file that grows by a byte each time.
int count() {
  const int file = open(getenv("COUNTER"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0 || write(file, "x", 1) != 1) abort();
  const off_t size = lseek(file, 0, SEEK_END);
  close(file);
  return static_cast<int>(size);
}

/// For ever: whoever is here has to be killed.
[[noreturn]] void stay() {
  for (;;) pause();
}

[[maybe_unused]] const bool before_main = [] {
  if (in_trouble("refuses to join")) {
    std::fputs("no place for me here\n", stderr);
    _exit(3);
  }
  if (in_trouble("vanishes")) _exit(0);
  if (in_trouble("crashes early")) abort();
  if (in_trouble("never joins")) stay();
  if (in_trouble("never leaves")) ::atexit(stay);
  return true;
}();

}  // namespace

RANKED_TEST_CASE("good/alone", ranks(1)) { CHECK(rank.world().size() == 1); }

RANKED_TEST_CASE("good/meets", ranks(2, 3), tags("quick")) {
  rank.world().barrier();
  CHECK(rank.world().size() > 1);
}

RANKED_TEST_CASE("good/stays", ranks(2)) {
  rank.measure("answer", 42, "");
  CHECK(rank.index() < 2);
}

RANKED_TEST_CASE("skip/asked", ranks(2)) { rank.skip("not today"); }

RANKED_TEST_CASE("bad/check", ranks(2)) { CHECK(rank.index() == 0); }

RANKED_TEST_CASE("bad/killed", ranks(2)) {
  if (rank.index() == 1) ::raise(SIGKILL);
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("bad/segfault", ranks(2)) {
  if (rank.index() == 1) {
    ::signal(SIGSEGV, SIG_DFL);
    ::raise(SIGSEGV);
  }
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("bad/exits", ranks(2), each("code", 0, 2, 3)) {
  if (rank.index() == 1) _exit(rank.param<int>("code"));
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("bad/hangs", ranks(2)) {
  if (rank.index() == 1) stay();
  rank.world().barrier();
  CHECK(true);
}

/// By SIGTERM only, if at all: what its name says.
RANKED_TEST_CASE("hang/spins", ranks(2)) {
  std::atomic<bool> done{false};
  while (rank.index() == 1 && !done.load()) {
  }
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("hang/ignores_sigterm", ranks(2)) {
  if (rank.index() == 1) {
    ::signal(SIGTERM, SIG_IGN);
    stay();
  }
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("hang/exits_when_asked", ranks(2)) {
  if (rank.index() == 1) {
    ::signal(SIGTERM, [](int) { _exit(143); });
    stay();
  }
  rank.world().barrier();
  CHECK(true);
}

/// Stopped before it enters a collective, where SIGTERM does not reach it.
RANKED_TEST_CASE("hang/stopped", ranks(2)) {
  rank.world().barrier();
  if (rank.index() == 1) ::raise(SIGSTOP);
  rank.world().all_reduce(shardproof::iota(rank.index(), 3), shardproof::ReduceOp::sum, "after the stop");
  CHECK(true);
}

RANKED_TEST_CASE("hang/in_a_destructor", ranks(3)) {
  struct Stays {
    bool stays;
    ~Stays() {
      if (stays) stay();
    }
  };
  const Stays last{rank.index() == 2};
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("hang/soon_told", ranks(2), timeout(std::chrono::milliseconds(300))) {
  if (rank.index() == 0) stay();
  CHECK(true);
}

RANKED_TEST_CASE("hang/takes_its_time", ranks(2), timeout(std::chrono::seconds(20))) {
  rank.world().barrier();
  if (rank.index() == 0) ::usleep(700'000);
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("hang/may_take_long", ranks(2), timeout(std::chrono::hours(1))) {
  if (rank.index() == 0) stay();
  CHECK(true);
}

RANKED_TEST_CASE("hang/slow_not_stuck", ranks(1)) {
  for (;;) {
    const auto part = rank.world().split(0, 0, "part");
    CHECK(part != nullptr);
  }
}

/// Names its processes to whoever wants to kill one, and waits for it.
RANKED_TEST_CASE("bad/waits", ranks(2)) {
  std::fprintf(stderr, "here %d\n", static_cast<int>(getpid()));
  if (rank.index() == 1) stay();
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("flaky/third_time", ranks(2), tags("counts")) {
  if (rank.index() == 0) CHECK(count() == 3);
  CHECK(rank.world().size() == 2);
}

RANKED_TEST_CASE("flaky/dies_once", ranks(2), tags("counts")) {
  if (rank.index() == 1 && count() == 1) ::raise(SIGKILL);
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("loud/floods", ranks(2)) {
  const std::string line(1000, 'x');
  for (int i = 0; i < 3000; ++i) std::fprintf(stderr, "%s\n", line.c_str());
  CHECK(true);
}

RANKED_TEST_CASE("loud/leaves_a_child", ranks(2)) {
  const pid_t child = fork();
  if (child == 0) {
    setsid();  // out of reach of its rank's group: nobody kills it, and nobody waits for it either
    alarm(30);
    stay();
  }
  std::fprintf(stderr, "child %d\n", static_cast<int>(child));
  CHECK(child > 0);
}

RANKED_TEST_CASE("many/rounds", ranks(2), each("n", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)) {
  rank.world().barrier();
  CHECK(rank.param<int>("n") < 10);
}
