// All-gather extensions: user hooks by which an engine gathers a parameter in another form. The pre hook makes the
// contribution of this rank from its shard. The post hook makes a whole parameter of the contributions of all ranks.
// Source of the rules: PyTorch's fully_shard, fsdp_pre_all_gather and fsdp_post_all_gather.
//
// The host calls the hooks. They put their computation on the stream that they are given, and throw nothing.
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
  /// One for each component of the parameter's kind, [padded rows, …]. All ranks have the same shape. The padding is
  /// zero.
  std::vector<Tensor> components;
  std::int64_t rows = 0;  ///< the number of this rank's own rows; the others are padding
};

/// More arguments of a pre hook of the full form.
struct ShardContext {
  std::vector<int> mesh;  ///< global ranks that the parameter is sharded over, in order
  Shape shape, stride;  ///< of the whole parameter; strides count elements
  std::string module;  ///< path of the module that holds it
  MixedPrecision policy;
};

/// The contribution of a rank to one gather.
struct Contribution {
  std::vector<Tensor> tensors;  ///< One or more. Each has as many elements, of one dtype, on every rank.
  /// The extension's own data, for the post hook of this gather on this rank. nullptr: no data.
  std::shared_ptr<const void> metadata;
};

/// The contributions of all ranks: for each tensor [ranks * rows of one, …], in the order of ranks.
struct Contributions {
  std::string parameter;
  std::vector<Tensor> tensors;
  std::shared_ptr<const void> metadata;
  DType param_dtype = DType::f32;  ///< the dtype that layers compute in
};

/// A whole parameter that a post hook has made.
struct Unsharded {
  /// Layers read this tensor. It is in param_dtype, and has the rows of the whole parameter or more (the rest is
  /// padding). It is a view of a contribution, or has the extension's own memory.
  Tensor value;
  /// The engine releases the memory of these tensors when it reshards, and allocates it again when it gathers again.
  /// They include `value` if its memory has to go. The engine releases the memory of the contributions in any case.
  std::vector<Tensor> to_free;
};

struct AllGatherExtension {
  ExtensionForm form = ExtensionForm::full;

  /// `context` is nullptr in the minimal form.
  std::function<Reply(const ShardView& shard, const ShardContext* context, Stream stream, Contribution& out)> pre;

  /// At the first gather `out` is nullptr, and the hook makes a whole parameter in `made`. At later gathers `out`
  /// points to the parameter that it made, always the same object, and the hook leaves `made` alone. The tensors of
  /// `out` then have new memory. Views of contributions are views of the new contributions. The hook writes all other
  /// tensors.
  std::function<Reply(const Contributions& all, Stream stream, const Unsharded* out, Unsharded& made)> post;
};

/// The target of an extension: one parameter, or all parameters of a kind. An extension for the parameter has priority
/// over one for its kind.
struct ExtensionTarget {
  std::string parameter;  ///< empty: all of the kind
  TensorKind kind = TensorKind::plain;
};

}  // namespace shardproof
