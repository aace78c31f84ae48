// An engine in another language as a Subject: a table of plain C functions (harness/subject/shardproof.h), and what is to be believed of
// what they say. Nothing is, before it has been looked at: what is wrong is an error that says where and what was expected.
#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "harness/subject/shardproof.h"
#include "harness/subject/subject.hpp"

namespace shardproof {

/// What is wrong with a table, or with the shared object that it is in.
class SubjectRefused : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The table has to outlive it. Throws SubjectRefused, beginning with `where`, for a table that cannot be a subject's; one with a reserved
/// name can only be that of `own_name` (harness/protocol/subject_name.hpp).
std::unique_ptr<Subject> table_subject(const shardproof_subject* table, std::string_view where, std::string_view own_name = {});

/// The table of a shared object, which stays loaded for good. Throws SubjectRefused that names it.
const shardproof_subject* load_subject_table(const std::filesystem::path& library);

}  // namespace shardproof
