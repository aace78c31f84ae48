#include "harness/scenario/player.hpp"

#include <fmt/format.h>

#include <exception>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "harness/scenario/formula.hpp"

namespace shardproof::scenario {

namespace {

// A subject may turn an exception of the group into an error text; the player wants the exception itself: it tells a released wait and a
// mismatch from the subject's own errors.
class RememberingCommunicator final : public Communicator {
 public:
  explicit RememberingCommunicator(Communicator& inner)
      : inner_(std::shared_ptr<void>(), &inner), thrown_(std::make_shared<std::exception_ptr>()) {}

  int rank() const override { return inner_->rank(); }
  std::span<const int> members() const override { return inner_->members(); }
  const FabricCapabilities& capabilities() const override { return inner_->capabilities(); }
  void run(Stream stream, const Collective& collective) override {
    remembering([&] { inner_->run(stream, collective); });
  }
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override {
    std::shared_ptr<Communicator> part;
    remembering([&] { part = inner_->split(color, key, name); });
    return part ? std::unique_ptr<Communicator>(new RememberingCommunicator(std::move(part), thrown_)) : nullptr;
  }
  /// The first exception that passed, here or in a group split off.
  const std::exception_ptr& thrown() const { return *thrown_; }

 private:
  RememberingCommunicator(std::shared_ptr<Communicator> inner, std::shared_ptr<std::exception_ptr> thrown)
      : inner_(std::move(inner)), thrown_(std::move(thrown)) {}

  template <class Call>
  void remembering(Call&& call) {
    try {
      call();
    } catch (...) {
      if (!*thrown_) *thrown_ = std::current_exception();
      throw;
    }
  }

  std::shared_ptr<Communicator> inner_;
  std::shared_ptr<std::exception_ptr> thrown_;  // shared by all groups of a play
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
        occurrences_.clear();
        for (const Action& action : segment.body) act(action);
      }
    }
    device_.synchronize(Device::compute);
    std::vector<Iteration> iterations = bring_home();
    batch_ = {};
    trainer_.reset();
    device_.synchronize();  // not before: memory that the engine gives back too early would look as if it had been waited for
    const std::size_t left_alive = platform_.live_bytes();
    notes_.iterations = std::move(iterations);
    return {scenario_, platform_.take_recording(), std::move(notes_), left_alive};
  }

 private:
  void act(const Action& action) {
    const bool runs = action.kind == ActionKind::forward || action.kind == ActionKind::evaluate;
    if (runs) batch_ = batch();
    const std::string call = fmt::format("{}{}", action.fails_in ? "failing " : "", to_string(action.kind));
    const int occurrence = ++occurrences_[call];
    device_.mark(mark(iteration_, call, false, occurrence));
    if (action.kind == ActionKind::capture) {
      capture();
    } else if (!action.fails_in) {
      check(trainer_->perform(action, runs ? batch_ : Batch{}), call);
    } else if (trainer_->perform(action, batch_).ok()) {
      refuse(call, fmt::format("module \"{}\" was to fail, and the forward succeeded", *action.fails_in));
    } else if (communicator_.thrown()) {
      std::rethrow_exception(communicator_.thrown());
    }
    device_.mark(mark(iteration_, call, true, occurrence));
  }

  Batch batch() {
    const auto seed = [this](int base) { return static_cast<std::uint32_t>(base + 100 * iteration_ + rank_); };
    const Script& script = scenario_.script;
    const std::int64_t tokens = vocabulary(scenario_.model);
    Batch made;
    made.input = filled("input", tokens > 0 ? formula::tokens(seed(5000), script.input, tokens)
                                            : formula::tensor(seed(1000), script.input, script.input_divisor));
    if (scenario_.model.loss.kind == LossKind::cross_entropy) {
      const std::int64_t rows = tokens > 0 ? script.input[0] * script.input[1] : script.input[0];
      made.targets = filled("targets", formula::tokens(seed(6000), {rows}, output_features(scenario_)));
    }
    return made;
  }

  Tensor filled(const char* label, const Tensor& values) {
    const Tensor filled = device_.empty(Device::compute, values.dtype(), values.shape(), MemoryClass::activation, label);
    device_.submit(Device::compute,
                   {.kind = WorkKind::fill, .label = label, .writes = {filled}, .run = [=](const Kernels& kernels, NativeStream stream) {
                      kernels.copy(stream, filled, values);
                    }});
    return filled;
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
      snapshot.parameters.push_back(
          {view.name, view.shape, view.dim, view.start, copy(view.shard), copy(view.second), copy(view.gradient)});
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
      Iteration iteration{.loss = device_.to_host(snapshot.loss).to_doubles().at(0), .parameters = std::move(snapshot.parameters)};
      for (CapturedParameter& parameter : iteration.parameters) {
        parameter.shard = device_.to_host(parameter.shard);
        if (parameter.gradient.defined()) parameter.gradient = device_.to_host(parameter.gradient);
      }
      iterations.push_back(std::move(iteration));
    }
    return iterations;
  }

  [[noreturn]] void refuse(std::string_view call, std::string_view why) const {
    throw SubjectError(std::string(call), trainer_ ? std::optional(iteration_) : std::nullopt, rank_, std::string(why));
  }

  void check(const Reply& reply, std::string_view call) {
    for (const std::string& warning : reply.warnings) notes_.warnings.push_back(fmt::format("iter {} {}: {}", iteration_, call, warning));
    if (reply.ok()) return;
    if (communicator_.thrown()) std::rethrow_exception(communicator_.thrown());
    refuse(call, reply.error);
  }

  const Scenario& scenario_;
  Platform& platform_;
  Device& device_;
  RememberingCommunicator communicator_;
  int rank_;
  int iteration_ = 0;
  Run::Notes notes_;
  std::vector<Snapshot> snapshots_;
  Batch batch_;
  std::map<std::string, int> occurrences_;  // of calls in this iteration
  std::unique_ptr<Trainer> trainer_;  // last: it goes before what it stands on
};

std::string place_of(const std::string& call, std::optional<int> iteration) {
  return iteration ? fmt::format("{} failed in iteration {}", call, *iteration) : fmt::format("{} failed", call);
}

}  // namespace

SubjectError::SubjectError(std::string call, std::optional<int> iteration, int rank, std::string reason)
    : std::runtime_error(fmt::format("subject: {} on rank {}: {}", place_of(call, iteration), rank, reason)),
      call_(std::move(call)),
      iteration_(iteration),
      reason_(std::move(reason)) {}

std::string SubjectError::on_any_rank() const { return fmt::format("{}: {}", place_of(call_, iteration_), reason_); }

Run play(const Scenario& scenario, Subject& subject, Platform& platform, int rank) {
  validate(scenario);
  return Performance(scenario, subject, platform, rank).take();
}

}  // namespace shardproof::scenario
