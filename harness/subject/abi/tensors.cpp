#include "harness/subject/abi/tensors.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/subject/abi/words.hpp"

namespace shardproof::subject::abi {

namespace {

class HostMemory final : public Storage {
 public:
  HostMemory(std::byte* data, std::size_t bytes) : Storage(data, bytes, 0) {}
};

}  // namespace

std::shared_ptr<Storage> host_memory(std::byte* data, std::size_t bytes) {
  return std::make_shared<HostMemory>(data, bytes);
}

DLTensor view_of(const Tensor& tensor, Shapes& shapes) {
  if (!tensor.defined()) return {};
  Shape strides(tensor.shape().size());
  std::int64_t stride = 1;
  for (std::size_t dim = strides.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= std::max<std::int64_t>(tensor.shape()[dim], 1);
  }
  const bool is_host = tensor.storage()->space() == MemorySpace::host;
  return {.data = tensor.data(),
          .device = {is_host ? kDLCPU : kDLCUDA, 0},
          .ndim = static_cast<int>(tensor.shape().size()),
          .dtype = to_c(tensor.dtype()),
          .shape = shapes.keep(tensor.shape()),
          .strides = shapes.keep(std::move(strides)),
          .byte_offset = 0};
}

bool is_undefined(const DLTensor& tensor) { return tensor.data == nullptr && tensor.dtype.bits == 0; }

bool is_contiguous(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  bool fits = true;
  for (int dim = tensor.ndim; dim-- > 0;) {
    if (tensor.shape[dim] == 0) return true;
    if (tensor.shape[dim] != 1 && tensor.strides[dim] != expected) fits = false;
    if (__builtin_mul_overflow(expected, tensor.shape[dim], &expected)) return false;
  }
  return fits;
}

std::string described(const DLTensor& tensor) {
  const std::string text = described(tensor.dtype) + " ";
  if (tensor.ndim < 0 || (tensor.shape == nullptr && tensor.ndim != 0))
    return text + fmt::format("of {} dimensions", tensor.ndim);
  return text + to_string(Shape(tensor.shape, tensor.shape + tensor.ndim));
}

}  // namespace shardproof::subject::abi
