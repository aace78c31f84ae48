// Feature is a capability that an engine may claim for a kind of engine, by name. A case lists the features that it
// needs.
//
// `Feature` has the features that engines of several kinds can have. A kind declares its own features next to its plan
// section, and lists them in its record (`EngineKind`, harness/scenario/plan/engine_section.hpp).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <string_view>

namespace shardproof {

/// If the feature is not claimed, the cases that need it are skipped with that reason. If it is claimed and absent,
/// they fail.
class Feature {
 public:
  template <std::size_t size>
  explicit consteval Feature(const char (&name)[size]) : name_(name, size - 1) {}

  constexpr std::string_view name() const { return name_; }  ///< Points to a literal: a NUL follows it.
  friend constexpr auto operator<=>(const Feature&, const Feature&) = default;

  /// Its streams and events belong to a device of this harness, so that virtual time can be measured.
  static const Feature timeline;
  static const Feature serial;    ///< Can run all of its work on one stream.
  static const Feature replicated_mesh;        ///< Shards over one mesh dimension and replicates over the other.
  /// Supports set_requires_gradient_sync, set_reshard_after_backward and set_is_last_backward.
  static const Feature gradient_accumulation;
  static const Feature clip_grad_norm;
  /// Supports groups of several modules, all other kinds of modules, frozen modules, and calls of one module.
  static const Feature module_groups;
  static const Feature ignored_parameters;
  static const Feature shared_parameters;
  static const Feature language_model;  ///< Tokens, embedding, layer_norm, attention, cross entropy.
  static const Feature convolution;  ///< A weight of three dimensions.
  static const Feature failed_forward;  ///< Goes on after a module has thrown.
  /// Supports register_all_gather_extension, with two-tensor and low-precision parameters.
  static const Feature all_gather_extensions;
  static const Feature mixed_precision;
  static const Feature thread_ranks;  ///< Several trainers may run in one process, on threads of their own.
  static const Feature meta_initialisation;  ///< Parameters have no memory until `materialize`.
  static const Feature truncated_normal;  ///< Initialises parameters by this formula.
  /// Its work runs when the device executes it, so that the harness can hide memory from it.
  static const Feature hidden_memory;

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

/// All features above.
inline constexpr std::array common_features{
    Feature::timeline,        Feature::serial,        Feature::replicated_mesh,     Feature::gradient_accumulation,
    Feature::clip_grad_norm,  Feature::module_groups, Feature::ignored_parameters,  Feature::shared_parameters,
    Feature::language_model,  Feature::convolution,   Feature::failed_forward,      Feature::all_gather_extensions,
    Feature::mixed_precision, Feature::thread_ranks,  Feature::meta_initialisation, Feature::truncated_normal,
    Feature::hidden_memory};

}  // namespace shardproof
