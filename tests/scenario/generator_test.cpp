#include "harness/scenario/generator/generator.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/base/digest.hpp"
#include "harness/scenario/exactness.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/scenario/plan/replicate.hpp"
#include "harness/scenario/scenario_json.hpp"
#include "tests/rounds.hpp"

using namespace shardproof;
using namespace shardproof::scenario;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using shardproof::testing::rounds;

namespace {

constexpr int seeds = rounds(3000);
const std::vector<int> sizes{1, 2, 3, 4};

std::vector<std::string> features_of(const std::string& kind) {
  const auto names = find_engine_kind(kind)->feature_names();
  return {names.begin(), names.end()};
}

// Features that no scenario shows, and features that no plan of the kind has.
const std::vector<std::string>& never_drawn(const std::string& kind) {
  static const std::vector<std::string> fully{"thread_ranks", "reduction_hooks", "forward_methods"},
      flat{"thread_ranks", "clip_grad_norm", "ignored_parameters", "all_gather_extensions"},
      replicated{"thread_ranks",          "clip_grad_norm",  "ignored_parameters",
                 "all_gather_extensions", "mixed_precision", "replicated_mesh"};
  return kind == "flat_shard" ? flat : kind == "replicate" ? replicated : fully;
}

std::uint64_t digest_of_flat(std::uint64_t count) {
  const Palette palette = full_palette("flat_shard");
  std::uint64_t texts = base::digest("");
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const Staged made = generate("flat_shard", seed, sizes, palette);
    texts = base::digest(std::to_string(made.ranks) + nlohmann::ordered_json(made.scenario).dump(), texts);
  }
  return texts;
}

bool any_call(const Scenario& scenario, std::initializer_list<ActionKind> kinds) {
  return std::ranges::any_of(scenario.script.segments, [&](const Script::Segment& segment) {
    return std::ranges::any_of(
        segment.body, [&](const Action& action) { return std::ranges::find(kinds, action.kind) != kinds.end(); });
  });
}

bool any_group(const Scenario& scenario, const std::function<bool(const WrapGroup&)>& is) {
  return std::ranges::any_of(fully_shard_plan(scenario.plan).wrap, is);
}

using Seen = std::function<bool(const Scenario&)>;

