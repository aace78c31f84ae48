#include "harness/world/seeded_scheduler.hpp"

#include <algorithm>
#include <utility>

#include "harness/base/random.hpp"

namespace shardproof::world {

namespace {

using Clock = std::chrono::steady_clock;

/// The longest patience. A deadline may be the end of time, and patience begins at a later time that is not yet known.
/// Their sum must not overflow.
constexpr std::chrono::hours longest_wait{24 * 365};

/// A condition that throws is over, too: its owner must receive the exception.
bool is_over(const control::Condition& done) {
  try {
    return done();
  } catch (...) {
    return true;
  }
}

}  // namespace

SeededScheduler::SeededScheduler(int ranks, std::uint64_t seed, TurnObserver& observer)
    : slots_(static_cast<std::size_t>(ranks)), random_(seed), observer_(observer) {
  pass_on();
}

void SeededScheduler::enter(int rank) {
  std::unique_lock lock(mutex_);
  sit_until_called(lock, rank);
}

void SeededScheduler::leave() {
  const std::lock_guard lock(mutex_);
  slot(*turn_).left = true;
  pass_on();
}

void SeededScheduler::begin(std::uint64_t number, std::string_view name, std::uint64_t seed) {
  std::unique_lock lock(mutex_);
  if (number <= begun_) return;
  begun_ = number;
  random_ = seed;
  observer_.began(name);
  // The rank that happens to be first has no privilege.
  const int mine = *turn_;
  pass_on();
  sit_until_called(lock, mine);
}

bool SeededScheduler::wait(control::Doorbell& bell, control::Deadline deadline, control::Condition done) {
  if (done()) return true;
  std::unique_lock lock(mutex_);
  const int mine = *turn_;  // only one rank runs, and it is the caller
  Slot& slot = this->slot(mine);
  slot.bell = &bell;
  slot.time_left = std::min<Clock::duration>(deadline - Clock::now(), longest_wait);
  bool late = false;
  do {
    slot.done = &done;
    pass_on();
    sit_until_called(lock, mine);
    slot.done = nullptr;
    late = std::exchange(slot.late, false);
    if (done()) return true;
  } while (!late);
  return false;
}

void SeededScheduler::pause() {
  std::unique_lock lock(mutex_);
  const int mine = *turn_;
  pass_on();
  sit_until_called(lock, mine);
}

/// The rank that has the turn calls this. The same rank may be drawn again.
void SeededScheduler::pass_on() {
  const std::vector<int> able = runnable();
  give(able.empty() ? wait_for_runnable() : able[base::next_random(random_) % able.size()]);
}

std::vector<int> SeededScheduler::runnable() const {
  std::vector<int> able;
  for (std::size_t rank = 0; rank < slots_.size(); ++rank) {
    const Slot& slot = slots_[rank];
    if (!slot.left && (slot.done == nullptr || is_over(*slot.done))) able.push_back(static_cast<int>(rank));
  }
  return able;
}

/// Called when no other rank's action can let a rank go on: only the launcher or time can. The rank with the shortest
/// patience then goes on, and is late. Returns nullopt if all ranks have left. The lock stays held: no thread could
/// want it.
std::optional<int> SeededScheduler::wait_for_runnable() {
  Slot* next = nullptr;
  for (Slot& slot : slots_) {
    if (!slot.left && (next == nullptr || slot.time_left < next->time_left)) next = &slot;
  }
  if (next == nullptr) return std::nullopt;
  const auto any_runnable = [this] { return !runnable().empty(); };
  give(std::nullopt);
  control::SpinBudget none(false);
  if (next->bell->wait(none, Clock::now() + next->time_left, any_runnable)) return runnable().front();
  next->late = true;
  return static_cast<int>(next - slots_.data());
}

void SeededScheduler::give(std::optional<int> rank) {
  turn_ = rank;
  observer_.given(rank);
  if (rank) slot(*rank).called.notify_one();
}

void SeededScheduler::sit_until_called(std::unique_lock<std::mutex>& lock, int rank) {
  slot(rank).called.wait(lock, [&] { return turn_ == rank; });
}

}  // namespace shardproof::world
