// What an engine may claim for a kind of engine, by name: all of a subject that declaring a case needs to know.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace shardproof {

/// Not claimed: the cases that need it are skipped with that reason. Claimed and absent: they fail.
enum class Feature : std::uint8_t {
  timeline,          ///< its streams and events are a device's of this harness, so that virtual time can be told
  post_optim_event,
  serial,            ///< can run with everything on one stream
  replicated_mesh,         ///< shards over one dimension of a mesh, replicates over the other
  gradient_accumulation,   ///< set_requires_gradient_sync, set_reshard_after_backward, set_is_last_backward
  prefetch_lists,
  manual_unshard,          ///< unshard, wait_for_unshard, reshard, set_unshard_in_backward
  reshard_to_size,         ///< reshard_after_forward to shards over fewer ranks
  shard_dims,
  gradient_divide_factor,
  clip_grad_norm,
  module_groups,           ///< groups of several modules; all other kinds of modules, frozen modules, and calls of one module
  ignored_parameters,
  shared_parameters,
  language_model,          ///< tokens, embedding, layer_norm, attention, cross entropy
  failed_forward,          ///< goes on after a module has thrown
  all_gather_extensions,   ///< register_all_gather_extension; two-tensor and low-precision parameters
  mixed_precision,
  thread_ranks,            ///< several of its trainers may be in one process, on threads of their own
  meta_initialisation,     ///< parameters without memory until `materialize`
  hidden_memory,           ///< its work is done when the device runs it, so that memory can be hidden from it
};

inline constexpr Feature last_feature = Feature::hidden_memory;

std::string_view to_string(Feature feature);
std::vector<std::string_view> feature_names();
std::optional<Feature> find_feature(std::string_view name);

}  // namespace shardproof
