// The search for a deadlock in the flight records of a world, against worlds whose ranks are moved by hand.
#include "harness/control/deadlock.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "harness/base/random.hpp"
#include "tests/rounds.hpp"

using namespace shardproof;
using What = protocol::FlightEntry::What;
using State = protocol::FlightEntry::State;

namespace {

/// A world in one case. Each rank makes calls in groups, one after the other, then meets all others at the end of the
/// case, and leaves. A meeting is over when all of its members have come, whatever a record says.
class MovedWorld {
 public:
  static constexpr std::uint32_t epoch = 3;

  explicit MovedWorld(std::uint64_t seed) : random_(seed), ranks_(2 + below(4)) {
    groups_.push_back({});
    for (int rank = 0; rank < size(); ++rank) groups_.front().push_back(rank);
    for (std::uint64_t more = below(3); more > 0; --more) {
      std::vector<int>& group = groups_.emplace_back();
      for (int rank = 0; rank < size(); ++rank) {
        if (below(3) > 0) group.push_back(rank);
      }
      if (group.size() < 2) groups_.pop_back();
    }
    // All ranks have the same calls in the same order. Then some are out of step.
    for (std::uint64_t call = 1 + below(5); call > 0; --call) {
      const std::size_t group = below(groups_.size());
      for (const int member : groups_[group]) at(member).calls.push_back(group);
    }
    for (std::uint64_t slip = below(3); slip > 0; --slip) {
      std::vector<std::size_t>& calls = at(static_cast<int>(below(ranks_.size()))).calls;
      if (calls.empty()) continue;
      const std::size_t place = below(calls.size());
      if (below(2) == 0) calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(place));
      else std::swap(calls[place], calls.front());
    }
    for (int rank = 0; rank < size(); ++rank) {
      for (std::size_t id = 0; id < groups_.size(); ++id) {
        if (std::ranges::binary_search(groups_[id], rank))
          at(rank).record.groups.push_back({.id = id + 1, .name = "g" + std::to_string(id), .members = groups_[id]});
      }
      enter(rank, {.what = What::case_begun});
    }
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  std::vector<protocol::FlightRecord> records() const {
    std::vector<protocol::FlightRecord> records;
    for (const Rank& rank : ranks_) records.push_back(rank.record);
    return records;
  }

  /// Moves one rank that can go on. Returns false if no rank can.
  bool step() {
    std::vector<int> movable;
    for (int rank = 0; rank < size(); ++rank) {
      if (can_go_on(rank)) movable.push_back(rank);
    }
    if (movable.empty()) return false;
    go_on(movable[below(movable.size())]);
    return true;
  }
  /// No rank can go on, and some are still in the world.
  bool is_stuck() const {
    if (std::ranges::all_of(ranks_, &Rank::has_left)) return false;
    for (int rank = 0; rank < size(); ++rank) {
      if (can_go_on(rank)) return false;
    }
    return true;
  }

  /// The members that have not come to what the rank waits in.
  std::vector<int> missing(int rank) const {
    const Rank& self = ranks_[static_cast<std::size_t>(rank)];
    std::vector<int> missing;
    for (int other = 0; other < size(); ++other) {
      const Rank& theirs = ranks_[static_cast<std::size_t>(other)];
      const bool has_come = self.is_at_end() ? theirs.is_at_end() || theirs.has_left
                                             : theirs.come[self.group()] >= self.come[self.group()];
      if ((self.is_at_end() || std::ranges::binary_search(groups_[self.group()], other)) && !has_come)
        missing.push_back(other);
    }
    return missing;
  }
  bool waits(int rank) const { return ranks_[static_cast<std::size_t>(rank)].waits; }
  bool is_in_call(int rank) const {
    const Rank& self = ranks_[static_cast<std::size_t>(rank)];
    return self.waits && !self.is_at_end();
  }

