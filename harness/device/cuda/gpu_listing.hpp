// Which GPUs does a backend reach, and by which versions of its libraries?
#pragma once

#include <filesystem>

#include "harness/device/cuda/vendor.hpp"
#include "harness/protocol/gpu_listing.hpp"

namespace shardproof::cuda {

/// Says why not, where a library refuses: a list without a version that ranks would need is none. `system`: where the kernel tells of devices.
GpuListing list_gpus(const VendorTables& vendor, const std::filesystem::path& system = "/sys");

}  // namespace shardproof::cuda
