// What a rank's flight ring holds, as plain data: its last calls, agreements and cases. Of all ranks together it tells who waits for whom.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/collective.hpp"

namespace shardproof {

struct FlightEntry {
  enum class What : std::uint8_t {
    case_begun,  ///< `place`: its position in the plan
    body_ended,  ///< of that case, on this rank
    agreement,   ///< a meeting of all ranks between bodies; `place`: its round
    call,        ///< a collective; `place`: the epoch that it belongs to
    left,        ///< the rank left its world in order
  };
  enum class State : std::uint8_t {
    open,       ///< not over
    left,       ///< over
    released,   ///< ended because another rank failed, died or gave up
    given_up,   ///< ended by its own deadline
    refused,    ///< the members asked for different things
  };

  What what = What::call;
  State state = State::open;
  std::uint64_t place = 0;
  std::uint64_t group = 0;     ///< of a call: its id in `groups`
  std::int64_t since_ns = 0;   ///< CLOCK_MONOTONIC: when a case began, or when the rank began to wait for others; 0: it never had to
  std::uint64_t meetings = 0;  ///< of a call: how often all members have to come together for it, so far, this rank having come
  Descriptor call;             ///< of a call
};

std::string_view to_string(FlightEntry::What what);
std::string_view to_string(FlightEntry::State state);

/// A group that the rank belongs to. Equal ids on two ranks are the same group.
struct FlightGroup {
  std::uint64_t id = 0;
  std::string name;  ///< cut to 40 bytes
  std::vector<int> members;  ///< ranks of the world, ascending
};

struct FlightRecord {
  std::vector<FlightEntry> entries;  ///< the last ones, oldest first
  std::vector<FlightGroup> groups;   ///< the last ones that it joined
  std::uint64_t begun = 0;           ///< entries, ever
  std::optional<std::uint64_t> case_begun = std::nullopt;  ///< place of the case begun last, whose entry may have fallen out; none: no word
  bool is_writing = false;  ///< an entry that cannot be read yet: the rank was beginning something

  const FlightGroup* find_group(std::uint64_t id) const;
  /// Place of the case that the rank is in, or was in last; none: it has begun none.
  std::optional<std::uint64_t> last_case() const;
  /// The last call of the case that the rank is in, or was in last; nullptr: it made none there.
  const FlightEntry* last_call() const;
  /// What the rank waits in, or waited in when it was released or gave up: its last call or agreement; nullptr where it waits in nothing.
  const FlightEntry* waits_in() const;
};

/// `all_gather #17 of 276 f32 "layers.1" in group dp`
std::string describe(const FlightEntry& call, const FlightRecord& record);

/// A rank that waits, and those it waits for.
struct Wait {
  int rank = 0;
  const FlightEntry* entry = nullptr;  ///< belongs to the records
  std::vector<int> missing;  ///< members that have not come; none: all have, and the bytes are on their way
  bool is_of_unknown = false;  ///< a group that the record no longer knows: nobody can say who is missing
  bool ends_case = false;  ///< of an agreement: behind the body of a case, and not before one

  /// The rank is held up by others.
  bool is_for_others() const { return is_of_unknown || !missing.empty(); }
};

/// Whether the case that they are in is over for all: one of them was released from its last call, or gave up on it and left its body. Who is
/// inside a call all the same does not wait there for anybody, it is stuck.
bool is_over(const std::vector<FlightRecord>& ranks);
/// Every rank that waits in something, by the records of all ranks of a world. Pure.
std::vector<Wait> waits(const std::vector<FlightRecord>& ranks);
/// Among them, whether others hold up this rank.
bool is_held_up(const std::vector<Wait>& waits, int rank);

/// The records of a world at one moment: the document `evidence/flight.json`.
struct FlightSnapshot {
  std::int64_t taken_ns = 0;  ///< CLOCK_MONOTONIC
  std::vector<FlightRecord> ranks;
  std::vector<std::uint64_t> begun_later;  ///< `begun` of each rank a moment later: who went on is slow, not stuck; empty: nobody looked
};

void to_json(nlohmann::ordered_json& json, const FlightSnapshot& snapshot);
/// Throws std::invalid_argument naming the field.
void from_json(const nlohmann::ordered_json& json, FlightSnapshot& snapshot);

}  // namespace shardproof
