// Turns an engine context in C into a device and collectives for a subject in C++. This is the subject's side of the
// boundary. If a function of the harness fails, these classes throw std::runtime_error with its error text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/subject/abi/tensors.hpp"
#include "harness/subject/shardproof.h"

namespace shardproof::subject::abi {

/// The connection to the harness that all objects of one engine context share. It is closed when the engine context's
/// trainer is gone. Objects that still exist then own nothing.
class Link {
 public:
  explicit Link(const shardproof_engine_context& engine_context)
      : harness_(engine_context.harness), device_(engine_context.device) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const shardproof_harness& harness() const { return *harness_; }
  shardproof_device* device() const { return device_; }
  bool is_open() const { return is_open_; }
  void close() { is_open_ = false; }
  /// Throws if a function of the harness returned a failure.
  void check(shardproof_status status) const;

 private:
  const shardproof_harness* harness_;
  shardproof_device* device_;
  bool is_open_ = true;
};

/// The device of the engine context. Only for the simulated device, because work computes with this side's kernels.
class EngineSideDevice final : public Device {
 public:
  explicit EngineSideDevice(const shardproof_engine_context& engine_context);
  ~EngineSideDevice() override;
  EngineSideDevice(const EngineSideDevice&) = delete;
  EngineSideDevice& operator=(const EngineSideDevice&) = delete;

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
  /// Throws std::logic_error: only the harness marks phases.
  void mark(std::string_view text) override;

  const std::shared_ptr<Link>& link() const { return link_; }
  /// The tensor for memory that the harness lends, or for a buffer of this side that the harness names.
  Tensor take(const shardproof_tensor& tensor);
  /// The tensors in the answer of a hook. Their buffers are let go when no object here holds them any more.
  std::vector<Tensor> take_answer(std::span<const shardproof_tensor> tensors);
  shardproof_tensor give(const Tensor& tensor, Shapes& shapes) const;
  shardproof_span span(const Tensor& tensor) const;

 private:
  class Memory;

  std::shared_ptr<Memory> known(shardproof_buffer* buffer) const;
  std::shared_ptr<Memory> remember(std::shared_ptr<Memory> memory);
  Memory& own(const std::shared_ptr<Storage>& storage, std::string_view operation) const;
  std::vector<shardproof_span> spans(const std::vector<Tensor>& tensors) const;

  std::shared_ptr<Link> link_;
  std::unordered_map<shardproof_buffer*, std::weak_ptr<Memory>> memories_;
};

class EngineSideCommunicator final : public Communicator {
 public:
  EngineSideCommunicator(const EngineSideDevice& device, shardproof_group* group, bool is_part);
  ~EngineSideCommunicator() override;
  EngineSideCommunicator(const EngineSideCommunicator&) = delete;
  EngineSideCommunicator& operator=(const EngineSideCommunicator&) = delete;

  int rank() const override;
  std::span<const int> members() const override { return members_; }
  const FabricCapabilities& capabilities() const override;  ///< unknown here: no capability is set
  void run(Stream stream, const Collective& collective) override;
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override;
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override;

 private:
  shardproof_collective given(const Collective& collective) const;

  const EngineSideDevice& device_;
  std::shared_ptr<Link> link_;
  shardproof_group* group_;
  bool is_part_;
  std::vector<int> members_;
};

}  // namespace shardproof::subject::abi
