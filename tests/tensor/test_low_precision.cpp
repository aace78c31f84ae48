// Kernels on bf16 and f16: the precision in which they compute, the places where they round, and their refusals. The
// other files of this folder test their results.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

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

constexpr DType low_dtypes[] = {DType::bf16, DType::f16};

using Operands = std::vector<Tensor>;

struct Call {
  std::string what;
  Operands operands;  ///< all those of low precision are of one dtype
  std::function<void(const Operands&)> make;
};

Tensor in_dtype(DType dtype, const Tensor& source) {
  const Tensor result = Tensor::host(dtype, source.shape());
  k.copy(nullptr, result, source);
  return result;
}

bool is_low(const Tensor& tensor) { return tensor.defined() && unit_roundoff(tensor.dtype()) > 0; }

/// The smallest integer that is half a unit above no number of the dtype: from there on 1 is half a unit.
double half_unit_of_one(DType dtype) { return 1 / unit_roundoff(dtype); }

/// Every kernel on floats that takes low precision, of operands whose sums are not exact in it, nor in f32.
std::vector<Call> calls_in(DType dtype) {
  unsigned seed = 0;
  const auto draw = [&](const Shape& shape) {
    std::int64_t count = 1;
    for (const std::int64_t length : shape) count *= length;
    Values values = numeric::draw(static_cast<std::size_t>(count), ++seed);
    for (double& value : values) value *= 1.2345;
    return tensor(dtype, shape, values);
  };
  constexpr std::int64_t rows = 6, length = 5, positions = 3;
  const Shape matrix{rows, length}, row{length}, one{1};
  const Tensor ids = Tensor::of<std::int64_t>({rows}, std::vector<std::int64_t>{2, 0, 2, 4, 1, 2});
  std::vector<Call> calls{
      {"relu", {draw(matrix), draw(matrix)}, [](const Operands& o) { k.relu(nullptr, o[0], o[1]); }},
      {"relu_backward",
       {draw(row), draw(row), draw(row)},
       [](const Operands& o) { k.relu_backward(nullptr, o[0], o[1], o[2]); }},
      {"scale_by",
       {draw(matrix), draw(matrix), draw(one)},
       [](const Operands& o) { k.scale_by(nullptr, o[0], o[1], o[2]); }},
      {"scale_by in place", {draw(matrix), draw({})}, [](const Operands& o) { k.scale_by(nullptr, o[0], o[0], o[1]); }},
      {"add_row", {draw(matrix), draw(row)}, [](const Operands& o) { k.add_row(nullptr, o[0], o[1]); }},
      {"embedding",
       {draw(matrix), draw(matrix), ids},
       [](const Operands& o) { k.embedding(nullptr, o[0], o[1], o[2]); }},
      {"add_positions",
       {draw(matrix), draw({positions, length})},
       [](const Operands& o) { k.add_positions(nullptr, o[0], o[1]); }},
      {"layer_norm",
       {draw(matrix), draw(matrix), draw(row), draw(row)},
       [](const Operands& o) { k.layer_norm(nullptr, o[0], o[1], o[2], o[3]); }},
      {"attention",
       {draw(matrix), draw(matrix), draw(matrix), draw(matrix)},
       [](const Operands& o) { k.attention(nullptr, o[0], {o[1], o[2], o[3], positions}); }},
      {"cross_entropy_backward",
       {draw(matrix), draw(matrix), ids},
       [](const Operands& o) { k.cross_entropy_backward(nullptr, o[0], o[1], o[2]); }},
  };
  for (const bool add : {false, true}) {
    const std::string how = add ? " added" : "";
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const Kernels::Matmul product{.transpose_a = transpose_a, .transpose_b = transpose_b, .add = add};
        calls.push_back({"matmul" + how,
                         {draw({rows, 4}), draw(transpose_a ? Shape{17, rows} : Shape{rows, 17}),
                          draw(transpose_b ? Shape{4, 17} : Shape{17, 4})},
                         [product](const Operands& o) { k.matmul(nullptr, o[0], o[1], o[2], product); }});
      }
    }
    calls.push_back({"matmul of nothing" + how, {draw({2, 2}), draw({2, 0}), draw({0, 2})}, [add](const Operands& o) {
                       k.matmul(nullptr, o[0], o[1], o[2], {.add = add});
                     }});
    calls.push_back({"sum_rows" + how, {draw(row), draw(matrix)}, [add](const Operands& o) {
                       k.sum_rows(nullptr, o[0], o[1], add);
                     }});
    calls.push_back({"dot" + how, {draw(one), draw(matrix), draw(matrix)}, [add](const Operands& o) {
                       k.dot(nullptr, {o[0], add}, o[1], o[2]);
                     }});
    calls.push_back({"embedding_backward" + how, {draw(matrix), draw(matrix), ids}, [add](const Operands& o) {
                       k.embedding_backward(nullptr, {o[0], add}, o[1], o[2]);
                     }});
    calls.push_back({"add_positions_backward" + how,
                     {draw({positions, length}), draw(matrix)},
                     [add](const Operands& o) { k.add_positions_backward(nullptr, {o[0], add}, o[1]); }});
    calls.push_back({"layer_norm_backward" + how,
                     {draw(matrix), draw(row), draw(row), draw(matrix), draw(matrix), draw(row)},
                     [add](const Operands& o) {
                       k.layer_norm_backward(nullptr, {{o[0], add}, {o[1], add}, {o[2], add}}, o[3], o[4], o[5]);
                     }});
    calls.push_back(
        {"layer_norm_backward of the weight alone" + how,
         {draw(row), draw(matrix), draw(matrix)},
         [add](const Operands& o) { k.layer_norm_backward(nullptr, {{}, {o[0], add}, {}}, o[1], o[2], {}); }});
    calls.push_back({"attention_backward" + how,
                     {draw(matrix), draw(matrix), draw(matrix), draw(matrix), draw(matrix), draw(matrix), draw(matrix)},
                     [add](const Operands& o) {
                       k.attention_backward(nullptr, {{o[0], add}, {o[1], add}, {o[2], add}}, o[3],
                                            {o[4], o[5], o[6], positions});
                     }});
  }
  for (const DType loss : {dtype, DType::f32}) {
    const std::string how = " in " + std::string(to_string(loss));
    const auto out = [&] { return tensor(loss, {1}, {7}); };
    calls.push_back({"sum" + how, {out(), draw(matrix)}, [](const Operands& o) { k.sum(nullptr, o[0], o[1]); }});
    calls.push_back({"sum_of_squares" + how, {out(), draw(matrix)}, [](const Operands& o) {
                       k.sum_of_squares(nullptr, o[0], o[1]);
                     }});
    calls.push_back({"dot_rows" + how, {out(), draw(matrix), draw(row)}, [](const Operands& o) {
                       k.dot_rows(nullptr, o[0], o[1], o[2]);
                     }});
    calls.push_back({"cross_entropy" + how, {out(), draw(matrix), ids}, [](const Operands& o) {
                       k.cross_entropy(nullptr, o[0], o[1], o[2]);
                     }});
  }
  return calls;
}

}  // namespace

