#include "harness/control/link/page_side.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "harness/control/flight_ring.hpp"
#include "harness/control/link/hub_core.hpp"

using namespace shardproof;
using namespace shardproof::control::link;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using control::AbortReason;
using control::ControlPage;

namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> names(const std::vector<Message>& messages) {
  std::vector<std::string> result;
  for (const Message& message : messages) result.emplace_back(name_of(message));
  return result;
}

/// A page of a world of three ranks, with the first two of them, after the start.
struct OneHost {
  OneHost() { side.apply(Start{{"a", "a", "b"}, 0}, Clock::now()); }
  std::vector<Message> news() { return side.news(Clock::now()); }

  ControlPage page = ControlPage::anonymous(3);
  PageSide side{page, Hello{.world_size = 3, .host = "a", .ranks = {0, 1}}};
};

/// A rank of a test that calls agree once.
class Voter {
 public:
  Voter(ControlPage& page, int rank, std::uint64_t value)
      : thread_([this, &page, rank, value] {
          try {
            ballots_ = page.agree(rank, {value, fmt::format("of {}", rank)}, Clock::now() + std::chrono::minutes(5));
          } catch (const std::exception& thrown) {
            thrown_ = thrown.what();
          }
        }) {}
  /// Empty ballots: the call threw.
  const std::vector<control::Ballot>& ballots() {
    if (thread_.joinable()) thread_.join();
    return ballots_;
  }
  const std::string& thrown() {
    ballots();
    return thrown_;
  }
  ~Voter() { ballots(); }

 private:
  std::vector<control::Ballot> ballots_;
  std::string thrown_;
  std::thread thread_;
};

Votes votes_of(OneHost& host) {
  while (true) {
    for (const Message& message : host.news()) {
      if (const auto* votes = std::get_if<Votes>(&message)) return *votes;
    }
    std::this_thread::yield();
  }
}

}  // namespace

TEST_CASE("a page with ranks on other hosts decides no round by itself") {
  OneHost host;
  CHECK(host.page.is_remote(2));
  CHECK_FALSE(host.page.is_remote(0));
  Voter first(host.page, 0, 10), second(host.page, 1, 11);
  const Votes votes = votes_of(host);
  CHECK(votes.round == 1);
  REQUIRE(votes.ballots.size() == 2);
  CHECK((votes.ballots[0].value == 10 && votes.ballots[1].value == 11 && votes.ballots[1].text == "of 1"));
  CHECK(host.page.decided() == 0);
  CHECK(host.news().empty());  // each round is sent once
  const std::vector<control::Ballot> all{{10, "of 0"}, {11, "of 1"}, {12, "of 2"}};
  CHECK_THROWS_AS(host.side.apply(Decided{1, {{10, ""}}}, Clock::now()), BadMessage);
  CHECK_THROWS_AS(host.side.apply(Decided{2, all}, Clock::now()), BadMessage);
  host.side.apply(Decided{1, all}, Clock::now());
  REQUIRE(first.ballots().size() == 3);
  CHECK((first.ballots()[2].value == 12 && first.ballots()[2].text == "of 2" && second.ballots()[0].value == 10));
  CHECK_THROWS_AS(host.side.apply(Decided{1, all}, Clock::now()), BadMessage);
}

