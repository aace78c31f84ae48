// A scenario: a model, a plan of how to shard and train it, a script of calls, costs, and options of the device. `play`
// runs a scenario, and cases are built from scenarios. All of it is data: it can be written as JSON, and an engine in
// another language can read it.
//
// The room `scenario` has the document, its validation and the generator of random scenarios. Engines and the code that
// plays a scenario may not enter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/cost_model.hpp"
#include "harness/device/device_options.hpp"
#include "harness/scenario/plan/plan.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof {

enum class ModuleKind : std::uint8_t {
  sequential,  ///< Runs its children, one after the other.
  linear,  ///< Computes y = x Wᵀ + b.
  convolution,  ///< One window, as wide as the input: each output is a sum over all channels.
  relu,
  scale,  ///< Computes y = s x, with one parameter.
  embedding,  ///< Maps tokens to features: y = W[token] (+ P[position]).
  layer_norm,  ///< Over the features, epsilon 1e-5: y = (x - mean) / sqrt(variance + epsilon) w + b.
  attention,  ///< Causal, one head: y = softmax(q kᵀ / sqrt(features)) v Woᵀ.
  residual,  ///< Adds the output of its children to x.
  discard,  ///< Runs its children and returns its own input: they take no part in the loss.
  list,  ///< Holds modules and has no forward.
  choice,  ///< Runs one of its children: the first, or the child that the forward names.
  use,  ///< Runs a module of another place in the model.
};

/// Whether modules of this kind have children.
bool is_container(ModuleKind kind);
/// Whether modules of this kind have parameters of their own.
bool has_parameters(ModuleKind kind);
/// Whether modules of this kind compute x Wᵀ (+ b). The weight W of such a module may have any tensor kind.
bool is_linear_map(ModuleKind kind);

/// The composition of a parameter's tensor.
enum class TensorKind : std::uint8_t {
  plain,
  two_tensor,  ///< A pair: the weight is the first plus twice the second. A step moves both by the weight's gradient.
  low_precision,  ///< One tensor, which may be gathered in another form than a plain tensor.
};

/// A module and, for containers, its children in the order in which they run. Its path joins names with dots; the
/// root's path is empty. Parameters, in order of registration: linear `weight` [out, in] and `bias` [out]; convolution
/// `weight` [out, channels, in / channels] and `bias` [out]; scale `factor` [1]; embedding `positions` [positions,
/// features] and `weight` [vocabulary, features]; layer_norm `weight` and `bias` [features]; attention `query`, `key`,
/// `value`, `output` [features, features].
struct Module {
  std::string name;
  ModuleKind kind = ModuleKind::sequential;
  std::int64_t in_features = 0, out_features = 0;  ///< For `linear` and `convolution`.
  std::int64_t channels = 0;  ///< `convolution`: its input features are this number of channels of one width.
  std::int64_t features = 0;  ///< For `embedding`, `layer_norm` and `attention`.
  std::int64_t vocabulary = 0, positions = 0;  ///< For `embedding`. Without positions: 0.
  bool bias = true;  ///< For `linear` and `convolution`.
  std::string tied_to;  ///< `linear`: it shares the weight of the module at this path. Empty: it has its own weight.
  bool contiguous = true;  ///< `linear`: false for a weight that is stored transposed.
  TensorKind tensor = TensorKind::plain;  ///< `linear`, `convolution`: the kind of its weight.
  bool scalar = false;  ///< `scale`: its parameter has no dimension, instead of one of size 1.
  bool frozen = false;  ///< Its parameters, and the parameters of modules under it, get no gradient.
  std::string target;  ///< `use`: the path of the module that runs.
  /// `linear`: the module occupies its stream for this time in addition to its work.
  Nanoseconds forward_sleep = 0, backward_sleep = 0;
  std::vector<Module> children;
  friend bool operator==(const Module&, const Module&) = default;
};

enum class LossKind : std::uint8_t {
  sum,  ///< The sum of all outputs.
  sum_of_squares,  ///< The sum of all squares, divided by `divisor`.
  dot,  ///< The sum of output · fixed row. The row is by formula, with seed `dot_seed` and divisor `divisor`.
  cross_entropy,  ///< The mean over all positions, with the targets of the script.
};

