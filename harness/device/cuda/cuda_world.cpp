#include "harness/device/cuda/cuda_world.hpp"

#include <array>
#include <span>
#include <utility>

#include "harness/device/cuda/cuda_device.hpp"
#include "harness/device/imagined_communicator.hpp"

namespace shardproof::device::cuda {

CudaWorld::CudaWorld(const VendorTables& vendor, GpuContext context, std::shared_ptr<Group> hosts,
                     std::shared_ptr<fabric::Boards> boards)
    : gpu_(vendor, std::move(context)), hosts_(std::move(hosts)), boards_(std::move(boards)) {}

std::unique_ptr<Platform> CudaWorld::make(const CostModel& costs, const DeviceOptions& options) {
  // A rank may have aborted its communicator in a case that passed on other ranks. Then all ranks need a new one.
  const bool is_usable = group_ != nullptr && !group_->is_gone();
  const std::array<std::int64_t, 1> needs_new{is_usable ? 0 : 1};
  const Tensor any = hosts_->all_reduce(Tensor::of<std::int64_t>({1}, needs_new), ReduceOp::max, "communicators");
  if (any.values<std::int64_t>()[0] != 0) renew();
  return make_platform(gpu_, costs, options, group_);
}

std::string CudaWorld::objection(const CostModel& costs, const DeviceOptions& options) const {
  const std::string why = objection_to_imagined(options, hosts_->size());
  return why.empty() ? cuda::objection(costs, options, gpu_.vendor()) : why;
}

void CudaWorld::renew() {
  if (group_ != nullptr && !group_->is_gone()) gpu_.abandon();  // its peers are gone, so it cannot be finalized
  group_.reset();
  group_ = NcclGroup::make(gpu_, hosts_, boards_);
}

}  // namespace shardproof::device::cuda
