// Copies of a model whose linear modules are divided among ranks. The undivided model, trained by one process on as
// many ranks as there are copies, gives the expected values.
#include <shardproof.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/oracles/serial_model.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/own_gradients.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/replicate.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/sum_over_ranks.hpp"
#include "suites/replicate/plans.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;

namespace {

constexpr std::int64_t input_features = 3, inner_features = 12, output_features = 5;

/// The world of a case, row-major: ranks of one row have parts of one copy, ranks of one column have the same part of
/// each copy.
struct Division {
  explicit Division(Rank& of) : index(of.index()), parts(of.param<int>("tp")), copies(of.world().size() / parts) {}

  int copy() const { return index / parts; }
  int part() const { return index % parts; }
  std::vector<int> row() const {
    std::vector<int> ranks;
    for (int each = 0; each < parts; ++each) ranks.push_back(copy() * parts + each);
    return ranks;
  }
  std::vector<int> column() const {
    std::vector<int> ranks;
    for (int each = 0; each < copies; ++each) ranks.push_back(each * parts + part());
    return ranks;
  }

  int index, parts, copies;
};

// The batch of a copy repeats one row, once for each copy. So gradients are multiples of that number, and their mean
// does not round. The row's numbers are small, so that values keep few bits: all are 1 or all -1, but for one that is 3
// or -3.
void give_inputs(Script& script, const Division& division) {
  script.input = {division.copies, input_features};
  for (int iteration = 0; iteration < iterations; ++iteration) {
    auto& by_copy = script.given.emplace_back();
    for (int copy = 0; copy < division.copies; ++copy) {
      const int sign = formula::small_integer(static_cast<std::uint32_t>(100 * iteration + copy), 0) < 0 ? -1 : 1;
      auto& values = by_copy.emplace_back();
      for (std::int64_t i = 0; i < numel(script.input); ++i)
        values.push_back(i % input_features == (iteration + copy) % input_features ? 3 * sign : sign);
    }
  }
}

// A pair is a column module and a row module, each with a ReLU after it: without, all copies would have the same
// gradients of biases. Three steps of one pair are exact. More pairs are exact until the first step, which then comes
// last. From the second backward on, each gradient has its own bucket.
Scenario divided_pairs(const Division& division, int pairs) {
  Scenario scenario;
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  std::int64_t in = input_features;
  for (int pair = 0; pair < pairs; ++pair) {
    const std::string up = "fc" + std::to_string(2 * pair + 1), down = "fc" + std::to_string(2 * pair + 2);
    std::vector<Module>& modules = scenario.model.root.children;
    modules.push_back({.name = up, .kind = ModuleKind::linear, .in_features = in, .out_features = inner_features});
    modules.push_back({.name = "relu" + std::to_string(2 * pair + 1), .kind = ModuleKind::relu});
    modules.push_back(
        {.name = down, .kind = ModuleKind::linear, .in_features = inner_features, .out_features = output_features});
    modules.push_back({.name = "relu" + std::to_string(2 * pair + 2), .kind = ModuleKind::relu});
    plan.tensor_parallel[up] = TensorParallel::column;
    plan.tensor_parallel[down] = TensorParallel::row;
    in = output_features;
  }
  // Then there is an undivided module, too, and a column module without a bias.
  if (pairs > 1) {
    scenario.model.root.children.push_back(
        {.name = "out", .kind = ModuleKind::linear, .in_features = in, .out_features = 2, .bias = false});
    scenario.model.root.children[4].bias = false;
  }
  plan.first_bucket_bytes = plan.bucket_bytes = 1;
  scenario.plan.mesh = {.shape = {division.copies, division.parts}, .names = {"dp", "tp"}};
  scenario.plan.optimizer.rate = 0.25;
  scenario.model.loss = {.kind = LossKind::dot};
  scenario.model.init_divisor = 1;
  give_inputs(scenario.script, division);
  if (pairs == 1) scenario.script.segments = {{.iterations = 3, .body = training()}};
  else scenario.script.segments = {{.iterations = 3, .body = gradients_only()}, {.iterations = 1, .body = training()}};
  return scenario;
}

Scenario undivided(const Scenario& scenario) {
  Scenario whole{.model = scenario.model, .script = scenario.script};
  whole.plan.optimizer = scenario.plan.optimizer;
  fully_shard_plan(whole.plan).wrap = {{.modules = {""}}};
  return whole;
}

// The rank holds the part that its place in the row says.
void check_part(const Scenario& scenario, const Division& division, const CapturedParameter& held) {
  const std::optional<int> dimension = divided_dimension(replicate_plan(scenario.plan), held.name);
  Shape expected = held.shape;
  if (dimension) {
    const std::int64_t extent = expected[static_cast<std::size_t>(*dimension)] /= division.parts;
    REQUIRE(held.dim == *dimension);
    REQUIRE(held.start == division.part() * extent);
  }
  REQUIRE(held.shard.defined());
  REQUIRE(held.shard.shape() == expected);
}

void check_as_undivided(Rank& rank, const Run& run, const Division& division) {
  const auto judged = rank.under("REP-30");
  const Scenario whole = undivided(run.scenario());
  require_exact_sums(whole, division.copies);
  const auto expected = oracles::train_serially(whole, division.copies, oracles::Arithmetic::f32);
  REQUIRE(run.captures().size() == expected.size());
  const std::vector<CapturedParameter>& first = run.captures().front().parameters;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("capture " << i);
    const Capture& captured = run.captures()[i];
    CHECK(captured.loss == expected[i].losses[static_cast<std::size_t>(division.copy())]);
    REQUIRE(captured.parameters.size() == expected[i].parameters.size());
    for (std::size_t p = 0; p < captured.parameters.size(); ++p) {
      const CapturedParameter& held = captured.parameters[p];
      INFO("parameter \"" << held.name << '"');
      REQUIRE(held.name == expected[i].parameters[p].name);
      REQUIRE(held.shape == expected[i].parameters[p].shape);
      check_part(run.scenario(), division, held);
      CHECK(held.shard == part(expected[i].parameters[p].tensor(), held));
      REQUIRE(held.gradient.defined());
      CHECK(held.gradient == part(expected[i].gradients[p].tensor(), held));
    }
  }
  // Steps move each parameter, and each copy's own gradients differ from the mean: so an engine that reduces nothing is
  // wrong.
  const std::vector<NamedGradient> own = own_gradients(run.scenario(), rank.index(), 0);
  for (std::size_t p = 0; p < first.size(); ++p) {
    INFO("parameter \"" << first[p].name << '"');
    CHECK(sum_over_ranks(rank, first[p].shard == run.captures().back().parameters[p].shard ? 0 : 1) > 0);
    if (division.copies > 1) CHECK(own[p].values != expected.front().gradients[p].values);
  }
}

