// The answers of a program to a launcher that asks about scenarios and GPUs. They go to standard output, errors to
// standard error.
#pragma once

#include <filesystem>
#include <optional>

#include "harness/runner/command_line.hpp"

namespace shardproof::runner {

// All return the exit code of the process (harness/protocol/ending.hpp).

/// The GPUs that ranks can use through this backend, or the reason why no GPU is usable.
int answer_with_gpus(const std::filesystem::path& backend);

/// A line with the number of ranks that can play the document: `{"ranks"}`. It is `ranks`, or the document's own number
/// (`parse_playable_scenario`). An exit code for a document that they cannot play.
int answer_about(const std::filesystem::path& scenario, std::optional<int> ranks);
/// A line for every seed: `{"seed", "ranks", "scenario"}`. Throws UsageError for unknown names of features or
/// ingredients.
int answer_with_scenarios(const ScenariosAsked& asked);
/// A line for every variant of the document, the smallest first: `{"ranks", "scenario"}`.
int answer_with_smaller(const std::filesystem::path& scenario, int ranks);

}  // namespace shardproof::runner
