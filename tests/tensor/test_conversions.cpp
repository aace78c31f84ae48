#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <catch2/catch_test_macros.hpp>

#include "tests/tensor/numeric.hpp"

using namespace shardproof;
using namespace shardproof::numeric;

namespace {

Tensor all_patterns(DType dtype) {
  Tensor tensor = Tensor::host(dtype, {65536});
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto pattern = static_cast<std::uint16_t>(i);
    std::memcpy(tensor.data() + 2 * i, &pattern, 2);
  }
  return tensor;
}

std::uint16_t pattern_at(const Tensor& tensor, std::size_t index) {
  std::uint16_t pattern = 0;
  std::memcpy(&pattern, tensor.data() + 2 * index, 2);
  return pattern;
}

/// A 16-bit float of that many mantissa bits, decoded from first principles.
double decode(std::uint16_t pattern, int mantissa_bits) {
  const int exponent_bits = 15 - mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (pattern & 0x7FFF) >> mantissa_bits, fraction = pattern & ((1 << mantissa_bits) - 1);
  const double sign = (pattern & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa_bits);
  return sign * std::ldexp(fraction + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

template <class T> std::uint16_t rounded(DType dtype, T value) {
  const Tensor out = Tensor::host(dtype, {1});
  k.copy(nullptr, out, Tensor::of<T>({1}, std::span<const T>(&value, 1)));
  return pattern_at(out, 0);
}

}  // namespace

TEST_CASE("every bf16 and f16 pattern has its value in f32 and f64 and comes back as it was") {
  struct Format {
    DType dtype;
    int mantissa_bits;
  };
  for (const auto [dtype, mantissa_bits] : {Format{DType::bf16, 7}, Format{DType::f16, 10}}) {
    const Tensor patterns = all_patterns(dtype);
    for (const DType wide : {DType::f32, DType::f64}) {
      const Tensor widened = Tensor::host(wide, {65536}), back = Tensor::host(dtype, {65536});
      k.copy(nullptr, widened, patterns);
      k.copy(nullptr, back, widened);
      const std::vector<double> values = widened.to_doubles();
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < 65536; ++i) {
        const double expected = decode(static_cast<std::uint16_t>(i), mantissa_bits);
        const bool same = std::isnan(expected)
                              ? std::isnan(values[i]) && std::isnan(decode(pattern_at(back, i), mantissa_bits))
                              : std::bit_cast<std::uint64_t>(values[i]) == std::bit_cast<std::uint64_t>(expected) &&
                                    pattern_at(back, i) == i;
        if (!same) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("rounding to bf16 and f16 goes to the nearest, ties to even, also at every boundary between neighbours") {
  struct Format {
    DType dtype;
    int mantissa_bits;
    std::uint16_t largest;
  };
  for (const auto [dtype, mantissa_bits, largest] : {Format{DType::bf16, 7, 0x7F7F}, Format{DType::f16, 10, 0x7BFF}}) {
    std::size_t wrong = 0;
    for (std::uint16_t low = 0; low < largest; ++low) {
      const auto high = static_cast<std::uint16_t>(low + 1);
      const double middle = (decode(low, mantissa_bits) + decode(high, mantissa_bits)) / 2;  // exact in f64
      const std::uint16_t even = (low & 1) == 0 ? low : high;
      if (rounded(dtype, middle) != even) ++wrong;
      // In one rounding: through f32, neighbours in f64 of the middle would be taken for the middle itself.
      if (rounded(dtype, std::nextafter(middle, 0.0)) != low) ++wrong;
      if (rounded(dtype, std::nextafter(middle, 1e300)) != high) ++wrong;
      if (rounded(dtype, -middle) != (even | 0x8000)) ++wrong;
      const auto single = static_cast<float>(middle);
      if (static_cast<double>(single) == middle && rounded(dtype, single) != even) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("rounding keeps infinities, overflows to them, keeps NaN and the sign of zero") {
  CHECK(rounded(DType::f16, f32_infinity) == 0x7C00);
  CHECK(rounded(DType::f16, -f32_infinity) == 0xFC00);
  CHECK(rounded(DType::f16, 65519.996F) == 0x7BFF);  // below half a unit over the largest
  CHECK(rounded(DType::f16, 65520.0F) == 0x7C00);
  CHECK(rounded(DType::bf16, f32_infinity) == 0x7F80);
  CHECK(rounded(DType::bf16, std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(rounded(DType::bf16, std::numeric_limits<double>::max()) == 0x7F80);
  CHECK(rounded(DType::f16, -0.0F) == 0x8000);
  CHECK(rounded(DType::bf16, -0.0) == 0x8000);
  CHECK(std::isnan(decode(rounded(DType::f16, std::nanf("")), 10)));
  CHECK(std::isnan(decode(rounded(DType::bf16, std::nan("")), 7)));
  CHECK(std::isnan(
      decode(rounded(DType::bf16, std::bit_cast<float>(0x7F800001u)), 7)));  // a payload that rounding would cut away
}

TEST_CASE("copy converts between all dtypes; integers that fit survive everywhere") {
  const std::vector<std::int8_t> small = {-128, -3, 0, 1, 127};
  const std::vector<DType> signed_types = {DType::f64, DType::f32, DType::bf16, DType::f16,
                                           DType::i64, DType::i32, DType::i16,  DType::i8};
  const Tensor start = Tensor::of<std::int8_t>({5}, small);
  for (const DType first : signed_types) {
    for (const DType second : signed_types) {
      const Tensor a = Tensor::host(first, {5}), b = Tensor::host(second, {5});
      k.copy(nullptr, a, start);
      k.copy(nullptr, b, a);
      CHECK(b.to_doubles() == std::vector<double>{-128, -3, 0, 1, 127});
    }
  }
}

TEST_CASE("copy to integers cuts toward zero, saturates, and makes NaN zero") {
  const std::vector<double> values = {2.9, -2.9, 300, -300, 1e300, -1e300, std::nan("")};
  const auto as = [&](DType dtype) {
    const Tensor out = Tensor::host(dtype, {7});
    k.copy(nullptr, out, Tensor::of<double>({7}, values));
    return out.to_doubles();
  };
  CHECK(as(DType::i8) == std::vector<double>{2, -2, 127, -128, 127, -128, 0});
  CHECK(as(DType::u8) == std::vector<double>{2, 0, 255, 0, 255, 0, 0});
  CHECK(as(DType::i16) == std::vector<double>{2, -2, 300, -300, 32767, -32768, 0});
  const Tensor wide = Tensor::host(DType::i64, {7});
  k.copy(nullptr, wide, Tensor::of<double>({7}, values));
  CHECK(wide.values<std::int64_t>()[4] == std::numeric_limits<std::int64_t>::max());
  CHECK(wide.values<std::int64_t>()[5] == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("copy rounds f64 to f32 to nearest even") {
  const std::vector<double> values = {1 + 0x1p-24, 1 + 3 * 0x1p-24, 0.1, 1e300, 0x1p-150};
  const Tensor out = Tensor::host(DType::f32, {5});
  k.copy(nullptr, out, Tensor::of<double>({5}, values));
  CHECK(out == Tensor::of<float>(
                   {5}, std::vector<float>{1.0F, 1 + 0x1p-22F, 0.1F, std::numeric_limits<float>::infinity(), 0.0F}));
}
