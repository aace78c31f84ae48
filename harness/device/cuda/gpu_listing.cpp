#include "harness/device/cuda/gpu_listing.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace shardproof::cuda {

namespace {

void check_listing(Status status, const char* operation, const CudaTable& cuda) {
  if (status == 0) return;
  throw std::runtime_error(fmt::format("{}: {} ({}), {}", operation, cuda.error_name(status), status, cuda.error_text(status)));
}

GpuInfo look_at(int index, const CudaTable& cuda) {
  GpuProperties properties{};
  check_listing(cuda.device_properties(index, &properties), "cudaGetDeviceProperties", cuda);
  return {.index = index,
          .uuid = properties.uuid,
          .name = properties.name,
          .bus_id = properties.bus_id,
          .memory_bytes = properties.memory_bytes,
          .compute_major = properties.compute_major,
          .compute_minor = properties.compute_minor,
          .multiprocessors = properties.multiprocessors,
          .clock_khz = properties.clock_khz,
          .memory_clock_khz = properties.memory_clock_khz};
}

}  // namespace

GpuListing list_gpus(const VendorTables& vendor) {
  const CudaTable& cuda = *vendor.cuda;
  GpuListing listing{.backend = vendor.name, .is_exact = vendor.is_exact};
  try {
    check_listing(cuda.runtime_version(&listing.runtime), "cudaRuntimeGetVersion", cuda);
    check_listing(cuda.driver_version(&listing.driver), "cudaDriverGetVersion", cuda);
    if (listing.driver == 0) throw std::runtime_error("there is no driver: no libcuda.so.1 can be loaded");
    if (const Status status = vendor.nccl->version(&listing.nccl); status != 0)
      throw std::runtime_error(fmt::format("ncclGetVersion: {} ({})", vendor.nccl->error_text(status), status));
    int count = 0;
    check_listing(cuda.device_count(&count), "cudaGetDeviceCount", cuda);
    for (int index = 0; index < count; ++index) listing.gpus.push_back(look_at(index, cuda));
    const char* why = "the backend has nothing to do with CUPTI";
    if (vendor.activity == nullptr || vendor.activity(&why) == nullptr) listing.why_no_records = why;
    if (count == 0) listing.why_none = "the driver shows none";
  } catch (const std::exception& error) {
    listing.gpus.clear();
    listing.why_none = error.what();
  }
  return listing;
}

}  // namespace shardproof::cuda
