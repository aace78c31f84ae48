#include "harness/control/control_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "harness/control/deadlock.hpp"
#include "harness/control/page_mapping.hpp"
#include "harness/protocol/flight_record.hpp"

namespace shardproof::control {

namespace {

constexpr std::uint32_t world_epoch = 0;  // a world has one doom

/// Each rank sleeps on the doorbell itself.
class Sleeping final : public Waiting {
 public:
  explicit Sleeping(bool enough_cores) : budget_(enough_cores) {}
  bool wait(Doorbell& bell, Deadline deadline, Condition done) override { return bell.wait(budget_, deadline, done); }

 private:
  SpinBudget budget_;
};

}  // namespace

ControlPage::ControlPage(std::unique_ptr<PageMapping> mapping)
    : mapping_(std::move(mapping)),
      waiting_(std::make_shared<Sleeping>(mapping_->ranks() <= std::max(1U, std::thread::hardware_concurrency()))) {}

ControlPage ControlPage::create(const std::filesystem::path& file, int world_size, std::string_view nonce) {
  return ControlPage(PageMapping::create(file, world_size, nonce));
}

ControlPage ControlPage::open(const std::filesystem::path& file, std::string_view nonce) {
  return ControlPage(PageMapping::open(file, nonce));
}

ControlPage ControlPage::anonymous(int world_size) { return ControlPage(PageMapping::anonymous(world_size)); }

ControlPage::ControlPage(ControlPage&&) noexcept = default;
ControlPage& ControlPage::operator=(ControlPage&&) noexcept = default;
ControlPage::~ControlPage() = default;

int ControlPage::world_size() const { return static_cast<int>(mapping_->ranks()); }

// -- Abort ------------------------------------------------------------------------------------------------------------

bool ControlPage::raise_abort(std::uint32_t epoch, const Abort& abort) {
  const bool is_first = mapping_->abort().raise(epoch, abort);
  if (is_first) {
    mapping_->ring_all();
    watcher().ring();
  }
  return is_first;
}

std::optional<Abort> ControlPage::aborted(std::uint32_t epoch) const { return mapping_->abort().of(epoch); }

bool ControlPage::doom(const Abort& abort) {
  if (has_hub()) {
    const bool is_first = !doomed() && mapping_->proposed_doom().raise(world_epoch, abort);
    if (is_first) watcher().ring();
    return is_first;
  }
  const bool is_first = mapping_->doom().raise(world_epoch, abort);
  if (is_first) {
    mapping_->ring_all();
    watcher().ring();
  }
  return is_first;
}

std::optional<Abort> ControlPage::doomed() const { return mapping_->doom().of(world_epoch); }

// -- Doorbells --------------------------------------------------------------------------------------------------------

void ControlPage::ring(int rank) const { mapping_->area(rank).bell.ring(); }

void ControlPage::check(std::optional<std::uint32_t> epoch) const {
  if (auto doom = doomed()) throw Released(std::move(*doom));
  if (!epoch) return;
  if (auto abort = aborted(*epoch)) {
    if (abort->reason == AbortReason::deadlock) throw Deadlock(abort->text);
    throw Released(std::move(*abort));
  }
}

namespace {

/// Checks for completion and for an abort. A call that all ranks have made is complete, even if one of them fails right
/// after. That failure may come between the two looks, so after an abort the function looks again.
template <class Ready>
bool is_complete(const ControlPage& page, const Ready& ready, std::optional<std::uint32_t> epoch) {
  if (ready()) return true;
  try {
    page.check(epoch);
  } catch (...) {
    if (ready()) return true;
    throw;
  }
  return false;
}

}  // namespace

void ControlPage::await(int rank, const std::function<bool()>& ready, std::optional<std::uint32_t> epoch,
                        Deadline deadline, const std::function<std::string()>& late) const {
  const auto look = [&] { return is_complete(*this, ready, epoch); };
  if (!waiting_->wait(mapping_->area(rank).bell, deadline, look)) throw DeadlineExceeded(late());
}

void ControlPage::wait_by(std::shared_ptr<Waiting> waiting) { waiting_ = std::move(waiting); }

void ControlPage::pause() const { waiting_->pause(); }

// -- Turns ------------------------------------------------------------------------------------------------------------

void ControlPage::give_turn(std::optional<int> rank) {
  mapping_->state().turn.store(rank ? static_cast<std::uint32_t>(*rank) + 1 : 0);
}

std::optional<int> ControlPage::turn() const {
  const std::uint32_t turn = mapping_->state().turn.load();
  // A stray write may have changed the word.
  return turn == 0 || turn > mapping_->ranks() ? std::nullopt : std::optional(static_cast<int>(turn) - 1);
}

// -- Agreement --------------------------------------------------------------------------------------------------------

std::vector<Ballot> ControlPage::agree(int rank, const Ballot& mine, Deadline deadline) {
  page::State& state = mapping_->state();
  page::RankArea& area = mapping_->area(rank);
  const std::uint64_t ranks = mapping_->ranks();
  pause();
  check(std::nullopt);

  // Two ballots per rank suffice. A rank that writes its ballot of round n has seen all ranks arrive in round n - 1. No
  // rank arrived there before it had read the ballots of round n - 2.
  const std::uint64_t round = area.rounds.load(std::memory_order_relaxed) + 1;
  page::Vote& vote = mapping_->vote(round, static_cast<std::size_t>(rank));
  vote.value.store(mine.value, std::memory_order_relaxed);
  vote.has_text.store(!mine.text.empty(), std::memory_order_relaxed);
  if (!mine.text.empty()) area.ballot_texts[round % 2].store(mine.text);
  // Before others can see the vote.
  area.flight.enter(protocol::FlightEntry::What::agreement, round, std::chrono::steady_clock::now());
  area.rounds.store(round, std::memory_order_release);

  // The last rank to vote wakes all others, once. So no rank wakes without need, however many ranks there are. The last
  // rank of this host wakes the link where other ranks are on other hosts.
  const std::uint64_t votes = state.votes.fetch_add(1) + 1;
  const std::uint64_t linked = state.linked_ranks.load(std::memory_order_relaxed);
  if (linked == 0 && votes == round * ranks) {
    state.waiting.store(0);  // all have left their calls; a count that an aborted call left has no meaning any more
    state.decided.store(round);
    state.agreement.ring();
  } else {
    if (linked != 0 && votes == (round - 1) * ranks + linked - 1) state.watcher.ring();
    find_deadlock();
    // Only the end of the world ends the wait early.
    const auto decided = [&] {
      return is_complete(*this, [&] { return state.decided.load() >= round; }, std::nullopt);
    };
    if (!waiting_->wait(state.agreement, deadline, decided)) {
      std::string missing;
      for (int other = 0; other < world_size(); ++other) {
        const page::RankArea& theirs = mapping_->area(other);
        if (theirs.rounds.load() >= round) continue;
        const auto call = last_call(other);
        fmt::format_to(std::back_inserter(missing), "{} rank {} ({})", missing.empty() ? "" : ",", other,
                       theirs.is_remote.load() != 0 ? "perhaps, on another host"
                       : call.empty()               ? "no call yet"
                                                    : "last call: " + call);
      }
      throw DeadlineExceeded(fmt::format("rank {}: agreement #{} of the world: missing{}", rank, round,
                                         missing.empty() ? " no rank any more" : missing));
    }
  }

  area.flight.end(protocol::FlightEntry::State::left);

  std::vector<Ballot> ballots(ranks);
  for (std::size_t other = 0; other < ranks; ++other) ballots[other] = ballot(static_cast<int>(other), round);
  return ballots;
}

// -- Deadlock ---------------------------------------------------------------------------------------------------------

void ControlPage::enter_wait(std::uint32_t epoch) {
  page::State& state = mapping_->state();
  state.waiting_epoch.store(epoch);
  state.waiting.fetch_add(1);
  find_deadlock();
}

void ControlPage::leave_waits(int ranks) { mapping_->state().waiting.fetch_sub(ranks); }

void ControlPage::enter_message_wait() { mapping_->state().message_waiting.fetch_add(1); }

void ControlPage::leave_message_wait() { mapping_->state().message_waiting.fetch_sub(1); }

void ControlPage::search_deadlock() {
  if (has_hub() || voted(mapping_->state().votes.load()) + waiting_ranks() < world_size()) return;
  const std::vector<protocol::FlightRecord> first = flight_records();
  const auto epoch = epoch_of_deadlock(first);
  if (!epoch) return;
  const std::vector<protocol::FlightRecord> second = flight_records();
  if (std::ranges::equal(first, second, is_unchanged)) raise_abort(*epoch, deadlock_of(second));
}

std::int64_t ControlPage::voted(std::uint64_t votes) const {
  return static_cast<std::int64_t>(votes) -
         static_cast<std::int64_t>(mapping_->state().decided.load()) * static_cast<std::int64_t>(mapping_->ranks());
}

/// Every rank calls it after it began to wait, so the last one to do so sees all others. Each rank counts once. A rank
/// that waits in a call counts from the publication of its part until the call is complete. A rank that has voted
/// counts as a voter. A rank may be counted late, and never early.
void ControlPage::find_deadlock() {
  const page::State& state = mapping_->state();
  const auto ranks = static_cast<std::int64_t>(mapping_->ranks());
  if (state.waiting.load() <= 0 || has_hub()) return;
  // Read the epoch before the counts. If the counts are of a later case, then this case is over, and an abort of it
  // does no harm. A rank that has voted may stop anywhere here while the others go on.
  const std::uint32_t epoch = state.waiting_epoch.load();
  const std::uint64_t votes = state.votes.load();
  if (voted(votes) + state.waiting.load() != ranks || state.votes.load() != votes) return;

  raise_abort(epoch, deadlock_of(flight_records()));
}

// -- Progress ---------------------------------------------------------------------------------------------------------

void ControlPage::report(int rank, const Progress& progress) {
  mapping_->area(rank).progress.publish({progress.pid, progress.cases_ended, progress.cases_failed, progress.position,
                                         progress.case_started_ns, progress.left ? 1U : 0U});
  if (progress.left) watcher().ring();
}

Progress ControlPage::progress(int rank) const {
  page::ProgressRecord record{};
  if (!mapping_->area(rank).progress.read(record)) return {};
  return {record.pid,      record.cases_ended,     record.cases_failed,
          record.position, record.case_started_ns, record.left != 0};
}

// -- Flight record ----------------------------------------------------------------------------------------------------

FlightRing& ControlPage::flight(int rank) const { return mapping_->area(rank).flight; }

std::vector<protocol::FlightRecord> ControlPage::flight_records() const {
  std::vector<protocol::FlightRecord> records;
  for (int rank = 0; rank < world_size(); ++rank) records.push_back(flight(rank).read());
  return records;
}

std::string ControlPage::last_call(int rank) const {
  const protocol::FlightRecord record = flight(rank).read();
  const protocol::FlightEntry* const call = record.last_call();
  return call == nullptr ? std::string() : protocol::describe(*call, record);
}

// -- Ends -------------------------------------------------------------------------------------------------------------

void ControlPage::end_rank(const protocol::RankEnd& end) {
  page::RankArea& area = mapping_->area(end.rank);
  area.last_words.store(end.last_words);
  area.end.publish({.signalled = end.signalled ? 1U : 0U,
                    .code = end.code,
                    .asked_by = static_cast<std::uint64_t>(end.asked_by),
                    .asked_signal = end.asked_signal,
                    .lacked_memory = end.lacked_memory ? 1U : 0U,
                    .stream_bytes = end.stream_bytes,
                    .standard_output_bytes = end.standard_output_bytes,
                    .standard_error_bytes = end.standard_error_bytes});
  watcher().ring();
}

std::optional<protocol::RankEnd> ControlPage::rank_end(int rank) const {
  const page::RankArea& area = mapping_->area(rank);
  page::EndRecord record{};
  if (!area.end.read(record)) return std::nullopt;
  return protocol::RankEnd{.rank = rank,
                           .signalled = record.signalled != 0,
                           .code = static_cast<int>(record.code),
                           .asked_by = static_cast<protocol::RankEnd::AskedBy>(record.asked_by),
                           .asked_signal = static_cast<int>(record.asked_signal),
                           .lacked_memory = record.lacked_memory != 0,
                           .stream_bytes = record.stream_bytes,
                           .standard_output_bytes = record.standard_output_bytes,
                           .standard_error_bytes = record.standard_error_bytes,
                           .last_words = area.last_words.load()};
}

// -- Several hosts ----------------------------------------------------------------------------------------------------

void ControlPage::set_local(std::span<const int> ranks) {
  for (int rank = 0; rank < world_size(); ++rank) {
    const bool is_remote = std::ranges::find(ranks, rank) == ranks.end();
    mapping_->area(rank).is_remote.store(is_remote ? 1 : 0);
  }
  mapping_->state().linked_ranks.store(ranks.size() + 1);
}

bool ControlPage::is_remote(int rank) const { return mapping_->area(rank).is_remote.load() != 0; }

bool ControlPage::has_hub() const { return mapping_->state().linked_ranks.load(std::memory_order_relaxed) != 0; }

std::uint64_t ControlPage::decided() const { return mapping_->state().decided.load(); }

std::optional<Ballot> ControlPage::vote(int rank, std::uint64_t round) const {
  const page::RankArea& area = mapping_->area(rank);
  if (area.rounds.load(std::memory_order_acquire) < round) return std::nullopt;
  return ballot(rank, round);
}

Ballot ControlPage::ballot(int rank, std::uint64_t round) const {
  const page::Vote& cast = mapping_->vote(round, static_cast<std::size_t>(rank));
  Ballot ballot{.value = cast.value.load(std::memory_order_relaxed), .text = {}};
  if (cast.has_text.load(std::memory_order_relaxed)) ballot.text = mapping_->area(rank).ballot_texts[round % 2].load();
  return ballot;
}

void ControlPage::settle_round(std::uint64_t round, std::span<const Ballot> ballots) {
  page::State& state = mapping_->state();
  for (int rank = 0; rank < world_size(); ++rank) {
    page::RankArea& area = mapping_->area(rank);
    if (area.is_remote.load() == 0) continue;
    const Ballot& cast = ballots[static_cast<std::size_t>(rank)];
    page::Vote& vote = mapping_->vote(round, static_cast<std::size_t>(rank));
    vote.value.store(cast.value, std::memory_order_relaxed);
    vote.has_text.store(!cast.text.empty(), std::memory_order_relaxed);
    if (!cast.text.empty()) area.ballot_texts[round % 2].store(cast.text);
    area.rounds.store(round, std::memory_order_release);
  }
  state.votes.store(round * mapping_->ranks());
  state.waiting.store(0);
  state.decided.store(round);
  state.agreement.ring();
}

std::optional<std::uint32_t> ControlPage::aborted_epoch() const { return mapping_->abort().epoch(); }

void ControlPage::impose_abort(std::uint32_t epoch, const Abort& abort) {
  mapping_->abort().replace(epoch, abort);
  mapping_->ring_all();
  watcher().ring();
}

std::optional<Abort> ControlPage::proposed_doom() const { return mapping_->proposed_doom().of(world_epoch); }

void ControlPage::impose_doom(const Abort& abort) {
  if (!mapping_->doom().raise(world_epoch, abort)) return;
  mapping_->ring_all();
  watcher().ring();
}

std::int64_t ControlPage::waiting_ranks() const {
  return mapping_->state().waiting.load() + mapping_->state().message_waiting.load();
}

Doorbell& ControlPage::watcher() const { return mapping_->state().watcher; }

}  // namespace shardproof::control
