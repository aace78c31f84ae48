#include "launcher/report_file.hpp"

#include <cerrno>
#include <system_error>

#include "harness/protocol/run_directory.hpp"

namespace shardproof::launcher {

std::ifstream open_report(std::filesystem::path path) {
  if (std::filesystem::is_directory(path)) path = RunDirectory{path}.report();
  std::ifstream in(path);
  if (!in) throw CommandError(usage, fmt::format("cannot read {}: {}", path.string(), std::generic_category().message(errno)));
  return in;
}

}  // namespace shardproof::launcher
