// The engine with flat parameters against what PyTorch's FullyShardedDataParallel computed, how it laid parameters out,
// and what it asked of streams.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "fixtures/engines/flat_shard/layout.hpp"
#include "fixtures/oracles/difference.hpp"
#include "harness/trace/order.hpp"
#include "tests/engines/flat_scenarios.hpp"
#include "tests/golden_tables/golden_tables.hpp"

using namespace shardproof;
using namespace shardproof::scenario;
using namespace shardproof::testing;
namespace golden = shardproof::oracles::golden;

namespace {

const Action forward_action{ActionKind::forward}, backward_action{ActionKind::backward}, step_action{ActionKind::step};

void check_within(const Tensor& actual, const Tensor& expected, double tolerance) {
  REQUIRE(actual.shape() == expected.shape());
  CHECK(oracles::largest_difference(actual, expected) <= tolerance);
}

// -- Layouts

// A module as `Linear(5,7)`, `Linear(1,1,nobias)` or `Seq(Linear(6,3,nb),Linear(3,6,nb))`.
std::vector<Module> modules_named(const std::string& name) {
  std::vector<Module> modules;
  for (std::size_t at = name.find("Linear("); at != std::string::npos; at = name.find("Linear(", at + 1)) {
    const std::string sizes = name.substr(at + 7, name.find(')', at) - at - 7);
    modules.push_back(layer("l" + std::to_string(modules.size()), std::stoi(sizes),
                            std::stoi(sizes.substr(sizes.find(',') + 1)),
                            sizes.find("nb") == std::string::npos && sizes.find("nobias") == std::string::npos));
  }
  return modules;
}

engines::FlatLayout laid_out(const golden::FlatLayout& recorded) {
  engines::FlatLayout::Rules rules{.ranks = recorded.world};
  if (recorded.use_orig_params) {
    rules.align = 4;
    rules.divides = recorded.world;
  }
  return {recorded.elements, rules};
}

Scenario gathering(const golden::FlatLayout& recorded) {
  Scenario scenario = flat_scenario(modules_named(recorded.module), {""});
  scenario.model.init_divisor = 8;
  flat_shard_plan(scenario.plan).use_orig_params = recorded.use_orig_params;
  scenario.script.input = {1, scenario.model.root.children.front().in_features};
  scenario.script.segments = {{1, {forward_action, {ActionKind::capture}}}};
  scenario.script.keep_tensors = true;
  return scenario;
}

// -- Structure

bool is_linear(WorkKind kind, std::string_view label) {
  return (kind == WorkKind::forward || kind == WorkKind::backward) && !label.ends_with("relu");
}

Scenario blocks(ShardStrategy strategy) {
  std::vector<Module> children;
  for (const char* name : {"0", "1", "2"})
    children.push_back(
        holder(ModuleKind::sequential, name, {layer("in_proj", 8, 32), activation("relu"), layer("out_proj", 32, 8)}));
  Scenario scenario = flat_scenario(std::move(children), {"0", "1", "2", ""});
  flat_shard_plan(scenario.plan).strategy = strategy;
  scenario.model.loss = {.kind = LossKind::sum_of_squares, .divisor = 64};
  scenario.script.input = {2, 8};
  scenario.script.segments = {{2, {forward_action, backward_action, step_action}}};
  return scenario;
}

Scenario first_unsynced(ShardStrategy strategy) {
  Scenario scenario = blocks(strategy);
  scenario.script.segments = {{1, {sync(false), forward_action, backward_action, sync(true)}},
                              scenario.script.segments.front()};
  return scenario;
}

std::vector<trace::Structure> structures(const Scenario& scenario, int world) {
  std::vector<trace::Structure> all;
  for (const Run& run : played(scenario, world)) {
    CHECK(run.races().empty());
    all.push_back(trace::structure(run.trace(), is_linear));
  }
  return all;
}

// The host reads what it compares, and so waits for the check. PyTorch's log is of tensors on the CPU, where nothing
// shows this wait. So each order of the log is an order here, and each other one leads through such a gather.
void check_order_but_for_host_waits(const trace::Structure& recorded, const trace::Structure& actual) {
  REQUIRE(actual.steps == recorded.steps);
  const std::size_t count = actual.steps.size();
  const auto is_before = [&](std::size_t x, std::size_t y) { return x == y || actual.before[x * count + y]; };
  std::size_t missing = 0, unexplained = 0;
  for (std::size_t x = 0; x < count; ++x) {
    for (std::size_t y = 0; y < count; ++y) {
      if (recorded.before[x * count + y] && !actual.before[x * count + y]) ++missing;
      if (!actual.before[x * count + y] || recorded.before[x * count + y]) continue;
      bool waits = false;
      for (std::size_t check = x; check < y; ++check)
        waits = waits || (actual.steps[check].dtype == DType::i32 && is_before(x, check));
      if (!waits) ++unexplained;
    }
  }
  CHECK(missing == 0);
  CHECK(unexplained == 0);
}

void check_structure(const char* name, const Scenario& scenario, int world) {
  CAPTURE(name);
  const std::vector<trace::Structure> ranks = structures(scenario, world);
  for (int rank = 0; rank < world; ++rank) {
    CAPTURE(rank);
    const trace::Structure recorded = golden::structure(name, rank);
    REQUIRE(recorded.steps.size() > 10);
    CHECK(trace::difference(recorded, ranks[static_cast<std::size_t>(rank)]) == "");
  }
}

}  // namespace