struct Loss {
  LossKind kind = LossKind::sum;
  double divisor = 1;
  std::uint32_t dot_seed = 7;
  friend bool operator==(const Loss&, const Loss&) = default;
};

/// The distribution of initial values, which are integers over the divisor.
enum class Distribution : std::uint8_t {
  uniform,  ///< From -4 to 4, all equally often.
  /// The same integers, bell-shaped: the deviation is 2, and values beyond two deviations are cut off.
  truncated_normal,
};

/// Parameters are initialised by formula (`initial_value`).
struct Model {
  Module root;
  Loss loss;
  int init_divisor = 8;
  Distribution init = Distribution::uniform;
  friend bool operator==(const Model&, const Model&) = default;
};

enum class ActionKind : std::uint8_t {
  forward,
  backward,
  step,
  zero_grad,
  /// Records an event on the compute stream and gives it to the engine: its next all-gathers wait only for it.
  post_optim_event,
  /// Copies loss, gradients and parameter shards at this time, on the compute stream. The player makes it, not the
  /// engine.
  capture,
  evaluate,  ///< A forward that no backward follows.
  clip_grad_norm,  ///< Over the gradients of all sharded parameters, as one vector.
  unshard,  ///< Gathers by hand, and waits unless `async`.
  wait_for_unshard,  ///< Waits for an unshard with `async`.
  reshard,
  /// Off: a backward keeps whole gradients, and adds to them. Sets set_requires_all_reduce, too.
  set_requires_gradient_sync,
  /// Off, on a mesh of two dimensions: a backward reduces within a shard group, and adds to the result.
  set_requires_all_reduce,
  set_reshard_after_backward,
  set_unshard_in_backward,  ///< Off: a backward needs no parameters of these groups.
  /// Off: the iteration goes on, and the engine does not wait for reductions. No step or capture may follow.
  set_is_last_backward,
  extend,  ///< Registers an all-gather extension.
  materialize,  ///< Gives memory, without values, to meta parameters.
  initialize,  ///< Sets values by formula, on every rank for its own shards.
  register_hook,  ///< Registers a gradient hook.
};

/// Extensions that a script can name. Each describes the contribution that the pre hook makes from a rank's padded
/// shard.
enum class ExtensionKind : std::uint8_t {
  components,  ///< The shard as it is: one tensor, or both of a pair.
  bf16,  ///< The shard rounded to bf16.
  int8,  ///< The numbers trunc(16 x) as i8, saturated, and a second tensor with one f32, the factor 16.
  unpadded,  ///< Like `components`, but only the rank's own rows. A mistake if ranks have different numbers of rows.
  truncated,  ///< Like `components`, without the last row of each rank. A mistake on all ranks.
};

enum class ExtensionForm : std::uint8_t {
  minimal,  ///< The engine knows only that all ranks' contributions are alike.
  full,  ///< The pre hook gets all facts about the shard. Each of its tensors has as many elements as the padded shard.
};

struct Extension {
  std::string parameter;  ///< The parameter. Empty: all parameters of a kind.
  TensorKind tensor = TensorKind::plain;
  ExtensionKind kind = ExtensionKind::components;
  ExtensionForm form = ExtensionForm::full;
  bool pre = true, post = true;  ///< The hooks that it has.
  friend bool operator==(const Extension&, const Extension&) = default;
};

/// When an engine calls a gradient hook.
enum class HookPoint : std::uint8_t {
  reduction,  ///< Instead of the engine's own reduction of a group's gradients: the hook communicates and divides.
  after_reduction,  ///< After the reduction of a group's gradients, before parameters get them.
  after_accumulation,  ///< When a parameter has its gradient, before the optimizer reads it.
};

/// Gradient hooks that a script can name.
enum class HookKind : std::uint8_t {
  plain,  ///< The mean over ranks, like an engine's own. After a reduction it changes nothing.
  doubled,  ///< Like `plain`, times two.
  sum,  ///< Instead of a reduction: the sum over ranks.
  fp16_compress,  ///< The engine's own hook, which reduces in f16.
  bf16_compress,  ///< The engine's own hook, which reduces in bf16.
  not_callable,  ///< No hook: a mistake.
};

