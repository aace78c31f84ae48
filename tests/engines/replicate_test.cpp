// The engine that replicates parameters against the serial model, over models, scripts, world sizes and options, and
// against what PyTorch's DistributedDataParallel computed.
#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "fixtures/oracles/bucket_times.hpp"
#include "fixtures/oracles/difference.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "suites/checks/replicate.hpp"
#include "tests/engines/flat_scenarios.hpp"
#include "tests/golden_tables/golden_tables.hpp"
#include "tests/oracles/replicate_golden.hpp"
#include "tests/rounds.hpp"

using namespace shardproof;
using namespace shardproof::scenario;
using namespace shardproof::testing;
namespace golden = shardproof::oracles::golden;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

// -- Models

Scenario replicated(std::vector<Module> children) {
  Scenario scenario = flat_scenario(std::move(children), {});
  scenario.plan.engine = {};
  replicate_plan(scenario.plan).first_bucket_bytes = 16;
  replicate_plan(scenario.plan).bucket_bytes = 64;
  return scenario;
}

Scenario nested() {
  return replicated({layer("a", 3, 5), activation("relu"),
                     holder(ModuleKind::sequential, "b", {layer("in", 5, 4), layer("out", 4, 5, false)}),
                     layer("c", 5, 2)});
}

Scenario frozen_between() {
  Scenario scenario = replicated({layer("a", 3, 4), layer("b", 4, 4), layer("c", 4, 3), layer("d", 3, 2)});
  scenario.model.root.children[0].frozen = scenario.model.root.children[2].frozen = true;
  return scenario;
}

Scenario shared() {
  Scenario scenario = replicated({layer("a", 3, 3), activation("relu"), layer("b", 3, 3), layer("c", 3, 2)});
  scenario.model.root.children[2].tied_to = "a";
  return scenario;
}

Scenario used_twice() {
  return replicated({layer("a", 3, 3),
                     activation("relu"),
                     layer("b", 3, 3),
                     {.name = "again", .kind = ModuleKind::use, .target = "a"},
                     layer("c", 3, 2)});
}

Scenario scaled() {
  return replicated({layer("a", 3, 3),
                     {.name = "s", .kind = ModuleKind::scale},
                     holder(ModuleKind::residual, "r", {layer("in", 3, 2), layer("out", 2, 3)}),
                     layer("b", 3, 2)});
}

// Models that leave out parameters.
Scenario with_ways() {
  Scenario scenario = replicated({layer("a", 3, 4),
                                  holder(ModuleKind::choice, "way", {layer("left", 4, 4), layer("right", 4, 4, false)}),
                                  layer("b", 4, 2)});
  replicate_plan(scenario.plan).unused_parameters = true;
  return scenario;
}

Scenario with_unused() {
  Scenario scenario =
      replicated({layer("a", 3, 4), holder(ModuleKind::discard, "aside", {layer("x", 4, 3)}),
                  holder(ModuleKind::residual, "b", {layer("in", 4, 3), layer("out", 3, 4)}), layer("c", 4, 2)});
  replicate_plan(scenario.plan).unused_parameters = true;
  return scenario;
}

struct ReplicatedModel {
  const char* name;
  Scenario (*make)();
};

constexpr std::array replicated_models{
    ReplicatedModel{"nested", nested},          ReplicatedModel{"frozen_between", frozen_between},
    ReplicatedModel{"shared", shared},          ReplicatedModel{"used_twice", used_twice},
    ReplicatedModel{"scaled", scaled},          ReplicatedModel{"with_ways", with_ways},
    ReplicatedModel{"with_unused", with_unused}};

// -- Scripts

const Action forward{ActionKind::forward}, backward{ActionKind::backward}, step{ActionKind::step},
    capture{ActionKind::capture}, zero_grad{ActionKind::zero_grad}, evaluate{ActionKind::evaluate},
    to_zero{.kind = ActionKind::zero_grad, .to_zero = true};

