// `shardproof export`: a finished report in the formats of other programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <filesystem>
#include <vector>

#include "harness/base/input_file.hpp"
#include "launcher/commands/annotations.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/export_files.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/report_file.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/records.hpp"
#include "launcher/terminal/terminal.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {
namespace {

constexpr HelpText export_help{
    .name = "export",
    .summary = "Write a report as JUnit XML, CTRF JSON, Markdown or annotations, for CI systems.",
    .examples =
        "    shardproof export my_run --junit junit.xml --ctrf ctrf.json\n"
        "    shardproof export new.json --markdown -      print Markdown\n"
        "    shardproof export my_run --annotations github\n"
        "                                                 show the failures in a pull request\n",
    .arguments = "REPORT",
    .footer =
        "Give at least one of the files, or --annotations. `run` has the same options.\n"
        "\n"
        "Exit codes:\n"
        "    0  The files are written. The results in the report do not change the exit code.\n"
        "    2  The command line is wrong, the file is not a valid report, or output cannot be written."};

/// The texts of clauses and the files of a case, if the report is in its run directory. Else the texts do without them.
void use_run_directory(Terminal& terminal, const protocol::RunDirectory& run) {
  if (!std::filesystem::exists(run.run())) return;
  terminal.show_files_of(run);
  try {
    terminal.explain(parse_listing(base::read_evidence(listing_file(run))).clauses);
  } catch (const std::exception&) {
    // Without the worker's listing, failures name their clauses without texts.
  }
}

class ExportCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return export_help; }

  void declare(OptionDeclarations& options) override {
    options.argument("report", report_, "A report.json or a run directory.");
    files_.declare(options);
    annotations_.declare(options);
    options.help(terminal_group);
  }

  void convert(const Arguments& arguments) override {
    require_arguments(arguments, {{"REPORT", report_}});
    annotations_.convert(files_);
    if (!files_.is_empty() || annotations_.is_requested()) return;
    std::vector<const char*> names;
    for (const reports::Exporter& exporter : reports::exporters()) names.push_back(exporter.option);
    throw CommandError(usage,
                       fmt::format("export writes nothing: give at least one of {} with a file, or --annotations",
                                   fmt::join(names, ", ")));
  }

  int run(const std::vector<std::string>& /*argv*/) override {
    files_.require_writable({});
    const reports::Report report = read_report_file(report_, [](std::istream& in) { return reports::read_report(in); });
    Terminal silent(stderr, {.color = ColorWhen::never, .quiet = true});
    use_run_directory(silent, {report_path(report_).parent_path()});
    const bool is_written = files_.write(report, silent.style());
    if (annotations_.is_requested()) print_output(annotations_.text(report));
    return is_written ? all_passed : usage;
  }

 private:
  std::filesystem::path report_;
  ExportFiles files_;
  Annotations annotations_;
};

}  // namespace

std::unique_ptr<Subcommand> make_export_command() { return std::make_unique<ExportCommand>(); }

}  // namespace shardproof::launcher
