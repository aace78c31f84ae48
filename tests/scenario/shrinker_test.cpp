#include "harness/scenario/generator/shrinker.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/digest.hpp"
#include "harness/base/random.hpp"
#include "harness/scenario/exactness.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/scenario/plan/replicate.hpp"
#include "harness/scenario/scenario_json.hpp"
#include "tests/rounds.hpp"

using namespace shardproof;
using namespace shardproof::scenario;
using shardproof::testing::rounds;

namespace {

Palette everything() { return full_palette("fully_shard"); }

Staged generated(std::uint64_t seed) { return generate("fully_shard", seed, std::vector{1, 2, 3, 4}, everything()); }

Staged generated_flat(std::uint64_t seed) {
  return generate("flat_shard", seed, std::vector{1, 2, 3, 4}, full_palette("flat_shard"));
}

Staged generated_replicated(std::uint64_t seed) {
  return generate("replicate", seed, std::vector{1, 2, 3, 4}, full_palette("replicate"));
}

std::string text(const Staged& staged) {
  return std::to_string(staged.ranks) + " " + nlohmann::ordered_json(staged.scenario).dump();
}

/// The smallest that still shows it, taking the first variant that does; `steps` are counted.
Staged shrunk(Staged staged, const std::function<bool(const Staged&)>& shows, int& steps) {
  for (;;) {
    const std::vector<Staged> variants = smaller(staged);
    const auto next = std::ranges::find_if(variants, shows);
    if (next == variants.end()) return staged;
    staged = *next;
    REQUIRE(++steps < 500);
  }
}

/// The largest size in any module: features, or a vocabulary.
std::int64_t widest(const Scenario& scenario) {
  std::int64_t most = 0;
  visit(scenario.model.root, "", [&](const Module& module, const std::string&) {
    most = std::max({most, module.in_features, module.out_features, module.features, module.vocabulary});
  });
  return most;
}

bool runs_twice(const Scenario& scenario) {
  bool found = false;
  visit(scenario.model.root, "",
        [&](const Module& module, const std::string&) { found = found || module.kind == ModuleKind::use; });
  return found;
}

/// Nothing for scenarios without extensions, or in which no gather takes any time.
std::optional<Nanoseconds> time_to_agree_on_sizes(const Scenario& scenario) {
  const bool extends = std::ranges::any_of(scenario.script.segments, [](const Script::Segment& segment) {
    return std::ranges::find(segment.body, ActionKind::extend, &Action::kind) != segment.body.end();
  });
  const auto gather = scenario.costs.collectives.find(CollectiveKind::all_gather);
  if (!extends || gather == scenario.costs.collectives.end()) return std::nullopt;
  const auto own =
      scenario.costs.tagged_collectives.find({CollectiveKind::all_gather, std::string(extension_sizes_tag)});
  return own == scenario.costs.tagged_collectives.end() ? gather->second.fixed : own->second;
}

}  // namespace

TEST_CASE(
    "to agree on sizes takes no time, in what is generated and in all that is smaller, nor to pack what hooks give",
    "[long]") {
  int agreeing = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Staged from = generated(seed);
    if (!time_to_agree_on_sizes(from.scenario)) continue;
    ++agreeing;
    CHECK(time_to_agree_on_sizes(from.scenario) == Nanoseconds{0});
    for (const WorkKind packing : {WorkKind::copy_in, WorkKind::copy_out})
      CHECK_FALSE(from.scenario.costs.work.contains(packing));
    for (const Staged& variant : smaller(from)) CHECK(time_to_agree_on_sizes(variant.scenario).value_or(0) == 0);
  }
  CHECK(agreeing > 20);
}

TEST_CASE("variants are valid, unlike what they are made of, and as exact") {
  for (std::uint64_t seed = 0; seed < rounds(60U); ++seed) {
    CAPTURE(seed);
    const Staged from = generated(seed);
    const std::vector<Staged> variants = smaller(from);
    REQUIRE_FALSE(variants.empty());
    for (const Staged& variant : variants) {
      REQUIRE_NOTHROW(validate(variant.scenario));
      REQUIRE(text(variant) != text(from));
      REQUIRE(std::ranges::all_of(exact_captures(variant.scenario, variant.ranks), std::identity()));
    }
  }
}

