// A group of ranks as NCCL runs its collectives: the communicator, and beside it the harness' own group of the same ranks, over which hosts
// agree on what NCCL does not agree on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "harness/device/cuda/nccl_comm.hpp"
#include "harness/fabric/group.hpp"

namespace shardproof::cuda {

class NcclGroup {
 public:
  /// Collective over `hosts`, the ranks of a world, which share `memory`. A group of one rank has nobody to talk to, and no communicator.
  static std::shared_ptr<NcclGroup> make(Gpu& gpu, std::shared_ptr<Group> hosts, std::shared_ptr<shm::SharedMemory> memory,
                                         const std::function<UniqueId()>& share_id);

  /// Sums come in any order, descriptors are compared behind the host, and a fresh communicator follows an aborted one.
  static const FabricCapabilities& capabilities();

  Group& hosts() const { return *hosts_; }
  bool is_gone() const { return comm_ != nullptr && comm_->is_gone(); }

  /// See NcclComm::run.
  std::uint64_t run(StreamHandle stream, const Collective& collective) { return comm_->run(stream, collective); }
  /// How many it has been asked for.
  std::uint64_t issued() const { return comm_ == nullptr ? 0 : comm_->issued(); }
  /// Collective over the hosts of this group. nullptr for a negative color.
  std::shared_ptr<NcclGroup> split(int color, int key, std::string_view name);

 private:
  NcclGroup(std::shared_ptr<Group> hosts, std::shared_ptr<shm::SharedMemory> memory, std::unique_ptr<NcclComm> comm);

  std::shared_ptr<Group> hosts_;
  std::shared_ptr<shm::SharedMemory> memory_;
  std::unique_ptr<NcclComm> comm_;
};

}  // namespace shardproof::cuda
