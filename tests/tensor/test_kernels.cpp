#include <cmath>
#include <limits>
#include <random>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <Eigen/Core>

#include "tests/tensor/numeric.hpp"

using namespace shardproof;
using namespace shardproof::numeric;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr DType every_dtype[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64,
                                 DType::i32, DType::i16, DType::i8,   DType::u8};

Tensor f64(Shape shape, std::vector<double> values) { return Tensor::of<double>(std::move(shape), values); }

Tensor as(DType dtype, const Tensor& source) {
  const Tensor out = Tensor::host(dtype, source.shape());
  k.copy(nullptr, out, source);
  return out;
}

}  // namespace

TEST_CASE("fill, scale, divide and accumulate work in every dtype") {
  for (const DType dtype : every_dtype) {
    const Tensor out = Tensor::host(dtype, {3});
    k.fill(nullptr, out, 6);
    CHECK(out.to_doubles() == std::vector<double>{6, 6, 6});
    k.scale(nullptr, out, as(dtype, f32({3}, {1, 2, 3})), 4);
    CHECK(out.to_doubles() == std::vector<double>{4, 8, 12});
    k.divide(nullptr, out, out, 4);
    CHECK(out.to_doubles() == std::vector<double>{1, 2, 3});
    for (const DType other : every_dtype) {
      k.fill(nullptr, out, 5);
      k.accumulate(nullptr, out, as(other, f32({3}, {1, 2, 3})));
      CHECK(out.to_doubles() == std::vector<double>{6, 7, 8});
    }
  }
}

TEST_CASE("divide rounds the quotient once; multiplying by the reciprocal would not") {
  const Tensor out = Tensor::host(DType::f32, {3});
  k.divide(nullptr, out, f32({3}, {5, 7, 9}), 3);
  CHECK(out == f32({3}, {5.0F / 3.0F, 7.0F / 3.0F, 3.0F}));
  CHECK(7.0F / 3.0F != 7.0F * (1.0F / 3.0F));
}

TEST_CASE("low precision adds round after every addition, to nearest even") {
  // bf16 has 8 significant bits: from 256 on, 1 is half a unit.
  const Tensor sum = as(DType::bf16, f32({1}, {256}));
  k.accumulate(nullptr, sum, as(DType::bf16, f32({1}, {1})));
  CHECK(sum.to_doubles() == std::vector<double>{256});
  k.accumulate(nullptr, sum, as(DType::bf16, f32({1}, {3})));
  CHECK(sum.to_doubles() == std::vector<double>{260});  // 259 is between 258 and 260; the even mantissa is 260's
  const Tensor half = as(DType::f16, f32({1}, {2048}));
  k.accumulate(nullptr, half, as(DType::f16, f32({1}, {1})));
  CHECK(half.to_doubles() == std::vector<double>{2048});
  k.accumulate(nullptr, half, f32({1}, {1.5F}));  // the addend is f32: not rounded before it is added
  CHECK(half.to_doubles() == std::vector<double>{2050});
}

TEST_CASE("integer accumulation is exact to 64 bits and wraps") {
  const Tensor wide = Tensor::of<std::int64_t>({1}, std::vector<std::int64_t>{(std::int64_t{1} << 60) + 1});
  k.accumulate(nullptr, wide, Tensor::of<std::int32_t>({1}, std::vector<std::int32_t>{-2}));
  CHECK(wide.values<std::int64_t>()[0] == (std::int64_t{1} << 60) - 1);
  const Tensor narrow = Tensor::of<std::int8_t>({1}, std::vector<std::int8_t>{127});
  k.accumulate(nullptr, narrow, narrow.clone());
  CHECK(narrow.values<std::int8_t>()[0] == -2);
}

