// Cases for ranks on several hosts: they meet, wait until a test kills something, die, hang, lose their connections,
// close their port, or wait for each other.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <shardproof.hpp>

namespace {

[[noreturn]] void stay() {
  while (true) ::pause();
}

/// Shuts down both directions of each TCP connection of this process.
void cut_connections() {
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
    if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) ::shutdown(descriptor, SHUT_RDWR);
  }
}

}  // namespace

RANKED_TEST_CASE("spread/gathers", ranks(2, 4, 8), each("n", 0, 1, 2)) {
  const auto all = rank.world().all_gather(iota(10 * rank.index(), 3));
  for (int other = 0; other < rank.world().size(); ++other) CHECK(all.row(other) == iota(10 * other, 3));
}

RANKED_TEST_CASE("spread/placed", ranks(4), hosts(2)) {
  CHECK(rank.hosts() == 2);
  CHECK(rank.local_rank() == rank.index() % 2);
  CHECK(rank.placement().grid() == shardproof::HostGrid{.hosts = 2, .ranks_per_host = 2});
}

RANKED_TEST_CASE("spread/fails", ranks(4)) { CHECK(rank.index() != 3); }

RANKED_TEST_CASE("spread/requires", ranks(4)) {
  REQUIRE(rank.index() != 3);
  rank.world().barrier();
}

/// Prints the numbers of its processes, so a test can kill one, and waits for that.
RANKED_TEST_CASE("spread/waits", ranks(4, 8)) {
  std::fprintf(stderr, "here %d\n", static_cast<int>(::getpid()));
  if (rank.index() == 1) stay();
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("spread/crashes", ranks(4)) {
  if (rank.index() == 3) {
    int* volatile nowhere = nullptr;
    *nowhere = 1;
  }
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("spread/hangs", ranks(4)) {
  if (rank.index() == 2) stay();
  rank.world().barrier();
  CHECK(true);
}

/// After that, ranks 0 and 3 wait for each other. The other ranks make no call that could report it first.
RANKED_TEST_CASE("spread/cuts_its_connections", ranks(4)) {
  const auto pair = rank.world().split(rank.index() % 3, 0, "pair");
  pair->barrier();
  if (rank.index() == 3) cut_connections();
  pair->barrier();
  CHECK(true);
}

/// No rank can connect to rank 0: as if a firewall protected its host.
RANKED_TEST_CASE("spread/closes_its_port", ranks(4)) {
  for (int descriptor = 0; rank.index() == 0 && descriptor < 1024; ++descriptor) {
    int listens = 0;
    socklen_t length = sizeof listens;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0)
      ::shutdown(descriptor, SHUT_RDWR);
  }
  rank.world().barrier();
  CHECK(true);
}

/// Rank 0 waits for the others in one group, and they wait for it in another.
RANKED_TEST_CASE("spread/waits_in_a_circle", ranks(4)) {
  const auto left = rank.world().split(0, 0, "left");
  const auto right = rank.world().split(0, 0, "right");
  (rank.index() == 0 ? left : right)->barrier();
  CHECK(true);
}

RANKED_TEST_CASE("spread/after", ranks(4, 8)) {
  rank.world().barrier();
  CHECK(rank.world().size() >= 4);
}
