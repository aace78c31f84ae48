// What to train, how to shard it, what to call when, and what it costs: the document that `play` runs and that cases are built from.
// Everything here is data: it can be written as JSON, and an engine in another language can read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/device/cost_model.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof::scenario {

enum class ModuleKind : std::uint8_t { sequential, linear, relu };

/// A module and, for containers, its children in the order in which they run. Its path joins names with dots; the root's path is empty.
struct Module {
  std::string name;
  ModuleKind kind = ModuleKind::sequential;
  std::int64_t in_features = 0, out_features = 0;  ///< linear: weight [out, in], y = x Wᵀ + b
  bool bias = true;
  Nanoseconds forward_sleep = 0, backward_sleep = 0;  ///< linear: the module occupies its stream for that long on top of its work
  std::vector<Module> children;
  friend bool operator==(const Module&, const Module&) = default;
};

enum class LossKind : std::uint8_t {
  sum,             ///< sum of all outputs
  sum_of_squares,  ///< divided by `divisor`
  dot,             ///< sum of output · fixed row, the row by formula: seed `dot_seed`, divisor `divisor`
};

struct Loss {
  LossKind kind = LossKind::sum;
  double divisor = 1;
  std::uint32_t dot_seed = 7;
  friend bool operator==(const Loss&, const Loss&) = default;
};

/// Parameters are initialised by formula: the j-th tensor in order of registration is `formula::tensor(1 + j, shape, init_divisor)`.
struct Model {
  Module root;
  Loss loss;
  int init_divisor = 8;
  friend bool operator==(const Model&, const Model&) = default;
};

struct ReshardAfterForward {
  enum class Kind : std::uint8_t { automatic, yes, no } kind = Kind::automatic;  ///< automatic: yes for all but the root
  friend bool operator==(const ReshardAfterForward&, const ReshardAfterForward&) = default;
};

enum class BackwardPrefetch : std::uint8_t { previous, none };  ///< previous in recorded forward order, one group ahead

enum class OptimizerKind : std::uint8_t { sgd, adamw };

struct Optimizer {
  OptimizerKind kind = OptimizerKind::sgd;
  double rate = 0.5;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;  ///< adamw
  friend bool operator==(const Optimizer&, const Optimizer&) = default;
};

/// Modules whose parameters are gathered and reduced together.
struct WrapGroup {
  std::vector<std::string> modules;  ///< paths; "" is the root. Parameters under them that a deeper group has not claimed
  ReshardAfterForward reshard_after_forward;
  friend bool operator==(const WrapGroup&, const WrapGroup&) = default;
};

struct Plan {
  std::string engine = "fully_shard";  ///< kind of engine that the plan is for
  std::vector<WrapGroup> wrap;         ///< children before parents
  BackwardPrefetch backward_prefetch = BackwardPrefetch::previous;
  Optimizer optimizer;
  friend bool operator==(const Plan&, const Plan&) = default;
};

enum class ActionKind : std::uint8_t {
  forward,
  backward,
  step,
  zero_grad,
  post_optim_event,  ///< record an event on the compute stream and give it to the engine: its next all-gathers wait for it alone
  capture,           ///< copy loss, gradients and parameter shards as they are now, on the compute stream; the player's own
};

std::string_view to_string(ModuleKind kind);
std::string_view to_string(LossKind kind);
std::string_view to_string(BackwardPrefetch prefetch);
std::string_view to_string(OptimizerKind kind);
std::string_view to_string(ActionKind kind);

/// One call of a script. Switches that act on a part of the model will name it here.
struct Action {
  ActionKind kind = ActionKind::forward;
  friend bool operator==(const Action&, const Action&) = default;
};

/// Inputs are by formula: iteration i on rank r gets `formula::tensor(1000 + 100 i + r, shape, input_divisor)`.
struct Script {
  /// Actions and for how many iterations they are repeated.
  struct Segment {
    int iterations = 1;
    std::vector<Action> body;
    friend bool operator==(const Segment&, const Segment&) = default;
  };
  std::vector<Segment> segments;
  Shape input;
  int input_divisor = 8;
  friend bool operator==(const Script&, const Script&) = default;
};

struct Scenario {
  Model model;
  Plan plan;
  Script script;
  CostModel costs;
  friend bool operator==(const Scenario&, const Scenario&) = default;
};

/// The path of a child (or the name of a parameter) of the module at `path`.
std::string child_path(const std::string& path, const std::string& name);
/// The paths of all modules, the root first, depth first.
std::vector<std::string> paths(const Model& model);
/// The module at a path, or nullptr.
const Module* find(const Model& model, std::string_view path);

/// Name and shape of every parameter in order of registration: `path.weight`, `path.bias`.
struct ParameterShape {
  std::string name;
  Shape shape;
};
std::vector<ParameterShape> parameters(const Model& model);

/// The fixed row of a `dot` loss for outputs of this many features; on the host.
Tensor dot_row(const Loss& loss, std::int64_t features);

/// Throws std::invalid_argument that names the place in the document and what was expected there.
void validate(const Scenario& scenario);

}  // namespace shardproof::scenario
