// One place for a value in a mapped file, which any thread of one process writes and anybody reads, also from a copy of the file's bytes, also long
// after the writer was killed between two stores. A value has a number; a later number takes the place of an earlier one, and the same number
// may be written again, of which the last whole writing counts. Whether it is whole a digest says.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <type_traits>

#include "harness/base/page_words.hpp"

namespace shardproof::nccl_tap {

enum class SlotState : std::uint8_t { empty, being_written, readable, damaged };

template <class T>
class Slot {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
  using Words = std::array<std::uint64_t, sizeof(T) / 8>;

 public:
  /// False: a later value is there, or somebody has been writing for so long that he will not end.
  bool write(std::uint64_t number, const T& value) {
    const std::uint64_t mine = (number + 1) << steps_bits;
    std::uint64_t steps = 0;
    std::uint64_t seen = state_.load(std::memory_order_acquire);
    for (int patience = 10'000;;) {
      if (seen >> steps_bits > number + 1) return false;
      if (is_odd(seen)) {
        if (--patience == 0) return false;
        std::this_thread::yield();
        seen = state_.load(std::memory_order_acquire);
        continue;
      }
      steps = seen >> steps_bits == number + 1 ? seen & steps_mask : 0;
      if (state_.compare_exchange_weak(seen, mine | (steps + 1), std::memory_order_acq_rel, std::memory_order_acquire)) break;
    }
    Words words;
    std::memcpy(words.data(), &value, sizeof value);
    Copy& copy = copies_[steps / 2 % 2];
    copy.bytes.store(words.data(), sizeof words);
    copy.digest.store(digest_of(number, steps / 2, words), std::memory_order_release);
    state_.store(mine | (steps + 2), std::memory_order_release);
    return true;
  }

  SlotState read(std::uint64_t& number, T& value) const {
    const std::uint64_t seen = state_.load(std::memory_order_acquire);
    if (seen == 0) return SlotState::empty;
    if (seen >> steps_bits == 0) return SlotState::damaged;
    number = (seen >> steps_bits) - 1;
    const std::uint64_t written = (seen & steps_mask) / 2;
    if (written == 0) return is_odd(seen) ? SlotState::being_written : SlotState::damaged;
    const Copy& copy = copies_[(written - 1) % 2];
    Words words;
    copy.bytes.load(words.data(), sizeof words);
    if (copy.digest.load(std::memory_order_acquire) != digest_of(number, written - 1, words)) return SlotState::damaged;
    std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
    return SlotState::readable;
  }

 private:
  struct Copy {
    page::Bytes<sizeof(T)> bytes;
    std::atomic<std::uint64_t> digest;
  };

  // The state: one more than the number, and behind it twice the writings so far, odd while the next one is under way. 0: never written.
  static constexpr int steps_bits = 16;
  static constexpr std::uint64_t steps_mask = 0xffff;
  static constexpr bool is_odd(std::uint64_t state) { return state % 2 != 0; }

  /// Any one word that differs makes it differ: every step can be undone.
  static std::uint64_t digest_of(std::uint64_t number, std::uint64_t writing, const Words& words) {
    std::uint64_t digest = 0xcbf29ce484222325U;
    const auto add = [&digest](std::uint64_t word) {
      digest = (digest ^ word) * 0x100000001b3U;
      digest ^= digest >> 32U;
    };
    add(number);
    add(writing);
    for (const std::uint64_t word : words) add(word);
    return digest;
  }

  std::atomic<std::uint64_t> state_;
  std::array<Copy, 2> copies_;
};

}  // namespace shardproof::nccl_tap
