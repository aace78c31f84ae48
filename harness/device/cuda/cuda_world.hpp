// One rank's share of a world of GPUs: makes the platform of every scenario that is played, on communicators that last from one to the next,
// and makes new ones where the old ones had to be aborted.
#pragma once

#include <functional>
#include <memory>

#include "harness/device/cuda/cuda_device.hpp"
#include "harness/device/platform.hpp"

namespace shardproof::cuda {

class CudaWorld final : public Platforms {
 public:
  /// Hands the id that rank 0 of the world makes to every rank; `make` is called on rank 0 alone. `attempt` counts from 0, alike on all ranks.
  using ShareId = std::function<UniqueId(std::uint64_t attempt, const std::function<UniqueId()>& make)>;

  /// `hosts`: the world's group of the harness' own fabric; its ranks share `memory`.
  CudaWorld(const VendorTables& vendor, Surroundings surroundings, std::shared_ptr<Group> hosts, std::shared_ptr<shm::SharedMemory> memory,
            ShareId share_id);

  std::unique_ptr<Platform> make(const CostModel& costs) override;
  std::string objection(const CostModel& costs) const override { return CudaDevice::objection(costs, gpu_.vendor()); }
  bool is_exact() const override { return gpu_.vendor().is_exact; }
  Gpu& gpu() { return gpu_; }

 private:
  void renew();

  Gpu gpu_;
  std::shared_ptr<Group> hosts_;
  std::shared_ptr<shm::SharedMemory> memory_;
  ShareId share_id_;
  std::shared_ptr<NcclGroup> group_;  ///< nullptr before the first scenario
  std::uint64_t attempts_ = 0;
};

}  // namespace shardproof::cuda
