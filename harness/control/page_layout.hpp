// The memory layout of the control page. It consists of atomic words and of bytes that start as zero, so any rank may
// die between any two stores.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "harness/base/page_words.hpp"
#include "harness/control/abort_word.hpp"
#include "harness/control/doorbell.hpp"
#include "harness/control/flight_ring.hpp"

namespace shardproof::control::page {

inline constexpr std::uint64_t magic = 0x6761702d70726873;  // "shrp-pag"
inline constexpr std::uint32_t version = 9;

struct Header {
  std::atomic<std::uint64_t> magic;  ///< set last
  std::uint32_t version;
  std::uint32_t world_size;
  std::uint64_t bytes;
  std::uint64_t nonce_length;
  char nonce[96];
};

struct State {
  // Every look of every wait reads these; a case writes them at most once.
  alignas(64) std::atomic<std::uint64_t> abort;
  std::atomic<std::uint64_t> doom;
  /// Where a hub decides, the number of ranks of this host, plus one. Set before any rank starts. 0: this page decides
  /// all by itself.
  std::atomic<std::uint64_t> linked_ranks;
  alignas(64) std::atomic<std::uint32_t> abort_tickets;
  std::atomic<std::uint32_t> doom_tickets, proposal_tickets;
  std::atomic<std::uint64_t> proposed_doom;  ///< on a page with ranks on other hosts
  alignas(64) std::atomic<std::uint64_t> votes;  ///< cast in all rounds together
  alignas(64) std::atomic<std::uint64_t> decided;  ///< rounds in which all have voted
  Doorbell agreement;
  alignas(64) std::atomic<std::int64_t> waiting;  ///< ranks that wait in a call for a missing rank
  std::atomic<std::int64_t> message_waiting;  ///< ranks that wait for messages of a call
  std::atomic<std::uint32_t> waiting_epoch;
  std::atomic<std::uint32_t> turn;  ///< the rank that has the turn, plus one; 0: no rank
  Doorbell watcher;  ///< rung for processes that are no rank: see ControlPage::watcher
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

struct EndRecord {
  std::uint64_t signalled;
  std::int64_t code;
  std::uint64_t asked_by;
  std::int64_t asked_signal;
  std::uint64_t lacked_memory;
  std::uint64_t stream_bytes, standard_output_bytes, standard_error_bytes;
};

struct alignas(64) RankArea {
  Doorbell bell;
  std::atomic<std::uint64_t> rounds;  ///< agreements that the rank entered; it is the only writer
  std::atomic<std::uint64_t> is_remote;  ///< 1: the rank is on another host, and the link writes for it
  base::page::Published<ProgressRecord> progress;
  base::page::Published<EndRecord> end;
  base::page::Text<512> last_words;  ///< written before `end`
  FlightRing flight;
  std::array<base::page::Text<256>, 2> ballot_texts;
};

/// Offsets in a page for `world_size` ranks.
struct Layout {
  explicit constexpr Layout(int world_size)
      : ranks(static_cast<std::size_t>(world_size)),
        abort_slots(AbortWord::slots_for(ranks)),
        state(align(sizeof(Header))),
        areas(align(state + sizeof(State))),
        votes(align(areas + ranks * sizeof(RankArea))),
        abort_texts(align(votes + 2 * ranks * sizeof(Vote))),
        doom_texts(align(abort_texts + abort_slots * sizeof(AbortText))),
        proposal_texts(align(doom_texts + abort_slots * sizeof(AbortText))),
        bytes(align(proposal_texts + abort_slots * sizeof(AbortText))) {}

  std::size_t ranks, abort_slots, state, areas, votes, abort_texts, doom_texts, proposal_texts, bytes;

 private:
  static constexpr std::size_t align(std::size_t offset) { return (offset + 63) / 64 * 64; }
};

}  // namespace shardproof::control::page
