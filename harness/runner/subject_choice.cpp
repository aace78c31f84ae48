#include "harness/runner/subject_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "harness/runner/command_line.hpp"
#include "harness/subject/abi/table_subject.hpp"

namespace shardproof {

namespace {

std::vector<std::string> subject_names(const Program& program) {
  std::vector<std::string> names;
  for (const auto& make : program.subjects) names.emplace_back(make()->name());
  return names;
}

}  // namespace

Program with_library(const Program& program, const std::filesystem::path& library) {
  if (library.empty()) return program;
  const shardproof_subject* const table = load_subject_table(library);  // each rank makes a subject from it
  const std::string where = fmt::format("subject {}", library.string());
  table_subject(table, where);  // reports errors of the table before anything is made or waited for
  Program with = program;
  with.subjects = {[=] { return table_subject(table, where); }};
  return with;
}

std::unique_ptr<Subject> subject_named(const Program& program, const std::string& name,
                                       const std::filesystem::path& library) {
  for (const auto& make : program.subjects) {
    if (auto candidate = make(); name.empty() || candidate->name() == name) return candidate;
  }
  const auto names = subject_names(program);
  throw UsageError(fmt::format("there is no subject '{}'{}; there is: {}", name,
                               library.empty() ? std::string() : " in " + library.string(),
                               names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

}  // namespace shardproof
