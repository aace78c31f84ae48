// The tables of the CPU, but for an abort that never returns.
#include <chrono>
#include <thread>

#include "tests/device/cuda/cpu_vendor.hpp"

extern "C" __attribute__((visibility("default"))) const shardproof::device::cuda::VendorTables*
shardproof_vendor_tables(const char**) {
  using namespace shardproof::device::cuda;
  static NcclTable nccl = *cpu::vendor().nccl;
  nccl.comm_abort = [](CommHandle) -> Status {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  };
  static VendorTables tables = cpu::vendor();
  tables.nccl = &nccl;
  return &tables;
}
