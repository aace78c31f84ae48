#include "launcher/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <string>
#include <utility>

#include "launcher/launcher.hpp"

namespace shardproof::launcher {
namespace {

constexpr char footer[] =
    "Filters: a suite, a case id, a glob over ids (* and ?), or [tag]; several are a union.\n"
    "Exit codes, the first that applies: 2 usage, nothing selected or output unusable; 3 the worker or the meeting of its ranks failed;\n"
    "4 a rank crashed or hung; 5 evidence missing, corrupt or ranks disagree; 1 a case failed; 6 skips over budget; 0 all passed.\n"
    "Interrupted by a signal: 128 + its number.";

/// Text that options are made of once all of it has been read.
struct Texts {
  std::string order = "listed", shard = "1/1", color = "auto";
  double timeout_s = 60;
};

void add_worker(CLI::App& command, std::filesystem::path& worker) {
  command.add_option("--worker", worker, "The program of ranked cases (default: shardproof-worker beside this one)");
}

/// CLI11 takes an argument in brackets for a list and strips them: `[tag]` would not arrive. So filters are what it leaves over.
void allow_filters(CLI::App& command) {
  command.allow_extras();
  command.footer("Arguments:\n  filters                           Which cases: suites, ids, globs or [tags]; all when there is none");
}

std::vector<std::string> filters_of(const CLI::App& command) {
  std::vector<std::string> filters = command.remaining();
  for (const std::string& filter : filters) {
    if (filter.starts_with('-'))
      throw CommandError(usage, fmt::format("unknown option {} (`shardproof {} --help` lists them)", filter, command.get_name()));
  }
  return filters;
}

void add_color(CLI::App& command, std::string& color) {
  command.add_option("--color", color, "When to colour")->check(CLI::IsMember({"auto", "always", "never"}))->capture_default_str();
}

void add_terminal(CLI::App& command, TerminalOptions& terminal, std::string& color) {
  auto* quiet = command.add_flag("-q,--quiet", terminal.quiet, "Failures and the last line only");
  command.add_flag("-v,--verbose", terminal.verbose, "Every case, with its measurements")->excludes(quiet);
  add_color(command, color);
}

void add_plan(CLI::App& command, PlanOptions& plan, Texts& texts) {
  allow_filters(command);
  command.add_option("--ranks", plan.ranks, "World sizes to run, as 2,4 (default: all that there are cases for)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--subject", plan.subject, "The engine under test (default: the worker's first)");
  command.add_option("--device", plan.device, "What runs the work")->capture_default_str();
  command.add_option("--fabric", plan.fabric, "What moves bytes between ranks")->capture_default_str();
  command.add_option("--timeout", texts.timeout_s, "Seconds that a case may take")->capture_default_str();
}

ColorWhen color_when(const std::string& text) {
  return text == "always" ? ColorWhen::always : text == "never" ? ColorWhen::never : ColorWhen::automatic;
}

std::chrono::milliseconds timeout(double seconds) {
  // A day and more is a mistake in the unit, and so is no time at all.
  if (!(seconds >= 0.001 && seconds <= 1e6)) throw CommandError(usage, "--timeout: a number of seconds from 0.001 to 1000000");
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

}  // namespace

std::variant<Options, Answered> parse_command_line(int argc, const char* const* argv) {
  CLI::App app("Tests of code that runs on many ranks, and a conformance suite for sharded-data-parallel engines.", "shardproof");
  app.set_version_flag("--version", SHARDPROOF_VERSION);
  app.require_subcommand(1);
  app.footer(footer);
  app.get_formatter()->column_width(34);

  Texts texts;
  RunOptions run;
  auto* run_command = app.add_subcommand("run", "Run cases in worlds of real ranks and write one merged report");
  add_plan(*run_command, run.plan, texts);
  run_command->add_option("--seed", run.seed, "Of everything random (default: 0; with --order random a fresh one, printed)")
      ->check(CLI::NonNegativeNumber);
  run_command->add_option("--order", texts.order, "Of the cases of a world")
      ->check(CLI::IsMember({"listed", "random"}))
      ->capture_default_str();
  run_command->add_option("--repeat", run.plan.repeat, "How often to run each case")->capture_default_str();
  run_command->add_option("--shard", texts.shard, "Part i of n of the selected cases, as i/n");
  run_command->add_option("--fault", run.plan.fault, "Apply a fault of the worker's to the subject");
  run_command->add_flag("--trace", run.plan.trace, "Write each case's recorded facts as a trace that Perfetto opens");
  run_command->add_option("--allow-skips", run.allowed_skips, "End with 6 when more cases than this are skipped")
      ->check(CLI::NonNegativeNumber);
  run_command->add_option("--out", run.out, "Where to write: a new or empty directory (default: a new one under shardproof-out/)");
  add_worker(*run_command, run.worker);
  add_terminal(*run_command, run.terminal, texts.color);

  ListOptions list;
  auto* list_command = app.add_subcommand("list", "List the cases of a worker");
  allow_filters(*list_command);
  list_command->add_flag("--json", list.json, "As JSON");
  auto* seeds = list_command->add_flag("--seeds", list.seeds, "Which seed test became which cases");
  list_command->add_flag("--clauses", list.clauses, "Which cases check a clause, and which faults break it")->excludes(seeds);
  add_worker(*list_command, list.worker);

  FaultsOptions faults;
  auto* faults_command = app.add_subcommand("faults", "Run the cases against every fault: each must be noticed");
  add_plan(*faults_command, faults.plan, texts);
  faults_command->add_flag("--json", faults.json, "As JSON");
  faults_command->add_option("--out", faults.out, "Keep the reports of all runs in this new or empty directory");
  add_worker(*faults_command, faults.worker);
  add_terminal(*faults_command, faults.terminal, texts.color);

  MergeOptions merge;
  auto* merge_command = app.add_subcommand("merge", "Make the report of a run that another launcher started, or that was cut short");
  merge_command->add_option("directory", merge.directory, "The run directory")->required();
  merge_command->add_option("--allow-skips", merge.allowed_skips, "End with 6 when more cases than this are skipped")
      ->check(CLI::NonNegativeNumber);
  merge_command->add_option("--worker", merge.worker, "The program that ran, where the run directory does not say its cases");
  add_terminal(*merge_command, merge.terminal, texts.color);

  DiffOptions diff;
  auto* diff_command = app.add_subcommand("diff", "What changed between two reports; ends with 1 when something got worse");
  diff_command->add_option("before", diff.before, "A report.json or a run directory")->required();
  diff_command->add_option("after", diff.after, "A report.json or a run directory")->required();
  diff_command->add_flag("--json", diff.json, "As JSON");
  add_color(*diff_command, texts.color);

  StableOptions stable;
  auto* stable_command = app.add_subcommand("stable", "Print the part of a report that is equal, byte for byte, between runs of one seed");
  stable_command->add_option("report", stable.report, "A report.json or a run directory")->required();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& answer) {
    return Answered{app.exit(answer) == 0 ? 0 : usage};
  }
  const ColorWhen color = color_when(texts.color);
  if (*run_command) {
    run.plan.filters = filters_of(*run_command);
    run.plan.timeout = timeout(texts.timeout_s);
    run.plan.order = texts.order == "random" ? Order::random : Order::listed;
    run.plan.shard = parse_shard(texts.shard);
    run.terminal.color = color;
    return Options(std::move(run));
  }
  if (*list_command) {
    list.filters = filters_of(*list_command);
    return Options(std::move(list));
  }
  if (*faults_command) {
    faults.plan.filters = filters_of(*faults_command);
    faults.plan.timeout = timeout(texts.timeout_s);
    faults.terminal.color = color;
    return Options(std::move(faults));
  }
  if (*merge_command) {
    merge.terminal.color = color;
    return Options(std::move(merge));
  }
  if (*stable_command) return Options(std::move(stable));
  diff.color = color;
  return Options(std::move(diff));
}

}  // namespace shardproof::launcher
