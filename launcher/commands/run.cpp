// `shardproof run`: runs the selected cases in worlds of real ranks, and writes one merged report.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

#include "harness/base/closest.hpp"
#include "harness/protocol/environment.hpp"
#include "launcher/commands/annotations.hpp"
#include "launcher/commands/command_line.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/export_files.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/option_values.hpp"
#include "launcher/commands/report_file.hpp"
#include "launcher/commands/rerun.hpp"
#include "launcher/commands/shared_options.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/explore/smallest_failures.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/machine.hpp"
#include "launcher/run/demands.hpp"
#include "launcher/run/feature_pairs.hpp"
#include "launcher/run/foreign_command.hpp"
#include "launcher/run/preparation.hpp"
#include "launcher/run/run.hpp"
#include "launcher/run/run_events.hpp"
#include "launcher/worker_client/mpi_modules.hpp"
#include "launcher/worker_client/profile.hpp"
#include "reports/model/findings.hpp"

namespace shardproof::launcher {
namespace {

constexpr HelpText run_help{
    .name = "run",
    .summary = "Run cases in worlds of real ranks, and write one report.",
    .examples =
        "    shardproof run overlap --ranks 2,4           one suite, on 2 and on 4 ranks\n"
        "    shardproof run 'overlap/*' '[reference]'     all cases that a glob or a tag selects\n"
        "    shardproof run --worker ./my_tests           the cases of your own program\n"
        "    shardproof run --worker ./my_tests --launcher 'srun -n {ranks}' --fabric tcp\n"
        "                                                 ranks that srun starts, on one host or several\n"
        "    shardproof run --out before --overwrite      again in a folder that holds an earlier run\n"
        "    shardproof run --rerun-failed before         the cases that failed or did not run there\n"
        "    shardproof run --worker ./my_tests --junit junit.xml\n"
        "                                                 also write JUnit XML, for a CI system\n"
        "    shardproof run overlap --message-format json\n"
        "                                                 print an event per line, for programs\n",
    .arguments = "[FILTER...]",
    .footer =
        "Filters:\n"
        "    A filter is a suite, a case id, a glob over ids (* and ?), or a [tag].\n"
        "    A run takes each case that at least one filter selects. Without filters, it takes all.\n"
        "    After the word --, each word is a filter.\n"
        "\n"
        "Exit codes, the first that applies:\n"
        "    128+N  Signal N interrupted the run.\n"
        "    2      The command line is wrong, no case is selected, or output cannot be written.\n"
        "    3      The worker failed, or its ranks did not start or did not meet.\n"
        "    4      A rank crashed or hung.\n"
        "    5      Evidence is missing or corrupt, or ranks disagree.\n"
        "    1      A case failed.\n"
        "    6      Too many cases were skipped or waived, a required clause has no passed case, or a\n"
        "           waiver is expired, wrong or unused, or the subject's claims skip every case.\n"
        "    0      Each case passed, was skipped or was waived.\n"
        "    With --skip-code N, a run that skips every case ends with N instead of 0, or of 6 because of\n"
        "    the subject's claims."};

struct RunOptions {
  PlanOptions plan;
  std::string profile;  ///< Empty: the worker's first.
  std::optional<std::uint64_t> seed;
  std::filesystem::path worker;  ///< Empty: the worker next to the launcher.
  OutputOptions out;  ///< Empty: a new directory under shardproof-out/.
  ExportFiles exports;
  Annotations annotations;
  DemandOptions demands;
  std::optional<int> skip_code;  ///< The exit code of a run whose cases were all skipped. None: as for any other run.
  RetryOptions retry;
  MonitorOptions monitor{.failures = true};
  /// Standard output has JSON lines for a program, and standard error has the text for people.
  bool prints_events = false;
  std::optional<std::size_t> slowest;  ///< How many of the slowest cases to show. Nullopt: it depends on the run.
  bool chooses_placement = false;  ///< The user chose a device or a fabric.
  /// The error in the options, unless the report of `rerun_failed` places ranks elsewhere.
  std::string placement_error;
  std::filesystem::path rerun_failed;  ///< A report or run directory. Empty: run the cases that filters select.
  TerminalOptions terminal;
};

std::uint64_t choose_seed(const RunOptions& options) {
  if (options.seed) return *options.seed;
  // Two runs of one command without random order must be equal.
  if (options.plan.order == Order::listed) return 0;
  return std::random_device()();
}

/// Each run of a case costs about a KiB of memory and of disk until it is reported.
constexpr std::size_t most_case_runs = 5'000'000;

/// Rejects a plan that is too large, before making all of it.
Plan bounded_plan(const protocol::Listing& listing, const PlanOptions& options) {
  PlanOptions once = options;
  once.repeat = 1;
  Plan single = plan(listing, once);
  if (options.repeat == 1) return single;
  const auto times = static_cast<std::size_t>(options.repeat);
  if (single.selected > most_case_runs / times) {
    throw CommandError(
        usage,
        fmt::format("--repeat {}: {} cases as often are more than the {} that one run may hold; use several runs",
                    options.repeat, single.selected, most_case_runs));
  }
  return plan(listing, options);
}

void require_rank(const Plan& plan, std::string_view option, int rank) {
  const bool is_there = std::ranges::any_of(
      plan.worlds, [&](const protocol::WorldPlan& world) { return world.skipped.empty() && rank < world.size; });
  if (!is_there) throw CommandError(usage, fmt::format("{} {}: no selected case has that rank", option, rank));
}

std::string heading(const Plan& plan, const PlanOptions& options, const std::string& profile) {
  std::string sizes;
  int last = 0;
  for (const protocol::WorldPlan& world : plan.worlds) {
    if (!world.skipped.empty()) continue;
    if (world.size != last) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", world.size);
    last = world.size;
  }
  std::string text = fmt::format("{} case{}{}{}, seed {}", plan.selected, plan.selected == 1 ? "" : "s",
                                 sizes.empty() ? "" : ", ranks ", sizes, options.seed);
  if (options.repeat > 1) text += fmt::format(", {} times", options.repeat);
  if (options.order == Order::random) text += ", random order";
  if (options.shard.count > 1) text += fmt::format(", part {} of {}", options.shard.index, options.shard.count);
  const std::string& subject = plan.worlds.front().subject;
  if (!subject.empty()) text += fmt::format(", subject {}", subject);
  if (!options.fault.empty()) text += fmt::format(" with fault {}", options.fault);
  if (!profile.empty()) text += fmt::format(", profile {}", profile);
  if (plan.tap) text += ", NCCL tapped";
  if (plan.tap && !plan.tap->faults.empty()) text += fmt::format(" with faults {}", plan.tap->faults);
  if (plan.supply && !plan.supply->by_guards) text += fmt::format(", on {}", models_text(plan.supply->listing.gpus));
  return text;
}

class RunCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return run_help; }

