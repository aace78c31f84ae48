#include "launcher/report_file.hpp"

#include <cerrno>
#include <system_error>

#include "harness/protocol/run_directory.hpp"

namespace shardproof::launcher {

std::filesystem::path report_path(const std::filesystem::path& named) {
  return std::filesystem::is_directory(named) ? RunDirectory{named}.report() : named;
}

std::ifstream open_report(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw CommandError(usage, fmt::format("cannot read {}: {}", file.string(), std::generic_category().message(errno)));
  return in;
}

}  // namespace shardproof::launcher
