// The hub's search for a deadlock over several hosts, message by message. hub_core_test.cpp has whole simulated worlds.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "harness/control/link/hub_core.hpp"

using namespace shardproof;
using namespace shardproof::control::link;
using Catch::Matchers::ContainsSubstring;
using control::Abort;
using control::Deadline;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

using What = protocol::FlightEntry::What;
using protocol::FlightRecord;

constexpr std::uint64_t all_three = 1, left_two = 2, right_two = 3;

/// A rank of a world of three that is in its first case. The groups are {0, 1, 2}, {0, 1} and {1, 2}.
FlightRecord in_a_case() {
  return {.entries = {{.what = What::case_begun}},
          .groups = {{.id = all_three, .name = "world", .members = {0, 1, 2}},
                     {.id = left_two, .name = "left", .members = {0, 1}},
                     {.id = right_two, .name = "right", .members = {1, 2}}},
          .begun = 1};
}

FlightRecord and_then(FlightRecord record, const protocol::FlightEntry& entry) {
  record.entries.push_back(entry);
  ++record.begun;
  return record;
}

FlightRecord calling(std::uint64_t group, FlightRecord record = in_a_case()) {
  return and_then(std::move(record), {.what = What::call, .place = 1, .group = group, .meetings = 1});
}

FlightRecord at_the_end() {
  return and_then(and_then(in_a_case(), {.what = What::body_ended}), {.what = What::agreement, .place = 2});
}

FlightRecord gone_in_order() {
  FlightRecord record = at_the_end();
  record.entries.back().state = protocol::FlightEntry::State::left;
  return and_then(std::move(record), {.what = What::left});
}

constexpr std::array<LinkId, 3> three_hosts{0, 1, 2};

/// A hub, and three hosts with a rank each. The host of a rank answers probes with that rank's record.
class ThreeHosts {
 public:
  explicit ThreeHosts(std::vector<FlightRecord> of_ranks) : records(std::move(of_ranks)) {
    for (const LinkId host : three_hosts) {
      hub.connected(host, {.world_size = 3, .host = name_of_host(host), .ranks = {static_cast<int>(host)}}, now);
      for (std::uint64_t ping = 1; ping <= 4; ++ping) take(hub.received(host, Pong{ping, 0}, now));
    }
    REQUIRE(hub.has_started());
  }

  void say_that_all_wait() {
    for (const LinkId host : three_hosts) send(host, Waits{});
  }
  void send(LinkId host, const Message& message) { take(hub.received(host, message, now)); }
  void lose(LinkId host) { take(hub.lost(host, "end of the connection", now)); }

  /// Answers the probe that the hub has sent to all hosts. Returns whether there was one.
  bool answer_probe() {
    const auto probe = std::exchange(probe_, std::nullopt);
    if (!probe) return false;
    for (const LinkId host : three_hosts) answer(host, *probe);
    return true;
  }
  void answer(LinkId host, std::uint64_t probe) {
    send(host, Flight{.probe = probe, .rank = static_cast<int>(host), .record = records[host]});
    send(host, ProbeReply{.number = probe, .all_wait = true});
  }
  std::optional<std::uint64_t> probe() const { return probe_; }
  void pass(milliseconds time) {
    now += time;
    take(hub.time_passed(now));
  }

  std::vector<FlightRecord> records;
  std::vector<Aborted> aborted;  ///< for the first host
  HubCore hub{{.world_size = 3, .probe_pause = milliseconds(100)}};
  Deadline now{seconds(1000)};

 private:
  static std::string name_of_host(LinkId host) { return "n" + std::to_string(host); }
  void take(const Sends& sends) {
    for (const Send& send : sends.messages) {
      if (const auto* probe = std::get_if<Probe>(&send.message)) probe_ = probe->number;
      if (const auto* abort = std::get_if<Aborted>(&send.message); abort != nullptr && send.to == 0)
        aborted.push_back(*abort);
    }
  }
  std::optional<std::uint64_t> probe_;
};

}  // namespace

TEST_CASE("ranks of three hosts that wait for each other in two groups are in a deadlock") {
  ThreeHosts world({calling(left_two), calling(right_two), calling(all_three)});
  world.say_that_all_wait();
  CHECK(world.answer_probe());
  CHECK(world.aborted.empty());  // one reading proves nothing
  CHECK(world.answer_probe());
  REQUIRE(world.aborted.size() == 1);
  CHECK(world.aborted.front().epoch == 1);
  CHECK(world.aborted.front().abort.reason == control::AbortReason::deadlock);
  CHECK_THAT(world.aborted.front().abort.text,
             ContainsSubstring("rank 0 in barrier #0 in group left for rank 1, rank 1 in barrier #0 in group right for "
                               "rank 2, rank 2 in barrier #0 in group world for ranks 0, 1"));
  CHECK_FALSE(world.hub.doomed());
}

TEST_CASE("ranks can go on while one group of two is complete") {
  ThreeHosts world({calling(all_three), calling(right_two), calling(right_two)});
  world.say_that_all_wait();
  CHECK(world.answer_probe());
  CHECK_FALSE(world.probe());
  CHECK(world.aborted.empty());
}

