// Does an engine that overlaps still compute the right thing?
#include <cmath>
#include <vector>

#include "fixtures/oracles/difference.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "harness/scenario/formula.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

namespace {

// How far values may be from what one process computes; 0 asks for the same bits.
struct Tolerance {
  double loss = 0, gradient = 0, parameter = 0;
};

// The rows of a whole tensor that a rank holds.
Tensor rows(const Tensor& whole, const scenario::CapturedParameter& held) { return whole.narrow(held.start, held.shard.shape()[0]); }

// The parameter that is expected, and rows that it has: what is compared afterwards is comparable.
void require_rows_of(const oracles::NamedValues& expected, const scenario::CapturedParameter& held) {
  REQUIRE(held.name == expected.name);
  REQUIRE(held.shape == expected.shape);
  REQUIRE(held.shard.defined());
  REQUIRE(held.shard.shape().size() == held.shape.size());
  REQUIRE(held.start >= 0);
  REQUIRE(held.start + held.shard.shape()[0] <= held.shape[0]);
  REQUIRE(held.shard.shape() == rows(expected.tensor(), held).shape());
}

// Every row is held by exactly one rank.
void check_rows_are_dealt(Rank& rank, const scenario::CapturedParameter& held) {
  const Tensor mine = Tensor::host(DType::i64, {held.shape[0]}), once = mine.clone();
  for (std::int64_t& holders : rows(mine, held).values<std::int64_t>()) holders = 1;
  for (std::int64_t& holders : once.values<std::int64_t>()) holders = 1;
  CHECK(rank.world().all_reduce(mine) == once);
}

// A step that moves nothing would agree with anything. A rank may hold no row at all: it is enough that the rows of one have moved.
void check_moved(Rank& rank, const Tensor& before, const Tensor& now) {
  const Tensor moved = Tensor::host(DType::i64, {1});
  moved.values<std::int64_t>()[0] = now == before ? 0 : 1;
  CHECK(rank.world().all_reduce(moved).values<std::int64_t>()[0] > 0);
}

void check_close(const Tensor& actual, const Tensor& expected, double tolerance) {
  REQUIRE(actual.defined());
  REQUIRE(actual.shape() == expected.shape());
  if (tolerance == 0) {
    CHECK(actual == expected);
  } else {
    CHECK(oracles::largest_difference(actual, expected) <= tolerance);
  }
}

// Plays the scenario and compares what every rank holds after every step with what one process computes.
void check_training(Rank& rank, const scenario::Scenario& scenario, oracles::Arithmetic arithmetic, const Tolerance& tolerance) {
  const scenario::Run run = rank.play(scenario);
  const auto expected = oracles::train_serially(scenario, rank.world().size(), arithmetic);
  REQUIRE_FALSE(expected.empty());
  REQUIRE(run.iterations().size() == expected.size());
  std::vector<Tensor> before;  // by parameter: the rows held until the step
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const scenario::Iteration& iteration = run.iterations()[i];
    CHECK(std::abs(iteration.loss - expected[i].losses[static_cast<std::size_t>(rank.index())]) <= tolerance.loss);
    REQUIRE_FALSE(expected[i].parameters.empty());
    REQUIRE(iteration.parameters.size() == expected[i].parameters.size());
    for (std::size_t p = 0; p < iteration.parameters.size(); ++p) {
      const scenario::CapturedParameter& held = iteration.parameters[p];
      CAPTURE(i, held.name);
      require_rows_of(expected[i].parameters[p], held);
      check_rows_are_dealt(rank, held);
      if (i == 0) before.push_back(rows(formula::tensor(static_cast<std::uint32_t>(1 + p), held.shape, scenario.model.init_divisor), held));
      check_moved(rank, before[p], held.shard);
      before[p] = held.shard;
      check_close(held.shard, rows(expected[i].parameters[p].tensor(), held), tolerance.parameter);
      if (held.shard.numel() > 0) check_close(held.gradient, rows(expected[i].gradients[p].tensor(), held), tolerance.gradient);
    }
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/values_exact", clauses("OVL-10"), ranks(1, 2, 3, 4), each("reshard", false, true), needs(Feature::fully_shard)) {
  // Small integers: a single iteration is exact in f32 at any world size, and three are where the mean divides by a power of two.
  const int iterations = rank.world().size() == 3 ? 1 : 3;
  check_training(rank, small_mlp({.kind = scenario::OptimizerKind::sgd, .rate = 0.0625}, rank.param<bool>("reshard"), iterations),
                 oracles::Arithmetic::f32, {});
}

RANKED_TEST_CASE("overlap/values_adamw", clauses("OVL-10"), ranks(1, 2, 3, 4), each("reshard", false, true), needs(Feature::fully_shard)) {
  // Five steps of 1e-2 in single precision on values up to some hundreds; a wrong divisor or a lost gradient is off by far more.
  const Tolerance tolerance{.loss = 1e-2, .gradient = 1e-2, .parameter = 1e-5};
  check_training(rank,
                 small_mlp({.kind = scenario::OptimizerKind::adamw, .rate = 1e-2, .weight_decay = 1e-2}, rank.param<bool>("reshard"), 5),
                 oracles::Arithmetic::f64, tolerance);
}

}  // namespace shardproof::overlap
