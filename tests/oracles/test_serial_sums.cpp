// Which sums have the same result in every order?
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "fixtures/oracles/serial_sums.hpp"
#include "tests/oracles/scenarios.hpp"

using namespace shardproof;
using namespace shardproof::oracles;
using namespace shardproof::scenario;
using Catch::Matchers::ContainsSubstring;

namespace {

using Products = std::vector<std::pair<float, float>>;

/// The sum as a kernel with so many lanes computes it: each lane adds every lanes-th product, then lanes are added in
/// pairs.
float in_lanes(const Products& products, std::size_t lanes, bool fused) {
  std::vector<float> sums(lanes);
  for (std::size_t i = 0; i < products.size(); ++i) {
    const auto [a, b] = products[i];
    float& sum = sums[i % lanes];
    if (fused) {
      sum = std::fma(a, b, sum);
    } else {
      const volatile float product = a * b;  // rounded here, whatever the compiler would fuse
      sum += product;
    }
  }
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

/// Whether all kernels compute the same sum, rounded to a dtype.
bool all_orders_agree(Products products, DType dtype) {
  const auto rounded = [dtype](float value) { return rounded_to(dtype, static_cast<double>(value)); };
  const double expected = rounded(in_lanes(products, 1, false));
  for (int order = 0; order < 3; ++order) {
    for (const std::size_t lanes : {1U, 2U, 4U, 8U, 16U}) {
      for (const bool fused : {false, true}) {
        if (rounded(in_lanes(products, lanes, fused)) != expected) return false;
      }
    }
    if (order == 0) std::ranges::reverse(products);
    else std::ranges::sort(products, {}, [](const auto& product) { return std::abs(product.first * product.second); });
  }
  return true;
}

serial::Sum<float> sum_of(const Products& products) {
  serial::Sum<float> sum;
  for (const auto& [a, b] : products) sum.add_product(a, b);
  return sum;
}

/// Up to 40 products of integers below 2^bits, scaled by powers of two.
Products random_products(std::mt19937& random, int bits) {
  std::uniform_int_distribution<int> count(1, 40), integer(-(1 << bits), 1 << bits), scale(-bits / 2, bits / 2);
  Products products(static_cast<std::size_t>(count(random)));
  for (auto& [a, b] : products) {
    a = std::ldexp(static_cast<float>(integer(random)), scale(random));
    b = static_cast<float>(integer(random));
  }
  return products;
}

/// Adds a term that brings the sum to half way between two numbers of the dtype: then the last bit of f32 decides.
void bring_half_way(Products& products, DType dtype) {
  const float half_way = 1 + std::ldexp(1.0F, dtype == DType::bf16 ? -8 : -11);
  const auto add = [](double sum, const auto& product) {
    return sum + static_cast<double>(product.first) * static_cast<double>(product.second);
  };
  products.emplace_back(
      static_cast<float>(static_cast<double>(half_way) - std::accumulate(products.begin(), products.end(), 0.0, add)),
      1);
}

const std::string nothing;

std::string order_shows(const Scenario& scenario, int world = 1) {
  return train_serially(scenario, world, Arithmetic::f32).back().order_shows;
}

}  // namespace

TEST_CASE("a sum is called independent of the order only if all kernels compute the same result", "[sums]") {
  std::mt19937 random(20);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(to_string(dtype));
    int settled = 0, differ = 0;
    for (int i = 0; i < 4000; ++i) {
      Products products = random_products(random, 1 + i % 12);
      if (dtype != DType::f32 && i % 2 == 0) bring_half_way(products, dtype);
      const bool agree = all_orders_agree(products, dtype);
      if (sum_of(products).any_order(dtype)) {
        ++settled;
        CHECK(agree);
      }
      if (!agree) ++differ;
    }
    // Both happen: the check is neither always true nor always false.
    CHECK(settled > 400);
    CHECK(differ > 100);
  }
}

TEST_CASE("a sum is exact as long as its terms fit into 24 bits together", "[sums]") {
  const float big = 1 << 23;
  serial::Sum<float> sum;
  sum.add(big);
  sum.add(big - 1);
  sum.add(1);
  CHECK(sum.any_order(DType::f32));
  CHECK(sum.bits() == 24);
  CHECK(sum.value() == 2 * big);
  sum.add(0);
  CHECK(sum.terms() == 3);
  sum.add(-1);
  CHECK_FALSE(sum.any_order(DType::f32));
  CHECK(sum.bits() == 25);

  // Every kernel rounds a single product once, in the same way. Two products may be fused with their sum, or not.
  CHECK(sum_of({{1.0F / 3, 1.0F / 3}}).any_order(DType::f32));
  CHECK_FALSE(sum_of({{1.0F / 3, 1.0F / 3}, {1, 1}}).any_order(DType::f32));
  CHECK(sum_of({{1.0F / 3, 1.0F / 3}, {1, 1}}).any_order(DType::bf16));
  // Half way between two numbers of bf16 the last bit of f32 decides.
  CHECK_FALSE(sum_of({{1.0F / 3, 3}, {1.0F / 256, 1}}).any_order(DType::bf16));
}