struct Hook {
  HookKind kind = HookKind::plain;
  HookPoint point = HookPoint::reduction;
  std::int64_t state = 0;  ///< The user's: the engine passes it to each call.
  bool direct = false;  ///< Put on this one group, without the checks of a registration.
  bool refused = false;  ///< The engine must refuse it, and the script goes on.
  std::vector<int> fails_on;  ///< The ranks on which it fails.
  friend bool operator==(const Hook&, const Hook&) = default;
};

std::string_view to_string(ModuleKind kind);
std::string_view to_string(LossKind kind);
std::string_view to_string(Distribution distribution);
std::string_view to_string(ActionKind kind);
std::string_view to_string(TensorKind kind);
std::string_view to_string(ExtensionKind kind);
std::string_view to_string(ExtensionForm form);
std::string_view to_string(HookPoint point);
std::string_view to_string(HookKind kind);

/// One call of a script. A backward takes the sum of the losses of all forwards since the last backward. Forwards that
/// fail do not count.
struct Action {
  ActionKind kind = ActionKind::forward;
  /// `forward`, `evaluate`: runs this module alone. `unshard` … `set_…`: the groups of modules at or under this path.
  /// `materialize`, `initialize`: the parameters at or under this path.
  std::string module;
  bool value = true;  ///< For `set_…`.
  bool async = false;  ///< For `unshard`.
  /// `forward`: the module at this path throws when its forward begins. The script goes on.
  std::optional<std::string> fails_in;
  double max_norm = 0, norm_type = 2;  ///< For `clip_grad_norm`. The type is positive, and may be infinity.
  std::optional<Extension> extension;  ///< For `extend`.
  std::optional<Hook> hook;  ///< For `register_hook`.
  bool to_zero = false;  ///< `zero_grad`: gradients that exist become zero, and are not removed.
  /// `forward`, `evaluate` of one module: calls a method that the engine runs like a forward, instead of the forward.
  bool by_method = false;
  /// `forward`, `evaluate`: the child that a choice runs, by the path of the choice.
  std::map<std::string, std::string> paths;
  std::vector<int> ranks;  ///< The ranks that make the call, ascending. Empty: all.
  /// The number of its micro-batch in the iteration, from 0. It selects the input of a `forward` or an `evaluate`. For
  /// other calls, it only says to which micro-batch the call belongs.
  int micro_batch = 0;
  friend bool operator==(const Action&, const Action&) = default;
};

/// Whether this rank makes the call.
bool is_for(const Action& action, int rank);
/// Whether the call registers the engine's own hook, which reduces in a low precision.
bool registers_compression(const Action& action);

/// The calls of a scenario and their inputs. Inputs are by formula: iteration i of batch b is `formula::tensor(1000 +
/// 100 i + b, shape, input_divisor)`. A model that begins with an embedding gets tokens, `formula::tokens(5000 + 100 i
/// + b, shape, vocabulary)`. With a cross entropy the targets are `formula::tokens(6000 + 100 i + b, shape, classes)`.
/// Micro-batch m adds `micro_batch_seed` m to each of these seeds. See `batch_of`.
struct Script {
  /// Actions, and the number of iterations that repeat them.
  struct Segment {
    int iterations = 1;
    std::vector<Action> body;
    friend bool operator==(const Segment&, const Segment&) = default;
  };
  std::vector<Segment> segments;
  Shape input;  ///< [batch, features], or [batch, positions] of tokens
  int input_divisor = 8;
  /// Given inputs, instead of inputs by formula. Iteration i of batch b is given[i mod size][b mod its size],
  /// row-major, with the shape `input`.
  std::vector<std::vector<std::vector<double>>> given;
  /// The player keeps copies of every collective's operand, and of the tensors that hooks of extensions contribute and
  /// get. It makes a copy on the stream of the collective or the hook: just before the collective, and within the hook.
  bool keep_tensors = false;
  /// Ranks refuse a collective with different tags on different ranks. So collectives of two groups of the same size
  /// cannot be mixed up silently.
  bool enforce_tags = false;
  friend bool operator==(const Script&, const Script&) = default;
};