  void declare(OptionDeclarations& options) override {
    declare_profile(options, options_.profile, "the worker's first profile");
    declare_plan(options, options_.plan, world_texts_);
    options.value(
        case_group, "--generated", texts_.generated, "N",
        "Play the selected cases that draw a scenario for each seed from 1 to N. The default is the listed seeds. "
        "The run makes the scenario of a failed case smaller, and prints a command that plays it "
        "(docs/generated-cases.md).");
    options.value(
        case_group, "--scenario", options_.plan.scenario, "FILE",
        "Let the one selected case play this scenario instead of what its seed draws, and judge it likewise.");
    options.value(case_group, "--shard", texts_.shard, "I/N",
                  "Run part I of N of the selected cases. I counts from 1.");
    options.value(case_group, "--rerun-failed", options_.rerun_failed, "REPORT",
                  "Run the selected cases that failed, or did not run, in this report. The seed, worker, subject, "
                  "timeout, waivers and faults are those of the report, unless you give others. So are the device, "
                  "the fabric and the launcher, unless you give a device or a fabric.");
    declare_worker(options, options_.worker, "the cases from");
    declare_fault(options, options_.plan.fault);
    options.value(course_group, "--seed", texts_.seed, "N",
                  "Draw everything random from this seed. The default is 0. With --order random, the default is a "
                  "new seed, which is printed.");
    options.value(course_group, "--order", texts_.order, "ORDER",
                  "Run the cases of a world in this order: listed or random. The default is listed.");
    options.choices("--order", order_words());
    options.value(course_group, "--repeat", texts_.repeat, "N", "Run each case N times. The default is 1.");
    options.value(course_group, "--jobs", texts_.jobs, "N",
                  "Run up to N worlds at once. The default is 1. No two worlds share a GPU.");
    options.flag(course_group, "--isolate", options_.plan.isolate, "Run each case in its own world.");
    options.value(course_group, "--retries", texts_.retries, "N",
                  "Try each failed case up to N more times, in a world of failed cases only. A case that then "
                  "passes is flaky. The default is 0.");
    options.flag(
        course_group, "--fail-fast", options_.retry.fail_fast,
        "End the run at the first failed case that no waiver excuses. Cases that are not finished become not_run.");
    options.value(course_group, "--max-hangs", texts_.max_hangs, "N",
                  "End the run when more than N worlds have ended by a deadline or by a rank that could not go on. "
                  "The default is 5.");
    options.value(course_group, "--debug", texts_.debug, "RANK",
                  "Let this rank wait for a debugger before its first case. Cases then have no deadline.");
    options.value(course_group, "--rank-wrapper", texts_.rank_wrapper, "COMMAND",
                  "Start ranks by this command, for example 'valgrind --log-file=rank-$SHARDPROOF_RANK.log'. The shell "
                  "reads it, in the environment of the rank (docs/reliability.md).");
    options.list(course_group, "--wrap-ranks", texts_.wrap_ranks, "N[,N...]",
                 "Let --rank-wrapper start these ranks only. The default is every rank.");
    options.flag(course_group, "--no-warm", texts_.no_warm,
                 "Start each rank by itself. Without it, ranks are copies of one process of the program "
                 "(docs/reliability.md).");
    options.value(course_group, "--launcher", texts_.launcher, "COMMAND",
                  "Let this command start the ranks of each world, for example 'mpirun -n {ranks}', 'srun -n {ranks}' "
                  "or 'torchrun --no-python --nproc-per-node {ranks}'. {ranks} becomes the size of the world. Without "
                  "it, --ranks selects the one size that the command starts. Ranks on several hosts need --fabric tcp "
                  "or mpi, or --device cuda (docs/clusters.md).");
    options.value(course_group, "--join-timeout", texts_.join_timeout, "TIME",
                  "With --launcher: the command has this time to start all ranks of a world. With --device cuda, the "
                  "hosts of the ranks also list their GPUs in this time. The default is 30 s. Give more time, for "
                  "example 10min, where the command waits for nodes, or where programs start slowly.");
    options.value(course_group, "--host-silence", texts_.host_silence, "TIME",
                  "With --launcher, and ranks on several hosts: a host that sends nothing for this time is lost. The "
                  "default is 0.8 s. Give more time, for example 10s, where hosts are overloaded or their network "
                  "pauses.");
    declare_demands(options, options_.demands, demand_texts_);
    options.value(demand_group, "--skip-code", texts_.skip_code, "N",
                  "End with N when every case was skipped. A test runner such as CTest (SKIP_RETURN_CODE) then shows a "
                  "skip. N is at least 7, so it is no other exit code.");
    declare_out(options, options_.out,
                fmt::format("{} The link shardproof-out/latest leads to the latest run, where that folder exists.",
                            write_text));
    options_.exports.declare(options);
    options_.annotations.declare(options);
    options.flag(file_group, "--trace", options_.plan.trace, "Write a trace of each case, for Perfetto.");
    options.flag(file_group, "--nccl-tap", texts_.nccl_tap,
                 "Record every rank's calls of NCCL, for explain and shardproof-nccl-tap.");
    options.value(
        file_group, "--nccl-faults", texts_.nccl_faults, "LIST",
        "Record these calls, and delay, stall, drop, fail or swap some, for example 'drop all_reduce#3 rank 1' "
        "(docs/nccl-tap.md).");
    options.list(terminal_group, "--output", texts_.output, "N[,N...]",
                 "Print what these ranks print, for example 0,2, while they run. Each line begins with its rank.");
    options.value(terminal_group, "--slowest", texts_.slowest, "N",
                  "List the N slowest cases with their times. The default is 3 if the run took more than 5 seconds, 5 "
                  "with --verbose, and else 0.");
    options.value(
        terminal_group, "--message-format", texts_.message_format, "FORMAT",
        "Print text, or json: an event of the run per line, for programs (docs/reports.md). Text then goes to "
        "standard error. The default is text.");
    options.choices("--message-format", {"text", "json"});
    declare_terminal(options, options_.terminal, color_);
  }

