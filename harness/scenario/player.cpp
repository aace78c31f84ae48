#include "harness/scenario/player.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "harness/device/sim/sim_device.hpp"
#include "harness/scenario/formula.hpp"

namespace shardproof::scenario {

namespace {

// A subject may turn an exception of the group into an error text; the player wants the exception itself: it tells a released wait and a
// mismatch from the subject's own errors.
class RememberingCommunicator final : public Communicator {
 public:
  explicit RememberingCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  std::span<const int> members() const override { return inner_->members(); }
  void run(Stream stream, const Collective& collective) override {
    try {
      inner_->run(stream, collective);
    } catch (...) {
      thrown_ = std::current_exception();
      throw;
    }
  }
  const std::exception_ptr& thrown() const { return thrown_; }

 private:
  std::unique_ptr<Communicator> inner_;
  std::exception_ptr thrown_;
};

// Copies taken on the compute stream while the script runs, read when everything has ended.
struct Snapshot {
  Tensor loss;
  std::vector<CapturedParameter> parameters;  ///< tensors on the device until they are brought home
};

class Performance {
 public:
  Performance(const Scenario& scenario, Subject& subject, Group& world, int rank)
      : scenario_(scenario), device_(scenario.costs, rank), communicator_(device_.communicator(world)), rank_(rank) {
    check(subject.create(scenario.model, scenario.plan, {device_, communicator_, rank}, trainer_), "create");
  }

  Run take() {
    for (iteration_ = 0; iteration_ < scenario_.script.iterations; ++iteration_) {
      for (const ActionKind action : scenario_.script.body) act(action);
    }
    device_.synchronize(Device::compute);
    std::vector<Iteration> iterations = bring_home();
    input_ = {};
    trainer_.reset();
    const std::size_t left_alive = device_.live_bytes();
    return {scenario_, device_.take_trace(), std::move(iterations), std::move(warnings_), left_alive};
  }

 private:
  void act(ActionKind action) {
    if (action == ActionKind::forward) input_ = input();
    device_.mark(mark(iteration_, action));
    switch (action) {
      case ActionKind::forward: check(trainer_->forward(input_), "forward"); break;
      case ActionKind::backward: check(trainer_->backward(), "backward"); break;
      case ActionKind::step: check(trainer_->step(), "step"); break;
      case ActionKind::zero_grad: check(trainer_->zero_grad(), "zero_grad"); break;
      case ActionKind::post_optim_event: check(trainer_->use_post_optim_event(), "use_post_optim_event"); break;
      case ActionKind::capture: capture(); break;
    }
    device_.mark(mark(iteration_, action, true));
  }

  Tensor input() {
    const auto seed = static_cast<std::uint32_t>(1000 + 100 * iteration_ + rank_);
    const Tensor values = formula::tensor(seed, scenario_.script.input, scenario_.script.input_divisor);
    const Tensor input = device_.empty(Device::compute, DType::f32, scenario_.script.input, MemoryClass::activation, "input");
    device_.submit(Device::compute, {.kind = WorkKind::fill,
                                     .label = "input",
                                     .reads = {},
                                     .writes = {input},
                                     .run = [=](const Kernels& kernels, NativeStream stream) { kernels.copy(stream, input, values); }});
    return input;
  }

  Tensor copy(const Tensor& source) {
    if (!source.defined()) return {};
    const Tensor target = device_.empty(Device::compute, source.dtype(), source.shape(), MemoryClass::other, "snapshot");
    device_.submit(Device::compute, {.kind = WorkKind::snapshot,
                                     .label = "snapshot",
                                     .reads = {source},
                                     .writes = {target},
                                     .run = [=](const Kernels& kernels, NativeStream stream) { kernels.copy(stream, target, source); }});
    return target;
  }

  void capture() {
    Snapshot snapshot;
    Tensor loss;
    check(trainer_->loss(loss), "loss");
    snapshot.loss = copy(loss);
    std::vector<ParameterView> views;
    check(trainer_->parameters(views), "parameters");
    for (const ParameterView& view : views) {
      snapshot.parameters.push_back({view.name, view.shape, view.start, copy(view.shard), copy(view.gradient)});
    }
    snapshots_.push_back(std::move(snapshot));
  }

  // The caller has synchronized.
  std::vector<Iteration> bring_home() {
    std::vector<Iteration> iterations;
    for (Snapshot& snapshot : std::exchange(snapshots_, {})) {
      Iteration iteration{.loss = snapshot.loss.to_doubles().at(0), .parameters = std::move(snapshot.parameters)};
      for (CapturedParameter& parameter : iteration.parameters) {
        parameter.shard = parameter.shard.clone();
        if (parameter.gradient.defined()) parameter.gradient = parameter.gradient.clone();
      }
      iterations.push_back(std::move(iteration));
    }
    return iterations;
  }

  void check(const Reply& reply, std::string_view call) {
    for (const std::string& warning : reply.warnings) warnings_.push_back(fmt::format("iter {} {}: {}", iteration_, call, warning));
    if (reply.ok()) return;
    if (communicator_.thrown()) std::rethrow_exception(communicator_.thrown());
    throw SubjectError(fmt::format("subject: {} failed in iteration {} on rank {}: {}", call, iteration_, rank_, reply.error));
  }

  const Scenario& scenario_;
  SimDevice device_;
  RememberingCommunicator communicator_;
  int rank_;
  int iteration_ = 0;
  std::vector<std::string> warnings_;
  std::vector<Snapshot> snapshots_;
  Tensor input_;
  std::unique_ptr<Trainer> trainer_;  // last: it goes before what it stands on
};

}  // namespace

Run play(const Scenario& scenario, Subject& subject, Group& world, int rank) {
  validate(scenario);
  return Performance(scenario, subject, world, rank).take();
}

}  // namespace shardproof::scenario
