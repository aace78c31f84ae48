// FlightRing is a rank's flight record in the control page. It keeps the rank's last actions, its current case and the
// groups that it belongs to. The rank is the only writer, and a write costs no system call. Any process that maps the
// page can read the ring at any time, also long after the rank was killed between two stores. A reader leaves out an
// entry that was being written then.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "harness/base/page_words.hpp"
#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/protocol/collective.hpp"
#include "harness/protocol/flight_record.hpp"

namespace shardproof::control {

class FlightRing {
 public:
  static constexpr std::size_t entries_kept = 32, groups_kept = 16;
  static constexpr std::size_t max_world_size = 1024;

  // -- Writing: the rank itself, from one thread ----------------------------------------------------------------------

  /// Records that the rank belongs to this group from now on. `id` is the same on all members and differs from the id
  /// of any other group of the world. The first group, the world, stays forever. The ring keeps the last ones of the
  /// other groups. Returns the group's place, which another group may take later. Before it enters a call, a rank asks
  /// `knows_group` and joins again if another group has taken the place.
  std::size_t join_group(std::uint64_t id, std::string_view name, std::span<const int> members);
  bool knows_group(std::size_t place, std::uint64_t id) const {
    return groups_[place].id.load(std::memory_order_relaxed) == id;
  }

  /// Begins an entry. FlightEntry explains `what` and `place`.
  void enter_call(std::uint64_t group, std::uint32_t epoch, const Descriptor& call);
  void enter(protocol::FlightEntry::What what, std::uint64_t place, Deadline now);

  // These three functions change the entry that was begun last.
  /// Call it before others can see that the rank has come.
  void meet() { newest().meetings.fetch_add(1, std::memory_order_release); }
  void wait(Deadline now);  ///< Other ranks are still missing. The first call of an entry counts.
  void end(protocol::FlightEntry::State how) {
    newest().state.store(static_cast<std::uint64_t>(how), std::memory_order_release);
  }

  // -- Reading --------------------------------------------------------------------------------------------------------

  protocol::FlightRecord read() const;

 private:
  struct Entry {
    std::atomic<std::uint64_t> number;  ///< from 1; 0: being written
    std::atomic<std::uint64_t> what, state, group, place, meetings;
    std::atomic<std::int64_t> since_ns;
    base::page::Bytes<sizeof(Descriptor)> call;
  };
  struct Group {
    std::atomic<std::uint64_t> id;  ///< 0: none, or being written
    base::page::Text<40> name;
    std::array<std::atomic<std::uint64_t>, max_world_size / 64> members;
  };

  Entry& newest() { return entries_[written_.load(std::memory_order_relaxed) % entries_kept]; }
  Entry& begin(protocol::FlightEntry::What what, std::uint64_t group, std::uint64_t place);
  void publish(Entry& entry);

  std::atomic<std::uint64_t> written_;  ///< number of the newest entry
  std::atomic<std::uint64_t> begun_;  ///< one more than `written_` while an entry is being written
  std::atomic<std::uint64_t> joined_;
  /// Place of the case that was begun last, plus one. 0: no case. Many calls push the case's own entry out of the ring.
  std::atomic<std::uint64_t> case_begun_;
  std::array<Entry, entries_kept> entries_;
  std::array<Group, groups_kept> groups_;
};

}  // namespace shardproof::control