Action on_other_way(const Model& model, Action action = forward) {
  if (find(model, "way") != nullptr) action.paths = {{"way", "right"}};
  return action;
}

using Segments = std::vector<Script::Segment>;

Segments plain(const Model&, int /*world*/) { return {{3, {forward, backward, capture, step, capture, zero_grad}}}; }

Segments accumulating(const Model& model, int /*world*/) {
  return {{2,
           {sync(false), forward, backward, capture, on_other_way(model), backward, capture, sync(true), forward,
            backward, capture, step, capture, zero_grad}}};
}

// Each backward adds to what was reduced before.
Segments without_zero_grad(const Model& model, int /*world*/) {
  return {{1, {forward, backward, capture}},
          {2, {forward, backward, capture, sync(false), on_other_way(model), backward, capture, sync(true)}},
          {1, {on_other_way(model), backward, capture, step, capture}}};
}

Segments two_forwards(const Model& model, int /*world*/) {
  return {{2, {forward, on_other_way(model), backward, capture, step, zero_grad}},
          {1, {sync(false), forward, sync(true), on_other_way(model), backward, capture, zero_grad}},
          {1, {forward, sync(false), on_other_way(model), backward, capture}}};
}

Segments zeroed(const Model& model, int /*world*/) {
  return {{2, {to_zero, forward, backward, capture, to_zero, capture, on_other_way(model), backward, step, capture}}};
}

Segments evaluated(const Model& model, int /*world*/) {
  return {{2, {evaluate, forward, evaluate, backward, capture, step, on_other_way(model, evaluate), zero_grad}}};
}

Segments failed(const Model& model, int /*world*/) {
  Action fails = forward, fails_elsewhere = on_other_way(model);
  fails.fails_in = model.root.children.back().name;
  fails_elsewhere.fails_in = model.root.children[1].name;
  return {{2, {fails, forward, fails_elsewhere, backward, capture, step, zero_grad}},
          {1, {sync(false), forward, sync(true), fails, backward, capture, forward, backward, capture}}};
}

// Ranks go different ways, where there are any.
Segments divided_ways(const Model& model, int world) {
  Action first = forward, others = on_other_way(model);
  first.ranks = {0};
  for (int rank = 1; rank < world; ++rank) others.ranks.push_back(rank);
  if (world == 1) return {{3, {first, backward, capture, step, zero_grad}}};
  return {{3, {first, others, backward, capture, step, zero_grad}}};
}

struct ReplicatedScript {
  const char* name;
  Segments (*make)(const Model& model, int world);
};

constexpr std::array replicated_scripts{ReplicatedScript{"plain", plain},
                                        ReplicatedScript{"accumulating", accumulating},
                                        ReplicatedScript{"without_zero_grad", without_zero_grad},
                                        ReplicatedScript{"two_forwards", two_forwards},
                                        ReplicatedScript{"zeroed", zeroed},
                                        ReplicatedScript{"evaluated", evaluated},
                                        ReplicatedScript{"failed", failed},
                                        ReplicatedScript{"divided_ways", divided_ways}};

constexpr std::array<std::optional<HookKind>, 6> hook_kinds{
    std::nullopt, HookKind::plain, HookKind::sum, HookKind::doubled, HookKind::fp16_compress, HookKind::bf16_compress};

void add_hook(Scenario& scenario, HookKind kind) {
  scenario.script.segments.insert(scenario.script.segments.begin(),
                                  {1, {{.kind = ActionKind::register_hook, .hook = Hook{.kind = kind}}}});
}

// -- What each run owes

struct Started {
  std::string tag;
  std::uint64_t elements = 0;
  friend bool operator==(const Started&, const Started&) = default;
};

