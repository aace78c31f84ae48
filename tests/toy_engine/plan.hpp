// The section of plans for engines of the kind `toy`. Each rank keeps all parameters whole, and the ranks average
// gradients by one all-reduce for each backward.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/feature.hpp"
#include "harness/scenario/plan/engine_section.hpp"

namespace shardproof::toy {

/// The features that only engines of this kind can have.
struct ToyFeature {
  static constexpr Feature named_bucket{"named_bucket"};  ///< the key `bucket` of the section
  static constexpr std::array all{named_bucket};
};

struct ToyPlan final : SectionOf<ToyPlan> {
  static constexpr std::string_view name = "toy";

  std::string bucket = "all";  ///< label of the flat gradients and tag of their all-reduce

  std::string_view kind() const override { return name; }
  nlohmann::ordered_json to_json() const override;
  void validate(const Scenario& scenario) const override;
  std::vector<std::string> groups(const Model& /*model*/) const override { return {bucket}; }
  std::string objection_to_extension(const ParameterShape& /*parameter*/) const override {
    return "a toy engine gathers none";
  }
  bool reduces(const std::string& /*parameter*/) const override { return true; }

  friend bool operator==(const ToyPlan& a, const ToyPlan& b) { return a.bucket == b.bucket; }
};

}  // namespace shardproof::toy
