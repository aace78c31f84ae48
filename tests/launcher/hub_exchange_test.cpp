#include "launcher/run/hub_exchange.hpp"

#include <poll.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "harness/control/control_page.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace std::chrono_literals;
using control::ControlPage;
using control::link::Hub;
using control::link::PageLink;

namespace {

PageLink::Settings settings(const std::string& addresses, control::link::Hello hello) {
  return {.addresses = addresses, .secret = "key", .hello = std::move(hello)};
}

void be_a_host(const std::stop_token& stop, const std::string& addresses) {
  ControlPage page = ControlPage::anonymous(2);
  PageLink link(page, settings(addresses, {.world_size = 2, .host = "n0", .ranks = {0, 1}}));
  while (!stop.stop_requested()) {
    pollfd descriptor{.fd = link.descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&descriptor, 1, 5);
    link.handle_events();
  }
}

}  // namespace

TEST_CASE("an exchange with other hosts is over with the answer, without a further event") {
  Hub hub({.core = {.world_size = 2}, .secret = "key"});
  const std::string addresses = hub.addresses();
  const std::jthread other(be_a_host, addresses);
  ControlPage page = ControlPage::anonymous(2);
  PageLink link(page, settings(addresses, {.world_size = 2, .host = "launcher", .watches = true}));
  const auto exchange = [&](const std::function<bool()>& is_done) {
    exchange_until(hub, link, is_done, std::chrono::steady_clock::now() + 60s);
    return is_done();
  };
  REQUIRE(exchange([&] { return link.side().start().has_value(); }));
  // Without other events, the hub's next ping is the next event. Once, a slow machine may reach it.
  bool was_before_ping = false;
  for (int attempt = 0; attempt < 5 && !was_before_ping; ++attempt) {
    const auto next_ping = hub.deadline();
    link.send(link.side().want_flights());
    REQUIRE(exchange([&] { return !link.side().awaits_flights(); }));
    was_before_ping = hub.deadline() == next_ping;
  }
  CHECK(was_before_ping);
}

TEST_CASE("an exchange with other hosts is over at its limit, and when the hub is lost") {
  Hub hub({.core = {.world_size = 1}, .secret = "key"});
  ControlPage page = ControlPage::anonymous(1);
  const control::link::Hello hello{.world_size = 1, .host = "launcher", .watches = true};
  PageLink link(page, settings(hub.addresses(), hello));
  const auto never = [] { return false; };
  exchange_until(hub, link, never, std::chrono::steady_clock::now());
  CHECK_FALSE(link.is_over());
  PageLink stranger(page, {.addresses = hub.addresses(), .secret = "other", .hello = hello, .join_limit = 50ms});
  exchange_until(hub, stranger, never, control::Deadline::max());
  CHECK(stranger.is_over());
}
