// The engine with flat parameters against the serial model, over models, scripts, strategies, world sizes and options.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>

#include "harness/base/digest.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "harness/scenario/scenario_json.hpp"
#include "suites/checks/generated.hpp"
#include "tests/engines/flat_scenarios.hpp"
#include "tests/rounds.hpp"

using namespace shardproof;
using namespace shardproof::scenario;
using namespace shardproof::testing;

namespace {

// -- Models

Scenario nested() {
  return flat_scenario(
      {layer("a", 3, 5), activation("relu"),
       holder(ModuleKind::sequential, "b", {layer("in", 5, 4), layer("out", 4, 5, false)}), layer("c", 5, 2)},
      {"a", "b.in", "b", ""});
}

// Its last unit alone is the root's.
Scenario without_root() {
  return flat_scenario({layer("a", 3, 4), activation("relu"), layer("b", 4, 3), layer("c", 3, 2)}, {"b", "c"});
}

// A whole unit is frozen: with an input that has a gradient, and with one that has none.
Scenario frozen() {
  Scenario scenario =
      flat_scenario({layer("a", 3, 4), layer("b", 4, 4), layer("c", 4, 3), layer("d", 3, 2)}, {"a", "b", "c", ""});
  scenario.model.root.children[0].frozen = scenario.model.root.children[2].frozen = true;
  return scenario;
}

// Frozen and trainable parameters are in one unit.
Scenario partly_frozen() {
  Scenario scenario = flat_scenario(
      {holder(ModuleKind::sequential, "a", {layer("in", 3, 4), layer("out", 4, 4)}), layer("b", 4, 2)}, {"a", ""});
  scenario.model.root.children[0].children[0].frozen = true;
  flat_shard_plan(scenario.plan).use_orig_params = true;
  return scenario;
}

Scenario tied() {
  Scenario scenario =
      flat_scenario({layer("a", 3, 3), activation("relu"), layer("b", 3, 3), layer("c", 3, 2)}, {"c", ""});
  scenario.model.root.children[2].tied_to = "a";
  return scenario;
}

Scenario used_twice() {
  return flat_scenario({layer("a", 3, 3),
                        activation("relu"),
                        layer("b", 3, 3),
                        {.name = "again", .kind = ModuleKind::use, .target = "a"},
                        layer("c", 3, 2)},
                       {"a", "b", ""});
}

// Two frozen uses of one module around a trainable one.
Scenario frozen_and_used_twice() {
  Scenario scenario = used_twice();
  scenario.model.root.children.insert(scenario.model.root.children.begin(), layer("first", 3, 3));
  scenario.model.root.children[1].frozen = true;
  return scenario;
}

Scenario chosen() {
  return flat_scenario(
      {layer("a", 3, 4), holder(ModuleKind::choice, "way", {layer("left", 4, 4), layer("right", 4, 4, false)}),
       layer("b", 4, 2)},
      {"a", "way.left", "way.right", ""});
}

// Each unit is a root, and a backward reaches one of those on the way.
Scenario two_roots() {
  Scenario scenario = chosen();
  flat_shard_plan(scenario.plan).wrap = {"way.left", "way.right", "b"};
  return scenario;
}

// Parameters of one unit, of which a forward uses some.
Scenario chosen_in_one_unit() {
  Scenario scenario = chosen();
  flat_shard_plan(scenario.plan).wrap = {"way", ""};
  return scenario;
}

Scenario discarded() {
  return flat_scenario({layer("a", 3, 4), holder(ModuleKind::discard, "aside", {layer("x", 4, 3)}),
                        holder(ModuleKind::residual, "b", {layer("in", 4, 3), layer("out", 3, 4)}), layer("c", 4, 2)},
                       {"a", "aside.x", "b", ""});
}

// One way uses the unit that is otherwise run for nothing.
Scenario discarded_on_one_way() {
  return flat_scenario({layer("a", 3, 4), holder(ModuleKind::discard, "aside", {layer("x", 4, 4)}),
                        holder(ModuleKind::choice, "way",
                               {{.name = "left", .kind = ModuleKind::use, .target = "aside.x"}, layer("right", 4, 4)}),
                        layer("c", 4, 2)},
                       {"a", "aside.x", ""});
}

// Weights of three dimensions.
Scenario convolutions() {
  Module window{.name = "b", .kind = ModuleKind::convolution, .in_features = 6, .out_features = 4, .channels = 3};
  Module last{
      .name = "c", .kind = ModuleKind::convolution, .in_features = 4, .out_features = 2, .channels = 2, .bias = false};
  return flat_scenario({layer("a", 3, 6), activation("relu"), std::move(window), std::move(last)}, {"a", "b", ""});
}

struct NamedModel {
  const char* name;
  Scenario (*make)();
};

constexpr std::array models{NamedModel{"nested", nested},
                            NamedModel{"without_root", without_root},
                            NamedModel{"frozen", frozen},
                            NamedModel{"partly_frozen", partly_frozen},
                            NamedModel{"tied", tied},
                            NamedModel{"used_twice", used_twice},
                            NamedModel{"frozen_and_used_twice", frozen_and_used_twice},
                            NamedModel{"chosen", chosen},
                            NamedModel{"two_roots", two_roots},
                            NamedModel{"chosen_in_one_unit", chosen_in_one_unit},
                            NamedModel{"discarded", discarded},
                            NamedModel{"discarded_on_one_way", discarded_on_one_way},
                            NamedModel{"convolutions", convolutions}};

// -- Scripts

const Action forward{ActionKind::forward}, backward{ActionKind::backward}, step{ActionKind::step},
    capture{ActionKind::capture}, zero_grad{ActionKind::zero_grad}, evaluate{ActionKind::evaluate},
    to_zero{.kind = ActionKind::zero_grad, .to_zero = true};

// Takes the other way where the model has one.
Action other_way(const Model& model, Action action = forward) {
  if (find(model, "way") != nullptr) action.paths = {{"way", "right"}};
  return action;
}

using Segments = std::vector<Script::Segment>;

Segments plain(const Model&) { return {{2, {forward, backward, capture, step, capture, zero_grad}}}; }

Segments accumulating(const Model& model) {
  return {{1,
           {sync(false), forward, backward, other_way(model), backward, sync(true), forward, backward, capture, step,
            capture, zero_grad}},
          {1, {sync(false), other_way(model), backward, sync(true), forward, backward, capture, step, zero_grad}}};
}

// Reduced gradients are there when more wait.
Segments synced_then_not(const Model& model) {
  return {{1,
           {forward, backward, sync(false), forward, backward, sync(true), other_way(model), backward, capture, step,
            capture, zero_grad}}};
}

Segments several_forwards(const Model& model) {
  return {{2, {forward, other_way(model), backward, capture, step, zero_grad}},
          {1, {forward, forward, backward, capture}}};
}

Segments zeroing(const Model& model) {
  return {{1,
           {to_zero, forward, backward, capture, to_zero, capture, other_way(model), backward, step, capture, zero_grad,
            capture}},
          {1, {sync(false), forward, backward, to_zero, sync(true), forward, backward, capture, step, zero_grad}}};
}

Segments evaluating(const Model& model) {
  return {{2, {evaluate, forward, backward, step, capture, other_way(model, evaluate), zero_grad}},
          {1,
           {forward, evaluate, backward, capture, other_way(model), other_way(model, evaluate), backward, step,
            evaluate, capture}}};
}

// The two iterations begin with different forwards, so a unit's parameters take different ways.
Segments other_ways(const Model& model) {
  return {{1, {forward, backward, step, capture, zero_grad}},
          {2, {other_way(model), backward, step, capture, zero_grad}},
          {1, {forward, backward, capture}}};
}

Segments failing(const Model& model) {
  Action fails = forward, fails_elsewhere = other_way(model);
  fails.fails_in = model.root.children.back().name;
  fails_elsewhere.fails_in = model.root.children[1].name;
  return {{2, {fails, forward, backward, capture, step, zero_grad}},
          {1, {forward, fails_elsewhere, backward, fails, step, capture, zero_grad}},
          {1, {sync(false), forward, backward, fails, sync(true), forward, fails, backward, capture}}};
}

struct NamedScript {
  const char* name;
  Segments (*make)(const Model& model);
};

constexpr std::array scripts{NamedScript{"plain", plain},
                             NamedScript{"accumulating", accumulating},
                             NamedScript{"synced_then_not", synced_then_not},
                             NamedScript{"several_forwards", several_forwards},
                             NamedScript{"zeroing", zeroing},
                             NamedScript{"evaluating", evaluating},
                             NamedScript{"other_ways", other_ways},
                             NamedScript{"failing", failing}};

// -- Options

constexpr std::array strategies{ShardStrategy::full_shard, ShardStrategy::shard_grad_op, ShardStrategy::no_shard,
                                ShardStrategy::hybrid, ShardStrategy::hybrid_zero2};

const std::array<MixedPrecision, 5> precisions{MixedPrecision{},
                                               {.param = DType::bf16},
                                               {.param = DType::bf16, .reduce = DType::f32},
                                               {.param = DType::f16, .reduce = DType::bf16},
                                               {.reduce = DType::bf16}};

// Numbers of options in turn, all over the product: each option meets each other option.
class Turns {
 public:
  std::size_t below(std::size_t count) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>(state_ >> 33) % count;
  }

