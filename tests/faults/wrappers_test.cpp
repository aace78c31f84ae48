// A fault's wrappers must pass all calls on: an alteration that alters nothing changes nothing, and a dropped wait is
// the only one that is missing.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "fixtures/engines/reference.hpp"
#include "harness/control/control_page.hpp"
#include "harness/device/sim/sim_device.hpp"
#include "harness/device/sim/sim_platform.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"
#include "harness/faults/wrappers.hpp"
#include "harness/player/player.hpp"
#include "harness/scenario/builder.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/scenario/plan/foreign_section.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "tests/player/simulated.hpp"

using namespace shardproof;

namespace {

Run run_alone(const Scenario& scenario, Subject& subject) {
  control::ControlPage control = control::ControlPage::anonymous(1);
  const auto groups = fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
  return testing::play_simulated(scenario, subject, *groups.front(), 0);
}

Trace play_alone(std::unique_ptr<Subject> subject) {
  return run_alone(sleeping_stack(2).train(2, {}), *subject).trace();
}

std::vector<Capture> captures_alone(const Scenario& scenario, std::unique_ptr<Subject> subject) {
  return run_alone(scenario, *subject).captures();
}

std::size_t count_waits(const Trace& trace) {
  return static_cast<std::size_t>(std::ranges::count_if(
      trace.facts, [](const Fact& fact) { return std::holds_alternative<fact::EventWaited>(fact); }));
}

}  // namespace

TEST_CASE("an empty alteration leaves no trace") {
  const Trace plain = play_alone(std::make_unique<engines::Reference>());
  const Trace wrapped = play_alone(altered(std::make_unique<engines::Reference>(), {}));
  CHECK(plain.facts.size() > 20);
  CHECK(plain.facts == wrapped.facts);
  CHECK(plain.facts ==
        play_alone(drop_waits(std::make_unique<engines::Reference>(), [](const Wait&) { return false; })).facts);
}

TEST_CASE("a wrapper passes every call on to the wrapped device") {
  device::SimDevice device({}, 0);
  DeviceWrapper wrapper(device);
  const Tensor loss = wrapper.empty(Device::compute, DType::f32, {1}, MemoryClass::activation, "loss");
  wrapper.submit(Device::compute, {.kind = WorkKind::loss, .label = "loss", .writes = {loss}});
  wrapper.host_access("print the loss", {loss}, {});
  REQUIRE(device.trace().facts.size() == 3);
  CHECK(std::get<fact::HostAccess>(device.trace().facts.back()).reads == std::vector<ByteRange>{loss.range()});
}

TEST_CASE("wrapped kernels compute what kernels compute") {
  class Handing final : public DeviceWrapper {
   public:
    using DeviceWrapper::DeviceWrapper;
    void submit(Stream stream, Work work) override {
      compute_with<KernelsWrapper>(work);
      DeviceWrapper::submit(stream, std::move(work));
    }
  };
  const auto handing = [] { return with_device<Handing>(std::make_unique<engines::Reference>()); };
  Scenario layers;
  layers.model.root.children = {{.name = "l", .kind = ModuleKind::linear, .in_features = 4, .out_features = 4},
                                {.name = "relu", .kind = ModuleKind::relu},
                                {.name = "scale", .kind = ModuleKind::scale}};
  fully_shard_plan(layers.plan).wrap = {{.modules = {""}}};
  fully_shard_plan(layers.plan).gradient_divide_factor = 3;
  layers.script.input = {2, 4};
  layers.script.segments = {{.iterations = 2,
                             .body = {{ActionKind::forward},
                                      {ActionKind::backward},
                                      {.kind = ActionKind::clip_grad_norm, .max_norm = 0.5},
                                      {ActionKind::step},
                                      {ActionKind::capture},
                                      {ActionKind::zero_grad}}}};
  Scenario tokens = layers;
  tokens.model.root.children = {
      {.name = "emb", .kind = ModuleKind::embedding, .features = 4, .vocabulary = 8, .positions = 3},
      {.name = "ln", .kind = ModuleKind::layer_norm, .features = 4},
      {.name = "mix", .kind = ModuleKind::attention, .features = 4}};
  tokens.script.input = {2, 3};
  for (const LossKind loss : {LossKind::sum, LossKind::sum_of_squares, LossKind::dot, LossKind::cross_entropy}) {
    for (const OptimizerKind optimizer : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
      for (Scenario scenario : {layers, tokens}) {
        scenario.model.loss.kind = loss;
        scenario.plan.optimizer.kind = optimizer;
        const auto plain = captures_alone(scenario, std::make_unique<engines::Reference>()),
                   wrapped = captures_alone(scenario, handing());
        REQUIRE(plain.size() == 2);
        for (std::size_t i = 0; i < plain.size(); ++i) {
          CHECK(plain[i].loss == wrapped[i].loss);
          for (std::size_t p = 0; p < plain[i].parameters.size(); ++p) {
            CHECK(plain[i].parameters[p].shard == wrapped[i].parameters[p].shard);
            CHECK(plain[i].parameters[p].gradient == wrapped[i].parameters[p].gradient);
          }
        }
      }
    }
  }
}

TEST_CASE("only the waits that are asked for are dropped") {
  const std::size_t all = count_waits(play_alone(std::make_unique<engines::Reference>()));
  std::size_t offered = 0, dropped = 0;
  const Trace trace = play_alone(drop_waits(std::make_unique<engines::Reference>(), [&](const Wait& wait) {
    ++offered;
    const bool drop = wait.stream == StreamRole::compute && wait.recorded_on == StreamRole::reduce;
    if (drop) ++dropped;
    return drop;
  }));
  CHECK(offered == all);
  CHECK(dropped > 0);
  CHECK(count_waits(trace) == all - dropped);
}

