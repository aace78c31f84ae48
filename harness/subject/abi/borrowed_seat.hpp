// The far side of a seat: device and collectives of a harness behind its C functions, for a subject in C++. What a function of the harness
// objects to is thrown here as std::runtime_error.
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

namespace shardproof::abi {

/// What all that is made of one seat shares. It is closed when its trainer is gone: what is still held then is nobody's any more.
class Link {
 public:
  explicit Link(const shardproof_seat& seat) : harness_(seat.harness), device_(seat.device) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const shardproof_harness& harness() const { return *harness_; }
  shardproof_device* device() const { return device_; }
  bool is_open() const { return is_open_; }
  void close() { is_open_ = false; }
  /// Of what a function has returned.
  void check(shardproof_status status) const;

 private:
  const shardproof_harness* harness_;
  shardproof_device* device_;
  bool is_open_ = true;
};

/// On the simulated device: work computes with the kernels of this side.
class BorrowedDevice final : public Device {
 public:
  explicit BorrowedDevice(const shardproof_seat& seat);
  ~BorrowedDevice() override;
  BorrowedDevice(const BorrowedDevice&) = delete;
  BorrowedDevice& operator=(const BorrowedDevice&) = delete;

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
  /// std::logic_error: phases are the harness's.
  void mark(std::string_view text) override;

  const std::shared_ptr<Link>& link() const { return link_; }
  /// What the harness lends, or a buffer of this side as it is named there.
  Tensor take(const shardproof_tensor& tensor);
  /// The answer of a hook: what it names is let go of when nothing here holds it any more.
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

class BorrowedCommunicator final : public Communicator {
 public:
  BorrowedCommunicator(const BorrowedDevice& device, shardproof_group* group, bool is_part);
  ~BorrowedCommunicator() override;
  BorrowedCommunicator(const BorrowedCommunicator&) = delete;
  BorrowedCommunicator& operator=(const BorrowedCommunicator&) = delete;

  int rank() const override;
  std::span<const int> members() const override { return members_; }
  const FabricCapabilities& capabilities() const override;  ///< not known here: none
  void run(Stream stream, const Collective& collective) override;
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override;
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override;

 private:
  shardproof_collective given(const Collective& collective) const;

  const BorrowedDevice& device_;
  std::shared_ptr<Link> link_;
  shardproof_group* group_;
  bool is_part_;
  std::vector<int> members_;
};

}  // namespace shardproof::abi
