#include <cmath>
#include <cstdint>

#include <catch2/catch_test_macros.hpp>

#include "fixtures/oracles/difference.hpp"
#include "fixtures/oracles/golden.hpp"
#include "harness/tensor/kernels.hpp"

using namespace shardproof;
namespace golden = shardproof::oracles::golden;

// The golden gradients are given to the kernel, so only the optimizer's own arithmetic is compared.
TEST_CASE("adamw on PyTorch's gradients arrives at PyTorch's parameters") {
  for (const std::string name : {"a_mlp_adam_W1", "a_mlp_adam_W2", "a_mlp_adam_W4"}) {
    const golden::Values run = golden::values(name);
    const auto& first = run.iterations.at(0).parameters;
    const auto& second = run.iterations.at(1).parameters;
    for (std::size_t j = 0; j < first.size(); ++j) {
      INFO(name << ", " << first[j].name);
      const Tensor moment1 = Tensor::host(DType::f32, first[j].after.shape()), moment2 = moment1.clone();
      // The step before iteration 0 is not in the file: the moments of step 1 follow from its gradient, whatever the
      // parameter.
      const Tensor ignored = moment1.clone();
      cpu_kernels().adamw(nullptr, ignored, first[j].gradient, moment1, moment2, {.rate = 1e-2, .step = 1});
      const Tensor parameter = first[j].after.clone();
      cpu_kernels().adamw(nullptr, parameter, second[j].gradient, moment1, moment2, {.rate = 1e-2, .step = 2});
      CHECK(oracles::largest_difference(parameter, second[j].after) <= run.iterations[1].tolerance.parameter);
    }
  }
}

TEST_CASE("adamw's first step moves every weight by the rate against the sign of its gradient") {
  const std::vector<float> slopes = {0.5F, -3, 1e-3F}, start = {1, 1, 1};
  const Tensor parameter = Tensor::of<float>({3}, start), gradient = Tensor::of<float>({3}, slopes);
  const Tensor moment1 = Tensor::host(DType::f32, {3}), moment2 = Tensor::host(DType::f32, {3});
  cpu_kernels().adamw(nullptr, parameter, gradient, moment1, moment2, {.rate = 0.125});
  const std::vector<double> moved = parameter.to_doubles();
  CHECK(std::abs(moved[0] - 0.875) < 1e-6);
  CHECK(std::abs(moved[1] - 1.125) < 1e-6);
  CHECK(std::abs(moved[2] - 0.875) < 1e-5);
  CHECK(moment1.values<float>()[0] == 0.5F * static_cast<float>(1 - 0.9));
  CHECK(moment2.values<float>()[1] == static_cast<float>(1 - 0.999) * -3.0F * -3.0F);
}

TEST_CASE("adamw's weight decay is decoupled: it shrinks the weight and leaves the moments alone") {
  const Tensor gradient = Tensor::host(DType::f32, {1}), moment1 = gradient.clone(), moment2 = gradient.clone();
  const std::vector<float> start = {2};
  const Tensor parameter = Tensor::of<float>({1}, start);
  cpu_kernels().adamw(nullptr, parameter, gradient, moment1, moment2, {.rate = 0.5, .weight_decay = 0.25});
  CHECK(parameter.values<float>()[0] == 1.75F);
  CHECK(moment1.values<float>()[0] == 0.0F);
  CHECK(moment2.values<float>()[0] == 0.0F);
}

TEST_CASE("adamw interpolates from the nearer end: a beta1 of 0 takes the gradient as it is") {
  const std::vector<float> slope = {0.1F}, old_moment = {1e8F}, one = {1};
  const Tensor moment1 = Tensor::of<float>({1}, old_moment), moment2 = Tensor::host(DType::f32, {1});
  const Tensor gradient = Tensor::of<float>({1}, slope);
  cpu_kernels().adamw(nullptr, Tensor::of<float>({1}, one), gradient, moment1, moment2, {.beta1 = 0});
  CHECK(moment1.values<float>()[0] == 0.1F);
}

TEST_CASE("adam is adamw without decay, and on the gradient and the decayed weight with it") {
  const std::vector<float> slopes = {0.5F, -3, 1e-3F}, start = {1, -2, 0.25F};
  for (const double decay : {0.0, 0.25}) {
    const Tensor one = Tensor::of<float>({3}, start), other = one.clone();
    const Tensor first = Tensor::host(DType::f32, {3}), second = first.clone(), other_first = first.clone(),
                 other_second = first.clone();
    for (const std::int64_t step : {1, 2, 3}) {
      const Tensor gradient = Tensor::of<float>({3}, slopes);
      cpu_kernels().adam(nullptr, one, gradient, first, second, {.rate = 0.125, .weight_decay = decay, .step = step});
      const Tensor shrinking = other.clone();
      cpu_kernels().scale(nullptr, shrinking, shrinking, decay);
      cpu_kernels().accumulate(nullptr, shrinking, gradient);
      cpu_kernels().adamw(nullptr, other, shrinking, other_first, other_second, {.rate = 0.125, .step = step});
      CHECK(gradient == Tensor::of<float>({3}, slopes));  // the gradient itself is left alone
    }
    CHECK(one == other);
    CHECK(second == other_second);
  }
}
