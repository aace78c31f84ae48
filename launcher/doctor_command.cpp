// `shardproof doctor`: what of this machine will hurt a run, and how to mend it.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/commands.hpp"
#include "launcher/doctor.hpp"
#include "launcher/launcher.hpp"
#include "launcher/standard_streams.hpp"
#include "launcher/terminal.hpp"
#include "reports/terminal.hpp"

namespace shardproof::launcher {

int doctor_command(const DoctorOptions& options) {
  const reports::Paint paint(use_color(options.color, stdout));
  const std::vector<Finding> findings = diagnose(look_at_machine(std::filesystem::current_path()));
  std::string text;
  for (const Finding& finding : findings) {
    const auto word = finding.weight == Finding::Weight::fine    ? paint(reports::Hue::green, "fine    ")
                      : finding.weight == Finding::Weight::hurts ? paint(reports::Hue::yellow, "hurts   ")
                                                                 : paint(reports::Hue::red, "prevents");
    text += fmt::format("{}  {}\n", word, reports::printable(finding.what));
    if (!finding.why.empty()) text += reports::indented(finding.why, "          ");
  }
  say(text);
  const auto prevents = [](const Finding& finding) { return finding.weight == Finding::Weight::prevents; };
  return std::ranges::any_of(findings, prevents) ? infrastructure : all_passed;
}

}  // namespace shardproof::launcher
