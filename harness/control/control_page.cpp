#include "harness/control/control_page.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "harness/base/file_descriptor.hpp"
#include "harness/base/rank_list.hpp"
#include "harness/base/shared_memory.hpp"
#include "harness/control/page_layout.hpp"
#include "harness/protocol/flight_record.hpp"

namespace shardproof {

namespace {

/// The abort and doom words. A single word decides which caller was first, and its parts are never torn.
struct Word {
  static constexpr int slot_bits = 12, reason_bits = 4, culprit_bits = 12;

  static std::uint64_t pack(std::uint32_t epoch, const Abort& abort, std::size_t slot) {
    std::uint64_t word = 1;
    word = word << 32 | epoch;
    word = word << culprit_bits |
           static_cast<std::uint64_t>(std::clamp(abort.culprit, -1, ControlPage::max_world_size - 1) + 1);
    word = word << reason_bits | static_cast<std::uint64_t>(abort.reason);
    return word << slot_bits | slot;
  }
  static bool stands(std::uint64_t word) { return word != 0; }
  static std::uint32_t epoch(std::uint64_t word) {
    return static_cast<std::uint32_t>(word >> (slot_bits + reason_bits + culprit_bits));
  }
  static int culprit(std::uint64_t word) {
    return static_cast<int>(word >> (slot_bits + reason_bits) & ((1U << culprit_bits) - 1)) - 1;
  }
  static AbortReason reason(std::uint64_t word) {
    return static_cast<AbortReason>(word >> slot_bits & ((1U << reason_bits) - 1));
  }
  static std::size_t slot(std::uint64_t word) { return word & ((1U << slot_bits) - 1); }
};
static_assert(ControlPage::max_world_size <= FlightRing::max_world_size);
static_assert(ControlPage::max_world_size + 2 <= (1 << Word::slot_bits) &&
              ControlPage::max_world_size < (1 << Word::culprit_bits));

FileDescriptor open_page(const std::filesystem::path& path, int flags) {
  FileDescriptor descriptor(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!descriptor)
    throw std::system_error(errno, std::generic_category(), fmt::format("control page {}: open", path.native()));
  return descriptor;
}

void* map(const FileDescriptor& descriptor, std::size_t bytes, std::string_view name) {
  return map_shared(descriptor.get(), bytes, fmt::format("control page {}", name));
}

void check_world_size(int world_size) {
  if (world_size < 1 || world_size > ControlPage::max_world_size) {
    throw std::invalid_argument(
        fmt::format("control page for {} ranks: a world has 1 to {}", world_size, ControlPage::max_world_size));
  }
}

/// Each rank sleeps on the doorbell itself.
class Sleeping final : public Waiting {
 public:
  explicit Sleeping(bool enough_cores) : patience_(enough_cores) {}
  bool wait(Doorbell& bell, Deadline deadline, Condition done) override { return bell.wait(patience_, deadline, done); }

