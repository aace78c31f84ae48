#include "harness/tensor/tensor.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <ostream>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>

#include "harness/base/digest.hpp"
#include "harness/tensor/elements.hpp"

namespace shardproof {
namespace {

class HostStorage final : public Storage {
 public:
  explicit HostStorage(std::unique_ptr<std::byte[]> memory, std::size_t bytes)
      : Storage(memory.get(), bytes, 0), memory_(std::move(memory)) {}

 private:
  std::unique_ptr<std::byte[]> memory_;
};

std::string describe(DType dtype, const Shape& shape) {
  return fmt::format("{} {}", to_string(dtype), to_string(shape));
}

template <class T> std::string spelled(T value) {
  if constexpr (std::is_integral_v<T>) {
    return fmt::format("{}", value);
  } else {
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
    Bits bits = 0, usual_nan = 0;
    const T nan = std::numeric_limits<T>::quiet_NaN();
    std::memcpy(&bits, &value, sizeof bits);
    std::memcpy(&usual_nan, &nan, sizeof usual_nan);
    if (value != value && bits != usual_nan) return fmt::format("nan:{:#x}", bits);
    if constexpr (tensor::elements::low_precision<T>) return fmt::format("{}", static_cast<float>(value));
    else return fmt::format("{}", value);
  }
}

std::string element(const Tensor& tensor, std::size_t index) {
  return tensor::elements::visit(
      tensor.dtype(), [&](auto type) { return spelled(tensor.values<typename decltype(type)::type>()[index]); });
}

}  // namespace

std::int64_t numel(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) throw std::invalid_argument(fmt::format("shape {} has a negative size", to_string(shape)));
    if (__builtin_mul_overflow(product, size, &product)) {
      throw std::invalid_argument(fmt::format("shape {} has more elements than 64 bits can count", to_string(shape)));
    }
  }
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

Tensor::Tensor(std::shared_ptr<Storage> storage, DType dtype, Shape shape, std::size_t byte_offset)
    : storage_(std::move(storage)), dtype_(dtype), shape_(std::move(shape)), offset_(byte_offset) {
  if (!storage_) throw std::invalid_argument("tensor " + describe(dtype_, shape_) + " without storage");
  std::size_t needed = 0;
  const auto count = static_cast<std::size_t>(shardproof::numel(shape_));
  if (__builtin_mul_overflow(count, size_of(dtype_), &needed) || offset_ > storage_->bytes() ||
      needed > storage_->bytes() - offset_) {
    throw std::invalid_argument(fmt::format("tensor {} at byte {} does not fit into a storage of {} bytes",
                                            describe(dtype_, shape_), offset_, storage_->bytes()));
  }
  if (offset_ % size_of(dtype_) != 0) {
    throw std::invalid_argument(fmt::format("tensor {} cannot start at byte {}: not a multiple of its element size",
                                            describe(dtype_, shape_), offset_));
  }
}

Tensor Tensor::host(DType dtype, Shape shape) {
  const auto count = static_cast<std::size_t>(shardproof::numel(shape));
  const std::size_t bytes = count * size_of(dtype);
  return Tensor(std::make_shared<HostStorage>(std::make_unique<std::byte[]>(bytes), bytes), dtype, std::move(shape));
}

template <class T> Tensor Tensor::of(Shape shape, std::span<const T> values) {
  Tensor tensor = host(tensor::elements::dtype_of<T>(), std::move(shape));
  if (static_cast<std::size_t>(tensor.numel()) != values.size()) {
    throw std::invalid_argument(
        fmt::format("{} values given for a tensor {}", values.size(), describe(tensor.dtype_, tensor.shape_)));
  }
  std::ranges::copy(values, tensor.values<T>().begin());
  return tensor;
}

std::int64_t Tensor::numel() const { return defined() ? shardproof::numel(shape_) : 0; }

std::size_t Tensor::bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }

std::byte* Tensor::data() const { return defined() ? storage_->data() + offset_ : nullptr; }

ByteRange Tensor::range() const { return {defined() ? storage_->buffer() : 0, offset_, bytes()}; }

template <class T> std::span<T> Tensor::values() const {
  if (defined() && storage_->space() == MemorySpace::device) {
    throw std::logic_error(
        fmt::format("tensor {} is in a device's own memory, which the host cannot read", describe(dtype_, shape_)));
  }
  if constexpr (std::is_same_v<T, std::byte>) {
    return {data(), bytes()};
  } else {
    if (dtype_ != tensor::elements::dtype_of<T>()) {
      throw std::invalid_argument(fmt::format("elements of a tensor {} cannot be read as {}", describe(dtype_, shape_),
                                              to_string(tensor::elements::dtype_of<T>())));
    }
    return {reinterpret_cast<T*>(data()), static_cast<std::size_t>(numel())};
  }
}

