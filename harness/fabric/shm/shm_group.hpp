// ShmGroup is a group on the shm fabric. It implements the collectives as fills of slots and meetings.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/control/control_plane.hpp"
#include "harness/fabric/group.hpp"
#include "harness/fabric/shm/meeting.hpp"
#include "harness/fabric/shm/region.hpp"

namespace shardproof::fabric::shm {

/// One rank's side of a world. All groups of the rank share it.
struct RankContext {
  control::ControlPlane* control = nullptr;
  std::function<std::uint32_t()> epoch;
  std::function<control::Deadline(control::Deadline now)>
      give_up_at;  ///< the time at which a wait that begins now gives up
  int rank = 0;                      ///< in the world
  bool detect_deadlock = true;
  std::shared_ptr<SharedMemory> memory;
  /// At least 8 for each rank of the world, so that a slot holds an element for every rank.
  std::size_t slot_bytes = 0;
};

class ShmGroup final : public Group {
 public:
  /// `region` was created for Meeting::bytes of this group. It is null for a group of one rank. `id` is the same on all
  /// members and differs from the id of any other group of the world.
  ShmGroup(std::shared_ptr<const RankContext> context, std::string name, std::uint64_t id, std::vector<int> members,
           std::shared_ptr<Region> region);

  int rank() const override { return index_; }
  std::span<const int> members() const override { return members_; }
  const FabricCapabilities& capabilities() const override;
  std::string_view name() const override { return name_; }

  Receipt run(const Call& call) override;
  Receipt run_coalesced(std::span<const Call> calls) override;
  std::shared_ptr<Group> split(int color, int key, std::string_view name) override;

 private:
  void validate(const Call& call) const;
  void run_locally(const Call& call) const;
  void begin(Descriptor& descriptor);
  Receipt issue(const Request& request, CollectiveKind kind, std::span<const Call> calls);
  Receipt exchange(const Request& request, CollectiveKind kind, std::span<const Call> calls);
  /// Runs one meeting. The last rank to arrive calls `as_last` before the others go on.
  template <class Last> void meet(const Request& request, const Last& as_last);
  Verdict judge(std::size_t batched, std::size_t first_of_batch) const;
  template <class RequestOf> std::string mismatch_between(const RequestOf& request_of, std::string_view part) const;
  std::string late(const Request& request, std::chrono::nanoseconds waited) const;

  std::shared_ptr<const RankContext> context_;
  std::string name_;
  std::uint64_t id_;
  std::vector<int> members_;
  int index_ = 0;
  std::size_t flight_place_ = 0;  ///< place of this group in the rank's flight record; only where ranks meet
  std::optional<Meeting> meeting_;
  std::uint32_t epoch_ = 0;
  std::uint64_t sequence_ = 0;  ///< of the next call in this epoch
};

}  // namespace shardproof::fabric::shm
