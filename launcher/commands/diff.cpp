// `shardproof diff`: what changed between two reports.
#include <future>
#include <nlohmann/json.hpp>

#include "harness/base/json_text.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/report_file.hpp"
#include "launcher/commands/shared_options.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/terminal/terminal.hpp"
#include "reports/diff/diff.hpp"

namespace shardproof::launcher {
namespace {

constexpr HelpText diff_help{
    .name = "diff",
    .summary = "Show what changed between two reports.",
    .examples =
        "    shardproof diff before after                 two run directories\n"
        "    shardproof diff before/report.json new.json  two reports\n",
    .arguments = "BEFORE AFTER",
    .footer =
        "Exit codes:\n"
        "    0  Nothing got worse.\n"
        "    1  A result got worse.\n"
        "    2  The command line is wrong, a file is not a valid report, or output cannot be written."};

class DiffCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return diff_help; }

  void declare(OptionDeclarations& options) override {
    options.argument("before", before_, "A report.json or a run directory.");
    options.argument("after", after_, "A report.json or a run directory.");
    options.flag(terminal_group, "--json", json_, "Print JSON.");
    declare_color(options, color_text_);
    options.help(terminal_group);
  }

  void convert(const Arguments& arguments) override {
    require_arguments(arguments, {{"BEFORE", before_}, {"AFTER", after_}});
    color_ = convert_color(color_text_);
  }

  int run(const std::vector<std::string>& /*argv*/) override {
    const auto read = [](const std::filesystem::path& path) {
      return read_report_file(path, [](std::istream& in) { return reports::read_report(in); });
    };
    auto after = std::async(std::launch::async, read, after_);  // reading is what takes the time
    const reports::Report before = read(before_);
    const reports::Diff diff = reports::diff(before, after.get());
    if (json_) {
      print_output(base::dump_document(reports::to_json(diff)) + "\n");
    } else {
      print_output(reports::to_text(diff, use_color(color_, stdout)));
    }
    return diff.regression() ? case_failed : all_passed;
  }

 private:
  std::filesystem::path before_, after_;
  bool json_ = false;
  ColorText color_text_;
  ColorWhen color_ = ColorWhen::automatic;
};

}  // namespace

std::unique_ptr<Subcommand> make_diff_command() { return std::make_unique<DiffCommand>(); }

}  // namespace shardproof::launcher
