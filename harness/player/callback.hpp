// Describes one call of an engine into the harness while a scenario ran, for example of a hook. Functions select such
// calls. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/subject/extension.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof {

/// The hook that the engine called, in the order of the details in `Callback`. A new kind needs an enumerator, a name
/// in `to_string`, and a detail.
enum class CallbackKind : std::uint8_t { pre_all_gather, post_all_gather, gradient_hook };
std::string_view to_string(CallbackKind kind);

struct TensorSize {
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const TensorSize&, const TensorSize&) = default;
};

/// Only the pre hook of an all-gather extension has these.
struct PreAllGather {
  std::uint64_t ticket = 0;  ///< Identifies the metadata that it made, from 1. 0: the hook failed.
  std::optional<ShardContext> context;  ///< in the full form
};

/// Only the post hook of an all-gather extension has these.
struct PostAllGather {
  /// Identifies the metadata that it was given. 0: no pre hook of this rank made this metadata.
  std::uint64_t ticket = 0;
  /// The memory that it had to write to. nullptr: it had to make a whole parameter.
  const void* out = nullptr;
  DType param_dtype = DType::f32;
};

/// Only a gradient hook has these.
struct GradientHookCall {
  HookKind hook = HookKind::plain;
  HookPoint point = HookPoint::reduction;
  std::uint64_t state = 0;  ///< The state that the engine passed to it.
  /// The collective that the hook issued: its number among this rank's collectives, from 0.
  std::optional<std::size_t> collective;
  /// A copy of the hook's result, in host memory. Undefined if the hook failed, or the script keeps no tensors.
  Tensor result;
};

struct Callback {
  /// The name of a parameter, or the label of a group or bucket.
  std::string name;
  int iteration = 0;
  std::string during;  ///< The script's call: `forward`, …; `create` before all calls.
  std::uint32_t stream = 0;
  /// The sizes of its operands: the tensors that a pre hook made, or that any other hook was given.
  std::vector<TensorSize> sizes;
  /// Copies of the operands in host memory. Empty if the script keeps no tensors.
  std::vector<Tensor> tensors;
  std::variant<PreAllGather, PostAllGather, GradientHookCall> detail;

  CallbackKind kind() const { return static_cast<CallbackKind>(detail.index()); }
};

/// Selects callbacks. A field that is not set fits every callback.
struct CallbackFilter {
  std::optional<CallbackKind> kind;
  std::optional<std::string> name;
  std::optional<int> iteration;
  std::optional<std::string> during;

  bool fits(const Callback& callback) const;
};

/// The selected callbacks, in their order.
std::vector<const Callback*> select(std::span<const Callback> callbacks, const CallbackFilter& filter);
std::size_t count(std::span<const Callback> callbacks, const CallbackFilter& filter);
/// The names in the selected callbacks, each once, sorted.
std::vector<std::string> names(std::span<const Callback> callbacks, const CallbackFilter& filter);

}  // namespace shardproof