std::vector<double> Tensor::to_doubles() const {
  return tensor::elements::visit(dtype_, [&](auto type) {
    using T = typename decltype(type)::type;
    std::vector<double> widened;
    widened.reserve(static_cast<std::size_t>(numel()));
    for (const T value : values<T>()) widened.push_back(tensor::elements::convert<double>(value));
    return widened;
  });
}

Tensor Tensor::reshape(Shape shape) const {
  if (!defined() || shardproof::numel(shape) != numel()) {
    throw std::invalid_argument(
        fmt::format("tensor {} cannot be reshaped to {}", describe(dtype_, shape_), to_string(shape)));
  }
  return Tensor(storage_, dtype_, std::move(shape), offset_);
}

Tensor Tensor::narrow(std::int64_t start, std::int64_t length) const {
  if (!defined() || shape_.empty()) throw std::invalid_argument("rows of a tensor without dimensions");
  if (start < 0 || length < 0 || start > shape_[0] || length > shape_[0] - start) {
    throw std::invalid_argument(
        fmt::format("{} rows from row {} of a tensor {}", length, start, describe(dtype_, shape_)));
  }
  Shape shape = shape_;
  shape[0] = length;
  const std::size_t row_bytes = shape_[0] == 0 ? 0 : bytes() / static_cast<std::size_t>(shape_[0]);
  return Tensor(storage_, dtype_, std::move(shape), offset_ + static_cast<std::size_t>(start) * row_bytes);
}

Tensor Tensor::row(std::int64_t index) const {
  Tensor one = narrow(index, 1);
  return one.reshape(Shape(one.shape_.begin() + 1, one.shape_.end()));
}

Tensor Tensor::flatten() const { return reshape({numel()}); }

Tensor Tensor::clone() const {
  if (!defined()) return {};
  Tensor copy = host(dtype_, shape_);
  if (bytes() != 0) std::memcpy(copy.data(), data(), bytes());
  return copy;
}

bool operator==(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined() || a.dtype_ != b.dtype_ || a.shape_ != b.shape_) return false;
  return std::ranges::equal(a.values<std::byte>(), b.values<std::byte>());
}

Tensor iota(float start, std::int64_t length) {
  Tensor tensor = Tensor::host(DType::f32, {length});
  float next = start;
  for (float& value : tensor.values<float>()) {
    value = next;
    next += 1.0F;
  }
  return tensor;
}

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined tensor";
  constexpr std::size_t most_shown = 64;
  const auto count = static_cast<std::size_t>(tensor.numel());
  std::string text = describe(tensor.dtype(), tensor.shape()) + " {";
  for (std::size_t i = 0; i < std::min(most_shown, count); ++i) text += (i == 0 ? "" : ", ") + element(tensor, i);
  if (count > most_shown) {
    const auto bytes = tensor.values<std::byte>();
    const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    text += fmt::format(", … {} more, digest {:016x}", count - most_shown, base::digest(all));
  }
  return text + "}";
}

std::string first_difference(const Tensor& a, const Tensor& b) {
  if (a == b) return {};
  const auto described = [](const Tensor& tensor) {
    return tensor.defined() ? describe(tensor.dtype(), tensor.shape()) : "an undefined tensor";
  };
  if (described(a) != described(b)) return fmt::format("{} and {}", described(a), described(b));
  const std::size_t count = static_cast<std::size_t>(a.numel()), size = size_of(a.dtype());
  const auto differs = [&](std::size_t index) {
    return std::memcmp(a.data() + index * size, b.data() + index * size, size) != 0;
  };
  std::size_t first = 0, different = 0;
  for (std::size_t index = count; index-- > 0;) {
    if (!differs(index)) continue;
    first = index;
    ++different;
  }
  Shape place = a.shape();
  auto rest = static_cast<std::int64_t>(first);
  for (std::size_t dim = place.size(); dim-- > 0; rest /= a.shape()[dim]) place[dim] = rest % a.shape()[dim];
  return fmt::format("at {}: {} and {}; {} of {} elements differ", to_string(place), element(a, first),
                     element(b, first), different, count);
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

#define SHARDPROOF_ELEMENTS(T)                              \
  template Tensor Tensor::of<T>(Shape, std::span<const T>); \
  template std::span<T> Tensor::values<T>() const;
SHARDPROOF_ELEMENTS(double)
SHARDPROOF_ELEMENTS(float)
SHARDPROOF_ELEMENTS(Eigen::bfloat16)
SHARDPROOF_ELEMENTS(Eigen::half)
SHARDPROOF_ELEMENTS(std::int64_t)
SHARDPROOF_ELEMENTS(std::int32_t)
SHARDPROOF_ELEMENTS(std::int16_t)
SHARDPROOF_ELEMENTS(std::int8_t)
SHARDPROOF_ELEMENTS(std::uint8_t)
#undef SHARDPROOF_ELEMENTS
template std::span<std::byte> Tensor::values<std::byte>() const;

}  // namespace shardproof
