#include "harness/player/player.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "harness/player/extensions.hpp"
#include "harness/player/gradient_hooks.hpp"
#include "harness/player/notebook.hpp"
#include "harness/player/remembering_communicator.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/scenario/validate_script.hpp"

namespace shardproof::player {

namespace {

// Copies that the compute stream makes while the script runs. The host reads them when all work has ended.
struct Snapshot {
  Tensor loss;
  std::vector<CapturedParameter> parameters;  ///< tensors on the device until `bring_home`
  int iteration = 0;
};

// The gradients before a clip_grad_norm, copied in the same way.
struct Unclipped {
  int iteration = 0;
  double max_norm = 0, norm_type = 2;
  std::vector<CapturedParameter> gradients;  ///< only their gradients
};

// Owns the notebook of a play, and closes it however the play ends. An engine that still holds a hook or a group then
// has a closed notebook.
class OpenNotebook {
 public:
  OpenNotebook(Device& device, const Script& script) : notebook_(std::make_shared<Notebook>(device, script)) {}
  ~OpenNotebook() { notebook_->close(); }
  OpenNotebook(const OpenNotebook&) = delete;
  OpenNotebook& operator=(const OpenNotebook&) = delete;

  Notebook* operator->() const { return notebook_.get(); }
  const std::shared_ptr<Notebook>& shared() const { return notebook_; }

 private:
  std::shared_ptr<Notebook> notebook_;
};

/// The sum of |g| to the power of `type`, or the largest |g| for an infinite type. In host memory.
double power_of(const Tensor& gradient, double type) {
  double power = 0;
  for (const double value : gradient.to_doubles()) {
    const double size = std::abs(value);
    if (std::isinf(type)) power = std::isnan(size) ? size : std::max(power, size);
    else power += std::pow(size, type);
  }
  return power;
}

class ScenarioPlayer {
 public:
  ScenarioPlayer(const Scenario& scenario, Subject& subject, Platform& platform, int rank, ClipNotes clip_notes)
      : scenario_(scenario),
        notes_gradients_(clip_notes == ClipNotes::before_clipping && scenario.costs.host_call == 0),
        platform_(platform),
        device_(platform.device()),
        notebook_(device_, scenario.script),
        communicator_(platform.world(), notebook_.shared(), scenario.script.enforce_tags),
        extensions_(scenario.model, notebook_.shared()),
        hooks_(communicator_, rank, notebook_.shared()),
        rank_(rank) {
    for (const ParameterShape& parameter : parameters(scenario.model)) {
      if (parameter.tensor == TensorKind::two_tensor) pairs_.insert(parameter.name);
    }
    check(subject.create(scenario.model, scenario.plan, {device_, communicator_, rank}, trainer_), "create");
  }

  Run take() {
    const std::vector<Script::Segment>& segments = scenario_.script.segments;
    for (place_.segment = 0; place_.segment < segments.size(); ++place_.segment) {
      const Script::Segment& segment = segments[place_.segment];
      for (int i = 0; i < segment.iterations; ++i, ++iteration_) {
        occurrences_.clear();
        for (place_.call = 0; place_.call < segment.body.size(); ++place_.call) {
          const Action& action = segment.body[place_.call];
          if (is_for(action, rank_)) act(action);
        }
      }
    }
    device_.synchronize(Device::compute);
    notes_.captures = bring_home_captured();
    notes_.clipped = bring_home_clipped();
    batch_ = {};
    trainer_.reset();
    // Not earlier: otherwise memory that the engine frees too early would look as if the engine had waited.
    device_.synchronize();
    notebook_->hand_over(notes_);
    const std::size_t left_alive = platform_.live_bytes();
    return {scenario_, platform_.take_recording(), std::move(notes_), left_alive};
  }

