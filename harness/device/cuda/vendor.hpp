// All that the CUDA backend uses of CUDA, cuBLAS, NCCL and CUPTI, as tables of functions: the backend itself includes no header of theirs,
// is built everywhere, and runs on whatever fills these tables. `libshardproof_cuda.so` fills them with the real libraries; the tests with an
// implementation on the CPU. Functions mean what the libraries' functions of that name mean, and return their status codes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardproof::cuda {

struct KernelTable;  // harness/device/cuda/kernels/table.hpp
namespace bodies {
struct Bf16;  // harness/device/cuda/kernels/conversions.hpp
struct F16;
}  // namespace bodies

// Handles of the libraries; nullptr is the default stream and no event.
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
  std::int32_t clock_khz, memory_clock_khz;  ///< the highest; 0: the library does not say
  std::int32_t memory_bus_bits;  ///< twice a clock of memory it carries so much; 0: the library does not say
};

/// From one GPU to another. -1: unknown.
struct PeerProperties {
  std::int32_t can_access;  ///< 1: kernels of the one may read and write the other's memory
  std::int32_t performance_rank;  ///< of the link, as CUDA ranks them: the lowest is the best
  std::int32_t native_atomics;  ///< 1: over the link, as in memory of its own
  std::int32_t nvlink;  ///< 1: it is one
};

/// Why clocks are not what they could be, as bits: NVML's own.
enum SlowedBy : std::uint32_t {
  slowed_by_power_cap = 0x4,
  slowed_by_hardware = 0x8,
  slowed_by_heat_software = 0x20,
  slowed_by_heat_hardware = 0x40,
  slowed_by_power_brake = 0x80,
};

/// At the moment of asking.
struct GpuState {
  std::int32_t clock_khz, memory_clock_khz;  ///< 0: unknown
  std::int64_t slowed_by;  ///< bits, also others than SlowedBy; -1: unknown
};

enum class CopyKind : std::int32_t { host_to_device, device_to_host, device_to_device };

struct CudaTable {
  Status not_ready;  ///< what a query returns of work that has not ended
  Status (*driver_version)(int* version);  ///< 12040 for 12.4; 0: there is no driver
  Status (*runtime_version)(int* version);
  Status (*device_count)(int* count);
  Status (*device_properties)(int device, GpuProperties* properties);
  Status (*peer_properties)(int device, int peer, PeerProperties* properties);
  Status (*device_state)(int device, GpuState* state);  ///< success also where nothing of it is known
  Status (*set_device)(int device);

  Status (*stream_create)(StreamHandle* stream, const char* name);  ///< does not wait for the default stream; the name is for tools
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
  /// Host memory of `host_allocate` is read when the stream comes to it; other host memory before this returns, for which it may wait for the
  /// stream. Host memory is written before this returns.
  Status (*memcpy_async)(void* to, const void* from, std::size_t bytes, CopyKind kind, StreamHandle stream);
  /// Pinned host memory, which kernels see as well: `device` is their address of it.
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
  /// Row-major c [m, n] = op(a) op(b) + beta * c, op transposes where asked; `inner` is the length of the sums. No reduced precision.
  Status (*sgemm)(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner, const float* a, const float* b,
                  float beta, float* c);
  Status (*dgemm)(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner, const double* a, const double* b,
                  double beta, double* c);
  // In low precision: products and sums in f32, beta * c too, and one rounding.
  Status (*bf16gemm)(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner, const bodies::Bf16* a,
                     const bodies::Bf16* b, float beta, bodies::Bf16* c);
  Status (*f16gemm)(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner, const bodies::F16* a,
                    const bodies::F16* b, float beta, bodies::F16* c);
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
  Status in_progress;  ///< of a communicator that does not block
  Status remote_error;  ///< a peer is gone
  Status (*version)(int* version);  ///< 22809 for 2.28.9
  Status (*get_unique_id)(UniqueId* id);
  /// Communicators never block: after each call on one, `comm_get_async_error` says when it is over.
  Status (*comm_init_rank)(CommHandle* comm, int size, const UniqueId* id, int rank, const char* name);
  Status (*comm_get_async_error)(CommHandle comm, Status* state);
  Status (*comm_finalize)(CommHandle comm);
  Status (*comm_destroy)(CommHandle comm);
  Status (*comm_abort)(CommHandle comm);
  Status (*group_start)();
  Status (*group_end)();
  Status (*red_op_create_premul_sum)(NcclOp* op, double factor, NcclType type, CommHandle comm);
  Status (*red_op_destroy)(NcclOp op, CommHandle comm);
  // Counts are elements, as in NCCL: of one rank's part in all_gather and reduce_scatter.
  Status (*all_gather)(const void* in, void* out, std::size_t count, NcclType type, CommHandle comm, StreamHandle stream);
  Status (*reduce_scatter)(const void* in, void* out, std::size_t count, NcclType type, NcclOp op, CommHandle comm, StreamHandle stream);
  Status (*all_reduce)(const void* in, void* out, std::size_t count, NcclType type, NcclOp op, CommHandle comm, StreamHandle stream);
  Status (*broadcast)(const void* in, void* out, std::size_t count, NcclType type, int root, CommHandle comm, StreamHandle stream);
  Status (*send)(const void* in, std::size_t count, NcclType type, int peer, CommHandle comm, StreamHandle stream);
  Status (*recv)(void* out, std::size_t count, NcclType type, int peer, CommHandle comm, StreamHandle stream);
  const char* (*error_text)(Status status);
  const char* (*last_error)(CommHandle comm);  ///< in words, of whatever went wrong last; never nullptr
};

/// A kernel, a copy or a memset, as it ran on the GPU.
struct ActivityRecord {
  std::uint64_t id;  ///< what the thread that launched it had pushed last; 0: nothing
  std::uint64_t stream;  ///< the library's own number of it
  std::int64_t start_ns, end_ns;  ///< by a clock of the library's own; both 0: it could not tell
};

/// What the GPU of this process ran when, as CUPTI records it.
struct ActivityTable {
  Status (*start)();  ///< what is launched from here on is recorded
  Status (*stop)();
  Status (*push_id)(std::uint64_t id);  ///< what the calling thread launches is of this id, until it is popped
  Status (*pop_id)();
  /// What has ended since the last flush, in any order, and how many records were lost for want of memory. The array is the table's own,
  /// until the next flush. Whoever flushes has waited for the work: this does not.
  Status (*flush)(const ActivityRecord** records, std::size_t* count, std::size_t* dropped);
  const char* (*error_name)(Status status);
  const char* (*error_text)(Status status);
};

struct VendorTables {
  static constexpr std::uint32_t current_version = 4;
  std::uint32_t version;  ///< of this header
  std::uint32_t bytes;  ///< of all tables, as whoever fills them has them: `vendor_table_bytes` of kernels/table.hpp
  const char* name;  ///< `CUDA`, for messages
  bool is_exact;  ///< its time is virtual: work takes what spin kernels say, and nothing else takes any
  const CudaTable* cuda;
  const CublasTable* cublas;
  const NcclTable* nccl;
  const KernelTable* kernels;
  /// Looks for the library when it is first asked, and so costs nobody anything who does not ask. nullptr, and why: there is none here.
  const ActivityTable* (*activity)(const char** why) = nullptr;
};

/// What a module exports, by this name: its tables, or nullptr and why.
using VendorFunction = const VendorTables* (*)(const char** why);
inline constexpr char vendor_function[] = "shardproof_vendor_tables";

}  // namespace shardproof::cuda
