// Rounding to a format, compared with the meaning of its bits: all values, and everything between two of them.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "fixtures/oracles/rounding.hpp"

using namespace shardproof;
using namespace shardproof::oracles;

namespace {

struct Bits {
  DType dtype;
  int fraction, exponent;  ///< how many bits of the sixteen
};

constexpr Bits formats[] = {{DType::bf16, 7, 8}, {DType::f16, 10, 5}};

/// A pattern without its sign, read as IEEE 754 says, but for the highest exponent: as if there were no infinities and
/// NaNs.
double value_of(const Bits& format, std::uint32_t pattern) {
  const int bias = (1 << (format.exponent - 1)) - 1;
  const int exponent = static_cast<int>(pattern >> format.fraction);
  const double fraction = std::ldexp(static_cast<double>(pattern & ((1u << format.fraction) - 1)), -format.fraction);
  return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
}

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

}  // namespace

TEST_CASE(
    "what a format can hold is left as it is, and what lies between two of its values goes to the nearer, or the even "
    "one") {
  constexpr double endless = std::numeric_limits<double>::infinity();
  for (const Bits& format : formats) {
    const auto goes_to = [&](double value, double rounded) {
      return same_bits(rounded_to(format.dtype, value), rounded) &&
             same_bits(rounded_to(format.dtype, -value), -rounded);
    };
    const std::uint32_t infinite = ((1u << format.exponent) - 1) << format.fraction;
    std::size_t wrong = 0, patterns = 0;
    for (std::uint32_t pattern = 0; pattern < infinite; ++pattern, ++patterns) {
      const double low = value_of(format, pattern), next = value_of(format, pattern + 1), middle = (low + next) / 2;
      const double high = pattern + 1 == infinite ? endless : next;
      wrong += !goes_to(low, low);
      wrong += !goes_to(middle, pattern % 2 == 0 ? low : high);
      wrong += !goes_to(std::nextafter(middle, low), low);
      wrong += !goes_to(std::nextafter(middle, next), high);
    }
    CAPTURE(patterns);
    CHECK(wrong == 0);
    CHECK(goes_to(endless, endless));
    CHECK(goes_to(1e300, endless));
    CHECK(goes_to(1e-300, 0));
    CHECK(std::isnan(rounded_to(format.dtype, std::nan(""))));
  }
}

TEST_CASE("known roundings: 257 in bf16, the end of f16, the smallest values of both") {
  CHECK(rounded_to(DType::bf16, 257) == 256);
  CHECK(rounded_to(DType::bf16, 259) == 260);
  CHECK(rounded_to(DType::f16, 65519.9) == 65504);
  CHECK(std::isinf(rounded_to(DType::f16, 65520)));
  CHECK(rounded_to(DType::f16, std::ldexp(1.5, -25)) == std::ldexp(1.0, -24));
  CHECK(rounded_to(DType::bf16, std::ldexp(1.0, -134)) == 0);
  CHECK(rounded_to(DType::bf16, 3.39e38) == std::ldexp(255.0, 120));
}

TEST_CASE("f32 is rounded to as the processor does, and f64 not at all") {
  const std::uint32_t seed = Catch::getSeed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::size_t wrong = 0;
  for (int i = 0; i < 20'000; ++i) {
    const double value = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 320) - 230);
    const double tie = std::ldexp(static_cast<double>(random() >> 39), static_cast<int>(random() % 260) - 160);
    for (const double each : {value, tie}) {
      wrong += !same_bits(rounded_to(DType::f32, each), static_cast<double>(static_cast<float>(each)));
      wrong += !same_bits(rounded_to(DType::f64, each), each);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("whole numbers are no format to round to") {
  CHECK_THROWS_MATCHES(rounded_to(DType::i8, 1), std::invalid_argument,
                       Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring("i8")));
}
