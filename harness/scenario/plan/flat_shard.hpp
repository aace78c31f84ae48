// The section of plans for engines of the kind `flat_shard`. Each wrapped module has its parameters in one flat tensor,
// and each rank keeps one equal part of the tensor. Source of the options: PyTorch's FullyShardedDataParallel.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/plan/plan.hpp"

namespace shardproof {

/// Features that only engines of the kind `flat_shard` can have.
struct FlatShardFeature {
  static constexpr Feature order_validation{"order_validation"};  ///< between ranks, and with the first iteration
  static constexpr Feature orig_params{"orig_params"};
  static constexpr Feature prefetch_after{"prefetch_after"};  ///< `backward_prefetch` after and none
  static constexpr Feature forward_prefetch{"forward_prefetch"};
  static constexpr Feature gather_limit{"gather_limit"};
  static constexpr Feature gradient_hooks{"gradient_hooks"};  ///< a user's hooks instead of reductions
  static constexpr Feature compressing_hooks{"compressing_hooks"};  ///< fp16_compress, bf16_compress

  static constexpr std::array all{order_validation, orig_params,    prefetch_after,   forward_prefetch,
                                  gather_limit,     gradient_hooks, compressing_hooks};
};

}  // namespace shardproof

namespace shardproof {

/// The tag of the all-gathers in which ranks compare the order of their forwards.
inline constexpr std::string_view execution_order_tag = "execution order";

/// Which parameters each rank keeps, and when.
enum class ShardStrategy : std::uint8_t {
  full_shard,  ///< A part. Parameters are whole only while a module computes with them.
  shard_grad_op,  ///< A part. Parameters are whole from a forward to the end of its backward.
  no_shard,  ///< All parameters. Gradients are all-reduced.
  hybrid,  ///< Like `full_shard` within the second dimension of the mesh, with copies along the first.
  hybrid_zero2,  ///< Like `shard_grad_op`, on the same mesh as `hybrid`.
};
std::string_view to_string(ShardStrategy strategy);
/// Whether the strategy is for a mesh of two dimensions: copies along the first, parts along the second.
bool has_replicas(ShardStrategy strategy);
/// Whether whole parameters are freed after a forward.
bool frees_after_forward(ShardStrategy strategy);

/// When the next unit's parameters are gathered in a backward: before or after the gradients of the current unit are
/// computed.
enum class FlatPrefetch : std::uint8_t { before, after, none };
std::string_view to_string(FlatPrefetch prefetch);

struct FlatShardPlan final : SectionOf<FlatShardPlan> {
  static constexpr std::string_view name = "flat_shard";

  /// Paths of modules, each a unit with a flat parameter: all parameters under it that no deeper unit has. Children
  /// before parents; the root's path is empty.
  std::vector<std::string> wrap;
  ShardStrategy strategy = ShardStrategy::full_shard;
  /// A unit keeps its parameters as separate tensors. Frozen and trainable ones may be together, and each is aligned.
  bool use_orig_params = false;
  FlatPrefetch backward_prefetch = FlatPrefetch::before;
  /// Gathers the next unit while this unit's forward runs, in the order of the first iteration.
  bool forward_prefetch = false;
  bool limit_all_gathers = true;  ///< The host waits, so that at most two gathers are ahead of their computation.
  bool validate_order = false;  ///< Ranks compare the order in which they gather.

  std::string_view kind() const override { return name; }
  nlohmann::ordered_json to_json() const override;
  void validate(const Scenario& scenario) const override;
  std::vector<std::string> groups(const Model& /*model*/) const override { return wrap; }
  std::vector<std::string> collective_tags(const Model& model) const override;
  std::vector<std::string> wrapped_modules() const override { return wrap; }
  std::string objection_to_call(const Action& action) const override;
  std::string objection_to_extension(const ParameterShape& parameter) const override;
  bool reduces(const std::string& parameter) const override { return unit_of(parameter) != nullptr; }

  /// The path of the unit that has this parameter, or nullptr.
  const std::string* unit_of(std::string_view parameter) const;

  friend bool operator==(const FlatShardPlan& a, const FlatShardPlan& b) {
    return a.wrap == b.wrap && a.strategy == b.strategy && a.use_orig_params == b.use_orig_params &&
           a.backward_prefetch == b.backward_prefetch && a.forward_prefetch == b.forward_prefetch &&
           a.limit_all_gathers == b.limit_all_gathers && a.validate_order == b.validate_order;
  }
};

inline FlatShardPlan& flat_shard_plan(Plan& plan) { return section_of<FlatShardPlan>(plan); }
inline const FlatShardPlan& flat_shard_plan(const Plan& plan) { return section_of<FlatShardPlan>(plan); }

extern const EngineKind flat_shard_kind;

}  // namespace shardproof
