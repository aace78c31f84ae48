// `shardproof doctor`: reports machine settings that slow or break runs, and how to repair them.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "launcher/commands/commands.hpp"
#include "launcher/commands/diagnosis.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/shared_options.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/terminal/terminal.hpp"
#include "launcher/worker_client/backend.hpp"
#include "launcher/worker_client/worker.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {
namespace {

constexpr HelpText doctor_help{.name = "doctor",
                               .summary = "Report machine settings that slow or break runs, and how to repair them.",
                               .examples = "    shardproof doctor                            this machine\n",
                               .arguments = "",
                               .footer =
                                   "Exit codes:\n"
                                   "    0  Runs are possible. They may be slow.\n"
                                   "    2  The command line is wrong, or output cannot be written.\n"
                                   "    3  A setting prevents runs. With --backend: a setting prevents runs on GPUs."};

/// Asks the worker for GPUs like a run, if there is a backend.
void ask_for_gpus(MachineState& machine, const std::filesystem::path& worker, const std::filesystem::path& named) {
  machine.needs_gpus = !named.empty();
  const auto backend = machine.needs_gpus ? named_backend(named) : built_backend();
  if (!machine.needs_gpus && !std::filesystem::exists(backend)) return;
  SignalWatch signals;
  try {
    machine.gpu_listing = ask_gpus(find_worker(worker), backend, signals);
  } catch (const CommandError& error) {
    if (error.code() != infrastructure) throw;
    machine.gpu_trouble = error.what();
  }
}

class DoctorCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return doctor_help; }

  void declare(OptionDeclarations& options) override {
    declare_worker(options, worker_, "the list of GPUs from");
    declare_backend(options, subject_group, backend_text_, "Look at the GPUs that this shared object reaches.");
    declare_color(options, color_text_);
    options.help(terminal_group);
  }

  void convert(const Arguments& arguments) override {
    require_arguments(arguments, {});
    backend_ = convert_backend(backend_text_);
    color_ = convert_color(color_text_);
  }

  int run(const std::vector<std::string>& /*argv*/) override {
    const reports::Paint paint(use_color(color_, stdout));
    MachineState machine = inspect_machine(std::filesystem::current_path());
    ask_for_gpus(machine, worker_, backend_);
    const std::vector<Finding> findings = diagnose(machine);
    std::string text;
    for (const Finding& finding : findings) {
      const auto word = finding.weight == Finding::Weight::fine    ? paint(reports::Hue::green, "fine    ")
                        : finding.weight == Finding::Weight::note  ? "note    "
                        : finding.weight == Finding::Weight::hurts ? paint(reports::Hue::yellow, "hurts   ")
                                                                   : paint(reports::Hue::red, "prevents");
      text += fmt::format("{}  {}\n", word, reports::printable_line(finding.what));
      if (!finding.why.empty()) text += reports::indented(finding.why, "          ");
    }
    print_output(text);
    const auto prevents = [](const Finding& finding) { return finding.weight == Finding::Weight::prevents; };
    return std::ranges::any_of(findings, prevents) ? infrastructure : all_passed;
  }

 private:
  std::filesystem::path worker_;  ///< empty: the worker next to the launcher
  std::optional<std::string> backend_text_;
  std::filesystem::path backend_;  ///< empty: the backend that was built with the launcher
  ColorText color_text_;
  ColorWhen color_ = ColorWhen::automatic;
};

}  // namespace

std::unique_ptr<Subcommand> make_doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace shardproof::launcher