TEST_CASE("kernels in low precision give what they give in f32, rounded once") {
  for (const DType dtype : low_dtypes) {
    for (const Call& call : calls_in(dtype)) {
      Operands wide;
      for (const Tensor& operand : call.operands)
        wide.push_back(is_low(operand) ? in_dtype(DType::f32, operand) : operand.clone());
      call.make(wide);
      call.make(call.operands);
      for (std::size_t i = 0; i < wide.size(); ++i) {
        CAPTURE(to_string(dtype), call.what, i);
        CHECK(call.operands[i] == in_dtype(call.operands[i].dtype(), wide[i]));
      }
    }
  }
}

TEST_CASE("sums of low precision do not lose what is half a unit of them on the way") {
  for (const DType dtype : low_dtypes) {
    const double large = half_unit_of_one(dtype);
    CAPTURE(to_string(dtype), large);
    const Tensor column = tensor(dtype, {3, 1}, {large, 1, -large}), row = column.reshape({1, 3}),
                 ones = tensor(dtype, {3, 1}, {1, 1, 1});
    const auto gives_one = [&](const Shape& shape, auto&& compute) {
      const Tensor out = tensor(dtype, shape, {5});
      compute(out);
      CHECK(out.to_doubles() == Values{1});
    };
    gives_one({1, 1}, [&](const Tensor& out) { k.matmul(nullptr, out, row, ones, {}); });
    gives_one({1}, [&](const Tensor& out) { k.sum_rows(nullptr, out, column, false); });
    gives_one({1}, [&](const Tensor& out) { k.dot(nullptr, {out}, column, ones); });
    gives_one({1}, [&](const Tensor& out) { k.sum(nullptr, out, column); });
    gives_one({1}, [&](const Tensor& out) { k.dot_rows(nullptr, out, column, tensor(dtype, {1}, {1})); });
    gives_one({1, 1}, [&](const Tensor& out) { k.add_positions_backward(nullptr, {out}, column); });
    gives_one({1, 1}, [&](const Tensor& out) {
      k.embedding_backward(nullptr, {out}, column, Tensor::of<std::int64_t>({3}, std::vector<std::int64_t>{0, 0, 0}));
    });
  }
}

