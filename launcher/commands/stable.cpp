// `shardproof stable`: prints the part of a report that does not depend on the time, the place or the speed of the run.
#include <nlohmann/json.hpp>

#include "harness/base/json_text.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/report_file.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/standard_streams.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {
namespace {

constexpr HelpText stable_help{
    .name = "stable",
    .summary = "Print the part of a report that is equal, byte for byte, in all runs of one seed.",
    .examples = "    shardproof stable my_run                     compare its output by diff, cmp or a checksum\n",
    .arguments = "REPORT",
    .footer =
        "Exit codes:\n"
        "    0  The part is printed.\n"
        "    2  The command line is wrong, the file is not a valid report, or output cannot be written."};

class StableCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return stable_help; }

  void declare(OptionDeclarations& options) override {
    options.argument("report", report_, "A report.json or a run directory.");
    options.help(terminal_group);
  }

  void convert(const Arguments& arguments) override { require_arguments(arguments, {{"REPORT", report_}}); }

  int run(const std::vector<std::string>& /*argv*/) override {
    const auto report = read_report_file(report_, reports::read_report_document);
    print_output(base::dump_document(reports::stable_part(report), 1) + "\n");
    return all_passed;
  }

 private:
  std::filesystem::path report_;
};

}  // namespace

std::unique_ptr<Subcommand> make_stable_command() { return std::make_unique<StableCommand>(); }

}  // namespace shardproof::launcher