TEST_CASE("NaN and infinity pass through arithmetic") {
  const Tensor out = f32({3}, {nan_value, f32_infinity, -f32_infinity});
  k.scale(nullptr, out, out, 2);
  CHECK(std::isnan(out.values<float>()[0]));
  CHECK(out.values<float>()[1] == f32_infinity);
  k.accumulate(nullptr, out, f32({3}, {1, -f32_infinity, 1}));
  CHECK(std::isnan(out.values<float>()[0]));
  CHECK(std::isnan(out.values<float>()[1]));
  CHECK(out.values<float>()[2] == -f32_infinity);
}

TEST_CASE("matmul: every transposition and adding, against the definition") {
  constexpr int m = 3, n = 4, inner = 5;
  std::mt19937 random(7);
  std::uniform_int_distribution<int> small(-4, 4);
  const auto draw = [&](Shape shape) {
    Tensor tensor = Tensor::host(DType::f64, std::move(shape));
    for (double& value : tensor.values<double>()) value = small(random);
    return tensor;
  };
  for (const DType dtype : real_dtypes) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const bool add : {false, true}) {
          const Tensor a = draw(transpose_a ? Shape{inner, m} : Shape{m, inner}),
                       b = draw(transpose_b ? Shape{n, inner} : Shape{inner, n});
          const Tensor start = draw({m, n});
          std::vector<double> expected;
          for (std::size_t i = 0; i < m; ++i) {
            for (std::size_t j = 0; j < n; ++j) {
              double total = add ? start.values<double>()[i * n + j] : 0;
              for (std::size_t l = 0; l < inner; ++l) {
                total += a.values<double>()[transpose_a ? l * m + i : i * inner + l] *
                         b.values<double>()[transpose_b ? j * inner + l : l * n + j];
              }
              expected.push_back(total);
            }
          }
          const Tensor out = as(dtype, start);
          k.matmul(nullptr, out, as(dtype, a), as(dtype, b),
                   {.transpose_a = transpose_a, .transpose_b = transpose_b, .add = add});
          CHECK(out.to_doubles() == expected);
        }
      }
    }
  }
}

TEST_CASE("sums run in ascending order and are not fused") {
  // In ascending order each half unit is lost; in any other order, or with blocks, two of them survive.
  const Tensor row = f32({1, 3}, {1, half_ulp, half_ulp}), ones = f32({3, 1}, {1, 1, 1});
  const Tensor one = Tensor::host(DType::f32, {1, 1});
  k.matmul(nullptr, one, row, ones, {});
  CHECK(one.values<float>()[0] == 1.0F);
  k.matmul(nullptr, one, f32({1, 3}, {half_ulp, half_ulp, 1}), ones, {});
  CHECK(one.values<float>()[0] == 1.0F + 2 * half_ulp);
  const Tensor total = Tensor::host(DType::f32, {});
  k.sum(nullptr, total, row);
  CHECK(total.values<float>()[0] == 1.0F);
  k.sum_rows(nullptr, one.flatten(), row.reshape({3, 1}), false);
  CHECK(one.values<float>()[0] == 1.0F);
  k.dot_rows(nullptr, total, row, f32({3}, {1, 1, 1}));
  CHECK(total.values<float>()[0] == 1.0F);

  // (1 + 2^-12)^2 - 1 - 2^-11 is 2^-24 when fused and 0 when the square is rounded first.
  const float x = 1 + 0x1p-12F;
  k.matmul(nullptr, one, f32({1, 2}, {-1 - 0x1p-11F, x}), f32({2, 1}, {1, x}), {});
  CHECK(one.values<float>()[0] == 0.0F);
}

TEST_CASE("matmul adds the finished sum to what is there") {
  const Tensor out = f32({1, 1}, {1});
  k.matmul(nullptr, out, f32({1, 2}, {half_ulp, half_ulp}), f32({2, 1}, {1, 1}), {.add = true});
  CHECK(out.values<float>()[0] == 1.0F + 2 * half_ulp);
}

