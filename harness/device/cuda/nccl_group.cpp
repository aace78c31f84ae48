#include "harness/device/cuda/nccl_group.hpp"

#include <utility>

namespace shardproof::cuda {

NcclGroup::NcclGroup(std::shared_ptr<Group> hosts, std::shared_ptr<shm::SharedMemory> memory, std::unique_ptr<NcclComm> comm)
    : hosts_(std::move(hosts)), memory_(std::move(memory)), comm_(std::move(comm)) {}

const FabricCapabilities& NcclGroup::capabilities() {
  static constexpr FabricCapabilities promised{.rank_ordered = false, .pre_checked = false, .survives_abort = true, .multi_host = false};
  return promised;
}

std::shared_ptr<NcclGroup> NcclGroup::make(Gpu& gpu, std::shared_ptr<Group> hosts, std::shared_ptr<shm::SharedMemory> memory,
                                           const std::function<UniqueId()>& share_id) {
  std::unique_ptr<NcclComm> comm;
  if (hosts->size() > 1) {
    auto board = DescriptorBoard::make(*memory, *hosts);
    comm = NcclComm::make(gpu, *hosts, share_id(), std::move(board));
  }
  return std::shared_ptr<NcclGroup>(new NcclGroup(std::move(hosts), std::move(memory), std::move(comm)));
}

std::shared_ptr<NcclGroup> NcclGroup::split(int color, int key, std::string_view name) {
  // The hosts first: who asks for something else than the others hears of it there.
  std::shared_ptr<Group> part = hosts_->split(color, key, name);
  std::unique_ptr<NcclComm> comm;
  if (comm_ != nullptr) {
    const bool talks = part != nullptr && part->size() > 1;
    auto board = talks ? DescriptorBoard::make(*memory_, *part) : nullptr;
    // Who has nobody to talk to takes part all the same, and gets no communicator.
    comm = comm_->split(talks ? color : -1, key, talks ? part.get() : nullptr, std::move(board));
  }
  return part ? std::shared_ptr<NcclGroup>(new NcclGroup(std::move(part), memory_, std::move(comm))) : nullptr;
}

}  // namespace shardproof::cuda
