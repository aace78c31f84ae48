#include "launcher/commands/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/commands/help_formatter.hpp"
#include "launcher/commands/help_text.hpp"
#include "launcher/commands/option_values.hpp"
#include "launcher/explore/contenders.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "reports/export/command_line_words.hpp"

namespace shardproof::launcher {
namespace {

/// Options as the user wrote them. They are converted after all of them have been read, by our own rules and with our
/// own messages.
struct Texts {
  std::string order = "listed", shard = "1/1", color = "auto", repeat = "1", jobs = "1", retries = "0", max_hangs = "5";
  std::optional<std::string> device, fabric, backend, scheduler, gpus, times, seed, max_skips, max_waivers, timeout,
      debug, nccl_faults, ulps, rounds, time, max_differences, generated;
  bool nccl_tap = false;
  std::vector<std::string> output;
  std::vector<std::string> ranks, require, left_out;
};

/// The options of all commands. The chosen command's are used.
struct Everything {
  Texts texts;
  RunOptions run;
  ListOptions list;
  FaultsOptions faults;
  MergeOptions merge;
  DiffOptions diff;
  DoctorOptions doctor;
  ExplainOptions explain;
  PlayOptions play;
  ExploreOptions explore;
  StableOptions stable;
};

// -- Declaring --------------------------------------------------------------------------------------------------------

/// CLI11 takes an argument in brackets for a list and strips them: `[tag]` would not arrive. So filters are what it
/// leaves over.
CLI::App& add_command(CLI::App& app, const HelpText& text) {
  CLI::App& command = *app.add_subcommand(text.name, fmt::format("{}\n\nExamples:\n{}", text.summary, text.examples));
  command.allow_extras();
  command.footer(text.footer);
  const std::string arguments = *text.arguments == '\0' ? "" : fmt::format(" {}", text.arguments);
  command.formatter(std::make_shared<HelpFormatter>("[OPTIONS]" + arguments));
  return command;
}

/// Groups of options in the help.
constexpr char choice_group[] = "Cases", subject_group[] = "Engine under test", place_group[] = "Device and fabric",
               course_group[] = "Course of the run", demand_group[] = "Demands on the run", output_group[] = "Files",
               terminal_group[] = "Terminal";

CLI::Option& add(CLI::App& command, const char* group, const char* name, auto& value, const char* value_name,
                 const std::string& text) {
  return *command.add_option(name, value, text)->option_text(value_name)->group(group);
}

/// The same for several values of one option, which is given once for each or with commas.
CLI::Option& add_list(CLI::App& command, const char* group, const char* name, auto& values, const char* value_name,
                      const std::string& text) {
  return *add(command, group, name, values, value_name, text).allow_extra_args(false);
}

CLI::Option& add_flag(CLI::App& command, const char* group, const char* name, bool& value, const std::string& text) {
  return *command.add_flag(name, value, text)->option_text(" ")->group(group);
}

/// The last option, with our own text.
void add_help(CLI::App& command, const char* group) {
  command.set_help_flag();
  command.set_help_flag("-h,--help", "Print this help.")->group(group);
}

void add_fault(CLI::App& command, std::string& fault) {
  add(command, subject_group, "--fault", fault, "NAME",
      "Break the subject by this fault of the worker. `list --clauses` shows the names. `faults` tries all of them.");
}

void add_subject(CLI::App& command, std::string& subject) {
  add(command, subject_group, "--subject", subject, "NAME",
      "Test this engine: reference, pytorch, the path of a shared object, or an engine of the worker. The default is "
      "the worker's "
      "first engine, which is reference for shardproof-worker.");
}

void add_worker(CLI::App& command, std::filesystem::path& worker, const char* what) {
  add(command, subject_group, "--worker", worker, "PROGRAM",
      fmt::format("Take {} this program. The default is shardproof-worker, in the folder of shardproof.", what));
}

void add_color(CLI::App& command, Texts& texts) {
  add(command, terminal_group, "--color", texts.color, "WHEN",
      "Use colours: auto, always or never. The default is auto.");
}

void add_terminal(CLI::App& command, TerminalOptions& terminal, Texts& texts) {
  CLI::Option& quiet =
      add_flag(command, terminal_group, "-q,--quiet", terminal.quiet, "Print failures and the last line only.");
  add_flag(command, terminal_group, "-v,--verbose", terminal.verbose, "Print every case, with its measurements.")
      .excludes(&quiet);
  add_color(command, texts);
  add_help(command, terminal_group);
}

void add_profile(CLI::App& command, std::string& profile, const char* otherwise) {
  add(command, choice_group, "--profile", profile, "NAME",
      fmt::format("Take this part of the cases. `list --profiles` shows the names. The default is {}.", otherwise));
}

void add_demands(CLI::App& command, DemandOptions& demands, Texts& texts) {
  add(command, demand_group, "--max-skips", texts.max_skips, "N", "End with 6 when more than N cases are skipped.");
  add_list(command, demand_group, "--require", texts.require, "CLAUSE[,CLAUSE...]",
           "End with 6 unless a case passed that checks the clause. Several clauses need a case each.");
  add(command, demand_group, "--waivers", demands.waivers, "FILE",
      "Excuse the known failures in this file, which have an owner and a last day (docs/skips-and-waivers.md).");
  add(command, demand_group, "--max-waivers", texts.max_waivers, "N", "End with 6 when more than N cases are waived.");
}

void add_backend(CLI::App& command, const char* group, Texts& texts, const char* what) {
  add(command, group, "--backend", texts.backend, "FILE",
      fmt::format("{} The default is the backend of this build.", what));
}

void add_device(CLI::App& command, PlanOptions& plan, Texts& texts) {
  add(command, place_group, "--device", texts.device, "NAME",
      "Run the work on this device: sim, which has exact virtual time, or cuda, with one GPU for each rank. The "
      "default is sim.");
  add_backend(command, place_group, texts, "With --device cuda: reach CUDA by this shared object.");
  add(command, place_group, "--gpus", texts.gpus, "LIST",
      "With --device cuda: use this number of GPUs (4), or these GPUs (0,2 or their uuids). The default is all GPUs.");
  add_flag(command, place_group, "--share-gpus", plan.share_gpus,
           "With --device cuda: put several ranks on one GPU where there are too few GPUs. Times then mean nothing.");
  add(command, place_group, "--times", texts.times, "NAME",
      "With --device cuda: take times from CUDA events around the work (events, the default), or from CUPTI (cupti), "
      "which is slower and "
      "more exact.");
}

void add_out(CLI::App& command, OutputOptions& out, const std::string& what) {
  CLI::Option& option = add(command, output_group, "--out", out.directory, "DIRECTORY", what);
  add_flag(command, output_group, "--overwrite", out.overwrite,
           "Replace an earlier run in that directory. Any file that shardproof did not write prevents this.")
      .needs(&option);
}

/// The texts of --out. Without --out, some commands write into a new folder, and others keep nothing.
constexpr char write_text[] = "Write into this new or empty directory. The default is a new folder in shardproof-out/.";
constexpr char latest_text[] = "The link shardproof-out/latest leads to the latest run, where that folder exists.";
constexpr char keep_text[] = "Keep streams, logs and reports in this new or empty directory.";

void add_ranks(CLI::App& command, Texts& texts, const char* verb) {
  add_list(command, choice_group, "--ranks", texts.ranks, "N[,N...]",
           fmt::format("{} cases of these world sizes, for example 2,4. The default is all sizes; cases that are "
                       "marked \"on request\" run "
                       "only with it.",
                       verb));
}

void add_timeout(CLI::App& command, Texts& texts, const char* what, const char* otherwise) {
  add(command, course_group, "--timeout", texts.timeout, "SECONDS",
      fmt::format("Give {} this much time. The default is {} 60, and more where ranks share cores.", what, otherwise));
}

void add_plan(CLI::App& command, PlanOptions& plan, Texts& texts) {
  add_ranks(command, texts, "Run");
  add_subject(command, plan.subject);
  add_device(command, plan, texts);
  add(command, place_group, "--fabric", texts.fabric, "NAME",
      "Move bytes between ranks by shm, by thread (ranks are threads of one process), or by nccl (with --device cuda). "
      "The default is "
      "thread for cases that need it, else shm or nccl.");
  add(command, place_group, "--scheduler", texts.scheduler, "NAME",
      "Schedule ranks that are threads: seeded, the default, runs one rank at a time, in an order that --seed draws. "
      "free runs all at "
      "once.");
  add_timeout(command, texts, "each case", "the case's own time, else");
}

void declare_run(CLI::App& app, RunOptions& run, Texts& texts) {
  CLI::App& command = add_command(app, run_help);
  add_profile(command, run.profile, "the worker's first profile");
  add_plan(command, run.plan, texts);
  add(command, choice_group, "--generated", texts.generated, "N",
      "Play the selected cases that draw a scenario for each seed from 1 to N. The default is the listed seeds. The "
      "run makes the scenario "
      "of a failed case smaller, and prints a command that plays it (docs/generated-cases.md).");
  add(command, choice_group, "--scenario", run.plan.scenario, "FILE",
      "Let the one selected case play this scenario instead of what its seed draws, and judge it likewise.");
  add(command, choice_group, "--shard", texts.shard, "I/N", "Run part I of N of the selected cases. I counts from 1.");
  add(command, choice_group, "--rerun-failed", run.rerun_failed, "REPORT",
      "Run the selected cases that failed in this report. The seed, worker, subject, device, timeout, waivers and "
      "faults are those of "
      "the report, unless you give others.");
  add_worker(command, run.worker, "the cases from");
  add_fault(command, run.plan.fault);
  add(command, course_group, "--seed", texts.seed, "N",
      "Draw everything random from this seed. The default is 0. With --order random, the default is a new seed, which "
      "is printed.");
  add(command, course_group, "--order", texts.order, "ORDER",
      "Run the cases of a world in this order: listed or random. The default is listed.");
  add(command, course_group, "--repeat", texts.repeat, "N", "Run each case N times. The default is 1.");
  add(command, course_group, "--jobs", texts.jobs, "N",
      "Run up to N worlds at once. The default is 1. No two worlds share a GPU.");
  add_flag(command, course_group, "--isolate", run.plan.isolate, "Run each case in its own world.");
  add(command, course_group, "--retries", texts.retries, "N",
      "Try each failed case up to N more times, in a world of failed cases only. A case that then passes is flaky. The "
      "default is 0.");
  add(command, course_group, "--max-hangs", texts.max_hangs, "N",
      "End the run when more than N worlds have ended by a deadline or by a rank that could not go on. The default is "
      "5.");
  add(command, course_group, "--debug", texts.debug, "RANK",
      "Let this rank wait for a debugger before its first case. Cases then have no deadline.");
  add_demands(command, run.demands, texts);
  add_out(command, run.out, fmt::format("{} {}", write_text, latest_text));
  add_flag(command, output_group, "--trace", run.plan.trace, "Write a trace of each case, for Perfetto.");
  add_flag(command, output_group, "--nccl-tap", texts.nccl_tap,
           "Record every rank's calls of NCCL, for explain and shardproof-nccl-tap.");
  add(command, output_group, "--nccl-faults", texts.nccl_faults, "LIST",
      "Record these calls, and delay, stall, drop, fail or swap some, for example 'drop all_reduce#3 rank 1' "
      "(docs/nccl-tap.md).");
  add_list(command, terminal_group, "--output", texts.output, "N[,N...]",
           "Print what these ranks print, for example 0,2, while they run. Each line begins with its rank.");
  add_terminal(command, run.terminal, texts);
}

void declare_list(CLI::App& app, ListOptions& list, Texts& texts) {
  CLI::App& command = add_command(app, list_help);
  add_profile(command, list.profile, "all cases");
  add_ranks(command, texts, "List");
  add_subject(command, list.subject);
  add_worker(command, list.worker, "the cases from");
  add_flag(command, terminal_group, "--json", list.json, "Print JSON.");
  CLI::Option& seeds = add_flag(command, terminal_group, "--seeds", list.seeds,
                                "Print each test of the PyTorch files that the suites began with, and its cases.");
  CLI::Option& clauses = add_flag(command, terminal_group, "--clauses", list.clauses,
                                  "Print each clause, the cases that check it, and the faults that break it. With "
                                  "filters, print the clauses of the selected "
                                  "cases. With --json, each case has its id.");
  clauses.excludes(&seeds);
  add_flag(command, terminal_group, "--profiles", list.profiles,
           "Print the profiles, and how many of the cases each has.")
      .excludes(&seeds)
      ->excludes(&clauses);
  add_help(command, terminal_group);
}

void declare_faults(CLI::App& app, FaultsOptions& faults, Texts& texts) {
  CLI::App& command = add_command(app, faults_help);
  add_profile(command, faults.profile, "the worker's first profile");
  add_plan(command, faults.plan, texts);
  add_worker(command, faults.worker, "the cases from");
  add(command, demand_group, "--waivers", faults.waivers, "FILE",
      "Excuse the failures in this file. They occur without a fault, too (docs/skips-and-waivers.md).");
  add_out(command, faults.out, keep_text);
  add_flag(command, terminal_group, "--json", faults.json, "Print JSON.");
  add_terminal(command, faults.terminal, texts);
}

void declare_merge(CLI::App& app, MergeOptions& merge, Texts& texts) {
  CLI::App& command = add_command(app, merge_help);
  command.add_option("directory", merge.directory, "The run directory.")->option_text(" ");
  add(command, subject_group, "--worker", merge.worker, "PROGRAM",
      "Take the cases from this program, where the run directory does not list them.");
  add_demands(command, merge.demands, texts);
  add_terminal(command, merge.terminal, texts);
}

void declare_diff(CLI::App& app, DiffOptions& diff, Texts& texts) {
  CLI::App& command = add_command(app, diff_help);
  command.add_option("before", diff.before, "A report.json or a run directory.")->option_text(" ");
  command.add_option("after", diff.after, "A report.json or a run directory.")->option_text(" ");
  add_flag(command, terminal_group, "--json", diff.json, "Print JSON.");
  add_color(command, texts);
  add_help(command, terminal_group);
}

void declare_doctor(CLI::App& app, DoctorOptions& doctor, Texts& texts) {
  CLI::App& command = add_command(app, doctor_help);
  add_worker(command, doctor.worker, "the list of GPUs from");
  add_backend(command, subject_group, texts, "Look at the GPUs that this shared object reaches.");
  add_color(command, texts);
  add_help(command, terminal_group);
}

void declare_explain(CLI::App& app, ExplainOptions& explain) {
  CLI::App& command = add_command(app, explain_help);
  command.add_option("directory", explain.directory, "The run directory, or one of its worlds.")->option_text(" ");
  add_help(command, terminal_group);
}

void declare_play(CLI::App& app, PlayOptions& play, Texts& texts) {
  CLI::App& command = add_command(app, play_help);
  command.add_option("scenario", play.scenario, "The scenario, a JSON document (docs/scenarios.md).")->option_text(" ");
  add(command, subject_group, "--subject", play.plan.subject, "NAME[,NAME]",
      "Play on this engine: reference, pytorch, the path of a shared object, or an engine of the worker. The default "
      "is the worker's "
      "first engine. With two engines, the command compares them, and NAME+FAULT breaks one by a fault.");
  add_worker(command, play.worker, "the engines from");
  add_fault(command, play.plan.fault);
  add(command, subject_group, "--ulps", texts.ulps, "N",
      "With two engines: allow captured values to differ by N units in the last place. The default is 0.");
  add(command, place_group, "--ranks", texts.ranks, "N", "Play on N ranks. The default is 2.");
  add_device(command, play.plan, texts);
  add_timeout(command, texts, "the scenario", "");
  add(command, output_group, "--trace", play.trace, "FILE", "Write a trace for Perfetto into this file.");
  add_flag(command, output_group, "--show-plan", play.show_plan,
           "Print the compiled step of rank 0: its nodes, all-reduces and waits. Also prints each later step that "
           "differs from the step "
           "before it.");
  add(command, output_group, "--plan-dot", play.plan_dot, "FILE",
      "Write the compiled step of rank 0 for Graphviz into this file.");
  add_out(command, play.out, keep_text);
  add_flag(command, terminal_group, "--json", play.json, "Print JSON, with all values.");
  add_color(command, texts);
  add_help(command, terminal_group);
}

void declare_explore(CLI::App& app, ExploreOptions& explore, Texts& texts) {
  CLI::App& command = add_command(app, explore_help);
  add(command, choice_group, "--rounds", texts.rounds, "N",
      "Play N scenarios. The default is 100, or as many as --for has time for.");
  add(command, choice_group, "--for", texts.time, "TIME",
      "Begin no scenario after this time, for example 90s, 10min or 2h.");
  add(command, choice_group, "--seed", texts.seed, "N",
      "Draw the first scenario from this seed. The default is 0. Each later scenario has the next seed.");
  add(command, choice_group, "--engine", explore.engine, "KIND",
      "Draw scenarios for this kind of engine. The default is the first kind that both engines claim and that can be "
      "drawn.");
  add_list(command, choice_group, "--ranks", texts.ranks, "N[,N...]",
           "Play on worlds of these sizes. The default is 1,2,4. The seed chooses the size for each scenario.");
  add_list(command, choice_group, "--without", texts.left_out, "NAME[,NAME...]",
           "Leave out features, for example mixed_precision, or other ingredients, for example adam. For an unknown "
           "name, the command prints "
           "all names.");
  add(command, choice_group, "--max-differences", texts.max_differences, "N",
      "End after N differences. The default is 1.");
  add(command, subject_group, "--subject", explore.plan.subject, "A,B",
      "Compare these two engines, named as in `play`. A+FAULT breaks an engine by a fault (docs/side-by-side.md).");
  add_worker(command, explore.worker, "the engines from");
  add(command, subject_group, "--ulps", texts.ulps, "N",
      "Allow captured values to differ by N units in the last place. The default is 0.");
  add_timeout(command, texts, "each scenario", "");
  add_out(command, explore.out, write_text);
  add_flag(command, terminal_group, "--json", explore.json, "Print what was found as JSON.");
  add_flag(command, terminal_group, "-q,--quiet", explore.terminal.quiet, "Print differences and the last line only.");
  add_color(command, texts);
  add_help(command, terminal_group);
}

void declare_stable(CLI::App& app, StableOptions& stable) {
  CLI::App& command = add_command(app, stable_help);
  command.add_option("report", stable.report, "A report.json or a run directory.")->option_text(" ");
  add_help(command, terminal_group);
}

// -- Parsing ----------------------------------------------------------------------------------------------------------

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

/// The words of a command that are neither options nor their values. CLI11 keeps `--` among them.
std::vector<std::string> arguments_left(const CLI::App& command) {
  std::vector<std::string> words = command.remaining();
  const auto end = std::ranges::find(words, reports::end_of_options);
  if (end != words.end()) words.erase(end);
  return words;
}

/// Reads the options of the command that the arguments name, or of `app` where they name no command. A command is
/// parsed by itself: as a part of `app`, CLI11 would give `app` the words after `--`.
const CLI::App& parse(CLI::App& app, int argc, const char* const* argv) {
  const std::vector<std::string> known = names_of_commands(app);
  const bool is_named = argc > 1 && std::ranges::find(known, argv[1]) != known.end();
  if (argc > 1 && *argv[1] != '-' && !is_named)
    throw CommandError(usage, fmt::format("unknown command '{}'; known: {}", argv[1], fmt::join(known, ", ")));
  CLI::App& command = is_named ? *app.get_subcommand(argv[1]) : app;
  const std::string help = fmt::format("`shardproof {}--help`", is_named ? command.get_name() + " " : "");
  try {
    if (is_named) command.parse(argc - 1, argv + 1);
    else app.parse(argc, argv);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    throw CommandError(usage, fmt::format("{} needs one value ({} explains it)", text.substr(0, text.find(':')), help));
  } catch (const CLI::CallForHelp&) {
    say(is_named ? command.help(app.get_name()) : app.help());
    throw;
  } catch (const CLI::Success&) {
    throw;  // the version was asked for
  } catch (const CLI::ParseError& error) {
    throw CommandError(usage, fmt::format("{} ({} lists the options)", error.what(), help));
  }
  for (const std::string& left : command.remaining()) {
    if (left == reports::end_of_options) break;
    if (left.starts_with('-')) throw CommandError(usage, fmt::format("unknown option {} ({} lists them)", left, help));
  }
  if (!is_named)
    throw CommandError(
        usage, fmt::format("which command? There are {} (`shardproof --help` explains them)", fmt::join(known, ", ")));
  return command;
}

// -- Converting -------------------------------------------------------------------------------------------------------

void require_given(const CLI::App& command,
                   const std::vector<std::pair<const char*, std::filesystem::path>>& arguments) {
  std::string all;
  bool given = true;
  for (const auto& [name, value] : arguments) {
    all += fmt::format(" {}", name);
    given = given && !value.empty();
  }
  const std::string name = command.get_name();
  if (!given)
    throw CommandError(usage, fmt::format("{} needs {}: shardproof {}{}", name,
                                          arguments.size() == 1 ? "its argument" : "both arguments", name, all));
  const auto extra = arguments_left(command);
  if (!extra.empty())
    throw CommandError(usage, fmt::format("unexpected argument '{}': shardproof {}{}", extra.front(), name, all));
}

/// The code after this takes an empty text for an option that was not given. Options with their own message have
/// refused it before.
void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (std::ranges::find(option->results(), "") == option->results().end()) continue;
    throw CommandError(usage, fmt::format("{} '': {} cannot be empty (`shardproof {} --help` explains it)",
                                          option->get_name(), option->get_option_text(), command.get_name()));
  }
}