TEST_CASE("an empty inner dimension gives zeros, or leaves what is added to") {
  const Tensor out = f32({2, 1}, {3, 4});
  k.matmul(nullptr, out, Tensor::host(DType::f32, {2, 0}), Tensor::host(DType::f32, {0, 1}), {.add = true});
  CHECK(out == f32({2, 1}, {3, 4}));
  k.matmul(nullptr, out, Tensor::host(DType::f32, {2, 0}), Tensor::host(DType::f32, {0, 1}), {});
  CHECK(out == f32({2, 1}, {0, 0}));
}

TEST_CASE("kernels accept empty tensors") {
  const Tensor none = Tensor::host(DType::f32, {0}), rows = Tensor::host(DType::f32, {0, 2}), two = f32({2}, {5, 6});
  k.copy(nullptr, none, none);
  k.fill(nullptr, none, 1);
  k.scale(nullptr, none, none, 2);
  k.accumulate(nullptr, none, none);
  k.relu(nullptr, none, none);
  k.sgd(nullptr, none, none, 1);
  k.adam(nullptr, none, none, none, none, {});
  k.adamw(nullptr, none, none, none, none, {});
  k.layer_norm(nullptr, rows, rows, two, two);
  k.layer_norm_backward(nullptr, {{rows}, {}, {}}, rows, rows, two);
  k.add_row(nullptr, rows, two);
  k.add_row(nullptr, Tensor::host(DType::f32, {3, 0}), none);
  k.sum_rows(nullptr, two, rows, true);
  CHECK(two == f32({2}, {5, 6}));
  k.sum_rows(nullptr, two, rows, false);
  CHECK(two == f32({2}, {0, 0}));
  const Tensor total = f32({}, {7});
  k.sum(nullptr, total, none);
  CHECK(total == f32({}, {0}));
}

TEST_CASE("rows are added to and summed over matrices") {
  const Tensor matrix = f32({2, 3}, {0, 1, 2, 3, 4, 5});
  k.add_row(nullptr, matrix, f32({3}, {10, 20, 30}));
  CHECK(matrix == f32({2, 3}, {10, 21, 32, 13, 24, 35}));
  const Tensor sums = f32({3}, {1, 1, 1});
  k.sum_rows(nullptr, sums, matrix, false);
  CHECK(sums == f32({3}, {23, 45, 67}));
  k.sum_rows(nullptr, sums, matrix, true);
  CHECK(sums == f32({3}, {46, 90, 134}));
}

TEST_CASE("relu keeps what is positive, and NaN; its backward follows the result") {
  const Tensor in = f32({5}, {-1, -0.0F, 2, nan_value, f32_infinity}), out = Tensor::host(DType::f32, {5});
  k.relu(nullptr, out, in);
  CHECK(out.narrow(0, 3) == f32({3}, {0, 0, 2}));
  CHECK(std::isnan(out.values<float>()[3]));
  CHECK(out.values<float>()[4] == f32_infinity);
  const Tensor slope = Tensor::host(DType::f32, {4});
  k.relu_backward(nullptr, slope, f32({4}, {5, 6, 7, nan_value}), f32({4}, {0, 3, nan_value, 0}));
  CHECK(slope == f32({4}, {0, 6, 7, 0}));
}

TEST_CASE("losses: sum, sum of squares, dot with a row") {
  const Tensor values = f64({2, 2}, {1, -2, 3, 4}), out = Tensor::host(DType::f64, {});
  k.sum(nullptr, out, values);
  CHECK(out == f64({}, {6}));
  k.sum_of_squares(nullptr, out, values);
  CHECK(out == f64({}, {30}));
  k.dot_rows(nullptr, out, values, f64({2}, {10, 1}));
  CHECK(out == f64({}, {42}));
}

