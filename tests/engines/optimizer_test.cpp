#include <catch2/catch_test_macros.hpp>

#include "fixtures/engines/optimizers/optimizer.hpp"
#include "harness/device/sim/sim_device.hpp"

using namespace shardproof;

namespace {

Tensor f32(std::vector<float> values) { return Tensor::of<float>({static_cast<std::int64_t>(values.size())}, values); }

}  // namespace

TEST_CASE("each kind of optimizer is its kernel, step by step") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    CAPTURE(to_string(kind));
    device::SimDevice device({}, 0);
    engines::Optimizer optimizer(device, {.kind = kind, .rate = 0.125, .weight_decay = 0.25});
    const Tensor parameter = f32({1, -2}), expected = f32({1, -2}), gradient = f32({0.5, 3});
    const Tensor first = f32({0, 0}), second = f32({0, 0});
    for (const std::int64_t step : {1, 2}) {
      optimizer.update("p", parameter, gradient);
      const Kernels::Adam how{.rate = 0.125, .weight_decay = 0.25, .step = step};
      if (kind == OptimizerKind::sgd) cpu_kernels().sgd(nullptr, expected, gradient, 0.125);
      if (kind == OptimizerKind::adam) cpu_kernels().adam(nullptr, expected, gradient, first, second, how);
      if (kind == OptimizerKind::adamw) cpu_kernels().adamw(nullptr, expected, gradient, first, second, how);
      CHECK(parameter == expected);
    }
  }
}

TEST_CASE("a parameter that had no gradient before takes its own first step") {
  device::SimDevice device({}, 0);
  engines::Optimizer optimizer(device, {.kind = OptimizerKind::adam, .rate = 0.125});
  const Tensor early = f32({1}), late = f32({1}), gradient = f32({0.5});
  optimizer.update("early", early, gradient);
  const Tensor after_one = early.clone();
  optimizer.update("early", early, gradient);
  optimizer.update("late", late, gradient);
  CHECK(late == after_one);
}

TEST_CASE("momentum is the first gradient, then itself times its factor plus the gradient") {
  device::SimDevice device({}, 0);
  engines::Optimizer optimizer(device, {.kind = OptimizerKind::sgd, .rate = 0.5, .momentum = 0.25});
  const Tensor parameter = f32({1, 8});
  optimizer.update("p", parameter, f32({2, 4}));  // momentum 2, 4
  CHECK(parameter == f32({0, 6}));
  optimizer.update("p", parameter, f32({1, 0}));  // momentum 1.5, 1
  CHECK(parameter == f32({-0.75, 5.5}));
  optimizer.update("p", parameter, f32({0, -8}));  // momentum 0.375, -7.75
  CHECK(parameter == f32({-0.9375, 9.375}));
}
