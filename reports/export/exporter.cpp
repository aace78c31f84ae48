#include "reports/export/exporter.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "harness/base/json_text.hpp"
#include "reports/export/ctrf.hpp"
#include "reports/export/junit.hpp"
#include "reports/export/markdown.hpp"

namespace shardproof::reports {

std::span<const Exporter> exporters() {
  static constexpr std::array all{
      Exporter{
          .option = "--junit", .help = "Write JUnit XML.", .example = "junit.xml", .appends = false, .text = junit},
      Exporter{.option = "--ctrf",
               .help = "Write JSON in the Common Test Report Format (ctrf.io).",
               .example = "ctrf.json",
               .appends = false,
               .text = [](const Report& report,
                          const TextStyle& style) { return base::dump_document(ctrf(report, style)) + "\n"; }},
      Exporter{.option = "--markdown",
               .help = "Write Markdown.",
               .example = "summary.md",
               .appends = true,
               .text = [](const Report& report, const TextStyle& style) { return markdown(report, style); }}};
  return all;
}

TextStyle export_style(TextStyle style) {
  style.color = style.verbose = style.quiet = false;
  return style;
}

}  // namespace shardproof::reports
