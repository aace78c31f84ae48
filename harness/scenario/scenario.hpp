// What to train, how to shard it, what to call when, and what it costs: the document that `play` runs and that cases are built from.
// Everything here is data: it can be written as JSON, and an engine in another language can read it.
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
#include "harness/scenario/plan/plan.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof::scenario {

enum class ModuleKind : std::uint8_t {
  sequential,  ///< its children, one after the other
  linear,      ///< y = x Wᵀ + b
  convolution,  ///< one window, as wide as the input: each output is a sum over all channels
  relu,
  scale,       ///< y = s x, one parameter
  embedding,   ///< tokens to features: y = W[token] (+ P[position])
  layer_norm,  ///< over the features, epsilon 1e-5: y = (x - mean) / sqrt(variance + epsilon) w + b
  attention,   ///< causal, one head: y = softmax(q kᵀ / sqrt(features)) v Woᵀ
  residual,    ///< x + its children
  discard,     ///< runs its children and passes its own input on: they take no part in the loss
  list,        ///< holds modules and has no forward
  choice,      ///< runs one of its children: the first, or the child that the forward names
  use,         ///< runs a module that stands elsewhere
};

/// Whether modules of this kind have children.
bool is_container(ModuleKind kind);
/// Whether modules of this kind have parameters of their own.
bool has_parameters(ModuleKind kind);
/// Whether modules of this kind compute x Wᵀ (+ b). A weight W of these kinds may be of other tensors than plain ones.
bool is_linear_map(ModuleKind kind);

/// What a parameter's tensor is made of.
enum class TensorKind : std::uint8_t {
  plain,
  two_tensor,     ///< a pair: the weight is the first plus twice the second. A step moves both by the weight's gradient
  low_precision,  ///< one tensor, whose kind may be gathered otherwise than plain ones
};

/// A module and, for containers, its children in the order in which they run. Its path joins names with dots; the root's path is empty.
/// Parameters, in order of registration: linear `weight` [out, in] and `bias` [out]; convolution `weight` [out, channels,
/// in / channels] and `bias` [out]; scale `factor` [1]; embedding `positions` [positions, features] and `weight`
/// [vocabulary, features]; layer_norm `weight` and `bias` [features]; attention `query`, `key`, `value`, `output`
/// [features, features].
struct Module {
  std::string name;
  ModuleKind kind = ModuleKind::sequential;
  std::int64_t in_features = 0, out_features = 0;     ///< linear, convolution
  std::int64_t channels = 0;                          ///< convolution: its input features are so many channels of one width
  std::int64_t features = 0;                          ///< embedding, layer_norm, attention
  std::int64_t vocabulary = 0, positions = 0;         ///< embedding; no positions: 0
  bool bias = true;                                   ///< linear, convolution
  std::string tied_to;                                ///< linear: its weight is that of the module at this path; empty: its own
  bool contiguous = true;                             ///< linear: false for a weight that is stored transposed
  TensorKind tensor = TensorKind::plain;              ///< linear, convolution: of its weight
  bool scalar = false;                                ///< scale: its parameter has no dimension, instead of one of size 1
  bool frozen = false;                                ///< its parameters, and those of modules under it, get no gradient
  std::string target;                                 ///< use: the path of the module that runs
  Nanoseconds forward_sleep = 0, backward_sleep = 0;  ///< linear: the module occupies its stream for that long on top of its work
  std::vector<Module> children;
  friend bool operator==(const Module&, const Module&) = default;
};

enum class LossKind : std::uint8_t {
  sum,             ///< sum of all outputs
  sum_of_squares,  ///< divided by `divisor`
  dot,             ///< sum of output · fixed row, the row by formula: seed `dot_seed`, divisor `divisor`
  cross_entropy,   ///< mean over all positions, of the targets of the script
};

struct Loss {
  LossKind kind = LossKind::sum;
  double divisor = 1;
  std::uint32_t dot_seed = 7;
  friend bool operator==(const Loss&, const Loss&) = default;
};

