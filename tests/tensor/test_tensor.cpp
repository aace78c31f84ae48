#include <bit>
#include <random>
#include <sstream>

#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <Eigen/Core>

#include "harness/tensor/tensor.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

template <class T> Tensor of(Shape shape, std::vector<T> values) { return Tensor::of<T>(std::move(shape), values); }

}  // namespace

TEST_CASE("numel counts elements and refuses what is no shape") {
  CHECK(numel({}) == 1);
  CHECK(numel({3}) == 3);
  CHECK(numel({2, 0, 5}) == 0);
  CHECK(numel({2, 3, 4}) == 24);
  CHECK_THROWS_MATCHES(numel({2, -1}), std::invalid_argument, MessageMatches(ContainsSubstring("[2, -1]")));
  CHECK_THROWS_AS(numel({std::int64_t{1} << 40, std::int64_t{1} << 40}), std::invalid_argument);
}

TEST_CASE("shapes read as lists") {
  CHECK(to_string(Shape{}) == "[]");
  CHECK(to_string(Shape{7}) == "[7]");
  CHECK(to_string(Shape{2, 3}) == "[2, 3]");
}

TEST_CASE("a host tensor is zero, of the size asked for, in no buffer of a device") {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) {
    const Tensor tensor = Tensor::host(dtype, {2, 3});
    CHECK(tensor.defined());
    CHECK(tensor.dtype() == dtype);
    CHECK(tensor.numel() == 6);
    CHECK(tensor.bytes() == 6 * size_of(dtype));
    CHECK(tensor.to_doubles() == std::vector<double>(6, 0.0));
    CHECK(tensor.range() == ByteRange{0, 0, 6 * size_of(dtype)});
  }
}

TEST_CASE("an undefined tensor has nothing") {
  const Tensor none;
  CHECK_FALSE(none.defined());
  CHECK(none.numel() == 0);
  CHECK(none.bytes() == 0);
  CHECK(none.data() == nullptr);
  CHECK(none == Tensor{});
  CHECK_FALSE(none.clone().defined());
  CHECK(to_string(none) == "undefined tensor");
  CHECK_FALSE(none == Tensor::host(DType::f32, {0}));
  CHECK_THROWS_AS(none.narrow(0, 0), std::invalid_argument);
  CHECK_THROWS_AS(none.reshape({0}), std::invalid_argument);
}

TEST_CASE("a scalar has one element and no rows") {
  const Tensor scalar = of<float>({}, {2.5F});
  CHECK(scalar.numel() == 1);
  CHECK(scalar.to_doubles() == std::vector<double>{2.5});
  CHECK_THROWS_AS(scalar.row(0), std::invalid_argument);
  CHECK(scalar.flatten().shape() == Shape{1});
}

TEST_CASE("empty tensors are ordinary") {
  const Tensor empty = Tensor::host(DType::f32, {0, 4});
  CHECK(empty.numel() == 0);
  CHECK(empty.values<float>().empty());
  CHECK(empty.narrow(0, 0) == empty);
  CHECK(empty.clone() == empty);
  CHECK(empty.reshape({4, 0}).shape() == Shape{4, 0});
  CHECK_FALSE(empty == empty.reshape({4, 0}));
  CHECK_THROWS_AS(empty.row(0), std::invalid_argument);
  CHECK(iota(1, 0).shape() == Shape{0});
}

TEST_CASE("a view must fit into its storage and lie on its elements' boundary") {
  const auto storage = Tensor::host(DType::f32, {4}).storage();
  CHECK_NOTHROW(Tensor(storage, DType::f32, {2}, 8));
  CHECK_NOTHROW(Tensor(storage, DType::f32, {0}, 16));
  CHECK_THROWS_MATCHES(Tensor(storage, DType::f32, {3}, 8), std::invalid_argument,
                       MessageMatches(ContainsSubstring("16 bytes")));
  CHECK_THROWS_AS(Tensor(storage, DType::f32, {1}, 20), std::invalid_argument);
  CHECK_THROWS_MATCHES(Tensor(storage, DType::f32, {1}, 2), std::invalid_argument,
                       MessageMatches(ContainsSubstring("byte 2")));
  CHECK_NOTHROW(Tensor(storage, DType::bf16, {1}, 2));
  CHECK_THROWS_AS(Tensor(nullptr, DType::f32, {0}), std::invalid_argument);
}

TEST_CASE("elements are handed out as what they are") {
  const Tensor tensor = Tensor::host(DType::f32, {2});
  CHECK_NOTHROW(tensor.values<float>());
  CHECK(tensor.values<std::byte>().size() == 8);
  CHECK_THROWS_MATCHES(tensor.values<std::int32_t>(), std::invalid_argument,
                       MessageMatches(ContainsSubstring("f32 [2]") && ContainsSubstring("i32")));
  CHECK_THROWS_AS(tensor.values<double>(), std::invalid_argument);
  CHECK_THROWS_AS(Tensor::host(DType::bf16, {1}).values<Eigen::half>(), std::invalid_argument);
  CHECK_THROWS_AS(of<float>({3}, {1, 2}), std::invalid_argument);
}

