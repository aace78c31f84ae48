#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "fixtures/engines/autograd/tape.hpp"
#include "harness/device/sim/sim_device.hpp"

using namespace shardproof;
using namespace shardproof::engines;

namespace {

Tensor scalar(float value) { return Tensor::of<float>({1}, std::vector{value}); }

// factor * x, with a note of when its backward ran.
Variable times(Tape& tape, const Variable& x, float factor, std::vector<float>& ran) {
  return tape.operation(scalar(factor * x.value.values<float>()[0]), {x}, {}, [factor, &ran](const Tensor& gradient) {
    ran.push_back(factor);
    return std::vector{scalar(factor * gradient.values<float>()[0])};
  });
}

// A variable whose gradient is kept.
Variable watched(Tape& tape, float value, float& gradient_out) {
  const Parameter parameter;
  return tape.operation(scalar(value), {}, {&parameter}, [&gradient_out](const Tensor& gradient) {
    gradient_out = gradient.values<float>()[0];
    return std::vector<Tensor>{};
  });
}

}  // namespace

TEST_CASE("backward runs operations in reverse order and multiplies along the chain") {
  SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran;
  float gradient = 0;
  const Variable y = times(tape, times(tape, watched(tape, 1, gradient), 2, ran), 3, ran);
  tape.backward(y, scalar(1));
  CHECK(ran == std::vector<float>{3, 2});
  CHECK(gradient == 6);
}

TEST_CASE("a value with several consumers gets the sum of their gradients, once") {
  SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran;
  float gradient = 0;
  const Variable x = watched(tape, 1, gradient);
  const Variable a = times(tape, x, 2, ran), b = times(tape, x, 5, ran);
  const Variable sum = tape.operation(scalar(7), {a, b}, {}, [](const Tensor& g) { return std::vector{g, g}; });
  tape.backward(sum, scalar(1));
  CHECK(gradient == 7);
  CHECK(ran == std::vector<float>{5, 2});
}

TEST_CASE("a hook fires when the gradient passes, and never for a constant") {
  SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran;
  int fired = 0;
  float gradient = 0;
  const Variable x = tape.hook(watched(tape, 1, gradient), [&] { fired += ran.size() == 1 ? 1 : 100; });
  const Variable constant = tape.hook({scalar(1)}, [&] { fired += 1000; });
  CHECK_FALSE(constant.needs_gradient());
  tape.backward(times(tape, x, 4, ran), scalar(1));
  CHECK(fired == 1);
  CHECK(gradient == 4);
}

TEST_CASE("who watches a value is asked in order of registration, when its gradient is complete and before it is used") {
  SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran, seen;
  float gradient = 0;
  const Variable x = times(tape, watched(tape, 1, gradient), 3, ran);
  const auto note = [&](float who) { return [&, who] { seen.insert(seen.end(), {who, static_cast<float>(ran.size())}); }; };
  tape.watch(x, note(10));
  const Variable a = times(tape, x, 2, ran), b = times(tape, x, 5, ran);
  tape.watch(x, note(20));
  tape.watch({scalar(1)}, note(30));
  tape.backward(tape.operation(scalar(7), {a, b}, {}, [](const Tensor& g) { return std::vector{g, g}; }), scalar(1));
  CHECK(seen == std::vector<float>{10, 2, 20, 2});
  CHECK(ran == std::vector<float>{5, 2, 3});
  CHECK(gradient == 21);
}

TEST_CASE("an operation whose output nobody used is skipped") {
  SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran;
  float gradient = 0;
  const Variable x = watched(tape, 1, gradient);
  times(tape, x, 9, ran);
  tape.backward(times(tape, x, 2, ran), scalar(1));
  CHECK(ran == std::vector<float>{2});
  CHECK(gradient == 2);
}

TEST_CASE("what needs no gradient and trains nothing is a constant, and is not recorded") {
  SimDevice device({}, 0);
  Tape tape(device);
  const Parameter frozen{.trainable = false}, trainable;
  int ran = 0;
  const auto backward = [&ran](const Tensor& gradient) {
    ++ran;
    return std::vector{gradient};
  };
  const Variable constant{scalar(2)};
  CHECK_FALSE(tape.operation(scalar(1), {constant}, {}, backward).needs_gradient());
  CHECK_FALSE(tape.operation(scalar(1), {constant}, {&frozen, nullptr}, backward).needs_gradient());
  const Variable learnt = tape.operation(scalar(1), {constant}, {&frozen, &trainable}, backward);
  CHECK(learnt.needs_gradient());
  const Variable passed_on =
      tape.operation(scalar(1), {constant, learnt}, {&frozen}, [](const Tensor& gradient) { return std::vector{Tensor{}, gradient}; });
  CHECK(passed_on.needs_gradient());
  tape.backward(passed_on, scalar(1));
  CHECK(ran == 1);
}
