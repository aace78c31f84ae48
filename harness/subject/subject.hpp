// The engine under test, as the suite sees it. An engine in another language must fit this interface. So models and
// plans are data, tensors are borrowed views, and nothing throws across the boundary. Each call returns a status, an
// error text and warnings. The suite observes the engine through the device and the communicator, and never asks the
// engine.
//
// The room `subject` has the interface of an engine, and the same in C. No engine may enter.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/protocol/step_graph.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/subject/claims.hpp"
#include "harness/subject/extension.hpp"
#include "harness/subject/gradient_hook.hpp"
#include "harness/subject/reply.hpp"

namespace shardproof {

/// The place of a trainer: its rank's device, and the collectives of the whole world on this device.
struct EngineContext {
  Device& device;
  Communicator& world;
  int rank = 0;
};

/// The operands of a forward, valid on the compute stream.
struct Batch {
  /// f32 [batch, features], or i64 [batch, positions] of tokens.
  Tensor input;
  /// i64, one for each row of the model's output. Undefined unless the loss needs them.
  Tensor targets;
};

/// A value of `ParameterView::dim`: the shard is a range of elements, not of rows.
inline constexpr int flattened = -1;

/// One parameter on one rank. Its tensors are valid on the compute stream. A shard is the part [start, start +
/// shard.shape[dim]) of the logical tensor along `dim`; an unsharded parameter is whole. With `dim` = `flattened` the
/// shard has one dimension: the elements [start, start + shard.numel()) of the logical tensor, row-major.
struct ParameterView {
  std::string name;
  Shape shape;  ///< logical
  int dim = 0;
  std::int64_t start = 0;
  /// Local; may have no rows. Undefined while the parameter is meta: then it has a shape, but no memory.
  Tensor shard;
  /// The second component of a two-tensor parameter, with the shard's shape.
  Tensor second;
  /// With the shard's shape and dtype. Undefined if the parameter has no gradient.
  Tensor gradient;
};

/// One engine on one rank. Calls come in the order of a script. All ranks get the same calls, except calls that the
/// script gives to only some ranks.
class Trainer {
 public:
  virtual ~Trainer() = default;
  /// The batch belongs to `forward` and `evaluate`, and is undefined for other actions. An action that the engine does
  /// not know is `unsupported`. A forward in which the module in `fails_in` has thrown is a `planned_failure`. The next
  /// forward then begins as if the failed forward had never run, and the forward before it keeps its backward. After
  /// any other failure the player only destroys the trainer, which then releases all that it holds.
  virtual Reply perform(const Action& action, const Batch& batch) = 0;
  /// Sets how parameters are gathered. The engine reads the extensions when training starts, at the first forward. A
  /// later call is an error, and so is an extension that lacks a hook. An `extend` of a script always calls this
  /// function, never `perform`.
  virtual Reply register_all_gather_extension(const ExtensionTarget& /*target*/, AllGatherExtension /*extension*/) {
    return Reply::unsupported("this engine knows no all-gather extensions");
  }
  /// Adds a hook around reductions. A refused registration changes nothing. A `register_hook` of a script that names a
  /// user's hook always calls this function, never `perform`.
  virtual Reply register_gradient_hook(const HookTarget& /*target*/, GradientHook /*hook*/) {
    return Reply::unsupported("this engine has no gradient hooks");
  }
  /// One element, of the last forward or evaluate. The caller borrows it until the next call.
  virtual Reply loss(Tensor& out) = 0;
  /// In order of registration. The caller borrows them until the next call.
  virtual Reply parameters(std::vector<ParameterView>& out) = 0;
  /// For an engine that compiles its step: the passes that it played since the last backward began, or in the forward
  /// before it. A pass that ran eagerly has no graph.
  virtual Reply compiled_plan(std::vector<StepGraph>& /*out*/) {
    return Reply::unsupported("this engine compiles nothing");
  }
};

class Subject {
 public:
  virtual ~Subject() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view version() const = 0;
  virtual Claims claims() const = 0;
  virtual Reply create(const Model& model, const Plan& plan, const EngineContext& engine_context,
                       std::unique_ptr<Trainer>& out) = 0;
  /// The first failure of a trainer's destructor since the last call of this function.
  virtual Reply take_teardown_failure() { return {}; }

  /// Whether the engine's runtime starts threads that it keeps, or handles signals, until the process ends. Other
  /// threads of an engine must have ended when its trainer is destroyed.
  virtual bool keeps_threads() const { return false; }

  /// Whether ranks are copies of one process in which `prepare` has succeeded. `prepare` then runs once for a whole
  /// run. For a runtime that starts slowly.
  virtual bool wants_preparation() const { return false; }
  /// Does the slow part of the start that is the same for all ranks. It flushes its output, and leaves no thread of its
  /// own when it returns.
  virtual Reply prepare() { return {}; }
  /// Copies this process. Returns the process id of the copy, 0 in the copy, and a negative number after a failure,
  /// which errno explains. It may also throw, in both processes.
  virtual pid_t fork() { return ::fork(); }
};

}  // namespace shardproof
