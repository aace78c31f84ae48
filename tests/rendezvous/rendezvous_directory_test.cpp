#include "harness/rendezvous/rendezvous_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

using namespace shardproof;

namespace {

std::filesystem::path lock_of(const std::filesystem::path& directory) { return directory / "owner.lock"; }

}  // namespace

TEST_CASE("ranks meet in a private directory that goes with its handle") {
  std::filesystem::path path;
  {
    const rendezvous::RendezvousDirectory place = rendezvous::RendezvousDirectory::make(2);
    path = place.path();
    CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms::owner_all);
    std::ofstream(path / "file") << "text";
    const base::FileDescriptor lock(::open(lock_of(path).c_str(), O_RDONLY | O_CLOEXEC));
    CHECK(::flock(lock.get(), LOCK_EX | LOCK_NB) != 0);  // held: a search for abandoned folders leaves it alone
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a killed owner's directory is removed, any other directory is not") {
  const rendezvous::RendezvousDirectory scratch = rendezvous::RendezvousDirectory::make(1);
  const std::filesystem::path& place = scratch.path();
  const auto make = [&](const std::string& name, bool with_lock, bool old) {
    std::filesystem::create_directory(place / name);
    if (!with_lock) return;
    const auto lock = lock_of(place / name);
    std::ofstream{lock};
    if (old)
      std::filesystem::last_write_time(lock, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  };
  make("shardproof-killed", true, true);
  make("shardproof-alive", true, true);
  make("shardproof-young", true, false);
  make("shardproof-foreign", false, false);
  make("another", true, true);
  make("shardproof-pipe", false, false);
  const std::filesystem::path pipe = lock_of(place / "shardproof-pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);  // opening it would wait for a writer
  std::filesystem::last_write_time(pipe, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const base::FileDescriptor held(::open(lock_of(place / "shardproof-alive").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(held.get(), LOCK_EX | LOCK_NB) == 0);
  // An owner that was killed before it made the lock, or after it had removed the lock.
  make("shardproof-hollow", false, false);
  make("shardproof-filled", false, false);
  std::ofstream{place / "shardproof-filled" / "file"};
  for (const char* name : {"shardproof-hollow", "shardproof-filled"})
    std::filesystem::last_write_time(place / name,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  rendezvous::remove_abandoned(place);
  CHECK_FALSE(std::filesystem::exists(place / "shardproof-killed"));
  CHECK_FALSE(std::filesystem::exists(place / "shardproof-hollow"));
  CHECK(std::filesystem::exists(place / "shardproof-filled"));
  for (const char* name : {"shardproof-alive", "shardproof-young", "shardproof-foreign", "shardproof-pipe", "another"})
    CHECK(std::filesystem::exists(place / name));
  rendezvous::remove_abandoned(place / "nowhere");
}

TEST_CASE("only a memory file system with room counts as one") {
  CHECK_FALSE(rendezvous::is_roomy_memory("/proc", 0));
  CHECK_FALSE(rendezvous::is_roomy_memory("/nowhere", 0));
  if (rendezvous::is_roomy_memory("/dev/shm", 1))
    CHECK_FALSE(rendezvous::is_roomy_memory("/dev/shm", ~std::uint64_t{0}));
}
