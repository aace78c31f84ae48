#include "harness/control/link/page_side.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/control/flight_ring.hpp"

namespace shardproof::control::link {

namespace {

/// Between two looks at which ranks wait. A page whose ranks are all still in the same waits reports that to the hub.
/// So short waits cost nothing.
constexpr std::chrono::milliseconds between_looks{50};

bool is_same(const Progress& a, const Progress& b) {
  return a.pid == b.pid && a.cases_ended == b.cases_ended && a.cases_failed == b.cases_failed &&
         a.position == b.position && a.case_started_ns == b.case_started_ns && a.left == b.left;
}

}  // namespace

PageSide::PageSide(ControlPage& page, Hello hello)
    : page_(page), hello_(std::move(hello)), flights_(static_cast<std::size_t>(page.world_size())) {
  for (const int rank : hello_.ranks) locals_[rank];
  page_.set_local(hello_.ranks);
}

// -- From the page ----------------------------------------------------------------------------------------------------

std::vector<Message> PageSide::news(Deadline now) {
  // Read the votes first. A rank reports its progress and raises its abort before it votes. So what is read after the
  // votes has all of that, and it is sent before the votes.
  std::optional<Votes> cast = votes();
  const std::uint64_t decided = page_.decided();
  for (auto& [rank, local] : locals_) {
    const std::optional<protocol::RankEnd> end = local.has_ended ? std::nullopt : page_.rank_end(rank);
    if (const Progress progress = page_.progress(rank); !is_same(progress, local.reported)) {
      local.reported = progress;
      out_.push_back(ProgressOf{rank, progress});
    }
    if (!end) continue;
    local.has_ended = true;
    out_.push_back(Flight{.probe = 0, .rank = rank, .record = page_.flight(rank).read()});
    out_.push_back(Ended{*end});
  }
  if (const auto epoch = page_.aborted_epoch(); epoch && epoch != aborted_) {
    if (const auto abort = page_.aborted(*epoch)) {
      aborted_ = epoch;
      out_.push_back(AbortRaised{.decided = decided, .epoch = *epoch, .abort = *abort});
    }
  }
  if (!has_proposed_doom_) {
    if (const auto doom = page_.proposed_doom()) {
      has_proposed_doom_ = true;
      out_.push_back(DoomRaised{*doom});
    }
  }
  if (cast) {
    voted_ = cast->round;
    out_.push_back(std::move(*cast));
  }
  look_for_waits(now);
  return std::exchange(out_, {});
}

std::optional<Votes> PageSide::votes() const {
  Votes cast{.round = page_.decided() + 1, .ballots = {}};
  if (!start_ || hello_.ranks.empty() || cast.round == voted_) return std::nullopt;
  for (const int rank : hello_.ranks) {
    auto ballot = page_.vote(rank, cast.round);
    if (!ballot) return std::nullopt;
    cast.ballots.push_back(std::move(*ballot));
  }
  return cast;
}

std::optional<Deadline> PageSide::deadline() const {
  const auto is_over = [](const auto& entry) { return entry.second.has_ended || entry.second.reported.left; };
  if (!start_ || page_.doomed() || std::ranges::all_of(locals_, is_over)) return std::nullopt;
  return next_look_;
}

bool PageSide::all_wait() const {
  const std::uint64_t round = page_.decided() + 1;
  std::int64_t living = 0, voted = 0;
  for (const auto& [rank, local] : locals_) {
    if (page_.progress(rank).left) continue;
    if (local.has_ended) return false;
    ++living;
    if (page_.vote(rank, round)) ++voted;
  }
  return living > 0 && voted + page_.waiting_ranks() >= living;
}

std::uint64_t PageSide::steps() const {
  std::uint64_t steps = 0;
  for (const auto& [rank, local] : locals_) {
    const protocol::FlightRecord record = page_.flight(rank).read();
    steps += record.begun << 16U;
    if (!record.entries.empty()) steps += record.entries.back().meetings;
  }
  return steps;
}

void PageSide::look_for_waits(Deadline now) {
  if (now < next_look_ || !deadline()) return;
  next_look_ = now + between_looks;
  if (!all_wait()) {
    waiting_at_.reset();
    return;
  }
  const std::uint64_t before = steps();
  if (waiting_at_ == before && waits_sent_ != before) {
    waits_sent_ = before;
    out_.push_back(Waits{});
  }
  waiting_at_ = before;
}

void PageSide::send_flights(std::uint64_t probe) {
  for (const int rank : hello_.ranks)
    out_.push_back(Flight{.probe = probe, .rank = rank, .record = page_.flight(rank).read()});
}

// -- From the hub -----------------------------------------------------------------------------------------------------

std::vector<Message> PageSide::apply(Message message, Deadline now) {
  now_ = now;
  std::visit([&](auto& one) { handle(one); }, message);
  return std::exchange(out_, {});
}

template <class Other>
void PageSide::handle(const Other& other) {
  throw BadMessage(fmt::format("a hub does not send {} to a page that has joined", name_of(Message(other))));
}

void PageSide::handle(Start& start) { start_ = std::move(start); }

void PageSide::handle(const Ping& ping) {
  out_.push_back(Pong{.number = ping.number, .now_ns = std::chrono::nanoseconds(now_.time_since_epoch()).count()});
}

void PageSide::handle(const Decided& decided) {
  if (decided.ballots.size() != flights_.size()) {
    throw BadMessage(fmt::format("{} ballots of a world of {} ranks", decided.ballots.size(), flights_.size()));
  }
  if (decided.round <= page_.decided() || (!hello_.ranks.empty() && decided.round != voted_))
    throw BadMessage(fmt::format("round {} is decided, and this page has not voted in it", decided.round));
  page_.settle_round(decided.round, decided.ballots);
}

void PageSide::handle(const Aborted& aborted) {
  aborted_ = aborted.epoch;
  page_.impose_abort(aborted.epoch, aborted.abort);
}

void PageSide::handle(const Doomed& doomed) {
  send_flights(0);  // before the ranks leave their calls
  page_.impose_doom(doomed.abort);
}

bool PageSide::is_remote(int rank) const { return rank < page_.world_size() && page_.is_remote(rank); }

void PageSide::handle(const ProgressOf& progress) {
  if (is_remote(progress.rank)) page_.report(progress.rank, progress.progress);
}

void PageSide::handle(const Ended& ended) {
  if (!is_remote(ended.end.rank)) return;
  awaited_flights_.erase(ended.end.rank);
  page_.end_rank(ended.end);
}

void PageSide::handle(const AllEnded& /*all*/) { all_ended_ = true; }

void PageSide::handle(HostLost& host) {
  for (const int rank : host.ranks) awaited_flights_.erase(rank);
  lost_hosts_.push_back(std::move(host));
  page_.watcher().ring();
}

void PageSide::handle(const Probe& probe) {
  const bool wait = all_wait();
  if (wait) {
    send_flights(probe.number);
  } else {
    waiting_at_.reset();
    waits_sent_.reset();
  }
  out_.push_back(ProbeReply{.number = probe.number, .all_wait = wait});
}

void PageSide::handle(const FlightWanted& /*wanted*/) { send_flights(0); }

void PageSide::handle(Flight& flight) {
  if (!is_remote(flight.rank)) return;
  flights_[static_cast<std::size_t>(flight.rank)] = std::move(flight.record);
  awaited_flights_.erase(flight.rank);
}

void PageSide::handle(Bye& bye) { goodbye_ = std::move(bye); }

void PageSide::hub_lost(const std::string& why) {
  if (page_.doomed()) return;
  page_.impose_doom(page_.proposed_doom().value_or(Abort{.culprit = -1, .reason = AbortReason::died, .text = why}));
}

FlightWanted PageSide::want_flights() {
  awaited_flights_.clear();
  for (int rank = 0; rank < page_.world_size(); ++rank) {
    if (page_.is_remote(rank) && !page_.rank_end(rank)) awaited_flights_.insert(rank);
  }
  for (const HostLost& host : lost_hosts_) {
    for (const int rank : host.ranks) awaited_flights_.erase(rank);
  }
  return {};
}

std::vector<protocol::FlightRecord> PageSide::flight_records() const {
  std::vector<protocol::FlightRecord> records = flights_;
  for (const int rank : hello_.ranks) records[static_cast<std::size_t>(rank)] = page_.flight(rank).read();
  return records;
}

}  // namespace shardproof::control::link
