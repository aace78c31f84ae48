// Ranks that leave the launcher's house in disorder, and pass.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
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

/// Out of reach of its rank's group.
RANKED_TEST_CASE("loud/leaves_a_child", ranks(2)) {
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    alarm(30);
    stay();
  }
  std::fprintf(stderr, "child %d\n", static_cast<int>(child));
  CHECK(child > 0);
}

RANKED_TEST_CASE("loud/forks", ranks(2)) {
  const pid_t child = fork();
  if (child == 0) stay();
  std::fprintf(stderr, "child %d\n", static_cast<int>(child));
  CHECK(child > 0);
}

RANKED_TEST_CASE("loud/changes_directory", ranks(2)) {
  CHECK(::chdir("/") == 0);
  rank.world().barrier();
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