// A new variant changes these numbers. A change of the code alone keeps them.
TEST_CASE("the variants of the same scenarios are the same, in the same order") {
  std::uint64_t texts = base::digest("");
  std::size_t variants = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const Staged& variant : smaller(generated(seed))) {
      texts = base::digest(text(variant), texts);
      ++variants;
    }
  }
  CHECK(variants == 1477);
  CHECK(texts == 0x488f823239795823);
}

TEST_CASE("what shows anyhow shrinks to next to nothing, and never comes round", "[long]") {
  for (std::uint64_t seed = 0; seed < rounds(40U); ++seed) {
    CAPTURE(seed);
    int steps = 0;
    const Staged smallest = shrunk(generated(seed), [](const Staged&) { return true; }, steps);
    CHECK(smallest.ranks == 1);
    CHECK(nlohmann::ordered_json(smallest.scenario).dump() ==
          R"({"version":2,"model":{"root":{"kind":"sequential","children":[]}},"plan":{"fully_shard":{"wrap":[]}},)"
          R"("script":{"input":[1,1],"segments":[]}})");
  }
}

TEST_CASE("scenarios for engines with flat parameters shrink to next to nothing as well, and each variant is valid") {
  for (std::uint64_t seed = 0; seed < rounds(40U); ++seed) {
    CAPTURE(seed);
    const Staged from = generated_flat(seed);
    for (const Staged& variant : smaller(from)) {
      REQUIRE_NOTHROW(validate(variant.scenario));
      REQUIRE(text(variant) != text(from));
    }
    int steps = 0;
    const Staged smallest = shrunk(from, [](const Staged&) { return true; }, steps);
    CHECK(smallest.ranks == 1);
    CHECK(nlohmann::ordered_json(smallest.scenario).dump() ==
          R"({"version":2,"model":{"root":{"kind":"sequential","children":[]}},"plan":{"flat_shard":{"wrap":[]}},)"
          R"("script":{"input":[1,1],"segments":[]}})");
  }
}

TEST_CASE("scenarios for replicated engines shrink to next to nothing as well, and each variant is valid") {
  for (std::uint64_t seed = 0; seed < rounds(40U); ++seed) {
    CAPTURE(seed);
    const Staged from = generated_replicated(seed);
    for (const Staged& variant : smaller(from)) {
      REQUIRE_NOTHROW(validate(variant.scenario));
      REQUIRE(text(variant) != text(from));
      // A model that may leave out parameters stays one that an engine accepts.
      bool may_leave_out = false;
      visit(variant.scenario.model.root, "", [&](const Module& module, const std::string&) {
        may_leave_out = may_leave_out || module.kind == ModuleKind::discard || module.kind == ModuleKind::list ||
                        module.kind == ModuleKind::choice;
      });
      REQUIRE((replicate_plan(variant.scenario.plan).unused_parameters || !may_leave_out));
    }
    int steps = 0;
    const Staged smallest = shrunk(from, [](const Staged&) { return true; }, steps);
    CHECK(smallest.ranks == 1);
    CHECK(nlohmann::ordered_json(smallest.scenario).dump() ==
          R"({"version":2,"model":{"root":{"kind":"sequential","children":[]}},"plan":{"replicate":{}},)"
          R"("script":{"input":[1,1],"segments":[]}})");
  }
}

TEST_CASE("a failure that needs an option of replicated engines keeps it, and calls that go with it") {
  int views = 0, compiled = 0, hooks = 0, switches = 0;
  for (std::uint64_t seed = 0; seed < rounds(60U); ++seed) {
    CAPTURE(seed);
    const Staged from = generated_replicated(seed);
    const auto keeps = [&](const std::function<bool(const Scenario&)>& shows, int& times) {
      if (!shows(from.scenario)) return;
      int steps = 0;
      ++times;
      CHECK(shows(shrunk(from, [&](const Staged& staged) { return shows(staged.scenario); }, steps).scenario));
    };
    const auto has_call = [](ActionKind kind) {
      return [kind](const Scenario& scenario) {
        return std::ranges::any_of(scenario.script.segments, [kind](const Script::Segment& segment) {
          return std::ranges::find(segment.body, kind, &Action::kind) != segment.body.end();
        });
      };
    };
    keeps([](const Scenario& scenario) { return replicate_plan(scenario.plan).gradients == BucketGradients::views; },
          views);
    keeps([](const Scenario& scenario) { return replicate_plan(scenario.plan).compile.has_value(); }, compiled);
    // The calls survive the loss of modules, too.
    keeps(has_call(ActionKind::register_hook), hooks);
    keeps(has_call(ActionKind::set_requires_gradient_sync), switches);
  }
  CHECK((views > 0 && compiled > 0 && hooks > 0 && switches > 0));
}

