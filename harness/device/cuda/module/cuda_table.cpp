#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

#include "harness/device/cuda/module/nvml.hpp"
#include "harness/device/cuda/module/tables.hpp"

namespace shardproof::device::cuda {

namespace {

cudaStream_t native_stream(StreamHandle stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t native_event(EventHandle event) { return static_cast<cudaEvent_t>(event); }

// The runtime keeps an error until a call fetches it, even for a query of work that has not ended. The next kernel
// launch would then report that error. So this function fetches it, and the caller gets it at once. An error that broke
// the context stays: every later call reports it again.
Status to_status(cudaError_t status) {
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  return status;
}

Status driver_version(int* version) { return to_status(cudaDriverGetVersion(version)); }
Status runtime_version(int* version) { return to_status(cudaRuntimeGetVersion(version)); }
Status device_count(int* count) { return to_status(cudaGetDeviceCount(count)); }

std::int32_t attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  return to_status(cudaDeviceGetAttribute(&value, which, device)) == cudaSuccess ? value : 0;
}

Status device_properties(int device, GpuProperties* properties) {
  cudaDeviceProp found{};
  if (const Status status = to_status(cudaGetDeviceProperties(&found, device)); status != cudaSuccess) return status;
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "%s", found.name);
  const auto byte = [&](int i) { return static_cast<unsigned>(static_cast<unsigned char>(found.uuid.bytes[i])); };
  std::snprintf(properties->uuid, sizeof properties->uuid,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", byte(0), byte(1), byte(2),
                byte(3), byte(4), byte(5), byte(6), byte(7), byte(8), byte(9), byte(10), byte(11), byte(12), byte(13),
                byte(14), byte(15));
  if (const Status status = to_status(cudaDeviceGetPCIBusId(properties->bus_id, sizeof properties->bus_id, device));
      status != cudaSuccess)
    return status;
  properties->memory_bytes = found.totalGlobalMem;
  properties->compute_major = found.major;
  properties->compute_minor = found.minor;
  properties->multiprocessors = found.multiProcessorCount;
  properties->clock_khz = attribute(cudaDevAttrClockRate, device);
  properties->memory_clock_khz = attribute(cudaDevAttrMemoryClockRate, device);
  properties->memory_bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, device);
  return cudaSuccess;
}

/// The UUID in NVML's form; empty: there is no such GPU.
std::string uuid_of(int device) {
  GpuProperties properties{};
  return device_properties(device, &properties) == cudaSuccess ? properties.uuid : "";
}

/// The first caller loads NVML; ranks never call this.
const Nvml& nvml() {
  static const Nvml loaded("libnvidia-ml.so.1");
  return loaded;
}

Status peer_properties(int device, int peer, PeerProperties* properties) {
  *properties = {.can_access = -1, .performance_rank = -1, .native_atomics = -1, .nvlink = -1};
  int reaches = 0;
  if (const Status status = to_status(cudaDeviceCanAccessPeer(&reaches, device, peer)); status != cudaSuccess)
    return status;
  properties->can_access = reaches;
  const auto ask = [&](cudaDeviceP2PAttr which) {
    int value = -1;
    return to_status(cudaDeviceGetP2PAttribute(&value, which, device, peer)) == cudaSuccess ? value : -1;
  };
  properties->performance_rank = ask(cudaDevP2PAttrPerformanceRank);
  properties->native_atomics = ask(cudaDevP2PAttrNativeAtomicSupported);
  properties->nvlink = nvml().nvlink(uuid_of(device), uuid_of(peer));
  return cudaSuccess;
}

Status device_state(int device, GpuState* state) {
  *state = nvml().state(uuid_of(device));
  return cudaSuccess;
}

// By default, a pool returns free memory to the driver at each synchronization, and takes it again at the next
// allocation. Both would add to measured times. A pool may also make an allocation wait for another stream's release.
// Only the engine may order waits: otherwise a gate would hold work that the engine did not put after it.
void keep_memory(int device) {
  cudaMemPool_t pool = nullptr;
  // no pool: cudaMallocAsync will report it
  if (to_status(cudaDeviceGetDefaultMemPool(&pool, device)) != cudaSuccess) return;
  int no = 0;
  to_status(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &no));
  std::uint64_t threshold = 0;
  if (to_status(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold)) != cudaSuccess) return;
  if (threshold == std::numeric_limits<std::uint64_t>::max()) return;
  threshold = std::numeric_limits<std::uint64_t>::max();
  to_status(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
}

Status set_device(int device) {
  const Status status = to_status(cudaSetDevice(device));
  if (status == cudaSuccess) keep_memory(device);
  return status;
}

Status stream_create(StreamHandle* stream, const char* name) {
  cudaStream_t made = nullptr;
  if (const Status status = to_status(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking)); status != cudaSuccess)
    return status;
  nvtxNameCudaStreamA(made, name);
  *stream = made;
  return cudaSuccess;
}

Status stream_destroy(StreamHandle stream) { return to_status(cudaStreamDestroy(native_stream(stream))); }