/// Empty: no backend is named.
std::filesystem::path backend(const Texts& texts) {
  if (texts.backend && texts.backend->empty())
    throw CommandError(usage, "--backend '': the shared object that reaches CUDA, a file");
  return texts.backend.value_or("");
}

/// Converts the options that all worlds of the command share. Returns the mistake in the options of the device; empty:
/// no mistake.
std::string convert_world(const Texts& texts, PlanOptions& plan) {
  plan.device = texts.device.value_or(sim_device);
  plan.backend = backend(texts);
  plan.ranks = world_sizes(texts.ranks);
  if (texts.timeout) plan.timeout = timeout(*texts.timeout);
  if (texts.gpus) plan.gpus = gpu_choice(*texts.gpus);
  plan.times = texts.times.value_or(event_times);
  plan.fabric = texts.fabric.value_or(plan.device == cuda_device ? nccl_fabric : shm_fabric);
  plan.processes_only = texts.fabric == shm_fabric;
  if (plan.device == cuda_device) return {};
  const std::string given = !plan.backend.empty() ? fmt::format("--backend {}", plan.backend.string())
                            : texts.gpus          ? fmt::format("--gpus {}", *texts.gpus)
                            : plan.share_gpus     ? "--share-gpus"
                            : texts.times         ? fmt::format("--times {}", *texts.times)
                                                  : "";
  return given.empty() ? "" : fmt::format("{}: only with --device {}", given, cuda_device);
}

