// Wrappers between an engine and its device, kernels or communicator. Each passes every call on. A derived class
// overrides the calls that interest it.
#pragma once

#include <algorithm>
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
  std::shared_ptr<Storage> allocate(Stream stream, std::size_t bytes, MemoryClass memory,
                                    std::string_view label) override {
    return inner_.allocate(stream, bytes, memory, label);
  }
  void release(Stream stream, const std::shared_ptr<Storage>& storage) override { inner_.release(stream, storage); }
  void release_to_cache(Stream stream, const std::shared_ptr<Storage>& storage) override {
    inner_.release_to_cache(stream, storage);
  }
  std::shared_ptr<Storage> adopt(Stream stream, std::byte* data, std::size_t bytes, MemoryClass memory,
                                 std::string_view label) override {
    return inner_.adopt(stream, data, bytes, memory, label);
  }
  void describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label) override {
    inner_.describe(storage, memory, label);
  }
  void host_access(std::string_view label, const std::vector<Tensor>& reads,
                   const std::vector<Tensor>& writes) override {
    inner_.host_access(label, reads, writes);
  }
  Tensor to_host(const Tensor& tensor) override { return inner_.to_host(tensor); }
  void mark(std::string_view text) override { inner_.mark(text); }

 protected:
  Device& inner_;
};

/// Wraps the kernels that work computes with. A DeviceWrapper hands this wrapper to the work that passes through it.
class KernelsWrapper : public Kernels {
 public:
  explicit KernelsWrapper(const Kernels& inner) : inner_(inner) {}

#define KERNEL(name, parameters, arguments) \
  void name parameters const override { inner_.name arguments; }
#include "harness/tensor/kernel_list.inc"

 protected:
  const Kernels& inner_;
};

/// Makes the work compute with `Altered` kernels, which wrap the kernels of its device.
template <class Altered> void compute_with(Work& work) {
  if (!work.run) return;
  work.run = [run = std::move(work.run)](const Kernels& kernels, NativeStream stream) {
    run(Altered(kernels), stream);
  };
}

class CommunicatorWrapper : public Communicator {
 public:
  explicit CommunicatorWrapper(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  std::span<const int> members() const override { return inner_.members(); }
  const FabricCapabilities& capabilities() const override { return inner_.capabilities(); }
  void run(Stream stream, const Collective& collective) override { inner_.run(stream, collective); }
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override {
    inner_.run_coalesced(stream, collectives);
  }
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override {
    return inner_.split(color, key, name);
  }

 protected:
  Communicator& inner_;
};

/// For wrappers that alter collectives. If the wrapper alters any collective of a coalesced call, `run` gets all
/// collectives of that call, one after the other.
class CollectiveWrapper : public CommunicatorWrapper {
 public:
  using CommunicatorWrapper::CommunicatorWrapper;
  void run_coalesced(Stream stream, std::span<const Collective> collectives) final {
    const bool alters_any = std::ranges::any_of(collectives, [this](const Collective& each) { return alters(each); });
    if (alters_any) Communicator::run_coalesced(stream, collectives);
    else inner_.run_coalesced(stream, collectives);
  }

 protected:
  virtual bool alters(const Collective& /*collective*/) const { return true; }
};

}  // namespace shardproof
