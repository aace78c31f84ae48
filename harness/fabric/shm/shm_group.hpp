// ShmGroup is a group on the shm fabric. It implements the collectives as fills of slots and meetings.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/fabric/checked_group.hpp"
#include "harness/fabric/shm/meeting.hpp"
#include "harness/fabric/shm/region.hpp"

namespace shardproof::fabric::shm {

struct ShmContext : RankContext {
  std::shared_ptr<SharedMemory> memory;
  /// At least 8 for each rank of the world, so that a slot holds an element for every rank.
  std::size_t slot_bytes = 0;
};

class ShmGroup final : public CheckedGroup {
 public:
  /// `region` was created for Meeting::bytes of this group. It is null for a group of one rank. `id` is the same on all
  /// members and differs from the id of any other group of the world.
  ShmGroup(std::shared_ptr<const ShmContext> shared, std::string name, std::uint64_t id, std::vector<int> members,
           std::shared_ptr<Region> region);

  const FabricCapabilities& capabilities() const override;
  std::shared_ptr<Group> split(int color, int key, std::string_view name) override;

 private:
  void enter(std::uint32_t epoch) override;
  Receipt exchange(const Request& request, CollectiveKind kind, std::span<const Call> calls) override;
  /// Runs one meeting. The last rank to arrive calls `as_last` before the others go on.
  template <class Last> void meet(const Request& request, const Last& as_last);
  Verdict judge(std::size_t batched, std::size_t first_of_batch) const;
  std::string late(const Request& request, std::chrono::nanoseconds waited) const;

  std::shared_ptr<const ShmContext> shm_;
  std::optional<Meeting> meeting_;
};

}  // namespace shardproof::fabric::shm
