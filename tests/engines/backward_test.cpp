// The work of the engine in a backward besides gradients. No step follows, which would order everything.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fixtures/engines/reference.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "tests/engines/networks.hpp"
#include "tests/engines/thread_ranks.hpp"
#include "tests/player/simulated.hpp"

using namespace shardproof;
using namespace shardproof::engines;

namespace {

const Action forward{.kind = ActionKind::forward}, backward{.kind = ActionKind::backward};

Action forward_of(std::string module) { return {.kind = ActionKind::forward, .module = std::move(module)}; }

/// On the first rank; layers are of four features.
Run played_by(Plan plan, std::vector<Module> layers, std::vector<Action> body, int ranks = 2) {
  Scenario scenario{.model = model_of(std::move(layers)), .plan = std::move(plan), .script = {}, .costs = {}};
  scenario.script.input = {2, 4};
  scenario.script.segments = {{.body = std::move(body)}};
  std::optional<Run> first;
  on_thread_ranks(ranks, [&](int rank, Group& group) {
    Reference subject;
    Run run = testing::play_simulated(scenario, subject, group, rank);
    if (rank == 0) first = std::move(run);
  });
  return std::move(*first);
}

Run played(std::vector<Module> layers, std::vector<std::string> wrapped, std::vector<Action> body) {
  Plan plan;
  for (std::string& path : wrapped) fully_shard_plan(plan).wrap.push_back({.modules = {std::move(path)}});
  return played_by(std::move(plan), std::move(layers), std::move(body));
}

/// "gather a", "scatter b", … in the order in which they were issued.
std::vector<std::string> collectives(const Run& run) {
  std::vector<std::string> all;
  for (const Fact& fact : run.trace().facts) {
    const auto* const collective = std::get_if<fact::Collective>(&fact);
    if (collective == nullptr) continue;
    const char* const what = collective->kind == CollectiveKind::all_gather       ? "gather "
                             : collective->kind == CollectiveKind::reduce_scatter ? "scatter "
                                                                                  : "other ";
    all.push_back(what + collective->tag);
  }
  return all;
}

}  // namespace

TEST_CASE("a weight is reduced once, when all its uses have come") {
  const std::vector<Module> layers{linear_module("a", 4, 4), use_of("again", "a")};
  CHECK(collectives(played(layers, {"a", ""}, {forward, backward})) ==
        std::vector<std::string>{"gather a", "gather a", "gather a", "gather a", "scatter a"});
  // A root is not resharded between its forwards.
  CHECK(collectives(played(layers, {"a"}, {forward, backward})) ==
        std::vector<std::string>{"gather a", "gather a", "scatter a"});
}

TEST_CASE("a group that a backward does not reach is resharded after it, every time") {
  Module frozen = linear_module("frozen", 4, 4);
  frozen.frozen = true;
  const Run run =
      played({frozen, linear_module("a", 4, 4)}, {"a", ""}, {forward, backward, forward, backward, forward});
  const std::vector<std::string> all = collectives(run);
  CHECK(std::ranges::count(all, "gather ") == 3);
}

TEST_CASE("roots end in the order in which a backward reaches them") {
  const Run run = played({linear_module("a", 4, 4), linear_module("b", 4, 4)}, {"a", "b"}, {forward, backward});
  const auto& facts = run.trace().facts;
  const auto scattered = std::ranges::find_if(facts, [](const Fact& fact) {
    const auto* const collective = std::get_if<fact::Collective>(&fact);
    return collective != nullptr && collective->kind == CollectiveKind::reduce_scatter && collective->tag == "b";
  });
  const auto packed = std::ranges::find_if(facts, [](const Fact& fact) {
    const auto* const work = std::get_if<fact::Work>(&fact);
    return work != nullptr && work->kind == WorkKind::reduce_copy_in && work->label == "a";
  });
  REQUIRE(scattered < packed);
  CHECK(std::any_of(scattered, packed, [](const Fact& fact) {
    const auto* const wait = std::get_if<fact::EventWaited>(&fact);
    return wait != nullptr && wait->stream == Device::compute.id;
  }));
}

