// Does an engine that overlaps still compute the right thing?
#include <cmath>

#include "fixtures/oracles/serial_model.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

namespace {

// The rows of a whole tensor that a rank holds.
Tensor rows(const Tensor& whole, const scenario::CapturedParameter& held) { return whole.narrow(held.start, held.shard.shape()[0]); }

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  const std::vector<double> left = a.to_doubles(), right = b.to_doubles();
  for (std::size_t i = 0; i < left.size(); ++i) largest = std::max(largest, std::abs(left[i] - right[i]));
  return largest;
}

// Every row of every parameter is held by exactly one rank.
void check_rows_are_dealt(Rank& rank, const scenario::Iteration& iteration) {
  for (const scenario::CapturedParameter& parameter : iteration.parameters) {
    Tensor held = Tensor::host(DType::i64, {1});
    held.values<std::int64_t>()[0] = parameter.shard.shape()[0];
    CHECK(rank.world().all_reduce(held).values<std::int64_t>()[0] == parameter.shape[0]);
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/values_exact", clauses("OVL-10"), ranks(1, 2, 3, 4), each("reshard", false, true), needs(Feature::fully_shard)) {
  // Small integers: a single iteration is exact in f32 at any world size, and three are where the mean divides by a power of two.
  const int world = rank.world().size();
  const int iterations = world == 3 ? 1 : 3;
  const scenario::Run run =
      rank.play(small_mlp({.kind = scenario::OptimizerKind::sgd, .rate = 0.0625}, rank.param<bool>("reshard"), iterations));
  const auto expected = oracles::train_serially(run.scenario(), world, oracles::Arithmetic::f32);

  REQUIRE(run.iterations().size() == static_cast<std::size_t>(iterations));
  REQUIRE(expected.size() == run.iterations().size());
  Tensor before;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const scenario::Iteration& iteration = run.iterations()[i];
    CHECK(iteration.loss == expected[i].losses[static_cast<std::size_t>(rank.index())]);
    check_rows_are_dealt(rank, iteration);
    REQUIRE(iteration.parameters.size() == expected[i].parameters.size());
    for (std::size_t p = 0; p < iteration.parameters.size(); ++p) {
      const scenario::CapturedParameter& held = iteration.parameters[p];
      CAPTURE(i, held.name);
      CHECK(held.name == expected[i].parameters[p].name);
      CHECK(held.shape == expected[i].parameters[p].shape);
      CHECK(held.shard == rows(expected[i].parameters[p].tensor(), held));
      if (held.shard.numel() > 0) CHECK(held.gradient == rows(expected[i].gradients[p].tensor(), held));
    }
    // A step that moves nothing would agree with anything.
    const Tensor now = expected[i].parameters.front().tensor();
    CHECK_FALSE(now == before);
    before = now;
  }
}

RANKED_TEST_CASE("overlap/values_adamw", clauses("OVL-10"), ranks(1, 2, 3, 4), each("reshard", false, true), needs(Feature::fully_shard)) {
  const int world = rank.world().size();
  const scenario::Run run =
      rank.play(small_mlp({.kind = scenario::OptimizerKind::adamw, .rate = 1e-2, .weight_decay = 1e-2}, rank.param<bool>("reshard"), 5));
  const auto expected = oracles::train_serially(run.scenario(), world, oracles::Arithmetic::f64);

  // Five steps of 1e-2 in single precision on values up to some hundreds; a wrong divisor or a lost gradient is off by far more.
  constexpr double gradient_tolerance = 1e-2, parameter_tolerance = 1e-5;
  REQUIRE(expected.size() == 5);
  REQUIRE(run.iterations().size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(run.iterations()[i].parameters.size() == expected[i].parameters.size());
    for (std::size_t p = 0; p < expected[i].parameters.size(); ++p) {
      const scenario::CapturedParameter& held = run.iterations()[i].parameters[p];
      CAPTURE(i, held.name);
      CHECK(largest_difference(held.shard, rows(expected[i].parameters[p].tensor(), held)) <= parameter_tolerance);
      if (held.shard.numel() > 0) {
        REQUIRE(held.gradient.defined());
        CHECK(largest_difference(held.gradient, rows(expected[i].gradients[p].tensor(), held)) <= gradient_tolerance);
      }
    }
  }
}

}  // namespace shardproof::overlap