TEST_CASE("views share their elements") {
  const Tensor matrix = of<float>({3, 2}, {0, 1, 2, 3, 4, 5});
  CHECK(matrix.narrow(1, 2) == of<float>({2, 2}, {2, 3, 4, 5}));
  CHECK(matrix.narrow(1, 2).row(1) == of<float>({2}, {4, 5}));
  CHECK(matrix.row(0) == iota(0, 2));
  CHECK(matrix.flatten() == iota(0, 6));
  CHECK(matrix.reshape({2, 3}).row(1) == iota(3, 3));
  CHECK(matrix.narrow(3, 0).numel() == 0);
  CHECK(matrix.row(2).range() == ByteRange{0, 16, 8});

  const Tensor copy = matrix.clone();
  matrix.row(1).values<float>()[0] = 9;
  CHECK(matrix.values<float>()[2] == 9);
  CHECK(copy.values<float>()[2] == 2);
}

TEST_CASE("views out of range name rows and tensor") {
  const Tensor matrix = Tensor::host(DType::f32, {3, 2});
  CHECK_THROWS_MATCHES(matrix.narrow(2, 2), std::invalid_argument,
                       MessageMatches(ContainsSubstring("2 rows from row 2 of a tensor f32 [3, 2]")));
  CHECK_THROWS_AS(matrix.narrow(-1, 1), std::invalid_argument);
  CHECK_THROWS_AS(matrix.narrow(0, -1), std::invalid_argument);
  CHECK_THROWS_AS(matrix.narrow(1, std::numeric_limits<std::int64_t>::max()), std::invalid_argument);
  CHECK_THROWS_AS(matrix.row(3), std::invalid_argument);
  CHECK_THROWS_AS(matrix.row(-1), std::invalid_argument);
  CHECK_THROWS_MATCHES(matrix.reshape({4}), std::invalid_argument,
                       MessageMatches(ContainsSubstring("f32 [3, 2] cannot be reshaped to [4]")));
}

TEST_CASE("equality is of dtype, shape and bits") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(of<float>({1}, {nan}) == of<float>({1}, {nan}));
  CHECK_FALSE(of<float>({1}, {0.0F}) == of<float>({1}, {-0.0F}));
  CHECK_FALSE(of<float>({2}, {1, 2}) == of<float>({1, 2}, {1, 2}));
  CHECK_FALSE(of<std::int32_t>({1}, {0}) == of<float>({1}, {0}));
  CHECK_FALSE(of<float>({2}, {1, 2}) == of<float>({2}, {1, 3}));
}

TEST_CASE("messages show values so that different ones look different") {
  CHECK(to_string(of<float>({2}, {0.1F, -0.0F})) == "f32 [2] {0.1, -0}");
  CHECK(to_string(of<float>({1}, {std::nextafter(0.1F, 1.0F)})) != to_string(of<float>({1}, {0.1F})));
  CHECK(to_string(of<double>({1}, {0.1})) == "f64 [1] {0.1}");
  CHECK(to_string(of<std::uint8_t>({2}, {7, 255})) == "u8 [2] {7, 255}");
  CHECK_THAT(to_string(iota(0, 64)), ContainsSubstring("62, 63}"));
  CHECK_THAT(to_string(iota(0, 100)), ContainsSubstring("63, … 36 more, digest "));
  std::ostringstream stream;
  stream << iota(1, 2);
  CHECK(stream.str() == "f32 [2] {1, 2}");
}

TEST_CASE("no two tensors that differ look alike") {
  const std::int64_t large = std::int64_t{1} << 53;  // above, a double knows no odd numbers
  CHECK(to_string(of<std::int64_t>({1}, {large + 1})) == "i64 [1] {9007199254740993}");
  const auto from_bits = [](auto bits) { return of<float>({1}, {std::bit_cast<float>(bits)}); };
  CHECK(to_string(from_bits(0x7fc00000U)) == "f32 [1] {nan}");
  CHECK(to_string(from_bits(0x7fc00001U)) == "f32 [1] {nan:0x7fc00001}");
  CHECK(to_string(from_bits(0xffffffffU)) == "f32 [1] {nan:0xffffffff}");

  const std::uint64_t seed = Catch::getSeed();
  INFO("replay with --rng-seed " << seed);
  std::mt19937_64 random(seed);
  for (const DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) {
    for (int round = 0; round < 200; ++round) {
      const Tensor tensor = Tensor::host(dtype, {1 + static_cast<std::int64_t>(random() % 100)});
      for (std::byte& byte : tensor.values<std::byte>()) byte = static_cast<std::byte>(random());
      const Tensor other = tensor.clone();
      std::byte& changed = other.values<std::byte>()[random() % other.bytes()];
      changed ^= static_cast<std::byte>(1U << random() % 8);
      CAPTURE(to_string(tensor));
      REQUIRE(to_string(tensor) != to_string(other));
      REQUIRE_FALSE(first_difference(tensor, other).empty());
    }
  }
}

TEST_CASE("first_difference gives the place of the first difference") {
  const Tensor a = of<float>({2, 2}, {1, 2, 3, 4}), b = of<float>({2, 2}, {1, 2, 5, 6});
  CHECK(first_difference(a, a).empty());
  CHECK(first_difference(a, b) == "at [1, 0]: 3 and 5; 2 of 4 elements differ");
  CHECK(first_difference(a, a.flatten()) == "f32 [2, 2] and f32 [4]");
  CHECK(first_difference(a, {}) == "f32 [2, 2] and an undefined tensor");
  CHECK(first_difference(of<float>({}, {0.F}), of<float>({}, {-0.F})) == "at []: 0 and -0; 1 of 1 elements differ");
}
