// The player itself, with subjects that do as little as can be done, rightly and wrongly.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/device/sim/sim_platform.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"
#include "harness/player/player.hpp"
#include "harness/scenario/builder.hpp"
#include "tests/player/simulated.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

/// The properties and answers of the toy.
struct Words {
  std::vector<std::int64_t> loss{1};  ///< shape of the loss; see `has_loss`
  bool has_loss = true;
  bool has_shard = true;
  std::optional<Shape> second;  ///< of its parameter, beside the shard
  bool gathers = false;  ///< over the world and over a group split off, with each forward
  std::vector<std::vector<double>>* inputs = nullptr;  ///< where it tells what it is given
  std::string warning = {};  ///< in its reply to a step
  Reply failure;  ///< its reply to a forward that has to fail
  std::unique_ptr<Communicator>* part =
      nullptr;  ///< where it leaves a group that is split off the world, whereupon `create` fails
};

/// Fills a loss and a shard on the compute stream, and another tensor on its own stream, which no work waits for.
class Toy final : public Trainer {
 public:
  Toy(const EngineContext& engine_context, const Words& words)
      : device_(engine_context.device),
        words_(words),
        world_(engine_context.world),
        aside_(engine_context.device.create_stream(StreamRole::other, "aside")) {
    loss_ = filled(Device::compute, words.loss, "loss");
    shard_ = filled(Device::compute, {2}, "shard");
    unread_ = filled(aside_, {2}, "unread");
    if (words.second) second_ = filled(Device::compute, *words.second, "second");
    if (words.gathers) part_ = world_.split(0, -world_.rank(), "part");
  }

  Reply perform(const Action& action, const Batch& batch) override {
    Reply reply;
    if (action.kind == ActionKind::step && !words_.warning.empty()) reply.warnings = {words_.warning};
    if (action.kind != ActionKind::forward) return reply;
    if (action.fails_in) return words_.failure;
    if (words_.inputs != nullptr) words_.inputs->push_back(device_.to_host(batch.input).to_doubles());
    if (part_) {
      gather(world_, Device::compute, shard_, "world");
      gather(*part_, aside_, unread_, "part");
    }
    return {};
  }
  Reply loss(Tensor& out) override {
    out = words_.has_loss ? loss_ : Tensor{};
    return {};
  }
  Reply parameters(std::vector<ParameterView>& out) override {
    out = {{.name = "0.linear.weight",
            .shape = {2},
            .start = 0,
            .shard = words_.has_shard ? shard_ : Tensor{},
            .second = second_,
            .gradient = {}}};
    return {};
  }

 private:
  void gather(Communicator& group, Stream stream, const Tensor& in, const std::string& tag) {
    const Tensor all = device_.empty(stream, DType::f32, {group.size() * in.numel()}, MemoryClass::other, tag);
    group.run(stream, {.kind = CollectiveKind::all_gather, .in = in, .out = all, .tag = tag});
  }

  Tensor filled(Stream stream, const Shape& shape, const std::string& label) {
    const Tensor made = device_.empty(stream, DType::f32, shape, MemoryClass::other, label);
    device_.submit(stream, {.kind = WorkKind::fill,
                            .label = label,
                            .writes = {made},
                            .run = [=](const Kernels& kernels, NativeStream on) { kernels.fill(on, made, 3); }});
    return made;
  }

  Device& device_;
  Words words_;
  Communicator& world_;
  std::unique_ptr<Communicator> part_;
  Stream aside_;
  Tensor loss_, shard_, second_, unread_;
};

class ToySubject final : public Subject {
 public:
  explicit ToySubject(Words words = {}) : words_(std::move(words)) {}
  std::string_view name() const override { return "toy"; }
  std::string_view version() const override { return "1"; }
  Claims claims() const override { return {}; }
  Reply create(const Model&, const Plan&, const EngineContext& engine_context, std::unique_ptr<Trainer>& out) override {
    if (words_.part != nullptr) {
      *words_.part = engine_context.world.split(0, 0, "part");
      return Reply::failed("no more of this");
    }
    out = std::make_unique<Toy>(engine_context, words_);
    return {};
  }

 private:
  Words words_;
};

Run play_alone(const Scenario& scenario, Words words = {}) {
  control::ControlPage control = control::ControlPage::anonymous(1);
  const auto groups = fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
  ToySubject subject(std::move(words));
  return testing::play_simulated(scenario, subject, *groups.front(), 0);
}

// The subject replies `failure` to a forward in which this module is to fail.
void play_failing(const std::string& module, const Reply& failure) {
  Scenario scenario = sleeping_stack(1);
  scenario.script.segments.front().body = {{.kind = ActionKind::forward, .fails_in = module}};
  play_alone(scenario, {.failure = failure});
}

}  // namespace

