// The reference engine as a table of C functions does what it does: everything that is recorded of it is the same.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fixtures/engines/reference.hpp"
#include "harness/player/player.hpp"
#include "harness/protocol/subject_name.hpp"
#include "harness/scenario/builder.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/subject/abi/exported_subject.hpp"
#include "harness/subject/abi/table_subject.hpp"
#include "tests/engines/thread_ranks.hpp"
#include "tests/player/simulated.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

using MakeSubject = std::function<std::unique_ptr<Subject>()>;

std::unique_ptr<Subject> engine() { return std::make_unique<engines::Reference>(); }

/// The record and the captures of each rank, or its error as text.
struct Outcome {
  std::vector<Fact> facts;
  std::vector<Capture> captures;
  std::vector<Callback> callbacks;
  std::vector<Warning> warnings, refusals;
  std::size_t left_alive = 0;
  std::string error;
};

// A batch may be kept longer for a subject that cannot say whether it still needs it: when its memory goes is left out.
std::vector<Fact> without_loans(std::vector<Fact> facts) {
  std::set<std::uint64_t> lent;
  std::erase_if(facts, [&](const Fact& fact) {
    if (const auto* allocated = std::get_if<fact::Allocated>(&fact);
        allocated != nullptr && allocated->label == "input")
      lent.insert(allocated->buffer);
    const auto* released = std::get_if<fact::Released>(&fact);
    return released != nullptr && lent.contains(released->buffer);
  });
  return facts;
}

std::vector<Outcome> play_on(int ranks, const Scenario& scenario, const MakeSubject& make) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  on_thread_ranks(ranks, [&](int rank, Group& group) {
    Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    const auto subject = make();
    try {
      const Run run = testing::play_simulated(scenario, *subject, group, rank);
      outcome = {without_loans(run.trace().facts),
                 run.captures(),
                 run.callbacks(),
                 run.warnings(),
                 run.refusals(),
                 run.left_alive(),
                 {}};
    } catch (const player::SubjectError& error) {
      outcome.error = error.what();
    }
  });
  return outcomes;
}

/// Returns what the engine did directly.
std::vector<Outcome> check_alike(int ranks, const Scenario& scenario) {
  std::vector<std::unique_ptr<subject::ExportedSubject>> exported;
  std::mutex mutex;
  const auto directly = play_on(ranks, scenario, engine);
  const auto through = play_on(ranks, scenario, [&] {
    const std::scoped_lock lock(mutex);
    return subject::table_subject(exported.emplace_back(std::make_unique<subject::ExportedSubject>(engine()))->table(),
                                  "exported", protocol::reference_subject);
  });
  for (std::size_t rank = 0; rank < directly.size(); ++rank) {
    CAPTURE(rank);
    CHECK(directly[rank].error == through[rank].error);
    CHECK(through[rank].left_alive == 0);
    CHECK(directly[rank].facts == through[rank].facts);
    CHECK(directly[rank].warnings == through[rank].warnings);
    CHECK(directly[rank].refusals == through[rank].refusals);
    REQUIRE(directly[rank].captures.size() == through[rank].captures.size());
    for (std::size_t i = 0; i < directly[rank].captures.size(); ++i) {
      const Capture &a = directly[rank].captures[i], &b = through[rank].captures[i];
      CHECK(a.loss == b.loss);
      REQUIRE(a.parameters.size() == b.parameters.size());
      for (std::size_t p = 0; p < a.parameters.size(); ++p) {
        CHECK(a.parameters[p].name == b.parameters[p].name);
        CHECK(a.parameters[p].start == b.parameters[p].start);
        CHECK(a.parameters[p].shard == b.parameters[p].shard);
        CHECK(a.parameters[p].second == b.parameters[p].second);
        CHECK(a.parameters[p].gradient == b.parameters[p].gradient);
      }
    }
    REQUIRE(directly[rank].callbacks.size() == through[rank].callbacks.size());
    for (std::size_t i = 0; i < directly[rank].callbacks.size(); ++i) {
      const Callback &a = directly[rank].callbacks[i], &b = through[rank].callbacks[i];
      CHECK(a.name == b.name);
      CHECK(a.sizes == b.sizes);
      CHECK(a.tensors == b.tensors);
      CHECK(a.stream == b.stream);
      REQUIRE(a.kind() == b.kind());
      if (const auto* pre = std::get_if<PreAllGather>(&a.detail)) {
        CHECK(pre->ticket == std::get<PreAllGather>(b.detail).ticket);
        CHECK(pre->context.has_value() == std::get<PreAllGather>(b.detail).context.has_value());
      } else if (const auto* post = std::get_if<PostAllGather>(&a.detail)) {
        CHECK(post->ticket == std::get<PostAllGather>(b.detail).ticket);
        CHECK((post->out == nullptr) == (std::get<PostAllGather>(b.detail).out == nullptr));
      } else if (const auto* hook = std::get_if<GradientHookCall>(&a.detail)) {
        CHECK(hook->point == std::get<GradientHookCall>(b.detail).point);
        CHECK(hook->state == std::get<GradientHookCall>(b.detail).state);
        CHECK(hook->hook == std::get<GradientHookCall>(b.detail).hook);
        CHECK(hook->collective == std::get<GradientHookCall>(b.detail).collective);
        CHECK(hook->result == std::get<GradientHookCall>(b.detail).result);
      }
    }
  }
  return directly;
}