  void convert(const Arguments& arguments) override {
    options_.placement_error = convert_plan(arguments, world_texts_, options_.plan);
    if (options_.rerun_failed.empty()) require_placement(options_.placement_error);
    options_.chooses_placement = world_texts_.device || world_texts_.fabric;
    if (texts_.seed) options_.seed = whole_number("--seed", *texts_.seed, 0, std::numeric_limits<std::uint64_t>::max());
    options_.plan.order = order(texts_.order);
    options_.plan.repeat = static_cast<int>(whole_number("--repeat", texts_.repeat, 1, 1'000'000));
    options_.plan.jobs = static_cast<int>(whole_number("--jobs", texts_.jobs, 1, 1'000));
    // A wrapper or a debugger is for a process that starts like any other process.
    const bool is_examined = texts_.rank_wrapper || texts_.debug;
    options_.plan.copies = texts_.no_warm ? Copies::none : is_examined ? Copies::of_prepared_subjects : Copies::all;
    options_.plan.shard = parse_shard(texts_.shard);
    if (texts_.generated)
      options_.plan.generated = static_cast<int>(whole_number("--generated", *texts_.generated, 0, 1'000'000));
    if (texts_.generated && !options_.plan.scenario.empty())
      throw CommandError(
          usage, "--generated with --scenario: a case plays what it draws, or what is given; use one of the two");
    options_.retry.retries = static_cast<int>(whole_number("--retries", texts_.retries, 0, 1'000));
    options_.retry.max_hangs = static_cast<int>(whole_number("--max-hangs", texts_.max_hangs, 0, 1'000'000));
    if (texts_.debug) options_.monitor.debug = static_cast<int>(whole_number("--debug", *texts_.debug, 0, 1023));
    if (texts_.debug && options_.plan.jobs > 1)
      throw CommandError(usage,
                         "--debug with --jobs: ranks of several worlds would wait for a debugger; use one of the two");
    options_.monitor.output_of = ranks("--output", texts_.output);
    options_.monitor.wrapper = {.command = texts_.rank_wrapper.value_or(""),
                                .ranks = ranks("--wrap-ranks", texts_.wrap_ranks)};
    if (texts_.rank_wrapper && texts_.rank_wrapper->find_first_not_of(" \t\n") == std::string::npos)
      throw CommandError(usage, "--rank-wrapper: the command is empty");
    if (!texts_.rank_wrapper && !texts_.wrap_ranks.empty())
      throw CommandError(usage, "--wrap-ranks without --rank-wrapper: there is no command to start these ranks");
    if (texts_.launcher) convert_launcher(*texts_.launcher);
    if (texts_.join_timeout) {
      if (!texts_.launcher) throw CommandError(usage, "--join-timeout without --launcher: no command starts the ranks");
      options_.plan.join_timeout = span_of_time("--join-timeout", *texts_.join_timeout);
    }
    if (texts_.host_silence) {
      if (!texts_.launcher) throw CommandError(usage, "--host-silence without --launcher: all ranks are on this host");
      options_.plan.host_silence = span_of_time("--host-silence", *texts_.host_silence);
    }
    if (options_.retry.retries > 0 && options_.plan.repeat > 1)
      throw CommandError(
          usage, "--retries with --repeat: a repetition that fails is not a failed attempt; use one of the two");
    if (options_.retry.retries > 0 && options_.retry.fail_fast)
      throw CommandError(
          usage,
          "--fail-fast with --retries: a failed case ends the run, so it is not tried again; use one of the two");
    if (texts_.nccl_faults)
      options_.plan.tap = NcclTap{.library = {}, .faults = checked_nccl_faults(*texts_.nccl_faults)};
    else if (texts_.nccl_tap) options_.plan.tap.emplace();
    convert_demands(demand_texts_, options_.demands);
    // 126 and more are exit codes of shells.
    if (texts_.skip_code) options_.skip_code = static_cast<int>(whole_number("--skip-code", *texts_.skip_code, 7, 125));
    options_.terminal.color = convert_color(color_);
    if (texts_.slowest) options_.slowest = whole_number("--slowest", *texts_.slowest, 0, most_case_runs);
    options_.annotations.convert(options_.exports);
    options_.prints_events = message_format(texts_.message_format) == MessageFormat::json;
    if (options_.prints_events && options_.exports.use_standard_output())
      throw CommandError(usage,
                         "--message-format json with an export to -: standard output holds the events; give the export "
                         "a file");
    if (options_.prints_events && options_.annotations.is_requested())
      throw CommandError(
          usage,
          "--message-format json with --annotations: standard output holds the events; print annotations "
          "with `shardproof export`");
  }

  int run(const std::vector<std::string>& argv) override {
    warn_of_foreign_launcher();
    try {
      return options_.prints_events ? run_for_programs(argv) : run_cases(argv);
    } catch (const CommandError& error) {
      // The error may have text of a worker.
      throw CommandError(error.code(), options_.annotations.without_commands(error.what()));
    }
  }

 private:
  /// A wrong spelling of {ranks} in a command without that word: `{rank}`, `{n}`. Empty if no spelling is wrong.
  /// `${ranks}` is the shell's.
  static std::string wrong_ranks_word(const std::string& command) {
    if (command.find(ranks_word) != std::string::npos) return {};
    for (std::size_t at = 0; (at = command.find('{', at)) != std::string::npos; ++at) {
      const std::size_t end = command.find('}', at);
      if (end == std::string::npos) break;
      std::string name = command.substr(at + 1, end - at - 1);
      std::erase(name, ' ');
      const bool is_of_shell = at > 0 && command[at - 1] == '$';
      if (!is_of_shell && !base::closest({"n", "np", "ntasks", "ranks", "size", "world_size"}, name).empty())
        return command.substr(at, end - at + 1);
    }
    return {};
  }

  /// A user may start this command by mpirun, where `--launcher mpirun` is meant.
  void warn_of_foreign_launcher() const {
    if (texts_.shard != Texts().shard) return;  // each process may run a part of its own
    try {
      const auto identity = protocol::identity(protocol::own_variable);
      if (!identity || identity->rank != 0 || identity->world_size < 2) return;
      print_error(
          fmt::format("warning: {} started this command as rank 0 of {}, and each rank runs all cases; start "
                      "the command once, and let --launcher start the ranks (docs/clusters.md)",
                      identity->launcher, identity->world_size));
    } catch (const std::invalid_argument&) {
      // The variables belong to another program.
    }
  }

  /// Refuses the options that need ranks that are children of this process.
  void convert_launcher(const std::string& command) {
    const auto refuse = [](const std::string& why) { throw CommandError(usage, "--launcher" + why); };
    if (command.find_first_not_of(" \t\n") == std::string::npos) refuse(": the command is empty");
    if (options_.plan.jobs > 1)
      refuse(" with --jobs: the command starts the ranks of one world at a time; use one of the two");
    if (texts_.debug) refuse(" with --debug: the ranks belong to the command; use one of the two");
    if (texts_.rank_wrapper) refuse(" with --rank-wrapper: add the wrapper to the command, or use one of the two");
    if (options_.plan.fabric == protocol::thread_fabric)
      refuse(" with --fabric thread: the command starts a process for each rank; use one of the two");
    if (const std::string word = wrong_ranks_word(command); !word.empty())
      refuse(fmt::format(" '{}': {} means nothing here; write {} where the command takes the number of ranks", command,
                         word, ranks_word));
    if (command.find(ranks_word) == std::string::npos && options_.plan.ranks.size() != 1)
      refuse(
          fmt::format(" '{}': write {} where the command takes the number of ranks, or select the one size that it "
                      "starts with --ranks",
                      command, ranks_word));
    options_.plan.launcher = command;
  }

  /// For a command that starts one size: the cases of other sizes that the filters select.
  static std::string left_out_text(const protocol::Listing& listing, const PlanOptions& options) {
    if (options.launcher.empty() || options.launcher.find(ranks_word) != std::string::npos) return {};
    std::vector<protocol::CaseInfo> others = matching_cases(listing, options.filters, options.named_worker);
    std::erase_if(others, [&](const protocol::CaseInfo& info) {
      return info.on_request || info.world_size == options.ranks.front();
    });
    if (others.empty()) return {};
    std::set<int> sizes;
    for (const protocol::CaseInfo& info : others) sizes.insert(info.world_size);
    return fmt::format(
        "left out: {} case{} for {} ranks, because the command of --launcher starts {}; write {} in it to "
        "run all sizes",
        others.size(), others.size() == 1 ? "" : "s", fmt::join(sizes, ", "), options.ranks.front(), ranks_word);
  }

  /// Prints the events of the run on standard output.
  int run_for_programs(const std::vector<std::string>& argv) {
    // It waits for no reader, so a slow program does not delay the run.
    Terminal lines(stdout, {.color = ColorWhen::never, .quiet = true});
    RunEvents events([&lines](std::string_view line) { lines.print(line); });
    events_ = &events;
    // The last event comes however the run ends.
    try {
      const int code = run_cases(argv);
      require_printed(lines.finish());
      events.run_ended(code, interrupted_by_, error_);
      lines.finish();
      return code;
    } catch (const CommandError& error) {
      events.run_ended(error.code(), error.is_interrupt() ? error.code() - 128 : 0, error.what());
      throw;
    } catch (const std::exception& error) {
      events.run_ended(infrastructure, 0, error.what());
      throw;
    }
  }

  int run_cases(const std::vector<std::string>& command_line) {
    const auto began = std::chrono::steady_clock::now();
    std::vector<std::string> argv = command_line;
    SignalWatch signals;
    reports::Report before;
    if (!options_.rerun_failed.empty()) {
      before = read_report_file(options_.rerun_failed, [](std::istream& in) { return reports::read_report(in); });
      repeat_options(argv, before);
    }
    const std::vector<std::string> kept_files = options_.exports.require_writable(options_.out);
    options_.plan.named_worker = options_.worker;
    Worker worker = find_subject(options_.plan, options_.worker, signals);
    reports::RunHead requested;
    apply_demands(requested, options_.demands, &worker.listing);
    const ChosenProfile profile = keep_profile(worker.listing, options_.profile, options_.plan.filters);
    if (!options_.rerun_failed.empty()) {
      options_.plan.filters = failed_cases(before, worker.listing, options_.plan, options_.rerun_failed);
      if (!options_.seed) options_.seed = before.head.seed;
    }
    options_.plan.seed = choose_seed(options_);
    options_.plan.cores = usable_cores();
    // A rank must not be overdue while a user debugs it.
    if (options_.monitor.debug >= 0) options_.plan.timeout = std::chrono::hours(24);
    if (options_.plan.tap) find_tap(*options_.plan.tap, worker.program);
    find_gpus(worker, options_.plan, signals);
    if (options_.plan.fabric == protocol::mpi_fabric) {
      options_.plan.mpi_modules = mpi_module_folder();
      require_mpi_module(options_.plan.mpi_modules);
    }
    Plan selected = bounded_plan(worker.listing, options_.plan);
    if (!options_.plan.scenario.empty())
      check_scenario(worker, options_.plan.scenario, selected.worlds.front().size, signals);
    if (options_.monitor.debug >= 0) require_rank(selected, "--debug", options_.monitor.debug);
    for (const int rank : options_.monitor.output_of) require_rank(selected, "--output", rank);
    for (const int rank : options_.monitor.wrapper.ranks) require_rank(selected, "--wrap-ranks", rank);
    ClaimedDirectory claimed(options_.out);
    for (const std::string& name : kept_files) claimed.note_file(name);
    const protocol::RunDirectory directory = claimed.run();
    if (const auto obstacle = point_latest_to(directory)) print_error("warning: " + *obstacle);

    warm_up(worker, options_.plan, directory.warm_log(), signals);

    const bool is_for_programs = options_.prints_events || options_.exports.use_standard_output();
    Terminal terminal(is_for_programs ? stderr : stdout, options_.terminal);
    StoppedCommands stopped(terminal, options_.annotations);
    terminal.explain(worker.listing.clauses);
    terminal.show_files_of(directory);
    const bool is_drawn = !options_.seed && options_.plan.order == Order::random;
    // without the seed, no user could repeat the run
    if (options_.terminal.quiet && is_drawn) terminal.print(fmt::format("seed {}", options_.plan.seed));
    terminal.note(heading(selected, options_.plan, options_.profile));
    if (const std::string left_out = left_out_text(worker.listing, options_.plan); !left_out.empty())
      terminal.note(left_out);
    reports::RunHead head = make_head(worker, selected, options_.plan, argv);
    head.profile = profile.name;
    head.outside_profile = profile.outside;
    head.demands = requested.demands;
    head.waivers = requested.waivers;
    head.unknown_in_waivers = requested.unknown_in_waivers;
    options_.monitor.events = events_;
    const RunResult result = run_plan(worker, std::move(selected), directory, std::move(head), signals, terminal,
                                      options_.retry, options_.monitor);

    reports::TextStyle style = terminal.style();
    style.run_time = std::chrono::steady_clock::now() - began;
    style.slowest = slowest_shown(*style.run_time);
    terminal.print(reports::summary(result.report, style));
    if (const std::string text = text_of(feature_pairs(result.report, worker.listing.combinable)); !text.empty())
      terminal.note(text);
    std::optional<CommandError> search_ended_by;
    if (options_.plan.generated && result.interrupted_by == 0) {
      const SmallestFailures smallest =
          find_smallest_failures(worker, options_.plan, result.report, directory, signals, terminal);
      terminal.print(text_of(smallest));
      if (!smallest.found.empty()) search_ended_by = smallest.found.back().shrunk.ended_by;
    }
    if (result.is_written) terminal.note(fmt::format("report: {}", directory.report().string()));
    terminal.finish();  // the following text goes to another stream
    const bool is_exported = options_.exports.write(result.report, terminal.style());
    interrupted_by_ = result.interrupted_by;
    for (const std::string& error : {result.output_error, result.infrastructure_error}) {
      if (error.empty()) continue;
      print_error(options_.annotations.without_commands(error));
      error_ += fmt::format("{}{}", error_.empty() ? "" : "\n", error);
    }
    if (result.interrupted_by != 0) {
      print_error(result.is_written ? "interrupted; the report holds what was done until then"
                                    : "interrupted; there is no report");
    } else {
      require_printed(terminal.finish());
    }
    if (!is_exported && error_.empty()) error_ = "an export could not be written";
    if (search_ended_by) {
      error_ += fmt::format("{}{}", error_.empty() ? "" : "\n", search_ended_by->what());
      print_error(options_.annotations.without_commands(fmt::format(
          "{}; the report is complete, and some scenarios of failures could be smaller", search_ended_by->what())));
    }
    stopped.resume();
    if (options_.annotations.is_requested()) terminal.print(options_.annotations.text(result.report));
    if (result.interrupted_by == 0) require_printed(terminal.finish());
    if (search_ended_by) return search_ended_by->code();
    if (!is_exported && result.interrupted_by == 0) return usage;
    const int code = exit_code(result);
    const bool is_verdict = code == all_passed || code == over_budget;
    return options_.skip_code && is_verdict && reports::only_skipped(result.report) ? *options_.skip_code : code;
  }

  struct Texts {
    std::string message_format = "text";
    std::string order = "listed", shard = "1/1", repeat = "1", jobs = "1", retries = "0", max_hangs = "5";
    bool no_warm = false;
    std::optional<std::string> seed, debug, nccl_faults, generated, rank_wrapper, launcher, join_timeout, host_silence,
        skip_code, slowest;
    bool nccl_tap = false;
    std::vector<std::string> output, wrap_ranks;
  };

  /// Adds the options of an earlier run to the command line, so that the new report records them and its commands
  /// repeat them.
  void repeat_options(std::vector<std::string>& argv, const reports::Report& report) {
    const std::vector<std::string> words = options_of_run(report, argv, options_.chooses_placement);
    if (!words.empty()) {
      constexpr std::ptrdiff_t after_command = 2;
      argv.insert(argv.begin() + after_command, words.begin(), words.end());
      RunCommand repeated;
      try {
        parse_options(repeated, argv);
      } catch (const CommandError& error) {
        throw CommandError(usage, fmt::format("--rerun-failed {}: the options of that run are not valid: {}",
                                              options_.rerun_failed.string(), error.what()));
      }
      options_ = std::move(repeated.options_);
    }
    require_placement(options_.placement_error);
  }

  /// A run that its user has waited for shows what it waited for.
  std::optional<std::size_t> slowest_shown(std::chrono::nanoseconds run_time) const {
    if (options_.slowest || options_.terminal.quiet || options_.terminal.verbose) return options_.slowest;
    return run_time > std::chrono::seconds(5) ? 3 : 0;
  }

  Texts texts_;
  WorldTexts world_texts_;
  DemandTexts demand_texts_;
  ColorText color_;
  RunOptions options_;
  RunEvents* events_ = nullptr;  ///< nullptr: no program follows the run
  // For the last event: why the run is incomplete.
  int interrupted_by_ = 0;
  std::string error_;
};

}  // namespace

std::unique_ptr<Subcommand> make_run_command() { return std::make_unique<RunCommand>(); }

}  // namespace shardproof::launcher
