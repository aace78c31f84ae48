// An empty section for a kind of engine that this program cannot read. Cases give it to an engine, which must refuse
// it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/scenario/plan/engine_section.hpp"

namespace shardproof::scenario {

class ForeignSection final : public SectionOf<ForeignSection> {
 public:
  /// No kind of engine may have this name.
  static constexpr std::string_view name = "no_engine";

  explicit ForeignSection(std::string kind = std::string(name)) : kind_(std::move(kind)) {}

  std::string_view kind() const override { return kind_; }
  nlohmann::ordered_json to_json() const override { return nlohmann::ordered_json::object(); }
  void validate(const Scenario& /*scenario*/) const override {}
  std::vector<std::string> groups(const Model& /*model*/) const override { return {}; }
  std::string objection_to_extension(const ParameterShape& /*parameter*/) const override {
    return "no engine gathers it";
  }
  bool reduces(const std::string& /*parameter*/) const override { return false; }

  friend bool operator==(const ForeignSection& a, const ForeignSection& b) { return a.kind_ == b.kind_; }

 private:
  std::string kind_;
};

}  // namespace shardproof::scenario
