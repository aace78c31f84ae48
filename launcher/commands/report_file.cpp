#include "launcher/commands/report_file.hpp"

#include <string>
#include <system_error>

#include "harness/base/shell_word.hpp"
#include "harness/protocol/run_directory.hpp"
#include "launcher/files/claimed_directory.hpp"

namespace shardproof::launcher {

std::filesystem::path report_path(const std::filesystem::path& named) {
  return std::filesystem::is_directory(named) ? protocol::RunDirectory{named}.report() : named;
}

std::string merge_hint(const std::filesystem::path& report) {
  std::error_code unknown;
  const std::filesystem::path directory = std::filesystem::absolute(report).parent_path();
  if (report.filename() != protocol::RunDirectory{}.report() ||
      !std::filesystem::is_directory(protocol::RunDirectory{directory}.worlds(), unknown))
    return {};
  return fmt::format(": `shardproof merge {}` makes it again",
                     base::shell_word(relative_to_current(directory).string()));
}

std::unique_ptr<std::istream> open_report(const std::filesystem::path& named) {
  try {
    // A user may name a pipe or a link. A rank may have put one into its run directory.
    return std::filesystem::is_directory(named) ? base::open_evidence(report_path(named)) : base::open_input(named);
  } catch (const base::UnreadableFile& error) {
    throw CommandError(usage, error.what() + merge_hint(report_path(named)));
  }
}

}  // namespace shardproof::launcher
