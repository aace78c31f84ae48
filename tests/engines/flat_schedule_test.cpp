// When the engine with flat parameters gathers, reduces and frees; what it refuses; and how it compares orders.
#include <algorithm>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "harness/scenario/plan/fully_shard.hpp"
#include "tests/engines/flat_scenarios.hpp"

using namespace shardproof;
using namespace shardproof::scenario;
using namespace shardproof::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

using Texts = std::vector<std::string>;

Texts texts_of(const std::vector<Warning>& warnings) {
  Texts texts;
  for (const Warning& warning : warnings) texts.push_back(warning.text);
  return texts;
}

const Action forward{ActionKind::forward}, backward{ActionKind::backward}, step{ActionKind::step},
    capture{ActionKind::capture}, zero_grad{ActionKind::zero_grad}, evaluate{ActionKind::evaluate};

Action on_way(const char* way, Action action = forward) {
  action.paths = {{"way", way}};
  return action;
}

Action failing_in(const char* module, Action action = forward) {
  action.fails_in = module;
  return action;
}

Scenario three_units() {
  Scenario scenario = flat_scenario({layer("a", 3, 3), layer("b", 3, 3), layer("c", 3, 2)}, {"a", "b", "c", ""});
  scenario.script.segments = {{3, {forward, backward, step, zero_grad}}};
  return scenario;
}

/// The way on the left has parameters, and no unit runs after it.
Scenario last_on_the_left(std::vector<Script::Segment> segments) {
  Scenario scenario =
      flat_scenario({layer("a", 3, 3), holder(ModuleKind::choice, "way", {layer("left", 3, 3), activation("right")})},
                    {"a", "way.left", ""});
  flat_shard_plan(scenario.plan).forward_prefetch = true;
  scenario.script.segments = std::move(segments);
  return scenario;
}

/// Gathers, computation and reductions of a call, in host order.
Texts issued(const Iteration& iteration, ActionKind call) {
  Texts texts;
  std::string during;
  for (const Fact& fact : iteration.facts()) {
    if (const auto* const set = std::get_if<fact::Mark>(&fact)) during = set->text;
    if (during != mark(iteration.index(), call)) continue;
    const auto* const work = std::get_if<fact::Work>(&fact);
    const auto* const collective = std::get_if<fact::Collective>(&fact);
    if (work != nullptr && (work->kind == WorkKind::forward || work->kind == WorkKind::backward))
      texts.push_back(work->label);
    if (collective == nullptr) continue;
    texts.push_back((collective->kind == CollectiveKind::all_gather ? "gather " : "reduce ") + collective->tag);
  }
  return texts;
}

void check_issued(const Scenario& scenario, ActionKind call, const Texts& first, const Texts& later) {
  for (const Run& run : played(scenario, 2)) {
    for (const Iteration& iteration : run.iterations())
      CHECK(issued(iteration, call) == (iteration.index() == 0 ? first : later));
  }
}

void check_sound(const Scenario& scenario) {
  for (const Run& run : played(scenario, 2)) {
    for (const trace::Race& race : run.races()) FAIL_CHECK(trace::describe(race));
    CHECK(run.left_alive() == 0);
  }
}

/// All ranks refuse the scenario with this text.
void check_refused(const Scenario& scenario, const std::string& text, int ranks = 2) {
  CHECK_THROWS_MATCHES(played(scenario, ranks), player::SubjectError, MessageMatches(ContainsSubstring(text)));
}

}  // namespace

TEST_CASE("a backward gathers the unit before the current one before it, after it, or when it comes to it") {
  Scenario scenario = three_units();
  const auto check = [&](FlatPrefetch prefetch, const Texts& expected) {
    CAPTURE(to_string(prefetch));
    flat_shard_plan(scenario.plan).backward_prefetch = prefetch;
    check_issued(scenario, ActionKind::backward, expected, expected);
  };
  check(FlatPrefetch::before, {"gather c", "gather b", "c", "reduce c", "gather a", "b", "reduce b", "a", "reduce a"});
  check(FlatPrefetch::after, {"gather c", "c", "gather b", "reduce c", "b", "gather a", "reduce b", "a", "reduce a"});
  check(FlatPrefetch::none, {"gather c", "c", "reduce c", "gather b", "b", "reduce b", "gather a", "a", "reduce a"});
}

