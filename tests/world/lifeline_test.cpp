// Ranks that outlive their launcher, and those that must not.
#include "harness/world/lifeline.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <stdexcept>
#include <system_error>

using namespace shardproof;

namespace {

/// A process that runs `body` and then sleeps.
template <class Body>
pid_t process(const Body& body) {
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child > 0) return child;
  ::alarm(60);
  body();
  while (true) ::pause();
}

// A rank reports its ties to the process `launcher` as one word in the pipe. The pipe ends when the rank is gone.
void be_rank(pid_t launcher, int words) {
  char word = 't';
  try {
    world::tie_life_to(launcher);
  } catch (const std::runtime_error&) {
    word = 'r';
  }
  if (::write(words, &word, 1) != 1) ::_exit(1);
}

struct Pipe {
  Pipe() {
    if (::pipe(ends.data()) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  }
  ~Pipe() { ::close(ends[0]); }
  /// The next word of the rank; 0 once all who held the other end are gone; `?` when nothing happens for long.
  char next() {
    pollfd watched{ends[0], POLLIN, 0};
    if (::poll(&watched, 1, 20'000) == 0) return '?';
    char word = 0;
    return ::read(ends[0], &word, 1) == 1 ? word : '\0';
  }
  std::array<int, 2> ends{};
};

void end(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace

TEST_CASE("A rank dies with the launcher that started it") {
  Pipe pipe;
  const pid_t launcher = process([&] {
    const pid_t self = ::getpid();
    process([&] { be_rank(self, pipe.ends[1]); });
    ::close(pipe.ends[1]);
  });
  ::close(pipe.ends[1]);
  CHECK(pipe.next() == 't');
  end(launcher);
  CHECK(pipe.next() == '\0');
}

TEST_CASE("A rank dies with its launcher, although something else started it") {
  Pipe pipe;
  const pid_t launcher = process([&] {
    const pid_t self = ::getpid();
    process([&] {  // as a profiler or a shell between the two
      process([&] { be_rank(self, pipe.ends[1]); });
      ::close(pipe.ends[1]);
      ::wait(nullptr);
      ::_exit(0);
    });
    ::close(pipe.ends[1]);
  });
  ::close(pipe.ends[1]);
  CHECK(pipe.next() == 't');
  end(launcher);
  CHECK(pipe.next() == '\0');
}

TEST_CASE("A rank whose launcher has ended already is refused") {
  Pipe pipe;
  const pid_t launcher = process([] {});
  end(launcher);
  const pid_t rank = process([&] { be_rank(launcher, pipe.ends[1]); });
  ::close(pipe.ends[1]);
  CHECK(pipe.next() == 'r');
  end(rank);
}
