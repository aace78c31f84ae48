// Which of a program's subjects, or of a shared object instead, is the one that was asked for.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "harness/runner/rank_main.hpp"

namespace shardproof {

/// With the subject of a shared object instead of its own; the program as it is where there is no path. Throws SubjectRefused.
Program with_library(const Program& program, const std::filesystem::path& library);

/// The first, without a name. `library` is where the program's subjects come from, if not from itself. Throws UsageError with what there
/// is.
std::unique_ptr<Subject> subject_named(const Program& program, const std::string& name, const std::filesystem::path& library);

}  // namespace shardproof