TEST_CASE("news are in the order progress, ends, abort, doom, votes") {
  OneHost host;
  host.page.report(1, {.pid = 5, .case_started_ns = 77});
  host.page.end_rank({.rank = 1, .code = 3});
  host.page.raise_abort(4, {0, AbortReason::failed, "why"});
  CHECK(host.page.doom({0, AbortReason::died, "gone"}));
  CHECK_FALSE(host.page.doom({1, AbortReason::died, "later"}));
  Voter first(host.page, 0, 1), second(host.page, 1, 2);
  std::vector<Message> all;
  while (all.empty() || !std::holds_alternative<Votes>(all.back())) {
    for (Message& message : host.news()) all.push_back(std::move(message));
  }
  CHECK(names(all) == std::vector<std::string>{"ProgressOf", "Flight", "Ended", "AbortRaised", "DoomRaised", "Votes"});
  CHECK(std::get<AbortRaised>(all[3]).decided == 0);
  CHECK(std::get<DoomRaised>(all[4]).abort.text == "gone");
  CHECK_FALSE(host.page.doomed());  // only proposed
  CHECK(host.news().empty());

  // A complete agreement is returned, even when the end of the world follows.
  host.side.apply(Decided{1, std::vector<control::Ballot>(3)}, Clock::now());
  CHECK(names(host.side.apply(Doomed{{2, AbortReason::died, "the hub's"}}, Clock::now())) ==
        std::vector<std::string>{"Flight", "Flight"});
  CHECK(first.ballots().size() == 3);
  CHECK(second.ballots().size() == 3);
  REQUIRE(host.page.doomed());
  CHECK(host.page.doomed()->text == "the hub's");
  CHECK_FALSE(host.page.doom({0, AbortReason::died, "too late"}));
}

TEST_CASE("the hub's cause replaces the page's own") {
  OneHost host;
  CHECK(host.page.raise_abort(1, {0, AbortReason::failed, "here"}));
  CHECK(host.page.aborted(1)->text == "here");
  CHECK(names(host.news()) == std::vector<std::string>{"AbortRaised"});
  host.side.apply(Aborted{1, {2, AbortReason::error, "there"}}, Clock::now());
  CHECK(host.page.aborted(1)->text == "there");
  CHECK(host.page.aborted(1)->culprit == 2);
  CHECK_FALSE(host.page.raise_abort(1, {0, AbortReason::failed, "again"}));
  CHECK(host.news().empty());
  // An abort of another host is no news of this page.
  host.side.apply(Aborted{2, {2, AbortReason::error, "there, too"}}, Clock::now());
  CHECK(host.news().empty());
  CHECK_THROWS_AS(host.page.check(2), control::Released);
}

TEST_CASE("a page without its hub ends its world, with the reason that it has proposed") {
  OneHost silent;
  silent.side.hub_lost("the hub was lost");
  CHECK(silent.page.doomed()->text == "the hub was lost");
  OneHost host;
  host.page.doom({1, AbortReason::died, "SIGKILL"});
  Voter voter(host.page, 0, 1);
  host.side.hub_lost("the hub was lost");
  CHECK(host.page.doomed()->text == "SIGKILL");
  CHECK_THAT(voter.thrown(), ContainsSubstring("SIGKILL"));
}

TEST_CASE("a page shows what remote ranks report, and lets no hub write for its own ranks") {
  OneHost host;
  for (const int rank : {1, 2, 1000}) {
    host.side.apply(ProgressOf{rank, {.pid = 9, .position = 4}}, Clock::now());
    host.side.apply(Ended{{.rank = rank, .code = 7}}, Clock::now());
    Flight flight{.rank = rank};
    flight.record.begun = 12;
    host.side.apply(flight, Clock::now());
  }
  CHECK(host.page.progress(2).position == 4);
  CHECK(host.page.rank_end(2)->code == 7);
  CHECK(host.page.progress(1).pid == 0);
  CHECK_FALSE(host.page.rank_end(1));
  CHECK(host.side.flight_records()[2].begun == 12);
  CHECK(host.side.flight_records()[1].begun == 0);
  host.side.apply(HostLost{"b", {2}, "why"}, Clock::now());
  host.side.apply(AllEnded{}, Clock::now());
  CHECK(host.side.lost_hosts().front().host == "b");
  CHECK(host.side.all_ended());
  const auto pong = host.side.apply(Ping{3}, control::Deadline(std::chrono::nanoseconds(17)));
  REQUIRE(pong.size() == 1);
  CHECK((std::get<Pong>(pong[0]).number == 3 && std::get<Pong>(pong[0]).now_ns == 17));
  CHECK(names(host.side.apply(FlightWanted{}, Clock::now())) == std::vector<std::string>{"Flight", "Flight"});
  CHECK_THROWS_AS(host.side.apply(Hello{}, Clock::now()), BadMessage);
}