TEST_CASE("a frozen unit gathers the unit before it like others") {
  Scenario scenario = three_units();
  scenario.model.root.children[1].frozen = true;
  flat_shard_plan(scenario.plan).backward_prefetch = FlatPrefetch::after;
  const Texts expected{"gather c", "c", "gather b", "reduce c", "b", "gather a", "a", "reduce a"};
  check_issued(scenario, ActionKind::backward, expected, expected);
  // A frozen unit is freed after its own backward, and not only at the end.
  flat_shard_plan(scenario.plan).limit_all_gathers = false;
  for (const Run& run : played(scenario, 2)) {
    std::uint64_t whole = 0;
    bool has_gone = false;
    for (const Fact& fact : run.iterations().front().facts()) {
      if (const auto* const made = std::get_if<fact::Allocated>(&fact);
          made != nullptr && made->memory == MemoryClass::parameter && made->label == "b") {
        whole = made->buffer;
        has_gone = false;
      }
      if (const auto* const gone = std::get_if<fact::Released>(&fact)) has_gone = has_gone || gone->buffer == whole;
      const auto* const work = std::get_if<fact::Work>(&fact);
      if (work != nullptr && work->kind == WorkKind::backward && work->label == "a") CHECK(has_gone);
    }
  }
}

TEST_CASE("a forward gathers the next unit of the first iteration while a unit computes") {
  Scenario scenario = three_units();
  const Texts in_turn{"gather a", "a", "gather b", "b", "gather c", "c"},
      ahead{"gather a", "gather b", "a", "gather c", "b", "c"};
  check_issued(scenario, ActionKind::forward, in_turn, in_turn);
  flat_shard_plan(scenario.plan).forward_prefetch = true;
  check_issued(scenario, ActionKind::forward, in_turn, ahead);
  // An evaluate before the first iteration records no order.
  scenario.script.segments.front().body = {evaluate, forward, backward};
  check_issued(scenario, ActionKind::evaluate, in_turn, ahead);
}

TEST_CASE("a failed forward leaves no order of gathers") {
  Scenario scenario =
      flat_scenario({layer("a", 3, 4), holder(ModuleKind::choice, "way", {layer("left", 4, 4), layer("right", 4, 4)}),
                     layer("c", 4, 2)},
                    {"a", "way.left", "way.right", "c", ""});
  flat_shard_plan(scenario.plan).forward_prefetch = true;
  scenario.script.segments = {{1, {failing_in("c", on_way("right")), forward, backward}}, {2, {forward, backward}}};
  for (const Run& run : played(scenario, 2)) {
    for (const Iteration& iteration : run.iterations()) {
      if (iteration.index() == 0) continue;
      CHECK(issued(iteration, ActionKind::forward) ==
            Texts{"gather a", "gather way.left", "a", "gather c", "way.left", "c"});
      CHECK(iteration.count(CollectiveKind::all_gather) == 6);
    }
  }
}

TEST_CASE("each iteration has its own order, and gathers ahead by that of the first one") {
  Scenario scenario =
      flat_scenario({layer("a", 3, 4), holder(ModuleKind::choice, "way", {layer("left", 4, 4), layer("right", 4, 4)}),
                     layer("c", 4, 2)},
                    {"a", "way.left", "way.right", "c", ""});
  scenario.script.segments = {{1, {forward, on_way("right"), backward}}, {2, {on_way("right"), backward}}};
  for (const Run& run : played(scenario, 2)) {
    for (const Iteration& iteration : run.iterations()) {
      if (iteration.index() == 0) continue;
      CHECK(issued(iteration, ActionKind::backward) == Texts{"gather c", "gather way.right", "c", "reduce c",
                                                             "gather a", "way.right", "reduce way.right", "a",
                                                             "reduce a"});
    }
  }
  flat_shard_plan(scenario.plan).forward_prefetch = true;
  scenario.script.segments = {{1, {forward, backward}}, {1, {on_way("right"), backward}}, {1, {forward, backward}}};
  for (const Run& run : played(scenario, 2)) {
    CHECK(issued(run.iterations()[1], ActionKind::forward) ==
          Texts{"gather a", "gather way.left", "a", "gather way.right", "way.right", "gather c", "c"});
    CHECK(issued(run.iterations()[2], ActionKind::forward) ==
          Texts{"gather a", "gather way.left", "a", "gather c", "way.left", "c"});
  }
}

