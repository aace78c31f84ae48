// Does an engine with flat parameters send the right elements, at the right places?
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "fixtures/oracles/divide_factors.hpp"
#include "fixtures/oracles/rounding.hpp"
#include "suites/checks/flat_shard.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/flat_chain.hpp"

namespace shardproof::overlap {

using namespace suites;

using oracles::FlatUnit;
using Values = std::vector<std::vector<double>>;  // by parameter

namespace {

// No step: parameters keep the values of the formula. The player takes no copy of them.
Scenario sending(Rank& rank) {
  Scenario scenario =
      flat_chain(strategy(rank), {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::zero_grad}});
  flat_shard_plan(scenario.plan).use_orig_params = rank.param<bool>("orig");
  scenario.plan.mixed_precision.param = dtype_of(rank, "param");
  scenario.script.keep_tensors = true;
  return scenario;
}

Values initial_values(const Scenario& scenario) {
  Values values;
  for (const ParameterShape& parameter : parameters(scenario.model)) {
    values.push_back(initial_value(scenario.model, values.size(), 0, parameter.shape).to_doubles());
  }
  return values;
}

double padding_of_parameters(FlatUnit::Content content) { return content == FlatUnit::Content::marked ? 42 : 0; }

std::vector<double> part_in(DType dtype, const FlatUnit& unit, const Values& values, std::size_t member) {
  std::vector<double> part;
  for (std::size_t i = member * unit.part(); i < (member + 1) * unit.part(); ++i) {
    const FlatUnit::Element& element = unit.elements[i];
    const bool is_value = element.content == FlatUnit::Content::value;
    part.push_back(is_value ? oracles::rounded_to(dtype, values[element.parameter][element.index])
                            : padding_of_parameters(element.content));
  }
  return part;
}

// A rank's summand for the gradient of a whole unit: divided by a first factor, and zero in padding.
std::vector<double> summand_in(DType dtype, const FlatUnit& unit, const Values& gradients, int world) {
  std::vector<double> whole;
  for (const FlatUnit::Element& element : unit.elements) {
    const double value = element.content == FlatUnit::Content::value ? gradients[element.parameter][element.index] : 0;
    whole.push_back(oracles::rounded_to(dtype, oracles::rounded_to(dtype, value) / oracles::divide_factors(world).pre));
  }
  return whole;
}

const FlatUnit& unit_of(const std::vector<FlatUnit>& units, const OnWire& wire) {
  const auto unit = std::ranges::find(units, wire.call.tag, &FlatUnit::name);
  REQUIRE(unit != units.end());
  return *unit;
}

StreamRole role_of(const Run& run, const fact::Collective& call) { return streams(run.trace()).at(call.stream).role; }

void check_gathers(Rank& rank, const Run& run, const std::vector<FlatUnit>& units, int iteration) {
  const DType dtype = run.scenario().plan.mixed_precision.param.value_or(DType::f32);
  std::set<std::string> gathered;
  for (const OnWire& wire : gathers_on_wire(run, iteration)) {
    CAPTURE(iteration, wire.call.tag);
    const FlatUnit& unit = unit_of(units, wire);
    const auto member =
        static_cast<std::size_t>(std::ranges::find(wire.call.group, rank.index()) - wire.call.group.begin());
    gathered.insert(unit.name);
    REQUIRE(std::cmp_equal(wire.call.group.size(), unit.ranks));
    CHECK(wire.call.dtype == dtype);
    CHECK(wire.call.in_count == unit.part());
    CHECK(wire.call.out_count == unit.elements.size());
    CHECK(role_of(run, wire.call) == StreamRole::all_gather);
    CHECK(wire.operand.in.to_doubles() == part_in(dtype, unit, initial_values(run.scenario()), member));
  }
  CHECK(gathered.size() == (units.front().ranks > 1 ? units.size() : 0));
}

void check_reductions(Rank& rank, const Run& run, const std::vector<FlatUnit>& units, int iteration, DType dtype) {
  const Values gradients = own_gradients(run.scenario(), rank.index(), iteration);
  std::vector<std::string> reduced, expected;
  for (const FlatUnit& unit : units) expected.push_back(unit.name);
  for (const OnWire& wire : reductions_on_wire(run, iteration)) {
    CAPTURE(iteration, wire.call.tag, to_string(wire.call.kind));
    const FlatUnit& unit = unit_of(units, wire);
    CHECK(wire.call.dtype == dtype);
    const bool is_among_copies = unit.ranks > 1 && wire.call.kind == CollectiveKind::all_reduce;
    CHECK(role_of(run, wire.call) == (is_among_copies ? StreamRole::all_reduce : StreamRole::reduce));
    if (is_among_copies) {
      CHECK(wire.call.in_count == unit.part());
      continue;
    }
    reduced.push_back(unit.name);
    CHECK(wire.call.in_count == unit.elements.size());
    CHECK(wire.call.out_count == unit.part());
    CHECK(wire.operand.in.to_doubles() == summand_in(dtype, unit, gradients, rank.world().size()));
  }
  CHECK(reduced == expected);
}

// Before training an engine fills its parts, and does nothing else. A snapshot is work of an observer, and no engine's.
void check_creation(const Run& run) {
  std::size_t pieces = 0;
  for (const Fact& fact : run.trace().facts) {
    if (std::holds_alternative<fact::Mark>(fact)) break;
    const auto* const work = std::get_if<fact::Work>(&fact);
    if (work == nullptr) continue;
    CAPTURE(work->label);
    CHECK(work->kind == WorkKind::fill);
    ++pieces;
  }
  CHECK(pieces > 0);
}

// A part is cast before each gather, and for no other reason.
void check_casts(const Run& run, const Iteration& iteration) {
  const auto streams = shardproof::streams(run.trace());
  std::vector<std::string> cast, gathered;
  for (const Fact& fact : iteration.facts()) {
    if (const auto* call = std::get_if<fact::Collective>(&fact);
        call != nullptr && call->kind == CollectiveKind::all_gather)
      gathered.push_back(call->tag);
    const auto* const work = std::get_if<fact::Work>(&fact);
    if (work == nullptr || streams.at(work->stream).role != StreamRole::copy_in) continue;
    CHECK(work->kind == WorkKind::copy_in);
    cast.push_back(work->label);
  }
  const bool casts = run.scenario().plan.mixed_precision.param.value_or(DType::f32) != DType::f32;
  if (!casts) CHECK(cast.empty());
  else if (flat_shard_plan(run.scenario().plan).strategy == ShardStrategy::no_shard) CHECK(cast.size() == 2 * 4);
  else CHECK(cast == gathered);
}

// The gradients of each unit are packed where they are computed. They are divided and delivered on the reduction's own
// stream.
void check_reducing_work(const Run& run, const std::vector<FlatUnit>& units, const Iteration& iteration) {
  const auto streams = shardproof::streams(run.trace());
  std::set<std::string> packed;
  std::size_t after = 0;
  for (const Fact& fact : iteration.facts()) {
    const auto* const work = std::get_if<fact::Work>(&fact);
    if (work == nullptr || work->kind == WorkKind::snapshot) continue;
    const StreamRole role = streams.at(work->stream).role;
    if (role == StreamRole::compute && work->kind == WorkKind::reduce_copy_in) packed.insert(work->label);
    if (role != StreamRole::reduce && role != StreamRole::all_reduce) continue;
    CAPTURE(iteration.index(), work->label);
    CHECK((work->kind == WorkKind::reduce_copy_in || work->kind == WorkKind::reduce_copy_out));
    if (work->kind == WorkKind::reduce_copy_out) ++after;
  }
  CHECK(packed.size() == units.size());
  CHECK(after > 0);
}

void check_layout(Rank& rank) {
  const Run run = play_accepted(rank, sending(rank));
  const std::vector<FlatUnit> units = oracles::flat_units(run.scenario(), rank.world().size());
  check_creation(run);
  for (const Iteration& iteration : steady_iterations(run)) {
    check_gathers(rank, run, units, iteration.index());
    // Without its own dtype a reduction has the dtype of the parameters.
    check_reductions(rank, run, units, iteration.index(),
                     run.scenario().plan.mixed_precision.param.value_or(DType::f32));
    check_casts(run, iteration);
    check_reducing_work(run, units, iteration);
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/flat_layout", clauses("OVL-34"), ranks(2, 3, 4), more_ranks(5, 7, 8),
                 also_with_discarded_module(), on_engines("flat_shard"), each("strategy", "full_shard", "no_shard"),
                 each("orig", false, true), each("param", "f32", "bf16"),
                 needs(Feature::timeline, Feature::mixed_precision),
                 needs_if("orig", true, FlatShardFeature::orig_params), tags("reference")) {
  check_layout(rank);
}

RANKED_TEST_CASE("overlap/flat_layout_of_copies", clauses("OVL-34"), ranks(4), also_with_discarded_module(),
                 on_engines("flat_shard"), each("strategy", "hybrid"), each("orig", false, true), each("param", "f32"),
                 needs(Feature::timeline, Feature::replicated_mesh, Feature::mixed_precision),
                 needs_if("orig", true, FlatShardFeature::orig_params), tags("reference")) {
  check_layout(rank);
}

RANKED_TEST_CASE("overlap/flat_layout_compressed", clauses("OVL-34"), ranks(2, 3), more_ranks(4, 5, 7, 8),
                 on_engines("flat_shard"), each("strategy", "full_shard", "no_shard"), each("orig", false, true),
                 each("param", "none"), needs(Feature::timeline, FlatShardFeature::compressing_hooks),
                 needs_if("orig", true, FlatShardFeature::orig_params), tags("reference")) {
  Scenario scenario = sending(rank);
  const Action registration{.kind = ActionKind::register_hook, .hook = Hook{.kind = HookKind::fp16_compress}};
  scenario.script.segments.insert(scenario.script.segments.begin(), {.body = {registration}});
  const Run run = play_accepted(rank, std::move(scenario));
  const std::vector<FlatUnit> units = oracles::flat_units(run.scenario(), rank.world().size());
  for (const Iteration& iteration : steady_iterations(run)) {
    if (iteration.index() == 0) continue;  // the registration
    check_gathers(rank, run, units, iteration.index());
    check_reductions(rank, run, units, iteration.index(), DType::f16);
    check_reducing_work(run, units, iteration);
  }
}

// Wherever an engine puts an element: each of this rank's gradients is there once, and all other elements are zero.
RANKED_TEST_CASE("overlap/flat_summands", clauses("OVL-43"), ranks(2, 3), more_ranks(4, 5, 7, 8),
                 on_engines("flat_shard"), each("strategy", "full_shard", "no_shard"), each("orig", false, true),
                 each("param", "f32", "bf16"), needs(Feature::timeline, Feature::mixed_precision),
                 needs_if("orig", true, FlatShardFeature::orig_params)) {
  const int world = rank.world().size();
  const Run run = play_accepted(rank, sending(rank));
  const DType dtype = run.scenario().plan.mixed_precision.param.value_or(DType::f32);
  for (const Iteration& iteration : steady_iterations(run)) {
    const Values gradients = own_gradients(run.scenario(), rank.index(), iteration.index());
    const std::vector<OnWire> wires = reductions_on_wire(run, iteration.index());
    CHECK(wires.size() == 4);
    for (const OnWire& wire : wires) {
      CAPTURE(iteration.index(), wire.call.tag);
      std::vector<double> expected;
      for (std::size_t i = 0; const ParameterShape& parameter : parameters(run.scenario().model)) {
        const std::string* const unit = flat_shard_plan(run.scenario().plan).unit_of(parameter.name);
        const std::vector<double>& values = gradients.at(i++);
        if (unit == nullptr || *unit != wire.call.tag) continue;
        expected.insert(expected.end(), values.begin(), values.end());
      }
      REQUIRE(wire.call.in_count >= expected.size());
      expected.resize(wire.call.in_count, 0);
      std::vector<double> sent = wire.operand.in.to_doubles();
      std::ranges::sort(expected);
      std::ranges::sort(sent);
      // An engine divides by some factor before the sum, and by the rest after it.
      const auto divided_by = [&](double factor) {
        std::vector<double> divided;
        for (const double value : expected)
          divided.push_back(oracles::rounded_to(dtype, oracles::rounded_to(dtype, value) / factor));
        return divided;
      };
      const bool is_whole = sent == divided_by(1), is_mean = sent == divided_by(world);
      CHECK(sent == divided_by(is_whole ? 1 : is_mean ? world : oracles::divide_factors(world).pre));
      CHECK((expected.front() != 0 || expected.back() != 0));
    }
  }
}

}  // namespace shardproof::overlap