 private:
  void act(const Action& action) {
    const bool runs = action.kind == ActionKind::forward || action.kind == ActionKind::evaluate;
    if (runs) batch_ = batch(action.micro_batch);
    const std::string call = fmt::format("{}{}", action.fails_in ? "failing " : "", to_string(action.kind));
    const int occurrence = ++occurrences_[call];
    if (action.kind == ActionKind::clip_grad_norm && notes_gradients_) note_gradients(action);
    notebook_->turn_to(iteration_, call);
    device_.mark(mark(iteration_, call, false, occurrence));
    if (action.kind == ActionKind::capture) {
      capture();
    } else if (action.kind == ActionKind::extend) {
      extend(*action.extension);
    } else if (action.kind == ActionKind::register_hook) {
      register_hook(action, call);
    } else if (!action.fails_in) {
      check(trainer_->perform(for_this_rank(action), runs ? batch_ : Batch{}), call);
    } else {
      require_planned_failure(trainer_->perform(for_this_rank(action), batch_), call, *action.fails_in);
    }
    device_.mark(mark(iteration_, call, true, occurrence));
    if (action.kind == ActionKind::backward && scenario_.plan.engine.get()->compiles()) take_compiled_step(occurrence);
  }

  // Most steps are equal, so equal steps share one list of graphs.
  void take_compiled_step(int backward) {
    constexpr std::string_view call = "compiled_plan";
    std::vector<StepGraph> graphs;
    const Reply reply = trainer_->compiled_plan(graphs);
    if (reply.status() == CallStatus::unsupported)
      refuse(
          call,
          fmt::format("the plan has a compiled step, but the engine does not say what it compiled: {}", reply.error()),
          reply.status());
    check(reply, call);
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      if (const std::string why = objection_to(graphs[i]); !why.empty())
        refuse(call, fmt::format("pass {} ({}) is not well formed: {}", i, shardproof::to_string(graphs[i].pass), why));
    }
    auto& steps = notes_.compiled_steps;
    const auto same = std::ranges::find_if(steps, [&](const CompiledStep& step) { return *step.graphs == graphs; });
    steps.push_back({.iteration = iteration_,
                     .backward = backward,
                     .graphs = same != steps.end()
                                   ? same->graphs
                                   : std::make_shared<const std::vector<StepGraph>>(std::move(graphs))});
  }

  // Removes the parts of an action that a subject must not see: the ranks it is for, its micro-batch, and the expected
  // reply. A subject gets only the calls of its rank, with their inputs.
  static Action for_this_rank(Action action) {
    action.ranks.clear();
    action.micro_batch = 0;
    if (action.hook) action.hook->refused = false;
    return action;
  }

  // Throws if the forward fails for another reason: such a failure does not show what the script tests.
  void require_planned_failure(const Reply& reply, const std::string& call, const std::string& module) {
    note_warnings(reply, call);
    if (communicator_.thrown()) std::rethrow_exception(communicator_.thrown());
    if (reply.status() == CallStatus::planned_failure) return;
    const std::string found =
        reply.ok() ? "it succeeded" : fmt::format("it failed for another reason: {}", reply.error());
    refuse(call, fmt::format("module \"{}\" must fail in this call, but {}", module, found), reply.status());
  }

  void extend(const Extension& extension) {
    check(trainer_->register_all_gather_extension({extension.parameter, extension.tensor}, extensions_.make(extension)),
          "extend");
  }

  // The engine's own hook comes with the call. After a planned refusal, the script goes on.
  void register_hook(const Action& action, const std::string& call) {
    const Hook& hook = *action.hook;
    const bool is_own = registers_compression(action);
    const HookTarget target{.point = hook.point, .module = action.module, .direct = hook.direct};
    const Reply reply = is_own ? trainer_->perform(for_this_rank(action), {})
                               : trainer_->register_gradient_hook(target, hooks_.make(hook));
    if (!hook.refused) return check(reply, call);
    note_warnings(reply, call);
    if (reply.status() == CallStatus::unsupported) refuse(call, reply.error(), reply.status());
    if (reply.ok())
      refuse(call, fmt::format("the engine must refuse the hook \"{}\" at \"{}\", but it accepted it",
                               to_string(hook.kind), action.module));
    notes_.refusals.push_back({iteration_, call, reply.error()});
  }