TEST_CASE("flat memory is of its class") {
  for (const ShardStrategy strategy : {ShardStrategy::full_shard, ShardStrategy::no_shard}) {
    Scenario scenario = three_units();
    flat_shard_plan(scenario.plan).strategy = strategy;
    const bool shards = strategy == ShardStrategy::full_shard;
    CAPTURE(shards);
    for (const Run& run : played(scenario, 2)) {
      CHECK(run.peak(MemoryClass::shard).buffers == 3);
      CHECK((run.peak(MemoryClass::parameter).buffers > 0) == shards);
      CHECK((run.peak(MemoryClass::reduce_input).buffers > 0) == shards);
      CHECK(run.peak(MemoryClass::gradient).buffers > 0);
      CHECK(run.peak(MemoryClass::sharded_gradient).buffers == 3);
    }
  }
}

TEST_CASE("a step waits for gathers ahead of units that did not run") {
  const Script::Segment left{1, {forward, backward}};
  check_sound(last_on_the_left({left, {1, {forward, backward, on_way("right", evaluate), step}}}));
  check_sound(last_on_the_left({left, {1, {forward, backward, failing_in("way.right", on_way("right")), step}}}));
}

TEST_CASE("parameters that are whole during an optimizer step are gathered again") {
  for (const ShardStrategy strategy :
       {ShardStrategy::full_shard, ShardStrategy::shard_grad_op, ShardStrategy::no_shard}) {
    CAPTURE(to_string(strategy));
    Scenario scenario = three_units();
    flat_shard_plan(scenario.plan).wrap = {"a", ""};
    flat_shard_plan(scenario.plan).strategy = strategy;
    scenario.script.segments = {{2, {forward, backward, evaluate, step, evaluate, capture, zero_grad}}};
    check_flat_run(scenario, 2);
  }
}

TEST_CASE("a dedicated stream casts parts for a gather") {
  Scenario scenario = three_units();
  scenario.plan.mixed_precision.param = DType::bf16;
  for (const ShardStrategy strategy : {ShardStrategy::full_shard, ShardStrategy::no_shard}) {
    flat_shard_plan(scenario.plan).strategy = strategy;
    const Run run = std::move(played(scenario, 2).front());
    const auto roles = streams(run.trace());
    std::size_t casts = 0;
    for (const Fact& fact : run.trace().facts) {
      const auto* const work = std::get_if<fact::Work>(&fact);
      if (work == nullptr || work->kind != WorkKind::copy_in) continue;
      ++casts;
      CHECK(roles.at(work->stream).role == StreamRole::copy_in);
    }
    CHECK(casts >= 3 * 3);
  }
}

