// Values by formula: how often which integers come.
#include "harness/scenario/formula.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "harness/scenario/scenario.hpp"

using namespace shardproof;

TEST_CASE("values of a truncated normal are as often as those of sixteen coins, and the same for the same seed") {
  constexpr int count = 64142 * 8;
  const Tensor values = formula::truncated_normal(3, {count}, 2);
  std::map<double, int> times;
  for (const float value : values.values<float>()) ++times[value];
  // The deviation is 1 before what is beyond two deviations is cut off.
  const std::map<double, double> expected{{-2, 1820},   {-1.5, 4368}, {-1, 8008},  {-0.5, 11440}, {0, 12870},
                                          {0.5, 11440}, {1, 8008},    {1.5, 4368}, {2, 1820}};
  REQUIRE(times.size() == expected.size());
  for (const auto& [value, each] : expected) {
    CAPTURE(value, each);
    CHECK(std::abs(times[value] - 8 * each) < 8 * each / 10);
  }
  CHECK(formula::truncated_normal(3, {2, 4}, 2).flatten() == values.narrow(0, 8));
  CHECK(formula::truncated_normal(4, {8}, 2) != values.narrow(0, 8));
}

TEST_CASE("each parameter starts from its own seed, and the second tensor of a pair from another seed") {
  Model model{.root = {}, .loss = {}, .init_divisor = 4};
  CHECK(initial_value(model, 2, 0, {3, 2}) == formula::tensor(3, {3, 2}, 4));
  CHECK(initial_value(model, 2, 1, {3, 2}) == formula::tensor(503, {3, 2}, 4));
  model.init = Distribution::truncated_normal;
  CHECK(initial_value(model, 2, 0, {3, 2}) == formula::truncated_normal(3, {3, 2}, 4));
  CHECK(initial_value(model, 2, 1, {3, 2}) == formula::truncated_normal(503, {3, 2}, 4));
}
