// The evidence of crashes, from records that a rank may have replaced.
#include "launcher/run/crash_evidence.hpp"

#include <sys/resource.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/protocol/crash_record.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

constexpr std::uint64_t key = 5;

/// A world whose ranks died by SIGSEGV.
struct CrashedWorld {
  explicit CrashedWorld(int ranks) {
    std::filesystem::create_directories(world.evidence());
    std::filesystem::create_directories(plan.rendezvous);
    for (int rank = 0; rank < ranks; ++rank)
      endings.push_back({.rank = rank, .how = protocol::Ending::How::signalled, .code = SIGSEGV});
  }

  /// A record of a processor that is not supported: it needs no debug information.
  void write_record(int rank, std::size_t size = sizeof(protocol::CrashHeader)) const {
    const protocol::CrashHeader header{.is_complete = 1, .signal = SIGSEGV, .rank = rank};
    std::string bytes(size, '\0');
    std::memcpy(bytes.data(), &header, sizeof header);
    write_text(protocol::crash_record(plan.rendezvous, rank), bytes);
  }

  void collect() {
    CrashEvidence evidence(plan, world, endings, poller, key);
    while (!evidence.done()) evidence.advance(poller.wait(evidence.deadline()), std::chrono::steady_clock::now());
  }

  std::string text(int rank) const { return text_of(world.crash(rank)); }

  TemporaryDirectory directory;
  protocol::WorldDirectory world{directory / "world"};
  protocol::WorldPlan plan{.rendezvous = directory / "meeting"};
  std::vector<protocol::Ending> endings;
  Poller poller;
};

/// While it exists, this process and its children get no more memory from the kernel.
class NoMoreMemory {
 public:
  NoMoreMemory() {
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit none{.rlim_cur = 1, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &none);
  }
  ~NoMoreMemory() { ::setrlimit(RLIMIT_AS, &before_); }
  NoMoreMemory(const NoMoreMemory&) = delete;
  NoMoreMemory& operator=(const NoMoreMemory&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("one process reads the records of all ranks of a world") {
  CrashedWorld world(3);
  for (const int rank : {0, 1, 2}) world.write_record(rank);
  world.collect();
  for (const int rank : {0, 1, 2})
    CHECK_THAT(world.text(rank), StartsWith("rank " + std::to_string(rank) + ", signal 11 (SIGSEGV)") &&
                                     ContainsSubstring("no frames: "));
}

#ifndef SHARDPROOF_SANITIZES_ADDRESSES  // its allocator ends the process in place of an exception
TEST_CASE("an error in the process that reads records stays in it") {
  CrashedWorld world(1);
  world.write_record(0, protocol::CrashHeader::most_bytes);
  {
    const NoMoreMemory none;
    world.collect();
  }
  CHECK(world.text(0) == "no stack: the launcher could not find the functions: std::bad_alloc\n");
}
#endif

TEST_CASE("a rank that has no record of its own has the reason") {
  CrashedWorld world(3);
  write_text(world.directory / "secret", "11 secret\nrank");
  const auto link = [&](const std::filesystem::path& from) {
    std::filesystem::create_symlink(world.directory / "secret", from);
  };
  link(protocol::crash_record(world.plan.rendezvous, 0));
  link(protocol::unsaved_signals(world.plan.rendezvous, 1));
  world.write_record(2, protocol::CrashHeader::most_bytes + 1);
  world.collect();
  CHECK_THAT(world.text(0), StartsWith("no stack: ") && ContainsSubstring("it is a symbolic link"));
  CHECK_THAT(world.text(1),
             StartsWith("no stack: ") && ContainsSubstring("it is a symbolic link") && !ContainsSubstring("secret"));
  CHECK_THAT(world.text(2), StartsWith("no stack: ") && ContainsSubstring("it has more than "));
}

TEST_CASE("a large list of unsaved signals is not read, and a short one has the reason") {
  CrashedWorld world(2);
  write_text(protocol::unsaved_signals(world.plan.rendezvous, 0), "11 " + std::string(1 << 20, 'x'));
  write_text(protocol::unsaved_signals(world.plan.rendezvous, 1), "8 no\n11 the path is too long\n");
  world.collect();
  CHECK_THAT(world.text(0), ContainsSubstring("it has more than ") && !ContainsSubstring("xxx"));
  CHECK(world.text(1) == "no stack: the rank has no handler for signal 11 (SIGSEGV): the path is too long\n");
}

TEST_CASE("a signal that the handler does not handle is no proof that the program is sound") {
  CrashedWorld world(1);
  for (const int number : {SIGTERM, SIGXCPU, SIGXFSZ}) {
    world.endings[0].code = number;
    world.collect();
    CHECK_THAT(world.text(0), StartsWith("no stack: stacks are not saved for signal "));
    std::filesystem::remove(world.world.crash(0));
  }
}

TEST_CASE("the search for functions ends at its deadline, and leaves a text for each rank") {
  CrashedWorld world(2);
  for (const int rank : {0, 1}) world.write_record(rank);
  CrashEvidence evidence(world.plan, world.world, world.endings, world.poller, key);
  CHECK(evidence.deadline() <= std::chrono::steady_clock::now() + CrashEvidence::time_limit);
  evidence.advance({}, std::chrono::steady_clock::now());
  CHECK_FALSE(evidence.done());
  evidence.advance({}, evidence.deadline());
  CHECK(evidence.done());
  for (const int rank : {0, 1}) CHECK_FALSE(world.text(rank).empty());
}
