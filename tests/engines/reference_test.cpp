// The reference subject: what it claims, and which engine a plan goes to.
#include "fixtures/engines/reference.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/engines/common/trainer.hpp"
#include "fixtures/engines/flat_shard/flat_shard.hpp"
#include "fixtures/engines/fully_shard/fully_shard.hpp"
#include "fixtures/engines/replicate/replicate.hpp"
#include "harness/device/sim/sim_platform.hpp"
#include "harness/scenario/builder.hpp"
#include "harness/scenario/plan/foreign_section.hpp"
#include "tests/engines/thread_ranks.hpp"

namespace shardproof::engines {
namespace {

class NoTrainer final : public EngineTrainer {
 public:
  NoTrainer(const Model& model, const Plan& plan, const EngineContext& engine_context)
      : EngineTrainer("none", model, plan, engine_context) {}
};

/// An engine that a plan of its kind reaches.
Engine reached(std::string_view kind, Claims::Features features) {
  return {.kind = kind,
          .features = std::move(features),
          .make = [](const auto& model, const auto& plan, const EngineContext& engine_context)
              -> std::unique_ptr<EngineTrainer> { return std::make_unique<NoTrainer>(model, plan, engine_context); }};
}

/// An engine that refuses all plans.
Engine refusing(std::string_view kind) {
  return {.kind = kind,
          .features = {},
          .make = [](const auto&, const auto&, const EngineContext&) -> std::unique_ptr<EngineTrainer> {
            throw std::invalid_argument("not this plan");
          }};
}

Reply create_alone(Subject& subject, const std::string& kind, std::unique_ptr<Trainer>& out) {
  Scenario scenario = sleeping_stack(1);
  scenario.plan.engine = ChosenEngine(std::make_unique<scenario::ForeignSection>(kind));
  Reply reply;
  on_thread_ranks(1, [&](int rank, Group& group) {
    device::SimPlatform platform({}, group, rank);
    reply = subject.create(scenario.model, scenario.plan, {platform.device(), platform.world(), rank}, out);
  });
  return reply;
}

}  // namespace

TEST_CASE("the reference subject claims the kinds of its engines, each with its features") {
  CHECK(Reference().claims() == Claims{{"fully_shard", fully_shard_engine().features},
                                       {"flat_shard", flat_shard_engine().features},
                                       {"replicate", replicate_engine().features}});
  CHECK(Reference().claims().has("fully_shard", Feature::hidden_memory));
  CHECK(Reference({reached("first", {Feature::serial}), reached("second", {})}).claims() ==
        Claims{{"first", {Feature::serial}}, {"second", {}}});
  CHECK_THROWS_MATCHES(Reference({reached("first", {}), reached("first", {})}).claims(), std::invalid_argument,
                       Catch::Matchers::Message("it claims the engine kind \"first\" twice"));
}

TEST_CASE("a plan goes to the engine of its kind, and a plan of another kind is unsupported") {
  Reference subject({refusing("first"), reached("second", {})});
  std::unique_ptr<Trainer> trainer;
  CHECK(create_alone(subject, "second", trainer).ok());
  CHECK(trainer != nullptr);
  trainer.reset();

  const Reply refused = create_alone(subject, "first", trainer);
  CHECK(refused.status() == CallStatus::failed);
  CHECK(refused.error() == "not this plan");
  const Reply other = create_alone(subject, "third", trainer);
  CHECK(other.status() == CallStatus::unsupported);
  CHECK(other.error() == "the plan is for an engine of the kind \"third\"; this subject has: first, second");
  CHECK(trainer == nullptr);
}

TEST_CASE("a call that the engine does not know is unsupported") {
  Reference subject;
  Scenario scenario = sleeping_stack(1);
  on_thread_ranks(1, [&](int rank, Group& group) {
    device::SimPlatform platform({}, group, rank);
    std::unique_ptr<Trainer> trainer;
    REQUIRE(subject.create(scenario.model, scenario.plan, {platform.device(), platform.world(), rank}, trainer).ok());
    const Reply reply = trainer->perform({.kind = ActionKind::capture}, {});
    CHECK(reply.status() == CallStatus::unsupported);
    CHECK(reply.error() == "fully_shard knows no action \"capture\"");
    CHECK(trainer->perform({.kind = ActionKind::set_is_last_backward}, {}).ok());
  });
}

}  // namespace shardproof::engines
