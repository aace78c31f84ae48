// What every device keeps of memory that it has allocated or adopted, whatever that lies in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "harness/protocol/trace.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof {

class DeviceMemory : public Storage {
 public:
  const std::string& label() const { return label_; }
  bool belongs_to(const void* device) const { return device_ == device; }
  bool is_released() const { return is_released_; }
  /// Says what the buffer holds, as if it had been said when it was allocated.
  void describe(Trace& trace, MemoryClass memory, std::string_view label);

 protected:
  /// `fact` is the one of its allocation, in the trace of the device; `stream` the one that it goes back to unless another is named.
  DeviceMemory(const void* device, std::uint32_t stream, std::byte* data, std::size_t bytes, std::uint64_t buffer, std::string label,
               std::size_t fact, MemorySpace space)
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

/// The memory behind the storage, which `device` gave out and has not had back; `operation` asks for it, on that rank. Throws
/// std::invalid_argument for what is another device's or none's, std::logic_error for what was released.
DeviceMemory& live_memory(const std::shared_ptr<Storage>& storage, const void* device, std::string_view operation, int rank);

}  // namespace shardproof
