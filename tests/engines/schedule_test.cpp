// How much the fully sharded engine keeps in flight: operands of reduce-scatters up to the plan's limit, and gathers of
// several forwards.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "fixtures/engines/reference.hpp"
#include "harness/scenario/builder.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "tests/engines/thread_ranks.hpp"
#include "tests/player/simulated.hpp"

using namespace shardproof;
using namespace shardproof::scenario;
using namespace std::chrono_literals;

namespace {

constexpr int layers = 4;

// Reduce-scatters take longer than the whole backward: the engine would like to keep all of their operands.
Scenario slow_reductions(int limit) {
  Scenario scenario = sleeping_stack(layers).forward(10ms).backward(10ms).collectives(1ms).iterations(3);
  scenario.costs.collectives[CollectiveKind::reduce_scatter] = {.fixed = 100'000'000};
  fully_shard_plan(scenario.plan).live_reduce_inputs = limit;
  return scenario;
}

void on_two_ranks(const Scenario& scenario, const std::function<void(const Run&)>& check) {
  on_thread_ranks(2, [&](int rank, Group& group) {
    engines::Reference subject;
    const Run run = testing::play_simulated(scenario, subject, group, rank);
    if (rank == 0) check(run);
  });
}

}  // namespace

TEST_CASE("as many operands of reduce-scatters are alive as the plan allows, in every iteration") {
  for (const int limit : {1, 2, 3, layers, layers + 1}) {
    on_two_ranks(slow_reductions(limit), [&](const Run& run) {
      CAPTURE(limit);
      CHECK(run.races().empty());
      REQUIRE(run.iterations().size() == 3);
      for (const Iteration& iteration : run.iterations())
        CHECK(iteration.peak(MemoryClass::reduce_input).buffers == static_cast<std::uint64_t>(std::min(limit, layers)));
      CHECK(run.left_alive() == 0);
    });
  }
}

TEST_CASE("two forwards before a backward are gathered twice and reduced once") {
  Scenario scenario = sleeping_stack(3).forward(10ms).backward(10ms).collectives(1ms).iterations(3);
  scenario.script.segments.front().body = {{ActionKind::forward}, {ActionKind::forward}, {ActionKind::backward}};
  on_two_ranks(scenario, [&](const Run& run) {
    CHECK(run.races().empty());
    for (const Iteration& iteration : run.iterations()) {
      CHECK(iteration.count(CollectiveKind::all_gather, ActionKind::forward) == 3);
      // Layers 1 and 2 once for each forward. Layer 0, whose input has no gradient, stays whole from the first time on.
      CHECK(iteration.count(CollectiveKind::all_gather, ActionKind::backward) == 5);
      CHECK(iteration.count(CollectiveKind::reduce_scatter) == 3);
    }
    CHECK(run.left_alive() == 0);
  });
}

TEST_CASE("a group whose input has no gradient gathers nothing ahead for the earlier forward") {
  // The root has the last layer. It gathers "l1" ahead when the backward of the second forward comes to it. When that
  // of the first forward comes, it is still under way: the gather of "l1" is issued after the root's layer. PyTorch has
  // the same order.
  Scenario scenario;
  for (const char* const name : {"l0", "l1", "head"})
    scenario.model.root.children.push_back(
        {.name = name, .kind = ModuleKind::linear, .in_features = 4, .out_features = 4});
  fully_shard_plan(scenario.plan).wrap = {{.modules = {"l0"}}, {.modules = {"l1"}}, {.modules = {""}}};
  scenario.script.input = {2, 4};
  scenario.script.segments = {
      {.iterations = 3, .body = {{ActionKind::forward}, {ActionKind::forward}, {ActionKind::backward}}}};
  on_two_ranks(scenario, [](const Run& run) {
    for (const Iteration& iteration : run.iterations()) {
      std::vector<std::string> issued;
      for (const Fact& fact : iteration.facts()) {
        const auto* const collective = std::get_if<fact::Collective>(&fact);
        const auto* const work = std::get_if<fact::Work>(&fact);
        if (collective != nullptr && collective->kind == CollectiveKind::all_gather)
          issued.push_back("gather " + collective->tag);
        if (work != nullptr && work->kind == WorkKind::backward) issued.push_back(work->label);
      }
      const std::vector<std::string> expected{"gather ",   "gather l0", "gather l1",  // first forward
                                              "gather l0", "gather l1",  // second forward
                                              "gather l1", "head",      "gather l0", "l1", "l0",  // its backward
                                              "head",      "gather l1", "l1",        "l0"};
      CHECK(issued == expected);
    }
  });
}

TEST_CASE("gradients that exist become zero, and the next backward adds to them") {
  Scenario scenario = sleeping_stack(1);
  const Action to_zero{.kind = ActionKind::zero_grad, .to_zero = true};
  scenario.script.segments.front().body = {
      to_zero, {ActionKind::forward}, {ActionKind::capture},   {ActionKind::backward}, {ActionKind::capture},
      to_zero, {ActionKind::capture}, {ActionKind::zero_grad}, {ActionKind::capture}};
  on_two_ranks(scenario, [&](const Run& run) {
    const auto gradient = [&](std::size_t capture) { return run.captures().at(capture).parameters.front().gradient; };
    CHECK_FALSE(gradient(0).defined());  // there was none
    const std::vector<double> trained = gradient(1).to_doubles(), zeroed = gradient(2).to_doubles();
    CHECK(std::ranges::any_of(trained, [](double value) { return value != 0; }));
    CHECK(zeroed == std::vector<double>(trained.size(), 0));
    CHECK_FALSE(gradient(3).defined());
  });
}
