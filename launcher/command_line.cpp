#include "launcher/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/contenders.hpp"
#include "launcher/launcher.hpp"
#include "launcher/option_values.hpp"
#include "launcher/standard_streams.hpp"
#include "reports/command_line_words.hpp"

namespace shardproof::launcher {
namespace {

constexpr char all_footer[] =
    "Exit codes: 0 is good, 2 a command that cannot be or output that cannot be written. What others mean, each command's --help says.";
constexpr char filters_footer[] =
    "Arguments:\n"
    "  filters                           Which cases: a suite, an id, a glob over ids (* and ?) or a [tag]; several are a union;\n"
    "                                    all cases when there is none\n\n";
constexpr char run_footer[] =
    "Exit codes, the first that applies: 128 + n interrupted by signal n; 2 usage, nothing selected or output unusable; 3 the worker or\n"
    "the meeting of its ranks failed; 4 a rank crashed or hung; 5 evidence missing, corrupt or ranks disagree; 1 a case failed;\n"
    "6 a demand beyond verdicts is not met: too many skips or waivers, a required clause without a passed case, a waiver that is over,\n"
    "wrong or without use; 0 all passed. A waived case is none of these.";
constexpr char list_footer[] =
    "Exit codes: 0 listed; 2 usage, nothing selected or output unusable; 3 the worker does not say its cases; 128 + n interrupted by\n"
    "signal n.";
constexpr char faults_footer[] =
    "Exit codes, the first that applies: 128 + n interrupted by signal n; 2 usage, nothing selected or output unusable; 3 the worker or\n"
    "the meeting of its ranks failed; 4, 5 and 1 what `run` says of the cases without a fault, where they do not all pass;\n"
    "1 a fault survived every selected case with one of its clauses; 0 each was noticed, but for those whose every case is skipped here.";
constexpr char merge_footer[] =
    "Exit codes, the first that applies: 2 usage, no world to merge or output unusable; 3 ranks did not meet; 4 a rank crashed or hung;\n"
    "5 evidence missing, corrupt or ranks disagree; 1 a case failed; 6 a demand beyond verdicts is not met, as in a run; 0 all passed.";
constexpr char diff_footer[] = "Exit codes: 0 nothing got worse; 1 something did; 2 usage, a report that is none, or output unusable.";
constexpr char doctor_footer[] =
    "Exit codes: 0 runs are possible, whatever hurts them; 2 usage, or output unusable; 3 something prevents them, or those on GPUs\n"
    "where --backend is given.";
constexpr char explain_footer[] =
    "Exit codes: 0 told; 2 usage, a directory that is none of a run, or output unusable; 5 evidence that cannot be read, or ranks\n"
    "that nobody saw end.";
constexpr char play_footer[] =
    "Exit codes, the first that applies: 128 + n interrupted by signal n; 2 usage, a document that cannot be played or output unusable;\n"
    "3 the worker or the meeting of its ranks failed; 4 a rank crashed or hung; 5 ranks disagree; 1 the subject failed, or a race was\n"
    "found; 0 played. Of two subjects: 1 they differ; 4 both crashed or hung; 0 they are alike, be it in that both refuse.";
constexpr char explore_footer[] =
    "Exit codes, the first that applies: 128 + n interrupted by signal n; 2 usage, or output unusable; 3 a worker or the meeting of its\n"
    "ranks failed; 1 a difference was found; 0 none. Whatever ends it early, what was found until then is kept.";
constexpr char stable_footer[] = "Exit codes: 0 printed; 2 usage, a report that is none, or output unusable.";

/// Options as they were written. Their meaning is found after all of them have been read, by rules and in words of our own.
struct Texts {
  std::string order = "listed", shard = "1/1", color = "auto", repeat = "1", jobs = "1", retries = "0", max_hangs = "5";
  std::optional<std::string> device, fabric, backend, scheduler, gpus, times, seed, max_skips, max_waivers, timeout, debug, nccl_faults,
      ulps, rounds, time, max_differences;
  bool nccl_tap = false;
  std::vector<std::string> output;
  std::vector<std::string> ranks, require, left_out;
};

/// Of all commands; the one that was chosen is used.
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

// -- Declaring ---------------------------------------------------------------------------------------------------------------------------

/// CLI11 takes an argument in brackets for a list and strips them: `[tag]` would not arrive. So filters are what it leaves over.
CLI::App& add_command(CLI::App& app, const char* name, const char* what, const std::string& footer) {
  CLI::App& command = *app.add_subcommand(name, what);
  command.allow_extras();
  command.footer(footer);
  return command;
}

void add_fault(CLI::App& command, std::string& fault) {
  command.add_option("--fault", fault, "Break the subject by a fault of the worker's (`list --clauses` has them, `faults` tries them all)")
      ->option_text("NAME");
}

void add_subject(CLI::App& command, std::string& subject) {
  command
      .add_option("--subject", subject,
                  "The engine under test: reference, pytorch, a shared object, or one of the worker's (default: reference, its first)")
      ->option_text("NAME");
}

void add_worker(CLI::App& command, std::filesystem::path& worker) {
  command.add_option("--worker", worker, "The program of ranked cases (default: shardproof-worker beside this one)")
      ->option_text("PROGRAM");
}

void add_color(CLI::App& command, Texts& texts) {
  command.add_option("--color", texts.color, "When to colour: auto, always or never")->option_text("WHEN=auto");
}

void add_terminal(CLI::App& command, TerminalOptions& terminal, Texts& texts) {
  auto* quiet = command.add_flag("-q,--quiet", terminal.quiet, "Failures and the last line only")->option_text(" ");
  command.add_flag("-v,--verbose", terminal.verbose, "Every case, with its measurements")->excludes(quiet)->option_text(" ");
  add_color(command, texts);
}

void add_profile(CLI::App& command, std::string& profile, const char* otherwise) {
  command.add_option("--profile", profile, fmt::format("A part of the cases (`list --profiles`; default: {})", otherwise))
      ->option_text("NAME");
}

void add_demands(CLI::App& command, DemandOptions& demands, Texts& texts) {
  command.add_option("--max-skips", texts.max_skips, "End with 6 when more cases than this are skipped")->option_text("N");
  command.add_option("--require", texts.require, "End with 6 unless a case that checks the clause passed; for each of the clauses")
      ->allow_extra_args(false)
      ->option_text("CLAUSE[,CLAUSE...]");
  command.add_option("--waivers", demands.waivers, "Failures that are known, with owner and last day (docs/skips-and-waivers.md)")
      ->option_text("FILE");
  command.add_option("--max-waivers", texts.max_waivers, "End with 6 when more cases than this are waived")->option_text("N");
}

void add_backend(CLI::App& command, Texts& texts, const char* what) {
  command.add_option("--backend", texts.backend, fmt::format("{} (default: the one built here)", what))->option_text("FILE");
}

void add_device(CLI::App& command, PlanOptions& plan, Texts& texts) {
  command.add_option("--device", texts.device, "What runs the work: sim, simulated in exact time, or cuda, one GPU for each rank")
      ->option_text("NAME=sim");
  add_backend(command, texts, "With --device cuda: the shared object that reaches CUDA");
  command
      .add_option("--gpus", texts.gpus,
                  "With --device cuda: how many GPUs ranks may have, as 4, or which, as 0,2 or by their uuids (default: all)")
      ->option_text("LIST");
  command.add_flag("--share-gpus", plan.share_gpus,
                   "With --device cuda: several ranks on one GPU where there are too few; says nothing of time");
  command
      .add_option("--times", texts.times,
                  "With --device cuda: where times of work come from, events around it or, slower and nearer to it, cupti's records")
      ->option_text("NAME=events");
}

void add_out(CLI::App& command, OutputOptions& out, const char* what) {
  CLI::Option& option = *command.add_option("--out", out.directory, what)->option_text("DIRECTORY");
  command.add_flag("--overwrite", out.overwrite, "Replace the earlier run in that directory, if it holds nothing else")->needs(&option);
}

void add_ranks(CLI::App& command, Texts& texts, const char* verb) {
  command.add_option("--ranks", texts.ranks, fmt::format("World sizes to {}, as 2,4 (default: all that there are cases for)", verb))
      ->allow_extra_args(false)
      ->option_text("N[,N...]");
}

void add_plan(CLI::App& command, PlanOptions& plan, Texts& texts) {
  add_ranks(command, texts, "run");
  add_subject(command, plan.subject);
  add_device(command, plan, texts);
  command
      .add_option("--fabric", texts.fabric,
                  "What moves bytes between ranks: shm, thread for ranks that are threads of one process, or nccl with --device cuda "
                  "(default: thread for cases that ask for it, shm or nccl for all others)")
      ->option_text("NAME");
  command
      .add_option("--scheduler", texts.scheduler, "Of ranks that are threads: seeded, one at a time in an order that --seed draws, or free")
      ->option_text("NAME=seeded");
  command
      .add_option("--timeout", texts.timeout,
                  "Seconds that every case may take (default: what it says, else 60; more where ranks share cores)")
      ->option_text("SECONDS");
}

void declare_run(CLI::App& app, RunOptions& run, Texts& texts) {
  CLI::App& command =
      add_command(app, "run", "Run cases in worlds of real ranks and write one merged report", std::string(filters_footer) + run_footer);
  add_profile(command, run.profile, "the worker's first");
  add_plan(command, run.plan, texts);
  command.add_option("--seed", texts.seed, "Of everything random (default: 0; with --order random a fresh one, printed)")->option_text("N");
  command.add_option("--order", texts.order, "Of the cases of a world: listed or random")->option_text("ORDER=listed");
  command.add_option("--repeat", texts.repeat, "How often to run each case")->option_text("N=1");
  command.add_option("--jobs", texts.jobs, "How many worlds may run side by side, on GPUs each on its own")->option_text("N=1");
  command.add_option("--shard", texts.shard, "Part I of N of the selected cases, from 1")->option_text("I/N");
  command.add_flag("--isolate", run.plan.isolate, "Each case in a world of its own, whatever the others leave behind");
  command.add_option("--retries", texts.retries, "How often to try a case again, alone, that ended badly; if it then passes, it is flaky")
      ->option_text("N=0");
  command
      .add_option("--rerun-failed", run.rerun_failed,
                  "Of the selected cases, those that ended badly in this report, with its seed, worker, subject, timeout, waivers and "
                  "faults, and on its device, unless others are given")
      ->option_text("REPORT");
  command
      .add_option("--max-hangs", texts.max_hangs,
                  "How many worlds may be lost to a deadline, or to a rank that cannot go on, before the run ends")
      ->option_text("N=5");
  command.add_option("--debug", texts.debug, "A rank that waits for a debugger before its first case; no case is late then")
      ->option_text("RANK");
  command.add_option("--output", texts.output, "Ranks whose output is shown as it comes, each line behind its rank, as 0,2")
      ->allow_extra_args(false)
      ->option_text("N[,N...]");
  add_fault(command, run.plan.fault);
  command.add_flag("--trace", run.plan.trace, "Write each case's recorded facts as a trace that Perfetto opens");
  command.add_flag("--nccl-tap", texts.nccl_tap, "Record every rank's calls of NCCL, for explain and shardproof-nccl-tap");
  command
      .add_option(
          "--nccl-faults", texts.nccl_faults,
          "Delay, stall, drop, fail or swap such calls, as 'drop all_reduce#3 rank 1' (docs/nccl-tap.md); with it they are recorded")
      ->option_text("LIST");
  add_demands(command, run.demands, texts);
  add_out(command, run.out, "Where to write: a new or empty directory (default: a new one under shardproof-out/)");
  add_worker(command, run.worker);
  add_terminal(command, run.terminal, texts);
}

void declare_list(CLI::App& app, ListOptions& list, Texts& texts) {
  CLI::App& command = add_command(app, "list", "List the cases of a worker", std::string(filters_footer) + list_footer);
  command.add_flag("--json", list.json, "As JSON");
  auto* seeds = command
                    .add_flag("--seeds", list.seeds,
                              "Which seed test became which cases: a test of the framework's own files that the suite restates")
                    ->option_text(" ");
  auto* clauses = command.add_flag("--clauses", list.clauses, "Which cases check a clause, and which faults break it");
  clauses->excludes(seeds)->option_text(" ");
  command.add_flag("--profiles", list.profiles, "The profiles, and how many of the cases belong to each")
      ->excludes(seeds)
      ->excludes(clauses)
      ->option_text(" ");
  add_profile(command, list.profile, "all cases");
  add_ranks(command, texts, "list");
  add_subject(command, list.subject);
  add_worker(command, list.worker);
}

void declare_faults(CLI::App& app, FaultsOptions& faults, Texts& texts) {
  CLI::App& command =
      add_command(app, "faults", "Run the cases against every fault: each must be noticed", std::string(filters_footer) + faults_footer);
  add_profile(command, faults.profile, "the worker's first");
  add_plan(command, faults.plan, texts);
  command.add_option("--waivers", faults.waivers, "Failures without a fault that are known (docs/skips-and-waivers.md)")
      ->option_text("FILE");
  command.add_flag("--json", faults.json, "As JSON");
  add_out(command, faults.out, "Keep the reports of all runs in this new or empty directory");
  add_worker(command, faults.worker);
  add_terminal(command, faults.terminal, texts);
}

void declare_merge(CLI::App& app, MergeOptions& merge, Texts& texts) {
  CLI::App& command =
      add_command(app, "merge", "Make the report of a run that another launcher started, or that was cut short", merge_footer);
  command.add_option("directory", merge.directory, "The run directory")->option_text(" ");
  add_demands(command, merge.demands, texts);
  command.add_option("--worker", merge.worker, "The program that ran, where the run directory does not say its cases")
      ->option_text("PROGRAM");
  add_terminal(command, merge.terminal, texts);
}

void declare_diff(CLI::App& app, DiffOptions& diff, Texts& texts) {
  CLI::App& command = add_command(app, "diff", "What changed between two reports; ends with 1 when something got worse", diff_footer);
  command.add_option("before", diff.before, "A report.json or a run directory")->option_text(" ");
  command.add_option("after", diff.after, "A report.json or a run directory")->option_text(" ");
  command.add_flag("--json", diff.json, "As JSON");
  add_color(command, texts);
}

void declare_doctor(CLI::App& app, DoctorOptions& doctor, Texts& texts) {
  CLI::App& command = add_command(app, "doctor", "Say what of this machine will hurt a run, and how to mend it", doctor_footer);
  add_worker(command, doctor.worker);
  add_backend(command, texts, "The shared object that reaches CUDA, whose GPUs are looked at");
  add_color(command, texts);
}

void declare_explain(CLI::App& app, ExplainOptions& explain) {
  CLI::App& command = add_command(
      app, "explain",
      "Say why worlds of a run ended early: who died or stood still, where, who waited; and what ranks asked of NCCL, with --nccl-tap",
      explain_footer);
  command.add_option("directory", explain.directory, "The run directory, or one of its worlds")->option_text(" ");
}

void declare_play(CLI::App& app, PlayOptions& play, Texts& texts) {
  CLI::App& command =
      add_command(app, "play", "Play one scenario on real ranks and show its times, its collectives and a timeline", play_footer);
  command.add_option("scenario", play.scenario, "The document (docs/scenarios.md)")->option_text(" ");
  command.add_option("--ranks", texts.ranks, "World size")->option_text("N=2");
  command
      .add_option("--subject", play.plan.subject,
                  "The engine that plays: reference, pytorch, a shared object, or one of the worker's (default: reference, its first); or "
                  "two, A,B, each with a fault behind it as A+FAULT or without, and what differs is shown")
      ->option_text("NAME[,NAME]");
  command.add_option("--ulps", texts.ulps, "Of two: by how many units in the last place captured values may differ")->option_text("N=0");
  add_device(command, play.plan, texts);
  add_fault(command, play.plan.fault);
  command.add_option("--timeout", texts.timeout, "Seconds that it may take (default: 60; more where ranks share cores)")
      ->option_text("SECONDS");
  command.add_flag("--json", play.json, "As JSON, with all values");
  command.add_option("--trace", play.trace, "Write a trace that Perfetto opens to this file")->option_text("FILE");
  add_out(command, play.out, "Keep streams, logs and report in this new or empty directory");
  add_worker(command, play.worker);
  add_color(command, texts);
}

void declare_explore(CLI::App& app, ExploreOptions& explore, Texts& texts) {
  CLI::App& command =
      add_command(app, "explore", "Play random small scenarios on two subjects, and make what they play differently as small as it can be",
                  explore_footer);
  command
      .add_option("--subject", explore.plan.subject,
                  "The two: each as in play, with a fault behind it as A+FAULT or without (docs/side-by-side.md)")
      ->option_text("A,B");
  command.add_option("--rounds", texts.rounds, "How many scenarios to play (default: 100, or as many as --for has time for)")
      ->option_text("N");
  command.add_option("--for", texts.time, "How long to begin further ones, as 90s, 10min or 2h")->option_text("TIME");
  command.add_option("--seed", texts.seed, "Of the first scenario; each of the others has the next one")->option_text("N=0");
  command.add_option("--ranks", texts.ranks, "World sizes, of which the seed chooses one for each scenario")
      ->allow_extra_args(false)
      ->option_text("N[,N...]=1,2,4");
  command
      .add_option(
          "--without", texts.left_out,
          "What no scenario is to have: features, as mixed_precision, or other ingredients, as adam; a name that is none is answered "
          "with all of them")
      ->allow_extra_args(false)
      ->option_text("NAME[,NAME...]");
  command.add_option("--max-differences", texts.max_differences, "After how many unlike ones to end")->option_text("N=1");
  command.add_option("--ulps", texts.ulps, "By how many units in the last place captured values may differ")->option_text("N=0");
  command.add_option("--timeout", texts.timeout, "Seconds that every scenario may take (default: 60; more where ranks share cores)")
      ->option_text("SECONDS");
  command.add_flag("--json", explore.json, "What was found, as JSON");
  add_out(command, explore.out, "Where to write: a new or empty directory (default: a new one under shardproof-out/)");
  add_worker(command, explore.worker);
  command.add_flag("-q,--quiet", explore.terminal.quiet, "Differences and the last line only")->option_text(" ");
  add_color(command, texts);
}

void declare_stable(CLI::App& app, StableOptions& stable) {
  CLI::App& command =
      add_command(app, "stable", "Print the part of a report that is equal, byte for byte, between runs of one seed", stable_footer);
  command.add_option("report", stable.report, "A report.json or a run directory")->option_text(" ");
}

// -- Parsing -----------------------------------------------------------------------------------------------------------------------------

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  return names;
}

/// The words of a command that are neither options nor their values. CLI11 keeps `--` among them.
std::vector<std::string> arguments_left(const CLI::App& command) {
  std::vector<std::string> words = command.remaining();
  const auto end = std::ranges::find(words, reports::end_of_options);
  if (end != words.end()) words.erase(end);
  return words;
}

/// Reads the options of the command that the arguments name, or of `app` where they name no command. A command is parsed by itself: as a
/// part of `app`, CLI11 would give `app` the words after `--`.
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
    throw CommandError(usage, fmt::format("which command? There are {} (`shardproof --help` explains them)", fmt::join(known, ", ")));
  return command;
}

