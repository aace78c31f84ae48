// The tables of the CPU, but rank 1's GPU has a permanent error from its first all-reduce on. No rank notices it before
// the case has ended.
#include <cstdlib>
#include <string_view>

#include "harness/protocol/environment.hpp"
#include "tests/device/cuda/cpu_vendor.hpp"

namespace {

using namespace shardproof::device::cuda;

bool is_worn = false;  // a rank issues collectives from one thread

}  // namespace

extern "C" __attribute__((visibility("default"))) const VendorTables* shardproof_vendor_tables(const char**) {
  static NcclTable nccl = *cpu::vendor().nccl;
  static CudaTable cuda = *cpu::vendor().cuda;
  static VendorTables tables = cpu::vendor();
  tables.nccl = &nccl;
  tables.cuda = &cuda;
  const char* const rank = std::getenv(shardproof::protocol::environment::rank);
  if (rank == nullptr || std::string_view(rank) != "1") return &tables;
  nccl.all_reduce = [](auto... arguments) {
    is_worn = true;
    return cpu::vendor().nccl->all_reduce(arguments...);
  };
  constexpr Status launch_failure = 719;
  cuda.peek_at_last_error = []() -> Status { return is_worn ? launch_failure : 0; };
  return &tables;
}