/// By feature and ingredient: true if a document shows it.
const std::map<std::string, Seen>& shown() {
  using Kind = ModuleKind;
  const auto has_kind = [](std::initializer_list<Kind> kinds) {
    return [kinds = std::vector<Kind>(kinds)](const Scenario& scenario) {
      return any_module(scenario,
                        [&](const Module& module) { return std::ranges::find(kinds, module.kind) != kinds.end(); });
    };
  };
  static const std::map<std::string, Seen> all{
      {"post_optim_event", [](const Scenario& s) { return any_call(s, {ActionKind::post_optim_event}); }},
      {"serial", [](const Scenario& s) { return s.device.single_stream; }},
      {"replicated_mesh", [](const Scenario& s) { return s.plan.mesh.shape.size() == 2; }},
      {"gradient_accumulation",
       [](const Scenario& s) {
         return any_call(s, {ActionKind::set_requires_gradient_sync, ActionKind::set_reshard_after_backward,
                             ActionKind::set_is_last_backward, ActionKind::set_requires_all_reduce});
       }},
      {"prefetch_lists",
       [](const Scenario& s) {
         return any_group(
             s, [](const WrapGroup& g) { return !g.forward_prefetch.empty() || !g.backward_prefetch.empty(); });
       }},
      {"manual_unshard",
       [](const Scenario& s) {
         return any_call(s, {ActionKind::unshard, ActionKind::wait_for_unshard, ActionKind::reshard});
       }},
      {"reshard_to_size",
       [](const Scenario& s) {
         return any_group(
             s, [](const WrapGroup& g) { return g.reshard_after_forward.kind == ReshardAfterForward::Kind::size; });
       }},
      {"shard_dims", [](const Scenario& s) { return !fully_shard_plan(s.plan).shard_dims.empty(); }},
      {"gradient_divide_factor",
       [](const Scenario& s) { return fully_shard_plan(s.plan).gradient_divide_factor != 0; }},
      {"clip_grad_norm", [](const Scenario& s) { return any_call(s, {ActionKind::clip_grad_norm}); }},
      {"module_groups",
       [](const Scenario& s) { return any_group(s, [](const WrapGroup& g) { return g.modules.size() > 1; }); }},
      {"ignored_parameters", [](const Scenario& s) { return !fully_shard_plan(s.plan).ignored_parameters.empty(); }},
      {"shared_parameters",
       [](const Scenario& s) { return any_module(s, [](const Module& m) { return !m.tied_to.empty(); }); }},
      {"language_model", [](const Scenario& s) { return s.model.loss.kind == LossKind::cross_entropy; }},
      {"convolution", has_kind({Kind::convolution})},
      {"failed_forward",
       [](const Scenario& s) {
         return std::ranges::any_of(s.script.segments, [](const Script::Segment& segment) {
           return std::ranges::any_of(segment.body, [](const Action& action) { return action.fails_in.has_value(); });
         });
       }},
      {"all_gather_extensions", [](const Scenario& s) { return any_call(s, {ActionKind::extend}); }},
      {"mixed_precision", [](const Scenario& s) { return s.plan.mixed_precision != MixedPrecision(); }},
      {"meta_initialisation", [](const Scenario& s) { return s.plan.initialisation == Initialisation::meta; }},
      {"hidden_memory", [](const Scenario& s) { return s.device.hide_undeclared_memory; }},
      {"residuals",
       [](const Scenario& s) {
         return s.model.loss.kind != LossKind::cross_entropy &&
                any_module(s, [](const Module& m) { return m.kind == Kind::residual; });
       }},
      {"scales", has_kind({Kind::scale})},
      {"frozen_parameters", [](const Scenario& s) { return any_module(s, [](const Module& m) { return m.frozen; }); }},
      {"unused_modules", has_kind({Kind::discard, Kind::list})},
      {"repeated_modules", has_kind({Kind::use})},
      {"evaluation", [](const Scenario& s) { return any_call(s, {ActionKind::evaluate}); }},
      {"adam", [](const Scenario& s) { return s.plan.optimizer.kind != OptimizerKind::sgd; }},
      {"costs_of_work", [](const Scenario& s) { return !s.costs.work.empty() || !s.costs.labelled_work.empty(); }}};
  return all;
}

}  // namespace

TEST_CASE("what is generated is valid, and the same for the same seed, also as a document") {
  const Palette everything = full_palette("fully_shard");
  int captures = 0, without = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Staged made = generate("fully_shard", seed, sizes, everything);  // throws where it is not valid
    if (seed % 10 != 0) continue;
    REQUIRE(std::ranges::find(sizes, made.ranks) != sizes.end());
    REQUIRE(made.scenario == generate("fully_shard", seed, sizes, everything).scenario);
    const nlohmann::ordered_json document = made.scenario;
    REQUIRE(parse_scenario(document.dump()) == made.scenario);
    const std::vector<bool> exact = exact_captures(made.scenario, made.ranks);
    REQUIRE(std::ranges::all_of(exact, std::identity()));
    captures += static_cast<int>(exact.size());
    without += exact.empty() ? 1 : 0;
  }
  // Most scenarios show something of their values.
  CHECK(captures > seeds / 10 / 2);
  CHECK(without < seeds / 10 / 2);
}

TEST_CASE(
    "what is drawn for engines with flat parameters is valid, and the same for the same seed, also as a document") {
  const Palette everything = full_palette("flat_shard");
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Staged made = generate("flat_shard", seed, sizes, everything);
    REQUIRE(made.scenario.plan.engine.kind() == "flat_shard");
    if (seed % 10 != 0) continue;
    REQUIRE(made.scenario == generate("flat_shard", seed, sizes, everything).scenario);
    REQUIRE(parse_scenario(nlohmann::ordered_json(made.scenario).dump()) == made.scenario);
    const std::vector<bool> exact = exact_captures(made.scenario, made.ranks);
    REQUIRE(std::ranges::all_of(exact, std::identity()));
  }
}

