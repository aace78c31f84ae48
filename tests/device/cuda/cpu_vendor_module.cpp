// The tables of the CPU as a module that a rank loads in place of the real one.
#include "tests/device/cuda/cpu_vendor.hpp"

extern "C" __attribute__((visibility("default"))) const shardproof::device::cuda::VendorTables*
shardproof_vendor_tables(const char**) {
  return &shardproof::device::cuda::cpu::vendor();
}