 private:
  struct Rank {
    std::vector<std::size_t> calls;
    std::size_t done = 0;
    std::array<std::uint64_t, 4> come{};  ///< calls of each group that it has begun
    bool waits = false, has_left = false;
    protocol::FlightRecord record;
    bool is_at_end() const { return waits && done == calls.size(); }
    std::size_t group() const { return calls[done]; }
  };

  std::uint64_t below(std::uint64_t limit) { return base::next_random(random_) % limit; }
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  void enter(int rank, const protocol::FlightEntry& entry) {
    at(rank).record.entries.push_back(entry);
    ++at(rank).record.begun;
  }

  bool can_go_on(int rank) const {
    return !ranks_[static_cast<std::size_t>(rank)].has_left && (!waits(rank) || missing(rank).empty());
  }

  void go_on(int rank) {
    Rank& self = at(rank);
    if (!self.waits) {
      self.waits = true;
      if (self.is_at_end()) {
        enter(rank, {.what = What::body_ended});
        enter(rank, {.what = What::agreement, .place = 7});
      } else {
        protocol::FlightEntry call{
            .what = What::call, .place = epoch, .group = self.group() + 1, .since_ns = 1, .meetings = 1};
        call.call.sequence = self.come[self.group()]++;
        enter(rank, call);
      }
      return;
    }
    self.record.entries.back().state = State::left;
    if (self.is_at_end()) {
      self.has_left = true;
      enter(rank, {.what = What::left});
    } else {
      ++self.done;
    }
    self.waits = false;
  }

  std::uint64_t random_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<int>> groups_;
};

/// Compares the records of a world with the world.
void check(const MovedWorld& world) {
  const auto records = world.records();
  const auto epoch = control::epoch_of_deadlock(records);
  CHECK(epoch.has_value() == world.is_stuck());
  if (epoch) CHECK(*epoch == MovedWorld::epoch);
  for (const protocol::PeerWait& wait : protocol::waits(records)) {
    CAPTURE(wait.rank);
    CHECK(world.waits(wait.rank));
    CHECK(wait.missing == world.missing(wait.rank));
  }
  if (!world.is_stuck()) return;
  const control::Abort abort = control::deadlock_of(records);
  CHECK(abort.reason == control::AbortReason::deadlock);
  CHECK(world.is_in_call(abort.culprit));
  for (int rank = 0; rank < abort.culprit; ++rank) CHECK_FALSE(world.is_in_call(rank));
}

/// Moves a world to its end, and looks at each moment. Returns whether it got stuck.
bool gets_stuck(std::uint64_t seed) {
  INFO("again with SHARDPROOF_DEADLOCK_SEED=" << seed);
  MovedWorld world(seed);
  check(world);
  while (world.step()) check(world);
  return world.is_stuck();
}

}  // namespace

TEST_CASE("the records of a world show a deadlock exactly when no rank can go on") {
  if (const char* const seed = std::getenv("SHARDPROOF_DEADLOCK_SEED")) {
    gets_stuck(std::strtoull(seed, nullptr, 10));
    return;
  }
  const std::uint64_t anywhere = std::random_device{}();
  int stuck = 0, well = 0;
  for (std::uint64_t seed = 1; seed <= testing::rounds<std::uint64_t>(1000); ++seed)
    ++(gets_stuck(seed) ? stuck : well);
  for (std::uint64_t seed = 1; seed <= testing::rounds<std::uint64_t>(200); ++seed) gets_stuck(anywhere + seed);
  // The worlds are no evidence without these.
  CHECK(stuck > 50);
  CHECK(well > 50);
}

TEST_CASE("a rank that waits in a group that its record has forgotten is in no known deadlock") {
  std::vector<protocol::FlightRecord> records(2);
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    records[rank].groups = {{.id = 1 + rank, .name = "pair", .members = {0, 1}}};
    records[rank].entries = {{.what = What::case_begun},
                             {.what = What::call, .place = 5, .group = 1 + rank, .since_ns = 1, .meetings = 1}};
  }
  CHECK(control::epoch_of_deadlock(records) == 5U);
  records[1].groups.clear();
  CHECK_FALSE(control::epoch_of_deadlock(records));
}