/// The collectives of these ranks.
std::vector<fact::Collective> among(const std::vector<fact::Collective>& calls, const std::vector<int>& group) {
  std::vector<fact::Collective> found;
  std::ranges::copy_if(calls, std::back_inserter(found),
                       [&](const fact::Collective& call) { return call.group == group; });
  return found;
}

// In forward each row module sums its outputs, in backward each column module the gradient of its input, unless that is
// the model's input.
void check_sums_over_parts(const Rank& rank, const std::vector<fact::Collective>& calls, std::size_t count,
                           const std::vector<std::int64_t>& elements) {
  const auto judged = rank.under("REP-32");
  CHECK(calls.size() == count);
  std::vector<std::int64_t> found;
  for (const fact::Collective& call : calls) {
    CHECK(call.kind == CollectiveKind::all_reduce);
    CHECK(call.op == ReduceOp::sum);
    CHECK(call.dtype == DType::f32);
    found.push_back(static_cast<std::int64_t>(call.in_count));
  }
  CHECK(found == elements);
}

std::uint64_t elements_held(const Scenario& scenario, const Division& division) {
  std::uint64_t elements = 0;
  for (const ParameterShape& parameter : parameters(scenario.model)) {
    const int divisor = divided_dimension(replicate_plan(scenario.plan), parameter.name) ? division.parts : 1;
    elements += static_cast<std::uint64_t>(numel(parameter.shape) / divisor);
  }
  return elements;
}

void play_ddp_tp(Rank& rank) {
  const Division division(rank);
  const Run run = play_accepted(rank, divided_pairs(division, rank.param<int>("pairs")));
  check_as_undivided(rank, run, division);
  check_no_race(rank, run);
  check_same_order(rank, run);
  check_freed_memory(rank, run);
}

