// The part of ForeignRanks that is about hosts: it finds which ranks are on which host, joins the hosts, and finds what
// was lost with a guard or a host.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/rank_list.hpp"
#include "harness/protocol/events.hpp"
#include "launcher/files/output.hpp"
#include "launcher/run/foreign_ranks.hpp"
#include "launcher/run/hub_exchange.hpp"
#include "reports/merge/rank_stream.hpp"

namespace shardproof::launcher {

using control::Deadline;

namespace {

using Clock = std::chrono::steady_clock;

/// The longest wait for the flight records of other hosts. They come within milliseconds, but a guard on a busy host
/// may get no processor for a while. Then old records would show a rank that goes on as one that is stuck.
constexpr std::chrono::seconds flight_limit{1};
/// The longest wait for the hub, which is in this process.
constexpr std::chrono::seconds release_limit{1};

}  // namespace

// -- The start --------------------------------------------------------------------------------------------------------

bool ForeignRanks::are_on_one_host() const {
  return std::ranges::all_of(ranks_, [this](const Rank& rank) { return rank.identity == ranks_.front().identity; });
}

/// Whether all ranks are on one host, which has the launcher's memory. The launcher may have another name for it: Slurm
/// names nodes only for its own processes.
bool ForeignRanks::are_on_this_host() const {
  const protocol::HostIdentity& first = ranks_.front().identity;
  return are_on_one_host() && first.boot == here_.boot && first.memory == here_.memory;
}

void ForeignRanks::spread() {
  for (int rank = 0; rank < plan_.size; ++rank) {
    const auto has_rank = [&](const Host& host) { return at(host.ranks.front()).identity == at(rank).identity; };
    auto host = std::ranges::find_if(hosts_, has_rank);
    if (host == hosts_.end()) host = hosts_.insert(host, {.name = at(rank).identity.name});
    host->ranks.push_back(rank);
    at(rank).host = static_cast<std::size_t>(host - hosts_.begin());
  }
  if (const std::string why = refusal_of_fabric(); !why.empty()) return give_up(why, alive(*this, plan_.size));
  try {
    make_directory(directory_.store());
    page_link_.emplace(page_, control::link::PageLink::Settings{
                                  .addresses = hub_->addresses(),
                                  .secret = key_,
                                  .hello = {.world_size = plan_.size, .host = here_.name, .watches = true}});
    poller_.add(page_link_->descriptor(), page_link_key);
  } catch (const std::exception& error) {
    return give_up(fmt::format("the launcher cannot reach its own hub: {}", error.what()), alive(*this, plan_.size));
  }
  for (const Host& host : hosts_)
    links_.at(at(host.ranks.front()).link)
        .link.send(GuardRequest{.what = GuardRequest::What::lead, .ranks = host.ranks, .text = plan_.unfit_for_timing});
}

/// Why the ranks of these hosts cannot reach each other. Empty: they can.
std::string ForeignRanks::refusal_of_fabric() const {
  if (hosts_.size() < 2 || plan_.fabric != protocol::shm_fabric) return {};
  std::string text;
  for (const Host& host : hosts_)
    text += fmt::format("{}{} {} on {}", text.empty() ? "" : ", ", base::rank_list(host.ranks),
                        host.ranks.size() == 1 ? "is" : "are", host.name);
  std::set<std::string> names;
  for (const Host& host : hosts_) names.insert(host.name);
  return fmt::format("{}{}; the fabric {} reaches one host; use --fabric {} or {}", text,
                     names.size() < hosts_.size() ? ", each with its own /dev/shm" : "", plan_.fabric,
                     protocol::tcp_fabric, protocol::mpi_fabric);
}

// -- While ranks run --------------------------------------------------------------------------------------------------

void ForeignRanks::advance_hub() {
  if (!hub_) return;
  hub_->handle_events();
  accept_guards();
  if (!page_link_) return;
  page_link_->handle_events();
  const bool all_ready = std::ranges::none_of(hosts_, [](const Host& host) { return host.rendezvous.empty(); });
  if (!has_started_ && unstarted_.ranks.empty() && alive_ > 0 && all_ready && page_link_->side().start()) start_ranks();
}

void ForeignRanks::take_lost_hosts() {
  if (!page_link_) return;
  const std::vector<control::link::HostLost>& lost = page_link_->side().lost_hosts();
  for (; seen_lost_hosts_ < lost.size(); ++seen_lost_hosts_) {
    const control::link::HostLost& one = lost[seen_lost_hosts_];
    if (!one.ranks.empty()) lose_host(hosts_[at(one.ranks.front()).host], one);
  }
  // Without the hub, no page hears of the others.
  if (!page_link_->lost()) return;
  for (Host& host : hosts_) {
    if (!host.lost) lose_host(host, {.host = host.name, .ranks = host.ranks, .why = *page_link_->lost()});
  }
}

void ForeignRanks::lose_host(Host& host, const control::link::HostLost& lost) {
  host.lost = lost;
  if (lost.is_silent)
    command_.end_at(Clock::now() + ForeignCommand::between_measures);  // The command cannot end its processes there.
  const std::string text =
      fmt::format("host {} with {} was lost: {}", host.name, base::rank_list(lost.ranks), lost.why);
  for (const int rank : host.ranks) {
    if (has_lost_guard(rank)) continue;
    // The guards of a host that lost only its lead guard can still end their ranks.
    if (lost.is_silent) drop(at(rank).link);
    else links_.at(at(rank).link).link.send(GuardRequest{.what = GuardRequest::What::release, .text = text});
  }
}

std::optional<std::vector<protocol::FlightRecord>> ForeignRanks::flight_records() {
  if (!is_spread() || !page_link_) return std::nullopt;
  // A page sends the records of a world that ends by itself, before its ranks leave their calls.
  if (!page_.doomed() && has_started_) {
    page_link_->send(page_link_->side().want_flights());
    const auto are_there = [this] { return !page_link_->side().awaits_flights() || page_.doomed(); };
    exchange_until(*hub_, *page_link_, are_there, Clock::now() + flight_limit);
  }
  return page_link_->side().flight_records();
}

std::optional<std::filesystem::path> ForeignRanks::store() const {
  return is_spread() ? std::optional(directory_.store()) : std::nullopt;
}

/// Only the hub releases ranks on several hosts. The page of this host has proposed it, and the hub may not know yet.
void ForeignRanks::release() {
  if (!page_link_ || !has_started_) return;
  exchange_until(*hub_, *page_link_, [this] { return page_.doomed().has_value(); }, Clock::now() + release_limit);
}

// -- What was lost ----------------------------------------------------------------------------------------------------

/// The end of a rank that is not on the page, because its guard or its host was lost.
std::optional<Ranks::Ended> ForeignRanks::find_lost(int rank, Deadline now) {
  const bool lost_guard = has_lost_guard(rank);
  // The kernel kills a rank together with its guard (world/lifeline.hpp).
  const auto killed = [rank](std::string reason) {
    return Ended{.rank = rank, .end = {.signalled = true, .code = SIGKILL}, .reason = std::move(reason)};
  };
  const auto killed_by_command = [&] {
    Ended end = killed(fmt::format("because the command of --launcher ended with {}", describe(*command_.end())));
    end.was_asked = true;
    return end;
  };
  if (!is_spread()) {
    if (!lost_guard) return std::nullopt;
    if (command_.end()) return killed_by_command();
    Ended end = killed("because its guard ended");
    end.was_asked = was_released(rank);  // mpirun ends all guards once one is lost
    return end;
  }
  const Host& host = hosts_[at(rank).host];
  if (host.lost && at(rank).reported_end) {
    take_progress_from_stream(rank);
    return ended(*at(rank).reported_end);
  }
  const bool is_silent = host.lost && host.lost->is_silent;
  if (!lost_guard && !is_silent) return std::nullopt;
  if (!is_silent && now < at(rank).guard_lost_at + settling) return std::nullopt;
  take_progress_from_stream(rank);
  if (!is_silent && is_lost_by_command(rank)) return killed_by_command();
  if (is_silent || is_lost_with_host(rank)) {
    Ended end = killed(fmt::format("because host {} with {} was lost{}", host.name, base::rank_list(host.lost->ranks),
                                   is_silent ? ": " + host.lost->why : ""));
    end.was_asked = was_released(rank);
    return end;
  }
  Ended end = killed(fmt::format("because its guard on {} ended", host.name));
  end.was_asked = at(rank).follows;
  return end;
}

/// Whether the doom of its world has released the rank from its case, or may have: its death is none of the next case.
bool ForeignRanks::was_released(int rank) const {
  const auto doom = page_.doomed();
  return doom && doom->culprit != rank && page_.progress(rank).position < 0;
}

/// Whether the end of the command explains the end of the rank's guard. mpirun ends with a code once a guard is lost.
bool ForeignRanks::is_lost_by_command(int rank) const {
  if (!command_.end()) return false;
  return command_.end()->signalled || (!is_lost_with_host(rank) && at(rank).guard_lost_at >= command_.ended_at());
}

/// The last progress of a rank may be lost with its host's connection.
void ForeignRanks::take_progress_from_stream(int rank) {
  const reports::RankStream stream = reports::read_rank_stream(directory_.rank_stream(rank));
  control::Progress progress = page_.progress(rank);
  const std::uint64_t begun = stream.cases.size();
  bool is_in_case = begun > 0 && !stream.cases.back().ended;
  if (begun < progress.cases_ended + (is_in_case ? 1 : 0)) return;  // the stream of this rank is damaged
  // The end of a guard's connection is seen before the kernel kills its rank. If that end has released the rank, the
  // rank dies in that case. If that guard leads its host, the whole host loses its connection. Then no rank is the
  // culprit.
  if (begun > 0 && !is_in_case) {
    const protocol::event::CaseEnded& last = *stream.cases.back().ended;
    const Host& host = hosts_[at(rank).host];
    const bool ends_host = host.lost && host.ranks.front() == rank && has_lost_guard(rank);
    is_in_case =
        last.outcome == protocol::Outcome::released && (last.culprit == rank || (ends_host && last.culprit < 0));
  }
  progress.cases_ended = begun - (is_in_case ? 1 : 0);
  progress.position = is_in_case ? static_cast<std::int64_t>(stream.cases.back().started.position) : -1;
  progress.left = stream.complete;
  page_.report(rank, progress);
}

/// Whether all guards of a host have ended at once, without a word about their ranks. Where the rank is the only one of
/// its host, that shows no more than the end of its guard.
bool ForeignRanks::is_lost_with_host(int rank) const {
  const Host& host = hosts_[at(rank).host];
  return host.lost && host.lost->ranks.size() > 1 && !has_guards(host) &&
         std::ranges::none_of(host.lost->ranks, [this](int other) { return at(other).reported_end.has_value(); });
}

bool ForeignRanks::has_guards(const Host& host, int except) const {
  return std::ranges::any_of(host.ranks, [&](int rank) { return rank != except && !has_lost_guard(rank); });
}

}  // namespace shardproof::launcher
