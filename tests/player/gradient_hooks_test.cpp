// The gradient hooks that a script can name, called as an engine calls them, and what the player notes of them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "harness/scenario/builder.hpp"
#include "tests/engines/thread_ranks.hpp"
#include "tests/player/simulated.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

using Values = std::vector<double>;

/// Choices that engines have: each test takes one.
struct Ways {
  bool shards = true;
  Reply registration = {};  ///< its reply to a registration
  std::function<void(HookedGradient&)> spoil = {};
};

/// The hook that an engine has received.
struct Received {
  std::vector<Action> performed;
  std::vector<HookTarget> targets;
  std::vector<GradientHook> hooks;
};

/// Each backward hands a gradient of six elements, i + 10 * rank, to all hooks in turn, on its own stream.
class Reducer final : public Trainer {
 public:
  Reducer(const EngineContext& engine_context, Ways ways, Received& received)
      : engine_context_(engine_context),
        ways_(std::move(ways)),
        received_(received),
        stream_(engine_context.device.create_stream(StreamRole::reduce, "reduce")) {}

  Reply perform(const Action& action, const Batch&) override {
    received_.performed.push_back(action);
    if (action.kind == ActionKind::register_hook) return ways_.registration;
    return action.kind == ActionKind::backward ? reduce() : Reply();
  }
  Reply register_gradient_hook(const HookTarget& target, GradientHook hook) override {
    if (!hook.call) return Reply::failed("that is no hook");
    received_.targets.push_back(target);
    received_.hooks.push_back(std::move(hook));
    return ways_.registration;
  }
  Reply loss(Tensor&) override { return {}; }
  Reply parameters(std::vector<ParameterView>&) override { return {}; }

 private:
  Reply reduce() {
    std::vector<float> values;
    for (int i = 1; i <= 6; ++i) values.push_back(static_cast<float>(i + 10 * engine_context_.rank));
    for (std::size_t i = 0; i < received_.hooks.size(); ++i) {
      HookedGradient operands{.label = "0", .gradient = filled(values), .output = {}};
      if (ways_.shards && received_.targets[i].point == HookPoint::reduction)
        operands.output = engine_context_.device.empty(stream_, DType::f32, {6 / engine_context_.world.size()},
                                                       MemoryClass::sharded_gradient, "0");
      if (ways_.spoil) ways_.spoil(operands);
      const Reply reply = received_.hooks[i].call(received_.hooks[i].state, operands, stream_);
      if (!reply.ok()) return Reply::failed("the hook failed: " + reply.error());
    }
    return {};
  }

  Tensor filled(const std::vector<float>& values) {
    const Tensor host = Tensor::of<float>({static_cast<std::int64_t>(values.size())}, values);
    const Tensor made = engine_context_.device.empty(stream_, DType::f32, host.shape(), MemoryClass::reduce_input, "0");
    engine_context_.device.submit(
        stream_,
        {.kind = WorkKind::fill, .label = "0", .writes = {made}, .run = [=](const Kernels& kernels, NativeStream on) {
           kernels.copy(on, made, host);
         }});
    return made;
  }

  EngineContext engine_context_;
  Ways ways_;
  Received& received_;
  Stream stream_;
};

class ReducerSubject final : public Subject {
 public:
  ReducerSubject(Ways ways, Received& received) : ways_(std::move(ways)), received_(received) {}
  std::string_view name() const override { return "reducer"; }
  std::string_view version() const override { return "1"; }
  Claims claims() const override { return {}; }
  Reply create(const Model&, const Plan&, const EngineContext& engine_context, std::unique_ptr<Trainer>& out) override {
    out = std::make_unique<Reducer>(engine_context, ways_, received_);
    return {};
  }

 private:
  Ways ways_;
  Received& received_;
};

Action registration(Hook hook, std::string module = {}) {
  return {.kind = ActionKind::register_hook, .module = std::move(module), .hook = std::move(hook)};
}

Scenario hooked(std::vector<Action> hooks, int backwards = 1) {
  Scenario scenario = sleeping_stack(1);
  scenario.script.segments = {{.body = std::move(hooks)},
                              {.iterations = backwards, .body = {{ActionKind::forward}, {ActionKind::backward}}}};
  scenario.script.keep_tensors = true;
  return scenario;
}

/// If `received` is given, each rank's engine writes there what it has received.
std::vector<Run> play_on(int world, const Scenario& scenario, const Ways& ways = {},
                         std::vector<Received>* received = nullptr) {
  const auto count = static_cast<std::size_t>(world);
  std::vector<std::optional<Run>> runs(count);
  std::vector<Received> own(count);
  std::vector<Received>& all = received == nullptr ? own : *received;
  all.resize(count);
  on_thread_ranks(world, [&](int rank, Group& group) {
    ReducerSubject subject(ways, all[static_cast<std::size_t>(rank)]);
    runs[static_cast<std::size_t>(rank)] = testing::play_simulated(scenario, subject, group, rank);
  });
  std::vector<Run> played;
  for (std::optional<Run>& run : runs) played.push_back(std::move(*run));
  return played;
}