TEST_CASE("what a sum is added to and the sum are rounded together, not one after the other") {
  for (const DType dtype : low_dtypes) {
    // 1 and a bit are a bit more than half a unit of what is there: rounded to 1 before, they were half of it, and
    // lost.
    const double there = half_unit_of_one(dtype), up = there + 2, bit = 0x1p-12;
    CAPTURE(to_string(dtype), there);
    const Tensor terms = tensor(dtype, {2, 1}, {1, bit}), ones = tensor(dtype, {2, 1}, {1, 1});
    const auto rounds_up = [&](const Shape& shape, auto&& compute) {
      const Tensor out = tensor(dtype, shape, {there});
      compute(out);
      CHECK(out.to_doubles() == Values{up});
    };
    rounds_up({1, 1},
              [&](const Tensor& out) { k.matmul(nullptr, out, terms, ones, {.transpose_a = true, .add = true}); });
    rounds_up({1}, [&](const Tensor& out) { k.sum_rows(nullptr, out, terms, true); });
    rounds_up({1}, [&](const Tensor& out) { k.dot(nullptr, {out, true}, terms, ones); });
    rounds_up({1, 1}, [&](const Tensor& out) { k.add_positions_backward(nullptr, {out, true}, terms); });
    rounds_up({1, 1}, [&](const Tensor& out) {
      k.embedding_backward(nullptr, {out, true}, terms, Tensor::of<std::int64_t>({2}, std::vector<std::int64_t>{0, 0}));
    });
    rounds_up({1}, [&](const Tensor& out) { k.layer_norm_backward(nullptr, {{}, {}, {out, true}}, terms, terms, {}); });
  }
}

TEST_CASE("a value halfway between two low-precision numbers rounds to even") {
  for (const DType dtype : low_dtypes) {
    const double large = half_unit_of_one(dtype);
    CAPTURE(to_string(dtype), large);
    const Tensor out = tensor(dtype, {2, 1}, {large, large + 2}), one = tensor(dtype, {1}, {1});
    k.add_row(nullptr, out, one);
    CHECK(out.to_doubles() == Values{large, large + 4});
    const Tensor positioned = tensor(dtype, {2, 1}, {large, large + 2});
    k.add_positions(nullptr, positioned, one.reshape({1, 1}));
    CHECK(positioned.to_doubles() == Values{large, large + 4});
    const Tensor sums = tensor(dtype, {2}, {0, 0});
    k.sum_rows(nullptr, sums, tensor(dtype, {2, 2}, {large, large + 2, 1, 1}), false);
    CHECK(sums.to_doubles() == Values{large, large + 4});
  }
}

TEST_CASE("f16 overflows where it is rounded, and not on the way there") {
  const auto f16 = [](const Shape& shape, const Values& values) { return tensor(DType::f16, shape, values); };
  const Tensor out = f16({1, 1}, {0}), largest = f16({1, 1}, {65504});
  k.scale_by(nullptr, out, largest, f16({}, {-2}));
  CHECK(out.to_doubles() == Values{-infinity});
  k.matmul(nullptr, out, f16({1, 2}, {65504, 1}), f16({2, 1}, {1, 16}),
           {});  // half a unit above: to the even one, which is no number
  CHECK(out.to_doubles() == Values{infinity});
  k.matmul(nullptr, out, f16({1, 2}, {65504, 1}), f16({2, 1}, {1, 15}), {});
  CHECK(out.to_doubles() == Values{65504});
  k.matmul(nullptr, out, f16({1, 2}, {65504, 65504}), f16({2, 1}, {2, -1}), {});
  CHECK(out.to_doubles() == Values{65504});
  const Tensor loss = Tensor::host(DType::f32, {1});
  k.sum_of_squares(nullptr, loss, largest);
  CHECK(loss.to_doubles() == Values{65504.0 * 65504.0});
  k.sum_of_squares(nullptr, out, largest);
  CHECK(out.to_doubles() == Values{infinity});
  const Tensor brain = tensor(DType::bf16, {1, 1}, {65504});  // bf16 has the range of f32
  k.scale_by(nullptr, brain, brain, tensor(DType::bf16, {}, {2}));
  CHECK(brain.to_doubles() == Values{131072});
}

TEST_CASE("relu in low precision keeps what is positive, and NaN") {
  for (const DType dtype : low_dtypes) {
    const Tensor in = tensor(dtype, {5}, {-1, -0.0, 0x1p-14, infinity, std::numeric_limits<double>::quiet_NaN()});
    const Tensor out = Tensor::host(dtype, {5});
    k.relu(nullptr, out, in);
    CHECK(out.narrow(0, 2) == tensor(dtype, {2}, {0, 0}));
    CHECK(out.narrow(2, 3) == in.narrow(2, 3));
    k.relu_backward(nullptr, out, tensor(dtype, {5}, {1, 2, 3, 4, 5}), in);
    CHECK(out.to_doubles() == Values{0, 0, 3, 4, 5});
  }
}