Status stream_wait_event(StreamHandle stream, EventHandle event) {
  return to_status(cudaStreamWaitEvent(native_stream(stream), native_event(event), cudaEventWaitDefault));
}

Status event_create(EventHandle* event) {
  cudaEvent_t made = nullptr;
  const Status status = to_status(cudaEventCreateWithFlags(&made, cudaEventDefault));
  if (status == cudaSuccess) *event = made;
  return status;
}

Status event_destroy(EventHandle event) { return to_status(cudaEventDestroy(native_event(event))); }
Status event_record(EventHandle event, StreamHandle stream) {
  return to_status(cudaEventRecord(native_event(event), native_stream(stream)));
}
Status event_query(EventHandle event) { return to_status(cudaEventQuery(native_event(event))); }
Status event_synchronize(EventHandle event) { return to_status(cudaEventSynchronize(native_event(event))); }

Status event_elapsed_ns(std::int64_t* nanoseconds, EventHandle start, EventHandle end) {
  float milliseconds = 0;
  const Status status = to_status(cudaEventElapsedTime(&milliseconds, native_event(start), native_event(end)));
  if (status == cudaSuccess) *nanoseconds = std::llround(static_cast<double>(milliseconds) * 1e6);
  return status;
}

Status malloc_async(void** memory, std::size_t bytes, StreamHandle stream) {
  return to_status(cudaMallocAsync(memory, bytes, native_stream(stream)));
}

Status free_async(void* memory, StreamHandle stream) { return to_status(cudaFreeAsync(memory, native_stream(stream))); }

Status memset_async(void* memory, int value, std::size_t bytes, StreamHandle stream) {
  return to_status(cudaMemsetAsync(memory, value, bytes, native_stream(stream)));
}

cudaMemcpyKind native_kind(CopyKind kind) {
  switch (kind) {
    case CopyKind::host_to_device: return cudaMemcpyHostToDevice;
    case CopyKind::device_to_host: return cudaMemcpyDeviceToHost;
    case CopyKind::device_to_device: return cudaMemcpyDeviceToDevice;
  }
  return cudaMemcpyDefault;
}

// CUDA stages pageable memory, and so has read it when this returns. A large copy may wait for its turn on the stream
// to do so.
Status memcpy_async(void* to, const void* from, std::size_t bytes, CopyKind kind, StreamHandle stream) {
  const Status status = to_status(cudaMemcpyAsync(to, from, bytes, native_kind(kind), native_stream(stream)));
  if (status != cudaSuccess || kind != CopyKind::device_to_host) return status;
  // If the GPU reaches pageable memory by itself, CUDA stages nothing, and the copy could still be in flight.
  return to_status(cudaStreamSynchronize(native_stream(stream)));
}

Status host_allocate(void** host, void** device, std::size_t bytes) {
  void* memory = nullptr;
  if (const Status status = to_status(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
      status != cudaSuccess) {
    return status;
  }
  std::memset(memory, 0, bytes);
  if (const Status status = to_status(cudaHostGetDevicePointer(device, memory, 0)); status != cudaSuccess) {
    to_status(cudaFreeHost(memory));
    return status;
  }
  *host = memory;
  return cudaSuccess;
}

Status host_free(void* host) { return to_status(cudaFreeHost(host)); }

// Every call reports an error that broke the context, even a call that has nothing to do.
Status peek_at_last_error() {
  const cudaError_t status = cudaPeekAtLastError();
  return status == cudaSuccess ? to_status(cudaFree(nullptr)) : status;
}

const char* error_name(Status status) { return cudaGetErrorName(static_cast<cudaError_t>(status)); }
const char* error_text(Status status) { return cudaGetErrorString(static_cast<cudaError_t>(status)); }

static_assert(cudaSuccess == 0);

}  // namespace

const CudaTable& cuda_table() {
  static constexpr CudaTable table{.not_ready = cudaErrorNotReady,
                                   .driver_version = driver_version,
                                   .runtime_version = runtime_version,
                                   .device_count = device_count,
                                   .device_properties = device_properties,
                                   .peer_properties = peer_properties,
                                   .device_state = device_state,
                                   .set_device = set_device,
                                   .stream_create = stream_create,
                                   .stream_destroy = stream_destroy,
                                   .stream_wait_event = stream_wait_event,
                                   .event_create = event_create,
                                   .event_destroy = event_destroy,
                                   .event_record = event_record,
                                   .event_query = event_query,
                                   .event_synchronize = event_synchronize,
                                   .event_elapsed_ns = event_elapsed_ns,
                                   .malloc_async = malloc_async,
                                   .free_async = free_async,
                                   .memset_async = memset_async,
                                   .memcpy_async = memcpy_async,
                                   .host_allocate = host_allocate,
                                   .host_free = host_free,
                                   .peek_at_last_error = peek_at_last_error,
                                   .error_name = error_name,
                                   .error_text = error_text};
  return table;
}

}  // namespace shardproof::device::cuda
