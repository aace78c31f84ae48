// Finds the requested subject, in a program or in a shared object.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "harness/runner/rank_main.hpp"

namespace shardproof {

/// The program with the subject of the shared object instead of its own subjects. Without a path, the same program.
/// Throws SubjectRefused.
Program with_library(const Program& program, const std::filesystem::path& library);

/// The subject of this name; without a name, the first subject. `library` is the path of the shared object, if the
/// program's subjects come from one. Throws UsageError with the names of all subjects.
std::unique_ptr<Subject> subject_named(const Program& program, const std::string& name,
                                       const std::filesystem::path& library);

}  // namespace shardproof
