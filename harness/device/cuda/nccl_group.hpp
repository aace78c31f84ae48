// A group of ranks whose collectives NCCL runs. It has a communicator, and the harness' own group of the same ranks.
// Over that group, hosts agree on what NCCL does not agree on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "harness/device/cuda/nccl_comm.hpp"
#include "harness/fabric/boards.hpp"
#include "harness/fabric/group.hpp"

namespace shardproof::device::cuda {

class NcclGroup {
 public:
  /// Collective over `hosts`. A group of one rank has no peers, and no communicator.
  static std::shared_ptr<NcclGroup> make(Gpu& gpu, std::shared_ptr<Group> hosts,
                                         std::shared_ptr<fabric::Boards> boards);

  /// Sums come in any order. Descriptors are compared after the host has issued a call. A fresh communicator follows an
  /// aborted one.
  static const FabricCapabilities& capabilities();

  Group& hosts() const { return *hosts_; }
  bool is_gone() const { return comm_ != nullptr && comm_->is_gone(); }

  /// See NcclComm.
  std::uint64_t run(StreamHandle stream, const Collective& collective) { return comm_->run(stream, collective); }
  std::uint64_t run_coalesced(StreamHandle stream, std::span<const Collective> collectives) {
    return comm_->run_coalesced(stream, collectives);
  }
  /// The group as flight records name it. nullptr: a group of one rank.
  const std::shared_ptr<JoinedGroup>& joined() const { return joined_; }
  /// How many calls and collectives have got a number in this group.
  std::uint64_t issued() const { return comm_ == nullptr ? 0 : comm_->issued(); }
  /// Collective over the hosts of this group. Returns nullptr for a negative color. Each part is a separate
  /// communicator, not NCCL's split: NCCL cannot abort a split while it is being made.
  std::shared_ptr<NcclGroup> split(int color, int key, std::string_view name);

 private:
  NcclGroup(Gpu& gpu, std::shared_ptr<Group> hosts, std::uint64_t id, std::shared_ptr<fabric::Boards> boards,
            std::unique_ptr<NcclComm> comm);

  Gpu& gpu_;
  std::shared_ptr<Group> hosts_;
  std::shared_ptr<fabric::Boards> boards_;
  std::unique_ptr<NcclComm> comm_;
  std::shared_ptr<JoinedGroup> joined_;
};

}  // namespace shardproof::device::cuda
