// Communication and computation under a plan with dtypes: every collective's dtype, bytes and values.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "fixtures/oracles/divide_factors.hpp"
#include "fixtures/oracles/rounding.hpp"
#include "harness/player/play.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/trace/memory.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/extensions/precision_scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

namespace {

// A rank's rows of a whole parameter, padded by zeros to the first rank's number of rows.
std::vector<double> padded_rows(const std::vector<double>& whole, std::int64_t rows, int world, int rank) {
  const std::int64_t width = static_cast<std::int64_t>(whole.size()) / rows, each = (rows + world - 1) / world;
  std::vector<double> padded(static_cast<std::size_t>(each * width));
  const std::int64_t start = std::min(rows, rank * each), end = std::min(rows, start + each);
  std::copy(whole.begin() + start * width, whole.begin() + end * width, padded.begin());
  return padded;
}

// The serial result of one rank alone, on its own inputs.
oracles::SerialIteration alone(Scenario scenario, int rank) {
  scenario.script.given = {
      {formula::tensor(static_cast<std::uint32_t>(1000 + rank), scenario.script.input, scenario.script.input_divisor)
           .to_doubles()}};
  return oracles::train_serially(scenario, 1, oracles::Arithmetic::f32).front();
}

// The expected operands of the two groups of uneven_layers, from the captures and from this rank's own serial result.
class Wire {
 public:
  Wire(Rank& rank, const Run& run)
      : run_(run),
        world_(rank.world().size()),
        param_(run.scenario().plan.mixed_precision.param.value_or(DType::f32)),
        reduce_(run.scenario().plan.mixed_precision.reduce.value_or(DType::f32)),
        local_(alone(run.scenario(), rank.index())) {}

  void check(const Rank& rank, int iteration) const {
    const auto judged = rank.under("EXT-20", "EXT-21");
    std::set<std::string> gathered, gathered_again, reduced;
    for (const ActionKind call : {ActionKind::forward, ActionKind::backward}) {
      std::vector<Operand> operands;
      std::ranges::copy_if(run_.operands(), std::back_inserter(operands), [&](const Operand& operand) {
        return operand.iteration == iteration && operand.during == to_string(call);
      });
      const auto collectives = run_.iterations().at(static_cast<std::size_t>(iteration)).collectives(call);
      REQUIRE(collectives.size() == operands.size());
      for (std::size_t i = 0; i < collectives.size(); ++i) {
        CAPTURE(iteration, to_string(call), to_string(collectives[i].kind), collectives[i].tag);
        REQUIRE(collectives[i].kind == operands[i].kind);
        if (collectives[i].kind == CollectiveKind::all_gather) {
          (call == ActionKind::forward ? gathered : gathered_again).insert(collectives[i].tag);
          check_gather(rank, collectives[i], operands[i], iteration);
        } else {
          reduced.insert(collectives[i].tag);
          check_reduction(rank, collectives[i], operands[i], iteration);
        }
      }
    }
    const std::set<std::string> none, both{"l0", "l1"};
    const bool reshards = fully_shard_plan(run_.scenario().plan).wrap.front().reshard_after_forward.kind ==
                          ReshardAfterForward::Kind::yes;
    CHECK(gathered == (world_ > 1 ? both : none));
    CHECK(gathered_again == (world_ > 1 && reshards ? both : none));
    CHECK(reduced == (world_ > 1 ? both : none));
  }

 private:
  void check_gather(const Rank& rank, const fact::Collective& collective, const Operand& operand, int iteration) const {
    std::vector<double> expected;
    for (const CapturedParameter* held : of_group(collective.tag, iteration)) {
      std::vector<double> mine = held->shard.to_doubles();
      mine.resize(
          padded_rows(std::vector<double>(static_cast<std::size_t>(numel(held->shape))), held->shape[0], world_, 0)
              .size());
      for (const double value : mine) expected.push_back(oracles::rounded_to(param_, value));
    }
    {
      const auto judged = rank.under("EXT-10", "EXT-24");
      CHECK(operand.in.to_doubles() == expected);
    }
    const auto judged = rank.under("EXT-20");
    CHECK(collective.dtype == param_);
    CHECK(operand.in.dtype() == param_);
    CHECK(collective.in_count == expected.size());
    CHECK(collective.out_count == expected.size() * static_cast<std::size_t>(world_));
    REQUIRE_FALSE(collective.reads.empty());
    CHECK(collective.reads.front().length == expected.size() * size_of(param_));
  }

  // In the first iteration every rank has the same parameters: what it brings to a reduction is what it computes by
  // itself.
  void check_reduction(const Rank& rank, const fact::Collective& collective, const Operand& operand,
                       int iteration) const {
    const double before = reduce_ == DType::f16 ? oracles::divide_factors(world_).pre : 1;
    std::vector<double> expected;
    for (int receiver = 0; receiver < world_; ++receiver) {
      for (const CapturedParameter* held : of_group(collective.tag, iteration)) {
        const auto named = std::ranges::find(local_.gradients, held->name, &oracles::NamedValues::name);
        for (const double value : padded_rows(named->values, held->shape[0], world_, receiver)) {
          expected.push_back(oracles::rounded_to(reduce_, oracles::rounded_to(reduce_, value) / before));
        }
      }
    }
    if (iteration == 0) {
      const auto judged = rank.under("EXT-10", "EXT-24");
      CHECK(operand.in.to_doubles() == expected);
    }
    const auto judged = rank.under("EXT-21");
    CHECK(collective.kind == CollectiveKind::reduce_scatter);
    CHECK(collective.dtype == reduce_);
    CHECK(operand.in.dtype() == reduce_);
    CHECK(collective.in_count == expected.size());
    CHECK(collective.out_count * static_cast<std::size_t>(world_) == expected.size());
    REQUIRE_FALSE(collective.reads.empty());
    CHECK(collective.reads.front().length == expected.size() * size_of(reduce_));
  }

