#include "harness/subject/feature.hpp"

#include <algorithm>
#include <type_traits>

namespace shardproof {

std::string_view to_string(Feature feature) {
  switch (feature) {
    case Feature::timeline: return "timeline";
    case Feature::post_optim_event: return "post_optim_event";
    case Feature::serial: return "serial";
    case Feature::replicated_mesh: return "replicated_mesh";
    case Feature::gradient_accumulation: return "gradient_accumulation";
    case Feature::prefetch_lists: return "prefetch_lists";
    case Feature::manual_unshard: return "manual_unshard";
    case Feature::reshard_to_size: return "reshard_to_size";
    case Feature::shard_dims: return "shard_dims";
    case Feature::gradient_divide_factor: return "gradient_divide_factor";
    case Feature::clip_grad_norm: return "clip_grad_norm";
    case Feature::module_groups: return "module_groups";
    case Feature::ignored_parameters: return "ignored_parameters";
    case Feature::shared_parameters: return "shared_parameters";
    case Feature::language_model: return "language_model";
    case Feature::failed_forward: return "failed_forward";
    case Feature::all_gather_extensions: return "all_gather_extensions";
    case Feature::mixed_precision: return "mixed_precision";
    case Feature::thread_ranks: return "thread_ranks";
    case Feature::meta_initialisation: return "meta_initialisation";
    case Feature::hidden_memory: return "hidden_memory";
  }
  return "unknown";
}

std::vector<std::string_view> feature_names() {
  std::vector<std::string_view> names;
  for (std::underlying_type_t<Feature> i = 0; i <= static_cast<std::underlying_type_t<Feature>>(last_feature); ++i)
    names.push_back(to_string(static_cast<Feature>(i)));
  return names;
}

std::optional<Feature> find_feature(std::string_view name) {
  const auto names = feature_names();
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Feature>(found - names.begin());
}

}  // namespace shardproof
