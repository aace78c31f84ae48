// Base class for memory that a device has allocated or adopted, on the host or on a GPU: its device, label, allocation
// fact and release state. Each device derives its own class from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "harness/protocol/trace.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof::device {

class DeviceStorage : public Storage {
 public:
  const std::string& label() const { return label_; }
  bool belongs_to(const void* device) const { return device_ == device; }
  bool is_released() const { return is_released_; }
  /// Sets the class and label in the allocation fact of the buffer, as if `allocate` had been given them. If the caller
  /// has taken the trace since, the fact stays as it is.
  void describe(Trace& trace, MemoryClass memory, std::string_view label);

 protected:
  /// `fact` is the index of the allocation in the device's trace. The memory goes back on `stream` unless the caller
  /// names another stream.
  DeviceStorage(const void* device, std::uint32_t stream, std::byte* data, std::size_t bytes, std::uint64_t buffer,
                std::string label, std::size_t fact, MemorySpace space)
      : Storage(data, bytes, buffer, space), device_(device), stream_(stream), label_(std::move(label)), fact_(fact) {}

  std::uint32_t stream() const { return stream_; }
  void set_released() { is_released_ = true; }

 private:
  const void* device_;
  std::uint32_t stream_;
  std::string label_;
  std::size_t fact_;
  bool is_released_ = false;
};

/// Returns the memory of the storage, which `device` gave out and which is not released yet. `operation` and `rank` are
/// for the error text. Throws std::invalid_argument for memory of another device and for no storage, std::logic_error
/// for released memory.
DeviceStorage& live_storage(const std::shared_ptr<Storage>& storage, const void* device, std::string_view operation,
                            int rank);

}  // namespace shardproof::device
