// Contiguous row-major tensors, on the host or in a buffer of a device. A tensor is a view; copying it copies no
// elements.
//
// The room `tensor` has dtypes, shapes, tensors, and the operations of models on a CPU. Streams, devices and ranks may
// not enter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/protocol/collective.hpp"
#include "harness/protocol/trace.hpp"  // ByteRange

namespace shardproof {

using Shape = std::vector<std::int64_t>;

std::int64_t numel(const Shape& shape);
std::string to_string(const Shape& shape);  ///< `[2, 3]`

/// Where bytes are: in memory that the host can read, or in a device's own memory, of which the host only has the
/// address.
enum class MemorySpace : std::uint8_t { host, device };

/// Bytes with one owner. `buffer` is the device's id of the bytes; 0 for plain host memory.
class Storage {
 public:
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  std::uint64_t buffer() const { return buffer_; }
  MemorySpace space() const { return space_; }

 protected:
  Storage(std::byte* data, std::size_t bytes, std::uint64_t buffer, MemorySpace space = MemorySpace::host)
      : data_(data), bytes_(bytes), buffer_(buffer), space_(space) {}

  /// For storage that gets its memory late: its bytes are those of `memory` from here on. `memory` must outlive it.
  void attach(const Storage& memory) {
    data_ = memory.data_;
    buffer_ = memory.buffer_;
    space_ = memory.space_;
  }

 private:
  std::byte* data_;
  std::size_t bytes_;
  std::uint64_t buffer_;
  MemorySpace space_;
};

class Tensor {
 public:
  Tensor() = default;
  /// Throws std::invalid_argument when the view does not fit into the storage.
  Tensor(std::shared_ptr<Storage> storage, DType dtype, Shape shape, std::size_t byte_offset = 0);

  /// In host memory, zero.
  static Tensor host(DType dtype, Shape shape);
  /// In host memory, with these values; dtype from T (float, double, integers, Eigen's two).
  template <class T> static Tensor of(Shape shape, std::span<const T> values);

  bool defined() const { return storage_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t numel() const;
  std::size_t bytes() const;
  std::byte* data() const;
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  ByteRange range() const;  ///< its bytes in its buffer

  /// Its elements. T must be the dtype's element type (checked; Eigen::bfloat16 and Eigen::half for bf16 and f16), or
  /// std::byte, which fits every dtype. Throws std::logic_error for a device's own memory: see Device::to_host.
  template <class T> std::span<T> values() const;
  std::vector<double> to_doubles() const;  ///< any dtype, widened

  Tensor reshape(Shape shape) const;  ///< same elements, same storage
  Tensor narrow(std::int64_t start, std::int64_t length) const;  ///< rows [start, start + length) of dim 0
  Tensor row(std::int64_t index) const;  ///< dim 0 dropped
  Tensor flatten() const;
  Tensor clone() const;  ///< a copy in host memory

  /// Same dtype, shape and bits.
  friend bool operator==(const Tensor& a, const Tensor& b);

 private:
  std::shared_ptr<Storage> storage_;
  DType dtype_ = DType::f32;
  Shape shape_;
  std::size_t offset_ = 0;
};

/// f32 [length]: start, start + 1, …
Tensor iota(float start, std::int64_t length);

/// For assertion messages: dtype, shape and values. It shows at most 64 values; of more values, the first ones and a
/// digest of all. Different tensors have different texts: integers are exact, floats are in the shortest form that
/// reads back as the same, and an unusual NaN shows its bits.
std::string to_string(const Tensor& tensor);
/// Where two tensors differ first, and in how many elements; empty if they are equal. Use it in an INFO, next to the
/// comparison of large tensors.
std::string first_difference(const Tensor& a, const Tensor& b);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace shardproof