TEST_CASE("flat parameters train as PyTorch trains them") {
  for (const int world : {2, 4}) {
    const golden::Values values = golden::values("e_fsdp1_W" + std::to_string(world));
    for (const ShardStrategy strategy :
         {ShardStrategy::full_shard, ShardStrategy::shard_grad_op, ShardStrategy::no_shard}) {
      CAPTURE(world, to_string(strategy));
      Scenario scenario =
          flat_scenario({holder(ModuleKind::sequential, "net", {layer("0", 8, 16), activation("1"), layer("2", 16, 8)}),
                         activation("relu"), layer("out", 8, 4)},
                        {"net", ""});
      flat_shard_plan(scenario.plan).strategy = strategy;
      flat_shard_plan(scenario.plan).use_orig_params = true;
      scenario.model.init_divisor = scenario.script.input_divisor = 8;
      scenario.model.loss = {.kind = LossKind::sum_of_squares, .divisor = values.loss_divisor};
      scenario.plan.optimizer.rate = 0.1;
      scenario.script.input = values.input;
      scenario.script.segments = {{1, {forward_action, backward_action, step_action, {ActionKind::capture}}}};
      const golden::Iteration& expected = values.iterations.at(0);
      const std::vector<Run> runs = played(scenario, world);
      for (std::size_t rank = 0; rank < runs.size(); ++rank) {
        const Capture& captured = runs[rank].captures().at(0);
        CHECK(std::abs(captured.loss - static_cast<double>(expected.losses.at(rank))) <= expected.tolerance.loss);
        REQUIRE(captured.parameters.size() == expected.parameters.size());
        for (std::size_t p = 0; p < expected.parameters.size(); ++p) {
          const CapturedParameter& held = captured.parameters[p];
          CAPTURE(rank, held.name);
          CHECK(held.name == expected.parameters[p].name);
          CHECK(held.dim == flattened);
          const auto part = [&](const Tensor& whole) { return whole.flatten().narrow(held.start, held.shard.numel()); };
          check_within(held.shard, part(expected.parameters[p].after), expected.tolerance.parameter);
          if (held.shard.numel() > 0)
            check_within(held.gradient, part(expected.parameters[p].gradient), expected.tolerance.gradient);
        }
      }
    }
  }
}

TEST_CASE("parameters lie in a flat parameter where PyTorch puts them") {
  for (const golden::FlatLayout& recorded : golden::flat_layouts()) {
    CAPTURE(recorded.world, recorded.use_orig_params, recorded.module);
    const engines::FlatLayout layout = laid_out(recorded);
    CHECK(layout.part() == recorded.shard);
    CHECK(layout.padded() == recorded.shard * recorded.world);
    for (int rank = 0; rank < recorded.world; ++rank) {
      CAPTURE(rank);
      for (std::size_t p = 0; p < recorded.elements.size(); ++p) {
        const auto& expected = recorded.ranks[static_cast<std::size_t>(rank)].parts.at(p);
        const engines::FlatLayout::Kept kept = layout.kept(p, rank);
        CHECK(kept.of_parameter.length == (expected ? expected->elements : 0));
        if (!expected) continue;
        CHECK(kept.of_parameter.start == expected->in_parameter);
        CHECK(kept.in_part == expected->in_shard);
      }
    }
  }
}

TEST_CASE("ranks gather the very elements that PyTorch's shards have, padding included") {
  for (const golden::FlatLayout& recorded : golden::flat_layouts()) {
    CAPTURE(recorded.world, recorded.use_orig_params, recorded.module);
    const std::vector<Run> runs = played(gathering(recorded), recorded.world);
    for (std::size_t rank = 0; rank < runs.size(); ++rank) {
      CAPTURE(rank);
      const std::vector<float>& shard = recorded.ranks[rank].values;
      REQUIRE(runs[rank].operands().size() == 1);
      CHECK(runs[rank].operands()[0].in == Tensor::of<float>({recorded.shard}, shard));
      for (std::size_t p = 0; p < recorded.elements.size(); ++p) {
        const auto& part = recorded.ranks[rank].parts.at(p);
        const CapturedParameter& held = runs[rank].captures().at(0).parameters.at(p);
        CHECK(held.dim == flattened);
        CHECK(held.shard.shape() == Shape{part ? part->elements : 0});
        if (part) CHECK(held.start == part->in_parameter);
      }
    }
  }
}

TEST_CASE("the host issues the calls of PyTorch's flat engine in its order, and each waits for the same") {
  check_structure("h_fsdp1_FULL_SHARD_plain_W2", blocks(ShardStrategy::full_shard), 2);
  check_structure("h_fsdp1_SHARD_GRAD_OP_plain_W2", blocks(ShardStrategy::shard_grad_op), 2);
  check_structure("h_fsdp1_NO_SHARD_plain_W2", blocks(ShardStrategy::no_shard), 2);
  check_structure("h_fsdp1_FULL_SHARD_no_sync_W2", first_unsynced(ShardStrategy::full_shard), 2);
  check_structure("h_fsdp1_SHARD_GRAD_OP_no_sync_W2", first_unsynced(ShardStrategy::shard_grad_op), 2);
  check_structure("h_fsdp1_NO_SHARD_no_sync_W2", first_unsynced(ShardStrategy::no_shard), 2);
  Scenario hybrid = blocks(ShardStrategy::hybrid);
  hybrid.plan.mesh = {.shape = {2, 2}};
  check_structure("h_fsdp1_HYBRID_SHARD_W4", hybrid, 4);
}

TEST_CASE("the check of the order of gathers makes PyTorch's calls in its order") {
  Scenario scenario = blocks(ShardStrategy::full_shard);
  flat_shard_plan(scenario.plan).validate_order = true;
  for (const trace::Structure& actual : structures(scenario, 2))
    check_order_but_for_host_waits(golden::structure("h_fsdp1_FULL_SHARD_detail_W2"), actual);
}
