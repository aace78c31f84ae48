#include "harness/control/link/hub_core.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "harness/base/random.hpp"

using namespace shardproof;
using namespace shardproof::control::link;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using control::Abort;
using control::AbortReason;
using control::Ballot;
using control::Deadline;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// A simulation of worlds on several hosts. Pages and ranks are models, and the hub is the real core. Time is simulated:
// each message has a random delay, and each connection keeps the order of its messages.

/// A test damages the traffic of the hub, to see that the simulation finds it.
enum class Defect : std::uint8_t {
  none,
  abort_after_decision,  ///< a page with an abort of its own gets the hub's only after the next Decided
  abort_to_one_is_lost,  ///< one page never gets an Aborted
  doom_before_decision,  ///< Doomed overtakes a Decided that the hub sent before
  short_records,  ///< the hub gets only the last entry of a flight record
  waits_are_lost,  ///< the hub never hears that a page waits
  host_is_not_named,  ///< the hub keeps a lost host to itself
  decided_by_half,  ///< one page gets a ballot that differs
};

struct Finding : std::runtime_error {
  using std::runtime_error::runtime_error;
};
void expect_that(bool holds, const std::string& what) {
  if (!holds) throw Finding(what);
}

struct Counts {
  int deadlocks = 0, aborts = 0, rounds = 0, dooms = 0, lost_hosts = 0, contended_aborts = 0;
};

class SimulatedWorld {
 public:
  SimulatedWorld(std::uint64_t seed, Defect defect)
      : random_(seed),
        defect_(defect),
        pages_(1 + below(defect == Defect::none && below(8) == 0 ? 64 : 5)),
        size_(static_cast<int>(pages_.size() +
                               below(std::min<std::uint64_t>(128 - pages_.size(), 3 * pages_.size()) + 1))),
        cases_(2 + static_cast<int>(below(5))),
        core_({.world_size = size_, .silence_limit = seconds(10), .probe_pause = milliseconds(100)}),
        ranks_(static_cast<std::size_t>(size_)) {
    for (int rank = 0; rank < size_; ++rank) {
      const std::size_t place =
          static_cast<std::size_t>(rank) < pages_.size() ? static_cast<std::size_t>(rank) : below(pages_.size());
      ranks_[static_cast<std::size_t>(rank)].page = place;
      pages_[place].ranks.push_back(rank);
    }
    // The third is a world without deaths.
    trouble_ = below(3);
    for (int of = 0; of < cases_; ++of) kinds_.push_back(below(4));
    groups_ = {{}, {}, {}};
    for (int rank = 0; rank < size_; ++rank) {
      groups_[0].push_back(rank);
      groups_[1 + below(2)].push_back(rank);
    }
  }

  Counts run() {
    for (std::size_t page = 0; page < pages_.size(); ++page) {
      pages_[page].name = fmt::format("host-{}", page);
      after(delay(50), [this, page] {
        pages_[page].is_connected = true;
        take(
            core_.connected(page, {.world_size = size_, .host = pages_[page].name, .ranks = pages_[page].ranks}, now_));
      });
    }
    if (trouble_ > 0) {
      const auto at = milliseconds(500 + below(3000));
      const std::size_t page = below(pages_.size());
      if (trouble_ == 1) {
        after(at, [this, page] { cut(page, below(3)); });
        if (below(3) == 0) after(at + milliseconds(below(20)), [this] { cut(below(pages_.size()), below(2)); });
      } else {
        after(at, [this] { kill(static_cast<int>(below(static_cast<std::uint64_t>(size_)))); });
        after(at + milliseconds(below(30)),
              [this] { kill(static_cast<int>(below(static_cast<std::uint64_t>(size_)))); });
      }
    }
    while (!is_over()) {
      expect_that(now_ - progressed_ < seconds(60),
                  "the world stands still: a deadlock, an abort or a doom was not reported; " + state());
      step();
    }
    check_end();
    return counts_;
  }

