// The communicators of one process as its calls of NCCL show them: which id an address has at this moment, which communicator is the same one in
// another process, and how many calls each has seen. Not guarded: the tap asks under its own mutex.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/nccl_record.hpp"

namespace shardproof::nccl_tap {

/// The key of a communicator that ranks joined by a unique id, whose bytes they all have.
std::uint64_t key_of_unique_id(std::string_view bytes);

class Communicators {
 public:
  /// A call has begun that is to make one.
  Communicator& create(CallKind origin);
  /// The key of what a split or shrink of `parent` makes, which counts as one more of it. 0 where the parent's own is not known.
  std::uint64_t key_of_part(int parent, int color);
  /// It came to be, at this address; whatever had that address before has ended.
  void bind(int id, std::uint64_t handle);
  /// An address that no call made a communicator of belongs to one that was there before the tap. nullptr for the null communicator.
  Communicator* at(std::uint64_t handle);
  /// Its address may be another's from now on.
  void end(int id);

  Communicator& operator[](int id) { return all_[static_cast<std::size_t>(id)].shown; }

  /// The next number of a call of that kind on it, from 0. -1 is the null communicator.
  std::uint64_t next_of_kind(int id, CallKind kind);
  /// The place (see Call) of one that moves data and goes to NCCL now.
  std::int64_t next_place(int id, CallKind kind, int peer);

 private:
  struct Counts {
    std::array<std::uint64_t, static_cast<std::size_t>(last_call_kind) + 1> of_kind{};
    std::int64_t collectives = 0;
    std::map<int, std::int64_t> sends, receives;  ///< by peer
  };
  struct Entry {
    Communicator shown;
    Counts counts;
    std::uint64_t parts = 0;
  };

  Counts& counts(int id) { return id < 0 ? null_ : all_[static_cast<std::size_t>(id)].counts; }

  std::vector<Entry> all_;  ///< by id
  std::map<std::uint64_t, int> by_handle_;
  Counts null_;
};

}  // namespace shardproof::nccl_tap