 private:
  std::uint64_t state_ = 1;
};

void draw_options(Plan& plan, ShardStrategy strategy, int world, Turns& turns) {
  FlatShardPlan& section = flat_shard_plan(plan);
  section.strategy = strategy;
  section.use_orig_params = section.use_orig_params || turns.below(2) == 1;
  section.backward_prefetch = static_cast<FlatPrefetch>(turns.below(3));
  section.forward_prefetch = turns.below(3) == 0;
  section.limit_all_gathers = turns.below(3) > 0;
  section.validate_order = turns.below(4) == 0;
  plan.mixed_precision = precisions.at(turns.below(2) * turns.below(precisions.size()));
  if (has_replicas(strategy)) {
    std::vector<int> replicas;
    for (int count = 1; count <= world; ++count) {
      if (world % count == 0) replicas.push_back(count);
    }
    const int chosen_count = replicas[turns.below(replicas.size())];
    plan.mesh = {.shape = {chosen_count, world / chosen_count}, .names = {"replicate", "shard"}};
  }
}

/// Plays each model with each script, at each strategy and world size; of these, every `stride`-th.
void check_product(std::size_t stride) {
  Turns turns;
  std::size_t at = 0, plays = 0, exact = 0;
  for (const NamedModel& model : models) {
    for (const NamedScript& script : scripts) {
      for (const ShardStrategy strategy : strategies) {
        for (const int world : {1, 2, 3, 4, 5, 7}) {
          Scenario scenario = model.make();
          scenario.script.segments = script.make(scenario.model);
          draw_options(scenario.plan, strategy, world, turns);
          if (at++ % stride != 0) continue;
          const FlatShardPlan& section = flat_shard_plan(scenario.plan);
          CAPTURE(model.name, script.name, to_string(strategy), world, section.use_orig_params,
                  to_string(section.backward_prefetch), section.forward_prefetch, section.limit_all_gathers,
                  section.validate_order, scenario.plan.mesh.shape, scenario.plan.mixed_precision.param.has_value(),
                  scenario.plan.mixed_precision.reduce.has_value());
          ++plays;
          exact += check_flat_run(scenario, world);
        }
      }
    }
  }
  CAPTURE(plays, exact);
  CHECK(exact > plays / 2);
}

}  // namespace

