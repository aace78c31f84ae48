#include "harness/runner/play/subject_choice.hpp"

#include <fmt/format.h>

#include <set>

#include "harness/base/closest.hpp"
#include "harness/runner/command_line.hpp"
#include "harness/subject/abi/table_subject.hpp"

namespace shardproof::runner {

std::vector<SubjectMaker> subjects_of(const std::vector<SubjectMaker>& own, const std::filesystem::path& library) {
  if (library.empty()) return own;
  const std::string where = fmt::format("subject {}", library.string());
  try {
    const shardproof_subject* const table = subject::load_subject_table(library);  // each rank makes a subject from it
    subject::table_subject(table, where);  // reports errors of the table before anything is made or waited for
    return {[=] { return subject::table_subject(table, where); }};
  } catch (const subject::SubjectRefused& refused) {
    throw UsageError(refused.what());
  }
}

std::unique_ptr<Subject> subject_named(const std::vector<SubjectMaker>& subjects, const std::string& name,
                                       const std::filesystem::path& library) {
  std::set<std::string> names;
  for (const SubjectMaker& make : subjects) {
    auto candidate = make();
    if (name.empty() || candidate->name() == name) return candidate;
    names.emplace(candidate->name());
  }
  throw UsageError(fmt::format("there is no subject \"{}\"{}; {}", name,
                               library.empty() ? std::string() : " in " + library.string(),
                               base::closest_or_all(names, name)));
}

}  // namespace shardproof::runner
