// Slot holds one value in a mapped file. Any thread of one process writes it. Any process reads it, also from a copy of
// the file's bytes, and also long after the writer was killed between two stores. Each value has a number, and a later
// number replaces an earlier one. The same number may be written again; then the last complete write counts. A digest
// shows whether a value is complete.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <type_traits>

#include "harness/base/page_words.hpp"

namespace shardproof::protocol {

enum class SlotState : std::uint8_t { empty, being_written, readable, damaged };

template <class T>
class Slot {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
  using Words = std::array<std::uint64_t, sizeof(T) / 8>;

 public:
  /// Returns false when the slot holds a later value, or when another thread has been writing for so long that it will
  /// not finish.
  bool write(std::uint64_t number, const T& value) {
    const std::uint64_t mine = (number + 1) << steps_bits;
    std::uint64_t steps = 0;
    std::uint64_t seen = state_.load(std::memory_order_acquire);
    for (int attempts_left = 10'000;;) {
      if (seen >> steps_bits > number + 1) return false;
      if (is_odd(seen)) {
        if (--attempts_left == 0) return false;
        std::this_thread::yield();
        seen = state_.load(std::memory_order_acquire);
        continue;
      }
      steps = seen >> steps_bits == number + 1 ? seen & steps_mask : 0;
      if (state_.compare_exchange_weak(seen, mine | (steps + 1), std::memory_order_acq_rel, std::memory_order_acquire))
        break;
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
    base::page::Bytes<sizeof(T)> bytes;
    std::atomic<std::uint64_t> digest;
  };

  // The high bits of the state hold the number plus one. Its low 16 bits hold twice the number of writes so far; they
  // are odd while the next write is in progress. State 0: never written.
  static constexpr int steps_bits = 16;
  static constexpr std::uint64_t steps_mask = 0xffff;
  static constexpr bool is_odd(std::uint64_t state) { return state % 2 != 0; }

  /// A difference in any single word changes the digest, because every step is invertible.
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

}  // namespace shardproof::protocol
