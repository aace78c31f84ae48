// The functions of CUDA, cuBLAS, NCCL and CUPTI that the CUDA backend uses, as tables. The backend includes no header
// of these libraries. So it builds everywhere, and runs on any implementation of the tables. `libshardproof_cuda.so`
// fills them with the real libraries; the tests fill them with an implementation on the CPU. Each function does what
// the library's function of that name does, and returns that library's status codes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardproof::device::cuda {

struct KernelTable;  // harness/device/cuda/kernels/table.hpp
namespace bodies {
struct Bf16;  // harness/device/cuda/kernels/conversions.hpp
struct F16;
}  // namespace bodies

// Handles of the libraries. nullptr means the default stream, and no event.
using StreamHandle = void*;
using EventHandle = void*;
using BlasHandle = void*;
using CommHandle = void*;

/// A library's own status code; 0 is success in all of them.
using Status = int;

struct GpuProperties {
  char name[256];
  char uuid[48];  ///< `GPU-01234567-89ab-…`
  char bus_id[16];  ///< `0000:17:00.0`
  std::uint64_t memory_bytes;
  std::int32_t compute_major, compute_minor;
  std::int32_t multiprocessors;
  std::int32_t clock_khz, memory_clock_khz;  ///< The highest; 0: the library does not say.
  /// Bits per transfer, with two transfers per memory clock; 0: the library does not say.
  std::int32_t memory_bus_bits;
};

/// The link from one GPU to another. -1: unknown.
struct PeerProperties {
  std::int32_t can_access;  ///< 1: Kernels of one GPU may read and write the other's memory.
  std::int32_t performance_rank;  ///< CUDA's rank of the link: the lowest is the best.
  std::int32_t native_atomics;  ///< 1: Atomics over the link work as in the GPU's own memory.
  std::int32_t nvlink;  ///< 1: The link is NVLink.
};

/// Why clocks are lower than they could be, as NVML's own bits.
enum SlowedBy : std::uint32_t {
  slowed_by_power_cap = 0x4,
  slowed_by_hardware = 0x8,
  slowed_by_heat_software = 0x20,
  slowed_by_heat_hardware = 0x40,
  slowed_by_power_brake = 0x80,
};

/// The state of a GPU at the time of the query.
struct GpuState {
  std::int32_t clock_khz, memory_clock_khz;  ///< 0: unknown
  std::int64_t slowed_by;  ///< bits, also other bits than SlowedBy; -1: unknown
};

enum class CopyKind : std::int32_t { host_to_device, device_to_host, device_to_device };

struct CudaTable {
  Status not_ready;  ///< The status of a query for work that has not ended.
  Status (*driver_version)(int* version);  ///< 12040 for 12.4; 0: there is no driver.
  Status (*runtime_version)(int* version);
  Status (*device_count)(int* count);
  Status (*device_properties)(int device, GpuProperties* properties);
  Status (*peer_properties)(int device, int peer, PeerProperties* properties);
  Status (*device_state)(int device, GpuState* state);  ///< Returns success even if the state is unknown.
  Status (*set_device)(int device);

  /// It does not wait for the default stream. The name is for tools.
  Status (*stream_create)(StreamHandle* stream, const char* name);
  Status (*stream_destroy)(StreamHandle stream);
  Status (*stream_wait_event)(StreamHandle stream, EventHandle event);

  Status (*event_create)(EventHandle* event);  ///< with timing
  Status (*event_destroy)(EventHandle event);
  Status (*event_record)(EventHandle event, StreamHandle stream);
  Status (*event_query)(EventHandle event);
  Status (*event_synchronize)(EventHandle event);
  Status (*event_elapsed_ns)(std::int64_t* nanoseconds, EventHandle start, EventHandle end);

  Status (*malloc_async)(void** memory, std::size_t bytes, StreamHandle stream);
  Status (*free_async)(void* memory, StreamHandle stream);
  Status (*memset_async)(void* memory, int value, std::size_t bytes, StreamHandle stream);
  /// Reads host memory of `host_allocate` when the stream reaches the copy. Reads other host memory before it returns,
  /// and may wait for the stream to do so. Writes host memory before it returns.
  Status (*memcpy_async)(void* to, const void* from, std::size_t bytes, CopyKind kind, StreamHandle stream);
  /// Allocates pinned host memory, which kernels also see; they use the address `device`.
  Status (*host_allocate)(void** host, void** device, std::size_t bytes);
  Status (*host_free)(void* host);

  Status (*peek_at_last_error)();  ///< a kernel's failure is sticky
  const char* (*error_name)(Status status);
  const char* (*error_text)(Status status);
};