std::vector<Started> planned_buckets(const Scenario& scenario) {
  suites::BucketCalls calls(scenario);
  std::vector<Started> all;
  for (const Script::Segment& segment : scenario.script.segments) {
    for (int i = 0; i < segment.iterations; ++i) {
      for (const Action& action : segment.body) {
        calls.make(action);
        for (std::size_t index = 0; index < calls.reduced().size(); ++index) {
          const oracles::Bucket& bucket = calls.reduced()[index];
          all.push_back({bucket_tag(index),
                         static_cast<std::uint64_t>(oracles::bytes_of(bucket)) / size_of(bucket.front().dtype)});
        }
      }
    }
  }
  return all;
}

std::vector<Started> started_buckets(const Run& run) {
  std::vector<Started> all;
  for (const Fact& fact : run.trace().facts) {
    const auto* const call = std::get_if<fact::Collective>(&fact);
    if (call == nullptr || suites::replicate_checks().is_agreement(*call)) continue;
    CHECK(call->kind == CollectiveKind::all_reduce);
    all.push_back({call->tag, call->in_count});
  }
  return all;
}

// Every other module is low. Modules that share a weight are alike.
std::map<std::string, DType> low_modules(const Model& model) {
  std::map<std::string, DType> dtypes;
  std::size_t number = 0;
  visit(model.root, "", [&](const Module& module, const std::string& path) {
    if (has_parameters(module.kind) && module.tied_to.empty() && number++ % 2 == 1)
      dtypes[path] = number % 4 == 0 ? DType::f16 : DType::bf16;
  });
  visit(model.root, "", [&](const Module& module, const std::string& path) {
    if (const auto owner = dtypes.find(module.tied_to); owner != dtypes.end()) dtypes[path] = owner->second;
  });
  return dtypes;
}

/// No race, nothing alive at the end, the buckets of the closed form, and the values of the serial model. The result:
/// how many captures were compared in double precision, too.
std::size_t check_replicated_run(const Scenario& scenario, int ranks) {
  validate(scenario);
  const std::vector<Run> runs = played(scenario, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Run& run = runs[static_cast<std::size_t>(rank)];
    CAPTURE(rank);
    for (const trace::Race& race : run.races()) FAIL_CHECK(trace::describe(race));
    CHECK(run.left_alive() == 0);
    suites::replicate_checks().check_nothing_gathered_twice(run);
    suites::replicate_checks().check_memory(run, ranks, suites::MemoryCheck::nothing_left);
    if (ranks > 1 && !replicate_plan(scenario.plan).compile &&
        suites::replicate_checks().plans(scenario, ranks) == suites::Plans::exactly)
      CHECK(started_buckets(run) == planned_buckets(scenario));
  }
  check_exact(scenario, runs, oracles::Arithmetic::f32);
  if (!std::has_single_bit(static_cast<unsigned>(ranks))) return 0;
  const auto in_single = oracles::train_serially(scenario, ranks, oracles::Arithmetic::f32);
  const auto exact = static_cast<std::size_t>(
      std::ranges::count_if(in_single, &std::string::empty, &oracles::SerialIteration::order_shows));
  if (exact > 0) check_exact(scenario, runs, oracles::Arithmetic::f64, exact);
  return exact;
}

constexpr std::array<std::int64_t, 4> limits{1, 16, 64, 26'214'400};

/// Plays each model with each script, hook and world size; of these, every `stride`-th.
void check_replicated_product(std::size_t stride) {
  std::size_t at = 0, plays = 0, exact = 0;
  for (const ReplicatedModel& model : replicated_models) {
    for (const ReplicatedScript& script : replicated_scripts) {
      for (const std::optional<HookKind>& hook : hook_kinds) {
        for (const int world : {1, 2, 3, 4, 5}) {
          for (const BucketGradients gradients : {BucketGradients::copies, BucketGradients::views}) {
            const std::size_t number = at++;
            if (number % stride != 0) continue;
            Scenario scenario = model.make();
            scenario.script.segments = script.make(scenario.model, world);
            if (hook) add_hook(scenario, *hook);
            ReplicatePlan& section = replicate_plan(scenario.plan);
            if (number / stride % 3 == 0) section.parameter_dtypes = low_modules(scenario.model);
            section.gradients = gradients;
            section.first_bucket_bytes = limits[number / 3 % limits.size()];
            section.bucket_bytes = limits[number / 7 % limits.size()];
            CAPTURE(model.name, script.name, hook ? to_string(*hook) : "no hook", world, to_string(gradients),
                    section.first_bucket_bytes, section.bucket_bytes, section.parameter_dtypes.size());
            ++plays;
            exact += check_replicated_run(scenario, world);
          }
        }
      }
    }
  }
  CAPTURE(plays, exact);
  CHECK(exact > plays / 3);
}

}  // namespace

