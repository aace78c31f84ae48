// The search for a hub among its addresses, over real sockets on this machine.
#include "harness/control/link/hub_search.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace shardproof;
using namespace shardproof::control::link;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

using Steady = std::chrono::steady_clock;

/// A socket that listens, and what it does with those who connect.
class Listener {
 public:
  Listener() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address_), length) == 0);
    REQUIRE(::listen(socket_.get(), 64) == 0);
    REQUIRE(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address_), &length) == 0);
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", ntohs(address_.sin_port)); }
  std::optional<base::FileDescriptor> accept() {
    base::FileDescriptor one(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!one) return std::nullopt;
    ++accepted;
    return one;
  }

  int accepted = 0;

 private:
  base::FileDescriptor socket_{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  sockaddr_in address_{};
};

/// A listener whose connections prove a secret, as those of a hub do.
struct Prover {
  explicit Prover(std::string of_hub) : secret(std::move(of_hub)) {}
  void work() {
    while (auto socket = listener.accept()) connections.emplace_back(*std::move(socket), Side::hub, secret);
    // A connection that is over is closed, as a hub does.
    std::erase_if(connections, [](Connection& connection) {
      connection.exchange();
      return connection.over().has_value();
    });
  }
  Listener listener;
  std::string secret;
  std::vector<Connection> connections;
};

/// Advances the search, and `others` between. Ends when the hub is found, or the time is over.
std::optional<Connection> search_on(HubSearch& search, const ReadySet& ready, const std::function<void()>& others) {
  while (true) {
    others();
    const auto now = Steady::now();
    if (auto found = search.advance(now)) return found;
    if (search.has_failed(now)) return std::nullopt;
    pollfd one{ready.descriptor(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(search.deadline() - now).count();
    ::poll(&one, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 5)));
  }
}

/// An address that refuses: its socket is closed.
std::string closed_address() { return Listener().address(); }

}  // namespace

TEST_CASE("a search takes no addresses that are not valid, and says which") {
  ReadySet ready;
  for (const std::string wrong : {"here", "127.0.0.1", "127.0.0.1:0x", "[::1", "10.0.0.1:70000"}) {
    CAPTURE(wrong);
    CHECK_THROWS_MATCHES(HubSearch("127.0.0.1:4000 " + wrong, "s", Steady::now() + 1s, ready, 1), std::invalid_argument,
                         MessageMatches(ContainsSubstring(wrong)));
  }
}

TEST_CASE("a search passes by a process with another secret, and keeps the hub") {
  Prover other("another secret"), hub("s");
  ReadySet ready;
  HubSearch search(other.listener.address() + " " + hub.listener.address(), "s", Steady::now() + 60s, ready, 1);
  const auto found = search_on(search, ready, [&] {
    other.work();
    // The hub comes when the other one has been refused.
    if (other.listener.accepted >= 2) hub.work();
  });
  REQUIRE(found);
  CHECK(found->is_proved());
  REQUIRE(hub.connections.size() == 1);
  CHECK(hub.connections.front().is_proved());
  CHECK(other.connections.empty());
}

TEST_CASE("a search closes its other connections once it has found the hub") {
  Listener silent;
  Prover hub("s");
  ReadySet ready;
  HubSearch search(silent.address() + " " + hub.listener.address(), "s", Steady::now() + 60s, ready, 1);
  const auto found = search_on(search, ready, [&] { hub.work(); });
  REQUIRE(found);
  CHECK(found->is_proved());
  const auto peer = silent.accept();
  REQUIRE(peer);
  pollfd one{peer->get(), POLLIN, 0};
  REQUIRE(::poll(&one, 1, 60'000) == 1);
  char byte = 0;
  CHECK(::recv(peer->get(), &byte, 1, 0) == 0);
  CHECK_FALSE(search.advance(Steady::now()));  // it returns the connection once
}

TEST_CASE("a search tries again an address that speaks another protocol, and at the end says what each answered") {
  Listener web, silent;
  const std::string closed = closed_address();
  ReadySet ready;
  const auto began = Steady::now();
  HubSearch search(fmt::format("{} {} {}", web.address(), silent.address(), closed), "s", began + 1s, ready, 1);
  std::vector<base::FileDescriptor> kept;
  const auto found = search_on(search, ready, [&] {
    while (auto socket = web.accept()) {
      const std::string bytes = "HTTP/1.1 400 Bad Request\r\n\r\n";
      ::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      kept.push_back(*std::move(socket));
    }
  });
  CHECK_FALSE(found);
  CHECK(Steady::now() >= began + 1s);
  CHECK(web.accepted >= 2);
  CHECK(web.accepted <= 6);  // not before the pause between attempts
  const std::string answers = search.answers();
  CHECK_THAT(answers, StartsWith(web.address() + ": "));
  CHECK_THAT(answers, !ContainsSubstring(web.address() + ": no answer"));
  CHECK_THAT(answers, ContainsSubstring("; " + silent.address() + ": no answer; "));
  CHECK_THAT(answers, ContainsSubstring(closed + ": Connection refused"));
}

TEST_CASE("a search whose time is over begins no attempt") {
  Listener late;
  ReadySet ready;
  const auto until = Steady::now();
  HubSearch search(late.address(), "s", until, ready, 1);
  CHECK(search.has_failed(until));
  CHECK(search.deadline() == until);
  CHECK_FALSE(search.advance(until + 1s));
  while (late.accept()) {
  }
  CHECK_FALSE(search.advance(until + 2s));
  CHECK_FALSE(search.advance(until + 3s));
  CHECK(late.accepted <= 1);
}

TEST_CASE("many searches find one hub among addresses that lead elsewhere") {
  Prover hub("s"), other("another secret");
  Listener silent;
  const std::string addresses =
      fmt::format("{} {} {} {}", closed_address(), silent.address(), other.listener.address(), hub.listener.address());
  for (int i = 0; i < 50; ++i) {
    ReadySet ready;
    HubSearch search(addresses, "s", Steady::now() + 60s, ready, 1);
    const auto found = search_on(search, ready, [&] {
      hub.work();
      other.work();
    });
    REQUIRE(found);
    CHECK(found->is_proved());
  }
}
