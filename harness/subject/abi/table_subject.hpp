// An engine in another language as a Subject. The engine is a table of plain C functions
// (harness/subject/shardproof.h). Its answers are checked before use. An invalid answer is an error with the place and
// the expected value.
#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "harness/subject/shardproof.h"
#include "harness/subject/subject.hpp"

namespace shardproof::subject {

/// An error in a table, or in the shared object that contains it.
class SubjectRefused : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Makes a subject from the table, which must outlive it. Throws SubjectRefused, beginning with `where`, for an invalid
/// table. A reserved name is valid only if it is `own_name` (harness/protocol/subject_name.hpp).
std::unique_ptr<Subject> table_subject(const shardproof_subject* table, std::string_view where,
                                       std::string_view own_name = {});

/// The table of a shared object, which stays loaded until the process ends. Throws SubjectRefused with the name of the
/// file.
const shardproof_subject* load_subject_table(const std::filesystem::path& library);

}  // namespace shardproof::subject