TEST_CASE("a page awaits one flight record of each remote rank whose end it does not know") {
  ControlPage page = ControlPage::anonymous(5);
  PageSide side(page, Hello{.world_size = 5, .host = "launcher", .watches = true});
  const auto apply = [&](Message message) { side.apply(std::move(message), Clock::now()); };
  apply(Ended{{.rank = 0}});
  apply(HostLost{"b", {1}, "why"});
  CHECK_FALSE(side.awaits_flights());
  CHECK(name_of(side.want_flights()) == "FlightWanted");
  for (int i = 0; i < 3; ++i) apply(Flight{.rank = 2});
  CHECK(side.awaits_flights());
  // Ranks 3 and 4 cannot send a record any more.
  apply(HostLost{"c", {3}, "why"});
  CHECK(side.awaits_flights());
  apply(Ended{{.rank = 4}});
  CHECK_FALSE(side.awaits_flights());
  side.want_flights();
  CHECK(side.awaits_flights());
  apply(Flight{.rank = 2});
  CHECK_FALSE(side.awaits_flights());
}

TEST_CASE("an agreement that is late names the ranks of other hosts without their calls") {
  OneHost host;
  CHECK_THROWS_MATCHES(
      host.page.agree(0, {}, Clock::now() + std::chrono::milliseconds(5)), control::DeadlineExceeded,
      MessageMatches(ContainsSubstring("missing rank 1 (no call yet), rank 2 (perhaps, on another host)")));
}

TEST_CASE("a page reports that all its ranks wait once they have waited for a while") {
  OneHost host;
  control::Deadline now = Clock::now();
  const auto look = [&] {
    now += std::chrono::milliseconds(50);
    return names(host.side.news(now));
  };
  const std::vector<std::string> none, waits{"Waits"};
  const auto enter = [&](int rank) {
    host.page.flight(rank).join_group(1, "world", std::vector{0, 1, 2});
    host.page.flight(rank).enter_call(1, 1, {});
    host.page.enter_wait(1);
  };
  enter(0);
  CHECK(look() == none);
  CHECK(names(host.side.apply(Probe{1}, now)) == std::vector<std::string>{"ProbeReply"});
  enter(1);
  CHECK_FALSE(host.page.aborted(1));
  CHECK(look() == none);
  CHECK(look() == waits);
  CHECK(look() == none);
  CHECK(names(host.side.apply(Probe{2}, now)) == std::vector<std::string>{"Flight", "Flight", "ProbeReply"});
  host.page.leave_waits(1);
  const auto reply = host.side.apply(Probe{3}, now);
  REQUIRE(reply.size() == 1);
  CHECK_FALSE(std::get<ProbeReply>(reply[0]).all_wait);
  enter(0);
  CHECK(look() == none);
  CHECK(look() == waits);
  // A rank that left does not count, and one that died does not wait.
  host.page.report(0, {.left = true});
  CHECK(look() == std::vector<std::string>{"ProgressOf"});
  host.page.end_rank({.rank = 1});
  CHECK(look() == std::vector<std::string>{"Flight", "Ended"});
  CHECK_FALSE(host.side.deadline());
}

namespace {

/// Pages of several hosts and the core of their hub in one process, without sockets.
class Hosts {
 public:
  explicit Hosts(std::vector<std::vector<int>> ranks) : core_({.world_size = size_of_world(ranks)}) {
    for (auto& of_host : ranks) {
      auto& host = hosts_.emplace_back(std::make_unique<Host>(core_world_, std::move(of_host), hosts_.size()));
      take(core_.connected(hosts_.size() - 1, host->side.hello(), Clock::now()));
    }
  }
  ControlPage& page_of(int rank) {
    for (const auto& host : hosts_) {
      if (!host->page.is_remote(rank)) return host->page;
    }
    throw std::out_of_range("no such rank");
  }
  ControlPage& page(std::size_t host) { return hosts_[host]->page; }
  /// Carries messages until `done`.
  template <class Done>
  void run_until(const Done& done) {
    while (!done()) {
      for (std::size_t of = 0; of < hosts_.size(); ++of) {
        for (const Message& message : hosts_[of]->side.news(Clock::now())) receive(of, message);
      }
      take(core_.time_passed(Clock::now()));
      std::this_thread::yield();
    }
  }

