// Messages between a launcher and a warm process arrive unchanged, and other messages are refused.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "harness/protocol/warm_socket.hpp"

namespace shardproof {
namespace {

using Catch::Matchers::ContainsSubstring;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    out = base::FileDescriptor(ends[0]);
    in = base::FileDescriptor(ends[1]);
  }
  base::FileDescriptor out, in;
};

std::string read_some(const base::FileDescriptor& pipe) {
  std::array<char, 100> text{};
  const ssize_t count = ::read(pipe.get(), text.data(), text.size());
  return {text.data(), static_cast<std::size_t>(count < 0 ? 0 : count)};
}

TEST_CASE("a request brings any environment, however long, its ranks, and a gate") {
  const auto [launcher, warm] = protocol::make_warm_sockets();
  const protocol::CopyRequest sent{
      .environment = {"A=1", "EMPTY=", "NO_TEXT=\xff\n\"", "LONG=" + std::string(5'000'000, 'x'), ""},
      .ranks = {{.environment = {"RANK=0"}, .standard_output = "out", .standard_error = "\xff"},
                {.environment = {}, .standard_output = "", .standard_error = "b"}}};
  const Pipe gate;
  protocol::send_request(launcher.get(), sent, gate.in.get());
  const auto received = protocol::receive_request(warm.get());
  REQUIRE(received);
  CHECK(received->request.environment == sent.environment);
  REQUIRE(received->request.ranks.size() == 2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(received->request.ranks[rank].environment == sent.ranks[rank].environment);
    CHECK(received->request.ranks[rank].standard_output == sent.ranks[rank].standard_output);
    CHECK(received->request.ranks[rank].standard_error == sent.ranks[rank].standard_error);
  }
  CHECK((::fcntl(received->gate.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(::write(received->gate.get(), "here", 4) == 4);
  CHECK(read_some(gate.out) == "here");
}

TEST_CASE("an answer names processes or an error, of which it keeps the beginning") {
  const auto [launcher, warm] = protocol::make_warm_sockets();
  for (const protocol::CopyAnswer& answer :
       {protocol::CopyAnswer{}, protocol::CopyAnswer{.processes = {4711, 5}},
        protocol::CopyAnswer{.error = "two\nlines"}, protocol::CopyAnswer{.error = ""}}) {
    protocol::send_answer(warm.get(), answer);
    const auto back = protocol::receive_answer(launcher.get());
    REQUIRE(back);
    CHECK(back->processes == answer.processes);
    CHECK(back->error == answer.error);
    CHECK(back->warnings.empty());
  }
  protocol::send_answer(warm.get(), {.error = std::string(1'000'000, '\x01')});
  CHECK(protocol::receive_answer(launcher.get())->error->size() > 1000);
}

TEST_CASE("an answer has the first warnings, however many and long they are, with or without an error") {
  const auto [launcher, warm] = protocol::make_warm_sockets();
  const auto brought = [&](const protocol::CopyAnswer& answer) {
    protocol::send_answer(warm.get(), answer);
    return protocol::receive_answer(launcher.get())->warnings;
  };
  using Warnings = std::vector<std::string>;
  CHECK(brought({.processes = {3}, .warnings = {"two\nlines", "\x1b[2J"}}) == Warnings{"two\nlines", "\x1b[2J"});
  CHECK(brought({.error = "no", .warnings = {"thin"}}) == Warnings{"thin"});
  const Warnings many = brought({.warnings = Warnings(1'000'000, "")});
  CHECK(many.size() < 100);
  CHECK(many.back() == std::to_string(1'000'000 - (many.size() - 1)) + " more");
  const Warnings both =
      brought({.error = std::string(5000, '\x01'), .warnings = {std::string(1'000'000, '\x01'), "thin"}});
  REQUIRE(both.size() == 2);
  CHECK(both[0].size() > 1000);
  CHECK(both[1] == "1 more");
}

TEST_CASE("the end of one side is no message, and nothing can be sent to it") {
  auto [launcher, warm] = protocol::make_warm_sockets();
  launcher = base::FileDescriptor();
  CHECK_FALSE(protocol::receive_request(warm.get()));
  CHECK_THROWS_AS(protocol::send_answer(warm.get(), {}), std::system_error);
  auto [other, gone] = protocol::make_warm_sockets();
  gone = base::FileDescriptor();
  CHECK_FALSE(protocol::receive_answer(other.get()));
  CHECK_THROWS_AS(protocol::receive_answer(-1), std::system_error);
}

TEST_CASE("a foreign message is refused with what is wrong with it") {
  const auto [launcher, warm] = protocol::make_warm_sockets();
  const auto read_answer = [&](const std::string& text) {
    REQUIRE(::send(warm.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    protocol::receive_answer(launcher.get());
  };
  CHECK_THROWS_WITH(read_answer("nonsense"), ContainsSubstring("no JSON: \"nonsense\""));
  CHECK_THROWS_WITH(read_answer("[]"), ContainsSubstring("answer: expected an object"));
  CHECK_THROWS_WITH(read_answer("{}"), ContainsSubstring("\"processes\" is missing"));
  CHECK_THROWS_WITH(read_answer(R"({"processes":[-1]})"), ContainsSubstring("expected an integer"));
  CHECK_THROWS_WITH(read_answer(R"({"error":7})"), ContainsSubstring("\"error\""));
  CHECK_THROWS_WITH(read_answer(std::string(100'000, ' ')), ContainsSubstring("a message of more than"));
  REQUIRE(::send(launcher.get(), "rank", 4, 0) == 4);
  CHECK_THROWS_AS(protocol::receive_request(warm.get()), std::invalid_argument);
}

std::ptrdiff_t open_descriptors() {
  return std::ranges::distance(std::filesystem::directory_iterator("/proc/self/fd"));
}

void send_with(const base::FileDescriptor& socket, const std::vector<int>& descriptors) {
  alignas(cmsghdr) std::array<char, 256> control{};
  char text[] = "rank";
  iovec bytes{.iov_base = text, .iov_len = 4};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
  REQUIRE(::sendmsg(socket.get(), &message, 0) == 4);
}

TEST_CASE("a refused request leaves no descriptor open") {
  const auto [launcher, warm] = protocol::make_warm_sockets();
  const Pipe pipe;
  const std::ptrdiff_t before = open_descriptors();
  const auto refusal = [&](std::size_t count) {
    send_with(launcher, std::vector<int>(count, pipe.in.get()));
    try {
      protocol::receive_request(warm.get());
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  CHECK(refusal(1) == "a request without its two descriptors");
  CHECK_THAT(refusal(9),
             ContainsSubstring("a message lost descriptors: it had too many, or this process has too many open files"));
  CHECK(open_descriptors() == before);
}

}  // namespace
}  // namespace shardproof
