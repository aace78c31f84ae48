// CheckedGroup is the common part of groups that compare the ranks' requests before data moves: the checks of a call,
// sequence numbers, flight records, and the texts of errors. A fabric derives from it and adds how requests and bytes
// reach the other ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/control/control_plane.hpp"
#include "harness/fabric/group.hpp"
#include "harness/fabric/request.hpp"

namespace shardproof::fabric {

/// One rank's side of a world. All groups of the rank share it.
struct RankContext {
  control::ControlPlane* control = nullptr;
  std::function<std::uint32_t()> epoch;
  std::function<control::Deadline(control::Deadline now)>
      give_up_at;  ///< the time at which a wait that begins now gives up
  int rank = 0;    ///< in the world
  bool detect_deadlock = true;
};

/// The rule of a fabric whose context has none: a wait gives up after `timeout`, multiplied by the number of ranks that
/// share a core.
std::function<control::Deadline(control::Deadline)> usual_deadline(std::chrono::milliseconds timeout, int world_size);

/// The members of the group `world`.
std::vector<int> all_ranks(int world_size);
/// The id of the group `world`.
inline constexpr std::uint64_t world_id = 1;

class CheckedGroup : public Group {
 public:
  int rank() const final { return index_; }
  std::span<const int> members() const final { return members_; }
  std::string_view name() const final { return name_; }

  Receipt run(const Call& call) final;
  Receipt run_coalesced(std::span<const Call> calls) final;

 protected:
  /// `id` is the same on all members and differs from the id of any other group of the world.
  CheckedGroup(std::shared_ptr<const RankContext> context, std::string name, std::uint64_t id,
               std::vector<int> members);

  /// This rank of several begins a call. The epoch is not aborted.
  virtual void enter(std::uint32_t epoch) = 0;
  /// Makes the call with the other ranks of the group. `kind` is the kind of all `calls`.
  virtual Receipt exchange(const Request& request, CollectiveKind kind, std::span<const Call> calls) = 0;

  const RankContext& context() const { return *context_; }
  std::uint32_t epoch() const { return epoch_; }
  std::uint64_t id() const { return id_; }
  int world_rank(int rank) const { return members_[static_cast<std::size_t>(rank)]; }

  /// Compares the requests of all ranks. `request_of(rank)` is a rank's request, `part_of(rank, i)` the i-th one of
  /// `batched` parts of its batch. The first of these is `first_of_batch` in the whole batch.
  template <class RequestOf, class PartOf>
  Verdict judge(const RequestOf& request_of, const PartOf& part_of, std::size_t batched,
                std::size_t first_of_batch) const {
    Verdict verdict{.latest_ready_ns = std::numeric_limits<std::int64_t>::min(), .mismatch = {}};
    for (int rank = 0; rank < size(); ++rank)
      verdict.latest_ready_ns = std::max(verdict.latest_ready_ns, request_of(rank).descriptor.ready_ns);
    const std::uint64_t sequence = request_of(0).descriptor.sequence;
    verdict.mismatch = mismatch_between(sequence, request_of, "");
    for (std::size_t i = 0; i < batched && verdict.mismatch.empty(); ++i) {
      const auto numberless = [&](int rank) {
        Request part = part_of(rank, i);
        part.descriptor.sequence = 0;  // the batch has a sequence number, its parts have none
        return part;
      };
      verdict.mismatch = mismatch_between(sequence, numberless, part_of_batch(first_of_batch + i));
    }
    return verdict;
  }

  /// The text of a wait that has lasted too long. `missing`: ranks of the world that have not come, each of which is
  /// named with its last call. `sign`: what is missing, such as `there is no sign of`.
  std::string late(const Descriptor& asked, std::chrono::nanoseconds waited, std::string_view sign,
                   std::span<const int> missing) const;

  // -- For splits -----------------------------------------------------------------------------------------------------

  /// An all-gather of plain bytes.
  void gather(std::string_view tag, const void* mine, std::size_t bytes, void* all);
  struct Wish {
    std::int32_t color = -1, key = 0;
  };
  /// The ranks of this group that have this color, in the order of the new group.
  std::vector<int> ranks_of(std::int32_t color, std::span<const Wish> wishes) const;
  std::vector<int> world_ranks(std::span<const int> ranks) const;
  /// The id of a new group, after all ranks made the same calls.
  std::uint64_t id_of_part(int color, std::string_view name) const;

 private:
  /// The first two requests that differ, in words. Empty: all are equal.
  template <class RequestOf>
  std::string mismatch_between(std::uint64_t sequence, const RequestOf& request_of, std::string_view part) const {
    Request first = request_of(0);
    for (int rank = 1; rank < size(); ++rank) first.descriptor.enforces_tag |= request_of(rank).descriptor.enforces_tag;
    for (int rank = 1; rank < size(); ++rank) {
      const Request other = request_of(rank);
      if (!same_request(first.descriptor, other.descriptor))
        return difference(sequence, part, first.descriptor, rank, other.descriptor);
    }
    if (first.descriptor.kind != CollectiveKind::send_recv) return {};
    for (int rank = 0; rank < size(); ++rank) {
      const Request mine = request_of(rank);
      if (mine.to >= 0) {
        if (const Request theirs = request_of(mine.to); theirs.from != rank)
          return unpaired_send(sequence, part, rank, mine, theirs);
      }
      if (mine.from >= 0) {
        if (const Request theirs = request_of(mine.from); theirs.to != rank)
          return unpaired_receive(sequence, part, rank, mine, theirs);
      }
    }
    return {};
  }

  void validate(const Call& call) const;
  void run_locally(const Call& call) const;
  void begin(Descriptor& descriptor);
  Receipt issue(const Request& request, CollectiveKind kind, std::span<const Call> calls);

  static std::string part_of_batch(std::size_t number);
  std::string heading(std::uint64_t sequence, std::string_view part) const;
  std::string named(int rank) const;
  std::string difference(std::uint64_t sequence, std::string_view part, const Descriptor& first, int rank,
                         const Descriptor& other) const;
  std::string unpaired_send(std::uint64_t sequence, std::string_view part, int rank, const Request& mine,
                            const Request& theirs) const;
  std::string unpaired_receive(std::uint64_t sequence, std::string_view part, int rank, const Request& mine,
                               const Request& theirs) const;

  std::shared_ptr<const RankContext> context_;
  std::string name_;
  std::uint64_t id_;
  std::vector<int> members_;
  int index_ = 0;
  std::size_t flight_place_ = 0;  ///< place of this group in the rank's flight record; only for several ranks
  std::uint32_t epoch_ = 0;
  std::uint64_t sequence_ = 0;  ///< of the next call in this epoch
};

}  // namespace shardproof::fabric
