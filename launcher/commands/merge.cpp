// `shardproof merge`: makes the report of ranks that another launcher started, or of a run whose launcher died before
// it wrote a report.
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/shared_options.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/earlier_run.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/demands.hpp"
#include "launcher/run/recorded_run.hpp"
#include "launcher/run/trace_files.hpp"
#include "launcher/terminal/terminal.hpp"
#include "launcher/worker_client/worker.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {

using protocol::RunDirectory;

namespace {

constexpr HelpText merge_help{
    .name = "merge",
    .summary = "Make the report of a run that another launcher started, or that was cut short.",
    .examples = "    shardproof merge my_run                      write my_run/report.json\n",
    .arguments = "DIRECTORY",
    .footer =
        "Exit codes, the first that applies:\n"
        "    2  The command line is wrong, the directory has no world, or output cannot be written.\n"
        "    3  Ranks did not meet.\n"
        "    4  A rank crashed or hung.\n"
        "    5  Evidence is missing or corrupt, or ranks disagree.\n"
        "    1  A case failed.\n"
        "    6  A demand is not met, as in `run`.\n"
        "    0  Each case passed, was skipped or was waived."};

class MergeCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return merge_help; }

  void declare(OptionDeclarations& options) override {
    options.argument(
        "directory", directory_,
        "The run directory, which --out of `run` named, or --run-dir of ranks that mpirun, srun or torchrun "
        "started by themselves (docs/clusters.md).");
    options.value(subject_group, "--worker", worker_, "PROGRAM",
                  "Take the cases from this program, where the run directory does not list them.");
    declare_demands(options, demands_, demand_texts_);
    declare_terminal(options, terminal_, color_);
  }

  void convert(const Arguments& arguments) override {
    require_arguments(arguments, {{"DIRECTORY", directory_}});
    convert_demands(demand_texts_, demands_);
    terminal_.color = convert_color(color_);
  }

  int run(const std::vector<std::string>& /*argv*/) override {
    require_run_directory(directory_);
    // As in `run`, the printed path of the report is whole.
    const RunDirectory run{std::filesystem::absolute(directory_ / "").lexically_normal().parent_path()};
    if (const auto world = as_world(run.root))
      throw CommandError(usage, fmt::format("{} is a world of a run; name the directory of the run, {}",
                                            directory_.string(), run_of(*world).root.string()));
    const base::FileDescriptor lock = lock_run(run.root);
    const MergedRun merged = merge(run);
    for (const std::string& defect : merged.defects) print_error(reports::printable_line(defect));
    if (merged.report.worlds.empty()) return evidence_unusable;

    Terminal terminal(stdout, terminal_);
    terminal.show_files_of(run);
    terminal.print(reports::summary(merged.report, terminal.style()));
    write_own_file(run.report(), [&](std::ostream& out) { reports::write_report(out, merged.report); }, 0);
    terminal.note(fmt::format("report: {}", run.report().string()));
    require_printed(terminal.finish());
    const int code = reports::exit_code(merged.report);
    // Unreadable evidence is stronger than failed cases, and weaker than crashed ranks.
    const bool is_stronger = code == crashed_or_hung || (code == infrastructure && !merged.misses_plans);
    return merged.defects.empty() || is_stronger ? code : evidence_unusable;
  }

 private:
  MergedRun merge(const RunDirectory& run) const {
    try {
      RecordedRun recorded(run);
      if (recorded.is_empty())
        throw CommandError(usage,
                           fmt::format("{}: no world to merge in {}; name the directory of a run, which --out or "
                                       "--run-dir made",
                                       run.root.string(), run.worlds().string()));
      for (const auto& [number, world] : recorded.worlds()) {
        for (std::string& defect : merge_traces(world)) recorded.add_defect(std::move(defect));
      }
      return recorded.merge(worker_.empty() ? recorded.read_recorded_listing() : ask_worker(), demands_);
    } catch (const CommandError&) {
      throw;
    } catch (const std::exception& error) {
      throw CommandError(evidence_unusable, fmt::format("{}: {}", run.root.string(), error.what()));
    }
  }

  std::optional<protocol::Listing> ask_worker() const {
    SignalWatch signals;
    return launcher::ask_worker(worker_, signals).listing;
  }

  std::filesystem::path directory_;
  /// The worker to ask for the cases if the run directory does not have them. Empty: no worker.
  std::filesystem::path worker_;
  DemandTexts demand_texts_;
  DemandOptions demands_;  ///< replace the run's own
  ColorText color_;
  TerminalOptions terminal_;
};

}  // namespace

std::unique_ptr<Subcommand> make_merge_command() { return std::make_unique<MergeCommand>(); }

}  // namespace shardproof::launcher