// -- Converting --------------------------------------------------------------------------------------------------------------------------

void require_given(const CLI::App& command, const std::vector<std::pair<const char*, std::filesystem::path>>& arguments) {
  std::string all;
  bool given = true;
  for (const auto& [name, value] : arguments) {
    all += fmt::format(" {}", name);
    given = given && !value.empty();
  }
  const std::string name = command.get_name();
  if (!given) throw CommandError(usage, fmt::format("{} takes{}: shardproof {}{}", name, arguments.size() == 1 ? "" : " both", name, all));
  const auto extra = arguments_left(command);
  if (!extra.empty()) throw CommandError(usage, fmt::format("'{}' is too much: shardproof {}{}", extra.front(), name, all));
}

/// To what follows, an empty text is an option that was not given. Those with words of their own for it have said them before.
void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (std::ranges::find(option->results(), "") == option->results().end()) continue;
    const std::string value = option->get_option_text();
    throw CommandError(usage, fmt::format("{} '': {} cannot be empty (`shardproof {} --help` explains it)", option->get_name(),
                                          value.substr(0, value.find('=')), command.get_name()));
  }
}

/// Empty: none is named.
std::filesystem::path backend(const Texts& texts) {
  if (texts.backend && texts.backend->empty()) throw CommandError(usage, "--backend '': the shared object that reaches CUDA, a file");
  return texts.backend.value_or("");
}

