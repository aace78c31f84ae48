#include <catch2/catch_test_macros.hpp>
#include <stdexcept>
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

// A parameter, and where its gradient is kept.
struct Learnt {
  Parameter parameter;
  float gradient = 0;
};

Variable watched(Tape& tape, float value, Learnt& learnt) {
  return tape.operation(scalar(value), {}, {&learnt.parameter},
                        [&gradient_out = learnt.gradient](const Tensor& gradient) {
                          gradient_out = gradient.values<float>()[0];
                          return std::vector<Tensor>{};
                        });
}

}  // namespace

TEST_CASE("backward runs operations in reverse order and multiplies along the chain") {
  device::SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran;
  Learnt learnt;
  const Variable y = times(tape, times(tape, watched(tape, 1, learnt), 2, ran), 3, ran);
  play_back(tape, y, scalar(1));
  CHECK(ran == std::vector<float>{3, 2});
  CHECK(learnt.gradient == 6);
}

TEST_CASE("a value with several consumers gets the sum of their gradients, once") {
  device::SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran;
  Learnt learnt;
  const Variable x = watched(tape, 1, learnt);
  const Variable a = times(tape, x, 2, ran), b = times(tape, x, 5, ran);
  const Variable sum = tape.operation(scalar(7), {a, b}, {}, [](const Tensor& g) { return std::vector{g, g}; });
  play_back(tape, sum, scalar(1));
  CHECK(learnt.gradient == 7);
  CHECK(ran == std::vector<float>{5, 2});
}

TEST_CASE("a hook fires when the gradient passes, and never for a constant") {
  device::SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran;
  int fired = 0;
  Learnt learnt;
  const Variable x = tape.hook(watched(tape, 1, learnt), [&] { fired += ran.size() == 1 ? 1 : 100; });
  const Variable constant = tape.hook({scalar(1)}, [&] { fired += 1000; });
  CHECK_FALSE(constant.needs_gradient());
  play_back(tape, times(tape, x, 4, ran), scalar(1));
  CHECK(fired == 1);
  CHECK(learnt.gradient == 4);
}

TEST_CASE(
    "who watches a value is asked in order of registration, when its gradient is complete and before it is used") {
  device::SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran, seen;
  Learnt learnt;
  const Variable x = times(tape, watched(tape, 1, learnt), 3, ran);
  const auto note = [&](float who) {
    return [&, who] { seen.insert(seen.end(), {who, static_cast<float>(ran.size())}); };
  };
  tape.watch(x, note(10));
  const Variable a = times(tape, x, 2, ran), b = times(tape, x, 5, ran);
  tape.watch(x, note(20));
  tape.watch({scalar(1)}, note(30));
  play_back(tape, tape.operation(scalar(7), {a, b}, {}, [](const Tensor& g) { return std::vector{g, g}; }), scalar(1));
  CHECK(seen == std::vector<float>{10, 2, 20, 2});
  CHECK(ran == std::vector<float>{5, 2, 3});
  CHECK(learnt.gradient == 21);
}

TEST_CASE("backward skips an operation whose output is unused") {
  device::SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran;
  Learnt learnt;
  const Variable x = watched(tape, 1, learnt);
  times(tape, x, 9, ran);
  play_back(tape, times(tape, x, 2, ran), scalar(1));
  CHECK(ran == std::vector<float>{2});
  CHECK(learnt.gradient == 2);
}

TEST_CASE("an operation that needs no gradient and trains nothing is a constant, and is not recorded") {
  device::SimDevice device({}, 0);
  Tape tape(device);
  Parameter frozen{.trainable = false}, trainable;
  int ran = 0;
  const auto to_inputs = [&ran](const Tensor& gradient) {
    ++ran;
    return std::vector{gradient};
  };
  const Variable constant{scalar(2)};
  CHECK_FALSE(tape.operation(scalar(1), {constant}, {}, to_inputs).needs_gradient());
  CHECK_FALSE(tape.operation(scalar(1), {constant}, {&frozen, nullptr}, to_inputs).needs_gradient());
  const Variable learnt = tape.operation(scalar(1), {constant}, {&frozen, &trainable}, to_inputs);
  CHECK(learnt.needs_gradient());
  const Variable passed_on = tape.operation(scalar(1), {constant, learnt}, {&frozen},
                                            [](const Tensor& gradient) { return std::vector{Tensor{}, gradient}; });
  CHECK(passed_on.needs_gradient());
  play_back(tape, passed_on, scalar(1));
  CHECK(ran == 1);
}