TEST_CASE(
    "what is drawn for replicated engines is valid, the same for the same seed, and has several buckets of many "
    "sizes") {
  const Palette everything = full_palette("replicate");
  int filled = 0, first_differs = 0, whole = 0, unused = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Staged made = generate("replicate", seed, sizes, everything);
    const ReplicatePlan& section = replicate_plan(made.scenario.plan);
    for (const ParameterShape& parameter : parameters(made.scenario.model)) {
      if (parameter.trainable && numel(parameter.shape) * 4 == section.bucket_bytes && section.bucket_bytes > 4)
        ++filled;
    }
    first_differs += section.first_bucket_bytes != section.bucket_bytes ? 1 : 0;
    whole += section.bucket_bytes == ReplicatePlan().bucket_bytes ? 1 : 0;
    unused += section.unused_parameters ? 1 : 0;
    if (seed % 10 != 0) continue;
    REQUIRE(made.scenario == generate("replicate", seed, sizes, everything).scenario);
    REQUIRE(parse_scenario(nlohmann::ordered_json(made.scenario).dump()) == made.scenario);
    const std::vector<bool> exact = exact_captures(made.scenario, made.ranks);
    REQUIRE(std::ranges::all_of(exact, std::identity()));
  }
  CHECK(filled > seeds / 10);
  CHECK(first_differs > seeds / 2);
  CHECK(whole > seeds / 20);
  CHECK(unused > seeds / 5);
  CHECK(unused < seeds * 4 / 5);
}

TEST_CASE("compiled steps of each region and fusion are drawn, with nothing that they cannot have") {
  const Palette everything = full_palette("replicate");
  std::map<std::pair<CompiledRegion, BucketFusion>, int> times;
  int at_once = 0, compressing = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Scenario scenario = generate("replicate", seed, sizes, everything).scenario;
    const ReplicatePlan& section = replicate_plan(scenario.plan);
    if (!section.compile) continue;
    ++times[{section.compile->region, section.compile->fusion}];
    at_once += section.compile->schedule_waits ? 0 : 1;
    REQUIRE(section.gradients == BucketGradients::copies);
    REQUIRE_FALSE(section.unused_parameters);
    for (const Script::Segment& segment : scenario.script.segments) {
      for (const Action& action : segment.body) {
        if (!action.hook) continue;
        REQUIRE((action.hook->kind == HookKind::fp16_compress || action.hook->kind == HookKind::bf16_compress));
        ++compressing;
      }
    }
  }
  CHECK(times.size() == 6);
  CHECK((at_once > 0 && compressing > 0));
}

TEST_CASE("where parameters may not be unused, each forward that is drawn uses all of them") {
  const Palette usual_palette = full_palette("replicate", std::vector<std::string>{"unused_parameters"});
  int repeated = 0;
  for (std::uint64_t seed = 0; seed < rounds(500U); ++seed) {
    CAPTURE(seed);
    const Scenario scenario = generate("replicate", seed, sizes, usual_palette).scenario;
    REQUIRE_FALSE(replicate_plan(scenario.plan).unused_parameters);
    const auto leaves_out = [](const Module& module) {
      return module.kind == ModuleKind::discard || module.kind == ModuleKind::list || module.kind == ModuleKind::choice;
    };
    REQUIRE_FALSE(any_module(scenario, leaves_out));
    repeated += any_module(scenario, [](const Module& module) { return module.kind == ModuleKind::use; }) ? 1 : 0;
  }
  CHECK(repeated > 0);
}

TEST_CASE("a scenario needs the features that it was drawn with, and no feature that was left out") {
  for (const std::string kind : {"fully_shard", "flat_shard", "replicate"}) {
    const Palette everything = full_palette(kind);
    std::map<std::string, int> times;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      for (const Feature feature : needed_features(generate(kind, seed, sizes, everything).scenario))
        ++times[std::string(feature.name())];
    }
    for (const std::string& name : features_of(kind)) {
      CAPTURE(kind, name);
      const bool is_drawn = std::ranges::find(never_drawn(kind), name) == never_drawn(kind).end();
      CHECK((times[name] > 0) == is_drawn);
      if (name == "module_groups") continue;  // its ingredients are left out one by one
      const Palette rest = full_palette(kind, std::vector{name});
      for (std::uint64_t seed = 0; seed < rounds(60U); ++seed) {
        CAPTURE(seed);
        const auto needed = needed_features(generate(kind, seed, sizes, rest).scenario);
        REQUIRE(std::ranges::find(needed, name, &Feature::name) == needed.end());
      }
    }
  }
}

