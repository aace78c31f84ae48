// The section of plans for engines of the kind `replicate`. Each rank keeps all parameters. Gradients are averaged in
// buckets while the backward runs. Source of the options: PyTorch's DistributedDataParallel, and its compiled step.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/plan/plan.hpp"

namespace shardproof {

/// Features that only engines of the kind `replicate` can have.
struct ReplicateFeature {
  static constexpr Feature gradient_views{"gradient_views"};  ///< `gradients` as views of buckets
  static constexpr Feature unused_parameters{"unused_parameters"};  ///< parameters without a gradient in some backward
  static constexpr Feature gradient_hooks{"gradient_hooks"};  ///< a user's hook instead of reductions
  static constexpr Feature compressing_hooks{"compressing_hooks"};  ///< fp16_compress, bf16_compress
  static constexpr Feature compiled_step{"compiled_step"};  ///< `compile`
  static constexpr Feature tensor_parallel{"tensor_parallel"};  ///< `tensor_parallel`
  static constexpr Feature parameter_dtypes{"parameter_dtypes"};  ///< `parameter_dtypes`

  static constexpr std::array all{gradient_views, unused_parameters, gradient_hooks,  compressing_hooks,
                                  compiled_step,  tensor_parallel,   parameter_dtypes};
};

}  // namespace shardproof

namespace shardproof {

/// The tag of the all-reduce or hook call of a bucket: `bucket 0` is the first that a backward starts.
std::string bucket_tag(std::size_t index);
/// Tags of the collectives in which ranks agree on
/// - their list of parameters,
/// - the values of the parameters,
/// - the order in which gradients become ready,
/// - the parameters that some rank used.
inline constexpr std::string_view parameter_list_tag = "parameter list", parameter_values_tag = "parameter values",
                                  ready_order_tag = "ready order", used_parameters_tag = "used parameters";

/// The place of a gradient after its reduction.
enum class BucketGradients : std::uint8_t {
  copies,  ///< In its own memory: it is copied out of the bucket.
  views,  ///< In the bucket.
};
std::string_view to_string(BucketGradients gradients);

/// The passes of a compiled step that are captured. The other pass runs eagerly.
enum class CompiledRegion : std::uint8_t { forward_backward, backward };
std::string_view to_string(CompiledRegion region);

/// The compiler's way to make one all-reduce of several gradients.
enum class BucketFusion : std::uint8_t {
  concat,  ///< Copies them into one flat tensor.
  coalesce,  ///< Gives them to one call with several operands.
  none,  ///< Makes one all-reduce for each gradient.
};
std::string_view to_string(BucketFusion fusion);

struct CompilePlan {
  CompiledRegion region = CompiledRegion::forward_backward;
  BucketFusion fusion = BucketFusion::concat;
  bool schedule_waits = true;  ///< moves each wait to just before the first use of the result
  friend bool operator==(const CompilePlan&, const CompilePlan&) = default;
};

/// The dimension of a linear module's weight that the ranks of a tensor-parallel group split.
enum class TensorParallel : std::uint8_t {
  column,  ///< Rows of the weight [out, in] and of the bias: each rank has some of the outputs.
  row,  ///< Columns of the weight: each rank has some of the inputs, and outputs are summed.
};
std::string_view to_string(TensorParallel parallel);

struct ReplicatePlan final : SectionOf<ReplicatePlan> {
  static constexpr std::string_view name = "replicate";

  /// A bucket closes with the gradient that brings it to its limit. The first bucket of a backward has its own limit.
  std::int64_t first_bucket_bytes = 1'048'576;
  std::int64_t bucket_bytes = 26'214'400;
  BucketGradients gradients = BucketGradients::copies;
  /// A backward may leave parameters out. Then the buckets stay as they were constructed.
  bool unused_parameters = false;
  std::optional<CompilePlan> compile;
  /// By path of a linear module. The mesh has two dimensions: copies along the first, parts along the second.
  std::map<std::string, TensorParallel> tensor_parallel;
  /// By path of a module that has parameters: bf16 or f16. Its parameters, their gradients and their optimizer state
  /// have this dtype, and the module computes in it. Its input is cast to the dtype, and its output to f32.
  std::map<std::string, DType> parameter_dtypes;

  std::string_view kind() const override { return name; }
  nlohmann::ordered_json to_json() const override;
  void validate(const Scenario& scenario) const override;
  /// All buckets that can exist: as many as trainable parameters.
  std::vector<std::string> groups(const Model& model) const override;
  std::vector<std::string> collective_tags(const Model& model) const override;
  std::vector<std::string> wrapped_modules() const override { return {""}; }
  std::string objection_to_call(const Action& action) const override;
  std::string objection_to_extension(const ParameterShape& parameter) const override;
  bool reduces(const std::string& /*parameter*/) const override { return true; }
  DType dtype_of(const std::string& parameter) const override;
  bool compiles() const override { return compile.has_value(); }
  bool keeps_whole_gradients() const override { return true; }
  int ranks_per_copy(const Mesh& mesh) const override { return tensor_parallel.empty() ? 1 : mesh.shape.at(1); }

  friend bool operator==(const ReplicatePlan& a, const ReplicatePlan& b) {
    return a.first_bucket_bytes == b.first_bucket_bytes && a.bucket_bytes == b.bucket_bytes &&
           a.gradients == b.gradients && a.unused_parameters == b.unused_parameters && a.compile == b.compile &&
           a.tensor_parallel == b.tensor_parallel && a.parameter_dtypes == b.parameter_dtypes;
  }
};

inline ReplicatePlan& replicate_plan(Plan& plan) { return section_of<ReplicatePlan>(plan); }
inline const ReplicatePlan& replicate_plan(const Plan& plan) { return section_of<ReplicatePlan>(plan); }

extern const EngineKind replicate_kind;

}  // namespace shardproof
