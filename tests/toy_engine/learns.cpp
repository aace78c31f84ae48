// One layer learns from the batches of all ranks. Its gradient does not depend on its weight, so there is a closed form
// for each step.
#include <shardproof.hpp>

#include <memory>
#include <utility>
#include <vector>

#include "harness/player/play.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/trace/order.hpp"
#include "tests/toy_engine/plan.hpp"

namespace shardproof::toy {

SUITE_ENGINE("toy", "toy");

namespace {

constexpr int rows = 3, in = 4, out = 2, steps = 3;

Scenario one_layer() {
  using enum ActionKind;
  Scenario scenario;
  scenario.model.root.children = {
      {.name = "layer", .kind = ModuleKind::linear, .in_features = in, .out_features = out, .bias = false}};
  auto plan = std::make_unique<ToyPlan>();
  plan->bucket = "gradients";
  scenario.plan.engine = ChosenEngine(std::move(plan));
  scenario.script.input = {rows, in};
  scenario.script.segments = {{.iterations = steps, .body = {{forward}, {backward}, {step}, {capture}, {zero_grad}}}};
  return scenario;
}

/// The gradient of the layer's weight by the sum of its outputs, added up over these ranks. Each of its rows is the sum
/// of all inputs. Exact.
Tensor sum_of_gradients(int step, int first_rank, int last_rank) {
  std::vector<float> sum(in);
  for (int rank = first_rank; rank <= last_rank; ++rank) {
    for (std::uint32_t i = 0; i < rows * in; ++i)
      sum[i % in] +=
          static_cast<float>(formula::small_integer(static_cast<std::uint32_t>(1000 + 100 * step + rank), i)) / 8;
  }
  std::vector<float> gradient;
  for (int row = 0; row < out; ++row) gradient.insert(gradient.end(), sum.begin(), sum.end());
  return Tensor::of<float>({out, in}, gradient);
}

/// Element by element.
template <class Combine>
Tensor combined(const Tensor& a, const Tensor& b, Combine combine) {
  std::vector<float> values;
  for (std::size_t i = 0; i < a.values<float>().size(); ++i)
    values.push_back(combine(a.values<float>()[i], b.values<float>()[i]));
  return Tensor::of<float>(a.shape(), values);
}

}  // namespace

RANKED_TEST_CASE("toy/learns", clauses("TOY-1", "TOY-2"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, ToyFeature::named_bucket)) {
  REQUIRE(rank.engine() == ToyPlan::name);
  const int size = rank.world().size();
  const Run run = play(rank, one_layer());
  REQUIRE(run.captures().size() == steps);
  Tensor weight = formula::tensor(1, {out, in}, 8);
  for (int step = 0; step < steps; ++step) {
    CAPTURE(step);
    const Tensor sum = sum_of_gradients(step, 0, size - 1);
    const Tensor mean = combined(sum, sum, [size](float a, float) { return a / static_cast<float>(size); });
    const Tensor next = combined(weight, mean, [](float w, float g) { return w - 0.5F * g; });
    CHECK_FALSE(next == weight);
    // Data is distinct on each rank.
    if (size > 1) CHECK_FALSE(sum_of_gradients(step, rank.index(), rank.index()) == mean);
    const CapturedParameter& parameter = run.captures()[static_cast<std::size_t>(step)].parameters.at(0);
    CHECK(parameter.gradient == mean);
    CHECK(parameter.shard == next);
    weight = next;

    const auto issued =
        trace::collectives(run.trace(), mark(step, ActionKind::forward), mark(step, ActionKind::zero_grad, true));
    CHECK(issued.size() == (size > 1 ? 1 : 0));
    for (const fact::Collective& collective : issued) CHECK(collective.tag == "gradients");
  }
  CHECK(run.races().empty());
}

}  // namespace shardproof::toy
