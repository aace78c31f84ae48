// All-gather extensions: what a parameter is turned into before it is gathered, and back. An engine gathers such a parameter by hooks that
// its user has given: the pre hook says what this rank contributes, the post hook makes a whole parameter of what all ranks have
// contributed.
// Source of the rules: PyTorch's fully_shard, fsdp_pre_all_gather and fsdp_post_all_gather.
//
// Hooks are called by the host; what they compute they put on the stream that they are given. They throw nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/subject/reply.hpp"

namespace shardproof {

/// This rank's shard of one parameter, as the optimizer keeps it.
struct ShardView {
  std::string parameter;
  /// One for each component of the parameter's kind, [padded rows, …]: all ranks' are of one shape, zero where that is padding.
  std::vector<Tensor> components;
  std::int64_t rows = 0;  ///< of them this rank's own; the others are padding
};

/// What a pre hook of the full form is told besides.
struct ShardContext {
  std::vector<int> mesh;  ///< global ranks that the parameter is dealt to, in order
  Shape shape, stride;  ///< of the whole parameter; strides count elements
  std::string module;  ///< path of the module that holds it
  scenario::MixedPrecision policy;
};

/// What a rank contributes to one gather.
struct Contribution {
  std::vector<Tensor> tensors;  ///< one or more; each has as many elements, of one dtype, on every rank
  /// The extension's own: handed to the post hook of this gather, on this rank. nullptr: there is none.
  std::shared_ptr<const void> metadata;
};

/// What all ranks have contributed: for each tensor [ranks * rows of one, …], in the order of ranks.
struct Contributions {
  std::string parameter;
  std::vector<Tensor> tensors;
  std::shared_ptr<const void> metadata;
  DType param_dtype = DType::f32;  ///< what layers are to compute in
};

/// A whole parameter that a post hook has made.
struct Unsharded {
  /// What layers read, in param_dtype, rows as of the whole parameter or more (the rest is padding). A view of a contribution, or memory of
  /// the extension's own.
  Tensor value;
  /// Whose memory the engine gives back when it reshards and makes anew when it gathers again: `value` too, if its memory is to go. That of
  /// the contributions goes in any case.
  std::vector<Tensor> to_free;
};

struct AllGatherExtension {
  scenario::ExtensionForm form = scenario::ExtensionForm::full;

  /// `context` is nullptr in the minimal form.
  std::function<Reply(const ShardView& shard, const ShardContext* context, Stream stream, Contribution& out)> pre;

  /// For the first gather `out` is nullptr, and the hook makes a whole parameter. From then on `out` points to what it made, always the
  /// same object, whose tensors have their memory anew: views of contributions are views of the new ones, all else is to be written. `made`
  /// is left alone then.
  std::function<Reply(const Contributions& all, Stream stream, const Unsharded* out, Unsharded& made)> post;
};

/// What an extension is for: one parameter, or all of a kind. One for the parameter goes before one for its kind.
struct ExtensionTarget {
  std::string parameter;  ///< empty: all of the kind
  scenario::TensorKind kind = scenario::TensorKind::plain;
};

}  // namespace shardproof