struct CublasTable {
  Status (*create)(BlasHandle* handle);
  Status (*destroy)(BlasHandle handle);
  Status (*set_stream)(BlasHandle handle, StreamHandle stream);
  /// Row-major c [m, n] = op(a) op(b) + beta * c, where op transposes if asked. `inner` is the length of the sums. No
  /// reduced precision.
  Status (*sgemm)(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner, const float* a,
                  const float* b, float beta, float* c);
  Status (*dgemm)(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner, const double* a,
                  const double* b, double beta, double* c);
  // In low precision: products, sums and beta * c in f32, then one rounding.
  Status (*bf16gemm)(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner,
                     const bodies::Bf16* a, const bodies::Bf16* b, float beta, bodies::Bf16* c);
  Status (*f16gemm)(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner,
                    const bodies::F16* a, const bodies::F16* b, float beta, bodies::F16* c);
  const char* (*error_name)(Status status);
};

/// ncclUniqueId.
struct UniqueId {
  char bytes[128];
};

/// NCCL's own numbers: ncclDataType_t and ncclRedOp_t.
enum class NcclType : std::int32_t { i8 = 0, u8 = 1, i32 = 2, i64 = 4, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
enum class NcclOp : std::int32_t { sum = 0, max = 2, min = 3, avg = 4 };

struct NcclTable {
  Status in_progress;  ///< A call on a non-blocking communicator has not ended.
  Status remote_error;  ///< a peer is gone
  Status (*version)(int* version);  ///< 22809 for 2.28.9
  Status (*get_unique_id)(UniqueId* id);
  /// Communicators never block: after each call, `comm_get_async_error` reports whether the call is over.
  Status (*comm_init_rank)(CommHandle* comm, int size, const UniqueId* id, int rank, const char* name);
  Status (*comm_get_async_error)(CommHandle comm, Status* state);
  Status (*comm_finalize)(CommHandle comm);
  Status (*comm_destroy)(CommHandle comm);
  Status (*comm_abort)(CommHandle comm);
  Status (*group_start)();
  Status (*group_end)();
  Status (*red_op_create_premul_sum)(NcclOp* op, double factor, NcclType type, CommHandle comm);
  Status (*red_op_destroy)(NcclOp op, CommHandle comm);
  // Counts are elements, as in NCCL. For all_gather and reduce_scatter they count one rank's part.
  Status (*all_gather)(const void* in, void* out, std::size_t count, NcclType type, CommHandle comm,
                       StreamHandle stream);
  Status (*reduce_scatter)(const void* in, void* out, std::size_t count, NcclType type, NcclOp op, CommHandle comm,
                           StreamHandle stream);
  Status (*all_reduce)(const void* in, void* out, std::size_t count, NcclType type, NcclOp op, CommHandle comm,
                       StreamHandle stream);
  Status (*broadcast)(const void* in, void* out, std::size_t count, NcclType type, int root, CommHandle comm,
                      StreamHandle stream);
  Status (*send)(const void* in, std::size_t count, NcclType type, int peer, CommHandle comm, StreamHandle stream);
  Status (*recv)(void* out, std::size_t count, NcclType type, int peer, CommHandle comm, StreamHandle stream);
  const char* (*error_text)(Status status);
  const char* (*last_error)(CommHandle comm);  ///< The last failure in words; never nullptr.
};

/// A kernel, copy or memset that ran on the GPU.
struct ActivityRecord {
  std::uint64_t id;  ///< The id that the launching thread had pushed last; 0: none.
  std::uint64_t stream;  ///< The library's own number of the stream.
  std::int64_t start_ns, end_ns;  ///< By the library's own clock; both 0: unknown.
};

/// CUPTI's records: what this process ran on the GPU, and when.
struct ActivityTable {
  Status (*start)();  ///< Records everything that is launched from here on.
  Status (*stop)();
  Status (*push_id)(std::uint64_t id);  ///< Launches of the calling thread have this id until `pop_id`.
  Status (*pop_id)();
  /// Returns records of work that has ended since the last flush, in any order, and how many records were lost for lack
  /// of memory. The table owns the array, until the next flush. The caller has waited for the work: this function does
  /// not wait.
  Status (*flush)(const ActivityRecord** records, std::size_t* count, std::size_t* dropped);
  const char* (*error_name)(Status status);
  const char* (*error_text)(Status status);
};

struct VendorTables {
  static constexpr std::uint32_t current_version = 4;
  std::uint32_t version;  ///< of this header
  std::uint32_t bytes;  ///< Of all tables, in the module that fills them: `vendor_table_bytes` of kernels/table.hpp.
  const char* name;  ///< `CUDA`, for messages
  bool is_exact;  ///< Its time is virtual: work takes what spin kernels say, and nothing else takes time.
  const CudaTable* cuda;
  const CublasTable* cublas;
  const NcclTable* nccl;
  const KernelTable* kernels;
  /// Loads the library at the first call, so a program that does not call it pays nothing. Returns nullptr, and sets
  /// `why`, if there is no usable library.
  const ActivityTable* (*activity)(const char** why) = nullptr;
};

/// The function that a module exports under this name. It returns the module's tables; or nullptr, and sets `why`.
using VendorFunction = const VendorTables* (*)(const char** why);
inline constexpr char vendor_function[] = "shardproof_vendor_tables";

}  // namespace shardproof::device::cuda