TEST_CASE("scaling by a tensor, and the factor's gradient") {
  const Tensor x = f32({2, 2}, {1, -2, 3, 4}), factor = f32({}, {3}), out = Tensor::host(DType::f32, {2, 2}),
               slope = f32({1}, {100});
  k.scale_by(nullptr, out, x, factor);
  CHECK(out == f32({2, 2}, {3, -6, 9, 12}));
  k.scale_by(nullptr, out, out, factor);
  CHECK(out == f32({2, 2}, {9, -18, 27, 36}));
  k.dot(nullptr, {slope, true}, x, f32({2, 2}, {10, 1, 1, 1}));
  CHECK(slope == f32({1}, {115}));
  k.dot(nullptr, {slope}, x, f32({2, 2}, {10, 1, 1, 1}));
  CHECK(slope == f32({1}, {15}));
  CHECK_THROWS_AS(k.scale_by(nullptr, out, x, f32({2}, {1, 2})), std::invalid_argument);
  CHECK_THROWS_AS(k.dot(nullptr, {}, x, x), std::invalid_argument);
  CHECK_THROWS_AS(k.dot(nullptr, {slope}, x, factor), std::invalid_argument);
}

TEST_CASE("cross entropy and its gradient, against the definition") {
  const Values logits = draw(std::size_t{3} * 4, 1);
  const std::vector<std::int64_t> target = {2, 0, 2};
  const auto mean = [&](const Values& x) {
    double total = 0;
    for (std::size_t i = 0; i < target.size(); ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < 4; ++j) sum += std::exp(x[i * 4 + j]);
      total -= std::log(std::exp(x[i * 4 + static_cast<std::size_t>(target[i])]) / sum);
    }
    return Values{total / 3};
  };
  const Tensor targets = Tensor::of<std::int64_t>({3}, target);
  for (const DType dtype : real_dtypes) {
    const Tensor in = tensor(dtype, {3, 4}, logits), loss = Tensor::host(dtype, {1}),
                 gradient = Tensor::host(dtype, {3, 4});
    k.cross_entropy(nullptr, loss, in, targets);
    check_close(loss, mean(logits));
    k.cross_entropy_backward(nullptr, gradient, in, targets);
    check_close(gradient, slopes(mean, logits, {1}));
  }
  const Tensor large = f32({1, 2}, {1000, -1000}), loss = f32({1}, {0}),
               first = Tensor::of<std::int64_t>({1}, std::vector<std::int64_t>{0});
  k.cross_entropy(nullptr, loss, large, first);
  CHECK(loss == f32({1}, {0}));
  k.cross_entropy(nullptr, loss, f32({1, 2}, {0, nan_value}), first);
  CHECK(std::isnan(loss.values<float>()[0]));
}

TEST_CASE("a target that is no class is named; without rows there is no mean") {
  const Tensor logits = Tensor::host(DType::f32, {1, 2}), loss = f32({1}, {0});
  const Tensor wrong = Tensor::of<std::int64_t>({1}, std::vector<std::int64_t>{2}),
               none = Tensor::host(DType::i64, {0});
  CHECK_THROWS_MATCHES(k.cross_entropy(nullptr, loss, logits, wrong), std::out_of_range,
                       MessageMatches(ContainsSubstring("target 2 is out of range; classes: 2")));
  CHECK_THROWS_MATCHES(k.cross_entropy_backward(nullptr, logits, logits, wrong), std::out_of_range,
                       MessageMatches(ContainsSubstring("target 2 is out of range; classes: 2")));
  CHECK_THROWS_AS(k.cross_entropy(nullptr, loss, logits, none), std::invalid_argument);
  k.cross_entropy(nullptr, loss, Tensor::host(DType::f32, {0, 2}), none);
  CHECK(std::isnan(loss.values<float>()[0]));
}

TEST_CASE("sgd steps against the gradient") {
  const Tensor parameter = f32({2}, {1, 2});
  k.sgd(nullptr, parameter, f32({2}, {4, -8}), 0.25);
  CHECK(parameter == f32({2}, {0, 4}));
}

