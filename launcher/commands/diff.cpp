// `shardproof diff`: what changed between two reports.
#include <future>
#include <nlohmann/json.hpp>

#include "harness/base/json_text.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/report_file.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/terminal/terminal.hpp"
#include "reports/diff/diff.hpp"

namespace shardproof::launcher {

int diff_command(const DiffOptions& options) {
  const auto read = [](const std::filesystem::path& path) {
    return read_report_file(path, [](std::istream& in) { return reports::read_report(in); });
  };
  auto after = std::async(std::launch::async, read, options.after);  // reading is what takes the time
  const reports::Report before = read(options.before);
  const reports::Diff diff = reports::diff(before, after.get());
  if (options.json) {
    say(dump_document(reports::to_json(diff)) + "\n");
  } else {
    say(reports::to_text(diff, use_color(options.color, stdout)));
  }
  return diff.regression() ? case_failed : all_passed;
}

}  // namespace shardproof::launcher