 private:
  Patience patience_;
};

}  // namespace

std::string_view to_string(AbortReason reason) {
  switch (reason) {
    case AbortReason::failed: return "failed";
    case AbortReason::error: return "error";
    case AbortReason::skipped: return "skipped";
    case AbortReason::died: return "died";
    case AbortReason::deadline: return "deadline";
    case AbortReason::deadlock: return "deadlock";
    case AbortReason::disagreed: return "disagreed";
    case AbortReason::interrupted: return "interrupted";
  }
  return "unknown reason";
}

Released::Released(Abort abort)
    : std::runtime_error(fmt::format("released: {} {}{}{}",
                                     abort.culprit < 0 ? "the launcher:" : fmt::format("rank {}:", abort.culprit),
                                     to_string(abort.reason), abort.text.empty() ? "" : ": ", abort.text)),
      abort_(std::move(abort)) {}

// -- The mapping ------------------------------------------------------------------------------------------------------

struct ControlPage::Mapping {
  Mapping(void* address, int world_size)
      : layout(world_size),
        base(static_cast<std::byte*>(address)),
        waiting(std::make_shared<Sleeping>(static_cast<unsigned>(world_size) <=
                                           std::max(1U, std::thread::hardware_concurrency()))) {}
  ~Mapping() { ::munmap(base, layout.bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  template <class T> T* at(std::size_t offset) const { return std::launder(reinterpret_cast<T*>(base + offset)); }
  page::Header& header() const { return *at<page::Header>(0); }
  page::State& state() const { return *at<page::State>(layout.state); }
  page::Vote& vote(std::uint64_t round, std::size_t rank) const {
    return at<page::Vote>(layout.votes)[round % 2 * layout.ranks + rank];
  }
  // A stray write of a rank may have changed the slot number. The modulo keeps readers inside the page.
  page::AbortText& abort_text(std::size_t slot) const {
    return at<page::AbortText>(layout.abort_texts)[slot % layout.abort_slots];
  }
  page::AbortText& doom_text(std::size_t slot) const {
    return at<page::AbortText>(layout.doom_texts)[slot % layout.abort_slots];
  }

  page::RankArea& area(int rank) const {
    if (rank < 0 || static_cast<std::size_t>(rank) >= layout.ranks) {
      throw std::out_of_range(fmt::format("control page: rank {} in a world of {}", rank, layout.ranks));
    }
    return at<page::RankArea>(layout.areas)[rank];
  }

  /// Wakes all ranks, on every doorbell.
  void ring_all() const {
    state().agreement.ring();
    for (std::size_t rank = 0; rank < layout.ranks; ++rank) area(static_cast<int>(rank)).bell.ring();
  }

  void fill_header(std::string_view nonce) const {
    page::Header& page = header();
    page.version = page::version;
    page.world_size = static_cast<std::uint32_t>(layout.ranks);
    page.bytes = layout.bytes;
    page.nonce_length = nonce.size();
    std::copy(nonce.begin(), nonce.end(), page.nonce);
    page.magic.store(page::magic, std::memory_order_release);
  }

  page::Layout layout;
  std::byte* base;
  std::shared_ptr<Waiting> waiting;
};

ControlPage::ControlPage(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}
ControlPage::ControlPage(ControlPage&&) noexcept = default;
ControlPage& ControlPage::operator=(ControlPage&&) noexcept = default;
ControlPage::~ControlPage() = default;

ControlPage ControlPage::create(const std::filesystem::path& file, int world_size, std::string_view nonce) {
  check_world_size(world_size);
  if (nonce.size() > sizeof(page::Header::nonce)) {
    throw std::invalid_argument(fmt::format("control page {}: a nonce of {} bytes, {} fit", file.native(), nonce.size(),
                                            sizeof(page::Header::nonce)));
  }
  const page::Layout layout(world_size);
  const FileDescriptor page = open_page(file, O_RDWR | O_CREAT | O_EXCL);
  try {
    if (const int error = take_room(page.get(), layout.bytes); error != 0) {
      throw std::system_error(error, std::generic_category(),
                              fmt::format("control page {}: {} bytes for {} ranks (is the file system full?)",
                                          file.native(), layout.bytes, world_size));
    }
    auto mapping = std::make_unique<Mapping>(map(page, layout.bytes, file.native()), world_size);
    mapping->fill_header(nonce);
    return ControlPage(std::move(mapping));
  } catch (...) {
    ::unlink(file.c_str());
    throw;
  }
}

ControlPage ControlPage::open(const std::filesystem::path& file, std::string_view nonce) {
  const FileDescriptor page = open_page(file, O_RDWR);
  struct stat status{};
  if (::fstat(page.get(), &status) != 0) {
    throw std::system_error(errno, std::generic_category(), fmt::format("control page {}: stat", file.native()));
  }
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error(fmt::format("control page {}: {}", file.native(), why));
  };
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < sizeof(page::Header)) refuse(fmt::format("{} bytes are no control page", size));

