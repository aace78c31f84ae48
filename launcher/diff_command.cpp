// `shardproof diff`: what changed between two reports.
#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "harness/protocol/run_directory.hpp"
#include "launcher/commands.hpp"
#include "launcher/launcher.hpp"
#include "launcher/terminal.hpp"
#include "reports/diff.hpp"

namespace shardproof::launcher {
namespace {

reports::Report read_report(std::filesystem::path file) {
  if (std::filesystem::is_directory(file)) file = RunDirectory{file}.report();
  std::ifstream in(file);
  if (!in) throw CommandError(usage, fmt::format("cannot read {}: {}", file.string(), std::generic_category().message(errno)));
  try {
    return reports::read_report(in);
  } catch (const std::exception& error) {
    throw CommandError(usage, fmt::format("{} is no report: {}", file.string(), error.what()));
  }
}

}  // namespace

int diff_command(const DiffOptions& options) {
  const reports::Diff diff = reports::diff(read_report(options.before), read_report(options.after));
  if (options.json) {
    fmt::print("{}\n", reports::to_json(diff).dump(2));
  } else {
    fmt::print("{}", reports::to_text(diff, use_color(options.color, stdout)));
  }
  return diff.regression() ? case_failed : all_passed;
}

}  // namespace shardproof::launcher