TEST_CASE("calls become plainer: for all ranks, on the first way, without a hook's details") {
  Staged staged{.scenario = {}, .ranks = 3};
  Scenario& scenario = staged.scenario;
  const auto linear = [](const char* name) {
    return Module{.name = name, .kind = ModuleKind::linear, .in_features = 1, .out_features = 1};
  };
  scenario.model.root.children = {
      {.name = "block",
       .children = {{.name = "way", .kind = ModuleKind::choice, .children = {linear("a"), linear("b")}}}}};
  flat_shard_plan(scenario.plan).wrap = {"block.way.b", ""};
  scenario.script.input = {1, 1};
  scenario.script.segments = {
      {.body = {{.kind = ActionKind::register_hook, .hook = Hook{.kind = HookKind::doubled, .state = 3}},
                {.kind = ActionKind::forward, .paths = {{"block.way", "b"}}},
                {.kind = ActionKind::zero_grad, .to_zero = true, .ranks = {0, 2}}}}};
  validate(scenario);
  const std::vector<Staged> variants = smaller(staged);
  const auto has = [&](const std::function<bool(const std::vector<Action>&)>& is) {
    return std::ranges::any_of(variants, [&](const Staged& variant) {
      const auto& segments = variant.scenario.script.segments;
      return !segments.empty() && segments.front().body.size() == 3 && variant.ranks == 3 && is(segments.front().body);
    });
  };
  CHECK(has([](const auto& body) { return body[0].hook->kind == HookKind::plain; }));
  CHECK(has([](const auto& body) { return body[0].hook->state == 0; }));
  CHECK(has([](const auto& body) { return body[1].paths.empty(); }));
  CHECK(has([](const auto& body) { return !body[2].to_zero; }));
  CHECK(has([](const auto& body) { return body[2].ranks.empty(); }));
  CHECK(has([](const auto& body) { return body[2].ranks == std::vector{2}; }));
  // The container gives way to its only child, and the way goes on: both the choice and its child may have other names.
  using Ways = std::map<std::string, std::string>;
  CHECK(has([](const auto& body) { return body[1].paths == Ways{{"block", "b"}}; }));
  CHECK(has([](const auto& body) { return body[1].paths == Ways{{"0.0", "1"}}; }));
  // In a smaller world, the call is for the ranks that are left.
  CHECK(std::ranges::any_of(variants, [](const Staged& variant) {
    return variant.ranks == 2 && variant.scenario.script.segments.front().body.back().ranks == std::vector{0};
  }));
}

TEST_CASE("a convolution becomes a linear layer, or one of fewer channels that still divide its input") {
  Scenario scenario;
  scenario.model.root.children = {
      {.name = "c", .kind = ModuleKind::convolution, .in_features = 6, .out_features = 1, .channels = 3}};
  scenario.model.init = Distribution::truncated_normal;
  fully_shard_plan(scenario.plan);
  scenario.script.input = {1, 6};
  const std::vector<Staged> variants = smaller({.scenario = scenario, .ranks = 1});
  const auto any = [&](const std::function<bool(const Model&, const Module&)>& is) {
    return std::ranges::any_of(variants, [&](const Staged& variant) {
      const Model& model = variant.scenario.model;
      return !model.root.children.empty() && is(model, model.root.children.front());
    });
  };
  CHECK(any([](const Model&, const Module& m) {
    return m.kind == ModuleKind::linear && m.in_features == 6 && m.channels == 0;
  }));
  CHECK(any([](const Model&, const Module& m) {
    return m.kind == ModuleKind::convolution && m.in_features == 6 && m.channels == 1;
  }));
  CHECK(any([](const Model&, const Module& m) { return m.in_features == 3 && m.channels == 3; }));
  CHECK(any([](const Model&, const Module& m) { return m.in_features == 2 && m.channels == 1; }));
  CHECK(any([](const Model&, const Module& m) { return m.kind == ModuleKind::convolution && !m.bias; }));
  CHECK(any([](const Model& model, const Module&) { return model.init == Distribution::uniform; }));
}