TEST_CASE("plans that no flat parameter can hold are refused, by the names of what is in the way") {
  Scenario scenario = three_units();
  scenario.plan.mesh = {.shape = {3}, .names = {"shard"}};
  check_refused(scenario, "the mesh has 3 ranks, the world has 2");

  scenario = three_units();
  scenario.model.root.children[1].tied_to = "a";
  check_refused(scenario, "parameter \"a.weight\" is in the unit \"a\", but as \"b.weight\" in the unit \"b\"");
  flat_shard_plan(scenario.plan).wrap = {"a", "c"};
  check_refused(scenario, "but as \"b.weight\" in no unit");
  flat_shard_plan(scenario.plan).wrap = {"b", "c"};
  check_refused(scenario, "parameter \"a.weight\" is in no unit, but as \"b.weight\" in the unit \"b\"");

  scenario = three_units();
  scenario.model.root.children[1].tensor = TensorKind::two_tensor;
  check_refused(scenario, "parameter \"b.weight\" is a pair");

  scenario = three_units();
  scenario.model.root.children.push_back({.name = "s", .kind = ModuleKind::scale, .scalar = true});
  check_refused(scenario, "parameter \"s.factor\" is a scalar");

  scenario = three_units();
  scenario.model.root.children[2].frozen = true;
  flat_shard_plan(scenario.plan).wrap = {""};
  check_refused(scenario, "unit \"\" has frozen and trainable parameters (for example \"c.weight\")");
  flat_shard_plan(scenario.plan).use_orig_params = true;
  check_sound(scenario);

  scenario = flat_scenario({holder(ModuleKind::sequential, "u", {layer("x", 3, 3)}),
                            {.name = "again", .kind = ModuleKind::use, .target = "u.x"}},
                           {"u", ""});
  check_refused(scenario, "\"again\" uses \"u.x\", whose parameters are in the unit \"u\"");
  flat_shard_plan(scenario.plan).wrap = {"u.x", ""};
  check_sound(scenario);
}

TEST_CASE("a refused hook is answered with where it can be registered") {
  const auto hooked = [](std::vector<std::string> wrap, std::string module, Hook hook = {}) {
    Scenario scenario = three_units();
    scenario.model.root.children.push_back(activation("nothing"));
    flat_shard_plan(scenario.plan).wrap = std::move(wrap);
    auto& body = scenario.script.segments.front().body;
    body.insert(body.begin(),
                {.kind = ActionKind::register_hook, .module = std::move(module), .hook = std::move(hook)});
    return scenario;
  };
  check_refused(hooked({"a", "b"}, ""), "flat_shard: \"\" is not wrapped; roots: \"a\", \"b\"");
  check_refused(hooked({"a"}, "b"), "flat_shard: \"b\" is not wrapped; roots: \"a\"");
  check_refused(hooked({"a", "b", ""}, "a"), "flat_shard: \"a\" is not a root: register the hook at \"\"");
  check_refused(hooked({"nothing", "b", ""}, "nothing", {.direct = true}),
                "flat_shard: \"nothing\" is not a unit with parameters; choose from \"b\", \"\"");
  check_refused(hooked({"a", ""}, "", {.kind = HookKind::not_callable}),
                "flat_shard: the gradient hook at \"\" has no function to call");
  Scenario scenario = hooked({"a", ""}, "");
  scenario.script.segments.front().body.insert(scenario.script.segments.front().body.begin(),
                                               scenario.script.segments.front().body.front());
  check_refused(scenario, "flat_shard: unit \"\" already has a gradient hook: register only one hook for each root");
}

TEST_CASE("an engine that lacks the point of a hook names the points that it has") {
  Scenario scenario = three_units();
  auto& body = scenario.script.segments.front().body;
  body.insert(body.begin(), {.kind = ActionKind::register_hook, .hook = Hook{.point = HookPoint::after_reduction}});
  check_refused(scenario, "flat_shard has no hooks at point after_reduction; use \"reduction\"");
  scenario.plan.engine = ChosenEngine(std::make_unique<FullyShardPlan>());
  fully_shard_plan(scenario.plan).wrap = {{.modules = {""}}};
  body.front().hook->point = HookPoint::reduction;
  check_refused(scenario,
                "fully_shard has no hooks at point reduction; use \"after_reduction\" or \"after_accumulation\"");
  body.front().hook = Hook{.kind = HookKind::not_callable, .point = HookPoint::after_reduction};
  check_refused(scenario, "fully_shard: the gradient hook at \"\" has no function to call");
  body.front().hook = Hook{.kind = HookKind::fp16_compress};
  check_refused(scenario,
                "fully_shard has no built-in hook fp16_compress; use a user's hook at point \"after_reduction\"");
}

