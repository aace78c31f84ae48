// `shardproof stable`: prints the part of a report that does not depend on the time, the place or the speed of the run.
#include <nlohmann/json.hpp>

#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/report_file.hpp"
#include "launcher/files/standard_streams.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

int stable_command(const StableOptions& options) {
  const auto report = read_report_file(options.report, [](std::istream& in) { return parse_json(in); });
  say(dump_document(reports::stable_part(report), 1) + "\n");
  return all_passed;
}

}  // namespace shardproof::launcher
