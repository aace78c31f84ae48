#include "harness/control/link/hub_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "harness/base/rank_list.hpp"
#include "harness/control/deadlock.hpp"

namespace shardproof::control::link {

namespace {

using std::chrono::nanoseconds;

/// Pings until a page's clock counts as known.
constexpr int clock_samples_wanted = 4;
constexpr nanoseconds longest_probe_pause = std::chrono::seconds(2);
/// Pages and guards have limits of their own for a silent hub (PageLink, launcher_silence). They are longer.
constexpr nanoseconds longest_ping_pause = std::chrono::seconds(2);

std::int64_t ns(Deadline time) { return nanoseconds(time.time_since_epoch()).count(); }

/// Thrown by a handler: the page does what no page of this build does.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace

HubCore::HubCore(const Settings& settings)
    : settings_(settings),
      owner_(static_cast<std::size_t>(settings.world_size)),
      ballots_(owner_.size()),
      search_pause_(settings.probe_pause) {}

// -- Events -----------------------------------------------------------------------------------------------------------

Sends HubCore::connected(LinkId id, const Hello& hello, Deadline now) {
  now_ = now;
  std::string why;
  if (hello.world_size != settings_.world_size) {
    why = fmt::format("host {} is in a world of {} ranks, and this hub has one of {}", hello.host, hello.world_size,
                      settings_.world_size);
  }
  if (!std::ranges::is_sorted(hello.ranks, std::ranges::less_equal()))
    why = fmt::format("host {} lists its ranks twice or in no order", hello.host);
  for (const int rank : hello.ranks) {
    if (!why.empty()) break;
    if (rank < 0 || rank >= settings_.world_size) {
      why = fmt::format("host {} has rank {}, and this world has ranks 0 to {}", hello.host, rank,
                        settings_.world_size - 1);
    } else if (const auto& owner = owner_[static_cast<std::size_t>(rank)]) {
      const auto other = links_.find(*owner);
      why = fmt::format("host {} has rank {}, and so has {}; start each rank once", hello.host, rank,
                        other == links_.end() ? "a host that was lost" : "host " + other->second.hello.host);
    }
  }
  if (!why.empty()) {
    send(id, Bye{why});
    sends_.closed.push_back(id);
    return take();
  }
  Link& link = links_[id];
  link.hello = hello;
  link.heard = now;
  for (const int rank : hello.ranks) owner_[static_cast<std::size_t>(rank)] = id;
  ping(id, link);
  if (doom_) send(id, Doomed{*doom_});
  return take();
}

Sends HubCore::received(LinkId id, const Message& message, Deadline now) {
  now_ = now;
  const auto found = links_.find(id);
  if (found == links_.end()) return take();
  found->second.heard = now;
  try {
    std::visit([&](const auto& one) { handle(id, found->second, one); }, message);
  } catch (const Violation& violation) {
    drop(id, fmt::format("it broke the protocol in a message {}: {}", name_of(message), violation.what()));
    send(id, Bye{violation.what()});
    sends_.closed.push_back(id);
  }
  return take();
}

Sends HubCore::lost(LinkId id, std::string_view why, Deadline now) {
  now_ = now;
  if (links_.contains(id)) drop(id, why);
  return take();
}

Sends HubCore::time_passed(Deadline now) {
  now_ = now;
  std::vector<LinkId> silent;
  for (auto& [id, link] : links_) {
    if (link.awaits_pong && now >= silent_at(link)) {
      silent.push_back(id);
    } else if (now >= link.next_ping && !link.awaits_pong) {
      ping(id, link);
    }
  }
  for (const LinkId id : silent) {
    drop(id,
         fmt::format("it sent nothing for {} ms",
                     std::chrono::duration_cast<std::chrono::milliseconds>(settings_.silence_limit).count()),
         true);
    sends_.closed.push_back(id);
  }
  search_when_due();
  return take();
}

std::optional<Deadline> HubCore::deadline() const {
  std::optional<Deadline> earliest;
  const auto add = [&](Deadline at) { earliest = earliest ? std::min(*earliest, at) : at; };
  for (const auto& [id, link] : links_) {
    add(link.awaits_pong ? silent_at(link) : link.next_ping);
  }
  if (!search_ && may_search()) add(next_search_);
  return earliest;
}

/// This process may have been stopped for longer than the limit. So a page has time to answer the last ping.
Deadline HubCore::silent_at(const Link& link) const {
  return std::max(link.heard + settings_.silence_limit, link.ping_sent + settings_.silence_limit / 4 * 3);
}

std::vector<int> HubCore::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < owner_.size(); ++rank) {
    if (!owner_[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

Sends HubCore::take() { return std::exchange(sends_, {}); }

// -- Helpers ----------------------------------------------------------------------------------------------------------

void HubCore::send_all(const Message& message) {
  for (const auto& [id, link] : links_) send(id, message);
}

void HubCore::send_watchers(LinkId from, const Message& message) {
  for (const auto& [id, link] : links_) {
    if (link.hello.watches && id != from) send(id, message);
  }
}

void HubCore::require(bool holds, std::string_view what) const {
  if (!holds) throw Violation(std::string(what));
}

bool HubCore::owns(const Link& link, int rank) const { return std::ranges::binary_search(link.hello.ranks, rank); }

void HubCore::ping(LinkId id, Link& link) {
  link.ping_sent = now_;
  link.awaits_pong = true;
  send(id, Ping{++link.pings});
}

void HubCore::drop(LinkId id, std::string_view why, bool is_silent) {
  const auto found = links_.find(id);
  const Link link = std::move(found->second);
  links_.erase(found);
  std::vector<int> ranks;
  std::ranges::copy_if(link.hello.ranks, std::back_inserter(ranks), [&](int rank) { return !gone_.contains(rank); });
  if (search_) end_search();
  if (ranks.empty()) return start_when_complete();
  const HostLost host{.host = link.hello.host, .ranks = ranks, .why = std::string(why), .is_silent = is_silent};
  send_all(host);
  doom({.culprit = ranks.front(),
        .reason = AbortReason::died,
        .text = fmt::format("host {} with {} was lost: {}", host.host, base::rank_list(ranks), why)});
  for (const int rank : ranks) rank_gone(rank);
}

void HubCore::rank_gone(int rank) {
  if (gone_.insert(rank).second && all_ended()) send_all(AllEnded{});
}

void HubCore::doom(const Abort& abort) {
  if (doom_) return;
  doom_ = abort;
  send_all(Doomed{abort});
  search_.reset();
}

void HubCore::abort(std::uint32_t epoch, const Abort& abort) {
  if (aborted_ && *aborted_ >= epoch) return;
  aborted_ = epoch;
  send_all(Aborted{epoch, abort});
}

void HubCore::start_when_complete() {
  const auto is_known = [](const auto& entry) { return entry.second.clock_samples >= clock_samples_wanted; };
  if (started_ || doom_ || !missing().empty() || !std::ranges::all_of(links_, is_known)) return;
  started_ = true;
  std::vector<std::string> hosts;
  for (const auto& owner : owner_) hosts.push_back(links_.at(*owner).hello.host);
  for (const auto& [id, link] : links_) send(id, Start{hosts, link.clock_offset_ns});
}

// -- Messages ---------------------------------------------------------------------------------------------------------

template <class Other>
void HubCore::handle(LinkId /*id*/, Link& /*link*/, const Other& /*other*/) {
  throw Violation("only a hub sends it, or only a connection that begins");
}

void HubCore::handle(LinkId id, Link& link, const Pong& pong) {
  require(link.awaits_pong && pong.number == link.pings, "it answers no ping");
  link.awaits_pong = false;
  const nanoseconds round_trip = now_ - link.ping_sent;
  if (round_trip <= link.least_round_trip) {
    link.least_round_trip = round_trip;
    link.clock_offset_ns = ns(link.ping_sent + round_trip / 2) - pong.now_ns;
  }
  const bool was_known = link.clock_samples >= clock_samples_wanted;
  if (!was_known && ++link.clock_samples < clock_samples_wanted) return ping(id, link);
  link.next_ping = now_ + std::min<nanoseconds>(settings_.silence_limit / 4, longest_ping_pause);
  if (started_ && !was_known) {  // a launcher that came later
    std::vector<std::string> hosts;
    for (const auto& owner : owner_) {
      const auto found = owner ? links_.find(*owner) : links_.end();
      hosts.push_back(found == links_.end() ? "" : found->second.hello.host);
    }
    send(id, Start{std::move(hosts), link.clock_offset_ns});
  }
  start_when_complete();
}

void HubCore::handle(LinkId /*id*/, Link& link, const Votes& votes) {
  require(started_, "the world has not started");
  require(votes.round == link.voted + 1 && votes.round == decided_ + 1, "votes of another round");
  require(!link.hello.ranks.empty() && votes.ballots.size() == link.hello.ranks.size(),
          "not one ballot for each of its ranks");
  link.voted = votes.round;
  for (std::size_t i = 0; i < votes.ballots.size(); ++i)
    ballots_[static_cast<std::size_t>(link.hello.ranks[i])] = votes.ballots[i];
  decide_when_complete();
}

/// A world that is doomed decides nothing any more. So a page that is doomed knows all decided rounds.
void HubCore::decide_when_complete() {
  if (doom_) return;
  std::size_t voters = 0;
  for (const auto& [id, link] : links_) voters += link.voted > decided_ ? link.hello.ranks.size() : 0;
  if (voters < owner_.size()) return;
  ++decided_;
  send_all(Decided{decided_, ballots_});
  for (auto& [id, link] : links_) link.waits = false;
  search_.reset();
}

void HubCore::handle(LinkId /*id*/, Link& /*link*/, const AbortRaised& raised) {
  // All ranks of that page had voted in a round that is decided by now, without this abort.
  if (raised.decided < decided_) return;
  require(raised.decided == decided_, "of a round that is not decided");
  abort(raised.epoch, raised.abort);
}

void HubCore::handle(LinkId /*id*/, Link& /*link*/, const DoomRaised& raised) { doom(raised.abort); }

void HubCore::handle(LinkId id, Link& link, const ProgressOf& progress) {
  require(owns(link, progress.rank), "of a rank of another host");
  for (const auto& [other, watcher] : links_) {
    if (!watcher.hello.watches || other == id) continue;
    ProgressOf theirs = progress;
    if (theirs.progress.case_started_ns != 0)
      theirs.progress.case_started_ns += link.clock_offset_ns - watcher.clock_offset_ns;
    send(other, theirs);
  }
}

void HubCore::handle(LinkId id, Link& link, const Ended& ended) {
  require(owns(link, ended.end.rank), "of a rank of another host");
  if (gone_.contains(ended.end.rank)) return;
  send_watchers(id, ended);
  rank_gone(ended.end.rank);
}

void HubCore::handle(LinkId id, Link& /*link*/, const FlightWanted& wanted) {
  for (const auto& [other, page] : links_) {
    if (other != id && !page.hello.ranks.empty()) send(other, wanted);
  }
}

// -- Deadlock ---------------------------------------------------------------------------------------------------------

void HubCore::handle(LinkId /*id*/, Link& link, const Waits& /*waits*/) {
  link.waits = true;
  if (search_) return;
  search_pause_ = settings_.probe_pause;
  next_search_ = now_;
  search_when_due();
}

bool HubCore::may_search() const {
  if (!started_ || doom_ || links_.empty()) return false;
  return std::ranges::all_of(links_, [&](const auto& entry) {
    const Link& link = entry.second;
    return link.waits || std::ranges::all_of(link.hello.ranks, [&](int rank) { return gone_.contains(rank); });
  });
}

void HubCore::search_when_due() {
  if (search_ || !may_search() || now_ < next_search_) return;
  search_.emplace().first.resize(owner_.size());
  begin_probe(false);
}

void HubCore::begin_probe(bool is_second) {
  search_->number = ++probes_;
  search_->is_second = is_second;
  search_->records.assign(owner_.size(), {});
  search_->unanswered.clear();
  for (const auto& [id, link] : links_) {
    if (link.hello.ranks.empty()) continue;
    search_->unanswered.insert(id);
    send(id, Probe{search_->number});
  }
}

void HubCore::end_search() {
  search_.reset();
  next_search_ = now_ + search_pause_;
  search_pause_ = std::min(2 * search_pause_, longest_probe_pause);
}

void HubCore::handle(LinkId id, Link& link, const Flight& flight) {
  require(owns(link, flight.rank), "of a rank of another host");
  if (flight.probe != 0) {
    if (search_ && search_->number == flight.probe)
      search_->records[static_cast<std::size_t>(flight.rank)] = flight.record;
    return;
  }
  for (const auto& [other, watcher] : links_) {
    if (!watcher.hello.watches || other == id) continue;
    Flight theirs = flight;
    for (protocol::FlightEntry& entry : theirs.record.entries) {
      if (entry.since_ns != 0) entry.since_ns += link.clock_offset_ns - watcher.clock_offset_ns;
    }
    send(other, std::move(theirs));
  }
}

void HubCore::handle(LinkId id, Link& link, const ProbeReply& reply) {
  if (!reply.all_wait) link.waits = false;
  if (!search_ || search_->number != reply.number) return;
  if (!reply.all_wait) return end_search();
  search_->unanswered.erase(id);
  if (search_->unanswered.empty()) judge();
}

void HubCore::judge() {
  const std::vector<protocol::FlightRecord>& records = search_->records;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    // The end of the world names a rank that died. The others do not wait in a circle.
    if (!has_left(records[rank]) && gone_.contains(static_cast<int>(rank))) return end_search();
  }
  const auto epoch = epoch_of_deadlock(records);
  if (!epoch) return end_search();
  if (!search_->is_second) {
    search_->first = records;
    return begin_probe(true);
  }
  if (!std::ranges::equal(search_->first, records, is_unchanged)) return end_search();
  const Abort deadlock = deadlock_of(records);
  end_search();
  abort(*epoch, deadlock);
}

}  // namespace shardproof::control::link