// Faults hide in products of features.
TEST_CASE("each two features and ingredients that do not exclude each other are in some scenario", "[long]") {
  for (const std::string kind : {"fully_shard", "flat_shard", "replicate"}) {
    const Palette everything = full_palette(kind);
    const std::vector<Trait> all = possible_traits(kind, everything);
    CHECK(all.size() > 25);
    for (const Trait one : all) {
      for (const Trait other : all) {
        if (other <= one) continue;
        CAPTURE(kind, one, other);
        Palette wanting = everything;
        wanting.wanted = {one, other};
        bool is_drawn = false;
        for (std::uint64_t seed = 0; seed < 400 && !is_drawn; ++seed) {
          const std::set<Trait> has = traits(generate(kind, seed, sizes, wanting).scenario);
          is_drawn = has.contains(one) && has.contains(other);
        }
        CHECK(is_drawn == !exclude_each_other(kind, one, other));
      }
    }
  }
}

TEST_CASE("a palette that wants nothing draws each trait now and then, and one that leaves a trait out never does") {
  for (const std::string kind : {"fully_shard", "flat_shard", "replicate"}) {
    for (const Trait trait : possible_traits(kind, full_palette(kind))) {
      if (trait == "module_groups") continue;  // its ingredients are left out one by one
      CAPTURE(kind, trait);
      const Palette rest = full_palette(kind, std::vector{std::string(trait)});
      for (std::uint64_t seed = 0; seed < rounds(30U); ++seed)
        REQUIRE_FALSE(traits(generate(kind, seed, sizes, rest).scenario).contains(trait));
    }
  }
}

TEST_CASE("ways through the model, several forwards and zeroed gradients are drawn") {
  const Palette flat = full_palette("flat_shard"), fully = full_palette("fully_shard");
  const std::map<std::string, Seen> all{
      {"choices",
       [](const Scenario& s) { return any_module(s, [](const Module& m) { return m.kind == ModuleKind::choice; }); }},
      {"several_forwards",
       [](const Scenario& s) {
         return std::ranges::any_of(s.script.segments, [](const Script::Segment& segment) {
           const auto is_forward = [](const Action& action) { return action.kind == ActionKind::forward; };
           return std::ranges::adjacent_find(segment.body, [&](const Action& a, const Action& b) {
                    return is_forward(a) && !a.fails_in && is_forward(b);
                  }) != segment.body.end();
         });
       }},
      {"zeroing", [](const Scenario& s) {
         return std::ranges::any_of(s.script.segments, [](const Script::Segment& segment) {
           return std::ranges::any_of(segment.body, [](const Action& action) { return action.to_zero; });
         });
       }}};
  for (const auto& [name, is_in] : all) {
    CAPTURE(name);
    int with = 0, with_fully = 0;
    const Palette rest = full_palette("flat_shard", std::vector{name});
    for (std::uint64_t seed = 0; seed < rounds(300U); ++seed) {
      with += is_in(generate("flat_shard", seed, sizes, flat).scenario) ? 1 : 0;
      REQUIRE_FALSE(is_in(generate("flat_shard", seed, sizes, rest).scenario));
      with_fully += is_in(generate("fully_shard", seed, sizes, fully).scenario) ? 1 : 0;
    }
    CHECK(with > 0);
    CHECK(with_fully > 0);
  }
}

