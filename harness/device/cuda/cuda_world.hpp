// One rank's part of a world of GPUs. It makes the platform of every scenario. Communicators last from one scenario to
// the next; it makes new ones after the old ones were aborted.
#pragma once

#include <memory>

#include "harness/device/cuda/gpu.hpp"
#include "harness/device/cuda/nccl_group.hpp"
#include "harness/device/platform.hpp"

namespace shardproof::device::cuda {

class CudaWorld final : public Platforms {
 public:
  /// `hosts` is the world's group in the harness' own fabric. `boards` makes this rank's board of each group.
  CudaWorld(const VendorTables& vendor, GpuContext context, std::shared_ptr<Group> hosts,
            std::shared_ptr<fabric::Boards> boards);

  std::unique_ptr<Platform> make(const CostModel& costs, const DeviceOptions& options) override;
  std::string objection(const CostModel& costs, const DeviceOptions& options) const override;
  std::string complaint() override { return gpu_.take_complaint(); }
  std::string defect() const override { return gpu_.defect(); }
  Gpu& gpu() { return gpu_; }

 private:
  void renew();

  Gpu gpu_;
  std::shared_ptr<Group> hosts_;
  std::shared_ptr<fabric::Boards> boards_;
  std::shared_ptr<NcclGroup> group_;  ///< nullptr before the first scenario
};

}  // namespace shardproof::device::cuda
