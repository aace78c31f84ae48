// Do parameters that are gathered by hooks train as one process computes?
#include <functional>

#include "harness/scenario/formula.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/extensions/hooks.hpp"
#include "suites/extensions/scenarios.hpp"

namespace shardproof::extensions {

SUITE_ENGINE("extensions", "fully_shard");

using namespace suites;

namespace {

constexpr int iterations = 10;

// Plays each iteration in its own segment: by turns, gradients are removed at its end or become zero, as in the seed.
void zero_by_turns(Script& script) {
  std::vector<Script::Segment> turns;
  for (const Script::Segment& segment : script.segments) {
    for (int i = 0; i < segment.iterations; ++i) {
      turns.push_back({.body = segment.body});
      turns.back().body.back().to_zero = turns.size() % 2 == 0;
    }
  }
  script.segments = std::move(turns);
}

void play_blocks(Rank& rank) {
  const bool adam = rank.param("optimizer") == "adam";
  Scenario scenario =
      blocks({.rows = rows_for(rank.param("rows"), rank.world().size()),
              .reshard = reshard_of(rank),
              .optimizer = {.kind = adam ? OptimizerKind::adam : OptimizerKind::sgd, .rate = adam ? 1e-2 : 0.0625}});
  train(scenario, iterations, {extend(TensorKind::two_tensor, ExtensionKind::components, form_of(rank))});
  zero_by_turns(scenario.script);
  const Run run = play_accepted(rank, scenario);
  // Ten steps in single precision. On seven ranks rounding alone moves a parameter by 9e-6 under Adam.
  const double parameter = adam && rank.world().size() > 4 ? 1e-4 : 1e-5;
  check_training(rank, run, oracles::Arithmetic::f64, {.loss = 1e-4, .gradient = 1e-4, .parameter = parameter});
  check_hooks(rank, run);
  check_sound(rank, run);
  check_plan_is_communicated(rank, run);
  for (int i = 0; i < iterations; ++i) check_nothing_is_left(rank, run, i);
  check_freed_memory(rank, run);
}

// One linear layer and a loss that is linear in its output. Gradients do not depend on weights, so n steps are n times
// the first step. Each rank's inputs are a multiple of the number of ranks, so that means are integers.
struct LinearModel {
  explicit LinearModel(const Rank& rank, int world) : rows(2 * world + 1) {
    scenario.model.root.children = {weight("l0", columns, rows, TensorKind::two_tensor)};
    scenario.model.loss = {.kind = LossKind::dot};
    scenario.model.init_divisor = 1;
    fully_shard_plan(scenario.plan).wrap = {{{"l0"}, reshard_of(rank)}, {{""}, reshard_of(rank)}};
    scenario.plan.optimizer = {.rate = 0.125};
    scenario.script.input = {1, columns};
    std::vector<std::vector<double>> given;
    for (int r = 0; r < world; ++r) {
      given.push_back(formula::tensor(static_cast<std::uint32_t>(2000 + r), {columns}, 1).to_doubles());
      for (double& x : given.back()) x *= world;
    }
    scenario.script.given = {given};
    scenario.script.keep_tensors = true;
    const std::vector<Action> iteration{{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture},
                                        {ActionKind::step},    {ActionKind::capture},  {ActionKind::zero_grad}};
    scenario.script.segments = {{.body = iteration}, {.iterations = iterations - 1, .body = iteration}};
    std::vector<Action>& first = scenario.script.segments.front().body;
    first.insert(first.begin(), extend(TensorKind::two_tensor, ExtensionKind::components, form_of(rank)));
    zero_by_turns(scenario.script);
  }

  double gradient(std::int64_t row, std::int64_t column) const {
    double sum = 0;
    for (const auto& of_rank : scenario.script.given.front()) sum += of_rank[static_cast<std::size_t>(column)];
    return slope(row) * sum / static_cast<double>(scenario.script.given.front().size());
  }
  /// The value of an element after `steps` steps.
  double value(int component, int steps, std::int64_t row, std::int64_t column) const {
    const auto seed = static_cast<std::uint32_t>(1 + 500 * component);
    const auto index = static_cast<std::uint32_t>(row * columns + column);
    return formula::small_integer(seed, index) - steps * scenario.plan.optimizer.rate * gradient(row, column);
  }
  double loss(int rank, int steps) const {
    double sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        const double weight = value(0, steps, row, column) + 2 * value(1, steps, row, column);
        sum += slope(row) * weight *
               scenario.script.given.front()[static_cast<std::size_t>(rank)][static_cast<std::size_t>(column)];
      }
    }
    return sum;
  }
  double slope(std::int64_t row) const {
    return dot_row(scenario.model.loss, rows).to_doubles()[static_cast<std::size_t>(row)];
  }

