// Reductions: the operands of all ranks folded in rank order, by the rules that group.hpp states.
#pragma once

#include <cstddef>

#include "harness/protocol/collective.hpp"

namespace shardproof::shm {

/// Operand r begins `r * stride` bytes after `first`.
struct Operands {
  const std::byte* first = nullptr;
  std::size_t stride = 0;
  int number = 0;
};

/// `out` may not overlap an operand, but for a single one.
void fold(DType dtype, ReduceOp op, double factor, const Operands& operands, std::byte* out, std::size_t count);

}  // namespace shardproof::shm
