// The requirements on kernels in low precision, where any order of their sums gives the same bits.
#include "harness/player/play.hpp"
#include "tests/device/contract/contract.hpp"

#include <vector>

using namespace contract;

namespace {

Tensor numbers(DType dtype, Shape shape, const std::vector<double>& values) {
  const Tensor result = Tensor::host(dtype, shape);
  cpu_kernels().copy(nullptr, result, Tensor::of<double>(std::move(shape), values));
  return result;
}

}  // namespace

/// Sums are of f32, and what they are added to is too: they are rounded once, at the end.
RANKED_TEST_CASE("contract/kernels_in_low_precision", ranks(1), each("dtype", "bf16", "f16")) {
  const DType dtype = dtype_named(rank.param("dtype"));
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const auto there = [&](Shape shape, const std::vector<double>& values) {
    return put(device, Device::compute, numbers(dtype, std::move(shape), values));
  };
  const auto gives = [&](const Tensor& out, const std::vector<double>& expected, const std::vector<Tensor>& reads,
                         auto compute) {
    device.submit(Device::compute, work("compute", reads, {out}, compute));
    CHECK(get(device, out).to_doubles() == expected);
  };
  // From here on 1 is half of the distance between two numbers.
  const double large = dtype == DType::bf16 ? 256 : 2048;
  const Tensor ones = there({3, 1}, {1, 1, 1}), column = there({3, 1}, {large, 1, -large}),
               above_one = there({3, 1}, {1, 0, 0x1p-12});
  const Kernels::Matmul product{.transpose_a = true}, sum{.transpose_a = true, .add = true};

  const Tensor square = there({1, 1}, {7}), one = there({1}, {7});
  gives(square, {1}, {column, ones},
        [=](const Kernels& k, NativeStream on) { k.matmul(on, square, column, ones, product); });
  gives(one, {1}, {column}, [=](const Kernels& k, NativeStream on) { k.sum_rows(on, one, column, false); });
  gives(one, {1}, {column, ones}, [=](const Kernels& k, NativeStream on) { k.dot(on, {one}, column, ones); });

  const Tensor added = there({1, 1}, {large}), added_row = there({1}, {large});
  gives(added, {large + 2}, {above_one, ones},
        [=](const Kernels& k, NativeStream on) { k.matmul(on, added, above_one, ones, sum); });
  gives(added_row, {large + 2}, {above_one},
        [=](const Kernels& k, NativeStream on) { k.sum_rows(on, added_row, above_one, true); });

  const Tensor even = there({2, 1}, {large, large + 2}), unit = there({1}, {1});
  gives(even, {large, large + 4}, {unit}, [=](const Kernels& k, NativeStream on) { k.add_row(on, even, unit); });

  const Tensor loss = put(device, Device::compute, Tensor::host(DType::f32, {1}));
  gives(loss, {1 + 0x1p-12}, {above_one}, [=](const Kernels& k, NativeStream on) { k.sum(on, loss, above_one); });

  // Every transposition, of small integers.
  const std::vector<double> expected{1 * 7 + 2 * 9 + 3 * 11, 1 * 8 + 2 * 10 + 3 * 12, 4 * 7 + 5 * 9 + 6 * 11,
                                     4 * 8 + 5 * 10 + 6 * 12};
  const std::vector<double> left{1, 2, 3, 4, 5, 6}, left_transposed{1, 4, 2, 5, 3, 6}, right{7, 8, 9, 10, 11, 12},
      right_transposed{7, 9, 11, 8, 10, 12};
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Tensor a = transpose_a ? there({3, 2}, left_transposed) : there({2, 3}, left),
                   b = transpose_b ? there({2, 3}, right_transposed) : there({3, 2}, right),
                   out = there({2, 2}, {0, 0, 0, 0});
      const Kernels::Matmul how{.transpose_a = transpose_a, .transpose_b = transpose_b};
      gives(out, expected, {a, b}, [=](const Kernels& k, NativeStream on) { k.matmul(on, out, a, b, how); });
    }
  }
}
