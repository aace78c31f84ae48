#include "harness/scenario/player.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "harness/device/sim/sim_platform.hpp"
#include "harness/scenario/formula.hpp"

namespace shardproof::scenario {

namespace {

// A subject may turn an exception of the group into an error text; the player wants the exception itself: it tells a released wait and a
// mismatch from the subject's own errors.
class RememberingCommunicator final : public Communicator {
 public:
  explicit RememberingCommunicator(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  std::span<const int> members() const override { return inner_.members(); }
  void run(Stream stream, const Collective& collective) override {
    try {
      inner_.run(stream, collective);
    } catch (...) {
      if (!thrown_) thrown_ = std::current_exception();
      throw;
    }
  }
  /// The first exception that passed.
  const std::exception_ptr& thrown() const { return thrown_; }

 private:
  Communicator& inner_;
  std::exception_ptr thrown_;
};

// Copies taken on the compute stream while the script runs, read when everything has ended.
struct Snapshot {
  Tensor loss;
  std::vector<CapturedParameter> parameters;  ///< tensors on the device until they are brought home
};

class Performance {
 public:
  Performance(const Scenario& scenario, Subject& subject, Platform& platform, int rank)
      : scenario_(scenario), platform_(platform), device_(platform.device()), communicator_(platform.world()), rank_(rank) {
    check(subject.create(scenario.model, scenario.plan, {device_, communicator_, rank}, trainer_), "create");
  }

  Run take() {
    for (const Script::Segment& segment : scenario_.script.segments) {
      for (int i = 0; i < segment.iterations; ++i, ++iteration_) {
        for (const Action& action : segment.body) act(action);
      }
    }
    device_.synchronize(Device::compute);
    std::vector<Iteration> iterations = bring_home();
    input_ = {};
    trainer_.reset();
    device_.synchronize();  // not before: memory that the engine gives back too early would look as if it had been waited for
    const std::size_t left_alive = platform_.live_bytes();
    return {scenario_, platform_.take_trace(), std::move(iterations), std::move(warnings_), left_alive};
  }

 private:
  void act(const Action& action) {
    if (action.kind == ActionKind::forward) input_ = input();
    device_.mark(mark(iteration_, action.kind));
    if (action.kind == ActionKind::capture) {
      capture();
    } else {
      check(trainer_->perform(action, action.kind == ActionKind::forward ? input_ : Tensor{}), to_string(action.kind));
    }
    device_.mark(mark(iteration_, action.kind, true));
  }

  Tensor input() {
    const auto seed = static_cast<std::uint32_t>(1000 + 100 * iteration_ + rank_);
    const Tensor values = formula::tensor(seed, scenario_.script.input, scenario_.script.input_divisor);
    const Tensor input = device_.empty(Device::compute, DType::f32, scenario_.script.input, MemoryClass::activation, "input");
    device_.submit(Device::compute,
                   {.kind = WorkKind::fill, .label = "input", .writes = {input}, .run = [=](const Kernels& kernels, NativeStream stream) {
                      kernels.copy(stream, input, values);
                    }});
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
    if (loss.numel() != 1) {
      const std::string found =
          loss.defined() ? fmt::format("{} {}", to_string(loss.dtype()), shardproof::to_string(loss.shape())) : "an undefined tensor";
      refuse("loss", found + " instead of one element");
    }
    snapshot.loss = copy(loss);
    std::vector<ParameterView> views;
    check(trainer_->parameters(views), "parameters");
    for (const ParameterView& view : views) {
      if (!view.shard.defined()) refuse("parameters", fmt::format("\"{}\" has no shard", view.name));
      snapshot.parameters.push_back({view.name, view.shape, view.start, copy(view.shard), copy(view.gradient)});
    }
    snapshots_.push_back(std::move(snapshot));
  }

  // The caller has synchronized the compute stream, on which they were taken.
  std::vector<Iteration> bring_home() {
    std::vector<Iteration> iterations;
    for (const Snapshot& snapshot : snapshots_) {
      std::vector<Tensor> read{snapshot.loss};
      for (const CapturedParameter& parameter : snapshot.parameters) {
        read.push_back(parameter.shard);
        if (parameter.gradient.defined()) read.push_back(parameter.gradient);
      }
      device_.host_access("snapshot", read, {});
    }
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

  [[noreturn]] void refuse(std::string_view call, std::string_view why) const {
    throw SubjectError(fmt::format("subject: {} in iteration {} on rank {}: {}", call, iteration_, rank_, why));
  }

  void check(const Reply& reply, std::string_view call) {
    for (const std::string& warning : reply.warnings) warnings_.push_back(fmt::format("iter {} {}: {}", iteration_, call, warning));
    if (reply.ok()) return;
    if (communicator_.thrown()) std::rethrow_exception(communicator_.thrown());
    refuse(fmt::format("{} failed", call), reply.error);
  }

  const Scenario& scenario_;
  Platform& platform_;
  Device& device_;
  RememberingCommunicator communicator_;
  int rank_;
  int iteration_ = 0;
  std::vector<std::string> warnings_;
  std::vector<Snapshot> snapshots_;
  Tensor input_;
  std::unique_ptr<Trainer> trainer_;  // last: it goes before what it stands on
};

}  // namespace

Run play(const Scenario& scenario, Subject& subject, Platform& platform, int rank) {
  validate(scenario);
  return Performance(scenario, subject, platform, rank).take();
}

Run play(const Scenario& scenario, Subject& subject, Group& world, int rank) {
  SimPlatform platform(scenario.costs, world, rank);
  return play(scenario, subject, platform, rank);
}

}  // namespace shardproof::scenario