 private:
  enum class Doing : std::uint8_t { not_started, computes, calls, agrees, has_left, is_released, is_dead };
  struct Rank {
    std::size_t page = 0;
    Doing doing = Doing::not_started;
    Doing before_death = Doing::not_started;
    int of_case = 0;  ///< 1 to cases_; also the epoch
    bool in_body = false;
    std::vector<std::size_t> calls;  ///< groups of the calls that it will still make in this case
    std::optional<std::size_t> aborts_before;  ///< aborts when so many calls are left
    std::array<std::uint64_t, 3> sequences{};
    std::uint64_t round = 0, returned = 0;
    protocol::FlightRecord record;
    std::uint64_t steps = 0;  ///< events of an earlier step do nothing
    bool ended = false;
  };
  struct Page {
    std::string name;
    std::vector<int> ranks;
    bool is_connected = false, is_cut = false, has_left = false, knows_all_ended = false;
    bool is_mute = false;  ///< its messages vanish, and no end of the connection is seen
    std::uint64_t decided = 0, votes_sent = 0;
    std::optional<std::pair<std::uint32_t, Abort>> abort;
    std::optional<std::uint32_t> abort_sent;
    std::optional<Abort> doom;
    std::map<std::uint64_t, std::vector<Ballot>> ballots;
    std::set<std::string> lost_hosts;
    std::uint64_t last_look = 0, waits_sent = 0;
    Deadline to_hub{}, from_hub{};  ///< arrival of the last message
    std::vector<Message> held;  ///< by a defect
  };

  std::uint64_t below(std::uint64_t limit) { return base::next_random(random_) % limit; }
  milliseconds delay(std::uint64_t most) { return milliseconds(1 + below(most)); }
  void after(milliseconds time, std::function<void()> event) { events_.emplace(now_ + time, std::move(event)); }
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void step() {
    const auto due = core_.deadline();
    if (due && (events_.empty() || *due < events_.begin()->first)) {
      now_ = std::max(now_, *due);
      take(core_.time_passed(now_));
      return;
    }
    expect_that(!events_.empty(), "nothing happens any more");
    auto event = events_.extract(events_.begin());
    now_ = std::max(now_, event.key());
    event.mapped()();
  }

  // -- Links ----------------------------------------------------------------------------------------------------------

  void to_hub(std::size_t of, Message message) {
    Page& page = pages_[of];
    if (page.is_cut || page.is_mute || page.has_left) return;
    page.to_hub = std::max(page.to_hub, now_ + delay(slowness(of)));
    events_.emplace(page.to_hub, [this, of, message = std::move(message)]() mutable {
      if (pages_[of].is_mute) return;
      if (defect_ == Defect::waits_are_lost && std::holds_alternative<Waits>(message)) return;
      if (const auto* ended = std::get_if<Ended>(&message)) ended_at_hub_.insert(ended->end.rank);
      take(core_.received(of, message, now_));
    });
  }

  void take(const Sends& sends) {
    for (Send send : sends.messages) {
      if (const auto* aborted = std::get_if<Aborted>(&send.message); aborted != nullptr &&
                                                                     aborted->abort.reason == AbortReason::deadlock &&
                                                                     counted_.insert(aborted->epoch).second) {
        expect_that(is_deadlocked(), "a reported deadlock does not exist: " + aborted->abort.text + "; " + state());
        ++counts_.deadlocks;
      }
      from_hub(static_cast<std::size_t>(send.to), std::move(send.message));
    }
  }

  void from_hub(std::size_t to, Message message) {
    Page& page = pages_[to];
    if (defect_ == Defect::host_is_not_named && std::holds_alternative<HostLost>(message)) return;
    if (defect_ == Defect::abort_to_one_is_lost && to == 0 && std::holds_alternative<Aborted>(message)) return;
    if (const auto* aborted = std::get_if<Aborted>(&message); aborted != nullptr &&
                                                              defect_ == Defect::abort_after_decision && page.abort &&
                                                              page.abort->first == aborted->epoch) {
      page.held.push_back(std::move(message));
      return;
    }
    if (auto* decided = std::get_if<Decided>(&message);
        decided != nullptr && defect_ == Defect::decided_by_half && to == 0)
      ++decided->ballots.front().value;
    const bool releases_held = std::holds_alternative<Decided>(message) || std::holds_alternative<Doomed>(message);
    deliver(to, std::move(message));
    if (releases_held) {
      for (Message& held : std::exchange(page.held, {})) deliver(to, std::move(held));
    }
  }