/// How often initial values are which integers over the divisor.
enum class Distribution : std::uint8_t {
  uniform,           ///< -4 to 4, each as often as the others
  truncated_normal,  ///< the same integers, bell-shaped: the deviation is 2, and values beyond two deviations are cut off
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
  post_optim_event,  ///< record an event on the compute stream and give it to the engine: its next all-gathers wait for it alone
  capture,  ///< copy loss, gradients and parameter shards as they are now, on the compute stream; the player's own
  evaluate,  ///< a forward that no backward follows
  clip_grad_norm,  ///< over the gradients of all sharded parameters, as one vector
  unshard,  ///< gather by hand, and wait unless `async`
  wait_for_unshard,  ///< of an unshard with `async`
  reshard,
  set_requires_gradient_sync,  ///< off: backward keeps whole gradients, and adds to them; sets set_requires_all_reduce too
  set_requires_all_reduce,  ///< off, on a mesh of two dimensions: backward reduces within a shard group, and adds to that
  set_reshard_after_backward,
  set_unshard_in_backward,  ///< off: backward needs no parameters of these groups
  set_is_last_backward,  ///< off: the iteration goes on, and nothing waits for reductions; no step or capture may follow
  extend,  ///< registers an all-gather extension
  materialize,  ///< memory, without values, for what is meta
  initialize,  ///< values by formula, for every rank's own shards
  register_hook,  ///< registers a gradient hook
};

/// Extensions that a script can name. On a rank's padded shard:
enum class ExtensionKind : std::uint8_t {
  components,  ///< gathers it as it is: one tensor, or both of a pair
  bf16,  ///< gathers it rounded to bf16
  int8,  ///< gathers trunc(16 x) as i8, saturated, and beside it a tensor of one f32, the 16
  unpadded,  ///< as `components`, but only the rows that are the rank's own: a mistake where ranks have different ones
  truncated,  ///< as `components`, without the last row of every rank's: a mistake on all of them
};

enum class ExtensionForm : std::uint8_t {
  minimal,  ///< nothing is known of what contributions mean, only that all ranks' are alike
  full,  ///< the pre hook is told all about the shard, and each tensor that it gives has as many elements as the padded shard
};

struct Extension {
  std::string parameter;  ///< whose; empty: of all of a kind
  TensorKind tensor = TensorKind::plain;
  ExtensionKind kind = ExtensionKind::components;
  ExtensionForm form = ExtensionForm::full;
  bool pre = true, post = true;  ///< which hooks there are
  friend bool operator==(const Extension&, const Extension&) = default;
};

/// When an engine calls a gradient hook.
enum class HookPoint : std::uint8_t {
  reduction,           ///< instead of the engine's own reduction of a group's gradients: the hook communicates, and divides
  after_reduction,     ///< when a group's gradients have been reduced, before parameters get them
  after_accumulation,  ///< when a parameter has its gradient, before the optimizer sees it
};

/// Gradient hooks that a script can name.
enum class HookKind : std::uint8_t {
  plain,          ///< the mean over ranks, as an engine takes it; after a reduction it changes nothing
  doubled,        ///< as `plain`, times two
  sum,            ///< instead of a reduction: the sum over ranks
  fp16_compress,  ///< the engine's own hook, which reduces in f16
  bf16_compress,  ///< the engine's own hook, which reduces in bf16
  not_callable,   ///< no hook: a mistake
};

