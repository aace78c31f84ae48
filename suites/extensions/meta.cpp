// Parameters that are meta: no memory at first, and nothing that shows it afterwards.
#include <string>
#include <vector>

#include "harness/player/play.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/trace/memory.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/exact_inputs.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/extensions/meta.hpp"
#include "suites/extensions/precision_scenarios.hpp"
#include "suites/extensions/scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

namespace {

// No group holds the last layer: its parameters are whole on every rank, and meta like all others. On integers and
// one-hot inputs three iterations are exact, except where the mean rounds.
Scenario partly_wrapped(Initialisation initialisation, bool reshard, int iterations,
                        const std::vector<Action>& before) {
  Scenario scenario = uneven_layers({}, reshard, iterations - 1);
  scenario.model.init_divisor = 1;
  scenario.model.loss.dot_seed = 6;  // gradients from -4 to 3
  give_one_hot_inputs(scenario.script);
  scenario.plan.initialisation = initialisation;
  fully_shard_plan(scenario.plan)
      .wrap.erase(fully_shard_plan(scenario.plan).wrap.begin() + 1, fully_shard_plan(scenario.plan).wrap.end());
  auto& segments = scenario.script.segments;
  segments.insert(segments.begin(), {.body = segments.front().body});
  segments.front().iterations = 1;
  if (iterations == 1) segments.pop_back();
  segments.front().body.insert(segments.front().body.begin(), before.begin(), before.end());
  return scenario;
}

Action memory_for(std::string module) { return {.kind = ActionKind::materialize, .module = std::move(module)}; }
Action values_for(std::string module) { return {.kind = ActionKind::initialize, .module = std::move(module)}; }

// Materializes at once, or part by part in another order. A second call for the same part repeats it.
std::vector<Action> making(const std::string& how) {
  if (how == "whole") return {memory_for(""), values_for("")};
  return {memory_for("l1"), values_for("l1"), memory_for("l0"), values_for("l0"), values_for("")};
}

}  // namespace

void check_materialized_by(const Rank& rank, const Run& run, ActionKind call) {
  const auto judged = rank.under("EXT-30");
  for (const MemoryClass memory : {MemoryClass::shard, MemoryClass::parameter}) {
    CAPTURE(to_string(memory));
    CHECK(trace::at(run.trace(), memory, mark(0, call)).bytes == 0);
  }
  CHECK(trace::at(run.trace(), MemoryClass::shard, mark(0, call, true)).bytes > 0);
}

RANKED_TEST_CASE("extensions/meta_as_direct", clauses("EXT-30"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 each("how", "parts", "whole"), each("reshard", false, true),
                 needs(Feature::timeline, Feature::meta_initialisation)) {
  const bool reshard = rank.param<bool>("reshard");
  const int iterations = mean_rounds(rank) ? 1 : 3;
  const Run run =
      play_accepted(rank, partly_wrapped(Initialisation::meta, reshard, iterations, making(rank.param("how"))));
  // Before the call, parameters have no memory, and no work has run.
  const std::string begin = mark(0, ActionKind::materialize);
  for (const MemoryClass memory : {MemoryClass::shard, MemoryClass::parameter}) {
    CAPTURE(to_string(memory));
    CHECK(trace::at(run.trace(), memory, begin).bytes == 0);
  }
  const int calls = rank.param("how") == "whole" ? 1 : 2;
  const std::string end = mark(0, ActionKind::materialize, true, calls);
  const std::int64_t rows = (7 + rank.world().size() - 1) / rank.world().size();
  CHECK(trace::at(run.trace(), MemoryClass::shard, end).bytes ==
        static_cast<std::uint64_t>(rows) * 5 * size_of(DType::f32));
  CHECK(trace::at(run.trace(), MemoryClass::parameter, end).bytes == 40 * size_of(DType::f32));

  const Run direct = play(rank, partly_wrapped(Initialisation::direct, reshard, iterations, {}));
  check_same_training(rank, run, direct);
  check_training(rank, run, oracles::Arithmetic::f32, {}, Moves::some_parameter);
  check_sound(rank, run);
}

RANKED_TEST_CASE("extensions/meta", clauses("EXT-30"), ranks(1, 2, 3, 4), each("kind", "plain", "two_tensor"),
                 needs(Feature::all_gather_extensions, Feature::meta_initialisation)) {
  // The bits must be the same as without meta, module by module, and in another order than registration.
  const bool is_pair = rank.param("kind") == "two_tensor";
  const TensorKind kind = is_pair ? TensorKind::two_tensor : TensorKind::plain;
  Scenario direct = layers({kind, TensorKind::plain}, {}), meta = direct;
  meta.plan.initialisation = Initialisation::meta;
  std::vector<Action> before{{ActionKind::materialize},
                             {.kind = ActionKind::initialize, .module = "l1"},
                             {.kind = ActionKind::initialize, .module = "l0"}};
  std::vector<Action> extension;
  if (is_pair) extension = {extend(kind, ExtensionKind::components)};
  const int iterations = mean_rounds(rank) ? 1 : 2;  // exact
  train(direct, iterations, extension);
  before.insert(before.begin(), extension.begin(), extension.end());
  train(meta, iterations, before);
  const Run run = play_accepted(rank, meta), expected = play_accepted(rank, direct);
  check_materialized_by(rank, run, ActionKind::materialize);
  check_training(rank, run, oracles::Arithmetic::f32, {});
  check_same_training(rank, run, expected);
}

RANKED_TEST_CASE("extensions/still_meta", clauses("EXT-31"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 also_with_discarded_module(), each("what", "all", "wrapped", "unwrapped"),
                 needs(Feature::meta_initialisation)) {
  const std::string& what = rank.param("what");
  std::vector<Action> before;
  if (what == "wrapped") before = {memory_for("l1"), values_for("l1")};
  if (what == "unwrapped") before = {memory_for("l0"), values_for("l0")};
  std::vector<std::string> meta, there;
  for (const char* parameter : {"l0.weight", "l0.bias", "l1.weight", "l1.bias"}) {
    const bool has_memory = !before.empty() && is_at_or_under(parameter, before.front().module);
    (has_memory ? there : meta).emplace_back(parameter);
  }
  const Scenario scenario = partly_wrapped(Initialisation::meta, true, 3, before);
  check_refused(rank, scenario, "forward", meta);
  const auto refused = refusal(rank, scenario);
  REQUIRE(refused);
  for (const std::string& parameter : there) CHECK(refused->reason().find(parameter) == std::string::npos);
  CHECK_FALSE(refusal(rank, partly_wrapped(Initialisation::meta, true, 3, making("parts"))));
}

}  // namespace shardproof::extensions
