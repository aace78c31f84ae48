// A communicator for a group in which only this rank is real. The other ranks are imagined to hold what this rank
// holds. Work on the device replaces the communication. So a single rank, on one GPU, shows how an engine orders and
// overlaps collectives. The values that this work computes have no meaning.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/device/device_options.hpp"

namespace shardproof::device {

class ImaginedCommunicator final : public Communicator {
 public:
  /// `size` is 2 or more. The device must outlive the communicator.
  ImaginedCommunicator(Device& device, int size);

  int rank() const override { return 0; }
  std::span<const int> members() const override { return members_; }
  const FabricCapabilities& capabilities() const override;
  /// Throws std::invalid_argument for a broadcast from another rank: the data of an imagined rank is unknown.
  void run(Stream stream, const Collective& collective) override;
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override;
  /// Throws std::invalid_argument: it is unknown which group the imagined ranks would join.
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override;

 private:
  void submit(Stream stream, std::span<const Collective> collectives, const std::string& where);

  Device& device_;
  std::vector<int> members_;
  std::uint64_t issued_ = 0;
};

/// The communicator of a world on a device: imagined if the options ask for it, otherwise the one that `make_real`
/// makes.
template <class MakeReal>
std::unique_ptr<Communicator> communicator_of_world(Device& device, const DeviceOptions& options,
                                                    MakeReal&& make_real) {
  if (options.imagined_ranks > 0) return std::make_unique<ImaginedCommunicator>(device, options.imagined_ranks);
  return make_real();
}

/// Returns why a world of `size` ranks cannot have the imagined ranks that the options ask for; empty if it can.
std::string objection_to_imagined(const DeviceOptions& options, int size);

}  // namespace shardproof::device
