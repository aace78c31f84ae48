// Communicators holds the communicators of one process as its NCCL calls show them:
// - which id an address has at this moment,
// - which communicator of another process is the same one (its key),
// - how many calls each one has seen.
// It has no lock: the tap calls it under its own mutex.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/nccl_record.hpp"

namespace shardproof::nccl_tap {

/// The key of a communicator that ranks joined by a unique id. All of these ranks have the id's bytes.
std::uint64_t key_of_unique_id(std::string_view bytes);

class Communicators {
 public:
  /// Adds a communicator for a call that has begun and will make it.
  protocol::Communicator& create(protocol::CallKind origin);
  /// The key of the communicator that a split or shrink of `parent` makes. Each call counts one more part of the
  /// parent. 0 where the parent's own key is not known.
  std::uint64_t key_of_part(int parent, int color);
  /// The communicator now exists at this address. A communicator that had the address before has ended.
  void bind(int id, std::uint64_t handle);
  /// Finds the communicator at this address. Where no call has made one there, it existed before the tap, and `at` adds
  /// it. nullptr for the null communicator.
  protocol::Communicator* at(std::uint64_t handle);
  /// The communicator has ended: its address may belong to another one from now on.
  void end(int id);

  protocol::Communicator& operator[](int id) { return all_[static_cast<std::size_t>(id)].shown; }

  /// The next number of a call of that kind on the communicator, from 0. Id -1 is the null communicator.
  std::uint64_t next_of_kind(int id, protocol::CallKind kind);
  /// The place (see Call) of a call that moves data and goes to NCCL now.
  std::int64_t next_place(int id, protocol::CallKind kind, int peer);

 private:
  struct Counts {
    std::array<std::uint64_t, static_cast<std::size_t>(protocol::last_call_kind) + 1> of_kind{};
    std::int64_t collectives = 0;
    std::map<int, std::int64_t> sends, receives;  ///< by peer
  };
  struct Entry {
    protocol::Communicator shown;
    Counts counts;
    std::uint64_t parts = 0;
  };

  Counts& counts(int id) { return id < 0 ? null_ : all_[static_cast<std::size_t>(id)].counts; }

  std::vector<Entry> all_;  ///< by id
  std::map<std::uint64_t, int> by_handle_;
  Counts null_;
};

}  // namespace shardproof::nccl_tap
