// The simulated device. It computes at once, in program order, on the host. Its time is virtual, integer and
// deterministic; docs/simulated-time.md has the rules of its clock. It records everything that happens as facts. One
// host thread drives it.
#pragma once

#include <memory>

#include "harness/device/cost_model.hpp"
#include "harness/device/device.hpp"
#include "harness/device/device_options.hpp"
#include "harness/fabric/group.hpp"

namespace shardproof {

/// Fills memory with `poison` at its allocation and again at its release: a NaN in every floating type, -1 in every
/// signed type. So a read before the first write, or after the release, shows in the values. Adopted memory keeps its
/// contents. The exception is a device that hides memory while work runs that does not declare it. With
/// `single_stream`, facts name only stream 0. Storage may outlive the device. The class is not thread-safe.
class SimDevice final : public Device {
 public:
  static constexpr std::byte poison{0xFF};

  SimDevice(CostModel costs, int rank, DeviceOptions options = {});
  ~SimDevice() override;

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
  Tensor to_host(const Tensor& tensor) override { return tensor.clone(); }
  void mark(std::string_view text) override;

  /// The communicator of `group` on this device. The group must outlive it. Communicators of one group share its
  /// resource.
  std::unique_ptr<Communicator> communicator(Group& group);

  /// The facts so far. The caller may take them away at the end.
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
