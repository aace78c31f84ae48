#include "harness/control/control_page.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/control/flight_ring.hpp"
#include "harness/protocol/collective.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

class Scratch {
 public:
  Scratch() : path_((std::filesystem::temp_directory_path() / "shardproof-page-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp");
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  std::filesystem::path file() const { return std::filesystem::path(path_) / "control"; }

 private:
  std::string path_;
};

control::Deadline in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }
const control::Deadline far = std::chrono::steady_clock::now() + std::chrono::minutes(10);
const auto no_words = [] { return std::string("late"); };

/// One thread per rank; what each threw.
template <class F>
std::vector<std::string> on_threads(int ranks, F body) {
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& exception) {
        failures[static_cast<std::size_t>(rank)] = exception.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return failures;
}

std::vector<std::string> nothing_from(int ranks) { return std::vector<std::string>(static_cast<std::size_t>(ranks)); }

void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

/// As a group of all ranks would have it.
void enter_barrier(control::ControlPage& page, int rank) {
  std::vector<int> all(static_cast<std::size_t>(page.world_size()));
  std::iota(all.begin(), all.end(), 0);
  page.flight(rank).join_group(1, "world", all);
  page.flight(rank).enter_call(1, 1, {});
}

}  // namespace

TEST_CASE("only ranks of its world can open a control page") {
  const Scratch scratch;
  control::ControlPage page = control::ControlPage::create(scratch.file(), 3, "mine");
  CHECK(page.world_size() == 3);
  CHECK(control::ControlPage::open(scratch.file(), "mine").world_size() == 3);
  CHECK_THROWS_MATCHES(control::ControlPage::open(scratch.file(), "other"), std::runtime_error,
                       MessageMatches(ContainsSubstring("belongs to the world \"mine\", not to \"other\"")));
  CHECK_THROWS_MATCHES(control::ControlPage::create(scratch.file(), 3, "mine"), std::system_error,
                       MessageMatches(ContainsSubstring(scratch.file().string())));
  CHECK_THROWS_AS(control::ControlPage::create(scratch.file(), 0, "mine"), std::invalid_argument);
  CHECK_THROWS_AS(control::ControlPage::create(scratch.file(), control::ControlPlane::max_world_size + 1, "mine"),
                  std::invalid_argument);
  CHECK_THROWS_AS(control::ControlPage::create(scratch.file().string() + "2", 2, std::string(97, 'n')),
                  std::invalid_argument);
}

