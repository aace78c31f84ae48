// Ranks that end in the middle of a case, in every way in which a process can.
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "tests/launcher/trouble/trouble.hpp"

using trouble::gone;
using trouble::meet;

RANKED_TEST_CASE("bad/killed", ranks(2)) {
  if (rank.index() == 1) {
    gone();
    ::raise(SIGKILL);
  }
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("bad/segfault", ranks(2)) {
  if (rank.index() == 1) {
    ::signal(SIGSEGV, SIG_DFL);
    gone();
    ::raise(SIGSEGV);
  }
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("bad/exits", ranks(2), each("code", 0, 2, 3)) {
  if (rank.index() == 1) {
    gone();
    _exit(rank.param<int>("code"));
  }
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("dies/aborts", ranks(2)) {
  if (rank.index() == 1) {
    gone();
    abort();
  }
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("dies/throws_in_a_thread", ranks(2)) {
  if (rank.index() == 1) {
    gone();
    std::thread([] { throw std::runtime_error("nobody catches this"); }).join();
  }
  meet(rank);
  CHECK(true);
}

/// Runs its program's destructors, and says nothing wrong.
RANKED_TEST_CASE("dies/leaves_main_behind", ranks(2)) {
  if (rank.index() == 1) {
    gone();
    ::exit(0);
  }
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("dies/as_rank_0", ranks(3)) {
  if (rank.index() == 0) {
    gone();
    ::raise(SIGKILL);
  }
  meet(rank);
  CHECK(true);
}

/// By a signal at whatever instruction of a wait.
RANKED_TEST_CASE("dies/inside_a_collective", ranks(3)) {
  if (rank.index() == 2) ::usleep(400'000);
  if (rank.index() == 1) {
    const itimerval soon{{0, 0}, {0, 150'000}};
    ::setitimer(ITIMER_REAL, &soon, nullptr);
  }
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("dies/after_its_last_collective", ranks(2)) {
  meet(rank);
  CHECK(true);
  if (rank.index() == 1) {
    gone();
    ::raise(SIGKILL);
  }
}

RANKED_TEST_CASE("dies/all_at_once", ranks(3)) {
  rank.world().barrier();
  ::raise(SIGKILL);
  CHECK(true);
}

RANKED_TEST_CASE("dies/without_its_original", ranks(2)) {
  if (rank.index() == 0 && trouble::original() != 0) ::kill(trouble::original(), SIGKILL);
  meet(rank);
  CHECK(true);
}

/// Up to a gigabyte, where nothing limits it.
RANKED_TEST_CASE("dies/without_memory", ranks(2), tags("long")) {
  if (rank.index() == 1) {
    constexpr std::size_t part = std::size_t{1} << 20;
    for (int i = 0; i < 1024; ++i) {
      void* const memory = ::mmap(nullptr, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory != MAP_FAILED) std::memset(memory, 1, part);
    }
  }
  rank.world().barrier();
  CHECK(true);
}
