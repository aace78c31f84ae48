// A program whose ranks show whether they are copies of one process. The environment can give it what a copy would
// lack.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <shardproof.hpp>
#include <string>
#include <thread>

namespace {

/// Everything that this program does before its main function.
struct Beginning {
  Beginning() {
    if (std::getenv("HAS_THREAD") != nullptr) {
      std::thread([] {
        for (;;) ::pause();
      }).detach();
    }
    if (std::getenv("HAS_FILE") != nullptr && ::open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) std::abort();
  }
  pid_t process = ::getpid();
};

const Beginning beginning;
int counter = 0;

/// The variables of this process, as other processes see them.
std::string seen_environment() {
  std::ifstream file("/proc/self/environ");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

RANKED_TEST_CASE("copies/show_their_origin", ranks(1, 2, 64)) {
  std::printf("%s\n", beginning.process == ::getpid() ? "started" : "copied");
  CHECK(seen_environment().find("SHARDPROOF_RANK=" + std::to_string(rank.index()) + '\0') != std::string::npos);
  CHECK(::getpgid(0) == ::getpid());
}

RANKED_TEST_CASE("copies/count_from_zero", ranks(2)) { CHECK(++counter == 1); }

RANKED_TEST_CASE("copies/count_from_one", ranks(2)) { CHECK(++counter == 2); }

RANKED_TEST_CASE("copies/kill_their_original", ranks(2)) {
  if (rank.index() == 0 && beginning.process != ::getpid()) ::kill(beginning.process, SIGKILL);
  rank.world().barrier("killed");
  CHECK(true);
}

RANKED_TEST_CASE("copies/stop_their_original", ranks(2)) {
  if (rank.index() == 0 && beginning.process != ::getpid()) ::kill(beginning.process, SIGSTOP);
  rank.world().barrier("stopped");
  CHECK(true);
}

RANKED_TEST_CASE("copies/fail", ranks(2)) { CHECK(rank.index() == 5); }