  Batch batch(int micro_batch) {
    const auto seed = [&](int base) {
      return static_cast<std::uint32_t>(base + 100 * iteration_ + batch_of(scenario_, rank_)) +
             micro_batch_seed * static_cast<std::uint32_t>(micro_batch);
    };
    const Script& script = scenario_.script;
    const std::int64_t tokens = vocabulary(scenario_.model);
    Batch made;
    if (!script.given.empty()) {
      made.input = filled("input", given());
    } else {
      made.input = filled("input", tokens > 0 ? formula::tokens(seed(5000), script.input, tokens)
                                              : formula::tensor(seed(1000), script.input, script.input_divisor));
    }
    if (scenario_.model.loss.kind == LossKind::cross_entropy) {
      const std::int64_t rows = tokens > 0 ? script.input[0] * script.input[1] : script.input[0];
      made.targets = filled("targets", formula::tokens(seed(6000), {rows}, output_features(scenario_)));
    }
    return made;
  }

  Tensor given() const {
    const Script& script = scenario_.script;
    const auto& ranks = script.given[static_cast<std::size_t>(iteration_) % script.given.size()];
    const std::vector<double>& values = ranks[static_cast<std::size_t>(batch_of(scenario_, rank_)) % ranks.size()];
    const std::vector<float> narrowed(values.begin(), values.end());
    return Tensor::of<float>(script.input, narrowed);
  }

  Tensor filled(const char* label, const Tensor& values) {
    const Tensor filled =
        device_.empty(Device::compute, values.dtype(), values.shape(), MemoryClass::activation, label);
    device_.submit(Device::compute,
                   {.kind = WorkKind::fill,
                    .label = label,
                    .writes = {filled},
                    .run = [=](const Kernels& kernels, NativeStream stream) { kernels.copy(stream, filled, values); }});
    return filled;
  }

  Tensor copy(const Tensor& source) { return snapshot(device_, Device::compute, source); }

  void capture() {
    Snapshot taken;
    Tensor loss;
    check(trainer_->loss(loss), "loss");
    if (loss.numel() != 1) {
      const std::string found = loss.defined()
                                    ? fmt::format("{} {}", to_string(loss.dtype()), shardproof::to_string(loss.shape()))
                                    : "an undefined tensor";
      refuse("loss", found + " instead of one element");
    }
    taken.loss = copy(loss);
    std::vector<ParameterView> views;
    check(trainer_->parameters(views), "parameters");
    for (const ParameterView& view : views) {
      require_values(view);
      taken.parameters.push_back(
          {view.name, view.shape, view.dim, view.start, copy(view.shard), copy(view.second), copy(view.gradient)});
    }
    taken.iteration = iteration_;
    snapshots_.push_back(std::move(taken));
  }

  // Only gradients that the call clips: those of groups.
  void note_gradients(const Action& action) {
    std::vector<ParameterView> views;
    check(trainer_->parameters(views), "parameters");
    Unclipped taken{
        .iteration = iteration_, .max_norm = action.max_norm, .norm_type = action.norm_type, .gradients = {}};
    for (const ParameterView& view : views) {
      if (view.gradient.defined() && scenario_.plan.engine.get()->reduces(view.name))
        taken.gradients.push_back({view.name, view.shape, view.dim, view.start, {}, {}, copy(view.gradient)});
    }
    unclipped_.push_back(std::move(taken));
  }

  // The caller has synchronized the compute stream.
  std::vector<ClippedGradients> bring_home_clipped() {
    std::vector<ClippedGradients> all;
    for (Unclipped& taken : std::exchange(unclipped_, {})) {
      std::vector<Tensor*> tensors;
      for (CapturedParameter& parameter : taken.gradients) tensors.push_back(&parameter.gradient);
      bring_home(device_, tensors);
      ClippedGradients& clipped = all.emplace_back();
      clipped.iteration = taken.iteration;
      clipped.max_norm = taken.max_norm;
      clipped.norm_type = taken.norm_type;
      for (const CapturedParameter& parameter : taken.gradients)
        clipped.parts.push_back({parameter.name, parameter.start, power_of(parameter.gradient, taken.norm_type)});
    }
    return all;
  }

