// Wrappers between a faulty subject and the harness. harness/device/wrappers.hpp has the wrappers of the device and the
// communicator.
//
// The room `faults` has what a fault may change in a subject, and the registry of faults. The named faults are in
// fixtures/faults.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/device/wrappers.hpp"
#include "harness/subject/subject.hpp"

namespace shardproof {

/// Passes every call on. A fault overrides the one function that it breaks.
class TrainerWrapper : public Trainer {
 public:
  explicit TrainerWrapper(std::unique_ptr<Trainer> inner) : inner_(std::move(inner)) {}

  Reply perform(const Action& action, const Batch& batch) override { return inner_->perform(action, batch); }
  Reply register_all_gather_extension(const ExtensionTarget& target, AllGatherExtension extension) override {
    return inner_->register_all_gather_extension(target, std::move(extension));
  }
  Reply register_gradient_hook(const HookTarget& target, GradientHook hook) override {
    return inner_->register_gradient_hook(target, std::move(hook));
  }
  Reply loss(Tensor& out) override { return inner_->loss(out); }
  Reply parameters(std::vector<ParameterView>& out) override { return inner_->parameters(out); }
  Reply compiled_plan(std::vector<StepGraph>& out) override { return inner_->compiled_plan(out); }

 protected:
  std::unique_ptr<Trainer> inner_;
};

/// The reply with its error text changed by `change`. An ok reply stays as it is.
Reply reworded(Reply reply, const std::function<std::string(const std::string&)>& change);

/// The parts that a fault puts around one trainer. The communicators and the trainer may refer to the device, which
/// outlives them. An empty member changes nothing.
struct AlteredParts {
  std::unique_ptr<Device> device;
  /// Called for the world, and again for every group that is split off: these groups have the defect, too.
  std::function<std::unique_ptr<Communicator>(Communicator&)> communicator;
  std::function<std::unique_ptr<Trainer>(std::unique_ptr<Trainer>)> trainer;
};

/// The changes of a fault to a subject. An empty member changes nothing.
struct Alteration {
  std::function<void(Model&)> model;
  std::function<void(Plan&)> plan;
  std::function<void(Plan&, int rank)> plan_of_rank;  ///< called after `plan`
  /// Makes the parts of each trainer, around the device and the world of its context.
  std::function<AlteredParts(const EngineContext&)> parts;
};

/// The subject with the alteration. It keeps its name, version and claims.
std::unique_ptr<Subject> altered(std::unique_ptr<Subject> subject, Alteration alteration);

/// The subject on an `Altered` device, made from the subject's own device and the arguments.
template <class Altered, class... Arguments>
std::unique_ptr<Subject> with_device(std::unique_ptr<Subject> subject, Arguments... arguments) {
  return altered(std::move(subject), {.parts = [arguments...](const EngineContext& context) {
                   return AlteredParts{.device = std::make_unique<Altered>(context.device, arguments...)};
                 }});
}

/// An `Altered` communicator around `inner`. Its constructor may want the device as its second argument.
template <class Altered, class... Arguments>
std::unique_ptr<Communicator> communicator_around(Communicator& inner, Device& device, const Arguments&... arguments) {
  if constexpr (std::is_constructible_v<Altered, Communicator&, Device&, const Arguments&...>)
    return std::make_unique<Altered>(inner, device, arguments...);
  else return std::make_unique<Altered>(inner, arguments...);
}

/// The subject with `Altered` communicators, made from the subject's own communicators by `communicator_around`.
template <class Altered, class... Arguments>
std::unique_ptr<Subject> with_communicators(std::unique_ptr<Subject> subject, Arguments... arguments) {
  return altered(std::move(subject), {.parts = [arguments...](const EngineContext& context) {
                   return AlteredParts{.communicator = [&device = context.device, arguments...](Communicator& inner) {
                     return communicator_around<Altered>(inner, device, arguments...);
                   }};
                 }});
}

/// The subject with `Altered` trainers, made from the subject's own trainer and the arguments.
template <class Altered, class... Arguments>
std::unique_ptr<Subject> with_trainer(std::unique_ptr<Subject> subject, Arguments... arguments) {
  return altered(std::move(subject), {.parts = [arguments...](const EngineContext&) {
                   return AlteredParts{.trainer = [arguments...](std::unique_ptr<Trainer> inner) {
                     return std::make_unique<Altered>(std::move(inner), arguments...);
                   }};
                 }});
}

/// The subject with the sections of this type changed in its plans. Plans of other kinds stay as they are.
template <class Section>
std::unique_ptr<Subject> altered_section(std::unique_ptr<Subject> subject, std::function<void(Section&)> change) {
  return altered(std::move(subject), {.plan = [change = std::move(change)](Plan& plan) {
                   if (auto* const section = plan.engine.as<Section>()) change(*section);
                 }});
}

/// A wait that is about to be issued. `stream` waits for an event on the stream of role `recorded_on`. The event was
/// recorded right after a collective of kind `after_collective`, or after work of kind `after_work`.
struct Wait {
  StreamRole stream = StreamRole::compute;
  StreamRole recorded_on = StreamRole::compute;
  std::optional<CollectiveKind> after_collective;
  std::optional<WorkKind> after_work;
};

/// The subject without the waits for which `drop` holds.
std::unique_ptr<Subject> drop_waits(std::unique_ptr<Subject> subject, std::function<bool(const Wait&)> drop);

}  // namespace shardproof
