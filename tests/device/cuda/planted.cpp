#include "tests/device/cuda/planted.hpp"

#include <string_view>

#include "tests/device/cuda/cpu_launcher.hpp"
#include "tests/device/cuda/cpu_runtime.hpp"
#include "tests/device/cuda/cpu_vendor.hpp"

// clang-format off
// The functions of the tables that return a status.
#define SHARDPROOF_CUDA_FUNCTIONS(X) \
  X(driver_version) X(runtime_version) X(device_count) X(device_properties) X(peer_properties) \
  X(device_state) X(set_device) X(stream_create) X(stream_destroy) X(stream_wait_event) \
  X(event_create) X(event_destroy) X(event_record) X(event_query) X(event_synchronize) \
  X(event_elapsed_ns) X(malloc_async) X(free_async) X(memset_async) X(memcpy_async) \
  X(host_allocate) X(host_free) X(peek_at_last_error)
#define SHARDPROOF_CUBLAS_FUNCTIONS(X) X(create) X(destroy) X(set_stream) X(sgemm) X(dgemm) X(bf16gemm) X(f16gemm)
#define SHARDPROOF_NCCL_FUNCTIONS(X) \
  X(version) X(get_unique_id) X(comm_init_rank) X(comm_get_async_error) X(comm_finalize) \
  X(comm_destroy) X(comm_abort) X(group_start) X(group_end) X(red_op_create_premul_sum) \
  X(red_op_destroy) X(all_gather) X(reduce_scatter) X(all_reduce) X(broadcast) X(send) X(recv)
#define SHARDPROOF_ACTIVITY_FUNCTIONS(X) X(start) X(stop) X(push_id) X(pop_id) X(flush)
// clang-format on

namespace shardproof::device::cuda::cpu {

namespace {

thread_local std::optional<Planted> planted;
thread_local bool has_come = false;
thread_local std::map<std::string, int> counted;

/// The status of a call that is to fail.
std::optional<Status> due(const char* function) {
  const int call = ++counted[function];
  if (!planted || has_come || planted->function != function || planted->call != call) return std::nullopt;
  has_come = true;
  return planted->status;
}

/// A call that releases something does its work and then fails. Otherwise it would leak.
bool gives_back(std::string_view function) {
  return function.ends_with("_destroy") || function.ends_with("_free") || function == "destroy" ||
         function == "free_async" || function == "stop" || function == "pop_id";
}

template <auto Member> struct Fragile;

#define SHARDPROOF_FRAGILE(Table, table)                                                         \
  template <class... Arguments, Status (*Table::*Member)(Arguments...)> struct Fragile<Member> { \
    template <const char* const* name> static Status call(Arguments... arguments) {              \
      if (const auto status = due(*name)) {                                                      \
        if (gives_back(*name)) (table.*Member)(arguments...);                                    \
        return *status;                                                                          \
      }                                                                                          \
      return (table.*Member)(arguments...);                                                      \
    }                                                                                            \
  };
SHARDPROOF_FRAGILE(CudaTable, (*vendor().cuda))
SHARDPROOF_FRAGILE(CublasTable, (*vendor().cublas))
SHARDPROOF_FRAGILE(NcclTable, (*vendor().nccl))
SHARDPROOF_FRAGILE(ActivityTable, activity())
#undef SHARDPROOF_FRAGILE

#define SHARDPROOF_NAME(function) constexpr const char* function = #function;
namespace names {
SHARDPROOF_CUDA_FUNCTIONS(SHARDPROOF_NAME)
SHARDPROOF_CUBLAS_FUNCTIONS(SHARDPROOF_NAME)
SHARDPROOF_NCCL_FUNCTIONS(SHARDPROOF_NAME)
SHARDPROOF_ACTIVITY_FUNCTIONS(SHARDPROOF_NAME)
}  // namespace names
#undef SHARDPROOF_NAME

struct FragileLoops : Loops {
  template <class Body> static Status launch(const Body& body, std::int64_t count, StreamHandle stream) {
    if (const auto status = due("launch")) return *status;
    return Loops::launch(body, count, stream);
  }
  static Status spin(std::int64_t ns, std::int64_t cap_ns, const std::uint32_t* abort_flag, StreamHandle stream) {
    if (const auto status = due("launch")) return *status;
    return Loops::spin(ns, cap_ns, abort_flag, stream);
  }
  static Status warm_up() {
    if (const auto status = due("warm_up")) return *status;
    return Loops::warm_up();
  }
};

const ActivityTable& fragile_activity() {
  static const ActivityTable table = [] {
    ActivityTable made = activity();
#define SHARDPROOF_WRAP(function) made.function = &Fragile<&ActivityTable::function>::call<&names::function>;
    SHARDPROOF_ACTIVITY_FUNCTIONS(SHARDPROOF_WRAP)
#undef SHARDPROOF_WRAP
    return made;
  }();
  return table;
}

}  // namespace

const VendorTables& fragile_vendor() {
  static const CudaTable cuda = [] {
    CudaTable table = *vendor().cuda;
#define SHARDPROOF_WRAP(function) table.function = &Fragile<&CudaTable::function>::call<&names::function>;
    SHARDPROOF_CUDA_FUNCTIONS(SHARDPROOF_WRAP)
#undef SHARDPROOF_WRAP
    return table;
  }();
  static const CublasTable cublas = [] {
    CublasTable table = *vendor().cublas;
#define SHARDPROOF_WRAP(function) table.function = &Fragile<&CublasTable::function>::call<&names::function>;
    SHARDPROOF_CUBLAS_FUNCTIONS(SHARDPROOF_WRAP)
#undef SHARDPROOF_WRAP
    return table;
  }();
  static const NcclTable nccl = [] {
    NcclTable table = *vendor().nccl;
#define SHARDPROOF_WRAP(function) table.function = &Fragile<&NcclTable::function>::call<&names::function>;
    SHARDPROOF_NCCL_FUNCTIONS(SHARDPROOF_WRAP)
#undef SHARDPROOF_WRAP
    return table;
  }();
  static constexpr KernelTable kernels = kernel_table<FragileLoops>();
  static const VendorTables tables = [] {
    VendorTables made = vendor();
    made.cuda = &cuda;
    made.cublas = &cublas;
    made.nccl = &nccl;
    made.kernels = &kernels;
    made.activity = [](const char**) { return &fragile_activity(); };
    return made;
  }();
  return tables;
}

void plant(std::optional<Planted> failure) {
  planted = std::move(failure);
  has_come = false;
  counted.clear();
}

bool has_failed() { return has_come; }

const std::map<std::string, int>& calls() { return counted; }

}  // namespace shardproof::device::cuda::cpu