TEST_CASE("a subject keeps its name and its claims under an alteration") {
  const auto wrapped = altered(std::make_unique<engines::Reference>(), {});
  CHECK(wrapped->name() == engines::Reference().name());
  CHECK(wrapped->version() == engines::Reference().version());
  CHECK(wrapped->claims() == engines::Reference().claims());
}

TEST_CASE("a plan for another engine is refused, not guessed at") {
  Scenario scenario = sleeping_stack(1);
  scenario.plan.engine = ChosenEngine(std::make_unique<scenario::ForeignSection>());
  control::ControlPage control = control::ControlPage::anonymous(1);
  const auto groups = fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
  engines::Reference subject;
  CHECK_THROWS_AS(testing::play_simulated(scenario, subject, *groups.front(), 0), player::SubjectError);
}

TEST_CASE("an altered section changes plans of its kind, and leaves plans of other kinds alone") {
  struct Receiving final : Subject {
    std::string_view name() const override { return "receiving"; }
    std::string_view version() const override { return "1"; }
    Claims claims() const override { return {}; }
    Reply create(const Model&, const Plan& plan, const EngineContext&, std::unique_ptr<Trainer>&) override {
      received = plan;
      return Reply::failed("it only receives");
    }
    Plan received;
  };
  auto receiving = std::make_unique<Receiving>();
  const Plan& received = receiving->received;
  const auto subject = altered_section<FullyShardPlan>(std::move(receiving),
                                                       [](FullyShardPlan& plan) { plan.gradient_divide_factor = 7; });
  control::ControlPage control = control::ControlPage::anonymous(1);
  const auto groups = fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
  device::SimPlatform platform({}, *groups.front(), 0);
  std::unique_ptr<Trainer> trainer;
  Plan plan;
  fully_shard_plan(plan).wrap = {{.modules = {""}}};
  CHECK_FALSE(subject->create({}, plan, {platform.device(), platform.world(), 0}, trainer).ok());
  CHECK(fully_shard_plan(received).gradient_divide_factor == 7);
  plan.engine = ChosenEngine(std::make_unique<FlatShardPlan>());
  CHECK_FALSE(subject->create({}, plan, {platform.device(), platform.world(), 0}, trainer).ok());
  CHECK(received == plan);
}

TEST_CASE("an alteration of the world's collectives also alters those of every group split off it") {
  struct Counting final : CommunicatorWrapper {
    Counting(Communicator& inner, int& calls) : CommunicatorWrapper(inner), calls_(calls) {}
    void run(Stream stream, const Collective& collective) override {
      ++calls_;
      CommunicatorWrapper::run(stream, collective);
    }
    int& calls_;
  };
  control::ControlPage control = control::ControlPage::anonymous(4);
  const auto groups = fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
  Scenario scenario = sleeping_stack(2);
  scenario.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
  std::vector<int> calls(groups.size()), issued(groups.size());
  {
    std::vector<std::jthread> ranks;
    for (std::size_t rank = 0; rank < groups.size(); ++rank) {
      ranks.emplace_back([&, rank] {
        const auto counting =
            with_communicators<Counting>(std::make_unique<engines::Reference>(), std::ref(calls[rank]));
        const Run run = testing::play_simulated(scenario, *counting, *groups[rank], static_cast<int>(rank));
        issued[rank] = static_cast<int>(std::ranges::count_if(
            run.trace().facts, [](const Fact& fact) { return std::holds_alternative<fact::Collective>(fact); }));
      });
    }
  }
  CHECK(issued.front() > 4);
  CHECK(calls == issued);
}

TEST_CASE("a wrapper of collectives gets those of a coalesced call that it alters, and passes other calls on whole") {
  struct Calls final : Communicator {
    int rank() const override { return 0; }
    std::span<const int> members() const override { return ranks; }
    const FabricCapabilities& capabilities() const override { return can; }
    void run(Stream, const Collective& collective) override { calls.push_back(collective.tag); }
    void run_coalesced(Stream, std::span<const Collective> collectives) override {
      calls.push_back(std::to_string(collectives.size()) + " in one");
    }
    std::unique_ptr<Communicator> split(int, int, std::string_view) override { return nullptr; }
    std::vector<int> ranks{0, 1};
    FabricCapabilities can;
    std::vector<std::string> calls;
  } calls;
  struct Renaming final : CollectiveWrapper {
    using CollectiveWrapper::CollectiveWrapper;
    void run(Stream stream, const Collective& collective) override {
      Collective renamed = collective;
      renamed.tag += "'";
      CollectiveWrapper::run(stream, renamed);
    }

   protected:
    bool alters(const Collective& collective) const override { return collective.tag != "c"; }
  };
  const std::vector<Collective> two{{.tag = "a"}, {.tag = "b"}}, others{{.tag = "c"}, {.tag = "c"}, {.tag = "c"}};
  CommunicatorWrapper(calls).run_coalesced(Device::compute, two);
  Renaming(calls).run_coalesced(Device::compute, two);
  Renaming(calls).run_coalesced(Device::compute, others);
  CHECK(calls.calls == std::vector<std::string>{"2 in one", "a'", "b'", "3 in one"});
}