TEST_CASE("a rank that has ended its case and never comes to a call is in the deadlock") {
  ThreeHosts world({calling(all_three), calling(all_three), at_the_end()});
  world.say_that_all_wait();
  CHECK(world.answer_probe());
  CHECK(world.answer_probe());
  REQUIRE(world.aborted.size() == 1);
  CHECK(world.aborted.front().abort.culprit == 0);
  CHECK_THAT(world.aborted.front().abort.text, ContainsSubstring("for rank 2, rank 2 in the agreement between cases"));
}

TEST_CASE("a rank that has left its world in order never comes") {
  ThreeHosts world({calling(left_two), at_the_end(), gone_in_order()});
  world.say_that_all_wait();
  CHECK(world.answer_probe());
  CHECK(world.answer_probe());
  REQUIRE(world.aborted.size() == 1);
  CHECK_THAT(world.aborted.front().abort.text, ContainsSubstring("rank 0 in barrier #0 in group left for rank 1"));
}

TEST_CASE("ranks that all wait for the next case are in no deadlock") {
  ThreeHosts world({at_the_end(), at_the_end(), at_the_end()});
  world.say_that_all_wait();
  CHECK(world.answer_probe());
  CHECK_FALSE(world.probe());
  CHECK(world.aborted.empty());
}

TEST_CASE("a rank that died, or whose host was lost during the search, is no deadlock") {
  for (const bool is_lost : {true, false}) {
    CAPTURE(is_lost);
    ThreeHosts world({calling(all_three), calling(all_three), calling(left_two)});
    world.say_that_all_wait();
    const std::uint64_t probe = world.probe().value();
    world.answer(0, probe);
    world.answer(1, probe);
    if (is_lost) world.lose(2);
    else world.send(2, Ended{{.rank = 2, .signalled = true, .code = 9}});
    world.answer(2, probe);
    world.answer(0, probe + 1);
    world.answer(1, probe + 1);
    world.pass(seconds(4));
    CHECK(world.aborted.empty());
    if (is_lost) CHECK_THAT(world.hub.doomed().value().text, ContainsSubstring("host n2 with rank 2 was lost"));
  }
}

TEST_CASE("a rank that moves between two probes is in no deadlock, and the search begins again") {
  ThreeHosts world({calling(left_two), calling(right_two), calling(all_three)});
  world.say_that_all_wait();
  CHECK(world.answer_probe());
  const FlightRecord before = world.records[1];
  SECTION("it has come to another meeting of its call") { ++world.records[1].entries.back().meetings; }
  SECTION("it has left its call, and waits in the next one") {
    world.records[1].entries.back().state = protocol::FlightEntry::State::left;
    world.records[1] = calling(right_two, world.records[1]);
    world.records[1].entries.back().call.sequence = 1;
  }
  SECTION("it is beginning an entry") { world.records[1].is_writing = true; }
  CHECK(world.answer_probe());
  CHECK(world.aborted.empty());
  world.records[1] = before;
  world.pass(milliseconds(99));
  CHECK_FALSE(world.probe());
  world.pass(milliseconds(1));
  CHECK(world.answer_probe());
  CHECK(world.answer_probe());
  CHECK(world.aborted.size() == 1);
}

TEST_CASE("records of an earlier probe count for nothing") {
  ThreeHosts world({calling(left_two), calling(right_two), calling(all_three)});
  world.say_that_all_wait();
  const std::uint64_t first = world.probe().value();
  CHECK(world.answer_probe());
  const std::uint64_t second = world.probe().value();
  CHECK(second != first);
  world.answer(0, second);
  world.answer(1, second);
  world.answer(2, first);
  CHECK(world.aborted.empty());
  world.answer(2, second);
  CHECK(world.aborted.size() == 1);
}

TEST_CASE("a host whose ranks no longer all wait ends the search, until it says that they wait again") {
  ThreeHosts world({calling(left_two), calling(right_two), calling(all_three)});
  world.send(0, Waits{});
  world.send(1, Waits{});
  CHECK_FALSE(world.probe());
  world.send(2, Waits{});
  const std::uint64_t probe = world.probe().value();
  world.answer(0, probe);
  world.send(1, ProbeReply{.number = probe, .all_wait = false});
  world.answer(2, probe);
  world.pass(seconds(4));
  CHECK(world.probe() == probe);
  CHECK(world.aborted.empty());
  world.send(1, Waits{});
  CHECK(world.answer_probe());
  CHECK(world.answer_probe());
  CHECK(world.aborted.size() == 1);
}

TEST_CASE("an agreement that is decided ends the search") {
  ThreeHosts world({calling(left_two), calling(right_two), calling(all_three)});
  world.say_that_all_wait();
  const std::uint64_t probe = world.probe().value();
  for (const LinkId host : three_hosts) world.send(host, Votes{1, {{}}});
  for (const LinkId host : three_hosts) world.answer(host, probe);
  world.pass(seconds(4));
  CHECK(world.probe() == probe);
  CHECK(world.aborted.empty());
}