  void deliver(std::size_t to, Message message) {
    Page& page = pages_[to];
    page.from_hub = std::max(page.from_hub, now_ + delay(slowness(to)));
    const bool overtakes = defect_ == Defect::doom_before_decision && std::holds_alternative<Doomed>(message);
    events_.emplace(overtakes ? now_ : page.from_hub, [this, to, message = std::move(message)] {
      if (pages_[to].is_cut || pages_[to].is_mute) return;
      std::visit([&](const auto& one) { apply(to, one); }, message);
    });
  }

  /// Some hosts are far away.
  static std::uint64_t slowness(std::size_t page) { return page % 3 == 0 ? 3 : page % 3 == 1 ? 20 : 60; }

  // -- Pages ----------------------------------------------------------------------------------------------------------

  template <class Other>
  void apply(std::size_t /*of*/, const Other& other) {
    throw Finding(fmt::format("the hub sends a page {}", name_of(Message(other))));
  }
  void apply(std::size_t of, const Ping& ping) { to_hub(of, Pong{ping.number, 0}); }
  void apply(std::size_t of, const Start& start) {
    expect_that(start.hosts.size() == static_cast<std::size_t>(size_), "a host for each rank");
    for (const int rank : pages_[of].ranks)
      expect_that(start.hosts[static_cast<std::size_t>(rank)] == pages_[of].name, "each rank's own host");
    for (const int rank : pages_[of].ranks) after(delay(30), [this, rank] { begin_case(rank); });
    after(milliseconds(50), [this, of] { look(of); });
  }
  void apply(std::size_t of, const Decided& decided) {
    Page& page = pages_[of];
    expect_that(decided.round == page.decided + 1, "rounds come in order");
    expect_that(!page.doom, "no decision after a doom");
    page.decided = decided.round;
    page.ballots[decided.round] = decided.ballots;
    for (const int rank : page.ranks) wake(rank);
  }
  void apply(std::size_t of, const Aborted& aborted) {
    Page& page = pages_[of];
    if (page.abort && page.abort->first == aborted.epoch && page.abort->second.text != aborted.abort.text)
      ++counts_.contended_aborts;
    page.abort = {aborted.epoch, aborted.abort};
    page.abort_sent = aborted.epoch;
    for (const int rank : page.ranks) wake(rank);
  }
  void apply(std::size_t of, const Doomed& doomed) {
    expect_that(!pages_[of].doom, "one doom");
    pages_[of].doom = doomed.abort;
    for (const int rank : pages_[of].ranks) wake(rank);
  }
  void apply(std::size_t of, const HostLost& host) { pages_[of].lost_hosts.insert(host.host); }
  void apply(std::size_t /*of*/, const Ended& /*ended*/) {}
  void apply(std::size_t of, const AllEnded& /*all*/) {
    pages_[of].knows_all_ended = true;
    pages_[of].has_left = true;
    after(delay(5), [this, of] {
      pages_[of].is_connected = false;
      take(core_.lost(of, "end of the connection", now_));
    });
  }
  void apply(std::size_t /*of*/, const Bye& bye) { throw Finding("the hub refuses a page: " + bye.why); }
  void apply(std::size_t of, const Probe& probe) {
    if (!all_wait(of)) {
      pages_[of].waits_sent = pages_[of].last_look = 0;
      return to_hub(of, ProbeReply{probe.number, false});
    }
    for (const int rank : pages_[of].ranks) {
      protocol::FlightRecord record = at(rank).record;
      if (defect_ == Defect::short_records) record.entries.erase(record.entries.begin(), record.entries.end() - 1);
      to_hub(of, Flight{probe.number, rank, std::move(record)});
    }
    to_hub(of, ProbeReply{probe.number, true});
  }

  bool all_wait(std::size_t of) {
    return std::ranges::all_of(pages_[of].ranks, [&](int rank) {
      const Doing doing = at(rank).doing;
      return doing == Doing::calls || doing == Doing::agrees || doing == Doing::has_left;
    });
  }

