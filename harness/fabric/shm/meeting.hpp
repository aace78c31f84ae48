// Where the ranks of one group meet in shared memory: each lays down a request and a slot of data and arrives; the last to arrive compares
// the requests and lets all go on. A call is one meeting or several. No lock, no owner: any rank may die anywhere.
//
// Counts are keyed by the epoch (the case), and an epoch begins only after all ranks have left the one before (ControlPage::agree), so what
// an aborted call has left behind is never looked at again. A rank has two slots and fills them in turn: when it fills one again, everybody
// has arrived at a meeting of the fill in between, and nobody arrives there before it has read all it needs from the fill before that.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "harness/fabric/shm/region.hpp"
#include "harness/protocol/collective.hpp"

namespace shardproof::shm {

/// What a rank asks for.
struct Request {
  Descriptor descriptor;
  std::int32_t to = -1, from = -1;
};

/// What the last to arrive has found.
struct Verdict {
  std::int64_t latest_ready_ns = 0;
  std::string mismatch;  ///< empty: all ask for the same
};

class Meeting {
 public:
  static std::size_t bytes(int size, std::size_t slot_bytes);

  /// `slot_bytes` a multiple of 64. The region's bytes are as they were created, or used by the same group.
  Meeting(std::shared_ptr<Region> region, int size, int index, std::size_t slot_bytes);

  /// Begins a call; throws std::logic_error when a peer is in a later epoch already.
  void enter(std::uint32_t epoch);

  /// The other of the two slots, from here on.
  void turn() { ++fills_; }
  std::byte* slot(int rank) const;
  std::size_t slot_bytes() const { return slot_bytes_; }
  std::size_t slot_stride() const;  ///< from a rank's slot to the next rank's
  Request& request(int rank) const;

  /// True for the last, who must `complete`.
  bool arrive();
  void complete();
  bool completed() const;
  bool has_arrived(int rank) const;  ///< the last arrives by completing

  /// Between the arrival of the last and its `complete`, and read by the others before they arrive again.
  void write_verdict(const Verdict& verdict);
  Verdict read_verdict() const;

 private:
  struct Head;
  struct Place;
  Head& head() const;
  Place& place(int rank) const;
  std::uint64_t now() const;

  std::shared_ptr<Region> region_;
  int size_;
  int index_;
  std::size_t slot_bytes_;
  std::uint32_t epoch_ = 0;
  std::uint64_t meetings_ = 0;  ///< arrived at in this epoch
  std::uint64_t fills_ = 0;  ///< in this epoch
};

}  // namespace shardproof::shm
