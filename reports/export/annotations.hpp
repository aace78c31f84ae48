// The failures of a report as commands of hosted CI systems, which show them as annotations: at the line of the source,
// and at the top of the job. Pure.
//
// The CI system takes each command from one line of the output. Text of ranks is visible text in one line, and is
// escaped by the rules of the system. So it cannot begin another command, or end a field of its own.
//
//   - Each cause of failures has one annotation, at the first failed assertion or at the case.
//   - All cases that did not run have one together. Each failure of the run has one, such as an unmet demand.
//   - Waived and skipped cases have none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "reports/model/report.hpp"

namespace shardproof::reports {

enum class AnnotationFormat : std::uint8_t {
  github,  ///< `::error file=…,line=…,title=…::…`
  azure,  ///< `##vso[task.logissue type=error;sourcepath=…;linenumber=…]…`
};

/// GitHub shows the first ten errors of a step. The last line says how many are left out.
inline constexpr std::size_t github_errors = 10;
/// Azure documents no limit. A list of more is no help.
inline constexpr std::size_t azure_errors = 100;

/// A line for each annotation. `repository_path` changes the path of a source file to its path in the repository.
std::string annotations(const Report& report, AnnotationFormat format,
                        const std::function<std::string(const std::string& file)>& repository_path);

/// The text without commands of Azure, which takes them from anywhere in a line: `##vso [` in place of `##vso[`. Azure
/// has nothing like `stop_commands`.
std::string without_azure_commands(std::string_view text);

/// GitHub takes no command from the lines after this line, until `resume_commands` with the same token. Text of ranks
/// must not be able to name the token.
std::string stop_commands(std::string_view token);
std::string resume_commands(std::string_view token);

}  // namespace shardproof::reports
