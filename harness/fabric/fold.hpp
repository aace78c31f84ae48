// Reductions: fold the operands of all ranks in rank order, by the rules in group.hpp.
#pragma once

#include <cstddef>

#include "harness/protocol/collective.hpp"

namespace shardproof::fabric {

/// Operand r begins `r * stride` bytes after `first`.
struct Operands {
  const std::byte* first = nullptr;
  std::size_t stride = 0;
  int number = 0;
};

/// `out` may overlap an operand only if there is a single operand.
void fold(DType dtype, ReduceOp op, double factor, const Operands& operands, std::byte* out, std::size_t count);

}  // namespace shardproof::fabric