TEST_CASE("one rank alone warns that it cannot shard") {
  const auto warnings = [](ShardStrategy strategy, int world) {
    Scenario scenario = three_units();
    flat_shard_plan(scenario.plan).strategy = strategy;
    return texts_of(played(scenario, world).front().warnings());
  };
  const Texts alone = warnings(ShardStrategy::shard_grad_op, 1);
  REQUIRE(alone.size() == 1);
  CHECK_THAT(alone.front(), ContainsSubstring("the strategy shard_grad_op acts as no_shard"));
  CHECK(warnings(ShardStrategy::no_shard, 1).empty());
  CHECK(warnings(ShardStrategy::full_shard, 2).empty());
}

namespace {

/// Two units of equal size, of which a forward runs one.
Scenario validated(std::vector<Script::Segment> segments) {
  Scenario scenario =
      flat_scenario({layer("a", 3, 4),
                     holder(ModuleKind::choice, "way", {layer("left", 4, 4), layer("right", 4, 4), activation("none")}),
                     layer("c", 4, 2)},
                    {"a", "way.left", "way.right", "c", ""});
  flat_shard_plan(scenario.plan).validate_order = true;
  scenario.script.segments = std::move(segments);
  return scenario;
}

Script::Segment on(int iterations, const char* way) { return {iterations, {on_way(way), backward}}; }

}  // namespace

TEST_CASE("in the first iteration ranks that differ in their order all say so, with both units") {
  Action left = on_way("left"), right = on_way("right");
  left.ranks = {0};
  right.ranks = {1};
  check_refused(validated({{1, {left, right, backward}}}),
                "rank 0 gathers \"way.left\" while rank 1 gathers \"way.right\"");
}

TEST_CASE("later a rank that leaves the order of its first iteration says so once, until it was in order again") {
  const auto warnings = [](std::vector<Script::Segment> segments) {
    return texts_of(played(validated(std::move(segments)), 2).front().warnings());
  };
  CHECK(warnings({on(4, "left")}).empty());
  const Texts deviating = warnings({on(1, "left"), on(3, "right")});
  REQUIRE(deviating.size() == 1);
  CHECK_THAT(deviating.front(),
             ContainsSubstring("on rank 0") && ContainsSubstring("it gathers \"way.right\" instead of \"way.left\""));
  CHECK(warnings({on(1, "left"), on(1, "right"), on(1, "left"), on(1, "right")}).size() == 2);
  const Texts shorter =
      warnings({on(1, "left"), {1, {forward, {.kind = ActionKind::zero_grad}, backward}}, on(1, "none")});
  REQUIRE(shorter.size() == 1);
  CHECK_THAT(shorter.front(), ContainsSubstring("it gathers \"c\" instead of \"way.left\""));
  const Texts longer = warnings({on(1, "left"), {1, {on_way("left"), on_way("left"), backward}}});
  REQUIRE(longer.size() == 1);
  CHECK_THAT(longer.front(), ContainsSubstring("it gathers \"a\" after the last unit of that order"));
  const Texts cut = warnings({{1, {on_way("left"), on_way("left"), backward}}, on(1, "left")});
  REQUIRE(cut.size() == 1);
  CHECK_THAT(cut.front(), ContainsSubstring("it does not gather \"a\""));
  // A forward that fails does not deviate. So the next deviation causes a warning.
  const Texts again =
      warnings({on(1, "left"), {1, {failing_in("c", on_way("right")), on_way("left"), backward}}, on(1, "right")});
  CHECK(again.size() == 2);
  // A forward that fails, or that no backward follows, does not count.
  CHECK(warnings({on(1, "left"),
                  {1, {failing_in("c", on_way("left")), on_way("right", evaluate), on_way("left"), backward}}})
            .empty());
}

TEST_CASE("the check of the order leaves no race and no memory") { check_sound(validated({on(3, "left")})); }
