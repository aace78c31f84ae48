// The simulated device. It computes at once, in program order, on the host. Its time is virtual, integer and
// deterministic; docs/simulated-time.md has the rules of its clock. It records everything that happens as facts. One
// host thread drives it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "harness/device/cost_model.hpp"
#include "harness/device/device.hpp"
#include "harness/device/device_options.hpp"
#include "harness/fabric/group.hpp"
#include "harness/trace/virtual_clock.hpp"

namespace shardproof::device {

/// Fills memory with `poison` at its allocation and again at its release: a NaN in every floating type, -1 in every
/// signed type. So a read before the first write, or after the release, shows in the values. Adopted memory keeps its
/// contents. The exception is a device that hides memory while work runs that does not declare it. With
/// `single_stream`, facts name only stream 0. Storage may outlive the device. The class is not thread-safe.
class SimDevice final : public Device {
 public:
  static constexpr std::byte poison{0xFF};

  SimDevice(CostModel costs, int rank, DeviceOptions options = {});
  ~SimDevice() override;
  SimDevice(const SimDevice&) = delete;
  SimDevice& operator=(const SimDevice&) = delete;

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

  /// The communicator of `group` on this device. The group and the device must outlive it. Communicators of one group
  /// share its resource.
  std::unique_ptr<Communicator> communicator(Group& group);

  /// The facts so far. The caller may take them away at the end.
  const Trace& trace() const;
  Trace take_trace();
  Nanoseconds host_clock() const { return clock_.host(); }
  /// Bytes of buffers not yet released.
  std::size_t live_bytes() const;

 private:
  class Memory;
  class Channel;
  struct Ledger;
  /// The times when this rank's resources for a group's collectives become free.
  struct Resources {
    std::array<Nanoseconds, static_cast<std::size_t>(CollectiveKind::coalesced) + 1> free{};

    Nanoseconds& free_of(const DeviceOptions& options, CollectiveKind kind) {
      return free[options.separate_resources ? static_cast<std::size_t>(kind) : 0];
    }
  };

  template <class F> void note(F fact);
  /// The stream whose order and clock apply. In a serial world this is the compute stream for every handle.
  std::uint32_t timeline(Stream stream, std::string_view operation) const;
  std::size_t number(Event event, std::string_view operation) const;
  Memory& own(const std::shared_ptr<Storage>& storage, std::string_view operation) const;
  std::shared_ptr<Storage> enter(std::shared_ptr<Memory> made, std::uint32_t timeline, MemoryClass memory);
  void issue(const std::string& where, std::uint32_t on, std::span<const Collective> collectives, const Group& group,
             Resources& resources, const std::function<Receipt(std::span<const Call>)>& exchange);
  void compute(const Work& work) const;
  void run_alone(const Work& work) const;

  CostModel costs_;
  DeviceOptions options_;
  std::shared_ptr<Ledger> ledger_;
  trace::VirtualClock clock_;
  std::uint64_t buffers_made_ = 0;
  std::map<const Group*, std::weak_ptr<Resources>> resources_;
  Resources imagined_;  // for collectives that work replaces
};

}  // namespace shardproof::device
