// The answers of a program of ranked cases to a launcher that asks with arguments. They go to standard output, errors
// to standard error. A launcher learns only from these answers about cases, subjects, backends and documents.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/cases/bound_case.hpp"
#include "harness/runner/command_line.hpp"
#include "harness/runner/rank_main.hpp"

namespace shardproof {

// All return the exit code of the process (harness/protocol/ending.hpp).

/// All cases, with the program's subjects, faults, profiles and clauses. `library`: see `with_library`.
int answer_with_cases(const Program& own, const std::filesystem::path& library, std::span<const BoundCase> cases);
/// Reports that the program offers no cases, and why. The problems are in the answer itself, so that a launcher can
/// distinguish this program from a program that is not a worker.
int answer_with_problems(const std::vector<std::string>& problems);

/// The GPUs that ranks can use through this backend, or the reason why no GPU is usable.
int answer_with_gpus(const std::filesystem::path& backend);

/// Reports by its exit code whether the document can be played: by any number of ranks, or by `ranks`. Prints nothing
/// to standard output.
int answer_about(const std::filesystem::path& scenario, std::optional<int> ranks);
/// A line for every seed: `{"seed", "ranks", "scenario"}`. Throws UsageError for unknown names of features or
/// ingredients.
int answer_with_scenarios(const ScenariosAsked& asked);
/// A line for every variant of the document, the smallest first: `{"ranks", "scenario"}`.
int answer_with_smaller(const std::filesystem::path& scenario, int ranks);

}  // namespace shardproof