TEST_CASE("a control page refuses a file of another kind or another build") {
  const Scratch scratch;
  CHECK_THROWS_AS(control::ControlPage::open(scratch.file(), "mine"), std::system_error);
  std::ofstream(scratch.file()) << "short";
  CHECK_THROWS_MATCHES(control::ControlPage::open(scratch.file(), "mine"), std::runtime_error,
                       MessageMatches(ContainsSubstring("are too few for a control page")));
  std::ofstream(scratch.file()) << std::string(4096, 'x');
  CHECK_THROWS_MATCHES(control::ControlPage::open(scratch.file(), "mine"), std::runtime_error,
                       MessageMatches(ContainsSubstring("not a control page")));
  std::filesystem::remove(scratch.file());

  {
    const control::ControlPage page = control::ControlPage::create(scratch.file(), 2, "mine");
  }
  const auto whole = std::filesystem::file_size(scratch.file());
  std::filesystem::resize_file(scratch.file(), whole - 64);
  CHECK_THROWS_MATCHES(control::ControlPage::open(scratch.file(), "mine"), std::runtime_error,
                       MessageMatches(ContainsSubstring("layout")));
  std::filesystem::resize_file(scratch.file(), whole);
  {
    std::fstream file(scratch.file(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8);  // the layout's number, after the magic
    file.put(99);
  }
  CHECK_THROWS_MATCHES(control::ControlPage::open(scratch.file(), "mine"), std::runtime_error,
                       MessageMatches(ContainsSubstring("layout 99 of another build")));
}

TEST_CASE("a full file system is an error and leaves no file") {
  // A limit on file size replaces a full file system: the allocation fails in the same way.
  const Scratch scratch;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 12, 1 << 12};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      control::ControlPage::create(scratch.file(), 64, "mine");
    } catch (const std::system_error& error) {
      ::_exit(error.code().value() == EFBIG && !std::filesystem::exists(scratch.file()) ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("the first abort of an epoch is its cause") {
  control::ControlPage page = control::ControlPage::anonymous(2);
  CHECK_FALSE(page.aborted(0));
  CHECK_FALSE(page.aborted(3));
  CHECK(page.raise_abort(3, {1, control::AbortReason::failed, "first"}));
  CHECK_FALSE(page.raise_abort(3, {0, control::AbortReason::error, "second"}));
  CHECK_FALSE(page.raise_abort(2, {0, control::AbortReason::error, "of the past"}));
  REQUIRE(page.aborted(3));
  CHECK(page.aborted(3)->culprit == 1);
  CHECK(page.aborted(3)->reason == control::AbortReason::failed);
  CHECK(page.aborted(3)->text == "first");
  CHECK_FALSE(page.aborted(2));
  CHECK_FALSE(page.aborted(4));
  CHECK(page.raise_abort(4, {-1, control::AbortReason::interrupted, std::string(2000, 'x')}));
  CHECK(page.aborted(4)->culprit == -1);
  CHECK(page.aborted(4)->text == std::string(512, 'x'));
  CHECK_FALSE(page.doomed());
  CHECK(page.raise_abort(0xffffffff, {1023, control::AbortReason::disagreed, ""}));
  CHECK(page.aborted(0xffffffff)->culprit == 1023);
  CHECK(page.aborted(0xffffffff)->reason == control::AbortReason::disagreed);

  control::ControlPage fresh = control::ControlPage::anonymous(1);
  CHECK(fresh.raise_abort(0, {0, control::AbortReason::failed, "epoch 0 is one, too"}));
  CHECK(fresh.aborted(0));
}

TEST_CASE("when many ranks abort at once one abort wins, and its text is whole") {
  constexpr int ranks = 8;
  control::ControlPage page = control::ControlPage::anonymous(ranks);
  std::atomic<int> wins{0};
  const auto failures = on_threads(ranks, [&](int rank) {
    for (std::uint32_t epoch = 1; epoch <= 200; ++epoch) {
      const control::Abort mine{rank, control::AbortReason::failed,
                                std::string(static_cast<std::size_t>(50 + 40 * rank), static_cast<char>('a' + rank))};
      if (page.raise_abort(epoch, mine)) ++wins;
      const auto standing = page.aborted(epoch);
      expect(standing.has_value(), "an abort stands");
      const std::string expected(static_cast<std::size_t>(50 + 40 * standing->culprit),
                                 static_cast<char>('a' + standing->culprit));
      expect(standing->text == expected, "the text is the winner's");
      page.agree(rank, {}, far);
    }
  });
  CHECK(failures == nothing_from(ranks));
  CHECK(wins == 200);
}

TEST_CASE("doom is permanent") {
  control::ControlPage page = control::ControlPage::anonymous(2);
  CHECK(page.doom({1, control::AbortReason::died, "SIGKILL"}));
  CHECK_FALSE(page.doom({0, control::AbortReason::deadline, "later"}));
  REQUIRE(page.doomed());
  CHECK(page.doomed()->text == "SIGKILL");
  CHECK_THROWS_AS(page.check(std::nullopt), control::Released);
  CHECK_THROWS_AS(page.agree(0, {}, far), control::Released);
  CHECK_THROWS_MATCHES(page.await(
                           0, [] { return false; }, 1, far, no_words),
                       control::Released, MessageMatches(ContainsSubstring("rank 1: died: SIGKILL")));
}

TEST_CASE("a wait ends by readiness, abort, deadlock or deadline, and readiness wins") {
  control::ControlPage page = control::ControlPage::anonymous(2);
  const auto ready = [] { return true; };
  const auto never = [] { return false; };
  page.await(1, ready, 1, control::Deadline{}, no_words);
  CHECK_THROWS_MATCHES(page.await(1, never, 1, control::Deadline{}, no_words), control::DeadlineExceeded,
                       MessageMatches(ContainsSubstring("late")));
  CHECK_THROWS_AS(page.await(1, never, 1, in(std::chrono::milliseconds(5)), no_words), control::DeadlineExceeded);
  page.raise_abort(1, {0, control::AbortReason::failed, "why"});
  CHECK_THROWS_AS(page.await(1, never, 1, far, no_words), control::Released);
  CHECK_THROWS_AS(page.check(1), control::Released);
  page.await(1, ready, 1, far, no_words);  // complete before one of those who took part failed
  CHECK_THROWS_AS(page.await(1, never, 2, control::Deadline{}, no_words), control::DeadlineExceeded);
  CHECK_THROWS_AS(page.await(1, never, std::nullopt, control::Deadline{}, no_words), control::DeadlineExceeded);
  page.raise_abort(2, {0, control::AbortReason::deadlock, "circle"});
  CHECK_THROWS_MATCHES(page.await(1, never, 2, far, no_words), control::Deadlock,
                       MessageMatches(ContainsSubstring("circle")));
  CHECK_THROWS_AS(page.await(2, ready, 1, far, no_words), std::out_of_range);
}

TEST_CASE("a condition that becomes true just before the check for an abort counts as ready") {
  control::ControlPage page = control::ControlPage::anonymous(2);
  int looks = 0;
  const auto in_between = [&] {
    if (looks++ > 0) return true;
    page.raise_abort(1, {1, control::AbortReason::failed, "after the call"});  // by a rank that has seen it complete
    return false;
  };
  CHECK_NOTHROW(page.await(0, in_between, 1, far, no_words));
}

TEST_CASE("waits and agreements use the wait policy that the page is given") {
  struct Counting final : control::Waiting {
    bool wait(control::Doorbell&, control::Deadline, control::Condition done) override {
      ++waits;
      return done() || holds_on;
    }
    void pause() override { ++pauses; }
    int waits = 0, pauses = 0;
    bool holds_on = true;
  };
  control::ControlPage page = control::ControlPage::anonymous(2);
  const auto way = std::make_shared<Counting>();
  page.wait_by(way);
  page.await(0, [] { return false; }, 1, control::Deadline{}, no_words);
  page.pause();
  CHECK(way->waits == 1);
  CHECK(way->pauses == 1);
  page.agree(0, {}, control::Deadline{});
  CHECK(way->waits == 2);
  CHECK(way->pauses == 2);
  way->holds_on = false;
  CHECK_THROWS_AS(page.await(0, [] { return false; }, 1, far, no_words), control::DeadlineExceeded);
}

TEST_CASE("the page says whose turn it is, and believes no rank that is not there") {
  control::ControlPage page = control::ControlPage::anonymous(3);
  CHECK_FALSE(page.turn());
  page.give_turn(0);
  CHECK(page.turn() == 0);
  page.give_turn(2);
  CHECK(page.turn() == 2);
  page.give_turn(3);
  CHECK_FALSE(page.turn());
  page.give_turn(std::nullopt);
  CHECK_FALSE(page.turn());
}

TEST_CASE("no ring is lost") {
  control::ControlPage page = control::ControlPage::anonymous(2);
  std::atomic<int> turn{0};
  constexpr int turns = 20'000;
  const auto failures = on_threads(2, [&](int rank) {
    for (int i = rank; i < turns; i += 2) {
      page.await(1 - rank, [&] { return turn.load() == i; }, 1, far, no_words);
      turn.store(i + 1);
      page.ring(rank);
    }
  });
  CHECK(failures == nothing_from(2));
  CHECK(turn == turns);
}

TEST_CASE("an abort wakes every sleeping rank, whichever rank it waits on") {
  constexpr int ranks = 6;
  control::ControlPage page = control::ControlPage::anonymous(ranks);
  for (std::uint32_t epoch = 1; epoch <= 100; ++epoch) {
    const auto failures = on_threads(ranks, [&](int rank) {
      if (rank == 0) {
        page.raise_abort(epoch, {0, control::AbortReason::failed, "x"});
      } else {
        page.await((rank * 7) % ranks, [] { return false; }, epoch, far, no_words);
      }
    });
    for (int rank = 1; rank < ranks; ++rank)
      REQUIRE(failures[static_cast<std::size_t>(rank)] == "released: rank 0: failed: x");
  }
}

TEST_CASE("an agreement gives every rank all ballots, round after round") {
  const int ranks = GENERATE(1, 2, 5, 48);
  control::ControlPage page = control::ControlPage::anonymous(ranks);
  const auto failures = on_threads(ranks, [&](int rank) {
    for (std::uint64_t round = 0; round < 100; ++round) {
      const auto value_of = [&](std::size_t other) { return round * 1000 + other; };
      const auto text_of = [&](std::size_t other) {
        return (round + other) % 3 == 0 ? fmt::format("{}/{}", round, other) : std::string();
      };
      const auto self = static_cast<std::size_t>(rank);
      const auto ballots = page.agree(rank, {value_of(self), text_of(self)}, far);
      expect(ballots.size() == static_cast<std::size_t>(ranks), "a ballot of every rank");
      for (std::size_t other = 0; other < ballots.size(); ++other) {
        expect(ballots[other].value == value_of(other) && ballots[other].text == text_of(other),
               "the ballot of this round");
      }
    }
  });
  CHECK(failures == nothing_from(ranks));
}

TEST_CASE("doom or its deadline ends an agreement, an abort does not, and the deadline names the missing ranks") {
  control::ControlPage page = control::ControlPage::anonymous(3);
  page.raise_abort(1, {0, control::AbortReason::failed, ""});
  enter_barrier(page, 1);
  CHECK_THROWS_MATCHES(
      page.agree(0, {}, in(std::chrono::milliseconds(5))), control::DeadlineExceeded,
      MessageMatches(ContainsSubstring("missing rank 1 (last call: barrier #0 in group world), rank 2 (no call yet)")));

  control::ControlPage other = control::ControlPage::anonymous(3);
  const auto failures = on_threads(3, [&](int rank) {
    if (rank == 2) {
      other.doom({2, control::AbortReason::died, ""});
    } else {
      other.agree(rank, {}, far);
    }
  });
  CHECK(failures == std::vector<std::string>{"released: rank 2: died", "released: rank 2: died", ""});
}

TEST_CASE("processes agree through the file, and go on when one of them dies anywhere") {
  constexpr int ranks = 4;
  for (int round = 0; round < 10; ++round) {
    const Scratch scratch;
    control::ControlPage page = control::ControlPage::create(scratch.file(), ranks, "mine");
    std::vector<pid_t> children;
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        ::alarm(60);
        if (rank == round % ranks) {
          const itimerval soon{{0, 0}, {0, 200 + 300 * round}};
          ::setitimer(ITIMER_REAL, &soon, nullptr);  // SIGALRM at whatever instruction
        }
        control::ControlPage mine = control::ControlPage::open(scratch.file(), "mine");
        try {
          for (std::uint64_t i = 0;; ++i) {
            for (const auto& ballot : mine.agree(rank, {i, {}}, far)) {
              if (ballot.value != i) ::_exit(1);
            }
          }
        } catch (const control::Released&) {
          ::_exit(0);
        }
      }
      children.push_back(child);
    }
    int status = 0;
    REQUIRE(::waitpid(children[static_cast<std::size_t>(round % ranks)], &status, 0) > 0);
    CHECK(WIFSIGNALED(status));
    page.doom({round % ranks, control::AbortReason::died, "SIGALRM"});
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == round % ranks) continue;
      REQUIRE(::waitpid(children[static_cast<std::size_t>(rank)], &status, 0) > 0);
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 0);
    }
  }
}

