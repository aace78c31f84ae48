// What a program of ranked cases answers to a launcher that asks it with arguments, on standard output; what is wrong goes to standard
// error. A launcher knows nothing of cases, subjects, backends and documents but this.
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

// All return what the process is to end with (harness/protocol/ending.hpp).

/// All cases, and what there is for them. `library`: as `with_library` takes it.
int answer_with_cases(const Program& own, const std::filesystem::path& library, std::span<const BoundCase> cases);
/// That there are none, and why: told in the answer that was asked for, so that a launcher can tell this from a program that is no worker.
int answer_with_problems(const std::vector<std::string>& problems);

/// The GPUs that ranks could run on by this backend, or why there are none.
int answer_with_gpus(const std::filesystem::path& backend);

/// Whether the document can be played: at all, or by this many ranks; nothing else.
int answer_about(const std::filesystem::path& scenario, std::optional<int> ranks);
/// A line for every seed: `{"seed", "ranks", "scenario"}`. Throws UsageError for names of features or ingredients that there are not.
int answer_with_scenarios(const ScenariosAsked& asked);
/// A line for every variant of the document, the smallest first: `{"ranks", "scenario"}`.
int answer_with_smaller(const std::filesystem::path& scenario, int ranks);

}  // namespace shardproof
