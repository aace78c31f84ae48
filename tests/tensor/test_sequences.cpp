#include <cmath>
#include <limits>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/tensor/numeric.hpp"

using namespace shardproof;
using namespace shardproof::numeric;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

Tensor ids(Shape shape, std::vector<std::int64_t> values) { return Tensor::of<std::int64_t>(std::move(shape), values); }

/// Sequences of `positions` rows of `features`.
Values attention(const Values& query, const Values& key, const Values& value, std::size_t positions,
                 std::size_t features) {
  const auto at = [&](const Values& matrix, std::size_t row, std::size_t column) {
    return matrix[row * features + column];
  };
  Values out(query.size());
  for (std::size_t row = 0; row < query.size() / features; ++row) {
    const std::size_t first = row - row % positions;
    Values share;
    double total = 0;
    for (std::size_t from = first; from <= row; ++from) {
      double score = 0;
      for (std::size_t j = 0; j < features; ++j) score += at(query, row, j) * at(key, from, j);
      share.push_back(std::exp(score / std::sqrt(static_cast<double>(features))));
      total += share.back();
    }
    for (std::size_t from = first; from <= row; ++from) {
      for (std::size_t j = 0; j < features; ++j)
        out[row * features + j] += share[from - first] / total * at(value, from, j);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("an embedding looks rows up, and its gradient goes back to them") {
  const Tensor weight = f32({3, 2}, {1, 2, 3, 4, 5, 6}), tokens = ids({2, 2}, {2, 0, 2, 2}),
               out = Tensor::host(DType::f32, {4, 2});
  k.embedding(nullptr, out, weight, tokens);
  CHECK(out == f32({4, 2}, {5, 6, 1, 2, 5, 6, 5, 6}));
  const Tensor gradient = f32({3, 2}, {9, 9, 9, 9, 9, 9}), slope = f32({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  k.embedding_backward(nullptr, {gradient}, slope, tokens);
  CHECK(gradient == f32({3, 2}, {3, 4, 0, 0, 13, 16}));
  k.embedding_backward(nullptr, {gradient, true}, slope, tokens);
  CHECK(gradient == f32({3, 2}, {6, 8, 0, 0, 26, 32}));
}

TEST_CASE(
    "gradients of a token met several times are added in ascending order, and the finished sum to what is there") {
  const Tensor gradient = f32({1, 1}, {0}), slope = f32({3, 1}, {1, half_ulp, half_ulp});
  k.embedding_backward(nullptr, {gradient}, slope, ids({3}, {0, 0, 0}));
  CHECK(gradient == f32({1, 1}, {1}));
  k.fill(nullptr, gradient, 1);
  k.embedding_backward(nullptr, {gradient, true}, f32({2, 1}, {half_ulp, half_ulp}), ids({2}, {0, 0}));
  CHECK(gradient == f32({1, 1}, {1 + 2 * half_ulp}));
}

TEST_CASE("a token outside of the vocabulary is named, and what it must be below") {
  const Tensor weight = Tensor::host(DType::f32, {3, 2}), out = Tensor::host(DType::f32, {2, 2});
  for (const std::int64_t wrong : {3, -1}) {
    const std::string named = "token " + std::to_string(wrong) + " is out of range; vocabulary: 3";
    CHECK_THROWS_MATCHES(k.embedding(nullptr, out, weight, ids({2}, {0, wrong})), std::out_of_range,
                         MessageMatches(ContainsSubstring(named)));
    CHECK_THROWS_MATCHES(k.embedding_backward(nullptr, {weight}, out, ids({2}, {0, wrong})), std::out_of_range,
                         MessageMatches(ContainsSubstring(named)));
  }
  CHECK_THROWS_AS(k.embedding(nullptr, out, weight, ids({1}, {0})), std::invalid_argument);
  CHECK_THROWS_AS(k.embedding(nullptr, out, weight, f32({2}, {0, 0})), std::invalid_argument);
  CHECK_THROWS_AS(k.embedding(nullptr, out, Tensor::host(DType::f32, {3, 4}), ids({2}, {0, 0})), std::invalid_argument);
}

TEST_CASE("position rows are added to every sequence, and their gradient is its sum over sequences") {
  const Tensor out = f32({4, 1}, {1, 2, 3, 4});
  k.add_positions(nullptr, out, f32({2, 1}, {10, 20}));
  CHECK(out == f32({4, 1}, {11, 22, 13, 24}));
  const Tensor gradient = f32({2, 1}, {100, 100});
  k.add_positions_backward(nullptr, {gradient, true}, out);
  CHECK(gradient == f32({2, 1}, {124, 146}));
  k.add_positions_backward(nullptr, {gradient}, out);
  CHECK(gradient == f32({2, 1}, {24, 46}));
  CHECK_THROWS_AS(k.add_positions(nullptr, f32({3, 1}, {1, 2, 3}), gradient), std::invalid_argument);
  CHECK_THROWS_AS(k.add_positions_backward(nullptr, {gradient}, f32({3, 1}, {1, 2, 3})), std::invalid_argument);
}

TEST_CASE("attention and its gradients, against the definition") {
  constexpr std::size_t positions = 3, features = 4, elements = 2 * positions * features;
  const Shape shape{6, 4};
  const Values query = draw(elements, 1), key = draw(elements, 2), value = draw(elements, 3), slope = draw(elements, 4);
  const auto by_query =
      slopes([&](const Values& v) { return attention(v, key, value, positions, features); }, query, slope);
  const auto by_key =
      slopes([&](const Values& v) { return attention(query, v, value, positions, features); }, key, slope);
  const auto by_value =
      slopes([&](const Values& v) { return attention(query, key, v, positions, features); }, value, slope);
  for (const DType dtype : real_dtypes) {
    const Kernels::Attention of{tensor(dtype, shape, query), tensor(dtype, shape, key), tensor(dtype, shape, value),
                                positions};
    const Tensor out = Tensor::host(dtype, shape);
    k.attention(nullptr, out, of);
    check_close(out, attention(query, key, value, positions, features));
    for (const bool add : {false, true}) {
      const Tensor to_query = tensor(dtype, shape, draw(elements, 5)), to_key = tensor(dtype, shape, draw(elements, 6)),
                   to_value = tensor(dtype, shape, draw(elements, 7));
      k.attention_backward(nullptr, {{to_query, add}, {to_key, add}, {to_value, add}}, tensor(dtype, shape, slope), of);
      check_close(to_query, add ? plus(by_query, draw(elements, 5)) : by_query);
      check_close(to_key, add ? plus(by_key, draw(elements, 6)) : by_key);
      check_close(to_value, add ? plus(by_value, draw(elements, 7)) : by_value);
    }
    k.attention_backward(nullptr, {}, tensor(dtype, shape, slope), of);  // nobody wants any
  }
}

TEST_CASE("the first position sees itself alone, and no position sees a later one") {
  const Tensor value = f32({2, 1}, {7, 9}), out = Tensor::host(DType::f32, {2, 1});
  const Tensor query = f32({2, 1}, {100, 0}), key = f32({2, 1}, {0, 100});
  k.attention(nullptr, out, {query, key, value, 2});
  CHECK(out == f32({2, 1}, {7, 8}));  // the second asks for nothing: half of each
  value.values<float>()[1] = std::numeric_limits<float>::quiet_NaN();
  k.attention(nullptr, out, {query, key, value, 2});
  CHECK(out.narrow(0, 1) == f32({1, 1}, {7}));
  k.attention(nullptr, out, {f32({2, 1}, {0, 1e4F}), f32({2, 1}, {0, 1e4F}), f32({2, 1}, {7, 9}), 2});
  CHECK(out == f32({2, 1}, {7, 9}));  // large scores do not overflow
}

TEST_CASE("attention refuses what is no whole number of sequences, and takes none at all") {
  const Tensor three = f32({3, 1}, {1, 2, 3}), none = Tensor::host(DType::f32, {0, 1});
  CHECK_THROWS_AS(k.attention(nullptr, three, {three, three, three, 2}), std::invalid_argument);
  CHECK_THROWS_AS(k.attention(nullptr, three, {three, three, three, 0}), std::invalid_argument);
  CHECK_THROWS_AS(k.attention(nullptr, three, {three, three, none, 3}), std::invalid_argument);
  CHECK_THROWS_AS(k.attention_backward(nullptr, {{none}, {}, {}}, three, {three, three, three, 3}),
                  std::invalid_argument);
  k.attention(nullptr, none, {none, none, none, 2});
  k.attention_backward(nullptr, {{none}, {none}, {none}}, none, {none, none, none, 2});
  k.embedding(nullptr, none, three, ids({0}, {}));
  k.embedding_backward(nullptr, {three}, none, ids({0}, {}));
  CHECK(three == f32({3, 1}, {0, 0, 0}));
}
