// Products of row-major matrices, on a BLAS that stores matrices by columns. For that BLAS, a row-major matrix is its
// transpose. So the product is c' = op(b)' op(a)': the operands are swapped, and the sizes with them. The code is pure
// arithmetic on sizes; the library's function is an argument.
#pragma once

#include <algorithm>

namespace shardproof::device::cuda {

/// c [m, n] = op(a) op(b) + beta c, by `gemm(transpose_first, transpose_second, rows, columns, inner, first,
/// first_leading, second, second_leading, beta, c, c_leading)`. A leading dimension is at least 1: BLAS requires that
/// even for an empty matrix.
template <class T, class Scale, class Gemm>
auto multiply_row_major(const Gemm& gemm, bool transpose_a, bool transpose_b, int m, int n, int inner, const T* a,
                        const T* b, Scale beta, T* c) {
  const auto leading = [](int columns) { return std::max(columns, 1); };
  return gemm(transpose_b, transpose_a, n, m, inner, b, leading(transpose_b ? inner : n), a,
              leading(transpose_a ? m : inner), beta, c, leading(n));
}

}  // namespace shardproof::device::cuda
