#include "harness/fabric/messages/messenger.hpp"

#include <algorithm>
#include <exception>
#include <set>
#include <thread>
#include <utility>

#include "harness/control/control_plane.hpp"

namespace shardproof::fabric::messages {

namespace {

constexpr int farewell_tag = 0;
/// The ranks of a world end together. A rank that is later than this has another reason.
constexpr std::chrono::seconds farewell_limit{5};

/// The memory of all slots of a call.
constexpr std::size_t slot_room = 8U << 20;
constexpr std::size_t largest_slot = 1U << 20, slot_unit = 64;
constexpr std::size_t most_ranks = control::ControlPlane::max_world_size;
static_assert(slot_room / most_ranks / slot_unit * slot_unit >= 8 * most_ranks, "a slot has 8 bytes for each rank");

}  // namespace

void PollPause::once() {
  if (turns_ < yields) {
    if (turns_++ == 0) next_ = shortest;
    std::this_thread::yield();
    return;
  }
  std::this_thread::sleep_for(next_);
  next_ = std::min(longest, 2 * next_);
}

Messenger::Messenger(std::unique_ptr<Transport> transport, std::function<bool()> is_over)
    : transport_(std::move(transport)), is_over_(std::move(is_over)), memory_(std::make_shared<Memory>()) {
  // Uninitialized: the system provides only the pages that are used.
  memory_->slots = std::make_unique_for_overwrite<std::byte[]>(slot_room);
  memory_->farewells.resize(static_cast<std::size_t>(transport_->size()));
}

Messenger::~Messenger() {
  try {
    if (say_farewell()) {
      transport_->finish();
      return;
    }
  } catch (const std::exception&) {
    // A library may report a rank that is gone. Then this rank also ends without the others.
  }
  transport_->abandon(std::move(memory_));
}

// -- Memory -----------------------------------------------------------------------------------------------------------

Slots Messenger::slots(int group_size) const {
  const std::size_t share = slot_room / static_cast<std::size_t>(group_size);
  const std::size_t bytes = std::min(largest_slot, share) / slot_unit * slot_unit;
  return {memory_->slots.get(), bytes, bytes};
}

std::span<std::byte> Messenger::outgoing(std::size_t bytes) {
  if (memory_->outgoing.size() < bytes) memory_->outgoing.resize(bytes);
  return std::span(memory_->outgoing).first(bytes);
}

std::span<std::byte> Messenger::incoming(int rank, std::size_t bytes_each, int group_size) {
  const std::size_t all = bytes_each * static_cast<std::size_t>(group_size);
  if (memory_->incoming.size() < all) memory_->incoming.resize(all);
  return std::span(memory_->incoming).subspan(static_cast<std::size_t>(rank) * bytes_each, bytes_each);
}

// -- Operations -------------------------------------------------------------------------------------------------------

void Messenger::send(std::span<const std::byte> bytes, int to, int tag) {
  operations_.push_back({transport_->send(bytes, to, tag), to, false});
}

void Messenger::receive(std::span<std::byte> room, int from, int tag) {
  operations_.push_back({transport_->receive(room, from, tag), from, true});
}

bool Messenger::advance() { return test(operations_); }

bool Messenger::test(Operations& operations) {
  const std::size_t before = operations.size();
  // If a test throws, the list still has each operation that is not over, once.
  for (std::size_t i = 0; i < operations.size();) {
    if (transport_->test(operations[i].operation)) {
      operations[i] = operations.back();
      operations.pop_back();
    } else {
      ++i;
    }
  }
  return operations.size() < before;
}

std::vector<int> Messenger::missing() const {
  std::set<int> ranks;
  for (const Begun& begun : operations_) ranks.insert(begun.peer);
  return {ranks.begin(), ranks.end()};
}

// -- The end ----------------------------------------------------------------------------------------------------------

void Messenger::give_up(std::string_view reason) {
  gave_up_ = reason;
  for (Begun& begun : operations_) {
    if (begun.is_receive) transport_->cancel(begun.operation);
  }
}

/// Takes messages that no call receives, one after the other. The sends of long messages are over only then. A short
/// message that comes later is left to the library, which drops it.
void Messenger::drop_arrivals() {
  if (dropping_ && !transport_->test(*dropping_)) return;
  dropping_.reset();
  const auto arrival = transport_->probe();
  if (!arrival) return;
  if (memory_->dropped.size() < arrival->bytes) memory_->dropped.resize(arrival->bytes);
  dropping_ = transport_->receive(std::span(memory_->dropped).first(arrival->bytes), arrival->from, arrival->tag);
}

bool Messenger::wait_for(Operations awaited) {
  const auto limit = std::chrono::steady_clock::now() + farewell_limit;
  const auto is_lost = [this](const Begun& begun) { return transport_->is_lost(begun.peer); };
  PollPause pause;
  while (!operations_.empty() || !awaited.empty() || dropping_) {
    if (is_over_() || std::chrono::steady_clock::now() > limit) return false;
    const bool is_any_lost = std::ranges::any_of(operations_, is_lost) || std::ranges::any_of(awaited, is_lost);
    drop_arrivals();
    const bool has_advanced = advance();
    if (test(awaited) || has_advanced) {
      pause.restart();
    } else if (is_any_lost) {
      return false;
    } else {
      pause.once();
    }
  }
  return true;
}

/// All ranks meet at rank 0, which answers when all are there. A rank comes when its own operations are over.
bool Messenger::say_farewell() {
  const int size = transport_->size(), self = transport_->rank();
  if (size == 1) return true;
  const auto word_of = [&](int rank) {
    return std::span(memory_->farewells).subspan(static_cast<std::size_t>(rank), 1);
  };
  // These receives are there before a farewell arrives, so it is never dropped.
  Operations awaited;
  for (int rank = 0; rank < size; ++rank) {
    if ((self == 0) != (rank == 0))
      awaited.push_back({transport_->receive(word_of(rank), rank, farewell_tag), rank, true});
  }
  if (!wait_for({})) return false;
  if (self != 0) send(word_of(self), 0, farewell_tag);
  if (!wait_for(std::move(awaited))) return false;
  if (self != 0) return true;
  for (int rank = 1; rank < size; ++rank) send(word_of(0), rank, farewell_tag);
  return wait_for({});
}

}  // namespace shardproof::fabric::messages
