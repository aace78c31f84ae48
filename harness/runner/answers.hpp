// The answers of a program of ranked cases to a launcher that asks with arguments. They go to standard output, errors
// to standard error. A launcher learns only from these answers about cases, subjects, backends and documents.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "harness/cases/bound_case.hpp"
#include "harness/runner/rank_main.hpp"

namespace shardproof::runner {

// All return the exit code of the process (harness/protocol/ending.hpp).

/// All cases, with the program's subjects, faults, profiles and clauses. `library`: see ProgramExtension::add_to.
int answer_with_cases(const Program& program, const ProgramExtension& extension, const std::filesystem::path& library,
                      std::span<const cases::BoundCase> cases);
/// Reports that the program offers no cases, and why. The problems are in the answer itself, so that a launcher can
/// distinguish this program from a program that is not a worker.
int answer_with_problems(const std::vector<std::string>& problems);

}  // namespace shardproof::runner