// In the plan, gradients are reduced among the ranks with the same part of each copy, and a module's values among those
// with parts of one copy.
void check_planned_groups(const StepGraph& graph, const Scenario& scenario, const Division& division,
                          std::size_t sums) {
  const auto& divided = replicate_plan(scenario.plan).tensor_parallel;
  std::size_t buckets = 0, found = 0;
  for (const StepNode& node : graph.nodes) {
    if (node.kind != StepNodeKind::all_reduce) continue;
    CAPTURE(node.label);
    const bool is_sum = divided.contains(node.label);
    ++(is_sum ? found : buckets);
    CHECK(node.op == ReduceOp::sum);
    CHECK(node.group == (is_sum ? division.row() : division.column()));
  }
  CHECK(found == (division.parts > 1 ? sums : 0));
  CHECK((buckets > 0) == (graph.pass == StepPass::backward));
}

void play_compiled_ddp_tp(Rank& rank) {
  const Division division(rank);
  Scenario scenario = divided_pairs(division, rank.param<int>("pairs"));
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.first_bucket_bytes = plan.bucket_bytes = 100;  // some buckets have several gradients
  plan.compile = CompilePlan{};
  const bool is_whole = rank.param("region") == to_string(CompiledRegion::forward_backward);
  if (!is_whole) plan.compile->region = CompiledRegion::backward;
  const Run run = play_accepted(rank, scenario);
  check_as_undivided(rank, run, division);
  check_equal(rank, run, play_accepted(rank, eager(scenario)));
  check_ran_as_planned(rank, run);
  const auto pairs = static_cast<std::size_t>(rank.param<int>("pairs"));
  for (const CompiledStep& step : run.compiled_steps()) {
    CAPTURE(step.iteration);
    const auto judged = rank.under("REP-41");
    CHECK(step.graphs->size() == (is_whole ? 2U : 1U));
    for (const StepGraph& graph : *step.graphs)
      check_planned_groups(graph, scenario, division, graph.pass == StepPass::forward ? pairs : pairs - 1);
  }
  check_no_race(rank, run);
  check_same_order(rank, run);
  check_freed_memory(rank, run);
}

void check_groups(Rank& rank, const Division& division, const Scenario& scenario) {
  const int pairs = rank.param<int>("pairs");
  const Run run = play_accepted(rank, scenario);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("REP-31");
    std::uint64_t reduced = 0;
    for (const fact::Collective& call : iteration.collectives()) {
      CAPTURE(call.tag);
      CHECK((call.group == division.row() || call.group == division.column()));
    }
    for (const fact::Collective& call : bucket_calls(iteration)) {
      CAPTURE(call.tag);
      CHECK(call.group == division.column());
      CHECK(call.kind == CollectiveKind::all_reduce);
      reduced += call.in_count;
    }
    CHECK(reduced == (division.copies > 1 ? elements_held(run.scenario(), division) : 0));
    const auto in_forward = static_cast<std::size_t>(division.parts > 1 ? pairs : 0);
    const auto in_backward = static_cast<std::size_t>(division.parts > 1 ? pairs - 1 : 0);
    check_sums_over_parts(rank, among(iteration.collectives(ActionKind::forward), division.row()), in_forward,
                          std::vector<std::int64_t>(in_forward, division.copies * output_features));
    check_sums_over_parts(rank, among(iteration.collectives(ActionKind::backward), division.row()), in_backward,
                          std::vector<std::int64_t>(in_backward, division.copies * output_features));
  }
}

void play_ddp_tp_groups(Rank& rank) {
  const Division division(rank);
  check_groups(rank, division, divided_pairs(division, rank.param<int>("pairs")));
}

void play_ddp_tp_memory(Rank& rank) {
  const Division division(rank);
  const Run run = play_accepted(rank, divided_pairs(division, 1));
  const std::uint64_t held = 4 * elements_held(run.scenario(), division);
  CHECK(run.peak(MemoryClass::parameter).bytes <= held);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK(iteration.live_after(MemoryClass::gradient, ActionKind::backward).bytes == held);
    CHECK(iteration.peak(MemoryClass::gradient).bytes <= held);
    CHECK(iteration.peak(MemoryClass::reduce_input).bytes <= held);
  }
  check_freed_memory(rank, run);
}

}  // namespace