  void look(std::size_t of) {
    Page& page = pages_[of];
    if (page.doom || page.knows_all_ended) return;
    std::uint64_t signature = 1;
    for (const int rank : page.ranks) {
      signature += at(rank).record.begun * 1000;
      for (const auto& entry : at(rank).record.entries) signature += entry.meetings;
    }
    const bool waits = all_wait(of);
    if (waits && signature == page.last_look && signature != page.waits_sent) {
      page.waits_sent = signature;
      to_hub(of, Waits{});
    }
    page.last_look = waits ? signature : 0;
    after(milliseconds(50), [this, of] { look(of); });
  }

  /// In the order in which a page reads and reports.
  void news(std::size_t of) {
    Page& page = pages_[of];
    const bool all_voted = std::ranges::all_of(page.ranks, [&](int rank) { return at(rank).round > page.decided; });
    if (page.abort && page.abort_sent != page.abort->first) {
      page.abort_sent = page.abort->first;
      to_hub(of, AbortRaised{page.decided, page.abort->first, page.abort->second});
    }
    if (!all_voted || page.votes_sent > page.decided) return;
    page.votes_sent = page.decided + 1;
    Votes votes{page.votes_sent, {}};
    for (const int rank : page.ranks) votes.ballots.push_back(ballot_of(rank, votes.round));
    to_hub(of, votes);
  }

  static Ballot ballot_of(int rank, std::uint64_t round) {
    const auto number = static_cast<std::uint64_t>(rank);
    return {round * 1000 + number, (round + number) % 5 == 0 ? fmt::format("{}/{}", round, rank) : ""};
  }

  /// `how`: 0 and 1: the connection ends. 2: the network takes no bytes any more.
  void cut(std::size_t of, std::uint64_t how) {
    Page& page = pages_[of];
    if (page.is_cut || page.is_mute || !page.is_connected || page.knows_all_ended) return;
    if (how == 2) {
      page.is_mute = true;
      note_lost(of);
    } else {
      page.is_cut = true;
      after(delay(5), [this, of] {
        note_lost(of);
        take(core_.lost(of, "end of the connection", now_));
      });
    }
    after(how == 2 ? milliseconds(10'000) : delay(5), [this, of] {
      pages_[of].is_cut = true;
      pages_[of].is_connected = false;
      if (!pages_[of].doom) pages_[of].doom = Abort{-1, AbortReason::died, "the hub was lost"};
      for (const int rank : pages_[of].ranks) wake(rank);
    });
  }
  void note_lost(std::size_t of) {
    const auto has_ended = [&](int rank) { return ended_at_hub_.contains(rank); };
    if (!std::ranges::all_of(pages_[of].ranks, has_ended)) cut_.insert(of);
  }

  void kill(int rank) {
    Rank& dead = at(rank);
    if (dead.doing == Doing::not_started || dead.doing == Doing::has_left || dead.doing == Doing::is_dead || dead.ended)
      return;
    dead.before_death = std::exchange(dead.doing, Doing::is_dead);
    ++dead.steps;
    after(delay(20), [this, rank] {
      to_hub(at(rank).page, DoomRaised{{rank, AbortReason::died, fmt::format("rank {} died", rank)}});
      end(rank);
    });
  }

  // -- Ranks ----------------------------------------------------------------------------------------------------------

  void enter(int rank, protocol::FlightEntry entry) {
    auto& record = at(rank).record;
    record.entries.push_back(entry);
    if (record.entries.size() > 32) record.entries.erase(record.entries.begin());
    ++record.begun;
  }

  void begin_case(int rank) {
    Rank& self = at(rank);
    if (self.doing == Doing::is_dead) return;
    if (self.of_case == 0) {
      for (std::size_t group = 0; group < groups_.size(); ++group)
        self.record.groups.push_back({.id = group + 1, .name = fmt::format("g{}", group), .members = groups_[group]});
    }
    self.in_body = false;
    ++self.of_case;
    agree(rank);
  }