TEST_CASE("each value that the host reads from a run is a host access, after a wait for it") {
  const Run run = play_alone(sleeping_stack(1).train(2, {}));
  std::size_t read = 0;
  for (const Fact& fact : run.trace().facts) {
    if (const auto* access = std::get_if<fact::HostAccess>(&fact)) read += access->reads.size();
  }
  CHECK(read == 2 * 2);  // a loss and a shard in each iteration
  CHECK(run.races().empty());
  REQUIRE(run.captures().size() == 2);
  CHECK(run.captures()[1].loss == 3);
}

TEST_CASE("at the end of a run everything issued has been waited for, on every stream") {
  std::map<std::uint32_t, bool> waited;
  const Run run = play_alone(sleeping_stack(1));
  for (const Fact& fact : run.trace().facts) {
    if (const auto* work = std::get_if<fact::Work>(&fact)) waited[work->stream] = false;
    if (const auto* sync = std::get_if<fact::StreamSynchronized>(&fact)) waited[sync->stream] = true;
  }
  CHECK(waited == std::map<std::uint32_t, bool>{{0, true}, {1, true}});
}

TEST_CASE("a warning says the iteration and the call in which it was raised") {
  const Run run = play_alone(sleeping_stack(1).train(2, {}), {.warning = "thin", .failure = {}});
  REQUIRE(run.warnings().size() == 2);
  CHECK(run.warnings()[1] == Warning{.iteration = 1, .call = "step", .text = "thin"});
  CHECK(to_string(run.warnings()[1]) == "iter 1 step: thin");
}

TEST_CASE("an error of a subject says whether the engine lacks what the call asks for") {
  const auto status_of = [](const Reply& reply) {
    try {
      play_failing("0", reply);
    } catch (const player::SubjectError& error) {
      return error.status();
    }
    return CallStatus::ok;
  };
  CHECK(status_of(Reply::failed("no")) == CallStatus::failed);
  CHECK(status_of(Reply::unsupported("no")) == CallStatus::unsupported);
}

TEST_CASE("the player reports a missing loss or shard with its call, iteration and rank") {
  const Scenario scenario = sleeping_stack(1).train(2, {});
  const auto message = [](const std::string& text) { return Catch::Matchers::Message("subject: " + text); };
  CHECK_THROWS_MATCHES(play_alone(scenario, {.has_loss = false}), player::SubjectError,
                       message("loss failed in iteration 0 on rank 0: an undefined tensor instead of one element"));
  CHECK_THROWS_MATCHES(play_alone(scenario, {.loss = {0}}), player::SubjectError,
                       message("loss failed in iteration 0 on rank 0: f32 [0] instead of one element"));
  CHECK_THROWS_MATCHES(play_alone(scenario, {.loss = {2}}), player::SubjectError,
                       message("loss failed in iteration 0 on rank 0: f32 [2] instead of one element"));
  CHECK_THROWS_MATCHES(play_alone(scenario, {.has_shard = false}), player::SubjectError,
                       message("parameters failed in iteration 0 on rank 0: \"0.linear.weight\" has no shard"));
}

TEST_CASE("a parameter whose shard is undefined is said to be meta where it can be") {
  Scenario scenario = sleeping_stack(1).train(1, {});
  scenario.plan.initialisation = Initialisation::meta;
  CHECK_THROWS_MATCHES(
      play_alone(scenario, {.has_shard = false}), player::SubjectError,
      Catch::Matchers::Message(
          "subject: parameters failed in iteration 0 on rank 0: \"0.linear.weight\" has no shard: it is "
          "meta until materialize"));
}

TEST_CASE("a capture has both tensors of a pair") {
  Scenario scenario = sleeping_stack(1).train(1, {});
  CHECK_FALSE(play_alone(scenario).captures().at(0).parameters.at(0).second.defined());
  scenario.model.root.children[0].children[0].tensor = TensorKind::two_tensor;
  const Run run = play_alone(scenario, {.second = Shape{2}});
  CHECK(run.captures().at(0).parameters.at(0).second == Tensor::of<float>({2}, std::vector<float>{3, 3}));

  const std::string text = "subject: parameters failed in iteration 0 on rank 0: \"0.linear.weight\" ";
  CHECK_THROWS_MATCHES(play_alone(scenario), player::SubjectError,
                       Catch::Matchers::Message(text + "has no second tensor, though it is a pair"));
  CHECK_THROWS_MATCHES(play_alone(scenario, {.second = Shape{3}}), player::SubjectError,
                       Catch::Matchers::Message(text + "is a pair of [2] and [3] on this rank"));
}