TEST_CASE("nothing becomes wider than the widest, also where sequences are longer than that") {
  Staged tokens{.scenario = {}, .ranks = 1};
  tokens.scenario.model.root.children = {
      {.name = "embedding", .kind = ModuleKind::embedding, .features = 1, .vocabulary = 1}};
  tokens.scenario.model.loss.kind = LossKind::cross_entropy;
  tokens.scenario.script.input = {1, 4};
  fully_shard_plan(tokens.scenario.plan).wrap = {{.modules = {""}}};
  validate(tokens.scenario);
  std::vector<Staged> all{tokens};
  for (std::uint64_t seed = 0; seed < rounds(60U); ++seed) all.push_back(generated(seed));
  for (const Staged& from : all) {
    for (const Staged& variant : smaller(from))
      REQUIRE(widest(variant.scenario) <= std::max(widest(from.scenario), from.scenario.script.input[1]));
  }
  for (const Staged& variant : smaller(tokens)) CHECK(widest(variant.scenario) <= 1);
}

TEST_CASE("whichever variant is taken, there is an end", "[long]") {
  for (std::uint64_t seed = 0; seed < rounds(60U); ++seed) {
    CAPTURE(seed);
    Staged staged = generated(seed);
    std::uint64_t draws = seed;
    int steps = 0;
    for (std::vector<Staged> variants = smaller(staged); !variants.empty(); variants = smaller(staged)) {
      staged = variants[base::next_random(draws) % variants.size()];
      REQUIRE(++steps < 500);
    }
  }
}

TEST_CASE("shrinking keeps what shows the failure, and little else", "[long]") {
  struct Shown {
    const char* what;
    std::function<bool(const Staged&)> shows;
    std::size_t longest;  ///< of the document, in bytes
  };
  const std::vector<Shown> all{
      {"four ranks on a mesh",
       [](const Staged& s) { return s.ranks == 4 && s.scenario.plan.mesh.shape == std::vector{2, 2}; }, 200},
      {"a module that runs twice", [](const Staged& s) { return runs_twice(s.scenario); }, 260},
      {"a step and a capture",
       [](const Staged& s) {
         const auto has = [&](ActionKind kind) {
           return std::ranges::any_of(s.scenario.script.segments, [&](const auto& segment) {
             return std::ranges::count(segment.body, kind, &Action::kind) > 0;
           });
         };
         return has(ActionKind::step) && has(ActionKind::capture);
       },
       220},
      {"a cost of a group",
       [](const Staged& s) {
         return std::ranges::any_of(s.scenario.costs.tagged_collectives,
                                    [](const auto& entry) { return entry.first.second != extension_sizes_tag; });
       },
       310}};
  for (const Shown& shown : all) {
    CAPTURE(shown.what);
    int found = 0;
    for (std::uint64_t seed = 0; seed < 400 && found < 5; ++seed) {
      const Staged from = generated(seed);
      if (!shown.shows(from)) continue;
      CAPTURE(seed);
      ++found;
      int steps = 0;
      const Staged smallest = shrunk(from, shown.shows, steps);
      const std::string document = nlohmann::ordered_json(smallest.scenario).dump();
      INFO(document);
      CHECK(shown.shows(smallest));
      CHECK(document.size() <= shown.longest);
    }
    CHECK(found == 5);
  }
}

TEST_CASE("a container gives way to its only child, whose group and cost go on") {
  Staged staged{.scenario = {}, .ranks = 2};
  Scenario& scenario = staged.scenario;
  const Module inner{.name = "linear", .kind = ModuleKind::linear, .in_features = 1, .out_features = 1};
  const Module again{.name = "again", .kind = ModuleKind::use, .target = "block.linear"};
  scenario.model.root.children = {{.name = "block", .kind = ModuleKind::sequential, .children = {inner}}, again};
  fully_shard_plan(scenario.plan).wrap = {{.modules = {"block.linear"}}, {.modules = {"block"}}, {.modules = {""}}};
  fully_shard_plan(scenario.plan).wrap[2].forward_prefetch = {"block.linear"};
  fully_shard_plan(scenario.plan).shard_dims = {{"block.linear.weight", -2}};
  scenario.costs.tagged_collectives[{CollectiveKind::all_gather, "block.linear"}] = 5;
  scenario.costs.labelled_work[{WorkKind::forward, "block.linear"}] = 7;
  scenario.script.input = {1, 1};
  scenario.script.segments = {{.body = {{.kind = ActionKind::forward, .fails_in = "block.linear"},
                                        {.kind = ActionKind::unshard, .module = "block"}}}};
  validate(scenario);
  const std::vector<Staged> variants = smaller(staged);
  const bool is_there = std::ranges::any_of(variants, [](const Staged& variant) {
    return nlohmann::ordered_json(variant.scenario).dump() ==
           R"({"version":2,"model":{"root":{"kind":"sequential","children":[{"name":"block","kind":"linear",)"
           R"("in_features":1,"out_features":1},)"
           R"({"name":"again","kind":"use","module":"block"}]}},"plan":{"fully_shard":{"wrap":[{"modules":["block"]},)"
           R"({"modules":[""],"forward_prefetch":["block"]}],"shard_dims":{"block.weight":-2}}},)"
           R"("script":{"input":[1,1],"segments":)"
           R"([{"body":[{"call":"forward","fails_in":"block"},{"call":"unshard","module":"block"}]}]},)"
           R"("costs":{"work":{"forward":)"
           R"({"labelled":{"block":"7ns"}}},"collectives":{"all_gather":{"tagged":{"block":"5ns"}}}}})";
  });
  CHECK(is_there);
}