  void begin_body(int rank) {
    Rank& self = at(rank);
    self.in_body = true;
    self.sequences = {};
    enter(rank,
          {.what = protocol::FlightEntry::What::case_begun, .place = static_cast<std::uint64_t>(self.of_case - 1)});
    // The same calls on all ranks, in the same order: from a seed of the case.
    std::uint64_t state = static_cast<std::uint64_t>(self.of_case) * 7919;
    const std::uint64_t kind = kinds_[static_cast<std::size_t>(self.of_case - 1)];
    self.calls.clear();
    self.aborts_before.reset();
    for (std::uint64_t call = 0, calls = 3 + base::next_random(state) % 8; call < calls; ++call) {
      const std::size_t group = base::next_random(state) % groups_.size();
      if (std::ranges::binary_search(groups_[group], rank)) self.calls.push_back(group);
    }
    if (kind == 1 && !self.calls.empty() && below(static_cast<std::uint64_t>(size_)) < 2)
      self.aborts_before = 1 + below(self.calls.size());
    // Many abort at the same time.
    if (kind == 3 && !self.calls.empty() && below(8) == 0) self.aborts_before = self.calls.size();
    // Two ranks out of step: one skips a call, another swaps two.
    if (kind == 2 && !self.calls.empty() && below(static_cast<std::uint64_t>(size_)) < 1)
      self.calls.erase(self.calls.begin() + static_cast<std::ptrdiff_t>(below(self.calls.size())));
    if (kind == 2 && self.calls.size() > 1 && below(static_cast<std::uint64_t>(size_)) < 1)
      std::swap(self.calls.front(), self.calls.back());
    compute(rank);
  }

  void compute(int rank) {
    at(rank).doing = Doing::computes;
    const std::uint64_t step = ++at(rank).steps;
    after(delay(below(20) == 0 ? 400 : 10), [this, rank, step] {
      if (at(rank).steps == step) next(rank);
    });
  }

  bool is_aborted(int rank) {
    const auto& abort = pages_[at(rank).page].abort;
    return abort && abort->first == static_cast<std::uint32_t>(at(rank).of_case);
  }

  void next(int rank) {
    Rank& self = at(rank);
    Page& page = pages_[self.page];
    if (page.doom) return release(rank);
    if (is_aborted(rank) || self.calls.empty()) return end_body(rank);
    if (self.aborts_before == self.calls.size()) {
      ++counts_.aborts;
      const auto epoch = static_cast<std::uint32_t>(self.of_case);
      page.abort = {epoch, {rank, AbortReason::failed, fmt::format("rank {} in case {}", rank, epoch)}};
      news(self.page);
      for (const int other : page.ranks) wake(other);
      return end_body(rank);
    }
    const std::size_t group = self.calls.front();
    self.calls.erase(self.calls.begin());
    protocol::FlightEntry entry{.place = static_cast<std::uint64_t>(self.of_case), .group = group + 1, .meetings = 1};
    entry.call.sequence = self.sequences[group]++;
    enter(rank, entry);
    self.doing = Doing::calls;
    const Call call{self.of_case, group, entry.call.sequence};
    auto& come = come_[call];
    come.insert(rank);
    if (come.size() < groups_[group].size()) return;
    progressed_ = now_;
    for (const int member : groups_[group]) {
      const std::uint64_t step = ++at(member).steps;
      // Some bytes are long under way.
      after(delay(below(60) == 0 ? 1000 : 30), [this, member, step] {
        if (at(member).steps != step || at(member).doing != Doing::calls) return;
        at(member).record.entries.back().state = protocol::FlightEntry::State::left;
        compute(member);
      });
    }
  }

  bool is_complete(int rank) {
    const auto& entry = at(rank).record.entries.back();
    return come_[{at(rank).of_case, entry.group - 1, entry.call.sequence}].size() == groups_[entry.group - 1].size();
  }

  void end_body(int rank) {
    enter(rank,
          {.what = protocol::FlightEntry::What::body_ended, .place = static_cast<std::uint64_t>(at(rank).of_case - 1)});
    agree(rank);
  }

