// The record of a crash, which a forked child of the test leaves.
#include "harness/runner/crash_handler.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "harness/base/input_file.hpp"
#include "harness/protocol/crash_record.hpp"
#include "tests/runner/world_driver.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The signal that ends a child process which calls `body`, or 0. Neither Catch2 nor a sanitizer handles SIGTRAP.
template <class Body>
int signal_of_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_DUMPABLE, 0);  // no core
    try {
      body();
    } catch (...) {
      ::_exit(1);  // and not as a second process of this test
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

std::optional<protocol::CrashRecord> record_in(const std::filesystem::path& rendezvous, int rank) {
  return protocol::parse_crash_record(base::read_evidence(protocol::crash_record(rendezvous, rank)));
}

}  // namespace

TEST_CASE("the record of a crash has the rank of its process, also in a world of many processes") {
  const test::TemporaryDirectory directory;
  for (const int rank : {0, 127, 128, 1023}) {
    CHECK(signal_of_child([&] {
            runner::save_crashes(directory.path(), rank);
            ::raise(SIGTRAP);
          }) == SIGTRAP);
    const auto record = record_in(directory.path(), rank);
    REQUIRE(record);
    CHECK(record->header.rank == rank);
    CHECK(record->header.is_complete == 1);
  }
}

TEST_CASE("the record of a crash has no rank if the program started its thread") {
  const test::TemporaryDirectory directory;
  signal_of_child([&] {
    runner::save_crashes(directory.path(), 5);
    std::thread([] { ::raise(SIGTRAP); }).join();
  });
  const auto record = record_in(directory.path(), 5);
  REQUIRE(record);
  CHECK(record->header.rank == -1);
}

TEST_CASE("a system call that a filter refuses leaves a record") {
  const test::TemporaryDirectory directory;
  CHECK(signal_of_child([&] {
          runner::save_crashes(directory.path(), 1);
          ::raise(SIGSYS);
        }) == SIGSYS);
  const auto record = record_in(directory.path(), 1);
  REQUIRE(record);
  CHECK(record->header.signal == SIGSYS);
}

TEST_CASE("a rank whose record has too long a path has this reason in a file, for every signal") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path copy = directory.path() / "copy";
  CHECK(signal_of_child([&] {
          const std::string folder(250, 'd');
          bool is_deep = ::chdir(directory.path().c_str()) == 0;
          for (int level = 0; level < 17; ++level)
            is_deep = is_deep && ::mkdir(folder.c_str(), 0700) == 0 && ::chdir(folder.c_str()) == 0;
          runner::save_crashes(".", 1);
          std::filesystem::copy_file(protocol::unsaved_signals(".", 1), copy);
          if (is_deep) ::raise(SIGTRAP);
        }) == SIGTRAP);
  const std::string reasons = base::read_evidence(copy);
  for (const int number : protocol::crash_signals)
    CHECK_THAT("\n" + reasons,
               ContainsSubstring("\n" + std::to_string(number) + " the path of its record is too long"));
}