TEST_CASE("a sum of what is not finite is that in every order", "[sums]") {
  for (const float term : {HUGE_VALF, -HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
    serial::Sum<float> sum;
    for (const float each : {1.0F / 3, term, 1.0F / 7, 1e9F}) sum.add(each);
    CHECK(sum.any_order(DType::f32));
    CHECK(sum.largest_error() == 0);
    CHECK_FALSE(std::isfinite(sum.value()));
  }
}

TEST_CASE("the least and the greatest sum over all orders are found", "[sums]") {
  const float big = 1 << 24;
  const serial::Range range = serial::range_over_orders(std::array{big, 1.0F, 1.0F, 1.0F, -big});
  CHECK(range.least == 0);
  CHECK(range.most == 4);
  CHECK(serial::range_over_orders(std::array{3.0F}).least == 3);
  CHECK_THROWS_AS(serial::range_over_orders({}), std::invalid_argument);
  CHECK_THROWS_AS(serial::range_over_orders(std::vector<float>(11)), std::invalid_argument);

  // Each order of six numbers is within the range, and some order is at each end.
  std::vector<float> numbers{1, 1.0F / 3, -4.0F / 3, 1e-7F, 3e-8F, 8};
  const serial::Range found = serial::range_over_orders(numbers);
  std::ranges::sort(numbers);
  bool at_least = false;
  do {
    float sum = 0;
    for (const float number : numbers) sum += number;
    CHECK(static_cast<double>(sum) >= found.least);
    CHECK(static_cast<double>(sum) <= found.most);
    at_least = at_least || static_cast<double>(sum) == found.least;
  } while (std::ranges::next_permutation(numbers).found);
  CHECK(at_least);
}

TEST_CASE("the serial model names the first result whose bits depend on the order", "[sums]") {
  Scenario scenario = sharded({linear("l", 3, 2)});
  scenario.script.input = {2, 3};
  scenario.script.segments = {{.iterations = 3, .body = {forward, backward, step, capture, zero_grad}}};
  scenario.plan.optimizer.rate = 1.0 / 16;
  CHECK(order_shows(scenario) == nothing);

  Scenario thirds = scenario;
  thirds.model.init_divisor = 3;
  CHECK_THAT(order_shows(thirds), ContainsSubstring("iteration 0, forward, \"l\": output: 4 terms"));
  thirds = scenario;
  thirds.plan.optimizer.rate = 0.1;
  CHECK_THAT(order_shows(thirds),
             ContainsSubstring("iteration 0, step, \"l.weight\": the product of the rate and a gradient"));
  // The mean of three ranks is rounded once, and all agree on it; a sum over it is not exact any more.
  CHECK_THAT(order_shows(scenario, 3), ContainsSubstring("iteration 1, forward, \"l\": output"));
  CHECK(train_serially(scenario, 3, Arithmetic::f32).front().order_shows == nothing);
  thirds = scenario;
  thirds.model.loss = {.kind = LossKind::sum_of_squares, .divisor = 3};
  CHECK_THAT(order_shows(thirds), ContainsSubstring("iteration 0, backward, \"\": the loss is divided"));
}

TEST_CASE("sums over ranks are checked, within a shard group and among replicas", "[sums]") {
  Scenario scenario = one_weight();
  scenario.script.given = {{{1 << 24}, {1}, {1}, {1}}};  // also the gradients
  scenario.script.segments = script({{forward, backward, capture}});
  CHECK(order_shows(scenario, 1) == nothing);
  CHECK(order_shows(scenario, 4) ==
        "iteration 0, backward, \"l.weight\": sum over ranks: 4 terms whose partial sums take 25 bits, and f32 has 24");
  scenario.plan.mesh = {.shape = {4, 1}, .names = {"replicate", "shard"}};
  CHECK_THAT(order_shows(scenario, 4), ContainsSubstring("sum over ranks: 4 terms"));
  scenario.script.given = {{{1 << 23}, {1}, {1}, {1}}};
  CHECK(order_shows(scenario, 4) == nothing);
}

TEST_CASE("roots, exponentials and quotients are never the same everywhere", "[sums]") {
  Scenario scenario = sharded({linear("l", 2, 2), layer_norm("ln", 2)});
  scenario.script.input = {2, 2};
  scenario.script.segments = script({{forward, capture}});
  CHECK(order_shows(scenario) == "iteration 0, forward, \"ln\": a layer norm divides and takes roots");
  scenario = sharded({embedding("e", 4, 2, 2), attention("a", 2)});
  scenario.script.input = {2, 2};
  scenario.script.segments = script({{forward, capture}});
  CHECK(order_shows(scenario) == "iteration 0, forward, \"a\": an attention takes exponentials");
  scenario.model.root.children.pop_back();
  CHECK(order_shows(scenario) == nothing);
  scenario.model.loss.kind = LossKind::cross_entropy;
  CHECK(order_shows(scenario) == "iteration 0, forward, \"\": a cross entropy takes logarithms");

  scenario = one_weight();
  scenario.plan.optimizer.kind = OptimizerKind::adam;
  scenario.script.segments = script({{forward, backward, capture, step, capture}});
  const auto captured = train_serially(scenario, 1, Arithmetic::f32);
  CHECK(captured.at(0).order_shows == nothing);
  CHECK(captured.at(1).order_shows == "iteration 0, step, \"l.weight\": a step of Adam takes roots and divides");
  scenario.script.segments =
      script({{forward, backward, {.kind = ActionKind::clip_grad_norm, .max_norm = 1.0 / 1024}, capture}});
  CHECK(order_shows(scenario) == "iteration 0, clip_grad_norm, \"\": gradients are divided by a norm");
}