Action extend(Extension extension) { return {.kind = ActionKind::extend, .extension = std::move(extension)}; }

/// Trains on an engine of the kind `flat_shard` with two units, whose second one is the root. The hooks come first.
Scenario hooked(ShardStrategy strategy, std::vector<Action> hooks) {
  Scenario scenario = sleeping_stack(2).train(2, {});
  scenario.plan.engine = ChosenEngine(std::make_unique<FlatShardPlan>());
  flat_shard_plan(scenario.plan).wrap = {"0", ""};
  flat_shard_plan(scenario.plan).strategy = strategy;
  scenario.script.keep_tensors = true;
  scenario.script.segments.insert(scenario.script.segments.begin(), {.body = std::move(hooks)});
  return scenario;
}

Action register_hook(Hook hook, std::string module = {}) {
  return {.kind = ActionKind::register_hook, .module = std::move(module), .hook = std::move(hook)};
}

}  // namespace

TEST_CASE("training through the table is training") {
  const int ranks = GENERATE(1, 2, 3);
  check_alike(ranks, sleeping_stack(3)
                         .forward(std::chrono::milliseconds(5))
                         .collectives(std::chrono::milliseconds(1))
                         .train(2, {.kind = OptimizerKind::adamw}));
}

TEST_CASE("hooks are called through the table as they are called") {
  const auto kind = GENERATE(ExtensionKind::components, ExtensionKind::bf16, ExtensionKind::int8);
  const auto form = GENERATE(ExtensionForm::full, ExtensionForm::minimal);
  Scenario scenario = sleeping_stack(2).reshard_after_forward(true).train(2, {});
  scenario.script.keep_tensors = true;
  scenario.script.segments.insert(scenario.script.segments.begin(),
                                  {.body = {extend({.parameter = "0.linear.weight", .kind = kind, .form = form})}});
  check_alike(2, scenario);
}

TEST_CASE("hook errors, failing modules and refused plans give the same errors through the table as without it") {
  Scenario scenario = sleeping_stack(2).train(1, {});
  SECTION("a hook's") {
    scenario.script.segments.insert(
        scenario.script.segments.begin(),
        {.body = {extend({.parameter = "1.linear.weight", .kind = ExtensionKind::truncated})}});
  }
  SECTION("a module's") {
    scenario.script.segments.front().body.insert(scenario.script.segments.front().body.begin(),
                                                 {.kind = ActionKind::forward, .fails_in = "1"});
  }
  SECTION("a plan's") {
    fully_shard_plan(scenario.plan).wrap.front().reshard_after_forward = {ReshardAfterForward::Kind::size, 7};
  }
  check_alike(2, scenario);
}