TEST_CASE("a root that a backward does not come to stays as it is") {
  const Run run = played(
      {linear_module("a", 4, 4), linear_module("b", 4, 4)}, {"a", "b"},
      {forward, backward, {.kind = ActionKind::unshard, .module = "a"}, forward_of("b"), backward, forward_of("a")});
  CHECK(std::ranges::count(collectives(run), "gather a") == 2);
}

TEST_CASE("after a gather by hand the streams of all-gathers wait until it has been unpacked") {
  const Run run = played({linear_module("a", 4, 4)}, {"a", ""},
                         {{.kind = ActionKind::unshard, .module = "a", .async = true}, forward, backward});
  const auto& facts = run.trace().facts;
  const auto works = [&](WorkKind kind) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < facts.size(); ++i) {
      const auto* const work = std::get_if<fact::Work>(&facts[i]);
      if (work != nullptr && work->kind == kind) found.push_back(i);
    }
    return found;
  };
  const std::vector<std::size_t> packed = works(WorkKind::copy_in), unpacked = works(WorkKind::copy_out);
  REQUIRE(packed.size() == 2);
  REQUIRE(unpacked.size() == 2);
  REQUIRE(unpacked[0] < packed[1]);
  const auto gathered = std::find_if(facts.begin() + static_cast<std::ptrdiff_t>(packed[1]), facts.end(),
                                     [](const Fact& fact) { return std::holds_alternative<fact::Collective>(fact); });
  REQUIRE(gathered != facts.end());
  for (const std::uint32_t stream :
       {std::get<fact::Work>(facts[packed[1]]).stream, std::get<fact::Collective>(*gathered).stream}) {
    CHECK(std::any_of(facts.begin() + static_cast<std::ptrdiff_t>(unpacked[0]),
                      facts.begin() + static_cast<std::ptrdiff_t>(packed[1]), [stream](const Fact& fact) {
                        const auto* const wait = std::get_if<fact::EventWaited>(&fact);
                        return wait != nullptr && wait->stream == stream;
                      }));
  }
}

TEST_CASE(
    "what forward gathers itself is kept until the next group is being gathered, whatever was gathered by hand "
    "before") {
  const Action by_hand{.kind = ActionKind::unshard, .module = "a"},
      ahead{.kind = ActionKind::unshard, .module = "a", .async = true};
  const Action reshard{.kind = ActionKind::reshard, .module = "a"}, step{.kind = ActionKind::step};
  const auto is_kept = [](std::vector<Action> body) {
    const Run run = played({linear_module("a", 4, 4), linear_module("b", 4, 4)}, {"a", "b", ""}, std::move(body));
    // Of the last all-gather of "a": is its buffer released behind the all-gather of "b"?
    std::uint64_t buffer = 0;
    bool is_next_gathered = false, kept = false;
    for (const Fact& fact : run.trace().facts) {
      if (const auto* const collective = std::get_if<fact::Collective>(&fact)) {
        is_next_gathered = collective->tag == "b";
        if (collective->tag == "a") buffer = collective->writes.front().buffer;
      } else if (const auto* const released = std::get_if<fact::Released>(&fact);
                 released != nullptr && released->buffer == buffer) {
        kept = is_next_gathered;
      }
    }
    return kept;
  };
  CHECK(is_kept({forward}));
  CHECK_FALSE(is_kept({ahead, forward}));
  CHECK(is_kept({ahead, forward, backward, forward}));
  CHECK(is_kept({by_hand, ahead, reshard, forward}));
  CHECK(is_kept({ahead, step, forward}));
}

TEST_CASE("clipping without gradients makes no all-reduce") {
  const Action clip{.kind = ActionKind::clip_grad_norm, .max_norm = 1};
  CHECK(collectives(played({linear_module("a", 4, 4)}, {"a"}, {forward, clip})) ==
        std::vector<std::string>{"gather a"});
  CHECK(collectives(played({linear_module("a", 4, 4)}, {"a"}, {forward, backward, clip})).size() == 3);
}

