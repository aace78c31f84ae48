// Lists the GPUs that a backend reaches, and the versions of its libraries.
#pragma once

#include <filesystem>

#include "harness/device/cuda/vendor.hpp"
#include "harness/protocol/gpu_listing.hpp"

namespace shardproof::device::cuda {

/// If a library refuses, the list has no GPUs and says why: a list without a version that ranks need is not valid.
/// `system` is the directory in which the kernel describes devices.
protocol::GpuListing list_gpus(const VendorTables& vendor, const std::filesystem::path& system = "/sys");

}  // namespace shardproof::device::cuda
