// What lies where in the control page. Everything is an atomic word or zero bytes, so that any rank may die between any two stores.
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

#include "harness/protocol/collective.hpp"
#include "harness/protocol/doorbell.hpp"
#include "harness/protocol/utf8.hpp"

namespace shardproof::page {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "ranks share atomics through memory, without a lock that could die with its owner");

/// Bytes that are written and read word by word. A reader may see a mixture of two writings; who may read when is up to the owner.
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

/// Text, cut at its capacity, between characters.
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

/// The last value that its one writer published. A writer that dies while it writes leaves the value before.
template <class T>
class Published {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);

 public:
  void publish(const T& value) {
    const std::uint64_t next = version_.load(std::memory_order_relaxed) + 1;
    copies_[next % 2].store(&value, sizeof value);
    version_.store(next, std::memory_order_release);
  }

  /// False when nothing was published yet.
  bool read(T& value) const {
    while (true) {
      const std::uint64_t version = version_.load(std::memory_order_acquire);
      if (version == 0) return false;
      copies_[version % 2].load(&value, sizeof value);
      if (version_.load(std::memory_order_acquire) == version) return true;  // else the writer may already be at this copy again
    }
  }

 private:
  std::atomic<std::uint64_t> version_;
  std::array<Bytes<sizeof(T)>, 2> copies_;
};

inline constexpr std::uint64_t magic = 0x6761702d70726873;  // "shrp-pag"
inline constexpr std::uint32_t version = 3;

struct Header {
  std::atomic<std::uint64_t> magic;  ///< set last
  std::uint32_t version;
  std::uint32_t world_size;
  std::uint64_t bytes;
  std::uint64_t nonce_length;
  char nonce[96];
};

struct State {
  // Read in every look of every wait, written once in a case's life.
  alignas(64) std::atomic<std::uint64_t> abort;
  std::atomic<std::uint64_t> doom;
  alignas(64) std::atomic<std::uint32_t> abort_tickets;
  std::atomic<std::uint32_t> doom_tickets;
  alignas(64) std::atomic<std::uint64_t> votes;    ///< cast in all rounds together
  alignas(64) std::atomic<std::uint64_t> decided;  ///< rounds in which all have voted
  Doorbell agreement;
  alignas(64) std::atomic<std::int64_t> waiting;   ///< ranks that wait in a call for a rank that has not come
  std::atomic<std::uint32_t> waiting_epoch;
};

struct Vote {
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint64_t> has_text;
};

struct ProgressRecord {
  std::int64_t pid;
  std::uint64_t cases_ended;
  std::uint64_t cases_failed;
  std::int64_t position;
  std::int64_t case_started_ns;
  std::uint64_t left;
};

/// A call is kept as it was made and put into words by the reader: the writer makes hundreds of thousands in a second.
struct LastCall {
  std::uint64_t is_made;  ///< 0: no call in this case yet
  Descriptor call;
  std::uint64_t group_length;
  char group[40];
};

struct alignas(64) RankArea {
  Doorbell bell;
  std::atomic<std::uint64_t> rounds;  ///< agreements entered; single writer
  Published<ProgressRecord> progress;
  Published<LastCall> last_call;
  std::array<Text<256>, 2> ballot_texts;
};

using AbortText = Text<512>;

/// Offsets in a page for `world_size` ranks.
struct Layout {
  explicit constexpr Layout(int world_size)
      : ranks(static_cast<std::size_t>(world_size)),
        // Whoever finds no abort standing writes its text before it tries to be the first: at most every rank and the launcher, and the
        // text that stands is left alone.
        abort_slots(ranks + 2),
        state(align(sizeof(Header))),
        areas(align(state + sizeof(State))),
        votes(align(areas + ranks * sizeof(RankArea))),
        abort_texts(align(votes + 2 * ranks * sizeof(Vote))),
        doom_texts(align(abort_texts + abort_slots * sizeof(AbortText))),
        bytes(align(doom_texts + abort_slots * sizeof(AbortText))) {}

  std::size_t ranks, abort_slots, state, areas, votes, abort_texts, doom_texts, bytes;

 private:
  static constexpr std::size_t align(std::size_t offset) { return (offset + 63) / 64 * 64; }
};

}  // namespace shardproof::page