struct Hook {
  HookKind kind = HookKind::plain;
  HookPoint point = HookPoint::reduction;
  std::int64_t state = 0;      ///< of the user: the engine passes it to each call
  bool direct = false;         ///< put on the one group, without the checks of a registration
  bool refused = false;        ///< the engine has to refuse it; the script goes on
  std::vector<int> fails_on;   ///< ranks on which it fails
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

/// One call of a script. A backward takes the sum of the losses of all forwards since the last backward. Forwards that fail do not count.
struct Action {
  ActionKind kind = ActionKind::forward;
  /// forward, evaluate: runs this one alone. unshard … set_…: the groups of modules at or under this path. materialize, initialize: the
  /// parameters at or under it
  std::string module;
  bool value = true;  ///< set_…
  bool async = false;  ///< unshard
  std::optional<std::string> fails_in;  ///< forward: the module at this path throws when its forward begins; the script goes on
  double max_norm = 0, norm_type = 2;  ///< clip_grad_norm; the type is positive, and may be infinity
  std::optional<Extension> extension;  ///< extend
  std::optional<Hook> hook;  ///< register_hook
  bool to_zero = false;  ///< zero_grad: gradients that exist become zero, and are not removed
  /// forward, evaluate of one module: by a method that the engine runs as it runs a forward, and not by the forward itself
  bool by_method = false;
  std::map<std::string, std::string> paths;  ///< forward, evaluate: the child that a choice runs, by the path of the choice
  std::vector<int> ranks;  ///< the ranks that make the call, ascending; empty: all
  friend bool operator==(const Action&, const Action&) = default;
};

/// Whether this rank makes the call.
bool is_for(const Action& action, int rank);
/// Whether the call registers a hook of the engine's own, which reduces in a low precision.
bool registers_compression(const Action& action);

/// Inputs are by formula: iteration i of batch b is `formula::tensor(1000 + 100 i + b, shape, input_divisor)`. A model that begins with an
/// embedding gets tokens, `formula::tokens(5000 + 100 i + b, shape, vocabulary)`, and with a cross entropy the targets are
/// `formula::tokens(6000 + 100 i + b, shape, classes)`. See `batch_of`.
struct Script {
  /// Actions and for how many iterations they are repeated.
  struct Segment {
    int iterations = 1;
    std::vector<Action> body;
    friend bool operator==(const Segment&, const Segment&) = default;
  };
  std::vector<Segment> segments;
  Shape input;  ///< [batch, features], or [batch, positions] of tokens
  int input_divisor = 8;
  /// Inputs that are given instead of by formula: iteration i of batch b is given[i mod size][b mod its size], row-major, of `input`'s shape.
  std::vector<std::vector<std::vector<double>>> given;
  /// The player keeps copies: of what every collective is given, and of the tensors that hooks of extensions contribute and are given. Each
  /// is taken on the stream of the collective or the hook, just before the one and within the other.
  bool keep_tensors = false;
  /// Ranks refuse a collective to which they give different tags: collectives of other groups of the same size do not pass in silence.
  bool enforce_tags = false;
  friend bool operator==(const Script&, const Script&) = default;
};

/// Whether any call of the script is one for which `is` holds.
bool any_call(const Script& script, const std::function<bool(const Action&)>& is);

struct Scenario {
  Model model;
  Plan plan;
  Script script;
  CostModel costs;
  friend bool operator==(const Scenario&, const Scenario&) = default;
};

/// The number of the batch that a rank gets: that of its copy of the model. If no copy is divided among ranks, it is the rank's own number.
int batch_of(const Scenario& scenario, int rank);

/// The path of a child (or the name of a parameter) of the module at `path`.
std::string child_path(const std::string& path, const std::string& name);
/// Whether a path is that of `ancestor` or of something under it; everything is under the root.
bool is_at_or_under(std::string_view path, std::string_view ancestor);
/// Calls `each` with every module and its path, the root first, depth first.
void visit(const Module& module, const std::string& path, const std::function<void(const Module&, const std::string&)>& each);
/// Whether some module of the scenario is such a module.
bool any_module(const Scenario& scenario, const std::function<bool(const Module&)>& is);
/// The paths of all modules, in that order.
std::vector<std::string> paths(const Model& model);
/// The module at a path, or nullptr.
const Module* find(const Model& model, std::string_view path);

/// The text of an error: the choice at `path` has no such child. It lists the children.
std::string no_such_child(const Module& choice, const std::string& path, const std::string& child);
/// The child that the choice at `path` runs in a forward with these paths: the named one, or its first. Throws std::invalid_argument if it
/// has no such child.
const Module& chosen_child(const Module& choice, const std::string& path, const std::map<std::string, std::string>& paths);

/// A parameter in order of registration: `path.weight`, `path.bias`, ….
struct ParameterShape {
  std::string name;
  Shape shape;
  bool trainable = true;
  bool contiguous = true;
  TensorKind tensor = TensorKind::plain;
  std::vector<std::string> aliases;  ///< what modules that are tied to it call it
};
std::vector<ParameterShape> parameters(const Model& model);

/// What a parameter begins with, f32 on the host: by formula with seed 1 + `parameter`, which counts in order of registration.
/// The second tensor of a pair is component 1, and has seed 501 + `parameter`.
Tensor initial_value(const Model& model, std::size_t parameter, std::size_t component, const Shape& shape);

/// Whether ranks keep some parameter in another dtype than f32.
bool keeps_low_precision(const Scenario& scenario);

/// The tag of the all-reduce that clip_grad_norm makes. All others but those of `extension_sizes_tag` are tagged with the first module of
/// their group.
inline constexpr std::string_view gradient_norm_tag = "gradient norm";

/// How many tokens there are, when the model takes tokens; 0 when it takes features.
std::int64_t vocabulary(const Model& model);
/// Features of the model's output: the classes of a cross entropy.
std::int64_t output_features(const Scenario& scenario);

/// The fixed row of a `dot` loss for outputs of this many features; on the host.
Tensor dot_row(const Loss& loss, std::int64_t features);

/// Throws std::invalid_argument that names the place in the document, as its reader does (`plan.fully_shard.wrap[2]`), and what was expected
/// there. For a document of version 1, places are those of the same document in version 2.
void validate(const Scenario& scenario);

}  // namespace shardproof::scenario