TEST_CASE("flat parameters train as one process does, soundly") { check_product(29); }

TEST_CASE("flat parameters train as one process does, soundly, at each strategy, world size, model and script",
          "[long]") {
  check_product(1);
}

TEST_CASE("what is generated for flat parameters trains as one process does, soundly, with hooks as well") {
  const Palette everything = full_palette("flat_shard");
  // More of them by the environment: SHARDPROOF_SEEDS=100000.
  const char* const asked = std::getenv("SHARDPROOF_SEEDS");
  const std::uint64_t seeds = asked != nullptr ? std::strtoull(asked, nullptr, 10) : rounds(250U);
  std::size_t compared = 0, hooked = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Staged staged = generate("flat_shard", seed, std::vector{1, 2, 3, 4}, everything);
    const auto has = [&](ActionKind kind) {
      return std::ranges::any_of(staged.scenario.script.segments, [kind](const Script::Segment& segment) {
        return std::ranges::find(segment.body, kind, &Action::kind) != segment.body.end();
      });
    };
    // Nobody computes the values of imagined ranks. The scenario plays all the same.
    if (staged.scenario.device.imagined_ranks > 0 || !has(ActionKind::capture)) {
      for (const Run& run : played(staged.scenario, staged.ranks))
        CHECK((run.races().empty() && run.left_alive() == 0));
      continue;
    }
    check_flat_run(staged.scenario, staged.ranks);
    ++compared;
    hooked += has(ActionKind::register_hook) ? 1 : 0;
  }
  CHECK(compared > seeds / 2);
  CHECK(hooked > seeds / 50);
}