void require_placed(const std::string& misplaced) {
  if (!misplaced.empty()) throw CommandError(usage, misplaced);
}

/// The same, and returns a mistake in the options of the fabric, too.
std::string convert_plan(const CLI::App& command, const Texts& texts, PlanOptions& plan) {
  plan.filters = arguments_left(command);
  const std::string misplaced = convert_world(texts, plan);
  if (!misplaced.empty() || !texts.scheduler) return misplaced;
  plan.scheduler = scheduler(*texts.scheduler);
  const bool may_have_threads = plan.fabric == thread_fabric || (!texts.fabric && plan.device == sim_device);
  if (may_have_threads) return {};
  return fmt::format("--scheduler {}: ranks are scheduled with --fabric {} only", *texts.scheduler, thread_fabric);
}

void convert_demands(const Texts& texts, DemandOptions& demands) {
  const auto most = [](const char* option, const std::optional<std::string>& text) -> std::optional<std::size_t> {
    if (!text) return std::nullopt;
    return whole_number(option, *text, 0, std::numeric_limits<std::size_t>::max());
  };
  demands.max_skips = most("--max-skips", texts.max_skips);
  demands.max_waivers = most("--max-waivers", texts.max_waivers);
  demands.require = listed("--require", texts.require);
}

void convert_run(const CLI::App& command, const Texts& texts, RunOptions& run) {
  run.misplaced = convert_plan(command, texts, run.plan);
  if (run.rerun_failed.empty()) require_placed(run.misplaced);
  run.is_placed = texts.device || texts.fabric;
  if (texts.seed) run.seed = whole_number("--seed", *texts.seed, 0, std::numeric_limits<std::uint64_t>::max());
  run.plan.order = order(texts.order);
  run.plan.repeat = static_cast<int>(whole_number("--repeat", texts.repeat, 1, 1'000'000));
  run.plan.jobs = static_cast<int>(whole_number("--jobs", texts.jobs, 1, 1'000));
  run.plan.shard = parse_shard(texts.shard);
  if (texts.generated)
    run.plan.generated = static_cast<int>(whole_number("--generated", *texts.generated, 0, 1'000'000));
  if (texts.generated && !run.plan.scenario.empty())
    throw CommandError(usage,
                       "--generated with --scenario: a case plays what it draws, or what is given; use one of the two");
  run.persistence.retries = static_cast<int>(whole_number("--retries", texts.retries, 0, 1'000));
  run.persistence.max_hangs = static_cast<int>(whole_number("--max-hangs", texts.max_hangs, 0, 1'000'000));
  if (texts.debug) run.attention.debug = static_cast<int>(whole_number("--debug", *texts.debug, 0, 1023));
  if (texts.debug && run.plan.jobs > 1)
    throw CommandError(usage,
                       "--debug with --jobs: ranks of several worlds would wait for a debugger; use one of the two");
  run.attention.output_of = ranks("--output", texts.output);
  if (run.persistence.retries > 0 && run.plan.repeat > 1)
    throw CommandError(usage,
                       "--retries with --repeat: a repetition that fails is no failed attempt; use one of the two");
  if (texts.nccl_faults) run.plan.tap = NcclTap{.library = {}, .faults = checked_nccl_faults(*texts.nccl_faults)};
  else if (texts.nccl_tap) run.plan.tap.emplace();
  convert_demands(texts, run.demands);
  run.terminal.color = color_when(texts.color);
}

void convert_faults(const CLI::App& command, const Texts& texts, FaultsOptions& faults) {
  require_placed(convert_plan(command, texts, faults.plan));
  faults.terminal.color = color_when(texts.color);
}

void convert_merge(const CLI::App& command, const Texts& texts, MergeOptions& merge) {
  require_given(command, {{"DIRECTORY", merge.directory}});
  convert_demands(texts, merge.demands);
  merge.terminal.color = color_when(texts.color);
}

void convert_play(const CLI::App& command, const Texts& texts, PlayOptions& play) {
  require_given(command, {{"SCENARIO", play.scenario}});
  require_placed(convert_world(texts, play.plan));
  if (play.plan.ranks.size() > 1)
    throw CommandError(usage, fmt::format("--ranks {}: play takes one world size", fmt::join(texts.ranks, ",")));
  if (play.plan.ranks.empty()) play.plan.ranks = {2};
  if (texts.ulps) play.ulps = whole_number("--ulps", *texts.ulps, 0, std::numeric_limits<std::uint32_t>::max());
  if (texts.ulps && !names_two(play.plan.subject))
    throw CommandError(usage, "--ulps: values of two subjects are compared, which --subject A,B names");
  play.terminal.color = color_when(texts.color);
}

void convert_explore(const CLI::App& command, const Texts& texts, ExploreOptions& explore) {
  require_given(command, {});
  require_placed(convert_world(texts, explore.plan));
  if (explore.plan.subject.empty())
    throw CommandError(usage, "explore takes two subjects: shardproof explore --subject A,B");
  two_subjects(explore.plan.subject);
  if (explore.plan.ranks.empty()) explore.plan.ranks = {1, 2, 4};
  const auto number = [](const char* option, const std::string& text, std::uint64_t least) {
    return whole_number(option, text, least, std::numeric_limits<std::uint64_t>::max());
  };
  if (texts.seed) explore.seed = number("--seed", *texts.seed, 0);
  if (texts.rounds) explore.rounds = number("--rounds", *texts.rounds, 1);
  if (texts.time) explore.time = span_of_time("--for", *texts.time);
  if (!explore.rounds && !explore.time) explore.rounds = 100;
  if (texts.max_differences) explore.max_differences = number("--max-differences", *texts.max_differences, 1);
  if (texts.ulps) explore.ulps = whole_number("--ulps", *texts.ulps, 0, std::numeric_limits<std::uint32_t>::max());
  explore.left_out = listed("--without", texts.left_out);
  explore.terminal.color = color_when(texts.color);
}

void convert_doctor(const CLI::App& command, const Texts& texts, DoctorOptions& doctor) {
  require_given(command, {});
  doctor.backend = backend(texts);
  doctor.color = color_when(texts.color);
}

void convert_diff(const CLI::App& command, const Texts& texts, DiffOptions& diff) {
  require_given(command, {{"BEFORE", diff.before}, {"AFTER", diff.after}});
  diff.color = color_when(texts.color);
}

Options convert(const CLI::App& command, Everything all) {
  const std::string name = command.get_name();
  const auto converted = [&](auto& options, auto convert_them) -> Options {
    convert_them(command, all.texts, options);
    return std::move(options);
  };
  if (name == "run") return converted(all.run, convert_run);
  if (name == "faults") return converted(all.faults, convert_faults);
  if (name == "merge") return converted(all.merge, convert_merge);
  if (name == "play") return converted(all.play, convert_play);
  if (name == "explore") return converted(all.explore, convert_explore);
  if (name == "doctor") return converted(all.doctor, convert_doctor);
  if (name == "diff") return converted(all.diff, convert_diff);
  if (name == "list") {
    all.list.filters = arguments_left(command);
    all.list.ranks = world_sizes(all.texts.ranks);
    return std::move(all.list);
  }
  if (name == "stable") {
    require_given(command, {{"REPORT", all.stable.report}});
    return std::move(all.stable);
  }
  require_given(command, {{"DIRECTORY", all.explain.directory}});
  return std::move(all.explain);
}

}  // namespace

std::optional<Options> parse_command_line(int argc, const char* const* argv) {
  CLI::App app(program_summary, "shardproof");
  app.set_version_flag("--version", SHARDPROOF_VERSION, "Print the version.");
  app.require_subcommand(0, 1);
  app.allow_extras();
  app.footer(program_footer);
  app.formatter(std::make_shared<HelpFormatter>("COMMAND [OPTIONS]"));
  add_help(app, "Options");

  Everything all;
  declare_run(app, all.run, all.texts);
  declare_list(app, all.list, all.texts);
  declare_faults(app, all.faults, all.texts);
  declare_merge(app, all.merge, all.texts);
  declare_diff(app, all.diff, all.texts);
  declare_doctor(app, all.doctor, all.texts);
  declare_explain(app, all.explain);
  declare_play(app, all.play, all.texts);
  declare_explore(app, all.explore, all.texts);
  declare_stable(app, all.stable);
  try {
    const CLI::App& command = parse(app, argc, argv);
    Options options = convert(command, std::move(all));
    refuse_empty_values(command);
    return options;
  } catch (const CLI::CallForVersion&) {
    say(app.version() + "\n");
  } catch (const CLI::CallForHelp&) {
    // CLI11 has printed it.
  }
  return std::nullopt;
}

}  // namespace shardproof::launcher
