// A feature: what an engine may claim for a kind of engine, by name. A case lists the features that it needs.
//
// `Feature` has those that engines of several kinds can have. A kind declares the features that are its own next to its
// plan section, and lists them in its record (`EngineKind`, harness/scenario/plan/engine_section.hpp).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <string_view>

namespace shardproof {

/// Not claimed: the cases that need it are skipped with that reason. Claimed and absent: they fail.
class Feature {
 public:
  template <std::size_t size>
  explicit consteval Feature(const char (&name)[size]) : name_(name, size - 1) {}

  constexpr std::string_view name() const { return name_; }  ///< of a literal: a NUL follows it
  friend constexpr auto operator<=>(const Feature&, const Feature&) = default;

  static const Feature timeline;  ///< its streams and events are a device's of this harness, so that virtual time can be told
  static const Feature serial;    ///< can run with everything on one stream
  static const Feature replicated_mesh;        ///< shards over one dimension of a mesh, replicates over the other
  static const Feature gradient_accumulation;  ///< set_requires_gradient_sync, set_reshard_after_backward, set_is_last_backward
  static const Feature clip_grad_norm;
  static const Feature module_groups;  ///< groups of several modules; all other kinds of modules, frozen modules, and calls of one module
  static const Feature ignored_parameters;
  static const Feature shared_parameters;
  static const Feature language_model;  ///< tokens, embedding, layer_norm, attention, cross entropy
  static const Feature convolution;  ///< a weight of three dimensions
  static const Feature failed_forward;  ///< goes on after a module has thrown
  static const Feature all_gather_extensions;  ///< register_all_gather_extension; two-tensor and low-precision parameters
  static const Feature mixed_precision;
  static const Feature thread_ranks;  ///< several of its trainers may be in one process, on threads of their own
  static const Feature meta_initialisation;  ///< parameters without memory until `materialize`
  static const Feature truncated_normal;  ///< the initialisation of parameters by this formula
  static const Feature hidden_memory;  ///< its work is done when the device runs it, so that memory can be hidden from it

 private:
  std::string_view name_;
};

inline constexpr Feature Feature::timeline("timeline");
inline constexpr Feature Feature::serial("serial");
inline constexpr Feature Feature::replicated_mesh("replicated_mesh");
inline constexpr Feature Feature::gradient_accumulation("gradient_accumulation");
inline constexpr Feature Feature::clip_grad_norm("clip_grad_norm");
inline constexpr Feature Feature::module_groups("module_groups");
inline constexpr Feature Feature::ignored_parameters("ignored_parameters");
inline constexpr Feature Feature::shared_parameters("shared_parameters");
inline constexpr Feature Feature::language_model("language_model");
inline constexpr Feature Feature::convolution("convolution");
inline constexpr Feature Feature::failed_forward("failed_forward");
inline constexpr Feature Feature::all_gather_extensions("all_gather_extensions");
inline constexpr Feature Feature::mixed_precision("mixed_precision");
inline constexpr Feature Feature::thread_ranks("thread_ranks");
inline constexpr Feature Feature::meta_initialisation("meta_initialisation");
inline constexpr Feature Feature::truncated_normal("truncated_normal");
inline constexpr Feature Feature::hidden_memory("hidden_memory");

/// All of the above.
inline constexpr std::array common_features{
    Feature::timeline,        Feature::serial,        Feature::replicated_mesh,     Feature::gradient_accumulation,
    Feature::clip_grad_norm,  Feature::module_groups, Feature::ignored_parameters,  Feature::shared_parameters,
    Feature::language_model,  Feature::convolution,   Feature::failed_forward,      Feature::all_gather_extensions,
    Feature::mixed_precision, Feature::thread_ranks,  Feature::meta_initialisation, Feature::truncated_normal,
    Feature::hidden_memory};

}  // namespace shardproof
