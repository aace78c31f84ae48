#include "harness/control/flight_ring.hpp"

#include <algorithm>
#include <chrono>

namespace shardproof::control {

using protocol::FlightEntry;

namespace {

std::int64_t since_epoch(Deadline time) { return std::chrono::nanoseconds(time.time_since_epoch()).count(); }

template <class Enum>
Enum known(std::uint64_t value, Enum last) {
  return static_cast<Enum>(std::min(value, static_cast<std::uint64_t>(last)));
}

bool is_known(const Descriptor& call) {
  return call.kind <= CollectiveKind::coalesced && call.dtype <= DType::u8 && call.op <= ReduceOp::min;
}

}  // namespace

// -- Writing ----------------------------------------------------------------------------------------------------------

std::size_t FlightRing::join_group(std::uint64_t id, std::string_view name, std::span<const int> members) {
  const std::uint64_t number = joined_.load(std::memory_order_relaxed) + 1;
  const std::size_t place = number == 1 ? 0 : 1 + number % (groups_kept - 1);
  Group& group = groups_[place];
  group.id.store(0, std::memory_order_release);
  group.name.store(name);
  for (std::size_t word = 0; word < group.members.size(); ++word) {
    std::uint64_t bits = 0;
    for (const int rank : members) {
      if (static_cast<std::size_t>(rank) / 64 == word)
        bits |= std::uint64_t{1} << (static_cast<std::size_t>(rank) % 64);
    }
    group.members[word].store(bits, std::memory_order_release);
  }
  group.id.store(id, std::memory_order_release);
  joined_.store(number, std::memory_order_release);
  return place;
}

FlightRing::Entry& FlightRing::begin(FlightEntry::What what, std::uint64_t group, std::uint64_t place) {
  const std::uint64_t number = written_.load(std::memory_order_relaxed) + 1;
  Entry& entry = entries_[number % entries_kept];
  begun_.store(number, std::memory_order_release);
  // Every store is a release: a reader that sees one of these values also sees that the old number is gone.
  entry.number.store(0, std::memory_order_release);
  entry.what.store(static_cast<std::uint64_t>(what), std::memory_order_release);
  entry.state.store(static_cast<std::uint64_t>(FlightEntry::State::open), std::memory_order_release);
  entry.group.store(group, std::memory_order_release);
  entry.place.store(place, std::memory_order_release);
  entry.meetings.store(0, std::memory_order_release);
  entry.since_ns.store(0, std::memory_order_release);
  return entry;
}

void FlightRing::publish(Entry& entry) {
  const std::uint64_t number = begun_.load(std::memory_order_relaxed);
  entry.number.store(number, std::memory_order_release);
  written_.store(number, std::memory_order_release);
}

void FlightRing::enter_call(std::uint64_t group, std::uint32_t epoch, const Descriptor& call) {
  Entry& entry = begin(FlightEntry::What::call, group, epoch);
  entry.call.store(&call, sizeof call);
  publish(entry);
}

void FlightRing::enter(FlightEntry::What what, std::uint64_t place, Deadline now) {
  Entry& entry = begin(what, 0, place);
  entry.since_ns.store(since_epoch(now), std::memory_order_release);
  publish(entry);
  // Stored after the entry: while this word still names the previous case, readers find the new case in its entry.
  if (what == FlightEntry::What::case_begun) case_begun_.store(place + 1, std::memory_order_release);
}

void FlightRing::wait(Deadline now) {
  Entry& entry = newest();
  if (entry.since_ns.load(std::memory_order_relaxed) == 0)
    entry.since_ns.store(since_epoch(now), std::memory_order_release);
}

// -- Reading ----------------------------------------------------------------------------------------------------------

protocol::FlightRecord FlightRing::read() const {
  protocol::FlightRecord record;
  // Read before the entries: a case that begins in the meantime is among them.
  if (const std::uint64_t begun = case_begun_.load(std::memory_order_acquire); begun > 0) record.case_begun = begun - 1;
  record.begun = begun_.load(std::memory_order_acquire);
  const std::uint64_t newest = written_.load(std::memory_order_acquire);
  record.is_writing = record.begun > newest;
  const std::uint64_t kept = std::min<std::uint64_t>(newest, entries_kept);
  for (std::uint64_t back = kept; back > 0; --back) {
    const std::uint64_t number = newest - back + 1;
    const Entry& entry = entries_[number % entries_kept];
    if (entry.number.load(std::memory_order_acquire) != number) continue;
    // A stray write may have changed any word. A word becomes one of the known values, or the entry is left out.
    FlightEntry read;
    read.what = known(entry.what.load(std::memory_order_acquire), FlightEntry::What::left);
    read.state = known(entry.state.load(std::memory_order_acquire), FlightEntry::State::refused);
    read.group = entry.group.load(std::memory_order_acquire);
    read.place = entry.place.load(std::memory_order_acquire);
    read.meetings = entry.meetings.load(std::memory_order_acquire);
    read.since_ns = entry.since_ns.load(std::memory_order_acquire);
    if (read.what == FlightEntry::What::call) entry.call.load(&read.call, sizeof read.call);
    if (entry.number.load(std::memory_order_acquire) == number && is_known(read.call)) record.entries.push_back(read);
  }
  for (const Group& group : groups_) {
    protocol::FlightGroup read;
    read.id = group.id.load(std::memory_order_acquire);
    if (read.id == 0) continue;
    read.name = group.name.load();
    for (std::size_t rank = 0; rank < max_world_size; ++rank) {
      if ((group.members[rank / 64].load(std::memory_order_acquire) >> (rank % 64) & 1U) != 0)
        read.members.push_back(static_cast<int>(rank));
    }
    if (group.id.load(std::memory_order_acquire) == read.id) record.groups.push_back(std::move(read));
  }
  std::ranges::sort(record.groups, {}, &protocol::FlightGroup::id);
  return record;
}

}  // namespace shardproof::control