TEST_CASE(
    "dtypes that do not go together are refused: a loss alone may be f32 where its operands are of low precision") {
  const auto zeros = [](DType dtype, const Shape& shape) { return Tensor::host(dtype, shape); };
  const auto refuses = [](const std::string& text, auto&& compute) {
    CAPTURE(text);
    CHECK_THROWS_MATCHES(compute(), std::invalid_argument, MessageMatches(ContainsSubstring(text)));
  };
  const Tensor low = zeros(DType::bf16, {2, 2}), other = zeros(DType::f16, {2, 2}), single = zeros(DType::f32, {2, 2}),
               row = zeros(DType::f32, {2}), one = zeros(DType::f32, {1}), ids = zeros(DType::i64, {2});
  const std::string one_dtype = "operands must have one dtype; given ";
  refuses("matmul: " + one_dtype + "f32 [2, 2], bf16 [2, 2], bf16 [2, 2]",
          [&] { k.matmul(nullptr, single, low, low, {}); });
  refuses("matmul: " + one_dtype + "bf16 [2, 2], bf16 [2, 2], f16 [2, 2]",
          [&] { k.matmul(nullptr, low, low, other, {}); });
  refuses("relu: " + one_dtype, [&] { k.relu(nullptr, low, other); });
  refuses("add_row: " + one_dtype, [&] { k.add_row(nullptr, low, row); });
  refuses("sum_rows: " + one_dtype, [&] { k.sum_rows(nullptr, row, low, false); });
  refuses("scale_by: " + one_dtype, [&] { k.scale_by(nullptr, low, low, one); });
  refuses("dot: " + one_dtype, [&] { k.dot(nullptr, {one}, low, low); });
  refuses("layer_norm: " + one_dtype, [&] { k.layer_norm(nullptr, low, low, row, row); });
  refuses("cross_entropy_backward: " + one_dtype, [&] { k.cross_entropy_backward(nullptr, single, low, ids); });

  const std::string loss = "out must have its operands' dtype, or f32 if that is bf16 or f16; given ";
  refuses("sum: " + loss + "f64 [1], bf16 [2, 2]", [&] { k.sum(nullptr, zeros(DType::f64, {1}), low); });
  refuses("sum: " + loss + "bf16 [1], f32 [2, 2]", [&] { k.sum(nullptr, zeros(DType::bf16, {1}), single); });
  refuses("sum_of_squares: " + loss + "f16 [1], bf16 [2, 2]",
          [&] { k.sum_of_squares(nullptr, zeros(DType::f16, {1}), low); });
  refuses("sum: " + loss + "f32 [1], f64 [2, 2]", [&] { k.sum(nullptr, one, zeros(DType::f64, {2, 2})); });
  refuses("cross_entropy: " + loss, [&] { k.cross_entropy(nullptr, zeros(DType::f64, {1}), low, ids); });
  refuses("dot_rows: " + one_dtype + "bf16 [2, 2], f32 [2]", [&] { k.dot_rows(nullptr, one, low, row); });

  refuses("relu: takes f64, f32, bf16 and f16 only; given i32 [2], i32 [2]",
          [&] { k.relu(nullptr, zeros(DType::i32, {2}), zeros(DType::i32, {2})); });
  refuses("sum: takes f64, f32, bf16 and f16 only; given i8 [2]",
          [&] { k.sum(nullptr, zeros(DType::i8, {1}), zeros(DType::i8, {2})); });
}

TEST_CASE("optimizers and norms take no low precision: their state is f32 or f64") {
  for (const DType dtype : low_dtypes) {
    const Tensor low = Tensor::host(dtype, {1});
    const auto refuses = [&](const std::string& kernel, auto&& compute) {
      CHECK_THROWS_MATCHES(compute(), std::invalid_argument,
                           MessageMatches(ContainsSubstring(kernel + ": computes in f32 and f64 only; given")));
    };
    refuses("sgd", [&] { k.sgd(nullptr, low, low, 1); });
    refuses("adam", [&] { k.adam(nullptr, low, low, low, low, {}); });
    refuses("adamw", [&] { k.adamw(nullptr, low, low, low, low, {}); });
    refuses("power_sum", [&] { k.power_sum(nullptr, low, low, 2, false); });
    refuses("power_root", [&] { k.power_root(nullptr, low, low, 2); });
    refuses("clip", [&] { k.clip(nullptr, low, low, 1); });
  }
}