 private:
  struct Host {
    Host(int size, std::vector<int> ranks, std::size_t number)
        : page(ControlPage::anonymous(size)),
          side(page, {.world_size = size, .host = fmt::format("h{}", number), .ranks = std::move(ranks)}) {}
    ControlPage page;
    PageSide side;
  };
  int size_of_world(const std::vector<std::vector<int>>& ranks) {
    for (const auto& of_host : ranks) core_world_ += static_cast<int>(of_host.size());
    return core_world_;
  }
  void receive(std::size_t of, const Message& message) {
    take(core_.received(of, decode(encode(message).substr(4)), Clock::now()));
  }
  void take(const Sends& sends) {
    for (const Send& send : sends.messages) {
      for (const Message& answer : hosts_[send.to]->side.apply(decode(encode(send.message).substr(4)), Clock::now()))
        receive(send.to, answer);
    }
  }

  int core_world_ = 0;
  HubCore core_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace

TEST_CASE("ranks of several pages see the same ballots and one cause, also when two hosts abort at once") {
  constexpr int ranks = 5;
  constexpr std::uint32_t epochs = 100;
  Hosts hosts({{0, 3}, {1}, {2, 4}});
  std::vector<std::vector<std::string>> causes(ranks);
  std::atomic<int> done{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ControlPage& page = hosts.page_of(rank);
      try {
        for (std::uint32_t epoch = 1; epoch <= epochs; ++epoch) {
          if (epoch % 2 == 0) {
            const control::Abort mine{rank, AbortReason::failed, fmt::format("{} in {}", rank, epoch)};
            if (rank == 1 || rank == 4 || epoch % 3 == 0) page.raise_abort(epoch, mine);
            try {
              page.await(
                  rank, [] { return false; }, epoch, Clock::now() + std::chrono::minutes(1),
                  [] { return std::string("late"); });
            } catch (const control::Released&) {
            }
          }
          const auto ballots = page.agree(rank, {epoch * 10ULL + static_cast<std::uint64_t>(rank), ""},
                                          Clock::now() + std::chrono::minutes(1));
          for (std::size_t other = 0; other < ballots.size(); ++other) {
            if (ballots[other].value != epoch * 10ULL + other) ++wrong;
          }
          const auto cause = page.aborted(epoch);
          causes[static_cast<std::size_t>(rank)].push_back(cause ? cause->text : "");
        }
      } catch (const std::exception& thrown) {
        causes[static_cast<std::size_t>(rank)].emplace_back(thrown.what());
      }
      ++done;
    });
  }
  hosts.run_until([&] { return done == ranks; });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  REQUIRE(causes[0].size() == epochs);
  for (int rank = 1; rank < ranks; ++rank) CHECK(causes[static_cast<std::size_t>(rank)] == causes[0]);
}

TEST_CASE("a deadlock of ranks on two pages is reported on both") {
  Hosts hosts({{0}, {1}});
  for (const int rank : {0, 1}) {
    ControlPage& page = hosts.page_of(rank);
    page.flight(rank).join_group(1, "world", std::vector{0, 1});
    page.flight(rank).join_group(2, "other", std::vector{0, 1});
    page.flight(rank).enter_call(rank == 0 ? 1 : 2, 1, {});
    page.enter_wait(1);
  }
  hosts.run_until([&] { return hosts.page(0).aborted(1) && hosts.page(1).aborted(1); });
  CHECK(hosts.page(0).aborted(1)->reason == AbortReason::deadlock);
  CHECK(hosts.page(0).aborted(1)->text == hosts.page(1).aborted(1)->text);
  CHECK(hosts.page(1).aborted(1)->text ==
        "every rank waits and no rank can continue: rank 0 in barrier #0 in group world for rank 1, rank 1 in barrier "
        "#0 in group other for rank 0");
}