// PyTorch does the same, as `shardproof play` shows: a group finishes with the last of its modules, or else with the
// root.
TEST_CASE("a group that is unfinished before the root is gathered when a backward begins") {
  const auto gathered_last = [](std::vector<Module> layers, std::string partner_of_a = "b") {
    const Plan plan = plan_of(
        {{.modules = {"c"}}, {.modules = {"a", std::move(partner_of_a)}}, {.modules = {"d"}}, {.modules = {""}}});
    Run run = played_by(plan, std::move(layers), {forward, backward});
    const auto& facts = run.trace().facts;
    const auto computed = std::ranges::find_if(facts, [](const Fact& fact) {
      const auto* const work = std::get_if<fact::Work>(&fact);
      return work != nullptr && work->kind == WorkKind::backward;
    });
    std::string last;
    for (auto fact = facts.begin(); fact != computed; ++fact) {
      if (const auto* const collective = std::get_if<fact::Collective>(&*fact)) last = collective->tag;
    }
    return last;
  };
  const Module a = linear_module("a", 4, 4), b = linear_module("b", 4, 4), c = linear_module("c", 4, 4),
               d = linear_module("d", 4, 4);
  CHECK(gathered_last({a, b, c, d}) == "c");  // ahead of it
  CHECK(gathered_last({a, b, c, use_of("again", "a"), d}) == "a");
  CHECK(gathered_last({a, c, {.name = "kept", .kind = ModuleKind::list, .children = {b}}, d}, "kept.b") == "a");
}

// PyTorch's engine waits for it all the same: what it waits for stays until a gather has.
TEST_CASE("the gather after a reshard by hand waits for the forward that made the larger parts") {
  const ReshardAfterForward to_pairs{.kind = ReshardAfterForward::Kind::size, .size = 2};
  const Plan plan = plan_of({{.modules = {"a"}, .reshard_after_forward = to_pairs}, {.modules = {""}}});
  const Action drop{.kind = ActionKind::reshard, .module = "a"};
  const Run run = played_by(plan, {linear_module("a", 4, 4)}, {forward, drop, backward}, 4);
  const auto& facts = run.trace().facts;
  const auto last = [&](WorkKind kind) {
    return std::find_if(facts.rbegin(), facts.rend(), [kind](const Fact& fact) {
      const auto* const work = std::get_if<fact::Work>(&fact);
      return work != nullptr && work->kind == kind;
    });
  };
  const auto packed = last(WorkKind::copy_in), computed = last(WorkKind::forward);
  REQUIRE(packed < computed);  // read from the end
  REQUIRE(computed != facts.rend());
  CHECK(std::any_of(packed, computed, [&, stream = std::get<fact::Work>(*packed).stream](const Fact& fact) {
    const auto* const wait = std::get_if<fact::EventWaited>(&fact);
    return wait != nullptr && wait->stream == stream && std::any_of(packed, computed, [wait](const Fact& before) {
             const auto* const recorded = std::get_if<fact::EventRecorded>(&before);
             return recorded != nullptr && recorded->event == wait->event;
           });
  }));
}

TEST_CASE("every module of a group has its input and its output cast") {
  Plan plan = plan_of({{.modules = {"c"}}, {.modules = {"a", "b"}}, {.modules = {""}}});
  plan.mixed_precision = {.param = DType::bf16, .reduce = {}, .output = DType::f32};
  const std::vector<Module> layers{linear_module("a", 4, 4), linear_module("c", 4, 4), linear_module("b", 4, 4)};
  CHECK(collectives(played_by(plan, layers, {forward, backward})).size() > 4);  // else "b" refuses its input
  fully_shard_plan(plan).wrap.erase(
      fully_shard_plan(plan).wrap.begin());  // so no module casts the input of "c", the output of "a"
  CHECK_THROWS_WITH(played_by(plan, layers, {forward}),
                    Catch::Matchers::ContainsSubstring("module \"c\": its input is f32"));
}
