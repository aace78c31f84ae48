// The memory of a device: its buffers, which streams use in order, and the host's accesses to them.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "harness/device/stream.hpp"
#include "harness/protocol/trace.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  /// Returns memory that work on `stream` may use from here on. The device fills it with a poison pattern if that costs
  /// nothing.
  virtual std::shared_ptr<Storage> allocate(Stream stream, std::size_t bytes, MemoryClass memory,
                                            std::string_view label) = 0;
  /// Gives the memory back once all work issued so far on `stream` has ended. The caller may not use views of it
  /// afterwards. Storage that is dropped without a release is released on the stream of its allocation.
  virtual void release(Stream stream, const std::shared_ptr<Storage>& storage) = 0;
  /// Like `release`, for memory that was adopted from a caching allocator of the subject. The allocator keeps the
  /// memory, and gives it to the next allocation on `stream`. So other uses of the memory must end before the device
  /// adopts that next allocation, not before this call. Throws std::invalid_argument for memory that was not adopted.
  virtual void release_to_cache(Stream stream, const std::shared_ptr<Storage>& storage) = 0;
  Tensor empty(Stream stream, DType dtype, const Shape& shape, MemoryClass memory, std::string_view label);
  /// Like `allocate`, for memory that the subject already has. The device neither fills nor frees it. The exception is
  /// DeviceOptions::hide_undeclared_memory: then the device fills the memory while other work runs, and restores it.
  /// The memory must stay in its place until it is released. Throws
  /// - std::invalid_argument for memory that overlaps a buffer or does not begin at a multiple of 8 bytes;
  /// - std::logic_error on a GPU, which uses only its own memory.
  virtual std::shared_ptr<Storage> adopt(Stream stream, std::byte* data, std::size_t bytes, MemoryClass memory,
                                         std::string_view label) = 0;
  /// Sets the class and label of a buffer that has not been released, as if `allocate` had been given them.
  virtual void describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label) = 0;

  /// Records that the host is about to read or write these bytes. It does not wait: the caller synchronizes first. The
  /// race search uses these records to find races between the host and its streams. A device that records nothing does
  /// nothing.
  virtual void host_access(std::string_view label, const std::vector<Tensor>& reads,
                           const std::vector<Tensor>& writes) = 0;

  /// Returns a copy in host memory. The caller has synchronized with the work that writes the tensor, and has recorded
  /// the read with `host_access`.
  virtual Tensor to_host(const Tensor& tensor) = 0;
};

}  // namespace shardproof
