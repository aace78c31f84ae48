#include <cmath>
#include <limits>

#include <catch2/catch_test_macros.hpp>

#include "tests/tensor/numeric.hpp"

using namespace shardproof;
using namespace shardproof::numeric;

namespace {

Values normalized(const Values& x, const Values& weight, const Values& bias) {
  const std::size_t n = weight.size();
  Values y;
  for (std::size_t i = 0; i < x.size(); i += n) {
    double mean = 0, variance = 0;
    for (std::size_t j = 0; j < n; ++j) mean += x[i + j] / static_cast<double>(n);
    for (std::size_t j = 0; j < n; ++j) variance += std::pow(x[i + j] - mean, 2) / static_cast<double>(n);
    for (std::size_t j = 0; j < n; ++j)
      y.push_back((x[i + j] - mean) / std::sqrt(variance + 1e-5) * weight[j] + bias[j]);
  }
  return y;
}

}  // namespace

TEST_CASE("layer norm and its gradients, against the definition") {
  const Values x = draw(3 * 5, 1), weight = draw(5, 2), bias = draw(5, 3), slope = draw(3 * 5, 4);
  const auto by_x = slopes([&](const Values& v) { return normalized(v, weight, bias); }, x, slope);
  const auto by_weight = slopes([&](const Values& v) { return normalized(x, v, bias); }, weight, slope);
  const auto by_bias = slopes([&](const Values& v) { return normalized(x, weight, v); }, bias, slope);
  for (const DType dtype : real_dtypes) {
    const Tensor in = tensor(dtype, {3, 5}, x), factor = tensor(dtype, {5}, weight), out = Tensor::host(dtype, {3, 5});
    k.layer_norm(nullptr, out, in, factor, tensor(dtype, {5}, bias));
    check_close(out, normalized(x, weight, bias));
    for (const bool add : {false, true}) {
      const Tensor to_in = tensor(dtype, {3, 5}, draw(15, 5)), to_weight = tensor(dtype, {5}, draw(5, 6)),
                   to_bias = tensor(dtype, {5}, draw(5, 7));
      k.layer_norm_backward(nullptr, {{to_in, add}, {to_weight, add}, {to_bias, add}}, tensor(dtype, {3, 5}, slope), in,
                            factor);
      check_close(to_in, add ? plus(by_x, draw(15, 5)) : by_x);
      check_close(to_weight, add ? plus(by_weight, draw(5, 6)) : by_weight);
      check_close(to_bias, add ? plus(by_bias, draw(5, 7)) : by_bias);
    }
  }
}

TEST_CASE("a row of equal elements has no deviation: layer norm gives the bias") {
  const Tensor out = Tensor::host(DType::f32, {1, 3}), bias = f32({3}, {4, 5, 6});
  k.layer_norm(nullptr, out, f32({1, 3}, {7, 7, 7}), f32({3}, {1, 2, 3}), bias);
  CHECK(out.flatten() == bias);
}

TEST_CASE("layer norm gives only the gradients that are asked for, and needs its weight for the input's alone") {
  const Tensor in = f32({1, 2}, {1, 3}), slope = f32({1, 2}, {1, 2}), bias = f32({2}, {9, 9}),
               by_in = f32({1, 2}, {8, 8});
  k.layer_norm_backward(nullptr, {.in = {}, .weight = {}, .bias = {bias}}, slope, in, {});
  CHECK(bias == slope.flatten());
  k.layer_norm_backward(nullptr, {.in = {by_in}, .weight = {}, .bias = {}}, f32({1, 2}, {1, 1}), in, f32({2}, {1, 1}));
  CHECK(by_in == f32({1, 2}, {0, 0}));
  CHECK_THROWS_AS(k.layer_norm_backward(nullptr, {.in = {by_in}, .weight = {}, .bias = {}}, slope, in, {}),
                  std::invalid_argument);
}

TEST_CASE("power sums and their roots are norms") {
  const Values x = draw(50, 1);
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double power : {1.0, 2.0, 3.0, 2.5, infinity}) {
      double sum = 0;
      for (const double value : x) {
        if (std::isinf(power)) sum = std::max(sum, std::abs(value));
        else sum += std::pow(std::abs(value), power);
      }
      const double norm = std::isinf(power) ? sum : std::pow(sum, 1 / power);
      const Tensor total = tensor(dtype, {1}, {1000});
      k.power_sum(nullptr, total, tensor(dtype, {50}, x), power, false);
      CHECK(std::abs(total.to_doubles()[0] - sum) <= 1e-6 * sum);
      k.power_root(nullptr, total, total, power);
      CHECK(std::abs(total.to_doubles()[0] - norm) <= 1e-6 * norm);
    }
  }
}

TEST_CASE("power sums add to what is there; an infinite power keeps the larger one") {
  const Tensor total = f32({1}, {10}), in = f32({2}, {-3, 4});
  k.power_sum(nullptr, total, in, 2, true);
  CHECK(total == f32({1}, {35}));
  k.power_sum(nullptr, total, in, infinity, true);
  CHECK(total == f32({1}, {35}));
  k.power_sum(nullptr, total, in, infinity, false);
  CHECK(total == f32({1}, {4}));
  k.power_sum(nullptr, total, f32({1}, {-6}), infinity, true);
  CHECK(total == f32({1}, {6}));
}

TEST_CASE("the norm of an empty tensor is zero, and one NaN at any place makes every norm NaN") {
  for (const double power : {1.0, 2.0, 3.0, infinity}) {
    const Tensor total = f32({1}, {5});
    k.power_sum(nullptr, total, Tensor::host(DType::f32, {0}), power, true);
    CHECK(total == f32({1}, {5}));
    k.power_sum(nullptr, total, Tensor::host(DType::f32, {0}), power, false);
    CHECK(total == f32({1}, {0}));
    for (std::size_t place = 0; place < 3; ++place) {
      const Tensor in = f32({3}, {1, 2, 3});
      in.values<float>()[place] = nan_value;
      k.power_sum(nullptr, total, in, power, false);
      CHECK(std::isnan(total.values<float>()[0]));
      k.power_sum(nullptr, total, f32({1}, {1}), power, true);
      CHECK(std::isnan(total.values<float>()[0]));
    }
  }
  CHECK_THROWS_AS(k.power_sum(nullptr, f32({1}, {0}), f32({1}, {0}), 0, false), std::invalid_argument);
  CHECK_THROWS_AS(k.power_root(nullptr, f32({1}, {0}), f32({1}, {0}), -1), std::invalid_argument);
}

TEST_CASE("clipping shortens what is longer than allowed, leaves the rest alone, and passes NaN on") {
  const Tensor gradient = f32({2}, {6, 8});
  k.clip(nullptr, gradient, f32({1}, {10}), 20);
  CHECK(gradient == f32({2}, {6, 8}));
  k.clip(nullptr, gradient, f32({}, {10}), 5);
  check_close(gradient, {6 * 5 / (10 + 1e-6), 8 * 5 / (10 + 1e-6)});
  k.clip(nullptr, gradient, f32({1}, {0}), 1);  // no gradient at all: nothing to divide by
  check_close(gradient, {6 * 5 / (10 + 1e-6), 8 * 5 / (10 + 1e-6)});
  k.clip(nullptr, Tensor::host(DType::f32, {0}), f32({1}, {10}), 5);
  k.clip(nullptr, gradient, f32({1}, {nan_value}), 5);
  CHECK(std::isnan(gradient.values<float>()[0]));
  CHECK_THROWS_AS(k.clip(nullptr, gradient, f32({2}, {1, 1}), 5), std::invalid_argument);
}