  void require_values(const ParameterView& view) const {
    if (!view.shard.defined()) {
      const bool may_be_meta = scenario_.plan.initialisation == Initialisation::meta;
      refuse("parameters",
             fmt::format("\"{}\" has no shard{}", view.name, may_be_meta ? ": it is meta until materialize" : ""));
    }
    if (!pairs_.contains(view.name)) return;
    if (!view.second.defined())
      refuse("parameters", fmt::format("\"{}\" has no second tensor, though it is a pair", view.name));
    if (view.second.shape() != view.shard.shape())
      refuse("parameters",
             fmt::format("\"{}\" is a pair of {} and {} on this rank", view.name,
                         shardproof::to_string(view.shard.shape()), shardproof::to_string(view.second.shape())));
  }

  // The caller has synchronized the compute stream, which made the snapshots.
  std::vector<Capture> bring_home_captured() {
    std::vector<Capture> captures;
    for (Snapshot& snapshot : std::exchange(snapshots_, {})) {
      std::vector<Tensor*> tensors{&snapshot.loss};
      for (CapturedParameter& parameter : snapshot.parameters) {
        for (Tensor* tensor : {&parameter.shard, &parameter.second, &parameter.gradient}) tensors.push_back(tensor);
      }
      bring_home(device_, tensors);
      captures.push_back({.loss = snapshot.loss.to_doubles().at(0),
                          .parameters = std::move(snapshot.parameters),
                          .iteration = snapshot.iteration});
    }
    return captures;
  }

  [[noreturn]] void refuse(std::string_view call, std::string_view why, CallStatus status = CallStatus::failed) const {
    SubjectError error(std::string(call), trainer_ ? std::optional(iteration_) : std::nullopt, rank_, std::string(why),
                       status);
    if (trainer_) error.set_place(place_);
    throw error;
  }

  void check(const Reply& reply, std::string_view call) {
    note_warnings(reply, call);
    if (reply.ok()) return;
    if (communicator_.thrown()) std::rethrow_exception(communicator_.thrown());
    refuse(call, reply.error(), reply.status());
  }

  void note_warnings(const Reply& reply, std::string_view call) {
    for (const std::string& warning : reply.warnings)
      notes_.warnings.push_back({iteration_, std::string(call), warning});
  }

  const Scenario& scenario_;
  bool notes_gradients_;
  Platform& platform_;
  Device& device_;
  OpenNotebook notebook_;
  RememberingCommunicator communicator_;
  Extensions extensions_;
  GradientHooks hooks_;
  int rank_;
  int iteration_ = 0;
  ScriptPlace place_;  // of the call that runs
  Run::Notes notes_;
  std::set<std::string> pairs_;  // parameters of two tensors
  std::vector<Snapshot> snapshots_;
  std::vector<Unclipped> unclipped_;
  Batch batch_;
  std::map<std::string, int> occurrences_;  // of each call in this iteration
  std::unique_ptr<Trainer> trainer_;  // Last member: it must be destroyed before the objects that it uses.
};

std::string failed_call(const std::string& call, std::optional<int> iteration, CallStatus status) {
  const std::string_view verb = status == CallStatus::unsupported ? "is not supported" : "failed";
  return iteration ? fmt::format("{} {} in iteration {}", call, verb, *iteration) : fmt::format("{} {}", call, verb);
}

}  // namespace

SubjectError::SubjectError(std::string call, std::optional<int> iteration, int rank, std::string reason,
                           CallStatus status)
    : std::runtime_error(fmt::format("subject: {} on rank {}: {}", failed_call(call, iteration, status), rank, reason)),
      call_(std::move(call)),
      iteration_(iteration),
      reason_(std::move(reason)),
      status_(status) {}

std::string SubjectError::on_any_rank() const {
  return fmt::format("{}: {}", failed_call(call_, iteration_, status_), reason_);
}

Run play(const Scenario& scenario, Subject& subject, Platform& platform, int rank, ClipNotes clip_notes) {
  validate(scenario);
  scenario::validate_script_in_world(scenario, platform.world().size());
  return ScenarioPlayer(scenario, subject, platform, rank, clip_notes).take();
}

}  // namespace shardproof::player
