// The bytes of a call, or of several that are moved together, on their way through the slots: as much as fits is written, everybody meets,
// everybody reads what it needs; and so on until all is moved.
#pragma once

#include <cstddef>
#include <span>

#include "harness/fabric/group.hpp"
#include "harness/fabric/shm/meeting.hpp"

namespace shardproof::shm {

class Transfer {
 public:
  /// Calls of one kind that this rank may make: sizes are checked before.
  Transfer(const Meeting& meeting, int size, int index, CollectiveKind kind, std::span<const Call> calls);

  bool done() const;
  /// Fills this rank's slot from `offset` on.
  void write(std::size_t offset);

  /// A large all-reduce: each rank reduces its part of what the slots hold into its own slot, then, after another meeting, all read all
  /// parts. The bits are the same as those that each rank would compute for itself.
  bool in_two_steps() const { return two_steps_; }
  void reduce_own_part() const;

  /// Takes what is there from all slots.
  void read();

 private:
  struct Cursor {
    std::size_t call = 0;
    std::size_t element = 0;  ///< of each slice
  };
  /// Elements [first, first + count) of every slice of a call. They lie one slice behind the other in the slot.
  struct Piece {
    const Call& call;
    std::size_t slice, first, count, offset, element_bytes;
  };

  std::size_t slice_elements(const Call& call) const;
  template <class F> Cursor walk(Cursor from, const F& f) const;
  template <class F> void for_part(const Piece& piece, int part, const F& f) const;
  void write(const Piece& piece) const;
  void read(const Piece& piece) const;
  void read_reduced(const Piece& piece) const;

  const Meeting& meeting_;
  int size_;
  int index_;
  CollectiveKind kind_;
  std::span<const Call> calls_;
  std::size_t slices_;  ///< of each call in each rank's slot: one for each receiver where they receive different elements
  Cursor begin_, end_;
  std::size_t offset_ = 0;
  bool two_steps_ = false;
};

/// Copies that may be of nothing.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace shardproof::shm
