// The collectives of a group of which only this rank is real: the others are imagined to hold what it holds. Work on the device stands for
// communication, so that one rank, on one GPU, shows how an engine orders and overlaps it. What it computes means nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/device/cost_model.hpp"
#include "harness/device/device.hpp"

namespace shardproof {

class ImaginedCommunicator final : public Communicator {
 public:
  /// `size`: 2 or more. The device must outlive it.
  ImaginedCommunicator(Device& device, int size);

  int rank() const override { return 0; }
  std::span<const int> members() const override { return members_; }
  const FabricCapabilities& capabilities() const override;
  /// std::invalid_argument for a broadcast of another rank: it cannot be imagined what that one has.
  void run(Stream stream, const Collective& collective) override;
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override;
  /// std::invalid_argument: whom the others would join cannot be imagined.
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override;

 private:
  void submit(Stream stream, std::span<const Collective> collectives, const std::string& where);

  Device& device_;
  std::vector<int> members_;
  std::uint64_t issued_ = 0;
};

/// The collectives of a world on a device: imagined ones where the costs ask for that, else what `make_real` makes.
template <class MakeReal>
std::unique_ptr<Communicator> communicator_of_world(Device& device, const CostModel& costs, MakeReal&& make_real) {
  if (costs.imagined_ranks > 0) return std::make_unique<ImaginedCommunicator>(device, costs.imagined_ranks);
  return make_real();
}

/// Why a world of `size` ranks cannot have the imagined ones that the costs ask for, or empty.
std::string objection_to_imagined(const CostModel& costs, int size);

}  // namespace shardproof
