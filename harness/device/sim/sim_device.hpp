// The simulated device: data effects happen at once in program order, time is virtual, integer and deterministic.
// The rules of its clock are in docs/simulated-time.md; everything that happens is recorded as facts. One host thread drives it.
#pragma once

#include <memory>

#include "harness/device/cost_model.hpp"
#include "harness/device/device.hpp"
#include "harness/fabric/group.hpp"

namespace shardproof {

/// Memory is filled with `poison` when it is allocated and again when it is released: a NaN in every floating type, -1 in the signed ones,
/// so that a read before the first write, or after the release, shows in the values. Memory that was adopted stays as it is, but while
/// work runs that does not declare it, on a device that hides such memory. With `single_stream` the facts, too, speak of stream 0 only.
/// Storage may outlive the device. Not for several threads.
class SimDevice final : public Device {
 public:
  static constexpr std::byte poison{0xFF};

  SimDevice(CostModel costs, int rank);
  ~SimDevice() override;

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
  Tensor to_host(const Tensor& tensor) override { return tensor.clone(); }
  void mark(std::string_view text) override;

  /// Collectives of `group` on this device. The group must outlive the communicator. Communicators of one group share its resource.
  std::unique_ptr<Communicator> communicator(Group& group);

  /// What has happened so far; the caller may take it away at the end.
  const Trace& trace() const;
  Trace take_trace();
  Nanoseconds host_clock() const;
  /// Bytes of buffers not yet released.
  std::size_t live_bytes() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace shardproof