TEST_CASE("replicated parameters train as PyTorch's, with hooks that compress and without synchronisation") {
  for (const std::string& file : oracles::replicate_files()) {
    const golden::Values values = golden::values(file);
    const std::vector<Run> runs = played(oracles::replicate_golden(file, values), values.world);
    for (std::size_t rank = 0; rank < runs.size(); ++rank) {
      CAPTURE(file, rank);
      std::size_t at = 0;
      if (values.unreduced) {
        const Capture& own = runs[rank].captures().at(at++);
        CHECK(std::abs(own.loss - static_cast<double>(values.unreduced->losses.at(rank))) <= 1e-7);
        for (std::size_t p = 0; p < own.parameters.size(); ++p) {
          const double difference =
              oracles::largest_difference(own.parameters[p].gradient, values.unreduced->of_first_rank.at(p));
          CHECK((difference == 0) == (rank == 0));
        }
      }
      for (const golden::Iteration& expected : values.iterations) {
        const Capture& captured = runs[rank].captures().at(at++);
        CHECK(std::abs(captured.loss - static_cast<double>(expected.losses.at(rank))) <= expected.tolerance.loss);
        REQUIRE(captured.parameters.size() == expected.parameters.size());
        for (std::size_t p = 0; p < expected.parameters.size(); ++p) {
          CAPTURE(at, expected.parameters[p].name);
          CHECK(captured.parameters[p].name == expected.parameters[p].name);
          CHECK(oracles::largest_difference(captured.parameters[p].gradient, expected.parameters[p].gradient) <=
                expected.tolerance.gradient);
          CHECK(oracles::largest_difference(captured.parameters[p].shard, expected.parameters[p].after) <=
                expected.tolerance.parameter);
        }
      }
    }
  }
}

TEST_CASE("replicated parameters train as one process does, soundly") { check_replicated_product(37); }

TEST_CASE("replicated parameters train as one process does, soundly, with each model, script, hook, world size",
          "[long]") {
  check_replicated_product(1);
}

TEST_CASE("replicated engines start the buckets that PyTorch starts, at each width and cap that was recorded") {
  for (const golden::Buckets& recorded : golden::buckets()) {
    if (recorded.width > 600) continue;  // 64 MB of gradients, and the same rule
    CAPTURE(recorded.width, recorded.cap_bytes);
    Scenario scenario = replicated({});
    for (const char* name : {"fc1", "fc2", "fc3", "fc4"})
      scenario.model.root.children.push_back(layer(name, recorded.width, recorded.width));
    replicate_plan(scenario.plan).first_bucket_bytes =
        recorded.has_default_cap ? ReplicatePlan().first_bucket_bytes : recorded.cap_bytes;
    replicate_plan(scenario.plan).bucket_bytes = recorded.cap_bytes;
    scenario.script.input = {1, recorded.width};
    scenario.script.segments = {{3, {forward, backward, zero_grad}}};
    std::vector<Started> expected;
    for (const auto* const buckets : {&recorded.first, &recorded.later, &recorded.later}) {
      for (std::size_t i = 0; i < buckets->size(); ++i)
        expected.push_back({bucket_tag(i), static_cast<std::uint64_t>((*buckets)[i].elements)});
    }
    for (const Run& run : played(scenario, 2)) CHECK(started_buckets(run) == expected);
  }
}

