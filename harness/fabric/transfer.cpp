#include "harness/fabric/transfer.hpp"

#include <algorithm>
#include <cstring>

#include "harness/fabric/fold.hpp"

namespace shardproof::fabric {

namespace {

/// With fewer bytes to read per rank, it is faster that every rank reduces everything than to meet once more. A meeting
/// takes some microseconds, and more when there are fewer cores than ranks.
constexpr std::size_t most_bytes_in_one_step = 64 << 10;

constexpr std::size_t aligned(std::size_t offset) { return (offset + 63) / 64 * 64; }

}  // namespace

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

Transfer::Transfer(int size, int index, CollectiveKind kind, std::span<const Call> calls)
    : size_(size),
      index_(index),
      kind_(kind),
      calls_(calls),
      slices_(kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all
                  ? static_cast<std::size_t>(size)
                  : 1) {
  begin_ = end_ = walk({}, [](const Piece&) { return false; });
}

std::size_t Transfer::slice_elements(const Call& call) const { return call.descriptor.count / slices_; }

/// Calls `f` with the pieces from `from` on that fit into a slot. Returns the beginning of the next fill. `f` returns
/// false to stop before a piece.
template <class F>
Transfer::Cursor Transfer::walk(Cursor from, const F& f) const {
  std::size_t offset = offset_;
  while (from.call < calls_.size()) {
    const Call& call = calls_[from.call];
    const std::size_t slice = slice_elements(call);
    if (from.element >= slice) {
      from = {from.call + 1, 0};
      continue;
    }
    offset = aligned(offset);
    const std::size_t element_bytes = size_of(call.descriptor.dtype);
    const std::size_t column = element_bytes * slices_;
    if (offset + column > slots_.bytes) break;
    const std::size_t count = std::min(slice - from.element, (slots_.bytes - offset) / column);
    if (!f(Piece{call, slice, from.element, count, offset, element_bytes})) break;
    from.element += count;
    offset += count * column;
  }
  return from;
}

bool Transfer::done() const { return end_.call == calls_.size(); }

void Transfer::write(const Slots& slots, std::size_t offset) {
  slots_ = slots;
  offset_ = offset;
  reduced_ = false;
  std::size_t bytes = 0;
  end_ = walk(begin_, [&](const Piece& piece) {
    write(piece);
    bytes += piece.count * piece.element_bytes;
    return true;
  });
  two_steps_ = kind_ == CollectiveKind::all_reduce && bytes * static_cast<std::size_t>(size_) > most_bytes_in_one_step;
}

void Transfer::read() {
  walk(begin_, [&](const Piece& piece) {
    two_steps_ ? read_reduced(piece) : read(piece);
    return true;
  });
  begin_ = end_;
}

void Transfer::write(const Piece& piece) const {
  const auto& [call, slice, first, count, offset, element_bytes] = piece;
  const bool writes = (kind_ != CollectiveKind::broadcast || call.descriptor.root == index_) &&
                      (kind_ != CollectiveKind::send_recv || call.to >= 0);
  if (!writes) return;
  std::byte* to = slots_.of(index_) + offset;
  for (std::size_t i = 0; i < slices_; ++i) {
    copy_bytes(to + i * count * element_bytes, call.in.data() + (i * slice + first) * element_bytes,
               count * element_bytes);
  }
}

void Transfer::read(const Piece& piece) const {
  const auto& [call, slice, first, count, offset, element_bytes] = piece;
  const std::size_t bytes = count * element_bytes;
  if (call.out.empty()) return;  // a send_recv that receives nothing
  const std::size_t own_slice = offset + static_cast<std::size_t>(index_) * bytes;
  std::byte* out = call.out.data() + first * element_bytes;
  const Descriptor& asked = call.descriptor;
  switch (kind_) {
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      for (int rank = 0; rank < size_; ++rank) {
        const std::byte* from = slots_.of(rank) + (kind_ == CollectiveKind::all_gather ? offset : own_slice);
        copy_bytes(out + static_cast<std::size_t>(rank) * slice * element_bytes, from, bytes);
      }
      break;
    case CollectiveKind::reduce_scatter:
      fold(asked.dtype, asked.op, asked.factor, {slots_.of(0) + own_slice, slots_.stride, size_}, out, count);
      break;
    case CollectiveKind::all_reduce:
      fold(asked.dtype, asked.op, asked.factor, {slots_.of(0) + offset, slots_.stride, size_}, out, count);
      break;
    case CollectiveKind::broadcast: copy_bytes(out, slots_.of(asked.root) + offset, bytes); break;
    case CollectiveKind::send_recv:
      if (call.from >= 0) copy_bytes(out, slots_.of(call.from) + offset, bytes);
      break;
    case CollectiveKind::barrier:
    case CollectiveKind::coalesced: break;
  }
}

/// Calls `f(first, count)` with the elements of the piece that rank `part` reduces.
template <class F>
void Transfer::for_part(const Piece& piece, int part, const F& f) const {
  const std::size_t first = piece.count * static_cast<std::size_t>(part) / static_cast<std::size_t>(size_);
  const std::size_t last = piece.count * static_cast<std::size_t>(part + 1) / static_cast<std::size_t>(size_);
  f(first, last - first);
}

void Transfer::reduce_own_part() {
  reduced_ = true;
  walk(begin_, [&](const Piece& piece) {
    for_part(piece, index_, [&](std::size_t first, std::size_t count) {
      // Reduces into the result first, because this rank's slot is an operand. No other rank reads this part of the
      // slot before the second step.
      const Descriptor& asked = piece.call.descriptor;
      const std::size_t in_slot = piece.offset + first * piece.element_bytes;
      std::byte* out = piece.call.out.data() + (piece.first + first) * piece.element_bytes;
      fold(asked.dtype, asked.op, asked.factor, {slots_.of(0) + in_slot, slots_.stride, size_}, out, count);
      copy_bytes(slots_.of(index_) + in_slot, out, count * piece.element_bytes);
    });
    return true;
  });
}

bool Transfer::is_read(const Call& call, int owner, int reader) const {
  switch (kind_) {
    case CollectiveKind::broadcast: return call.descriptor.root == owner;
    // Each of the two ranks knows its own side of the pair. The sides were compared before.
    case CollectiveKind::send_recv: return owner == index_ ? call.to == reader : call.from == owner;
    default: return true;
  }
}

std::vector<Transfer::Range> Transfer::ranges(int owner, int reader) const {
  std::vector<Range> result;
  const auto add = [&](std::size_t offset, std::size_t bytes) {
    if (bytes == 0) return;
    if (!result.empty() && offset - (result.back().offset + result.back().bytes) < aligned(1)) {
      result.back().bytes = offset + bytes - result.back().offset;
    } else {
      result.push_back({offset, bytes});
    }
  };
  walk(begin_, [&](const Piece& piece) {
    if (!is_read(piece.call, owner, reader)) return true;
    if (two_steps_) {
      for_part(piece, reduced_ ? owner : reader, [&](std::size_t first, std::size_t count) {
        add(piece.offset + first * piece.element_bytes, count * piece.element_bytes);
      });
      return true;
    }
    const std::size_t bytes = piece.count * piece.element_bytes;
    add(piece.offset + (slices_ == 1 ? 0 : static_cast<std::size_t>(reader) * bytes), bytes);
    return true;
  });
  return result;
}

void Transfer::read_reduced(const Piece& piece) const {
  for (int part = 0; part < size_; ++part) {
    if (part == index_) continue;
    for_part(piece, part, [&](std::size_t first, std::size_t count) {
      copy_bytes(piece.call.out.data() + (piece.first + first) * piece.element_bytes,
                 slots_.of(part) + piece.offset + first * piece.element_bytes, count * piece.element_bytes);
    });
  }
}

}  // namespace shardproof::fabric
