// The engine under test, as the suite sees it. An engine in another language must fit behind this: models and plans are data, tensors are
// borrowed views, nothing throws across the boundary, every call answers with a status, an error text and the warnings that it raised.
// What the engine really did is read off the device and the communicator that it was given, never from its own word.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/subject/claims.hpp"
#include "harness/subject/extension.hpp"
#include "harness/subject/reply.hpp"

namespace shardproof {

/// Where a trainer sits: its rank's device, and the collectives of the whole world on it.
struct Seat {
  Device& device;
  Communicator& world;
  int rank = 0;
};

/// What a forward is given; valid on the compute stream.
struct Batch {
  Tensor input;  ///< f32 [batch, features], or i64 [batch, positions] of tokens
  Tensor targets;  ///< i64, one for each row of the model's output; undefined unless the loss asks for them
};

/// One parameter on one rank; its tensors are valid on the compute stream. A shard is the part [start, start + shard.shape[dim]) of the
/// logical tensor along `dim`; an unsharded parameter is whole.
struct ParameterView {
  std::string name;
  Shape shape;  ///< logical
  int dim = 0;
  std::int64_t start = 0;
  Tensor shard;  ///< local; may have no rows. Undefined while it is meta: shaped, and without memory
  Tensor second;  ///< of a two-tensor parameter: the second component, of the shard's shape
  Tensor gradient;  ///< of the shard's shape and dtype; undefined where there is none
};

/// One engine on one rank. Calls come in the order of a script; every rank makes the same ones.
class Trainer {
 public:
  virtual ~Trainer() = default;
  /// The batch belongs to `forward` and `evaluate` and is undefined otherwise. An action that the engine does not know is `unsupported`. A
  /// forward in which the module that the action names has thrown is a `planned_failure`. The next forward then begins as if the failed one
  /// had never been, and the forward before it keeps its backward. After any other failure the player only destroys the trainer, which then
  /// gives back all that it holds, in order.
  virtual Reply perform(const scenario::Action& action, const Batch& batch) = 0;
  /// How parameters are gathered from now on. Found when training starts, that is with the first forward: an error after that, and for an
  /// extension that lacks a hook. An `extend` of a script comes here and never to `perform`.
  virtual Reply register_all_gather_extension(const ExtensionTarget& /*target*/, AllGatherExtension /*extension*/) {
    return Reply::unsupported("this engine knows no all-gather extensions");
  }
  virtual Reply loss(Tensor& out) = 0;  ///< one element, of the last forward or evaluate; borrowed until the next call
  virtual Reply parameters(std::vector<ParameterView>& out) = 0;  ///< in order of registration; borrowed until the next call
};

class Subject {
 public:
  virtual ~Subject() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view version() const = 0;
  virtual Claims claims() const = 0;
  virtual Reply create(const scenario::Model& model, const scenario::Plan& plan, const Seat& seat, std::unique_ptr<Trainer>& out) = 0;
  /// The first failure of a trainer's destructor since the last call of this function.
  virtual Reply take_teardown_failure() { return {}; }

  /// Whether ranks are to be copies of one process in which `prepare` has succeeded, once for a whole run: where a runtime takes long to
  /// start.
  virtual bool wants_preparation() const { return false; }
  /// Whatever takes long and is the same for all ranks. What it prints is to be flushed, and no thread of its own may be left when it
  /// returns.
  virtual Reply prepare() { return {}; }
  /// The process id of a copy of this process, 0 in the copy, negative where that failed, which errno explains. It may throw, too, in both.
  virtual pid_t fork() { return ::fork(); }
};

}  // namespace shardproof
