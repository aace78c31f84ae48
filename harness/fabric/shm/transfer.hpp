// Transfer moves the bytes of a call, or of several calls together, through the slots. Each rank writes as many bytes
// as fit, all ranks meet, and each rank reads the bytes that it needs. This repeats until all bytes are moved.
#pragma once

#include <cstddef>
#include <span>

#include "harness/fabric/group.hpp"
#include "harness/fabric/shm/meeting.hpp"

namespace shardproof::fabric::shm {

class Transfer {
 public:
  /// `calls` are calls of one kind that this rank may make. Their sizes are already checked.
  Transfer(const Meeting& meeting, int size, int index, CollectiveKind kind, std::span<const Call> calls);

  bool done() const;
  /// Fills this rank's slot, beginning at `offset`.
  void write(std::size_t offset);

  /// True for a large all-reduce. Each rank reduces its part of the slots' content into its own slot. Then, after
  /// another meeting, all ranks read all parts. The bits are the same as if each rank reduced everything itself.
  bool in_two_steps() const { return two_steps_; }
  void reduce_own_part() const;

  /// Takes the available bytes from all slots.
  void read();

 private:
  struct Cursor {
    std::size_t call = 0;
    std::size_t element = 0;  ///< of each slice
  };
  /// Elements [first, first + count) of every slice of a call. The slices follow each other in the slot.
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
  /// Number of slices of each call in each rank's slot. There is a slice for each receiver where receivers get
  /// different elements.
  std::size_t slices_;
  Cursor begin_, end_;
  std::size_t offset_ = 0;
  bool two_steps_ = false;
};

/// Copies bytes; zero bytes are allowed.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace shardproof::fabric::shm
