// A scenario's document on disk, read once: the scenario and the lines that failures cite are of the same text, even if
// a program changes the file meanwhile.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "harness/scenario/scenario.hpp"

namespace shardproof::runner {

class ScenarioDocument {
 public:
  /// Reads the file. Throws std::invalid_argument with the reason why it cannot be read.
  explicit ScenarioDocument(std::filesystem::path file);

  const std::filesystem::path& file() const { return file_; }
  /// Throws std::invalid_argument with the file, the place of an error, and the error. `world_size` as for
  /// `parse_scenario`.
  Scenario scenario(std::optional<int> world_size = std::nullopt) const;
  /// As `parse_playable_scenario`. Throws like `scenario`.
  Scenario playable_scenario(std::optional<int> ranks) const;
  /// The line of a call of the script, or of the plan without one.
  std::size_t line_of(const std::optional<ScriptPlace>& call) const;

 private:
  std::filesystem::path file_;
  std::string text_;
};

/// The scenario of a document that is read for this.
Scenario read_scenario(const std::filesystem::path& document, std::optional<int> world_size = std::nullopt);

}  // namespace shardproof::runner
