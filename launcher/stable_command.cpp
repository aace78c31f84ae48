// `shardproof stable`: the part of a report that does not depend on when, where and how fast it was made.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/commands.hpp"
#include "launcher/report_file.hpp"
#include "reports/report.hpp"

namespace shardproof::launcher {

int stable_command(const StableOptions& options) {
  const auto report = read_report_file(options.report, [](std::istream& in) { return nlohmann::ordered_json::parse(in); });
  fmt::print("{}\n", reports::stable_part(report).dump(1));
  return all_passed;
}

}  // namespace shardproof::launcher
