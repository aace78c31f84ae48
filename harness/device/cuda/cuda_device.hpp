// A GPU as a device: streams, events and stream-ordered memory of CUDA, kernels of our own, collectives of NCCL. The same facts are recorded
// as on the simulated device; their times are measured with events, or are CUPTI's where the GPU keeps records. Costs of a scenario are
// spun: work takes at least as long as they say.
#pragma once

#include <memory>
#include <optional>

#include "harness/device/cost_model.hpp"
#include "harness/device/cuda/gpu.hpp"
#include "harness/device/cuda/nccl_group.hpp"
#include "harness/device/device.hpp"
#include "harness/device/platform.hpp"

namespace shardproof::cuda {

/// Fresh for every scenario that is played, on a GPU that outlives it; what it gave out may outlive it, too. One host thread drives it.
///
/// Memory is filled with the bytes 0xFF when it is allocated, as on the simulated device. Not offered: see `objection`.
class CudaDevice final : public Device {
 public:
  CudaDevice(Gpu& gpu, CostModel costs);
  /// Waits for what is under way, or abandons it where that does not end.
  ~CudaDevice() override;

  /// Why these costs cannot be had on this device, or empty: hosts and the memory of a GPU are what they are.
  static std::string objection(const CostModel& costs, const VendorTables& vendor);

  using Device::wait;

  Stream create_stream(StreamRole role, std::string_view name) override;
  void submit(Stream stream, Work work) override;
  Event record(Stream stream) override;
  void wait(Stream stream, Event event) override;
  void synchronize(Stream stream) override;
  void synchronize(Event event) override;
  void synchronize() override;
  std::shared_ptr<Storage> allocate(Stream stream, std::size_t bytes, MemoryClass memory, std::string_view label) override;
  void release(Stream stream, const std::shared_ptr<Storage>& storage) override;
  void release_to_cache(Stream stream, const std::shared_ptr<Storage>& storage) override;
  std::shared_ptr<Storage> adopt(Stream stream, std::byte* data, std::size_t bytes, MemoryClass memory, std::string_view label) override;
  void describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label) override;
  void host_access(std::string_view label, const std::vector<Tensor>& reads, const std::vector<Tensor>& writes) override;
  Tensor to_host(const Tensor& tensor) override;
  void mark(std::string_view text) override;

  std::unique_ptr<Communicator> communicator(std::shared_ptr<NcclGroup> group);

  std::unique_ptr<StreamGate> gate();

  /// See Platform. Where the GPU keeps records, a piece of work or a collective starts with the first thing that it put on its stream and
  /// ends with the last; throws std::runtime_error when one of these is not among the records.
  Recording take_recording();
  std::size_t live_bytes() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace shardproof::cuda
