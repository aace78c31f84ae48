#include "harness/control/abort_word.hpp"

#include <algorithm>

#include "harness/control/control_plane.hpp"

namespace shardproof::control::page {

namespace {

constexpr int slot_bits = 12, reason_bits = 4, culprit_bits = 12;
static_assert(AbortWord::slots_for(ControlPlane::max_world_size) <= (1 << slot_bits) &&
              ControlPlane::max_world_size < (1 << culprit_bits));

std::uint64_t pack(std::uint32_t epoch, const Abort& abort, std::size_t slot) {
  std::uint64_t word = 1;
  word = word << 32 | epoch;
  word = word << culprit_bits |
         static_cast<std::uint64_t>(std::clamp(abort.culprit, -1, ControlPlane::max_world_size - 1) + 1);
  word = word << reason_bits | static_cast<std::uint64_t>(abort.reason);
  return word << slot_bits | slot;
}

bool is_raised(std::uint64_t word) { return word != 0; }

std::uint32_t epoch_in(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> (slot_bits + reason_bits + culprit_bits));
}

int culprit_in(std::uint64_t word) {
  return static_cast<int>(word >> (slot_bits + reason_bits) & ((1U << culprit_bits) - 1)) - 1;
}

AbortReason reason_in(std::uint64_t word) {
  return static_cast<AbortReason>(word >> slot_bits & ((1U << reason_bits) - 1));
}

std::size_t slot_in(std::uint64_t word) { return word & ((1U << slot_bits) - 1); }

}  // namespace

template <class MayReplace>
bool AbortWord::store(std::uint32_t epoch, const Abort& abort, const MayReplace& may_replace) {
  std::uint64_t current = word_.load();
  std::optional<std::size_t> slot;
  while (!is_raised(current) || may_replace(epoch_in(current))) {
    while (!slot || (is_raised(current) && *slot == slot_in(current))) {
      slot = tickets_.fetch_add(1) % texts_.size();
      text(*slot).store(abort.text);
    }
    if (word_.compare_exchange_weak(current, pack(epoch, abort, *slot))) return true;
  }
  return false;
}

bool AbortWord::raise(std::uint32_t epoch, const Abort& abort) {
  return store(epoch, abort, [epoch](std::uint32_t raised) { return raised < epoch; });
}

void AbortWord::replace(std::uint32_t epoch, const Abort& abort) {
  store(epoch, abort, [epoch](std::uint32_t raised) { return raised <= epoch; });
}

std::optional<std::uint32_t> AbortWord::epoch() const {
  const std::uint64_t word = word_.load();
  return is_raised(word) ? std::optional(epoch_in(word)) : std::nullopt;
}

std::optional<Abort> AbortWord::of(std::uint32_t epoch) const {
  const std::uint64_t word = word_.load();
  if (!is_raised(word) || epoch_in(word) != epoch) return std::nullopt;
  return Abort{culprit_in(word), reason_in(word), text(slot_in(word)).load()};
}

}  // namespace shardproof::control::page
