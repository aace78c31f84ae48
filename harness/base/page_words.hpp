// Bytes, texts and values in shared memory, stored as atomic words. A writer may die between any two stores, and a
// reader never sees an invalid state.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "harness/base/utf8.hpp"

namespace shardproof::base::page {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "ranks share atomics through memory, without a lock that could die with its owner");

/// Bytes that are written and read word by word. A reader may see a mixture of two writes, so the owner must order
/// reads and writes.
template <std::size_t Capacity>
class Bytes {
  static_assert(Capacity % 8 == 0);

 public:
  static constexpr std::size_t capacity = Capacity;

  void store(const void* from, std::size_t size) {
    for (std::size_t done = 0; done < size; done += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, static_cast<const char*>(from) + done, std::min<std::size_t>(8, size - done));
      words_[done / 8].store(word, std::memory_order_release);
    }
  }

  void load(void* to, std::size_t size) const {
    for (std::size_t done = 0; done < size; done += 8) {
      const std::uint64_t word = words_[done / 8].load(std::memory_order_acquire);
      std::memcpy(static_cast<char*>(to) + done, &word, std::min<std::size_t>(8, size - done));
    }
  }

 private:
  std::array<std::atomic<std::uint64_t>, Capacity / 8> words_;
};

/// A text, cut between characters to at most its capacity.
template <std::size_t Capacity>
class Text {
 public:
  void store(std::string_view text) {
    const std::size_t length = length_within(text, Capacity);
    bytes_.store(text.data(), length);
    length_.store(length, std::memory_order_release);
  }

  std::string load() const {
    std::string text(std::min<std::size_t>(length_.load(std::memory_order_acquire), Capacity), '\0');
    bytes_.load(text.data(), text.size());
    return text;
  }

 private:
  std::atomic<std::uint64_t> length_;
  Bytes<Capacity> bytes_;
};

/// The last value that its only writer published. A writer that dies while it writes leaves the previous value.
template <class T>
class Published {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);

 public:
  void publish(const T& value) {
    const std::uint64_t next = version_.load(std::memory_order_relaxed) + 1;
    copies_[next % 2].store(&value, sizeof value);
    version_.store(next, std::memory_order_release);
  }

  /// Returns false when nothing was published yet.
  bool read(T& value) const {
    while (true) {
      const std::uint64_t version = version_.load(std::memory_order_acquire);
      if (version == 0) return false;
      copies_[version % 2].load(&value, sizeof value);
      // Else the writer may be writing this copy again.
      if (version_.load(std::memory_order_acquire) == version) return true;
    }
  }

 private:
  std::atomic<std::uint64_t> version_;
  std::array<Bytes<sizeof(T)>, 2> copies_;
};

}  // namespace shardproof::base::page
