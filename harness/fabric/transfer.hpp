// Transfer moves the bytes of a call, or of several calls together, through slots. Each rank writes as many bytes as
// fit into its slot. After all ranks have done so, each rank reads the bytes that it needs from all slots. This repeats
// until all bytes are moved. Ranks share the slots, or they have copies of each other's slots and send the parts that
// change.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "harness/fabric/group.hpp"

namespace shardproof::fabric {

/// A slot for each rank of a group. A slot has at least 8 bytes for each rank, so that it holds an element for every
/// rank.
struct Slots {
  std::byte* first = nullptr;  ///< the slot of rank 0
  std::size_t stride = 0;  ///< bytes from a rank's slot to the next rank's slot
  std::size_t bytes = 0;  ///< of a slot
  std::byte* of(int rank) const { return first + static_cast<std::size_t>(rank) * stride; }
};

class Transfer {
 public:
  /// Bytes of a slot.
  struct Range {
    std::size_t offset = 0, bytes = 0;
  };

  /// `calls` are calls of one kind that this rank may make. Their sizes are already checked.
  Transfer(int size, int index, CollectiveKind kind, std::span<const Call> calls);

  bool done() const;
  /// Fills this rank's slot, beginning at `offset`. The slots are used until the next fill.
  void write(const Slots& slots, std::size_t offset);

  /// True for a large all-reduce. Each rank reduces its part of the slots' content into its own slot. Then, after
  /// another meeting, all ranks read all parts. The bits are the same as if each rank reduced everything itself.
  bool in_two_steps() const { return two_steps_; }
  void reduce_own_part();

  /// The ranges of this rank's slot that the peer reads in the current step, and of the peer's slot that this rank
  /// reads. They follow from the calls, so both ranks know them. Between two ranges, some more bytes may be included.
  std::vector<Range> read_by(int peer) const { return ranges(index_, peer); }
  std::vector<Range> read_from(int peer) const { return ranges(peer, index_); }

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
  std::vector<Range> ranges(int owner, int reader) const;
  bool is_read(const Call& call, int owner, int reader) const;
  void write(const Piece& piece) const;
  void read(const Piece& piece) const;
  void read_reduced(const Piece& piece) const;

  Slots slots_;
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
  bool reduced_ = false;  ///< the second one of two steps
};

/// Copies bytes; zero bytes are allowed.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace shardproof::fabric
