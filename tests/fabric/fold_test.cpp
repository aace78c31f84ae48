// The rules of reductions that random operands do not reach.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <Eigen/Core>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include "harness/fabric/fold.hpp"
#include "tests/fabric/oracle.hpp"

using namespace shardproof;

namespace {

template <class T>
T fold_of(ReduceOp op, const std::vector<T>& operands, double factor = 1) {
  T result;
  fabric::fold(testing::DTypeOf<T>::value, op, factor,
               {reinterpret_cast<const std::byte*>(operands.data()), sizeof(T), static_cast<int>(operands.size())},
               reinterpret_cast<std::byte*>(&result), 1);
  return result;
}

}  // namespace

TEST_CASE("additions are made in rank order") {
  CHECK(fold_of<float>(ReduceOp::sum, {1e8F, 3.F, -1e8F}) == 0.F);
  CHECK(fold_of<float>(ReduceOp::sum, {1e8F, -1e8F, 3.F}) == 3.F);
}

TEST_CASE("short floats are rounded after every addition") {
  using Eigen::bfloat16;
  using Eigen::half;
  // 2048 + 1 is a tie in f16 and goes to the even neighbour, twice; their exact sum, 2050, would be representable.
  CHECK(static_cast<float>(fold_of<half>(ReduceOp::sum, {half(2048.F), half(1.F), half(1.F)})) == 2048.F);
  CHECK(static_cast<float>(fold_of<bfloat16>(ReduceOp::sum, {bfloat16(256.F), bfloat16(1.F), bfloat16(1.F)})) == 256.F);
}

TEST_CASE("an average divides once, at the end, and integers towards zero") {
  CHECK(fold_of<float>(ReduceOp::avg, {1.F, 1.F, 5.F}) == 7.F / 3.F);
  CHECK(fold_of<std::int32_t>(ReduceOp::avg, {1, 1, 5}) == 2);
  CHECK(fold_of<std::int32_t>(ReduceOp::avg, {-1, -1, -5}) == -2);
  CHECK(fold_of<std::uint8_t>(ReduceOp::avg, {200, 100}) == (300 - 256) / 2);  // the sum has wrapped around
}

TEST_CASE("integers wrap around") {
  CHECK(fold_of<std::int64_t>(ReduceOp::sum, {std::numeric_limits<std::int64_t>::max(), 1}) ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(fold_of<std::int8_t>(ReduceOp::sum, {127, 1}) == -128);
  CHECK(fold_of<std::int16_t>(ReduceOp::premul_sum, {30000, 0}, 2) == static_cast<std::int16_t>(60000));
}

TEST_CASE("the factor is rounded to the type before it multiplies") {
  CHECK(fold_of<float>(ReduceOp::premul_sum, {3.F, 3.F}, 0.1) == 3.F * 0.1F + 3.F * 0.1F);
  const Eigen::bfloat16 tenth(0.1F);
  const Eigen::bfloat16 once = Eigen::bfloat16(3.F) * tenth;
  CHECK(fold_of<Eigen::bfloat16>(ReduceOp::premul_sum, {Eigen::bfloat16(3.F), Eigen::bfloat16(3.F)}, 0.1) ==
        once + once);
}

TEST_CASE("the factor is rounded to a short type once, not by way of float") {
  // Just above the tie between 1 and its next neighbour: as a float it is the tie itself, which goes to even.
  CHECK(static_cast<float>(fold_of<Eigen::half>(ReduceOp::premul_sum, {Eigen::half(1.F)}, 1 + 0x1p-11 + 0x1p-40)) ==
        1 + 0x1p-10F);
  CHECK(static_cast<float>(fold_of<Eigen::bfloat16>(ReduceOp::premul_sum, {Eigen::bfloat16(1.F)},
                                                    1 + 0x1p-8 + 0x1p-40)) == 1 + 0x1p-7F);
}

TEST_CASE("a NaN on any rank is the maximum and the minimum") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
    CHECK(std::isnan(fold_of<float>(op, {1.F, nan, 2.F})));
    CHECK(std::isnan(fold_of<float>(op, {nan, 1.F})));
    CHECK(std::isnan(fold_of<float>(op, {1.F, nan})));
  }
  CHECK(std::signbit(fold_of<float>(ReduceOp::max, {-0.F, 0.F})));  // equal: the first rank's
}
