// FlightRecord is the content of one rank's flight ring as plain data: its last calls, agreements and cases. The
// records of all ranks together show which rank waits for which.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/collective.hpp"

namespace shardproof::protocol {

struct FlightEntry {
  enum class What : std::uint8_t {
    case_begun,  ///< `place` is the case's position in the plan.
    body_ended,  ///< The body of that case ended on this rank.
    agreement,   ///< A meeting of all ranks between bodies. `place` is its round.
    call,        ///< A collective. `place` is the epoch that it belongs to.
    left,        ///< The rank left its world in order.
  };
  enum class State : std::uint8_t {
    open,       ///< not over
    left,       ///< over
    released,   ///< ended because another rank failed, died or gave up
    given_up,   ///< ended by its own deadline
    refused,    ///< the members asked for different calls
  };

  What what = What::call;
  State state = State::open;
  std::uint64_t place = 0;
  std::uint64_t group = 0;     ///< For a call: the group's id in `groups`.
  /// CLOCK_MONOTONIC: the time at which a case began, or at which the rank began to wait for others. 0: it has never
  /// waited.
  std::int64_t since_ns = 0;
  /// For a call: its meetings of all members at which this rank has arrived so far.
  std::uint64_t meetings = 0;
  Descriptor call;             ///< only for a call
};

std::string_view to_string(FlightEntry::What what);
std::string_view to_string(FlightEntry::State state);

/// A group that the rank belongs to. Equal ids on two ranks mean the same group.
struct FlightGroup {
  std::uint64_t id = 0;
  std::string name;  ///< cut to 40 bytes
  std::vector<int> members;  ///< ranks of the world, ascending
};

struct FlightRecord {
  std::vector<FlightEntry> entries;  ///< The last ones, oldest first.
  std::vector<FlightGroup> groups;   ///< The last ones that the rank joined.
  std::uint64_t begun = 0;           ///< Number of entries that were ever begun.
  /// Place of the case that was begun last. Its entry may have left the ring. None: not recorded.
  std::optional<std::uint64_t> case_begun = std::nullopt;
  bool is_writing = false;  ///< The rank was beginning an entry, which cannot be read yet.

  const FlightGroup* find_group(std::uint64_t id) const;
  /// Place of the case that the rank is in, or was in last. None: it has begun no case.
  std::optional<std::uint64_t> last_case() const;
  /// The last call of the case that the rank is in, or was in last. nullptr: it made no call there.
  const FlightEntry* last_call() const;
  /// The last call or agreement in which the rank waits. A rank that was released or gave up still counts as waiting
  /// there. nullptr where the rank waits in nothing.
  const FlightEntry* waits_in() const;
};

/// `all_gather #17 of 276 f32 "layers.1" in group dp`
std::string describe(const FlightEntry& call, const FlightRecord& record);

/// A rank that waits, and the ranks that it waits for. A rank that was released from a call, or gave up there, counts
/// as waiting in that call. Where all others have entered it, the rank waits for them at the end of the case.
struct PeerWait {
  int rank = 0;
  const FlightEntry* entry = nullptr;  ///< Points into the records.
  std::vector<int> missing;  ///< Members that have not come. Empty: all have come, and the bytes are on their way.
  bool is_of_unknown = false;  ///< The record no longer knows the group, so the missing ranks are unknown.
  bool ends_case = false;  ///< For an agreement: it follows the body of a case, and does not precede one.

  /// Other ranks hold up this rank.
  bool is_for_others() const { return is_of_unknown || !missing.empty(); }
};

/// True when the case that the ranks are in is over for all of them. Then one rank was released from its last call, or
/// gave up on it and left its body. A rank that is still inside a call does not wait there for others: it is stuck.
bool is_over(const std::vector<FlightRecord>& ranks);
/// All waiting ranks, from the records of all ranks of a world. Pure.
std::vector<PeerWait> waits(const std::vector<FlightRecord>& ranks);
/// True when `waits` shows that other ranks hold up this rank.
bool is_held_up(const std::vector<PeerWait>& waits, int rank);

/// The records of a world at one moment: the document `evidence/flight.json`.
struct FlightSnapshot {
  std::int64_t taken_ns = 0;  ///< CLOCK_MONOTONIC
  std::vector<FlightRecord> ranks;
  /// `begun` of each rank a moment later. A rank that went on is slow, not stuck. Empty: the launcher did not look
  /// again.
  std::vector<std::uint64_t> begun_later;
};

void to_json(nlohmann::ordered_json& json, const FlightSnapshot& snapshot);
/// Throws std::invalid_argument, which names the field.
void from_json(const nlohmann::ordered_json& json, FlightSnapshot& snapshot);

}  // namespace shardproof::protocol
