// `shardproof diff`: what changed between two reports.
#include <fmt/format.h>

#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/closest.hpp"
#include "harness/base/json_text.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/option_values.hpp"
#include "launcher/commands/report_file.hpp"
#include "launcher/commands/shared_options.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/terminal/terminal.hpp"
#include "reports/diff/diff.hpp"
#include "reports/diff/gate.hpp"
#include "reports/export/columns.hpp"

namespace shardproof::launcher {
namespace {

constexpr char gate_group[] = "Gate";

constexpr HelpText diff_help{
    .name = "diff",
    .summary = "Show what changed between two reports.",
    .examples =
        "    shardproof diff before after                 two run directories\n"
        "    shardproof diff before/report.json new.json  two reports\n"
        "    shardproof diff before after --fail-on new_failure,clause_weaker\n"
        "                                                 forbid only these changes\n",
    .arguments = "BEFORE AFTER",
    .footer =
        "Classes of changes:\n"
        "    The states of cases, lost_ranks, measurements_changed, clause_weaker.\n"
        "    regression means new_failure, removed_case, newly_skipped, newly_not_run, newly_waived,\n"
        "    measurements_changed and lost_ranks. If --ranks, the profile or the seed differ, the gate\n"
        "    ignores what only one of the runs was to do.\n"
        "\n"
        "Exit codes:\n"
        "    0  Nothing got worse. With --fail-on or --allow: no forbidden change is present.\n"
        "    1  A result got worse. With --fail-on or --allow: a forbidden change is present.\n"
        "    2  The command line is wrong, a file is not a valid report, or output cannot be written."};

/// In the order of the alphabet.
std::vector<std::string> known_classes() {
  std::vector<std::string> known{std::string(reports::regression_class)};
  known.insert(known.end(), reports::gate_classes().begin(), reports::gate_classes().end());
  std::ranges::sort(known);
  return known;
}

void require_class(const std::string& name) {
  const std::vector<std::string> known = known_classes();
  if (!std::ranges::binary_search(known, name))
    throw CommandError(usage, fmt::format("--fail-on: {}", base::unknown_name("class", name, known)));
}

class DiffCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return diff_help; }

  void declare(OptionDeclarations& options) override {
    options.argument("before", before_, "A report.json or a run directory.");
    options.argument("after", after_, "A report.json or a run directory.");
    options.list(gate_group, "--fail-on", fail_on_texts_, "CLASS,...",
                 "End with 1 only if a change of one of these classes is present, and list such changes.");
    options.choices("--fail-on", known_classes());
    options.list(
        gate_group, "--allow", gate_.allow, "PATTERN",
        "Allow the cases of this filter to be removed, newly skipped, newly not run or newly waived, or to lose "
        "their ranks. Allow the clauses of this glob (as OVL-5 or OVL-5 (fully_shard)) to become weaker, unless they "
        "are not met. Without --fail-on, all other regressions are forbidden.");
    options.flag(terminal_group, "--json", json_, "Print JSON.");
    declare_color(options, color_text_);
    options.help(terminal_group);
  }

  void convert(const Arguments& arguments) override {
    require_arguments(arguments, {{"BEFORE", before_}, {"AFTER", after_}});
    color_ = convert_color(color_text_);
    gate_.fail_on = listed("--fail-on", fail_on_texts_);
    for (const std::string& name : gate_.fail_on) require_class(name);
    has_gate_ = !gate_.fail_on.empty() || !gate_.allow.empty();
    if (gate_.fail_on.empty()) gate_.fail_on.emplace_back(reports::regression_class);
  }

  int run(const std::vector<std::string>& /*argv*/) override {
    const auto read = [](const std::filesystem::path& path) {
      return read_report_file(path, [](std::istream& in) { return reports::read_report(in); });
    };
    auto reading = std::async(std::launch::async, read, after_);  // reading is what takes the time
    const reports::Report before = read(before_);
    const reports::Report after = reading.get();
    const reports::Diff diff = reports::diff(before, after);
    std::optional<reports::GateResult> gate;
    if (has_gate_) gate = reports::apply(gate_, diff, before, after);
    if (json_) {
      nlohmann::ordered_json json = reports::to_json(diff);
      if (gate) json["gate"] = reports::to_json(*gate);
      print_output(base::dump_document(json) + "\n");
    } else {
      const bool color = use_color(color_, stdout);
      print_output(reports::fitted(reports::to_text(diff, color, gate.has_value()) +
                                   (gate ? reports::to_text(*gate, diff, color) : "")));
    }
    const bool is_worse = gate ? !gate->is_passed() : diff.regression();
    return is_worse ? case_failed : all_passed;
  }

 private:
  std::filesystem::path before_, after_;
  std::vector<std::string> fail_on_texts_;
  reports::Gate gate_;
  bool has_gate_ = false;  ///< The user gave --fail-on or --allow.
  bool json_ = false;
  ColorText color_text_;
  ColorWhen color_ = ColorWhen::automatic;
};

}  // namespace

std::unique_ptr<Subcommand> make_diff_command() { return std::make_unique<DiffCommand>(); }

}  // namespace shardproof::launcher