  static constexpr std::int64_t columns = 4;
  std::int64_t rows;
  Scenario scenario;
};

// The bits of a shard against the closed form of each of its elements.
void check_elements(const Tensor& shard, std::int64_t start,
                    const std::function<double(std::int64_t row, std::int64_t column)>& expected) {
  REQUIRE(shard.defined());
  const Tensor exact = Tensor::host(DType::f32, shard.shape());
  for (std::int64_t i = 0; i < exact.numel(); ++i) {
    exact.values<float>()[static_cast<std::size_t>(i)] = static_cast<float>(
        expected(start + i / LinearModel::columns, i % LinearModel::columns) + 0.0);  // no -0: a sum has none
  }
  CHECK(shard == exact);
}

}  // namespace

// The minimal form has other arguments and other checks, but moves the same bytes. So most of its cases are played on
// request.
RANKED_TEST_CASE("extensions/train_parity",
                 clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9", "EXT-10", "EXT-11"), ranks(1, 2, 3),
                 more_ranks(4, 5, 7, 8), each("form", "full"), each("optimizer", "sgd", "adam"),
                 each("reshard", false, true), each("rows", "even", "uneven"),
                 needs(Feature::timeline, Feature::all_gather_extensions), seed(train_parity_test)) {
  play_blocks(rank);
}

RANKED_TEST_CASE("extensions/train_parity",
                 clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9", "EXT-10", "EXT-11"), ranks(4),
                 more_ranks(1, 2, 3, 5, 7, 8), each("form", "full"), each("optimizer", "sgd", "adam"),
                 each("reshard", false, true), each("rows", "few"),
                 needs(Feature::timeline, Feature::all_gather_extensions), seed(train_parity_test)) {
  play_blocks(rank);
}

RANKED_TEST_CASE("extensions/train_parity",
                 clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9", "EXT-10", "EXT-11"), ranks(1, 2, 3, 4),
                 more_ranks(5, 7, 8), each("form", "minimal"), each("optimizer", "adam"), each("reshard", false, true),
                 each("rows", "uneven"), needs(Feature::timeline, Feature::all_gather_extensions),
                 seed(train_parity_test)) {
  play_blocks(rank);
}

RANKED_TEST_CASE("extensions/train_parity",
                 clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9", "EXT-10", "EXT-11"), ranks(1),
                 more_ranks(2, 3, 4, 5, 7, 8), each("form", "minimal"), each("optimizer", "sgd", "adam"),
                 each("reshard", false, true), each("rows", "even", "few"),
                 needs(Feature::timeline, Feature::all_gather_extensions), seed(train_parity_test)) {
  play_blocks(rank);
}

RANKED_TEST_CASE("extensions/train_parity",
                 clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9", "EXT-10", "EXT-11"), ranks(1),
                 more_ranks(2, 3, 4, 5, 7, 8), each("form", "minimal"), each("optimizer", "sgd"),
                 each("reshard", false, true), each("rows", "uneven"),
                 needs(Feature::timeline, Feature::all_gather_extensions), seed(train_parity_test)) {
  play_blocks(rank);
}

RANKED_TEST_CASE("extensions/exact_parity", clauses("EXT-1", "EXT-2", "EXT-7"), ranks(1, 2, 3, 4),
                 more_ranks(5, 7, 8, 16, 32, 64), each("form", "minimal", "full"), each("reshard", false, true),
                 needs(Feature::all_gather_extensions), seed(train_parity_test)) {
  const LinearModel model(rank, rank.world().size());
  require_exact_sums(model.scenario, rank.world().size());
  const Run run = play_accepted(rank, model.scenario);
  const auto judged = rank.under("EXT-7");
  REQUIRE(run.captures().size() == 2 * iterations);
  for (std::size_t i = 0; i < run.captures().size(); ++i) {
    CAPTURE(i);
    const int forwards = static_cast<int>(i / 2), steps = static_cast<int>((i + 1) / 2);
    CHECK(run.captures()[i].loss == model.loss(rank.index(), forwards));
    REQUIRE(run.captures()[i].parameters.size() == 1);
    const CapturedParameter& held = run.captures()[i].parameters.front();
    const auto value = [&](int component) {
      return [&model, component, steps](std::int64_t row, std::int64_t column) {
        return model.value(component, steps, row, column);
      };
    };
    check_elements(held.shard, held.start, value(0));
    check_elements(held.second, held.start, value(1));
    if (held.shard.numel() == 0) continue;
    check_elements(held.gradient, held.start,
                   [&](std::int64_t row, std::int64_t column) { return model.gradient(row, column); });
  }
  check_paired(rank, run);
  check_contributions(rank, run);
}

}  // namespace shardproof::extensions