/// What every world of the command has in common. Returns what is wrong with what was said of the device; empty: nothing.
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

/// The same, and what is wrong with what was said of the fabric.
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
  run.persistence.retries = static_cast<int>(whole_number("--retries", texts.retries, 0, 1'000));
  run.persistence.max_hangs = static_cast<int>(whole_number("--max-hangs", texts.max_hangs, 0, 1'000'000));
  if (texts.debug) run.attention.debug = static_cast<int>(whole_number("--debug", *texts.debug, 0, 1023));
  if (texts.debug && run.plan.jobs > 1)
    throw CommandError(usage, "--debug with --jobs: ranks of several worlds would wait for a debugger; use one of the two");
  run.attention.output_of = ranks("--output", texts.output);
  if (run.persistence.retries > 0 && run.plan.repeat > 1)
    throw CommandError(usage, "--retries with --repeat: a repetition that fails is no failed attempt; use one of the two");
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
  if (explore.plan.subject.empty()) throw CommandError(usage, "explore takes two subjects: shardproof explore --subject A,B");
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
  CLI::App app("Tests of code that runs on many ranks, and a conformance suite for sharded-data-parallel engines.", "shardproof");
  app.set_version_flag("--version", SHARDPROOF_VERSION);
  app.require_subcommand(0, 1);
  app.allow_extras();
  app.footer(all_footer);
  app.get_formatter()->column_width(34);

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
    // It has been printed.
  }
  return std::nullopt;
}

}  // namespace shardproof::launcher