// Two copies that are whole, and one that is divided.
RANKED_TEST_CASE("replicate/ddp_tp", clauses("REP-3", "REP-4", "REP-30", "REP-34"), ranks(2), each("step", "eager"),
                 each("tp", 1, 2), each("pairs", 1, 2), needs(Feature::timeline, ReplicateFeature::tensor_parallel)) {
  play_ddp_tp(rank);
}
// Two copies as in the seed, and two parts.
RANKED_TEST_CASE("replicate/ddp_tp", clauses("REP-3", "REP-4", "REP-30", "REP-34"), ranks(4), each("step", "eager"),
                 each("tp", 2), each("pairs", 1, 2), needs(Feature::timeline, ReplicateFeature::tensor_parallel),
                 seed("test_replicate_with_compiler.py::test_ddp_tp")) {
  play_ddp_tp(rank);
}
RANKED_TEST_CASE("replicate/ddp_tp", clauses("REP-3", "REP-4", "REP-30", "REP-34"), ranks(6), each("step", "eager"),
                 each("tp", 2, 3), each("pairs", 1, 2), needs(Feature::timeline, ReplicateFeature::tensor_parallel)) {
  play_ddp_tp(rank);
}
RANKED_TEST_CASE("replicate/ddp_tp", clauses("REP-3", "REP-4", "REP-30", "REP-34"), ranks(8), each("step", "eager"),
                 each("tp", 2, 4), each("pairs", 1, 2), needs(Feature::timeline, ReplicateFeature::tensor_parallel)) {
  play_ddp_tp(rank);
}

// Two copies that are whole, and one that is divided.
RANKED_TEST_CASE("replicate/ddp_tp_groups", clauses("REP-31", "REP-32"), ranks(2), each("tp", 1, 2),
                 each("pairs", 1, 2), needs(Feature::timeline, ReplicateFeature::tensor_parallel)) {
  play_ddp_tp_groups(rank);
}
RANKED_TEST_CASE("replicate/compiled_ddp_tp_groups", clauses("REP-31", "REP-32"), ranks(4), each("tp", 2),
                 each("pairs", 1, 2), each("region", "forward_backward", "backward"),
                 each("fusion", "concat", "coalesce"),
                 needs(Feature::timeline, ReplicateFeature::tensor_parallel, ReplicateFeature::compiled_step)) {
  const Division division(rank);
  Scenario scenario = divided_pairs(division, rank.param<int>("pairs"));
  replicate_plan(scenario.plan).compile = compile_plan(rank);
  check_groups(rank, division, scenario);
}
// Modules that are divided into one part are whole.
RANKED_TEST_CASE("replicate/ddp_tp", clauses("REP-3", "REP-4", "REP-30", "REP-34", "REP-40", "REP-41"), ranks(2),
                 each("step", "compiled"), each("tp", 1), each("pairs", 2),
                 each("region", "forward_backward", "backward"),
                 needs(Feature::timeline, ReplicateFeature::tensor_parallel, ReplicateFeature::compiled_step)) {
  play_compiled_ddp_tp(rank);
}
RANKED_TEST_CASE("replicate/ddp_tp", clauses("REP-3", "REP-4", "REP-30", "REP-34", "REP-40", "REP-41"), ranks(4),
                 each("step", "compiled"), each("tp", 2), each("pairs", 1, 2),
                 each("region", "forward_backward", "backward"),
                 needs(Feature::timeline, ReplicateFeature::tensor_parallel, ReplicateFeature::compiled_step),
                 seed("test_replicate_with_compiler.py::test_ddp_tp")) {
  play_compiled_ddp_tp(rank);
}
RANKED_TEST_CASE("replicate/ddp_tp", clauses("REP-3", "REP-4", "REP-30", "REP-34", "REP-40", "REP-41"), ranks(6),
                 each("step", "compiled"), each("tp", 2, 3), each("pairs", 1, 2),
                 each("region", "forward_backward", "backward"),
                 needs(Feature::timeline, ReplicateFeature::tensor_parallel, ReplicateFeature::compiled_step)) {
  play_compiled_ddp_tp(rank);
}
RANKED_TEST_CASE("replicate/ddp_tp", clauses("REP-3", "REP-4", "REP-30", "REP-34", "REP-40", "REP-41"), ranks(8),
                 each("step", "compiled"), each("tp", 2, 4), each("pairs", 1, 2),
                 each("region", "forward_backward", "backward"),
                 needs(Feature::timeline, ReplicateFeature::tensor_parallel, ReplicateFeature::compiled_step)) {
  play_compiled_ddp_tp(rank);
}

