// Meeting is the place in shared memory where the ranks of one group meet. Each rank writes a request and a slot of
// data, and arrives. The last rank to arrive compares the requests and lets all ranks go on. A call consists of one or
// more meetings. There is no lock and no owner: any rank may die anywhere.
//
// Counts belong to an epoch (the case). An epoch begins only after all ranks have left the previous one
// (ControlPlane::agree). So no rank reads the leftovers of an aborted call. A rank has two slots and fills them in
// turn. When it fills a slot again, all ranks have arrived at a meeting of the fill in between. No rank arrives there
// before it has read everything that it needs from the fill before that.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "harness/fabric/request.hpp"
#include "harness/fabric/shm/region.hpp"
#include "harness/fabric/transfer.hpp"

namespace shardproof::fabric::shm {

class Meeting {
 public:
  static std::size_t bytes(int size, std::size_t slot_bytes);

  /// `slot_bytes` must be a multiple of 64. The region's bytes are new, or were used by the same group.
  Meeting(std::shared_ptr<Region> region, int size, int index, std::size_t slot_bytes);

  /// Begins a call. Throws std::logic_error when a peer is in a later epoch already.
  void enter(std::uint32_t epoch);

  /// Switches to the other one of the two slots.
  void turn() { ++fills_; }
  std::byte* slot(int rank) const;
  std::size_t slot_bytes() const { return slot_bytes_; }
  Slots slots() const { return {slot(0), slot_stride(), slot_bytes_}; }
  Request& request(int rank) const;

  /// Returns true for the last rank, which must call `complete`.
  bool arrive();
  void complete();
  bool completed() const;
  bool has_arrived(int rank) const;  ///< the last rank arrives when it completes

  /// Call it between the last rank's arrival and its `complete`. The other ranks read the verdict before they arrive
  /// again.
  void write_verdict(const Verdict& verdict);
  Verdict read_verdict() const;

 private:
  struct Head;
  struct Place;
  Head& head() const;
  Place& place(int rank) const;
  std::uint64_t now() const;
  std::size_t slot_stride() const;

  std::shared_ptr<Region> region_;
  int size_;
  int index_;
  std::size_t slot_bytes_;
  std::uint32_t epoch_ = 0;
  std::uint64_t meetings_ = 0;  ///< arrivals in this epoch
  std::uint64_t fills_ = 0;  ///< in this epoch
};

}  // namespace shardproof::fabric::shm
