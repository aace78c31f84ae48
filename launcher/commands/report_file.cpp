#include "launcher/commands/report_file.hpp"

#include "harness/protocol/run_directory.hpp"

namespace shardproof::launcher {

std::filesystem::path report_path(const std::filesystem::path& named) {
  return std::filesystem::is_directory(named) ? protocol::RunDirectory{named}.report() : named;
}

std::unique_ptr<std::istream> open_report(const std::filesystem::path& named) {
  try {
    // A user may name a pipe or a link. A rank may have put one into its run directory.
    return std::filesystem::is_directory(named) ? base::open_evidence(report_path(named)) : base::open_input(named);
  } catch (const base::UnreadableFile& error) {
    throw CommandError(usage, error.what());
  }
}

}  // namespace shardproof::launcher
