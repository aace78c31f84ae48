// `shardproof doctor`: reports machine settings that slow or break runs, and how to repair them.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/commands/commands.hpp"
#include "launcher/commands/diagnosis.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/terminal/terminal.hpp"
#include "launcher/worker_client/backend.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {
namespace {

/// Asks the worker for GPUs like a run, if there is a backend.
void ask_for_gpus(MachineState& machine, const DoctorOptions& options) {
  machine.needs_gpus = !options.backend.empty();
  const auto backend = machine.needs_gpus ? named_backend(options.backend) : built_backend();
  if (!machine.needs_gpus && !std::filesystem::exists(backend)) return;
  SignalWatch signals;
  try {
    machine.gpu_listing = ask_gpus(find_worker(options.worker), backend, signals);
  } catch (const CommandError& error) {
    if (error.code() != infrastructure) throw;
    machine.gpu_trouble = error.what();
  }
}

}  // namespace

int doctor_command(const DoctorOptions& options) {
  const reports::Paint paint(use_color(options.color, stdout));
  MachineState machine = look_at_machine(std::filesystem::current_path());
  ask_for_gpus(machine, options);
  const std::vector<Finding> findings = diagnose(machine);
  std::string text;
  for (const Finding& finding : findings) {
    const auto word = finding.weight == Finding::Weight::fine    ? paint(reports::Hue::green, "fine    ")
                      : finding.weight == Finding::Weight::note  ? "note    "
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