const GradientHookCall& detail(const Callback& callback) { return std::get<GradientHookCall>(callback.detail); }

/// The values that a hook's only call leaves on each rank.
std::vector<Values> results(const Hook& hook, const Ways& ways = {}) {
  std::vector<Values> found;
  for (const Run& run : play_on(3, hooked({registration(hook)}), ways)) {
    REQUIRE(run.callbacks().size() == 1);
    CHECK(run.races().empty());
    CHECK(run.left_alive() == 0);
    found.push_back(detail(run.callbacks().front()).result.to_doubles());
  }
  return found;
}

auto complaint(const std::string& text) { return Catch::Matchers::Message("subject: " + text); }

}  // namespace

TEST_CASE("a hook instead of a reduction leaves the mean, twice the mean, or the sum") {
  CHECK(results({.kind = HookKind::plain}) == std::vector<Values>{{11, 12}, {13, 14}, {15, 16}});
  CHECK(results({.kind = HookKind::doubled}) == std::vector<Values>{{22, 24}, {26, 28}, {30, 32}});
  CHECK(results({.kind = HookKind::sum}) == std::vector<Values>{{33, 36}, {39, 42}, {45, 48}});
  CHECK(results({.kind = HookKind::plain}, {.shards = false}) == std::vector<Values>(3, {11, 12, 13, 14, 15, 16}));
  CHECK(results({.kind = HookKind::doubled}, {.shards = false}) == std::vector<Values>(3, {22, 24, 26, 28, 30, 32}));
  CHECK(results({.kind = HookKind::sum}, {.shards = false}) == std::vector<Values>(3, {33, 36, 39, 42, 45, 48}));
}

TEST_CASE("a hook after a reduction changes the result in place, or leaves it, and communicates nothing") {
  for (const HookPoint point : {HookPoint::after_reduction, HookPoint::after_accumulation}) {
    CHECK(results({.kind = HookKind::plain, .point = point}).at(1) == Values{11, 12, 13, 14, 15, 16});
    CHECK(results({.kind = HookKind::doubled, .point = point}).at(1) == Values{22, 24, 26, 28, 30, 32});
    CHECK(play_on(3, hooked({registration({.point = point})})).at(0).operands().empty());
  }
}

TEST_CASE("a hook on one rank alone reduces without a collective") {
  const Run run = play_on(1, hooked({registration({.kind = HookKind::doubled})})).front();
  CHECK(detail(run.callbacks().at(0)).result.to_doubles() == Values{2, 4, 6, 8, 10, 12});
  CHECK(run.operands().empty());
  CHECK(run.races().empty());
}

TEST_CASE("every call of a gradient hook is noted: what it was given and left, its state, where and when") {
  std::vector<Received> received;
  const Hook reduced{.kind = HookKind::doubled, .state = 5, .direct = true},
      accumulated{.point = HookPoint::after_accumulation};
  const auto runs = play_on(2, hooked({registration(reduced, "0"), registration(accumulated)}, 2), {}, &received);
  const Received& got = received.at(1);
  REQUIRE(got.targets.size() == 2);
  CHECK(got.targets[0].point == HookPoint::reduction);
  CHECK(got.targets[0].module == "0");
  CHECK(got.targets[0].direct);
  CHECK(got.targets[1].point == HookPoint::after_accumulation);
  CHECK(got.targets[1].module.empty());
  CHECK_FALSE(got.targets[1].direct);

  const std::vector<Callback>& calls = runs.at(1).callbacks();
  REQUIRE(calls.size() == 4);
  CHECK(count(calls, {.kind = CallbackKind::gradient_hook, .name = "0", .during = "backward"}) == 4);
  CHECK(calls[0].iteration == 1);  // the registrations are the first
  CHECK(calls[2].iteration == 2);
  CHECK(calls[0].stream == 1);
  CHECK(detail(calls[0]).point == HookPoint::reduction);
  CHECK(detail(calls[0]).state == 5);
  CHECK(detail(calls[0]).hook == HookKind::doubled);
  CHECK(detail(calls[0]).collective == 0);
  CHECK(detail(calls[2]).collective == 1);
  CHECK(calls[0].sizes == std::vector<TensorSize>{{DType::f32, {6}}, {DType::f32, {3}}});
  CHECK(calls[0].tensors.at(0).to_doubles() == Values{11, 12, 13, 14, 15, 16});  // as it was before
  CHECK(detail(calls[0]).result.to_doubles() == Values{18, 20, 22});
  CHECK(detail(calls[1]).point == HookPoint::after_accumulation);
  CHECK(detail(calls[1]).state == 0);
  CHECK(detail(calls[1]).hook == HookKind::plain);
  CHECK_FALSE(detail(calls[1]).collective);
  CHECK(calls[1].sizes == std::vector<TensorSize>{{DType::f32, {6}}});

  const std::vector<Operand>& operands = runs.at(1).operands();
  REQUIRE(operands.size() == 2);
  CHECK(operands[0].kind == CollectiveKind::reduce_scatter);
  CHECK(operands[0].tag == "0");
  CHECK(operands[0].during == "backward");
}

