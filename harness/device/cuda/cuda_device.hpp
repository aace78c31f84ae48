// A GPU as a Device: streams, events and stream-ordered memory of CUDA, our own kernels, and collectives of NCCL. It
// records the same facts as the simulated device. Events measure their times, or CUPTI does if the GPU keeps records.
// The GPU spins for the costs of a scenario: work takes at least as long as they say.
#pragma once

#include <memory>
#include <optional>

#include "harness/device/cost_model.hpp"
#include "harness/device/cuda/gpu.hpp"
#include "harness/device/cuda/nccl_group.hpp"
#include "harness/device/device.hpp"
#include "harness/device/device_options.hpp"
#include "harness/device/platform.hpp"

namespace shardproof::cuda {

/// Made anew for every scenario, on a GPU that outlives it. The objects that it gave out may outlive it. One host
/// thread drives it.
///
/// Memory is filled with the bytes 0xFF when it is allocated, as on the simulated device. See `objection` for what it
/// does not offer.
class CudaDevice final : public Device {
 public:
  CudaDevice(Gpu& gpu, CostModel costs, DeviceOptions options);
  /// Waits for work in flight, and abandons work that does not end.
  ~CudaDevice() override;

  /// Returns why this device cannot have these costs and options, or empty. It cannot make the host slower, or hide
  /// memory from work.
  static std::string objection(const CostModel& costs, const DeviceOptions& options, const VendorTables& vendor);

  using Device::wait;

  Stream create_stream(StreamRole role, std::string_view name) override;
  void submit(Stream stream, Work work) override;
  Event record(Stream stream) override;
  void wait(Stream stream, Event event) override;
  void synchronize(Stream stream) override;
  void synchronize(Event event) override;
  void synchronize() override;
  std::shared_ptr<Storage> allocate(Stream stream, std::size_t bytes, MemoryClass memory,
                                    std::string_view label) override;
  void release(Stream stream, const std::shared_ptr<Storage>& storage) override;
  void release_to_cache(Stream stream, const std::shared_ptr<Storage>& storage) override;
  std::shared_ptr<Storage> adopt(Stream stream, std::byte* data, std::size_t bytes, MemoryClass memory,
                                 std::string_view label) override;
  void describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label) override;
  void host_access(std::string_view label, const std::vector<Tensor>& reads,
                   const std::vector<Tensor>& writes) override;
  Tensor to_host(const Tensor& tensor) override;
  void mark(std::string_view text) override;

  std::unique_ptr<Communicator> communicator(std::shared_ptr<NcclGroup> group);

  std::unique_ptr<StreamGate> gate();

  /// See Platform. If the GPU keeps records, a piece of work or a collective starts with its first operation on its
  /// stream, and ends with its last. Throws std::runtime_error if an operation is missing from the records.
  Recording take_recording();
  std::size_t live_bytes() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace shardproof::cuda
