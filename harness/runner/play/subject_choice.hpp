// Finds the requested subject, in a program or in a shared object.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/runner/play/play_main.hpp"

namespace shardproof::runner {

/// The subject of the shared object. Without a path, the program's own subjects. Throws UsageError with the reason why
/// the shared object has no usable subject.
std::vector<SubjectMaker> subjects_of(const std::vector<SubjectMaker>& own, const std::filesystem::path& library);

/// The subject of this name; without a name, the first subject. `library` is the path of the shared object, if the
/// subjects come from one. Throws UsageError with the names of all subjects.
std::unique_ptr<Subject> subject_named(const std::vector<SubjectMaker>& subjects, const std::string& name,
                                       const std::filesystem::path& library);

}  // namespace shardproof::runner