  void agree(int rank) {
    Rank& self = at(rank);
    progressed_ = now_;
    if (pages_[self.page].doom) return release(rank);
    self.doing = Doing::agrees;
    ++self.steps;
    ++self.round;
    enter(rank, {.what = protocol::FlightEntry::What::agreement, .place = self.round});
    news(self.page);
  }

  /// The rank's page has changed.
  void wake(int rank) {
    const std::uint64_t step = at(rank).steps;
    after(delay(2), [this, rank, step] {
      Rank& self = at(rank);
      Page& page = pages_[self.page];
      if (self.steps != step) return;
      if (self.doing == Doing::agrees && page.decided >= self.round) return return_from_agreement(rank);
      if (self.doing == Doing::not_started && page.doom) return release(rank);
      if (self.doing == Doing::agrees && page.doom) return release(rank);
      if (self.doing != Doing::calls || is_complete(rank)) return;
      if (page.doom) return release(rank);
      if (!is_aborted(rank)) return;
      self.record.entries.back().state = protocol::FlightEntry::State::released;
      end_body(rank);
    });
  }

  void return_from_agreement(int rank) {
    Rank& self = at(rank);
    Page& page = pages_[self.page];
    self.record.entries.back().state = protocol::FlightEntry::State::left;
    self.returned = self.round;
    const std::vector<Ballot>& ballots = page.ballots.at(self.round);
    expect_that(ballots.size() == ranks_.size(), "a ballot of each rank");
    for (int other = 0; other < size_; ++other) {
      const Ballot cast = ballot_of(other, self.round), seen = ballots[static_cast<std::size_t>(other)];
      expect_that(cast.value == seen.value && cast.text == seen.text, "the ballots that were cast");
    }
    counts_.rounds = std::max(counts_.rounds, static_cast<int>(self.round));
    if (!self.in_body) return begin_body(rank);
    const std::string cause = is_aborted(rank) ? page.abort->second.text : "none";
    const auto known = causes_.emplace(self.of_case, cause).first;
    expect_that(known->second == cause,
                fmt::format("one cause in epoch {}: \"{}\" and \"{}\"", self.of_case, known->second, cause));
    if (self.of_case < cases_) return begin_case(rank);
    enter(rank, {.what = protocol::FlightEntry::What::left});
    self.doing = Doing::has_left;
    after(delay(10), [this, rank] { end(rank); });
  }

  void release(int rank) {
    Rank& self = at(rank);
    if (self.doing == Doing::is_dead) return;
    self.doing = Doing::is_released;
    ++self.steps;
    after(delay(10), [this, rank] { end(rank); });
  }

  void end(int rank) {
    progressed_ = now_;
    if (std::exchange(at(rank).ended, true)) return;
    to_hub(at(rank).page, Ended{{.rank = rank}});
  }

  // -- What the simulation knows --------------------------------------------------------------------------------------

  /// No rank of the world can continue. A rank may die after it has answered a probe: it counts as it was before.
  bool is_deadlocked() {
    bool in_call = false;
    for (int rank = 0; rank < size_; ++rank) {
      const Doing doing = at(rank).doing == Doing::is_dead ? at(rank).before_death : at(rank).doing;
      if (doing == Doing::calls) {
        if (is_complete(rank) || is_aborted(rank)) return false;
        in_call = true;
      } else if (doing != Doing::agrees) {
        return false;
      }
    }
    return in_call;
  }

  bool is_over() {
    return std::ranges::all_of(ranks_, [&](const Rank& rank) {
      const Page& page = pages_[rank.page];
      return page.is_cut || (rank.ended && page.knows_all_ended && !page.is_connected);
    });
  }

  std::string state() {
    std::string text;
    for (int rank = 0; rank < size_; ++rank)
      text += fmt::format("{} {}:{} ", rank, static_cast<int>(at(rank).doing), at(rank).round);
    return text;
  }