TEST_CASE("when all ranks wait, in calls or in an agreement, the control page reports the circle of waits") {
  control::ControlPage page = control::ControlPage::anonymous(3);
  const auto enter = [&](int rank) {
    enter_barrier(page, rank);
    page.enter_wait(1);
  };
  enter(0);
  enter(1);
  CHECK_FALSE(page.aborted(1));
  page.leave_waits(1);  // one of the two will go on
  enter(2);
  CHECK_FALSE(page.aborted(1));
  enter(1);
  REQUIRE(page.aborted(1));
  CHECK(page.aborted(1)->reason == control::AbortReason::deadlock);
  CHECK(page.aborted(1)->text ==
        "every rank waits and no rank can continue: rank 0 in barrier #0 in group world, rank 1 in barrier #0 in "
        "group world, rank 2 in barrier #0 in group world");

  control::ControlPage other = control::ControlPage::anonymous(2);
  other.flight(0).join_group(1, "world", std::array{0, 1});
  const auto failures = on_threads(2, [&](int rank) {
    for (std::uint32_t epoch = 1; epoch < 200; ++epoch) {
      if (rank == 0) {
        other.flight(0).enter_call(1, epoch, {});
        other.enter_wait(epoch);
        try {
          other.await(0, [] { return false; }, epoch, far, no_words);
        } catch (const control::Deadlock& deadlock) {
          expect(deadlock.what() ==
                     std::string(
                         "every rank waits and no rank can continue: rank 0 in barrier #0 in group world for rank 1, "
                         "rank 1 in the agreement between cases"),
                 deadlock.what());
        }
      }
      other.agree(rank, {}, far);
    }
  });
  CHECK(failures == nothing_from(2));
}

