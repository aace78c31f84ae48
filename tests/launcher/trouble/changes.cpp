// Cases that do not leave their process as they found it, and cases that seem so and do. A world goes on after the
// latter only.
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "tests/launcher/trouble/trouble.hpp"

namespace {

/// Ends with its process.
void leave_a_thread(const char* name) {
  std::thread thread([] { trouble::stay(); });
  ::pthread_setname_np(thread.native_handle(), name);
  thread.detach();
}

void ignore(int /*signal*/) {}

std::atomic<bool> a_later_case_runs = false;

}  // namespace

RANKED_TEST_CASE("leaves/a_thread", ranks(2)) {
  if (rank.index() == 1) leave_a_thread("late");
  CHECK(true);
}

/// Its check belongs to a case that is over. It waits for a later case of the same process.
RANKED_TEST_CASE("leaves/a_check", ranks(2)) {
  std::thread([] {
    a_later_case_runs.wait(false);
    CHECK(false);
  }).detach();
  CHECK(true);
}

RANKED_TEST_CASE("quiet/lets_others_check", ranks(2)) {
  a_later_case_runs = true;
  a_later_case_runs.notify_all();
  CHECK(true);
}

RANKED_TEST_CASE("leaves/many_threads", ranks(2)) {
  for (int i = 0; i < 7; ++i) leave_a_thread("many");
  CHECK(true);
}

RANKED_TEST_CASE("leaves/a_thread_and_fails", ranks(2)) {
  if (rank.index() == 1) leave_a_thread("late");
  REQUIRE(rank.index() == 0);
}

/// Memory for later cases, and also for the results of this one.
RANKED_TEST_CASE("leaves/a_limit", ranks(2)) {
  if (rank.index() == 1) {
    rlimit limit{};
    ::getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = rlim_t{1} << 20;
    CHECK(::setrlimit(RLIMIT_AS, &limit) == 0);
  }
  CHECK(true);
}

RANKED_TEST_CASE("leaves/a_blocked_signal", ranks(2)) {
  sigset_t blocked{};
  ::sigaddset(&blocked, SIGUSR1);
  CHECK(::pthread_sigmask(SIG_BLOCK, &blocked, nullptr) == 0);
}

RANKED_TEST_CASE("leaves/a_handler", ranks(2)) { CHECK(::signal(SIGUSR2, ignore) != SIG_ERR); }

RANKED_TEST_CASE("leaves/a_timer", ranks(2)) { CHECK(::alarm(60) == 0); }

/// Its signal arrives soon after the case.
RANKED_TEST_CASE("leaves/a_timer_that_ends_soon", ranks(2)) {
  const itimerval soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 300}};
  CHECK(::setitimer(ITIMER_REAL, &soon, nullptr) == 0);
}

/// Ends its process soon after the case, perhaps before the rank leaves its world.
RANKED_TEST_CASE("leaves/a_thread_that_crashes", ranks(2)) {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::microseconds(50'500));
    ::raise(SIGSEGV);
  }).detach();
  CHECK(true);
}

RANKED_TEST_CASE("leaves/a_thread_with_an_odd_name", ranks(2)) {
  leave_a_thread("a)\n( b");
  CHECK(true);
}

RANKED_TEST_CASE("leaves/no_death_signal", ranks(2)) { CHECK(::prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) == 0); }

RANKED_TEST_CASE("leaves/all_signals_blocked", ranks(2)) {
  sigset_t all{};
  ::sigfillset(&all);
  CHECK(::pthread_sigmask(SIG_BLOCK, &all, nullptr) == 0);
}

RANKED_TEST_CASE("leaves/an_umask", ranks(2)) {
  ::umask(0777);
  CHECK(true);
}

/// The thread is still there for the kernel when its join returns, and a detached thread when it has done its work.
RANKED_TEST_CASE("quiet/ended_threads", ranks(2)) {
  for (int i = 0; i < 200; ++i) {
    std::thread([] {}).join();
    std::thread([] {}).detach();
  }
  CHECK(true);
}

RANKED_TEST_CASE("quiet/restored", ranks(2)) {
  rlimit limit{};
  ::getrlimit(RLIMIT_CORE, &limit);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  CHECK(::setrlimit(RLIMIT_CORE, &none) == 0);
  CHECK(::setrlimit(RLIMIT_CORE, &limit) == 0);
  const mode_t mask = ::umask(077);
  ::umask(mask);
  const auto handler = ::signal(SIGUSR2, ignore);
  ::signal(SIGUSR2, handler);
}

RANKED_TEST_CASE("quiet/declared_thread", ranks(2), tags("keeps_threads")) {
  leave_a_thread("runtime");
  CHECK(true);
}
