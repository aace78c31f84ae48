#include "bench/scale/simulated_hosts.hpp"

#include <fmt/format.h>

#include <deque>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "bench/measure.hpp"
#include "harness/control/flight_ring.hpp"

namespace shardproof::bench {

using namespace control::link;
using control::ControlPage;
using protocol::FlightEntry;

namespace {

constexpr std::uint64_t world_group = 1;

/// Does not wait for the others: its deadline passes at once.
void vote(ControlPage& page, int rank) {
  try {
    page.agree(rank, {.value = 1, .text = {}}, std::chrono::steady_clock::now());
  } catch (const control::DeadlineExceeded&) {  // expected
  }
}

std::vector<int> range(int first, int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

}  // namespace

SimulatedHosts::Host::Host(int world_size, const std::string& name, const std::vector<int>& of_host)
    : ranks(of_host),
      page(ControlPage::anonymous(world_size)),
      side(page, {.world_size = world_size, .host = name, .ranks = of_host, .watches = of_host.empty()}) {
  const std::vector<int> all = range(0, world_size);
  for (const int rank : ranks) {
    control::FlightRing& flight = page.flight(rank);
    flight.join_group(world_group, "world", all);
    // So many calls that its flight record is full.
    for (std::uint64_t call = 0; call < control::FlightRing::entries_kept; ++call) {
      flight.enter_call(world_group, 0, {.sequence = call});
      flight.meet();
      flight.end(FlightEntry::State::left);
    }
  }
}

SimulatedHosts::SimulatedHosts(int hosts, int ranks_of_each)
    : hosts_(hosts),
      ranks_of_each_(ranks_of_each),
      core_({.world_size = hosts * ranks_of_each}),
      now_(std::chrono::steady_clock::now()) {
  for (int host = 0; host < hosts; ++host)
    pages_.push_back(
        std::make_unique<Host>(size(), fmt::format("node{:04}", host), range(host * ranks_of_each, ranks_of_each)));
  pages_.push_back(std::make_unique<Host>(size(), "login", std::vector<int>()));
}

// -- Messages ---------------------------------------------------------------------------------------------------------

void SimulatedHosts::to_hub(LinkId link, const Message& message) {
  ++traffic_.to_hub;
  traffic_.bytes_to_hub += encode(message).size();
  Sends sends;
  traffic_.hub_ms += milliseconds([&] { sends = core_.received(link, message, now_); });
  deliver(sends);
}

void SimulatedHosts::deliver(const Sends& sends) {
  for (const auto& [to, message] : sends.messages) {
    ++traffic_.from_hub;
    traffic_.hub_ms += milliseconds([&] { traffic_.bytes_from_hub += encode(message).size(); });
    pending_.emplace_back(to, message);
  }
}

void SimulatedHosts::exchange() {
  for (LinkId link = 0; link < pages_.size(); ++link) {
    for (const Message& message : pages_[link]->side.news(now_)) to_hub(link, message);
  }
  while (!pending_.empty()) {
    auto [to, message] = std::move(pending_.front());
    pending_.pop_front();
    for (const Message& answer : pages_[to]->side.apply(std::move(message), now_)) to_hub(to, answer);
  }
}

Traffic SimulatedHosts::take() { return std::exchange(traffic_, {}); }

// -- Steps ------------------------------------------------------------------------------------------------------------

template <class Action>
void SimulatedHosts::each_rank(const Action& action) {
  for (const auto& host : pages_) {
    for (const int rank : host->ranks) action(host->page, rank);
  }
}

Traffic SimulatedHosts::join() {
  for (LinkId link = 0; link < pages_.size(); ++link) {
    const Hello& hello = pages_[link]->side.hello();
    ++traffic_.to_hub;
    traffic_.bytes_to_hub += encode(hello).size();
    deliver(core_.connected(link, hello, now_));
  }
  exchange();
  if (!core_.has_started()) throw std::logic_error("the simulated world has not started");
  return take();
}

void SimulatedHosts::agree_once() {
  const std::uint64_t before = pages_.front()->page.decided();
  each_rank(vote);
  exchange();
  if (pages_.front()->page.decided() != before + 1) throw std::logic_error("the simulated world has not agreed");
}

Traffic SimulatedHosts::agree() {
  agree_once();
  return take();
}

Traffic SimulatedHosts::run_case() {
  agree_once();
  const auto position = case_++;
  each_rank([&](ControlPage& page, int rank) {
    page.report(rank, {.pid = 1, .cases_ended = position + 1, .case_started_ns = 1 + position});
  });
  agree_once();
  return take();
}

Traffic SimulatedHosts::find_deadlock() {
  for (const auto& host : pages_) {
    for (const int rank : host->ranks) {
      if (host != pages_.front()) {
        vote(host->page, rank);
        continue;
      }
      control::FlightRing& flight = host->page.flight(rank);
      flight.enter_call(world_group, case_, {.sequence = control::FlightRing::entries_kept});
      flight.meet();
      flight.wait(now_);
      host->page.enter_wait(case_);
    }
  }
  // A page reports that its ranks wait when two looks see the same.
  for (int look = 0; look < 2; ++look) {
    now_ += std::chrono::milliseconds(50);
    exchange();
  }
  if (!pages_.back()->page.aborted(case_)) throw std::logic_error("the simulated hub has found no deadlock");
  const Traffic traffic = take();
  // The next step begins after the agreement.
  for (const int rank : pages_.front()->ranks) vote(pages_.front()->page, rank);
  exchange();
  take();
  return traffic;
}

Traffic SimulatedHosts::doom() {
  pages_.front()->page.doom({.culprit = 0, .reason = control::AbortReason::error, .text = "it gave up"});
  exchange();
  return take();
}

Traffic SimulatedHosts::end() {
  agree_once();
  each_rank([&](ControlPage& page, int rank) {
    page.report(rank, {.pid = 1, .cases_ended = case_, .left = true});
    page.end_rank({.rank = rank, .last_words = {}});
  });
  exchange();
  if (!core_.all_ended()) throw std::logic_error("the simulated world has not ended");
  return take();
}

}  // namespace shardproof::bench
