#include "harness/fabric/shm/meeting.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "harness/base/utf8.hpp"

namespace shardproof::fabric::shm {

namespace {

/// The epoch is in the high bits and the count in the low bits, so a later epoch is a greater number.
constexpr int count_bits = 40;
constexpr std::uint64_t in_epoch(std::uint32_t epoch, std::uint64_t count) {
  return std::uint64_t{epoch} << count_bits | count;
}
constexpr std::uint64_t epoch_of(std::uint64_t word) { return word >> count_bits; }

}  // namespace

struct Meeting::Head {
  alignas(64) std::atomic<std::uint64_t> arrivals;   ///< of all ranks in this epoch
  alignas(64) std::atomic<std::uint64_t> completed;  ///< meetings
  alignas(64) std::int64_t latest_ready_ns;
  std::uint64_t mismatch_length;
  char mismatch[Verdict::longest_mismatch];
};

struct Meeting::Place {
  /// Meetings. Single writer; messages about missing ranks read it.
  alignas(64) std::atomic<std::uint64_t> arrived;
  alignas(64) Request requests[2];                 // one for each slot; the slots follow
};

std::size_t Meeting::bytes(int size, std::size_t slot_bytes) {
  return sizeof(Head) + static_cast<std::size_t>(size) * (sizeof(Place) + 2 * slot_bytes);
}

Meeting::Meeting(std::shared_ptr<Region> region, int size, int index, std::size_t slot_bytes)
    : region_(std::move(region)), size_(size), index_(index), slot_bytes_(slot_bytes) {
  if (slot_bytes % 64 != 0 || region_->bytes() != bytes(size, slot_bytes)) {
    throw std::invalid_argument(
        fmt::format("shm fabric: {} bytes for {} ranks with slots of {}", region_->bytes(), size, slot_bytes));
  }
}

Meeting::Head& Meeting::head() const { return *std::launder(reinterpret_cast<Head*>(region_->data())); }

Meeting::Place& Meeting::place(int rank) const {
  return *std::launder(
      reinterpret_cast<Place*>(region_->data() + sizeof(Head) + static_cast<std::size_t>(rank) * slot_stride()));
}

std::size_t Meeting::slot_stride() const { return sizeof(Place) + 2 * slot_bytes_; }

std::byte* Meeting::slot(int rank) const {
  return reinterpret_cast<std::byte*>(&place(rank)) + sizeof(Place) + fills_ % 2 * slot_bytes_;
}

Request& Meeting::request(int rank) const { return place(rank).requests[fills_ % 2]; }

std::uint64_t Meeting::now() const { return in_epoch(epoch_, meetings_); }

void Meeting::enter(std::uint32_t epoch) {
  if (epoch != epoch_) {
    epoch_ = epoch;
    meetings_ = 0;
    fills_ = 0;
  }
  if (epoch_of(in_epoch(epoch, 0)) != epoch || epoch_of(head().arrivals.load(std::memory_order_relaxed)) > epoch) {
    throw std::logic_error(fmt::format("shm fabric: this rank calls in epoch {}, but a peer is already in epoch {}",
                                       epoch, epoch_of(head().arrivals.load(std::memory_order_relaxed))));
  }
}

bool Meeting::arrive() {
  ++meetings_;
  std::atomic<std::uint64_t>& arrivals = head().arrivals;
  std::uint64_t seen = arrivals.load(std::memory_order_relaxed);
  std::uint64_t next = 0;
  do {
    next = epoch_of(seen) == epoch_ ? seen + 1 : in_epoch(epoch_, 1);
  } while (!arrivals.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_relaxed));
  // No rank arrives at the next meeting before this one is complete. So the count is the number of ranks at this
  // meeting.
  if (next == in_epoch(epoch_, meetings_ * static_cast<std::uint64_t>(size_))) return true;
  place(index_).arrived.store(now(), std::memory_order_release);
  return false;
}

void Meeting::complete() {
  place(index_).arrived.store(now(), std::memory_order_release);
  head().completed.store(now(), std::memory_order_release);
}

bool Meeting::completed() const { return head().completed.load(std::memory_order_acquire) >= now(); }

bool Meeting::has_arrived(int rank) const { return place(rank).arrived.load(std::memory_order_acquire) >= now(); }

void Meeting::write_verdict(const Verdict& verdict) {
  Head& to = head();
  to.latest_ready_ns = verdict.latest_ready_ns;
  to.mismatch_length = base::length_within(verdict.mismatch, sizeof to.mismatch);
  std::copy_n(verdict.mismatch.begin(), to.mismatch_length, to.mismatch);
}

Verdict Meeting::read_verdict() const {
  const Head& from = head();
  return {from.latest_ready_ns, std::string(from.mismatch, from.mismatch_length)};
}

}  // namespace shardproof::fabric::shm
