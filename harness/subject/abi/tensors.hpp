// DLPack views of tensors, for both sides of the boundary.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "harness/subject/shardproof.h"
#include "harness/tensor/tensor.hpp"

namespace shardproof::subject::abi {

/// Owns the shapes and strides that views point to.
class Shapes {
 public:
  /// The pointer is valid as long as this object, or until `clear`.
  std::int64_t* keep(Shape shape) { return kept_.emplace_back(std::move(shape)).data(); }
  void clear() { kept_.clear(); }

 private:
  std::deque<Shape> kept_;
};

/// Wraps host memory that another owner keeps alive.
std::shared_ptr<Storage> host_memory(std::byte* data, std::size_t bytes);

/// The view of an undefined tensor is all zero.
DLTensor view_of(const Tensor& tensor, Shapes& shapes);

bool is_undefined(const DLTensor& tensor);
/// Whether the elements are row-major without gaps.
bool is_contiguous(const DLTensor& tensor);
/// `f32 [2, 3]`, or as much of it as the view shows. For messages.
std::string described(const DLTensor& tensor);

}  // namespace shardproof::subject::abi