  std::uint32_t world_size = 0;
  {
    struct Unmap {
      void operator()(page::Header* mapped) const { ::munmap(mapped, sizeof(page::Header)); }
    };
    const std::unique_ptr<page::Header, Unmap> header(
        static_cast<page::Header*>(map(page, sizeof(page::Header), file.native())));
    if (header->magic.load(std::memory_order_acquire) != page::magic)
      refuse("no control page, or its launcher has not finished it");
    if (header->version != page::version) {
      refuse(fmt::format("layout {} of another build, this one has {}; use launcher and worker of one version",
                         header->version, page::version));
    }
    const std::string_view theirs(header->nonce, std::min<std::size_t>(header->nonce_length, sizeof header->nonce));
    if (theirs != nonce) refuse(fmt::format("belongs to the world \"{}\", not to \"{}\"", theirs, nonce));
    world_size = header->world_size;
    if (world_size < 1 || world_size > max_world_size ||
        header->bytes != page::Layout(static_cast<int>(world_size)).bytes || header->bytes != size) {
      refuse(fmt::format("{} bytes for {} ranks are not this build's layout", size, world_size));
    }
  }
  const auto ranks = static_cast<int>(world_size);
  return ControlPage(std::make_unique<Mapping>(map(page, size, file.native()), ranks));
}

ControlPage ControlPage::anonymous(int world_size) {
  check_world_size(world_size);
  auto mapping =
      std::make_unique<Mapping>(map(FileDescriptor(), page::Layout(world_size).bytes, "of threads"), world_size);
  mapping->fill_header({});
  return ControlPage(std::move(mapping));
}

int ControlPage::world_size() const { return static_cast<int>(mapping_->layout.ranks); }

// -- Abort ------------------------------------------------------------------------------------------------------------

bool ControlPage::raise_abort(std::uint32_t epoch, const Abort& abort) {
  page::State& state = mapping_->state();
  std::uint64_t standing = state.abort.load();
  std::optional<std::size_t> slot;
  while (!Word::stands(standing) || Word::epoch(standing) < epoch) {
    while (!slot || (Word::stands(standing) && *slot == Word::slot(standing))) {
      slot = state.abort_tickets.fetch_add(1) % mapping_->layout.abort_slots;
      mapping_->abort_text(*slot).store(abort.text);
    }
    if (state.abort.compare_exchange_weak(standing, Word::pack(epoch, abort, *slot))) {
      mapping_->ring_all();
      return true;
    }
  }
  return false;
}

std::optional<Abort> ControlPage::aborted(std::uint32_t epoch) const {
  const std::uint64_t word = mapping_->state().abort.load();
  if (!Word::stands(word) || Word::epoch(word) != epoch) return std::nullopt;
  return Abort{Word::culprit(word), Word::reason(word), mapping_->abort_text(Word::slot(word)).load()};
}

bool ControlPage::doom(const Abort& abort) {
  page::State& state = mapping_->state();
  std::uint64_t standing = state.doom.load();
  if (Word::stands(standing)) return false;
  const std::size_t slot = state.doom_tickets.fetch_add(1) % mapping_->layout.abort_slots;
  mapping_->doom_text(slot).store(abort.text);
  if (!state.doom.compare_exchange_strong(standing, Word::pack(0, abort, slot))) return false;
  mapping_->ring_all();
  return true;
}

std::optional<Abort> ControlPage::doomed() const {
  const std::uint64_t word = mapping_->state().doom.load();
  if (!Word::stands(word)) return std::nullopt;
  return Abort{Word::culprit(word), Word::reason(word), mapping_->doom_text(Word::slot(word)).load()};
}

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
  if (!mapping_->waiting->wait(mapping_->area(rank).bell, deadline, look)) throw DeadlineExceeded(late());
}

void ControlPage::wait_by(std::shared_ptr<Waiting> waiting) { mapping_->waiting = std::move(waiting); }

void ControlPage::pause() const { mapping_->waiting->pause(); }

// -- Turns ------------------------------------------------------------------------------------------------------------

void ControlPage::give_turn(std::optional<int> rank) {
  mapping_->state().turn.store(rank ? static_cast<std::uint32_t>(*rank) + 1 : 0);
}

std::optional<int> ControlPage::turn() const {
  const std::uint32_t turn = mapping_->state().turn.load();
  // A stray write may have changed the word.
  return turn == 0 || turn > mapping_->layout.ranks ? std::nullopt : std::optional(static_cast<int>(turn) - 1);
}

// -- Agreement --------------------------------------------------------------------------------------------------------

