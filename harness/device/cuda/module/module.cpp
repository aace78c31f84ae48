// The only symbol of the shared object: the tables of the real libraries, if there is a driver that they can use.
#include <cuda_runtime_api.h>

#include <string>

#include "harness/device/cuda/kernels/kernels.hpp"
#include "harness/device/cuda/kernels/table.hpp"
#include "harness/device/cuda/module/driver_objection.hpp"
#include "harness/device/cuda/module/tables.hpp"

namespace shardproof::device::cuda {

namespace {

DriverState look_at_driver(const CudaTable& cuda) {
  DriverState state;
  cuda.driver_version(&state.driver_version);
  cuda.runtime_version(&state.runtime_version);
  state.status = cuda.device_count(&state.gpus);
  if (state.status == cudaErrorNoDevice) state.status = 0, state.gpus = 0;
  state.status_name = cuda.error_name(state.status);
  state.status_text = cuda.error_text(state.status);
  return state;
}

}  // namespace

}  // namespace shardproof::device::cuda

extern "C" __attribute__((visibility("default"))) const shardproof::device::cuda::VendorTables*
shardproof_vendor_tables(const char** why) {
  using namespace shardproof;
  using namespace shardproof::device::cuda;
  // static: the caller may keep the text
  static const std::string objection =
      device::cuda::driver_objection(device::cuda::look_at_driver(device::cuda::cuda_table()));
  if (!objection.empty()) {
    *why = objection.c_str();
    return nullptr;
  }
  static const device::cuda::VendorTables tables{.version = device::cuda::VendorTables::current_version,
                                                 .bytes = device::cuda::vendor_table_bytes,
                                                 .name = "CUDA",
                                                 .is_exact = false,
                                                 .cuda = &device::cuda::cuda_table(),
                                                 .cublas = &device::cuda::cublas_table(),
                                                 .nccl = &device::cuda::nccl_table(),
                                                 .kernels = &device::cuda::gpu_kernel_table(),
                                                 .activity = device::cuda::activity_table};
  return &tables;
}