TEST_CASE("what an optimizer scales and adds is rounded once") {
  const float x = 1 + 0x1p-12F;  // its square is 1 + 2^-11 + 2^-24, and 2^-24 is lost where that is rounded
  const Tensor parameter = f32({1}, {-1 - 0x1p-11F});
  k.sgd(nullptr, parameter, f32({1}, {x}), -static_cast<double>(x));
  CHECK(parameter == f32({1}, {0x1p-24F}));

  const Tensor moment1 = f32({1}, {0.3F}), moment2 = f32({1}, {-1 - 0x1p-11F}), value = f32({1}, {0});
  k.adam(nullptr, value, f32({1}, {x}), moment1, moment2, {.beta1 = 0.9, .beta2 = 0.5});
  CHECK(moment2 == f32({1}, {0x1p-25F}));
  const float weight = static_cast<float>(1 - 0.9), once = std::fma(weight, x - 0.3F, 0.3F),
              product = weight * (x - 0.3F);
  REQUIRE(once != product + 0.3F);
  CHECK(moment1 == f32({1}, {once}));
}

TEST_CASE("operands that do not fit are refused by name, rule and shapes") {
  const Tensor two = f32({2}, {0, 0}), three = f32({3}, {0, 0, 0}), matrix = Tensor::host(DType::f32, {2, 3});
  CHECK_THROWS_MATCHES(k.copy(nullptr, two, three), std::invalid_argument,
                       MessageMatches(ContainsSubstring("copy") && ContainsSubstring("f32 [3]")));
  CHECK_THROWS_AS(k.accumulate(nullptr, two, three), std::invalid_argument);
  CHECK_THROWS_AS(k.scale(nullptr, two, three, 1), std::invalid_argument);
  CHECK_THROWS_AS(k.fill(nullptr, Tensor{}, 1), std::invalid_argument);
  CHECK_THROWS_AS(k.copy(nullptr, Tensor{}, Tensor{}), std::invalid_argument);
  CHECK_THROWS_AS(k.matmul(nullptr, matrix, matrix, matrix, {}), std::invalid_argument);
  CHECK_THROWS_AS(k.matmul(nullptr, two, matrix, matrix, {}), std::invalid_argument);
  CHECK_THROWS_AS(k.add_row(nullptr, matrix, two), std::invalid_argument);
  CHECK_THROWS_AS(k.sum_rows(nullptr, two, matrix, false), std::invalid_argument);
  CHECK_THROWS_AS(k.relu(nullptr, two, three), std::invalid_argument);
  CHECK_THROWS_AS(k.relu_backward(nullptr, two, two, three), std::invalid_argument);
  CHECK_THROWS_AS(k.sum(nullptr, two, three), std::invalid_argument);
  CHECK_THROWS_AS(k.dot_rows(nullptr, two, matrix, three), std::invalid_argument);
  CHECK_THROWS_AS(k.sgd(nullptr, two, three, 1), std::invalid_argument);
  CHECK_THROWS_AS(k.adam(nullptr, two, two, two, two, {.step = 0}), std::invalid_argument);
  CHECK_THROWS_AS(k.adamw(nullptr, two, two, two, three, {}), std::invalid_argument);
  CHECK_THROWS_AS(k.adamw(nullptr, two, two, two, two, {.step = 0}), std::invalid_argument);
  CHECK_THROWS_MATCHES(k.relu(nullptr, two, as(DType::f64, two)), std::invalid_argument,
                       MessageMatches(ContainsSubstring("one dtype")));
  CHECK_THROWS_MATCHES(k.sum(nullptr, as(DType::i32, f32({1}, {0})), as(DType::i32, two)), std::invalid_argument,
                       MessageMatches(ContainsSubstring("f64, f32, bf16 and f16 only")));
}

TEST_CASE("iota counts up from its start") { CHECK(iota(3, 4) == f32({4}, {3, 4, 5, 6})); }