RANKED_TEST_CASE("replicate/ddp_tp_groups", clauses("REP-31", "REP-32"), ranks(4), each("tp", 2), each("pairs", 1, 2),
                 needs(Feature::timeline, ReplicateFeature::tensor_parallel)) {
  play_ddp_tp_groups(rank);
}
RANKED_TEST_CASE("replicate/ddp_tp_groups", clauses("REP-31", "REP-32"), ranks(6), each("tp", 2, 3),
                 each("pairs", 1, 2), needs(Feature::timeline, ReplicateFeature::tensor_parallel)) {
  play_ddp_tp_groups(rank);
}
RANKED_TEST_CASE("replicate/ddp_tp_groups", clauses("REP-31", "REP-32"), ranks(8), each("tp", 2, 4),
                 each("pairs", 1, 2), needs(Feature::timeline, ReplicateFeature::tensor_parallel)) {
  play_ddp_tp_groups(rank);
}

RANKED_TEST_CASE("replicate/ddp_tp_memory", clauses("REP-33"), ranks(4), each("tp", 2),
                 needs(Feature::timeline, ReplicateFeature::tensor_parallel)) {
  play_ddp_tp_memory(rank);
}
RANKED_TEST_CASE("replicate/ddp_tp_memory", clauses("REP-33"), ranks(6), each("tp", 2, 3),
                 needs(Feature::timeline, ReplicateFeature::tensor_parallel)) {
  play_ddp_tp_memory(rank);
}

namespace {

// Modules that do not fit: each list names two of them.
struct Misfit {
  std::vector<Module> modules;
  std::map<std::string, TensorParallel> divided;
  std::vector<std::string> culprits;
};

Module features(std::string name, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out};
}

Misfit misfit(const std::string& what) {
  constexpr auto column = TensorParallel::column, row = TensorParallel::row;
  const Module up = features("up", 4, 12), down = features("down", 12, 6), same = features("same", 4, 4);
  if (what == "row_of_whole") return {{up, down}, {{"down", row}}, {"\"down\"", "\"up\""}};
  if (what == "row_of_input") return {{same, up}, {{"same", row}}, {"\"same\"", "input"}};
  if (what == "linear_of_part") return {{up, down}, {{"up", column}}, {"\"down\"", "\"up\""}};
  if (what == "column_of_part") return {{up, down}, {{"up", column}, {"down", column}}, {"\"down\"", "\"up\""}};
  if (what == "scale_of_part")
    return {{up, {.name = "scale", .kind = ModuleKind::scale}, down},
            {{"up", column}, {"down", row}},
            {"\"scale\"", "\"up\""}};
  if (what == "loss_of_part") return {{up}, {{"up", column}}, {"loss", "\"up\""}};
  if (what == "discarded")
    return {{up, {.name = "aside", .kind = ModuleKind::discard, .children = {down}}},
            {{"aside.down", row}},
            {"\"aside.down\"", "\"up\""}};
  if (what == "residual")
    return {{same, {.name = "sum", .kind = ModuleKind::residual, .children = {features("part", 4, 4)}}},
            {{"sum.part", column}},
            {"\"same\"", "\"sum.part\""}};
  return {{{.name = "way", .kind = ModuleKind::choice, .children = {features("whole", 4, 12), features("part", 4, 12)}},
           down},
          {{"way.part", column}, {"down", row}},
          {"\"way.whole\"", "\"way.part\""}};
}

}  // namespace

RANKED_TEST_CASE("replicate/ddp_tp_refused", clauses("REP-35"), ranks(2, 4), also_with_discarded_module(),
                 each("what", "row_of_whole", "row_of_input", "linear_of_part", "column_of_part", "scale_of_part",
                      "loss_of_part", "discarded", "residual", "choice"),
                 needs(ReplicateFeature::tensor_parallel), needs_if("what", "choice", Feature::module_groups),
                 needs_if("what", "discarded", Feature::module_groups),
                 needs_if("what", "residual", Feature::module_groups),
                 needs_if("what", "scale_of_part", Feature::module_groups)) {
  Scenario scenario;
  Misfit modules = misfit(rank.param("what"));
  scenario.model.root.children = std::move(modules.modules);
  replicate_plan(scenario.plan).tensor_parallel = std::move(modules.divided);
  scenario.plan.mesh = {.shape = {rank.world().size() / 2, 2}, .names = {"dp", "tp"}};
  scenario.script.input = {2, 4};
  scenario.script.segments = {{.body = training()}};
  check_refused_or_unsupported(rank, scenario, "create", modules.culprits);
}

}  // namespace shardproof::replicate
