// How many bytes does an engine with flat parameters hold, and how often does its host wait?
#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "fixtures/oracles/flat_memory.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "suites/checks/flat_shard.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/flat_chain.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

Scenario training(Rank& rank) {
  return flat_chain(strategy(rank),
                    {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}, {ActionKind::zero_grad}});
}

// How the plan or the script differs from the plainest one.
Scenario changed(Rank& rank) {
  const std::string& with = rank.param("with");
  Scenario scenario = training(rank);
  const auto hook = [&](HookKind kind) {
    scenario.script.segments.insert(scenario.script.segments.begin(),
                                    {.body = {{.kind = ActionKind::register_hook, .hook = Hook{.kind = kind}}}});
  };
  if (with == "no_limit") flat_shard_plan(scenario.plan).limit_all_gathers = false;
  if (with == "bf16") scenario.plan.mixed_precision.param = DType::bf16;
  if (with == "bf16_reductions") scenario.plan.mixed_precision.reduce = DType::bf16;
  if (with == "orig_params") flat_shard_plan(scenario.plan).use_orig_params = true;
  if (with == "validation") flat_shard_plan(scenario.plan).validate_order = true;
  if (with == "hook") hook(HookKind::plain);
  if (with == "compression") hook(HookKind::fp16_compress);
  return scenario;
}

void check_bytes(const Iteration& iteration, MemoryClass memory, const oracles::FlatBytes& expected) {
  CAPTURE(iteration.index(), to_string(memory));
  CHECK(iteration.live_after(memory, ActionKind::forward).bytes == expected.after_forward);
  CHECK(iteration.live_after(memory, ActionKind::backward).bytes == expected.after_backward);
  CHECK(iteration.live_after(memory, ActionKind::step).bytes == expected.after_step);
  CHECK(iteration.live_after(memory, ActionKind::zero_grad).bytes == expected.after_zero_grad);
}

