// The player itself, with subjects that do as little as can be done, rightly and wrongly.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "harness/device/sim/sim_platform.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"
#include "harness/scenario/builder.hpp"
#include "harness/scenario/player.hpp"
#include "tests/scenario/simulated.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

/// What the toy says of itself.
struct Words {
  std::vector<std::int64_t> loss{1};  ///< shape of the loss; see `has_loss`
  bool has_loss = true;
  bool has_shard = true;
};

/// Fills a loss and a shard on the compute stream, and something else on a stream of its own that nobody waits for.
class Toy final : public Trainer {
 public:
  Toy(Device& device, const Words& words) : device_(device), words_(words), aside_(device.create_stream(StreamRole::other, "aside")) {
    loss_ = filled(Device::compute, words.loss, "loss");
    shard_ = filled(Device::compute, {2}, "shard");
    unread_ = filled(aside_, {2}, "unread");
  }

  Reply perform(const Action&, const Batch&) override { return {}; }
  Reply loss(Tensor& out) override {
    out = words_.has_loss ? loss_ : Tensor{};
    return {};
  }
  Reply parameters(std::vector<ParameterView>& out) override {
    out = {{.name = "0.weight", .shape = {2}, .start = 0, .shard = words_.has_shard ? shard_ : Tensor{}, .gradient = {}}};
    return {};
  }

 private:
  Tensor filled(Stream stream, const Shape& shape, const std::string& label) {
    const Tensor made = device_.empty(stream, DType::f32, shape, MemoryClass::other, label);
    device_.submit(stream, {.kind = WorkKind::fill, .label = label, .writes = {made}, .run = [=](const Kernels& kernels, NativeStream on) {
                              kernels.fill(on, made, 3);
                            }});
    return made;
  }

  Device& device_;
  Words words_;
  Stream aside_;
  Tensor loss_, shard_, unread_;
};

class ToySubject final : public Subject {
 public:
  explicit ToySubject(Words words = {}) : words_(std::move(words)) {}
  std::string_view name() const override { return "toy"; }
  std::string_view version() const override { return "1"; }
  std::set<Feature> capabilities() const override { return {}; }
  Reply create(const Model&, const Plan&, const Seat& seat, std::unique_ptr<Trainer>& out) override {
    out = std::make_unique<Toy>(seat.device, words_);
    return {};
  }

 private:
  Words words_;
};

Run play_alone(const Scenario& scenario, Words words = {}) {
  ControlPage control = ControlPage::anonymous(1);
  const auto groups = make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
  ToySubject subject(std::move(words));
  return testing::play_simulated(scenario, subject, *groups.front(), 0);
}

}  // namespace

TEST_CASE("what the host reads of a run is an access of the host, after it has waited for it") {
  const Run run = play_alone(sleeping_stack(1).train(2, {}));
  std::size_t read = 0;
  for (const Fact& fact : run.trace().facts) {
    if (const auto* access = std::get_if<fact::HostAccess>(&fact)) read += access->reads.size();
  }
  CHECK(read == 2 * 2);  // a loss and a shard in each iteration
  CHECK(run.races().empty());
  REQUIRE(run.iterations().size() == 2);
  CHECK(run.iterations()[1].loss == 3);
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

TEST_CASE("a subject whose answers hold no loss or no shard is told which call, iteration and rank") {
  const Scenario scenario = sleeping_stack(1).train(2, {});
  const auto message = [](const std::string& text) { return Catch::Matchers::Message("subject: " + text); };
  CHECK_THROWS_MATCHES(play_alone(scenario, {.has_loss = false}), SubjectError,
                       message("loss failed in iteration 0 on rank 0: an undefined tensor instead of one element"));
  CHECK_THROWS_MATCHES(play_alone(scenario, {.loss = {0}}), SubjectError,
                       message("loss failed in iteration 0 on rank 0: f32 [0] instead of one element"));
  CHECK_THROWS_MATCHES(play_alone(scenario, {.loss = {2}}), SubjectError,
                       message("loss failed in iteration 0 on rank 0: f32 [2] instead of one element"));
  CHECK_THROWS_MATCHES(play_alone(scenario, {.has_shard = false}), SubjectError,
                       message("parameters failed in iteration 0 on rank 0: \"0.weight\" has no shard"));
}
