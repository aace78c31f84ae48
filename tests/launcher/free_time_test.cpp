// A process that gets no processor is not taken for one that does not go on.
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <optional>
#include <vector>

#include "launcher/process/free_time.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/process/process.hpp"
#include "launcher/run/evidence.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

control::Deadline at(nanoseconds time) { return control::Deadline(time); }

ThreadLook running(nanoseconds ran, nanoseconds waited = 0ms, pid_t thread = 7) {
  return {.thread = thread, .state = 'R', .ran = ran, .waited = waited};
}

ThreadLook asleep(nanoseconds ran, nanoseconds waited = 0ms, pid_t thread = 7) {
  return {.thread = thread, .state = 'S', .ran = ran, .waited = waited};
}

/// Processes that compute without end, on the first processor of this one.
class Busy {
 public:
  explicit Busy(int count) {
    cpu_set_t own;
    CPU_ZERO(&own);
    ::sched_getaffinity(0, sizeof own, &own);
    int first = 0;
    while (!CPU_ISSET(first, &own)) ++first;
    for (int i = 0; i < count; ++i) {
      const pid_t process = ::fork();
      if (process != 0) {
        processes_.push_back(process);
        continue;
      }
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(first, &one);
      ::sched_setaffinity(0, sizeof one, &one);
      ::alarm(60);  // if this test is killed
      const std::atomic<bool> is_over{false};
      while (!is_over.load()) {
      }
    }
  }
  ~Busy() {
    for (const pid_t process : processes_) ::kill(process, SIGKILL);
    for (const pid_t process : processes_) ::waitpid(process, nullptr, 0);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  pid_t first() const { return processes_.front(); }

 private:
  std::vector<pid_t> processes_;
};

nanoseconds time_on_processor(pid_t process) {
  clockid_t clock{};
  timespec time{};
  REQUIRE(::clock_getcpuclockid(process, &clock) == 0);
  REQUIRE(::clock_gettime(clock, &time) == 0);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

}  // namespace

TEST_CASE("free time is the time in which a thread sleeps or runs") {
  FreeTime time;
  CHECK(time.least() == std::nullopt);
  time.look({running(5ms)}, at(1s));
  CHECK(time.least() == 0ms);
  time.look({running(25ms)}, at(1020ms));
  CHECK(time.least() == 20ms);
  time.look({asleep(27ms)}, at(1040ms));
  CHECK(time.least() == 40ms);
}

TEST_CASE("the time in which a thread waits for a processor is not free") {
  FreeTime time;
  time.look({running(5ms)}, at(0s));
  for (const nanoseconds now : {20ms, 40ms, 700ms}) time.look({running(5ms)}, at(now));
  CHECK(time.least() == 0ms);
  // The system counts the whole wait once it is over.
  time.look({running(9ms, 696ms)}, at(720ms));
  CHECK(time.least() == 4ms);
  // It waits again, which is not counted yet.
  time.look({running(13ms, 712ms)}, at(800ms));
  CHECK(time.least() == 8ms);
  time.look({asleep(14ms, 790ms)}, at(810ms));
  CHECK(time.least() == 9ms);
  time.look({asleep(14ms, 790ms)}, at(830ms));
  CHECK(time.least() == 29ms);
}

TEST_CASE("the thread with the least time counts, and those that begin later or end do not") {
  FreeTime time;
  time.look({asleep(1ms, 0ms, 1), running(1ms, 0ms, 2)}, at(0s));
  time.look({asleep(1ms, 0ms, 1), running(1ms, 0ms, 2), running(1ms, 0ms, 3)}, at(200ms));
  CHECK(time.least() == 0ms);
  time.look({asleep(1ms, 0ms, 1), running(1ms, 0ms, 3)}, at(300ms));
  CHECK(time.least() == 300ms);
  time.look({running(1ms, 0ms, 3)}, at(400ms));
  CHECK(time.least() == std::nullopt);
}

TEST_CASE("what the system says of a thread is read whatever its name is") {
  const auto look = read_look(12, "12 (a) R (b) S 1 2 3", "175441 2723944 2\n");
  REQUIRE(look);
  CHECK(*look == ThreadLook{.thread = 12, .state = 'S', .ran = 175441ns, .waited = 2723944ns});
  CHECK(read_look(12, "12 (a) R 1", "0 0 0\n") == running(0ms, 0ms, 12));  // it has not run yet
  CHECK_FALSE(read_look(12, "12 (a) S 1", ""));
  CHECK_FALSE(read_look(12, "12 (a) S 1", "1"));
  CHECK_FALSE(read_look(12, "", "1 2 3\n"));
  CHECK_FALSE(read_look(12, "12 (a) ", "1 2 3\n"));
  CHECK(look_at_threads(-1).empty());
  CHECK_FALSE(look_at_threads(::getpid()).empty());
}

TEST_CASE("evidence about a rank is complete when the rank has had a processor for a while") {
  TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "world/evidence");
  const Busy busy(6);
  Poller poller;
  const nanoseconds before = time_on_processor(busy.first());
  const auto began = std::chrono::steady_clock::now();
  EvidenceCollector collector({directory / "world"}, {{.rank = 0, .process = busy.first()}}, std::nullopt, poller, 10);
  while (!collector.done()) {
    const auto ready = poller.wait(collector.deadline());
    collector.advance(ready, std::chrono::steady_clock::now());
  }
  // Without the limit, the time of the wait decides nothing.
  const bool is_over_limit = std::chrono::steady_clock::now() - began >= EvidenceCollector::time_limit;
  CHECK((is_over_limit || time_on_processor(busy.first()) - before >= EvidenceCollector::chance * 9 / 10));
}
