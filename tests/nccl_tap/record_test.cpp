#include "harness/protocol/nccl_record.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/nccl_tap/calls.hpp"
#include "tests/nccl_tap/temporary.hpp"

using namespace shardproof;
using namespace shardproof::nccl_tap;
using namespace shardproof::nccl_tap::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

protocol::TapProcess this_process() { return {.pid = ::getpid(), .rank = 3, .started_ns = 5, .faults = "drop send#1"}; }

std::vector<std::byte> bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

/// A call whose every number follows from one.
protocol::Call derived(std::uint64_t seed) {
  protocol::Call call = collective(protocol::CallKind::all_gather, static_cast<int>(seed % 7), 0, seed * 3);
  call.of_kind = seed;
  call.entered_ns = static_cast<std::int64_t>(seed * 7);
  call.stream = seed * 5;
  call.thread = static_cast<std::uint32_t>(seed);
  return call;
}

bool is_derived(const protocol::Call& call) {
  const protocol::Call expected = derived(call.of_kind);
  return call.count == expected.count && call.comm == expected.comm && call.stream == expected.stream &&
         call.thread == expected.thread && call.entered_ns == expected.entered_ns;
}

std::string refusal_of(const std::filesystem::path& file) {
  try {
    for (const protocol::Call& call : protocol::read_tap(file).calls) {
      if (!is_derived(call)) return "a call that nobody made";
    }
  } catch (const protocol::RecordError& error) {
    return error.what();
  }
  return "read";
}

/// A small record with all that one can have in it.
void write_small(const std::filesystem::path& file) {
  protocol::TapWriter writer(file, this_process(), {.calls = 3, .communicators = 2});
  writer.write(protocol::TapLibrary{.version = 22809, .path = "/somewhere/libnccl.so.2"});
  protocol::Communicator communicator;
  communicator.origin = protocol::CallKind::comm_split;
  communicator.state = protocol::Communicator::State::alive;
  communicator.size = 4;
  communicator.rank = 1;
  communicator.key = 99;
  communicator.name = "pairs";
  writer.write(communicator);
  for (std::uint64_t i = 0; i < 4; ++i) {
    protocol::Call call = derived(i);
    writer.enter(call);
    if (i != 3) writer.update(call);
  }
}

}  // namespace

TEST_CASE("a record keeps process, library, communicators and the last calls") {
  const TemporaryDirectory directory;
  protocol::TapWriter writer(directory.path(), this_process(), {.calls = 8, .communicators = 3});
  CHECK(writer.file() == directory.path() / ("nccl-" + std::to_string(::getpid()) + ".tap"));
  protocol::TapRecord record = protocol::read_tap(writer.file());
  CHECK((record.process.pid == ::getpid() && record.process.rank == 3 && record.process.faults == "drop send#1"));
  CHECK((record.calls.empty() && record.communicators.empty() && record.library.version == 0 && record.begun == 0));

  writer.write(protocol::TapLibrary{.version = 22809, .path = "/somewhere/libnccl.so.2"});
  for (int id = 0; id < 5; ++id) {
    protocol::Communicator communicator;
    communicator.id = id;
    communicator.size = 10 + id;
    communicator.parent = id - 1;
    communicator.name = "mesh " + std::to_string(id);
    writer.write(communicator);
    communicator.state = protocol::Communicator::State::alive;
    writer.write(communicator);
  }
  for (std::uint64_t i = 0; i < 20; ++i) {
    protocol::Call call = derived(i);
    call.left_ns = 0;
    writer.enter(call);
    CHECK(call.number == i);
    if (i == 19) continue;
    call.left_ns = 77;
    call.result = protocol::Result::remote_error;
    writer.update(call);
  }
  record = protocol::read_tap(writer.file());
  CHECK((record.library.version == 22809 && record.library.path == "/somewhere/libnccl.so.2"));
  REQUIRE(record.communicators.size() == 3);  // the first, and the last ones
  CHECK((record.communicators[0].id == 0 && record.communicators[1].id == 3 && record.communicators[2].id == 4));
  CHECK((record.find(4)->size == 14 && record.find(4)->parent == 3 && record.find(4)->name == "mesh 4"));
  CHECK((record.find(4)->state == protocol::Communicator::State::alive && !record.find(4)->origin));
  CHECK(record.find(1) == nullptr);
  REQUIRE(record.calls.size() == 8);
  CHECK((record.begun == 20 && record.missing == 0));
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(record.calls[i].number == 12 + i);
    CHECK(is_derived(record.calls[i]));
    CHECK(record.calls[i].has_left() == (i != 7));
    CHECK(record.calls[i].result == (i != 7 ? protocol::Result::remote_error : protocol::Result::success));
  }
}