// Users quote seeds: a seed keeps its scenario. New draws change all of them, so a change of these numbers is a
// decision.
TEST_CASE("the same seeds give the documents that they gave before") {
  const Palette everything = full_palette("fully_shard"), plainest = palette("fully_shard", {}, {});
  const auto digest_of = [](std::uint64_t count, const Palette& palette) {
    std::uint64_t texts = base::digest("");
    for (std::uint64_t seed = 0; seed < count; ++seed) {
      const Staged made = generate("fully_shard", seed, sizes, palette);
      texts = base::digest(std::to_string(made.ranks) + nlohmann::ordered_json(made.scenario).dump(), texts);
    }
    return texts;
  };
  CHECK(digest_of(400, everything) == 0xee06fba5640a876f);
  CHECK(digest_of(200, plainest) == 0x4bc2fa328a4c0077);
  CHECK(digest_of_flat(400) == 0xa1a07ab7b943f794);
}

TEST_CASE("each feature and each ingredient is in some scenario, and in none that leaves it out", "[long]") {
  const Palette everything = full_palette("fully_shard");
  for (const auto& [name, is_in] : shown()) {
    CAPTURE(name);
    int with = 0;
    const Palette rest = full_palette("fully_shard", std::vector{name});
    for (std::uint64_t seed = 0; seed < 300 && (with == 0 || seed < rounds(300U)); ++seed) {
      with += is_in(generate("fully_shard", seed, sizes, everything).scenario) ? 1 : 0;
      REQUIRE_FALSE(is_in(generate("fully_shard", seed, sizes, rest).scenario));
    }
    CHECK(with > 0);
  }
  // No scenario shows a feature that all scenarios use, nor what is not drawn.
  std::vector<std::string> rest = features_of("fully_shard");
  std::erase_if(rest, [](const std::string& name) { return shown().contains(name); });
  CHECK(rest ==
        std::vector<std::string>{"timeline", "thread_ranks", "truncated_normal", "reduction_hooks", "forward_methods"});
}

TEST_CASE("a subject that claims nothing besides is given the plainest scenarios") {
  const Palette plainest = palette("fully_shard", std::vector<std::string>{"timeline"}, {});
  for (std::uint64_t seed = 0; seed < rounds(300U); ++seed) {
    const Staged made = generate("fully_shard", seed, sizes, plainest);
    for (const std::string& name : features_of("fully_shard")) {
      CAPTURE(seed, name);
      if (shown().contains(name)) REQUIRE_FALSE(shown().at(name)(made.scenario));
    }
    for (const std::string name : {"residuals", "scales", "frozen_parameters", "unused_modules", "repeated_modules"}) {
      CAPTURE(seed, name);
      REQUIRE_FALSE(shown().at(name)(made.scenario));
    }
    REQUIRE(fully_shard_plan(made.scenario.plan).backward_prefetch == BackwardPrefetch::previous);
  }
}

TEST_CASE("no module sleeps for a subject without a timeline") {
  const Palette untimed = palette("fully_shard", {}, {});
  for (std::uint64_t seed = 0; seed < rounds(300U); ++seed) {
    CAPTURE(seed);
    const Staged made = generate("fully_shard", seed, sizes, untimed);
    REQUIRE_FALSE(
        any_module(made.scenario, [](const Module& m) { return m.forward_sleep > 0 || m.backward_sleep > 0; }));
  }
}

TEST_CASE("the seed chooses the number of ranks, too") {
  const Palette everything = full_palette("fully_shard");
  std::map<int, int> times;
  for (std::uint64_t seed = 0; seed < rounds(300U); ++seed)
    ++times[generate("fully_shard", seed, sizes, everything).ranks];
  for (const int size : sizes) CHECK(times[size] > rounds(40));
  CHECK(generate("fully_shard", 7, std::vector{3}, everything).ranks == 3);
}

TEST_CASE("names of features and ingredients that are none are answered with those that there are") {
  CHECK_THROWS_MATCHES(palette("fully_shard", std::vector<std::string>{"tea"}, {}), std::invalid_argument,
                       MessageMatches(ContainsSubstring("\"tea\" is unknown; there is timeline, serial, ") &&
                                      ContainsSubstring(", shard_dims, ")));
  CHECK_THROWS_MATCHES(palette("fully_shard", {}, std::vector<std::string>{"tea"}), std::invalid_argument,
                       MessageMatches(ContainsSubstring("\"tea\" is unknown") && ContainsSubstring(", adam, ")));
}