void check_flat_memory(Rank& rank, const Run& run) {
  const int world = rank.world().size();
  const oracles::FlatMemory expected = oracles::flat_memory(run.scenario(), world);
  const std::vector<Iteration> iterations = steady_iterations(run);
  const std::vector<std::size_t> waits =
      oracles::flat_host_waits(run.scenario(), world, static_cast<int>(iterations.size()));
  CHECK(run.peak(MemoryClass::shard).bytes == expected.shard.peak);
  for (const Iteration& iteration : iterations) {
    CAPTURE(iteration.index());
    check_bytes(iteration, MemoryClass::shard, expected.shard);
    check_bytes(iteration, MemoryClass::parameter, expected.parameter);
    check_bytes(iteration, MemoryClass::sharded_gradient, expected.sharded_gradient);
    CHECK(iteration.peak(MemoryClass::parameter).bytes == expected.parameter.peak);
    CHECK(iteration.peak(MemoryClass::sharded_gradient).bytes >= expected.sharded_gradient.after_backward);
    const MixedPrecision& precision = run.scenario().plan.mixed_precision;
    if (!precision.param && !precision.reduce)
      CHECK(iteration.peak(MemoryClass::sharded_gradient).bytes == expected.sharded_gradient.after_backward);
    CHECK(host_waits(iteration) == waits.at(static_cast<std::size_t>(iteration.index())));
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/flat_memory", clauses("OVL-36"), ranks(1, 2, 3), more_ranks(4, 5, 7, 8),
                 also_with_discarded_module(), on_engines("flat_shard"),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 each("with", "nothing", "bf16", "bf16_reductions"),
                 needs(Feature::timeline, FlatShardFeature::gather_limit),
                 needs_if("with", "bf16", Feature::mixed_precision),
                 needs_if("with", "bf16_reductions", Feature::mixed_precision), tags("reference")) {
  check_flat_memory(rank, play_accepted(rank, changed(rank)));
}

RANKED_TEST_CASE("overlap/flat_memory_of_copies", clauses("OVL-36"), ranks(4), also_with_discarded_module(),
                 on_engines("flat_shard"), each("strategy", "hybrid", "hybrid_zero2"), each("with", "nothing", "bf16"),
                 needs(Feature::timeline, Feature::replicated_mesh, FlatShardFeature::gather_limit),
                 needs_if("with", "bf16", Feature::mixed_precision), tags("reference")) {
  check_flat_memory(rank, play_accepted(rank, changed(rank)));
}

namespace {

// A unit has at most 16 bytes of padding for each parameter, in the dtype of the computation, and an element for each
// rank.
struct Bounds {
  std::uint64_t all = 0, largest = 0, root = 0;

  void add(const std::string& unit, std::uint64_t bytes) {
    all += bytes;
    largest = std::max(largest, bytes);
    if (unit.empty()) root = bytes;
  }
};

// `values` are f32 without padding, and `whole` is f32 with it.
struct UnitBytes {
  Bounds whole, values;
};

UnitBytes unit_bytes(const Scenario& scenario, int world) {
  const std::uint64_t alignment = scenario.plan.mixed_precision.param ? 32 : 16;
  UnitBytes bytes;
  for (const oracles::FlatUnit& unit : oracles::flat_units(scenario, world)) {
    const std::uint64_t values = 4 * unit.values();
    bytes.values.add(unit.name, values);
    bytes.whole.add(unit.name, values + alignment * unit.parameters.size() + 4 * static_cast<std::uint64_t>(world));
  }
  return bytes;
}

// Without the segment that registers a hook.
std::vector<Iteration> trained_iterations(const Run& run) {
  std::vector<Iteration> all = run.iterations();
  const auto trained = static_cast<std::size_t>(run.scenario().script.segments.back().iterations);
  all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(trained));
  REQUIRE(all.size() >= 3);
  return all;
}

void check_bounds(Rank& rank, const Run& run) {
  const FlatShardPlan& section = flat_shard_plan(run.scenario().plan);
  const auto world = static_cast<std::uint64_t>(rank.world().size());
  const bool shards = world > 1 && section.strategy != ShardStrategy::no_shard;
  const bool casts = run.scenario().plan.mixed_precision.param.has_value();
  const auto [whole, values] = unit_bytes(run.scenario(), rank.world().size());
  const std::uint64_t ranks = shards ? world : 1, narrow = casts ? 2 : 1, units = section.wrap.size();
  const std::uint64_t kept = run.peak(MemoryClass::shard).bytes;
  CHECK(kept >= values.all / ranks);
  CHECK(kept <= whole.all / ranks);
  CHECK(run.peak(MemoryClass::optimizer_state).bytes == 0);  // SGD without momentum has none
  for (const Iteration& iteration : trained_iterations(run)) {
    CAPTURE(iteration.index());
    const auto peak = [&](MemoryClass memory) { return iteration.peak(memory).bytes; };
    const auto after = [&](ActionKind call, MemoryClass memory) { return iteration.live_after(memory, call).bytes; };
    CHECK(iteration.live_before(MemoryClass::shard, ActionKind::forward).bytes == kept);
    CHECK(after(ActionKind::zero_grad, MemoryClass::shard) == kept);
    if (shards || casts) CHECK(peak(MemoryClass::parameter) >= values.largest / narrow);
    // The unit that computes, and two ahead of it.
    CHECK(peak(MemoryClass::parameter) <=
          (frees_after_forward(section.strategy) ? whole.root + 3 * whole.largest : whole.all));
    // A rank that keeps all may compute a gradient where it stays.
    if (shards) CHECK(peak(MemoryClass::gradient) >= values.largest / narrow);
    CHECK(peak(MemoryClass::gradient) <= 2 * (whole.root + whole.largest));
    CHECK(peak(MemoryClass::reduce_input) <= 2 * whole.largest);
    CHECK(peak(MemoryClass::sharded_gradient) <= (whole.all + 2 * whole.largest) / ranks);
    CHECK(after(ActionKind::backward, MemoryClass::sharded_gradient) >= values.all / ranks);
    CHECK(after(ActionKind::backward, MemoryClass::sharded_gradient) <= whole.all / ranks);
    // With `use_orig_params`, FSDP1 keeps the memory of a gradient until the next forward.
    if (!section.use_orig_params) CHECK(after(ActionKind::zero_grad, MemoryClass::sharded_gradient) == 0);
    for (const MemoryClass memory : {MemoryClass::parameter, MemoryClass::gradient, MemoryClass::reduce_input}) {
      CAPTURE(to_string(memory));
      CHECK(after(ActionKind::backward, memory) == 0);
    }
    // Two gathers for each unit. In the first iteration ranks compare their order, and may wait for each number.
    const bool compares = section.validate_order && iteration.index() == 0;
    const std::size_t limited = shards && section.limit_all_gathers ? 2 * units : 0;
    if (!compares) CHECK(host_waits(iteration) <= limited);
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/flat_bounds", clauses("OVL-35"), ranks(1, 2, 3), more_ranks(4, 5, 7, 8),
                 also_with_discarded_module(), on_engines("flat_shard"),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 each("with", "no_limit", "orig_params", "bf16", "bf16_reductions", "validation"),
                 needs(Feature::timeline, FlatShardFeature::gather_limit),
                 needs_if("with", "orig_params", FlatShardFeature::orig_params),
                 needs_if("with", "bf16", Feature::mixed_precision),
                 needs_if("with", "bf16_reductions", Feature::mixed_precision),
                 needs_if("with", "validation", FlatShardFeature::order_validation)) {
  check_bounds(rank, play_accepted(rank, changed(rank)));
}

RANKED_TEST_CASE("overlap/flat_bounds_of_hooks", clauses("OVL-35"), ranks(1, 2, 3), more_ranks(4, 5, 7, 8),
                 also_with_discarded_module(), on_engines("flat_shard"), each("strategy", "full_shard", "no_shard"),
                 each("with", "hook", "compression"), needs(Feature::timeline),
                 needs_if("with", "hook", FlatShardFeature::gradient_hooks),
                 needs_if("with", "compression", FlatShardFeature::compressing_hooks)) {
  check_bounds(rank, play_accepted(rank, changed(rank)));
}

}  // namespace shardproof::overlap
