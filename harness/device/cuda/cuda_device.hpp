// A GPU as a Device: streams, events and stream-ordered memory of CUDA, our own kernels, and collectives of NCCL. It
// records the same facts as the simulated device. Events measure their times, or CUPTI does if the GPU keeps records.
// The GPU spins for the costs of a scenario: work takes at least as long as they say.
#pragma once

#include <memory>
#include <string>

#include "harness/device/cost_model.hpp"
#include "harness/device/cuda/gpu.hpp"
#include "harness/device/cuda/nccl_group.hpp"
#include "harness/device/device_options.hpp"
#include "harness/device/platform.hpp"

namespace shardproof::device::cuda {

/// The platform of one scenario, on a GPU that outlives it, with the collectives of `group`. The objects that it gave
/// out may outlive it. One host thread drives it. Its destructor waits for work in flight, and abandons work that does
/// not end.
///
/// Memory is filled with the bytes 0xFF when it is allocated, as on the simulated device. If the GPU keeps records, a
/// piece of work or a collective starts with its first operation on its stream, and ends with its last. Then
/// `take_recording` throws std::runtime_error if an operation is missing from the records.
std::unique_ptr<Platform> make_platform(Gpu& gpu, const CostModel& costs, const DeviceOptions& options,
                                        const std::shared_ptr<NcclGroup>& group);

/// Returns why no GPU can have these costs and options, or empty. It cannot make the host slower, or hide memory from
/// work.
std::string objection(const CostModel& costs, const DeviceOptions& options, const VendorTables& vendor);

}  // namespace shardproof::device::cuda