TEST_CASE("the outcome of a dropped call does not change the call that replaced it") {
  const TemporaryDirectory directory;
  protocol::TapWriter writer(directory.path(), this_process(), {.calls = 2, .communicators = 2});
  protocol::Call first = derived(0), second = derived(1), third = derived(2);
  writer.enter(first);
  writer.enter(second);
  writer.enter(third);
  first.result = protocol::Result::remote_error;
  writer.update(first);
  const protocol::TapRecord record = protocol::read_tap(writer.file());
  REQUIRE(record.calls.size() == 2);
  CHECK((record.calls[1].number == 2 && record.calls[1].result == protocol::Result::success &&
         is_derived(record.calls[1])));
}

TEST_CASE("a record overwrites no other record, and no other file") {
  const TemporaryDirectory directory;
  const protocol::TapWriter one(directory.path(), this_process()), two(directory.path(), this_process());
  CHECK(two.file().filename() == "nccl-" + std::to_string(::getpid()) + ".1.tap");
  const std::filesystem::path named = directory.path() / "mine";
  std::ofstream(named) << "precious";
  const protocol::TapWriter three(named, this_process()), four(named, this_process());
  CHECK(three.file().filename() == "mine." + std::to_string(::getpid()));
  CHECK(four.file().filename() == "mine." + std::to_string(::getpid()) + ".1");
  CHECK(std::filesystem::file_size(named) == 8);
  CHECK(protocol::read_tap(four.file()).process.pid == ::getpid());
  CHECK_THROWS_AS(protocol::TapWriter(directory.path() / "none" / "file", this_process()), std::system_error);
}

TEST_CASE("a record survives SIGKILL at any moment") {
  const TemporaryDirectory directory;
  for (int round = 0; round < 20; ++round) {
    const std::filesystem::path file = directory.path() / std::to_string(round);
    std::array<int, 2> has_gone_round{};
    REQUIRE(::pipe(has_gone_round.data()) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      protocol::TapWriter writer(file, this_process(), {.calls = 16, .communicators = 2});
      protocol::Communicator communicator;
      for (std::uint64_t i = 0;; ++i) {
        protocol::Call call = derived(i);
        writer.enter(call);
        writer.update(call);
        communicator.size = static_cast<int>(i % 1000);
        if (i % 1000 == 0) writer.write(communicator);
        if (i == 20 && ::write(has_gone_round[1], "x", 1) != 1) ::_exit(1);
      }
    }
    REQUIRE(child > 0);
    ::close(has_gone_round[1]);
    char sign = 0;
    CHECK(::read(has_gone_round[0], &sign, 1) == 1);
    ::close(has_gone_round[0]);
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));  // to be somewhere else each time
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const protocol::TapRecord record = protocol::read_tap(file);
    CHECK(record.begun > 16);
    CHECK(record.missing <= 1);
    CHECK(record.calls.size() + record.missing == 16);
    CHECK(std::ranges::all_of(record.calls, is_derived));
  }
}