  void check_end() {
    std::uint64_t most = 0;
    for (const Page& page : pages_) {
      if (!page.is_cut) most = std::max(most, page.decided);
    }
    std::optional<std::string> doom;
    for (std::size_t of = 0; of < pages_.size(); ++of) {
      const Page& page = pages_[of];
      if (page.is_cut) continue;
      expect_that(page.decided == most, "a round that is decided is decided on all pages");
      for (const int rank : page.ranks) {
        if (at(rank).doing != Doing::is_dead)
          expect_that(at(rank).returned == most, fmt::format("rank {} returns from a complete agreement", rank));
      }
      const std::string mine = page.doom ? page.doom->text : "none";
      if (!doom) doom = mine;
      expect_that(*doom == mine, "one doom: " + *doom + " and " + mine);
      for (const std::size_t lost : cut_)
        expect_that(page.lost_hosts.contains(pages_[lost].name), "each lost host is named on " + page.name);
      expect_that(page.lost_hosts.size() == cut_.size(), "no other host is named");
    }
    if (doom && *doom != "none") {
      ++counts_.dooms;
      const bool names_host = std::ranges::any_of(
          cut_, [&](std::size_t lost) { return doom->starts_with("host " + pages_[lost].name + " with "); });
      expect_that(names_host || doom->ends_with(" died"), "the doom names the host or the rank: " + *doom);
    }
    counts_.lost_hosts += static_cast<int>(cut_.size());
  }

  using Call = std::tuple<int, std::size_t, std::uint64_t>;

  std::uint64_t random_;
  const Defect defect_;
  std::vector<Page> pages_;
  const int size_, cases_;
  HubCore core_;
  std::vector<Rank> ranks_;
  std::uint64_t trouble_ = 0;
  std::vector<std::uint64_t> kinds_;  ///< of each case. 1, 3: ranks abort. 2: ranks are out of step. 0: all goes well
  std::vector<std::vector<int>> groups_;
  std::map<Call, std::set<int>> come_;
  std::multimap<Deadline, std::function<void()>> events_;
  Deadline now_ = Deadline(seconds(1000)), progressed_ = now_;
  std::map<int, std::string> causes_;
  std::set<std::uint32_t> counted_;
  std::set<std::size_t> cut_;
  std::set<int> ended_at_hub_;
  Counts counts_;
};

/// The finding, with the seed that shows it again. Empty: none.
std::string finding_with(std::uint64_t seed, Defect defect, Counts* counts = nullptr) {
  try {
    const Counts found = SimulatedWorld(seed, defect).run();
    if (counts != nullptr) {
      counts->deadlocks += found.deadlocks;
      counts->aborts += found.aborts;
      counts->rounds += found.rounds;
      counts->dooms += found.dooms;
      counts->lost_hosts += found.lost_hosts;
      counts->contended_aborts += found.contended_aborts;
    }
    return {};
  } catch (const Finding& finding) {
    return fmt::format("{} (again with SHARDPROOF_HUB_SEED={})", finding.what(), seed);
  }
}

}  // namespace

TEST_CASE("in simulated worlds on many hosts, all pages see the same causes, ballots and lost hosts") {
  if (const char* const seed = std::getenv("SHARDPROOF_HUB_SEED")) {
    CHECK(finding_with(std::strtoull(seed, nullptr, 10), Defect::none) == "");
    return;
  }
  Counts counts;
  const std::uint64_t anywhere = std::random_device{}();
  for (std::uint64_t seed = 1; seed <= 70; ++seed) CHECK(finding_with(seed, Defect::none, &counts) == "");
  for (std::uint64_t seed = 1; seed <= 20; ++seed) CHECK(finding_with(anywhere + seed, Defect::none, &counts) == "");
  // The simulation is no evidence without these.
  CHECK(counts.deadlocks > 10);
  CHECK(counts.aborts > 20);
  CHECK(counts.contended_aborts > 5);
  CHECK(counts.dooms > 20);
  CHECK(counts.lost_hosts > 5);
  CHECK(counts.rounds > 300);
}