  std::vector<const CapturedParameter*> of_group(const std::string& tag, int iteration) const {
    std::vector<const CapturedParameter*> members;
    for (const CapturedParameter& held : run_.captures().at(2 * static_cast<std::size_t>(iteration)).parameters) {
      if (is_at_or_under(held.name, tag)) members.push_back(&held);
    }
    return members;
  }

  const Run& run_;
  int world_;
  DType param_, reduce_;
  oracles::SerialIteration local_;
};

}  // namespace

RANKED_TEST_CASE("extensions/precision_on_the_wire", clauses("EXT-10", "EXT-20", "EXT-21", "EXT-22", "EXT-24"),
                 ranks(1, 2, 3, 4), more_ranks(5, 7, 8), each("param", "f32", "bf16", "f16"),
                 each("reduce", "none", "f32", "bf16", "f16"), each("reshard", false, true),
                 needs(Feature::timeline, Feature::mixed_precision)) {
  // Sums of products of numbers of 8 or 11 bits are exact in f32: they come out alike in any order, and so does what is
  // rounded afterwards. Eighths are as short in f32 too, but what a step makes of them is not.
  const MixedPrecision policy = policy_of(rank);
  const int iterations = policy.param == DType::f32 ? 1 : 2;
  Scenario scenario = uneven_layers(policy, rank.param<bool>("reshard"), iterations);
  scenario.script.keep_tensors = true;
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {}, Moves::some_parameter);
  check_sound(rank, run);
  check_kept_in_single_precision(rank, run);
  const Wire wire(rank, run);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    wire.check(rank, iteration);
    check_nothing_is_left(rank, run, iteration);
  }
}

RANKED_TEST_CASE("extensions/precision_of_parts", clauses("EXT-20", "EXT-24"), ranks(4), each("param", "bf16", "f16"),
                 needs(Feature::timeline, Feature::mixed_precision, FullyShardFeature::reshard_to_size)) {
  // Between forward and backward fewer ranks keep parts that are cast already. They are gathered in that dtype, too.
  const DType param = *dtype_named(rank.param("param"));
  Scenario scenario = uneven_layers({.param = param}, true, 2);
  for (WrapGroup& group : fully_shard_plan(scenario.plan).wrap) {
    group.reshard_after_forward = {.kind = ReshardAfterForward::Kind::size, .size = 2};
  }
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {}, Moves::some_parameter);
  check_sound(rank, run);
  const auto judged = rank.under("EXT-20");
  std::uint64_t kept = 0;
  for (const fact::Collective& call : run.iterations().front().collectives(ActionKind::backward)) {
    if (call.kind != CollectiveKind::all_gather) continue;
    CHECK(call.group.size() == 2);
    CHECK(call.dtype == param);
    kept += call.in_count * size_of(param);
  }
  const auto shards = [&run](bool end) {
    return trace::at(run.trace(), MemoryClass::shard, mark(0, ActionKind::forward, end));
  };
  CHECK(kept > 0);
  CHECK(shards(true).bytes - shards(false).bytes == kept);
}

RANKED_TEST_CASE("extensions/precision_with_adam", clauses("EXT-20", "EXT-22", "EXT-24"), ranks(1, 2, 3, 4),
                 more_ranks(5, 7, 8), each("param", "bf16", "f16"), needs(Feature::mixed_precision)) {
  // Moments and shards in f32. Their roots and quotients may differ in a last bit, which is no more than a step, and
  // very seldom one of bf16.
  Scenario scenario = uneven_layers({.param = dtype_named(rank.param("param"))}, true, 5);
  scenario.plan.optimizer = {.kind = OptimizerKind::adam, .rate = 1e-2};
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {.loss = 1e-5, .gradient = 1e-5, .parameter = 1e-6},
                 Moves::some_parameter);
  check_kept_in_single_precision(rank, run);
}

// Frozen parameters are gathered in the policy's dtype, and layers compute with them in it.
RANKED_TEST_CASE("extensions/frozen_under_a_policy", clauses("EXT-20", "EXT-24"), ranks(2, 3, 4),
                 each("frozen", "l0", "l1"), each("param", "bf16", "f16"),
                 needs(Feature::timeline, Feature::mixed_precision, Feature::module_groups)) {
  const DType param = *dtype_named(rank.param("param"));
  Scenario scenario = uneven_layers({.param = param, .reduce = DType::f32}, true, 3);
  for (Module& module : scenario.model.root.children) module.frozen = module.name == rank.param("frozen");
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {}, Moves::some_parameter);
  check_sound(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("EXT-20");
    for (const fact::Collective& call : iteration.collectives()) {
      if (call.kind == CollectiveKind::all_gather) CHECK(call.dtype == param);
    }
  }
}

}  // namespace shardproof::extensions