TEST_CASE("given inputs replace the formula's inputs, over and over") {
  Scenario scenario = sleeping_stack(1);
  scenario.script.input = {1, 4};
  scenario.script.segments.front().iterations = 3;
  scenario.script.given = {{{1, 2, 3, 4}, {-1, -1, -1, -1}}, {{0.5, 0, 0, 256}}};
  std::vector<std::vector<double>> inputs;
  play_alone(scenario, {.inputs = &inputs});
  CHECK(inputs == std::vector<std::vector<double>>{{1, 2, 3, 4}, {0.5, 0, 0, 256}, {1, 2, 3, 4}});
}

TEST_CASE("operands of collectives are kept where the script asks for it, of groups split off as well") {
  Scenario scenario = sleeping_stack(1);
  scenario.script.given = {{{0, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1, 1, 1}}};
  for (const bool keeps : {true, false}) {
    scenario.script.keep_tensors = keeps;
    control::ControlPage control = control::ControlPage::anonymous(2);
    const auto groups = fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
    std::vector<std::vector<std::vector<double>>> inputs(2);
    std::vector<std::optional<Run>> runs(2);
    const auto play_rank = [&](std::size_t rank) {
      ToySubject subject({.gathers = true, .inputs = &inputs[rank]});
      runs[rank] = testing::play_simulated(scenario, subject, *groups[rank], static_cast<int>(rank));
    };
    {
      const std::jthread other(play_rank, 1);
      play_rank(0);
    }
    CHECK(inputs[1] == std::vector(1, scenario.script.given[0][1]));
    for (const std::optional<Run>& run : runs) {
      REQUIRE(run);
      REQUIRE(run->operands().size() == (keeps ? 2 : 0));
      CHECK(run->races().empty());
      CHECK(run->left_alive() == 0);
      if (!keeps) continue;
      CHECK(run->operands()[0].tag == "world");
      CHECK(run->operands()[0].group == std::vector<int>{0, 1});
      CHECK(run->operands()[1].tag == "part");
      CHECK(run->operands()[1].group == std::vector<int>{1, 0});
      for (const Operand& operand : run->operands()) {
        CHECK(operand.kind == CollectiveKind::all_gather);
        CHECK(operand.iteration == 0);
        CHECK(operand.during == "forward");
        CHECK(operand.in == Tensor::of<float>({2}, std::vector<float>{3, 3}));
      }
    }
  }
}

TEST_CASE("a forward that is to fail in a module fails there and nowhere else") {
  const auto message = [](const std::string& text) {
    return Catch::Matchers::Message("subject: failing forward failed in iteration 0 on rank 0: " + text);
  };
  for (const char* module : {"0", ""}) CHECK_NOTHROW(play_failing(module, Reply::planned_failure("as it should")));
  CHECK_THROWS_MATCHES(play_failing("0", Reply()), player::SubjectError,
                       message("module \"0\" must fail in this call, but it succeeded"));
  CHECK_THROWS_MATCHES(play_failing("", Reply()), player::SubjectError,
                       message("module \"\" must fail in this call, but it succeeded"));
  const auto otherwise = [&](const std::string& text) {
    return message("module \"0\" must fail in this call, but it failed for another reason: " + text);
  };
  for (const char* text : {"out of order", "as it should", "planned_failure"})
    CHECK_THROWS_MATCHES(play_failing("0", Reply::failed(text)), player::SubjectError, otherwise(text));
  CHECK_THROWS_MATCHES(play_failing("0", Reply::failed("")), player::SubjectError, otherwise("no reason was given"));
}

TEST_CASE("a group that a subject keeps though it could not be created takes no notes") {
  Scenario scenario = sleeping_stack(1);
  scenario.script.keep_tensors = true;
  control::ControlPage control = control::ControlPage::anonymous(1);
  const auto groups = fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
  device::SimPlatform platform(scenario.costs, *groups.front(), 0, scenario.device);
  std::unique_ptr<Communicator> part;
  ToySubject subject({.part = &part});
  CHECK_THROWS_AS(player::play(scenario, subject, platform, 0), player::SubjectError);

  REQUIRE(part);
  const Tensor all = platform.device().empty(Device::compute, DType::f32, {1}, MemoryClass::other, "all");
  platform.device().submit(Device::compute, {.kind = WorkKind::fill, .label = "all", .writes = {all}, .run = {}});
  CHECK_THROWS(part->run(Device::compute,
                         {.kind = CollectiveKind::all_gather, .in = all, .out = all, .tag = "part"}));  // it is alone
  const Trace trace = platform.take_recording().trace;
  CHECK(std::ranges::none_of(trace.facts, [](const Fact& fact) {
    const auto* work = std::get_if<fact::Work>(&fact);
    return work != nullptr && work->kind == WorkKind::snapshot;
  }));
}