TEST_CASE("a backward ends when the closed form says, and buckets start when their gradients are ready") {
  for (const std::int64_t bytes : {1, 24, 80, 26'214'400}) {
    for (const Nanoseconds cost : {3, 40, 500}) {
      CAPTURE(bytes, cost);
      Scenario scenario = nested();
      Nanoseconds sleep = 40;
      visit(scenario.model.root, "", [&](const Module& module, const std::string& path) {
        if (module.kind == ModuleKind::linear)
          const_cast<Module*>(find(scenario.model, path))->backward_sleep = sleep += 30;
      });
      replicate_plan(scenario.plan).bucket_bytes = bytes;
      scenario.costs.collectives[CollectiveKind::all_reduce].fixed = cost;
      scenario.script.segments = {{4, {forward, backward, step, zero_grad}}};
      const auto buckets = oracles::later_buckets(scenario, oracles::ready_order(scenario.model));
      for (const Run& run : played(scenario, 2)) {
        for (const Iteration& iteration : run.iterations()) {
          CAPTURE(iteration.index());
          const bool is_first = iteration.index() == 0;
          const oracles::BucketTimes times =
              bucket_times(scenario, is_first ? oracles::first_buckets(scenario) : buckets, 2);
          std::vector<oracles::BucketTimes::Reduction> reductions;
          Nanoseconds begin = -1, end = 0;
          for (const Fact& fact : iteration.facts()) {
            if (const auto* const work = std::get_if<fact::Work>(&fact);
                work != nullptr && work->kind == WorkKind::backward) {
              if (begin < 0) begin = work->start;
              end = std::max(end, work->end - begin);
            }
            const auto* const call = std::get_if<fact::Collective>(&fact);
            if (call == nullptr || suites::replicate_checks().is_agreement(*call)) continue;
            reductions.push_back({call->start - begin, call->end - begin});
            end = std::max(end, call->end - begin);
          }
          CHECK(reductions == times.reductions);
          CHECK(end == times.backward);
        }
      }
    }
  }
}

TEST_CASE("a backward that gives a parameter no gradient is an error that names the parameter, on each rank") {
  for (const bool compiles : {false, true}) {
    CAPTURE(compiles);
    Scenario scenario = with_ways();
    replicate_plan(scenario.plan).unused_parameters = false;
    if (compiles) replicate_plan(scenario.plan).compile.emplace();
    scenario.script.segments = {{1, {forward, backward, capture}}};
    CHECK_THROWS_MATCHES(played(scenario, 2), std::exception,
                         MessageMatches(ContainsSubstring("no gradient to \"way.right.weight\"")));
  }
}

TEST_CASE("what is generated for replicated engines trains as one process does, soundly") {
  const Palette everything = full_palette("replicate");
  // More of them by the environment: SHARDPROOF_SEEDS=100000.
  const char* const asked = std::getenv("SHARDPROOF_SEEDS");
  const std::uint64_t seeds = asked != nullptr ? std::strtoull(asked, nullptr, 10) : rounds(250U);
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Staged staged = generate("replicate", seed, std::vector{1, 2, 3, 4}, everything);
    const bool captures = std::ranges::any_of(staged.scenario.script.segments, [](const Script::Segment& segment) {
      return std::ranges::find(segment.body, ActionKind::capture, &Action::kind) != segment.body.end();
    });
    // No process computes the values of imagined ranks. The scenario plays all the same.
    if (staged.scenario.device.imagined_ranks > 0 || !captures) {
      for (const Run& run : played(staged.scenario, staged.ranks))
        CHECK((run.races().empty() && run.left_alive() == 0));
      continue;
    }
    check_replicated_run(staged.scenario, staged.ranks);
    // The generator captures values that do not depend on the order of sums. It does not capture the output of an
    // evaluation.
    const std::string shows =
        oracles::train_serially(staged.scenario, staged.ranks, oracles::Arithmetic::f32).back().order_shows;
    if (shows.find("evaluate") == std::string::npos) CHECK(shows == "");
    ++compared;
  }
  CHECK(compared > seeds / 3);
}
