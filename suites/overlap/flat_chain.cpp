#include "suites/overlap/flat_chain.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "fixtures/oracles/serial_model.hpp"
#include "harness/scenario/formula.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

Scenario flat_chain(ShardStrategy strategy, std::vector<Action> body) {
  Module second = linear("l1", 5, 2), third = linear("c", 1, 1);
  second.bias = third.bias = false;
  Scenario scenario;
  scenario.model.root.children = {{.name = "a", .children = {linear("l0", 3, 5), relu("relu"), std::move(second)}},
                                  linear("b", 2, 1),
                                  std::move(third),
                                  linear("out", 1, 3)};
  scenario.model.loss = {.kind = LossKind::dot};
  scenario.model.init_divisor = 1;
  FlatShardPlan& plan = flat_shard_plan(scenario.plan);
  plan.wrap = {"a", "b", "c", ""};
  plan.strategy = strategy;
  if (has_replicas(strategy)) scenario.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
  scenario.plan.optimizer = {.rate = 0.25};
  scenario.script.input = {2, 3};
  scenario.script.input_divisor = 1;
  scenario.script.segments = {{.iterations = 3, .body = std::move(body)}};
  return scenario;
}

std::optional<DType> dtype_of(Rank& rank, std::string_view parameter) {
  const std::string& name = rank.param(parameter);
  if (name == "none") return std::nullopt;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    if (name == to_string(dtype)) return dtype;
  }
  throw std::invalid_argument("no dtype is named " + name);
}

// As if the rank were the only one. Gradients are reduced in f32, so the dtype of parameters alone rounds them.
std::vector<std::vector<double>> own_gradients(const Scenario& scenario, int rank, int iteration) {
  Scenario alone = scenario;
  alone.plan.mesh = {};
  flat_shard_plan(alone.plan).strategy = ShardStrategy::no_shard;
  alone.plan.mixed_precision.reduce = DType::f32;
  const auto seed = static_cast<std::uint32_t>(1000 + 100 * iteration + rank);
  alone.script.given = {{formula::tensor(seed, scenario.script.input, scenario.script.input_divisor).to_doubles()}};
  alone.script.segments = {{.body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}}}};
  const std::vector<oracles::SerialIteration> computed = oracles::train_serially(alone, 1, oracles::Arithmetic::f32);
  std::vector<std::vector<double>> gradients;
  for (const oracles::NamedValues& gradient : computed.at(0).gradients) gradients.push_back(gradient.values);
  return gradients;
}

namespace {

std::vector<OnWire> on_wire(const Run& run, int iteration, bool gathers) {
  std::vector<OnWire> all;
  const std::vector<Iteration> iterations = run.iterations();
  const std::vector<fact::Collective> calls = iterations.at(static_cast<std::size_t>(iteration)).collectives();
  std::vector<Operand> operands;
  for (const Operand& operand : run.operands()) {
    if (operand.iteration == iteration) operands.push_back(operand);
  }
  REQUIRE(calls.size() == operands.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    REQUIRE(calls[i].kind == operands[i].kind);
    REQUIRE(calls[i].tag == operands[i].tag);
    if ((calls[i].kind == CollectiveKind::all_gather) == gathers) all.push_back({calls[i], operands[i]});
  }
  return all;
}

}  // namespace

std::vector<OnWire> gathers_on_wire(const Run& run, int iteration) { return on_wire(run, iteration, true); }
std::vector<OnWire> reductions_on_wire(const Run& run, int iteration) { return on_wire(run, iteration, false); }

}  // namespace shardproof::overlap
