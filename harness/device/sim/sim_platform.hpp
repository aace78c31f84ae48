// The platform of the simulated device, over any fabric.
#pragma once

#include <memory>

#include "harness/device/imagined_communicator.hpp"
#include "harness/device/platform.hpp"
#include "harness/device/sim/sim_device.hpp"

namespace shardproof::device {

class SimPlatform final : public Platform {
 public:
  /// `group` must outlive the platform.
  SimPlatform(const CostModel& costs, Group& group, int rank, const DeviceOptions& options = {})
      : device_(costs, rank, options),
        world_(communicator_of_world(device_, options, [&] { return device_.communicator(group); })) {}

  Device& device() override { return device_; }
  Communicator& world() override { return *world_; }
  std::unique_ptr<StreamGate> gate() override { return nullptr; }
  Recording take_recording() override { return {.trace = device_.take_trace(), .measured = std::nullopt}; }
  std::size_t live_bytes() const override { return device_.live_bytes(); }

 private:
  SimDevice device_;
  std::unique_ptr<Communicator> world_;
};

class SimPlatforms final : public Platforms {
 public:
  SimPlatforms(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  std::unique_ptr<Platform> make(const CostModel& costs, const DeviceOptions& options) override {
    return std::make_unique<SimPlatform>(costs, *group_, rank_, options);
  }
  std::string objection(const CostModel&, const DeviceOptions& options) const override {
    return objection_to_imagined(options, group_->size());
  }
  std::string complaint() override { return {}; }
  std::string defect() const override { return {}; }

 private:
  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace shardproof::device