TEST_CASE("gradient hooks get the same through the table") {
  const auto strategy = GENERATE(ShardStrategy::full_shard, ShardStrategy::no_shard);
  const auto kind = GENERATE(HookKind::plain, HookKind::doubled, HookKind::sum);
  const auto outcomes = check_alike(2, hooked(strategy, {register_hook({.kind = kind, .state = 5})}));
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.error.empty());
    REQUIRE(outcome.callbacks.size() == 4);  // two units, two iterations
    for (const Callback& callback : outcome.callbacks) {
      CHECK(std::get<GradientHookCall>(callback.detail).state == 5);
      CHECK(callback.sizes.size() == (strategy == ShardStrategy::no_shard ? 1 : 2));
    }
  }
}

TEST_CASE("hooks after a reduction and after an accumulation get the same through the table") {
  const auto point = GENERATE(HookPoint::after_reduction, HookPoint::after_accumulation);
  Scenario scenario = sleeping_stack(2).train(2, {});
  scenario.script.keep_tensors = true;
  scenario.script.segments.insert(
      scenario.script.segments.begin(),
      {.body = {register_hook({.kind = HookKind::doubled, .point = point, .state = 5}, "1")}});
  const auto outcomes = check_alike(2, scenario);
  CHECK(outcomes.at(0).error.empty());
  REQUIRE(outcomes.at(0).callbacks.size() == 2);
  CHECK(std::get<GradientHookCall>(outcomes.at(0).callbacks.at(1).detail).point == point);
}

TEST_CASE("a hook of the engine's own, and a hook of one unit, cross the table") {
  const auto own = GENERATE(HookKind::fp16_compress, HookKind::bf16_compress);
  check_alike(2, hooked(ShardStrategy::full_shard, {register_hook({.kind = own})}));
  const auto outcomes = check_alike(2, hooked(ShardStrategy::full_shard, {register_hook({.direct = true}, "0")}));
  CHECK(outcomes.at(0).callbacks.size() == 2);
}

TEST_CASE("a failure of a gradient hook and a refusal have the same words through the table") {
  const auto failing = check_alike(2, hooked(ShardStrategy::full_shard, {register_hook({.fails_on = {0, 1}})}));
  CHECK_THAT(failing.at(1).error,
             Catch::Matchers::ContainsSubstring("the gradient hook fails on rank 1, as planned by the script"));

  const auto refusing = check_alike(
      2,
      hooked(ShardStrategy::full_shard, {register_hook({}), register_hook({.kind = HookKind::doubled, .refused = true}),
                                         register_hook({.kind = HookKind::bf16_compress, .refused = true}),
                                         register_hook({.kind = HookKind::not_callable, .refused = true}),
                                         register_hook({.refused = true}, "0")}));
  for (const Outcome& outcome : refusing) {
    CHECK(outcome.error.empty());
    CHECK(outcome.refusals.size() == 4);
    CHECK(outcome.callbacks.size() == 4);  // of the first hook alone
  }
  const auto not_refused = check_alike(2, hooked(ShardStrategy::full_shard, {register_hook({.refused = true})}));
  CHECK_THAT(not_refused.at(0).error, Catch::Matchers::ContainsSubstring("the engine must refuse the hook"));
  const auto unsupported =
      check_alike(2, hooked(ShardStrategy::full_shard, {register_hook({.point = HookPoint::after_reduction})}));
  CHECK_THAT(unsupported.at(0).error,
             Catch::Matchers::ContainsSubstring("register_hook is not supported in iteration 0"));
}

TEST_CASE("an exported subject has the same name, version and claims as the engine, and it prepares") {
  const subject::ExportedSubject exported(engine());
  const auto subject = subject::table_subject(exported.table(), "exported", protocol::reference_subject);
  CHECK(subject->name() == protocol::reference_subject);
  CHECK(subject->version() == engine()->version());
  CHECK(subject->claims() == engine()->claims());
  CHECK(subject->prepare().ok());
}
