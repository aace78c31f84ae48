// The player asks an engine that compiles for its plan after each backward, and believes no answer before it has looked
// at it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"
#include "harness/faults/wrappers.hpp"
#include "harness/scenario/builder.hpp"
#include "harness/scenario/plan/replicate.hpp"
#include "tests/player/compiling_subject.hpp"
#include "tests/player/simulated.hpp"
#include "tests/protocol/sample_step.hpp"

using namespace shardproof;
using namespace shardproof::scenario;
using Catch::Matchers::Message;
using shardproof::testing::CompilingSubject;
using shardproof::testing::sample_backward;

namespace {

/// Two backwards in each of two iterations.
Scenario twice(std::optional<CompilePlan> compile) {
  Scenario scenario = sleeping_stack(1);
  scenario.plan.engine = ChosenEngine(std::make_unique<ReplicatePlan>());
  replicate_plan(scenario.plan).compile = compile;
  const Action forward{ActionKind::forward}, backward{ActionKind::backward};
  scenario.script.segments = {{.iterations = 2, .body = {forward, backward, forward, backward}}};
  return scenario;
}

Run play_on(Subject& subject, const Scenario& scenario) {
  control::ControlPage control = control::ControlPage::anonymous(1);
  const auto groups = fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
  return testing::play_simulated(scenario, subject, *groups.front(), 0);
}

Run play_alone(CompilingSubject::Answer answer, std::optional<CompilePlan> compile = CompilePlan()) {
  CompilingSubject subject(std::move(answer));
  return play_on(subject, twice(compile));
}

}  // namespace

TEST_CASE("the compiled step of each backward is kept, and equal steps are kept once") {
  StepGraph other = sample_backward();
  other.nodes.pop_back();
  const Run run = play_alone([&](int backward, std::vector<StepGraph>& out) {
    out = {backward == 2 ? other : sample_backward()};
    return Reply();
  });
  const std::vector<CompiledStep>& steps = run.compiled_steps();
  REQUIRE(steps.size() == 4);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CHECK(steps[i].iteration == static_cast<int>(i / 2));
    CHECK(steps[i].backward == static_cast<int>(i % 2) + 1);
    CHECK(*steps[i].graphs == std::vector{i == 2 ? other : sample_backward()});
  }
  CHECK(steps[1].graphs == steps[0].graphs);
  CHECK(steps[3].graphs == steps[0].graphs);
}

TEST_CASE("an engine that does not compile by its plan is not asked") {
  int asked = 0;
  const Run run = play_alone(
      [&](int, std::vector<StepGraph>&) {
        ++asked;
        return Reply();
      },
      std::nullopt);
  CHECK(asked == 0);
  CHECK(run.compiled_steps().empty());
}

TEST_CASE("a pass that ran eagerly leaves no graph") {
  const Run run = play_alone([](int, std::vector<StepGraph>&) { return Reply(); });
  REQUIRE(run.compiled_steps().size() == 4);
  CHECK(run.compiled_steps().front().graphs->empty());
}

TEST_CASE("a compiled plan that is missing, refused or not well formed is an error of the engine") {
  CHECK_THROWS_MATCHES(
      play_alone({}), player::SubjectError,
      Message("subject: compiled_plan is not supported in iteration 0 on rank 0: the plan has a compiled step, but the "
              "engine does not say what it compiled: this engine compiles nothing"));
  CHECK_THROWS_MATCHES(play_alone([](int, std::vector<StepGraph>&) { return Reply::failed("lost it"); }),
                       player::SubjectError,
                       Message("subject: compiled_plan failed in iteration 0 on rank 0: lost it"));
  CHECK_THROWS_MATCHES(
      play_alone([](int backward, std::vector<StepGraph>& out) {
        out = {sample_backward(), sample_backward()};
        if (backward == 3) out[1].nodes[4].inputs = {7};
        return Reply();
      }),
      player::SubjectError,
      Message("subject: compiled_plan failed in iteration 1 on rank 0: pass 1 (backward) is not well formed: node 4 "
              "(compute fc1.weight): it reads value 7, the output of node 2 (all_reduce bucket 0); only waits may "
              "read that"));
}

TEST_CASE("a warning with a compiled plan has its call, and a wrapped engine says the same") {
  const auto subject = altered(std::make_unique<CompilingSubject>([](int, std::vector<StepGraph>& out) {
                                 out = {sample_backward()};
                                 Reply reply;
                                 reply.warnings = {"recompiled"};
                                 return reply;
                               }),
                               {});
  const Run run = play_on(*subject, twice(CompilePlan()));
  REQUIRE(run.compiled_steps().size() == 4);
  REQUIRE(run.warnings().size() == 4);
  CHECK(run.warnings()[3] == Warning{.iteration = 1, .call = "compiled_plan", .text = "recompiled"});
}