TEST_CASE("a hook goes with its module, follows its name, and becomes the plainest at its point") {
  Staged staged{.scenario = {}, .ranks = 3};
  Scenario& scenario = staged.scenario;
  const auto linear = [](std::string name) {
    return Module{.name = std::move(name), .kind = ModuleKind::linear, .in_features = 1, .out_features = 1};
  };
  scenario.model.root.children = {linear("a"), linear("b")};
  fully_shard_plan(scenario.plan).wrap = {{.modules = {"b"}}, {.modules = {""}}};
  scenario.script.input = {1, 1};
  const Hook of_b{
      .kind = HookKind::doubled, .point = HookPoint::after_reduction, .state = 5, .direct = true, .fails_on = {0, 2}};
  const Hook of_all{.kind = HookKind::not_callable, .refused = true};
  scenario.script.segments = {{.body = {{.kind = ActionKind::register_hook, .module = "b", .hook = of_b},
                                        {.kind = ActionKind::register_hook, .hook = of_all},
                                        {ActionKind::forward}}}};
  validate(scenario);
  std::vector<std::vector<Hook>> hooks;
  bool drops_only_the_group = false;
  for (const Staged& variant : smaller(staged)) {
    const auto& wrap = fully_shard_plan(variant.scenario.plan).wrap;
    const bool has_b = variant.scenario.model.root.children.size() == 2;
    drops_only_the_group =
        drops_only_the_group || (has_b && wrap.size() == 1 && wrap[0].modules == std::vector<std::string>{""});
    hooks.emplace_back();
    for (const Script::Segment& segment : variant.scenario.script.segments) {
      for (const Action& action : segment.body) {
        if (!action.hook) continue;
        hooks.back().push_back(*action.hook);
        if (action.hook->refused) CHECK(action.module.empty());
        if (variant.ranks < 3) CHECK((action.hook->fails_on.empty() || action.hook->fails_on == std::vector{0}));
      }
    }
  }
  const auto is_offered = [&](const std::vector<Hook>& wanted) {
    return std::ranges::find(hooks, wanted) != hooks.end();
  };
  const auto change = [&](const std::function<void(Hook&)>& one) {
    Hook changed = of_b;
    one(changed);
    return std::vector{changed, of_all};
  };
  CHECK(drops_only_the_group);
  CHECK(is_offered({of_all}));
  CHECK(is_offered(change([](Hook& hook) { hook.kind = HookKind::plain; })));
  CHECK(is_offered(change([](Hook& hook) { hook.state = 0; })));
  CHECK(is_offered(change([](Hook& hook) { hook.direct = false; })));
  CHECK(is_offered(change([](Hook& hook) { hook.fails_on.clear(); })));
  CHECK(is_offered({of_b, {.kind = HookKind::plain, .refused = true}}));

  int steps = 0;
  const Staged smallest = shrunk(
      staged,
      [](const Staged& variant) {
        return std::ranges::any_of(variant.scenario.script.segments, [](const Script::Segment& segment) {
          return std::ranges::any_of(segment.body,
                                     [](const Action& action) { return action.hook && !action.hook->refused; });
        });
      },
      steps);
  CHECK(smallest.scenario.script.segments ==
        std::vector{Script::Segment{
            .body = {{.kind = ActionKind::register_hook, .hook = Hook{.point = HookPoint::after_reduction}}}}});
}
