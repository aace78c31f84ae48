// The section of plans for engines of the kind `fully_shard`. Each rank keeps a shard of each parameter. It gathers
// whole groups of parameters for their computation, and reduces their gradients to shards.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/feature.hpp"
#include "harness/scenario/plan/plan.hpp"

namespace shardproof {

/// The features that only engines of this kind can have.
struct FullyShardFeature {
  static constexpr Feature post_optim_event{"post_optim_event"};
  static constexpr Feature prefetch_lists{"prefetch_lists"};
  static constexpr Feature manual_unshard{
      "manual_unshard"};  ///< unshard, wait_for_unshard, reshard, set_unshard_in_backward
  static constexpr Feature reshard_to_size{"reshard_to_size"};  ///< reshard_after_forward to shards over fewer ranks
  static constexpr Feature shard_dims{"shard_dims"};
  static constexpr Feature gradient_divide_factor{"gradient_divide_factor"};
  static constexpr Feature reduction_hooks{
      "reduction_hooks"};  ///< hooks after a reduction, and after a parameter has its gradient

  static constexpr Feature forward_methods{"forward_methods"};  ///< methods of a module that run like its forward

  static constexpr std::array all{post_optim_event, prefetch_lists,         manual_unshard,  reshard_to_size,
                                  shard_dims,       gradient_divide_factor, reduction_hooks, forward_methods};
};

}  // namespace shardproof

namespace shardproof {

struct ReshardAfterForward {
  enum class Kind : std::uint8_t {
    automatic,  ///< yes for all but the root
    yes,
    no,
    size,  ///< To shards over `size` consecutive ranks. A backward gathers from these shards.
  } kind = Kind::automatic;
  int size = 0;
  friend bool operator==(const ReshardAfterForward&, const ReshardAfterForward&) = default;
};

/// `previous`: the group before in the recorded forward order, one group ahead.
enum class BackwardPrefetch : std::uint8_t { previous, none };
std::string_view to_string(BackwardPrefetch prefetch);

/// Modules whose parameters are gathered and reduced together.
struct WrapGroup {
  /// Paths; "" is the root. They include the parameters under them that no deeper group has.
  std::vector<std::string> modules;
  ReshardAfterForward reshard_after_forward;
  /// The groups to gather while this group's forward runs, each by one of its modules.
  std::vector<std::string> forward_prefetch;
  std::vector<std::string> backward_prefetch;  ///< The same for this group's backward, instead of the plan's policy.
  friend bool operator==(const WrapGroup&, const WrapGroup&) = default;
};

struct FullyShardPlan final : SectionOf<FullyShardPlan> {
  static constexpr std::string_view name = "fully_shard";

  std::vector<WrapGroup> wrap;  ///< children before parents
  BackwardPrefetch backward_prefetch = BackwardPrefetch::previous;
  std::vector<std::string> ignored_parameters;  ///< They stay whole on every rank, and no rank reduces their gradients.
  /// By parameter: the dimension that is sharded, instead of 0. -1 is the last dimension.
  std::map<std::string, int> shard_dims;
  /// Gradients are sums over all ranks, divided by this. 0: divided by the number of ranks.
  double gradient_divide_factor = 0;

  /// The number of operands of reduce-scatters that may be alive before the host waits for the oldest.
  int live_reduce_inputs = 1;

  std::string_view kind() const override { return name; }
  nlohmann::ordered_json to_json() const override;
  void validate(const Scenario& scenario) const override;
  std::vector<std::string> groups(const Model& model) const override;
  std::vector<std::string> wrapped_modules() const override;
  std::string objection_to_call(const Action& action) const override;
  std::string objection_to_extension(const ParameterShape& parameter) const override;
  bool reduces(const std::string& parameter) const override { return group_of(parameter) != nullptr; }
  double gradient_divisor(int ranks) const override {
    return gradient_divide_factor != 0 ? gradient_divide_factor : ranks;
  }

  /// The group that gathers and reduces this parameter: the group of the deepest wrapped module that holds it. nullptr
  /// if no wrapped module holds it, or if it is ignored.
  const WrapGroup* group_of(const std::string& parameter) const;

  friend bool operator==(const FullyShardPlan& a, const FullyShardPlan& b) {
    return a.wrap == b.wrap && a.backward_prefetch == b.backward_prefetch &&
           a.ignored_parameters == b.ignored_parameters && a.shard_dims == b.shard_dims &&
           a.gradient_divide_factor == b.gradient_divide_factor && a.live_reduce_inputs == b.live_reduce_inputs;
  }
};

inline FullyShardPlan& fully_shard_plan(Plan& plan) { return section_of<FullyShardPlan>(plan); }
inline const FullyShardPlan& fully_shard_plan(const Plan& plan) { return section_of<FullyShardPlan>(plan); }

extern const EngineKind fully_shard_kind;

}  // namespace shardproof