TEST_CASE("of the tensors of gradient hooks no copies are made where the script does not ask for them") {
  Scenario scenario = hooked({registration({})});
  scenario.script.keep_tensors = false;
  const Run run = play_on(2, scenario).at(0);
  REQUIRE(run.callbacks().size() == 1);
  CHECK(run.callbacks()[0].sizes.size() == 2);
  CHECK(run.callbacks()[0].tensors.empty());
  CHECK_FALSE(detail(run.callbacks()[0]).result.defined());
}

TEST_CASE("a hook fails on the ranks that the script says, in its own words") {
  const Hook hook{.point = HookPoint::after_reduction, .fails_on = {1}};
  CHECK_THROWS_MATCHES(
      play_on(2, hooked({registration(hook)})), player::SubjectError,
      complaint(
          "backward failed in iteration 1 on rank 1: the hook failed: the gradient hook fails on rank 1, as planned "
          "by the script"));
}

TEST_CASE("a hook that is given what cannot be says what it has found") {
  const auto refused = [](const std::function<void(HookedGradient&)>& spoil, const std::string& text) {
    CHECK_THROWS_MATCHES(play_on(1, hooked({registration({})}), {.spoil = spoil}), player::SubjectError,
                         complaint("backward failed in iteration 1 on rank 0: the hook failed: " + text));
  };
  refused([](HookedGradient& operands) { operands.gradient = {}; }, "the gradient of \"0\" is undefined");
  refused([](HookedGradient& operands) { operands.output = operands.output.narrow(0, 2); },
          "the gradient of \"0\" has 6 elements, and the output 2; 1 ranks share the gradient");
}

TEST_CASE("a gradient hook that is called when its play has ended says so") {
  std::vector<Received> received;
  play_on(1, hooked({registration({})}), {}, &received);
  CHECK(received.at(0).hooks.at(0).call(0, {.label = "0", .gradient = {}, .output = {}}, Device::compute).error() ==
        "a gradient hook is called after the play has ended");
}

TEST_CASE("a hook of the engine's own comes as a call, without its ranks, and a hook of the user never does") {
  std::vector<Received> received;
  Action own = registration({.kind = HookKind::fp16_compress, .state = 3, .direct = true}, "0");
  const Action as_it_comes = own;
  own.ranks = {0};
  play_on(1, hooked({own, registration({})}), {}, &received);
  REQUIRE(received.at(0).performed.size() == 3);
  CHECK(received[0].performed[0] == as_it_comes);
  CHECK(received[0].performed[1].kind == ActionKind::forward);
  CHECK(received[0].hooks.size() == 1);
}

TEST_CASE("a script goes on after a refusal that it plans, and the refusal is noted") {
  std::vector<Received> received;
  const Run run =
      play_on(1, hooked({registration({.kind = HookKind::not_callable, .refused = true})}), {}, &received).front();
  REQUIRE(run.refusals().size() == 1);
  CHECK(run.refusals()[0] == Warning{.iteration = 0, .call = "register_hook", .text = "that is no hook"});
  CHECK(run.callbacks().empty());
  CHECK(received.at(0).performed.size() == 2);  // forward and backward

  Reply thin = Reply::failed("not here");
  thin.warnings = {"thin"};
  std::vector<Received> engines;
  const Run of_own = play_on(1, hooked({registration({.kind = HookKind::bf16_compress, .refused = true})}),
                             {.registration = thin}, &engines)
                         .front();
  CHECK_FALSE(engines.at(0).performed.at(0).hook->refused);  // an engine does not learn what is expected
  CHECK(of_own.refusals() == std::vector{Warning{.iteration = 0, .call = "register_hook", .text = "not here"}});
  CHECK(of_own.warnings() == std::vector{Warning{.iteration = 0, .call = "register_hook", .text = "thin"}});
}

TEST_CASE("a registration that ends otherwise than the script plans ends the play") {
  const auto play_with = [](const Hook& hook, const Reply& reply) {
    play_on(1, hooked({registration(hook, "0")}), {.registration = reply});
  };
  for (const HookKind kind : {HookKind::doubled, HookKind::bf16_compress}) {
    CHECK_NOTHROW(play_with({.kind = kind}, {}));
    CHECK_THROWS_MATCHES(play_with({.kind = kind}, Reply::failed("no root")), player::SubjectError,
                         complaint("register_hook failed in iteration 0 on rank 0: no root"));
    CHECK_THROWS_MATCHES(play_with({.kind = kind, .refused = true}, {}), player::SubjectError,
                         complaint("register_hook failed in iteration 0 on rank 0: the engine must refuse the hook \"" +
                                   std::string(to_string(kind)) + "\" at \"0\", but it accepted it"));
    for (const bool refused : {false, true})
      CHECK_THROWS_MATCHES(play_with({.kind = kind, .refused = refused}, Reply::unsupported("no hooks here")),
                           player::SubjectError,
                           complaint("register_hook is not supported in iteration 0 on rank 0: no hooks here"));
  }
}