/// A call of a script: its number in the body of a segment, and the number of the segment.
struct ScriptPlace {
  std::size_t segment = 0, call = 0;
  friend bool operator==(const ScriptPlace&, const ScriptPlace&) = default;
};

/// The distance of the seeds of two micro-batches that follow each other.
inline constexpr std::uint32_t micro_batch_seed = 1'000'000;
/// The largest number of micro-batches in an iteration.
inline constexpr int most_micro_batches = 1000;

/// Whether `is` holds for any call of the script.
bool any_call(const Script& script, const std::function<bool(const Action&)>& is);

struct Scenario {
  Model model;
  Plan plan;
  Script script;
  CostModel costs;
  DeviceOptions device;  ///< In the document: keys of its costs.
  std::optional<int> world_size;  ///< The number of ranks that play it. Empty: the user says it.
  friend bool operator==(const Scenario&, const Scenario&) = default;
};

/// The number of the batch that a rank gets: the number of its copy of the model. If no copy is divided among ranks, it
/// is the rank's own number.
int batch_of(const Scenario& scenario, int rank);

/// The path of a child (or the name of a parameter) of the module at `path`.
std::string child_path(const std::string& path, const std::string& name);
/// Whether a path is `ancestor` or under it. Every path is under the root.
bool is_at_or_under(std::string_view path, std::string_view ancestor);
/// Calls `each` with every module and its path, the root first, depth first.
void visit(const Module& module, const std::string& path,
           const std::function<void(const Module&, const std::string&)>& each);
/// Whether `is` holds for any module of the scenario.
bool any_module(const Scenario& scenario, const std::function<bool(const Module&)>& is);
/// The paths of all modules, in the order of `visit`.
std::vector<std::string> paths(const Model& model);
/// The module at a path, or nullptr.
const Module* find(const Model& model, std::string_view path);

/// The text of an error: the choice at `path` has no such child. It lists the children.
std::string no_such_child(const Module& choice, const std::string& path, const std::string& child);
/// The child that the choice at `path` runs in a forward with these paths: the named one, or its first. Throws
/// std::invalid_argument if it has no such child.
const Module& chosen_child(const Module& choice, const std::string& path,
                           const std::map<std::string, std::string>& paths);

/// A parameter in order of registration: `path.weight`, `path.bias`, ….
struct ParameterShape {
  std::string name;
  Shape shape;
  bool trainable = true;
  bool contiguous = true;
  TensorKind tensor = TensorKind::plain;
  std::vector<std::string> aliases;  ///< The names of this parameter in modules that are tied to it.
};
std::vector<ParameterShape> parameters(const Model& model);

/// The initial value of a parameter, f32 on the host. It is by formula with seed 1 + `parameter`, which counts in order
/// of registration. The second tensor of a pair is component 1, and has seed 501 + `parameter`.
Tensor initial_value(const Model& model, std::size_t parameter, std::size_t component, const Shape& shape);

/// Whether ranks keep some parameter in another dtype than f32.
bool keeps_low_precision(const Scenario& scenario);

/// The tag of the all-reduce that clip_grad_norm makes. All other collectives, except those with `extension_sizes_tag`,
/// have the first module of their group as their tag.
inline constexpr std::string_view gradient_norm_tag = "gradient norm";

/// The number of tokens, if the model takes tokens. 0 if it takes features.
std::int64_t vocabulary(const Model& model);
/// The number of features of the model's output: the classes of a cross entropy.
std::int64_t output_features(const Scenario& scenario);

/// The fixed row of a `dot` loss for outputs of this many features; on the host.
Tensor dot_row(const Loss& loss, std::int64_t features);

/// Throws std::invalid_argument with the place in the document, in the notation of its reader
/// (`plan.fully_shard.wrap[2]`), and what was expected there. For a document of version 1, places are the places of the
/// same document in version 2.
void validate(const Scenario& scenario);

}  // namespace shardproof