TEST_CASE("progress is read whole while it is written") {
  const Scratch scratch;
  control::ControlPage page = control::ControlPage::create(scratch.file(), 2, "mine");
  CHECK(page.progress(1).pid == 0);
  CHECK(page.progress(1).position == -1);
  page.report(1, {.pid = 5, .cases_ended = 6, .cases_failed = 7, .position = 8, .case_started_ns = 9, .left = true});
  const control::Progress read = control::ControlPage::open(scratch.file(), "mine").progress(1);
  CHECK((read.pid == 5 && read.cases_ended == 6 && read.cases_failed == 7 && read.position == 8 &&
         read.case_started_ns == 9 && read.left));

  std::atomic<bool> done{false};
  const auto failures = on_threads(2, [&](int rank) {
    if (rank == 0) {
      for (std::uint64_t i = 1; i <= 20'000; ++i) {
        page.report(0, {.pid = static_cast<std::int64_t>(i),
                        .cases_ended = i,
                        .cases_failed = i,
                        .position = static_cast<std::int64_t>(i),
                        .case_started_ns = 0});
      }
      done = true;
      return;
    }
    while (!done) {
      const control::Progress progress = page.progress(0);
      if (progress.pid != 0)
        expect(progress.cases_ended == static_cast<std::uint64_t>(progress.pid) && progress.position == progress.pid,
               "progress is torn");
    }
  });
  CHECK(failures == nothing_from(2));
}
