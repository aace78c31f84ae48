// What may stand between an engine and what it runs on: each passes everything on, and whoever derives overrides what interests it.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/device/device.hpp"

namespace shardproof {

class DeviceWrapper : public Device {
 public:
  explicit DeviceWrapper(Device& inner) : inner_(inner) {}

  using Device::wait;
  Stream create_stream(StreamRole role, std::string_view name) override { return inner_.create_stream(role, name); }
  void submit(Stream stream, Work work) override { inner_.submit(stream, std::move(work)); }
  Event record(Stream stream) override { return inner_.record(stream); }
  void wait(Stream stream, Event event) override { inner_.wait(stream, event); }
  void synchronize(Stream stream) override { inner_.synchronize(stream); }
  void synchronize(Event event) override { inner_.synchronize(event); }
  void synchronize() override { inner_.synchronize(); }
  std::shared_ptr<Storage> allocate(Stream stream, std::size_t bytes, MemoryClass memory, std::string_view label) override {
    return inner_.allocate(stream, bytes, memory, label);
  }
  void release(Stream stream, const std::shared_ptr<Storage>& storage) override { inner_.release(stream, storage); }
  void host_access(std::string_view label, const std::vector<Tensor>& reads, const std::vector<Tensor>& writes) override {
    inner_.host_access(label, reads, writes);
  }
  Tensor to_host(const Tensor& tensor) override { return inner_.to_host(tensor); }
  void mark(std::string_view text) override { inner_.mark(text); }

 protected:
  Device& inner_;
};

class CommunicatorWrapper : public Communicator {
 public:
  explicit CommunicatorWrapper(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  std::span<const int> members() const override { return inner_.members(); }
  const FabricCapabilities& capabilities() const override { return inner_.capabilities(); }
  void run(Stream stream, const Collective& collective) override { inner_.run(stream, collective); }
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override { return inner_.split(color, key, name); }

 protected:
  Communicator& inner_;
};

}  // namespace shardproof