TEST_CASE("the simulation finds each defect of a hub") {
  // The beginning of the finding. Empty: the finding depends on the seed.
  const std::pair<Defect, std::string> defects[] = {
      {Defect::abort_after_decision, "one cause in epoch"},
      {Defect::abort_to_one_is_lost, ""},
      {Defect::doom_before_decision, "no decision after a doom"},
      {Defect::short_records, "a reported deadlock does not exist"},
      {Defect::waits_are_lost, "the world stands still"},
      {Defect::host_is_not_named, "each lost host is named"},
      {Defect::decided_by_half, "the ballots that were cast"},
  };
  for (const auto& [defect, text] : defects) {
    CAPTURE(static_cast<int>(defect));
    std::string found;
    for (std::uint64_t seed = 1; seed <= 150 && found.empty(); ++seed) found = finding_with(seed, defect);
    CHECK_THAT(found, StartsWith(text));
    CHECK(!found.empty());
  }
}

TEST_CASE("a hub drops an abort that comes after the round in which its page has voted") {
  const Deadline now = Deadline(seconds(1000));
  HubCore hub({.world_size = 2});
  for (const LinkId page : {LinkId{0}, LinkId{1}}) {
    hub.connected(page, {.world_size = 2, .host = "h", .ranks = {static_cast<int>(page)}}, now);
    for (std::uint64_t ping = 1; ping <= 4; ++ping) hub.received(page, Pong{ping, 0}, now);
  }
  REQUIRE(hub.has_started());
  CHECK(hub.received(0, Votes{1, {{1, ""}}}, now).messages.empty());
  CHECK(hub.received(1, Votes{1, {{2, ""}}}, now).messages.size() == 2);
  const Abort abort{0, AbortReason::failed, "why"};
  CHECK(hub.received(0, AbortRaised{0, 1, abort}, now).messages.empty());
  CHECK(hub.received(0, AbortRaised{1, 2, abort}, now).messages.size() == 2);
  CHECK(hub.received(1, AbortRaised{1, 2, abort}, now).messages.empty());
  // No page of this build sends these. The hub gives the page up, and its host is lost.
  const Sends sends = hub.received(1, Votes{1, {{2, ""}}}, now);
  CHECK(sends.closed == std::vector<LinkId>{1});
  REQUIRE(hub.doomed());
  CHECK(hub.doomed()->text ==
        "host h with rank 1 was lost: it broke the protocol in a message Votes: votes of another round");
}

TEST_CASE("a hub with a long limit of silence is heard every two seconds") {
  HubCore core({.world_size = 1, .silence_limit = std::chrono::hours(1)});
  Deadline now{seconds(100)};
  std::uint64_t pings = 0, answered = 0;
  const auto count = [&](const Sends& sends) {
    for (const Send& send : sends.messages) pings += std::holds_alternative<Ping>(send.message) ? 1 : 0;
  };
  count(core.connected(1, {.world_size = 1, .host = "h", .ranks = {0}}, now));
  while (now < Deadline{seconds(120)}) {
    while (answered < pings) count(core.received(1, Pong{.number = ++answered, .now_ns = 0}, now));
    REQUIRE(core.deadline());
    REQUIRE(*core.deadline() <= now + seconds(2));
    now = *core.deadline();
    count(core.time_passed(now));
  }
}

TEST_CASE("a hub that was stopped gives its pages time to answer") {
  HubCore core({.world_size = 1, .silence_limit = milliseconds(800)});
  Deadline now{seconds(100)};
  std::uint64_t pings = 0;
  const auto take = [&](const Sends& sends) {
    for (const Send& send : sends.messages) {
      if (const auto* const ping = std::get_if<Ping>(&send.message)) pings = ping->number;
    }
    return sends.closed.size();
  };
  take(core.connected(1, {.world_size = 1, .host = "h", .ranks = {0}}, now));
  for (std::uint64_t answered = 0; answered < pings;) {
    answered = pings;
    now += milliseconds(1);
    take(core.received(1, Pong{.number = answered, .now_ns = 0}, now));
  }
  const std::uint64_t before = pings;
  now += seconds(5);
  CHECK(take(core.time_passed(now)) == 0);
  REQUIRE(pings == before + 1);
  now += milliseconds(599);
  CHECK(take(core.time_passed(now)) == 0);
  CHECK(core.deadline() == now + milliseconds(1));
  now += milliseconds(1);
  CHECK(take(core.time_passed(now)) == 1);
  CHECK(core.doomed()->text == "host h with rank 0 was lost: it sent nothing for 800 ms");
}
