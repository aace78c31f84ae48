// A tensor as DLPack has it, on either side of the boundary.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "harness/subject/shardproof.h"
#include "harness/tensor/tensor.hpp"

namespace shardproof::abi {

/// What views point to.
class Shapes {
 public:
  /// Valid as long as this is.
  std::int64_t* keep(Shape shape) { return kept_.emplace_back(std::move(shape)).data(); }
  void clear() { kept_.clear(); }

 private:
  std::deque<Shape> kept_;
};

/// Memory of the host's that somebody else keeps.
std::shared_ptr<Storage> host_memory(std::byte* data, std::size_t bytes);

/// All zero of what is undefined.
DLTensor view_of(const Tensor& tensor, Shapes& shapes);

bool is_undefined(const DLTensor& tensor);
/// Whether elements lie one after the other, row by row.
bool is_contiguous(const DLTensor& tensor);
/// `f32 [2, 3]`, as far as it can be told; for messages.
std::string described(const DLTensor& tensor);

}  // namespace shardproof::abi