TEST_CASE("threads write at once, and everybody may read meanwhile") {
  const TemporaryDirectory directory;
  protocol::TapWriter writer(directory.path(), this_process(), {.calls = 8, .communicators = 2});
  constexpr std::uint64_t each = 20'000;
  constexpr int threads = 4;
  std::atomic<int> running = threads;
  std::vector<std::thread> writers;
  writers.reserve(threads);
  for (int thread = 0; thread < threads; ++thread) {
    writers.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < each; ++i) {
        protocol::Call call = derived(static_cast<std::uint64_t>(thread) * each + i);
        writer.enter(call);
        writer.update(call);
      }
      --running;
    });
  }
  int looks = 0;
  std::string refusal = "read";
  while (running > 0 && refusal == "read") {
    refusal = refusal_of(writer.file());
    ++looks;
  }
  for (std::thread& thread : writers) thread.join();
  CHECK(looks > 0);
  CHECK(refusal == "read");
  const protocol::TapRecord record = protocol::read_tap(writer.file());
  CHECK(record.begun == each * threads);
  CHECK(record.calls.size() + record.missing == 8);
  CHECK(std::ranges::all_of(record.calls, is_derived));
}

TEST_CASE("a file that is cut anywhere is refused") {
  const TemporaryDirectory directory;
  write_small(directory.path() / "small");
  const std::vector<std::byte> whole = bytes_of(directory.path() / "small");
  CHECK(protocol::read_tap(whole, "small").calls.size() == 3);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_THROWS_AS(protocol::read_tap(std::span(whole).first(size), "small"), protocol::RecordError);
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  CHECK_THROWS_AS(protocol::read_tap(longer, "small"), protocol::RecordError);
}

TEST_CASE("the reader refuses a file with a changed byte, or returns nothing false") {
  const TemporaryDirectory directory;
  write_small(directory.path() / "small");
  const std::vector<std::byte> whole = bytes_of(directory.path() / "small");
  const protocol::TapRecord right = protocol::read_tap(whole, "small");
  int refused = 0;
  for (std::size_t place = 0; place < whole.size(); ++place) {
    for (const int change : {0x01, 0x02, 0x80, 0xff}) {
      std::vector<std::byte> damaged = whole;
      damaged[place] ^= static_cast<std::byte>(change);
      try {
        const protocol::TapRecord record = protocol::read_tap(damaged, "small");
        CHECK((record.process.pid == right.process.pid && record.process.faults == right.process.faults));
        CHECK((record.library.path.empty() || record.library.path == right.library.path));
        for (const protocol::Communicator& communicator : record.communicators) {
          CHECK((communicator.id == 0 && communicator.key == 99 && communicator.name == "pairs" &&
                 communicator.size == 4));
        }
        for (const protocol::Call& call : record.calls) CHECK(is_derived(call));
      } catch (const protocol::RecordError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > static_cast<int>(whole.size()));
}

TEST_CASE("a call in a place that so few calls cannot have is damage") {
  const TemporaryDirectory directory;
  for (const std::int64_t place : {std::int64_t{2}, std::int64_t{-2}, std::int64_t{1'000'000'000'000}}) {
    protocol::TapWriter writer(directory.path() / "calls", this_process(), {.calls = 4, .communicators = 2});
    protocol::Call call = collective(protocol::CallKind::all_gather, 0, 0);
    writer.enter(call);
    CHECK(protocol::read_tap(writer.file()).calls.size() == 1);
    call = collective(protocol::CallKind::all_gather, 0, place);
    writer.enter(call);
    CHECK_THAT(refusal_of(writer.file()),
               ContainsSubstring("call 1 is in place " + std::to_string(place) + ", but 2 calls were begun"));
  }
}

TEST_CASE("a file that is not a record is refused with what it is instead") {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "file";
  CHECK_THAT(refusal_of(file),
             ContainsSubstring("opening the record of NCCL calls " + file.string() + ": No such file"));
  CHECK_THAT(refusal_of(directory.path()), ContainsSubstring("not a regular file"));
  CHECK_THAT(refusal_of("/dev/zero"), ContainsSubstring("not a regular file"));
  std::ofstream(file) << std::string(5000, 'x');
  CHECK_THAT(refusal_of(file), ContainsSubstring("its first bytes differ"));
  std::ofstream(file) << std::string(5000, '\0');
  CHECK_THAT(refusal_of(file), ContainsSubstring("no content yet"));
  std::filesystem::resize_file(file, 10);
  CHECK_THAT(refusal_of(file), ContainsSubstring("10 bytes, fewer than its header"));
}
