// A comparison that cannot fail is worse than none.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "fixtures/oracles/difference.hpp"

using namespace shardproof;
using oracles::largest_difference;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN(),
                infinity = std::numeric_limits<float>::infinity();

Tensor row(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<std::int64_t>(values.size())}, values);
}

}  // namespace

TEST_CASE("the largest difference counts, at any place and on either side") {
  CHECK(largest_difference(row({1, 2, 3}), row({1, 2, 3})) == 0);
  CHECK(largest_difference(row({1, 7, 3}), row({1.5, 2, 3})) == 5);
  CHECK(largest_difference(row({1, 2, 3}), row({1, 2.5, 9})) == 6);
  CHECK(largest_difference(row({}), row({})) == 0);
  CHECK(largest_difference(row({infinity}), row({1})) == infinity);
}

TEST_CASE("no tolerance admits a NaN") {
  for (const auto& [a, b] :
       {std::pair{row({not_a_number, 1}), row({1, 1})}, std::pair{row({1, 1}), row({1, not_a_number})},
        std::pair{row({not_a_number, 1}), row({not_a_number, 1})}, std::pair{row({1, not_a_number, 9}), row({1, 2, 3})},
        std::pair{row({infinity, 1}), row({infinity, 1})}}) {
    CHECK(std::isnan(largest_difference(a, b)));
    CHECK_FALSE(largest_difference(a, b) <= std::numeric_limits<double>::max());
  }
}

TEST_CASE("tensors of different shapes have no difference") {
  CHECK_THROWS_AS(largest_difference(row({1, 2}), row({1})), std::invalid_argument);
  CHECK_THROWS_AS(largest_difference(row({1}), row({1, 2})), std::invalid_argument);
  CHECK_THROWS_AS(largest_difference(row({1, 2}), row({1, 2}).reshape({1, 2})), std::invalid_argument);
}