std::vector<ControlPage::Ballot> ControlPage::agree(int rank, const Ballot& mine, Deadline deadline) {
  page::State& state = mapping_->state();
  page::RankArea& area = mapping_->area(rank);
  const std::uint64_t ranks = mapping_->layout.ranks;
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
  area.flight.enter(FlightEntry::What::agreement, round, std::chrono::steady_clock::now());
  area.rounds.store(round, std::memory_order_release);

  // The last rank to vote wakes all others, once. So no rank wakes in vain, however many ranks there are.
  if (state.votes.fetch_add(1) + 1 == round * ranks) {
    state.waiting.store(0);  // all have left their calls; a count that an aborted call left has no meaning any more
    state.decided.store(round);
    state.agreement.ring();
  } else {
    find_deadlock();
    // Only the end of the world ends the wait early.
    const auto decided = [&] {
      return is_complete(*this, [&] { return state.decided.load() >= round; }, std::nullopt);
    };
    if (!mapping_->waiting->wait(state.agreement, deadline, decided)) {
      std::string missing;
      for (int other = 0; other < world_size(); ++other) {
        if (mapping_->area(other).rounds.load() >= round) continue;
        const auto call = last_call(other);
        fmt::format_to(std::back_inserter(missing), "{} rank {} ({})", missing.empty() ? "" : ",", other,
                       call.empty() ? "no call yet" : "last call: " + call);
      }
      throw DeadlineExceeded(fmt::format("rank {}: agreement #{} of the world: missing{}", rank, round,
                                         missing.empty() ? " nobody any more" : missing));
    }
  }

  area.flight.end(FlightEntry::State::left);

  std::vector<Ballot> ballots(ranks);
  for (std::size_t other = 0; other < ranks; ++other) {
    const page::Vote& cast = mapping_->vote(round, other);
    ballots[other].value = cast.value.load(std::memory_order_relaxed);
    if (cast.has_text.load(std::memory_order_relaxed))
      ballots[other].text = mapping_->area(static_cast<int>(other)).ballot_texts[round % 2].load();
  }
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

/// Every rank calls it after it began to wait, so the last one to do so sees all others. Each rank counts once. A rank
/// that waits in a call counts from the publication of its part until the call is complete. A rank that has voted
/// counts as a voter. A rank may be counted late, and never early.
void ControlPage::find_deadlock() {
  const page::State& state = mapping_->state();
  const auto ranks = static_cast<std::int64_t>(mapping_->layout.ranks);
  if (state.waiting.load() <= 0) return;
  // Read the epoch before the counts. If the counts are of a later case, then this case is over, and an abort of it
  // does no harm. A rank that has voted may stop anywhere here while the others go on.
  const std::uint32_t epoch = state.waiting_epoch.load();
  const std::uint64_t votes = state.votes.load();
  const auto voted = static_cast<std::int64_t>(votes) - static_cast<std::int64_t>(state.decided.load()) * ranks;
  if (voted + state.waiting.load() != ranks || state.votes.load() != votes) return;

  const std::vector<FlightRecord> records = flight_records();
  std::string where;
  int culprit = -1;
  for (const PeerWait& wait : waits(records)) {
    const bool in_agreement = wait.entry->what == FlightEntry::What::agreement;
    if (!in_agreement && culprit < 0) culprit = wait.rank;
    fmt::format_to(std::back_inserter(where), "{} rank {} in {}", where.empty() ? "" : ",", wait.rank,
                   in_agreement ? "the agreement between cases"
                                : describe(*wait.entry, records[static_cast<std::size_t>(wait.rank)]));
    if (!in_agreement && !wait.missing.empty())
      fmt::format_to(std::back_inserter(where), " for {}", rank_list(wait.missing));
  }
  raise_abort(epoch, {culprit, AbortReason::deadlock, "every rank waits and none can go on:" + where});
}

// -- Progress ---------------------------------------------------------------------------------------------------------

void ControlPage::report(int rank, const Progress& progress) {
  mapping_->area(rank).progress.publish({progress.pid, progress.cases_ended, progress.cases_failed, progress.position,
                                         progress.case_started_ns, progress.left ? 1U : 0U});
}

Progress ControlPage::progress(int rank) const {
  page::ProgressRecord record{};
  if (!mapping_->area(rank).progress.read(record)) return {};
  return {record.pid,      record.cases_ended,     record.cases_failed,
          record.position, record.case_started_ns, record.left != 0};
}

// -- Flight record ----------------------------------------------------------------------------------------------------

FlightRing& ControlPage::flight(int rank) const { return mapping_->area(rank).flight; }

std::vector<FlightRecord> ControlPage::flight_records() const {
  std::vector<FlightRecord> records;
  for (int rank = 0; rank < world_size(); ++rank) records.push_back(flight(rank).read());
  return records;
}

std::string ControlPage::last_call(int rank) const {
  const FlightRecord record = flight(rank).read();
  const FlightEntry* const call = record.last_call();
  return call == nullptr ? std::string() : describe(*call, record);
}

}  // namespace shardproof