// A generated case is named by its seed: the seed keeps its scenario. From the first release on, a change of these
// numbers is a new version of the generator.
TEST_CASE("generated cases draw by version, seed and world alone, and keep what they have drawn") {
  REQUIRE(suites::generator_version == 2);
  struct Draw {
    std::uint64_t seed;
    int world;
    std::map<std::string_view, std::uint64_t> digests;
  };
  // A few draws, because each takes long. The last seed is not among the first seeds of its block.
  const std::vector<Draw> draws{
      {1000,
       2,
       {{"fully_shard", 0x1f3afa7b8c2583c7}, {"flat_shard", 0x73a8779ae27dda83}, {"replicate", 0x0871765381a786ac}}},
      {1,
       4,
       {{"fully_shard", 0x0b4ba4d9ac908af9}, {"flat_shard", 0x1154553dad5a2694}, {"replicate", 0x03288a23310ea408}}},
      {2,
       2,
       {{"fully_shard", 0x5c4e1c2352351eb7}, {"flat_shard", 0xee887fcc84570a90}, {"replicate", 0x0432b50c91eaa29b}}},
      {3,
       3,
       {{"fully_shard", 0x1597e5aad213db83}, {"flat_shard", 0x377aaa183a28b180}, {"replicate", 0x9ecb35cdc55bc84a}}},
  };
  for (const auto& [seed, world, digests] : std::span(draws).first(rounds(draws.size()))) {
    for (const auto& [kind, digest] : digests) {
      CAPTURE(seed, kind);
      const suites::Subjects subjects{.kind = kind, .without = {}, .about = {}, .is_wanted = {}};
      const suites::Drawn drawn = suites::drawn(subjects, seed, world);
      CHECK(traits(drawn.scenario).size() > 4);
      CHECK(base::digest(nlohmann::ordered_json(drawn.scenario).dump()) == digest);
    }
  }
  const suites::Subjects impossible{
      .kind = "flat_shard", .without = {}, .about = {}, .is_wanted = [](const Scenario&) { return false; }};
  CHECK_THROWS_AS(suites::drawn(impossible, 1, 2), std::logic_error);
}

TEST_CASE("flat parameters get memory and values late, and train as others") {
  for (const ShardStrategy strategy : {ShardStrategy::full_shard, ShardStrategy::no_shard}) {
    for (const bool use_orig_params : {false, true}) {
      for (const int world : {1, 2, 3}) {
        CAPTURE(to_string(strategy), use_orig_params, world);
        Scenario scenario = nested();
        scenario.plan.initialisation = Initialisation::meta;
        flat_shard_plan(scenario.plan).strategy = strategy;
        flat_shard_plan(scenario.plan).use_orig_params = use_orig_params;
        scenario.script.segments = {{1, {{ActionKind::materialize}, {ActionKind::initialize}}},
                                    plain(scenario.model).front()};
        check_flat_run(scenario, world);
        // One part of the model after the other.
        std::vector<Action>& late = scenario.script.segments.front().body;
        late.clear();
        for (const char* const module : {"b", "a", "c"}) {
          late.push_back({.kind = ActionKind::materialize, .module = module});
          late.push_back({.kind = ActionKind::initialize, .module = module});
        }
        check_flat_run(scenario, world);
      }
    }
  }
}

TEST_CASE(
    "a parameter that a unit's backward does not use has zeros as its gradient, and one of a unit without backward has "
    "none") {
  Scenario scenario = chosen_in_one_unit();
  scenario.model.root.children.insert(scenario.model.root.children.begin() + 2,
                                      holder(ModuleKind::discard, "aside", {layer("x", 4, 3)}));
  flat_shard_plan(scenario.plan).wrap = {"way", "aside.x", ""};
  scenario.script.segments = {{1, {forward, backward, capture}}};
  for (const Run& run : played(scenario, 2)) {
    const auto gradient = [&](const char* name) {
      return std::ranges::find(run.captures().at(0).parameters, name, &CapturedParameter::name)->gradient;
    };
    REQUIRE(gradient("way.right.weight").defined());
    CHECK(std::ranges::all_of(gradient("way.right.weight").to_doubles(), [](double value) { return value == 0; }));
    CHECK_FALSE(gradient("aside.x.weight").defined());
  }
}

TEST_CASE("at most two gathers are ahead of the computation that uses them, by waits of the host") {
  for (const bool limits : {false, true}) {
    Scenario scenario = flat_scenario({layer("a", 3, 3), layer("b", 3, 3), layer("c", 3, 3), layer("d", 3, 2)},
                                      {"a", "b", "c", "d", ""});
    flat_shard_plan(scenario.plan).limit_all_gathers = limits;
    scenario.script.segments = {{3, {forward, backward, step, zero_grad}}};
    for (const Run& run : played(scenario, 2)) {
      for (const Iteration& iteration : run.iterations()) {
        const auto waits = std::ranges::count_if(
            iteration.facts(), [](const Fact& fact) { return std::holds_alternative<fact::EventSynchronized>(fact); });
        CHECK((waits > 0) == limits);
        if (limits) CHECK(iteration.peak(MemoryClass::parameter).buffers <= 3);
      }
    }
  }
}