TEST_CASE("operations know how many uses of a parameter are to come, of those that the output comes from") {
  device::SimDevice device({}, 0);
  Tape tape(device);
  Parameter parameter, frozen{.trainable = false};
  std::vector<int> to_come;
  const auto used = [&](const std::vector<Variable>& inputs) {
    return tape.operation(scalar(1), inputs, {&parameter, &frozen, nullptr},
                          [&, count = inputs.size()](const Tensor& gradient) {
                            to_come.push_back(parameter.uses_to_come);
                            CHECK(frozen.uses_to_come == 0);
                            parameter.arriving = gradient;
                            return std::vector<Tensor>(count, gradient);
                          });
  };
  const Variable first = used({});
  used({first});  // a side branch
  play_back(tape, used({first}), scalar(1));
  CHECK(to_come == std::vector{2, 1});
  CHECK(parameter.uses_to_come == 0);
  CHECK_FALSE(parameter.arriving.defined());
}

TEST_CASE("a backward that fails leaves no uses to come") {
  device::SimDevice device({}, 0);
  Tape tape(device);
  Parameter parameter;
  const Variable y = tape.operation(scalar(1), {}, {&parameter},
                                    [](const Tensor&) -> std::vector<Tensor> { throw std::runtime_error("no"); });
  CHECK_THROWS_AS(play_back(tape, y, scalar(1)), std::runtime_error);
  CHECK(parameter.uses_to_come == 0);
}

TEST_CASE(
    "a backward from several values runs all of the later one first, and asks for a gradient when it comes to its "
    "value") {
  device::SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran;
  Learnt shared;
  const Variable first = times(tape, watched(tape, 1, shared), 2, ran);
  Learnt later;
  const Variable second = times(tape, watched(tape, 1, later), 3, ran);
  const auto seed = [&ran](float mark) {
    return [&ran, mark] {
      ran.push_back(mark);
      return scalar(1);
    };
  };
  tape.backward({{first, seed(-1)}, {second, seed(-2)}});
  CHECK(ran == std::vector<float>{-2, 3, -1, 2});
  CHECK(shared.gradient == 2);
  CHECK(later.gradient == 3);
}

TEST_CASE("a parameter of two values of one backward has its gradient after its first use") {
  device::SimDevice device({}, 0);
  Tape tape(device);
  Learnt learnt;
  std::vector<int> left;
  const auto used = [&] {
    return tape.operation(scalar(1), {}, {&learnt.parameter}, [&](const Tensor&) {
      left.push_back(learnt.parameter.uses_to_come);
      return std::vector<Tensor>{};
    });
  };
  const Variable first = used(), second = used();
  tape.backward({{first, [] { return scalar(1); }}, {second, [] { return scalar(1); }}});
  CHECK(left == std::vector<int>{2, 1});
}

TEST_CASE("what was recorded after a mark is forgotten, and nothing before it") {
  device::SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran;
  Learnt learnt;
  const Variable y = times(tape, watched(tape, 1, learnt), 2, ran);
  const std::size_t recorded = tape.size();
  times(tape, y, 5, ran);
  tape.forget_after(recorded);
  play_back(tape, y, scalar(1));
  CHECK(ran == std::vector<float>{2});
}

TEST_CASE("a mark is reached when all that was recorded after it has run, also where no gradient passes") {
  device::SimDevice device({}, 0);
  Tape tape(device);
  std::vector<float> ran;
  Learnt learnt;
  const Variable x = times(tape, watched(tape, 1, learnt), 2, ran);
  tape.mark([&ran] { ran.push_back(-1); });
  const Variable y = times(tape, x, 3, ran);
  tape.mark([&ran] { ran.push_back(-2); });
  play_back(tape, y, scalar(1));
  CHECK(ran == std::vector<float>{-2, 3, -1, 2});
}
