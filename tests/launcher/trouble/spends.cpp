// Ranks that leave the launcher's house in disorder, and pass.
#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/launcher/trouble/trouble.hpp"

using trouble::stay;

RANKED_TEST_CASE("loud/floods", ranks(2)) {
  const std::string line(1000, 'x');
  for (int i = 0; i < 3000; ++i) std::fprintf(stderr, "%s\n", line.c_str());
  CHECK(true);
}

RANKED_TEST_CASE("loud/floods_a_gigabyte", ranks(2), tags("long")) {
  const std::string lines(std::size_t{1} << 20, 'x');
  if (rank.index() == 1) {
    for (int i = 0; i < 1024; ++i) std::fwrite(lines.data(), 1, lines.size(), stderr);
  }
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("loud/leaves_a_child", ranks(2)) {
  const pid_t child = trouble::leave_a_child();
  std::fprintf(stderr, "child %d\n", static_cast<int>(child));
  CHECK(child > 0);
}

/// As daemons are started: nothing leads back to its rank.
RANKED_TEST_CASE("loud/leaves_a_daemon", ranks(2)) {
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    char name[] = "sleep", seconds[] = "30";
    char* const words[] = {name, seconds, nullptr};
    char* const nothing[] = {nullptr};
    pid_t daemon = 0;
    const bool is_started = ::posix_spawn(&daemon, "/bin/sleep", nullptr, nullptr, words, nothing) == 0;
    std::fprintf(stderr, "child %d\n", static_cast<int>(daemon));
    _exit(is_started ? 0 : 1);
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

RANKED_TEST_CASE("loud/forks", ranks(2)) {
  const pid_t child = fork();
  if (child == 0) stay();
  std::fprintf(stderr, "child %d\n", static_cast<int>(child));
  CHECK(child > 0);
}

/// A body that forks comes back twice.
RANKED_TEST_CASE("loud/comes_back_twice", ranks(2)) {
  const pid_t child = fork();
  if (child == 0) {
    if (rank.index() == 0) CHECK(false);
    return;
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 1);
  rank.world().barrier();
}

RANKED_TEST_CASE("loud/changes_directory", ranks(2)) {
  CHECK(::chdir("/") == 0);
  rank.world().barrier();
}

/// FILL names a file that takes all the memory for ranks that meet, from here on.
RANKED_TEST_CASE("loud/fills_shared_memory", ranks(2)) {
  if (const char* const name = std::getenv("FILL"); name != nullptr && rank.index() == 0) {
    const int file = ::open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (off_t size = 0; ::posix_fallocate(file, size, 4096) == 0; size += 4096) {
    }
    ::close(file);
  }
  rank.world().barrier();
  const auto both = rank.world().split(0, rank.index(), "both");
  both->barrier();
  CHECK(both->size() == 2);
}

/// All that the process has open, among it what its results are written to.
RANKED_TEST_CASE("loud/closes_its_descriptors", ranks(2)) {
  rank.world().barrier();
  if (rank.index() == 1) {
    trouble::gone();
    ::closefrom(0);
  }
  CHECK(true);
}
