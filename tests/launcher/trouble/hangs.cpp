// Ranks that do not come to an end.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>

#include "tests/launcher/trouble/trouble.hpp"

using trouble::meet;
using trouble::stay;

RANKED_TEST_CASE("bad/hangs", ranks(2)) {
  if (rank.index() == 1) stay();
  meet(rank);
  CHECK(true);
}

/// Prints the numbers of its processes, so a test can kill one, and waits for that.
RANKED_TEST_CASE("bad/waits", ranks(2)) {
  std::fprintf(stderr, "here %d\n", static_cast<int>(getpid()));
  if (rank.index() == 1) stay();
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("hang/spins", ranks(2)) {
  std::atomic<bool> done{false};
  while (rank.index() == 1 && !done.load()) {
  }
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("hang/ignores_sigterm", ranks(2)) {
  if (rank.index() == 1) {
    ::signal(SIGTERM, SIG_IGN);
    stay();
  }
  meet(rank);
  CHECK(true);
}

/// Out of reach of signals to its own group.
RANKED_TEST_CASE("hang/in_another_group", ranks(2)) {
  if (rank.index() == 1) {
    CHECK(::setpgid(0, ::getpgid(::getppid())) == 0);
    stay();
  }
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("hang/exits_when_asked", ranks(2)) {
  if (rank.index() == 1) {
    ::signal(SIGTERM, [](int) { _exit(143); });
    stay();
  }
  meet(rank);
  CHECK(true);
}

/// Stopped before it enters a collective, where SIGTERM does not reach it.
RANKED_TEST_CASE("hang/stopped", ranks(2)) {
  rank.world().barrier();
  if (rank.index() == 1) ::raise(SIGSTOP);
  rank.world().all_reduce(shardproof::iota(rank.index(), 3), shardproof::ReduceOp::sum, "after the stop");
  CHECK(true);
}

/// In a handler, at whatever instruction of a wait; the others come, and go on.
RANKED_TEST_CASE("hang/inside_a_collective", ranks(3)) {
  if (rank.index() == 2) ::usleep(500'000);
  if (rank.index() == 1) {
    ::signal(SIGALRM, [](int) { stay(); });
    const itimerval soon{{0, 0}, {0, 150'000}};
    ::setitimer(ITIMER_REAL, &soon, nullptr);
  }
  rank.world().barrier();
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

/// Each wait is much shorter than the case, and begins late in it.
RANKED_TEST_CASE("hang/slow_peer", ranks(2)) {
  for (;;) {
    if (rank.index() == 1) ::usleep(150'000);
    rank.world().barrier();
    CHECK(true);
  }
}

RANKED_TEST_CASE("hang/slow_not_stuck", ranks(2)) {
  for (;;) {
    const auto part = rank.world().split(0, 0, "part");
    CHECK(part != nullptr);
  }
}
