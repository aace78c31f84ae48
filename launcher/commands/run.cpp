// `shardproof run`: runs the selected cases in worlds of real ranks, and writes one merged report.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <span>

#include "launcher/commands/command_line.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/report_file.hpp"
#include "launcher/explore/smallest_failures.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/machine.hpp"
#include "launcher/run/demands.hpp"
#include "launcher/run/feature_pairs.hpp"
#include "launcher/run/preparation.hpp"
#include "launcher/run/run.hpp"
#include "launcher/worker_client/profile.hpp"
#include "reports/export/command_line_words.hpp"

namespace shardproof::launcher {
namespace {

std::uint64_t choose_seed(const RunOptions& options) {
  if (options.seed) return *options.seed;
  // Two runs of one command without random order must be equal.
  if (options.plan.order == Order::listed) return 0;
  return std::random_device()();
}

/// Each run of a case costs about a KiB of memory and of disk until it is reported.
constexpr std::size_t most_case_runs = 5'000'000;

/// Rejects a plan that is too large, before making all of it.
Plan bounded_plan(const Listing& listing, const PlanOptions& options) {
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

using Words = std::vector<std::string>;

Words given(const Words& argv, std::string_view option) {
  return reports::words_given(argv, std::span(&option, 1), {});
}

bool has_flag(const Words& argv, std::string_view flag) {
  return !reports::words_given(argv, {}, std::span(&flag, 1)).empty();
}

/// Options of the report's run, for its repetition. Options that are also in `argv` are left out. The options are:
///   - the engine under test and its faults, with the NCCL tap,
///   - the waivers,
///   - the time limit of a case,
///   - the place of its ranks.
Words told(const reports::Report& report, const Words& argv, bool is_placed) {
  Words words;
  const auto take = [&](std::string_view option) {
    if (given(argv, option).empty()) std::ranges::copy(given(report.head.argv, option), std::back_inserter(words));
  };
  const auto take_flag = [&](std::string_view flag) {
    if (has_flag(report.head.argv, flag) && !has_flag(argv, flag)) words.emplace_back(flag);
  };
  if (!report.head.fault.empty() && given(argv, "--fault").empty())
    words.insert(words.end(), {"--fault", report.head.fault});
  for (const std::string_view option : {"--worker", "--subject", "--timeout", "--waivers", "--nccl-faults"})
    take(option);
  take_flag("--nccl-tap");
  if (is_placed || report.worlds.empty()) return words;
  take("--scheduler");
  const reports::WorldResult& world = report.worlds.front();
  // A case that needs threads asks for them again by itself.
  const bool is_fabric_of_run = world.fabric != thread_fabric || !given(report.head.argv, "--fabric").empty();
  if (world.device == sim_device && (world.fabric == shm_fabric || !is_fabric_of_run)) return words;
  words.insert(words.end(), {"--device", world.device, "--fabric", world.fabric});
  for (const std::string_view option : reports::gpu_options) take(option);
  take_flag(reports::share_gpus_flag);
  return words;
}

/// Adds the options to the command line, so that the new report records them and its commands repeat them.
void take_over(RunOptions& options, Words& argv, const reports::Report& report) {
  const Words words = told(report, argv, options.is_placed);
  if (!words.empty()) {
    constexpr std::ptrdiff_t behind_the_command = 2;
    argv.insert(argv.begin() + behind_the_command, words.begin(), words.end());
    std::vector<const char*> texts(argv.size());
    std::ranges::transform(argv, texts.begin(), [](const std::string& word) { return word.c_str(); });
    const std::optional<Options> read = parse_command_line(static_cast<int>(texts.size()), texts.data());
    options = std::get<RunOptions>(read.value());
  }
  if (!options.misplaced.empty()) throw CommandError(usage, options.misplaced);
}

/// Selects only the cases that ended badly in the report and that the worker still has.
void select_failed(RunOptions& options, const Listing& listing, const reports::Report& report) {
  std::set<std::string> failed;
  for (const reports::CaseResult& result : report.cases) {
    if (!result.superseded && reports::is_bad(result.verdict)) failed.insert(result.info.id);
  }
  if (failed.empty())
    throw CommandError(usage,
                       fmt::format("--rerun-failed {}: no case of it ended badly", options.rerun_failed.string()));
  std::vector<std::string> again;
  for (const CaseInfo& info : matching_cases(listing, options.plan.filters)) {
    if (failed.contains(info.id)) again.push_back(info.id);
  }
  if (again.empty()) {
    throw CommandError(
        usage,
        fmt::format("--rerun-failed {}: none of the {} cases that ended badly there is among the selected ones, as {}",
                    options.rerun_failed.string(), failed.size(), *failed.begin()));
  }
  options.plan.filters = std::move(again);
  if (!options.seed) options.seed = report.head.seed;
}

void require_rank(const Plan& plan, std::string_view option, int rank) {
  const bool is_there = std::ranges::any_of(
      plan.worlds, [&](const WorldPlan& world) { return world.skipped.empty() && rank < world.size; });
  if (!is_there) throw CommandError(usage, fmt::format("{} {}: no selected case has that rank", option, rank));
}

std::string heading(const Plan& plan, const PlanOptions& options, const std::string& profile) {
  std::string sizes;
  int last = 0;
  for (const WorldPlan& world : plan.worlds) {
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
  if (plan.supply) text += fmt::format(", on {}", models_text(plan.supply->listing.gpus));
  return text;
}

}  // namespace

int run_command(RunOptions options, std::vector<std::string> argv) {
  SignalWatch signals;
  reports::Report before;
  if (!options.rerun_failed.empty()) {
    before = read_report_file(options.rerun_failed, [](std::istream& in) { return reports::read_report(in); });
    take_over(options, argv, before);
  }
  Worker worker = find_subject(options.plan, options.worker, signals);
  reports::RunHead asked;
  put_demands(asked, options.demands, &worker.listing);
  const ChosenProfile profile = keep_profile(worker.listing, options.profile, options.plan.filters);
  if (!options.rerun_failed.empty()) select_failed(options, worker.listing, before);
  options.plan.seed = choose_seed(options);
  options.plan.cores = usable_cores();
  // A rank must not be overdue while a user debugs it.
  if (options.attention.debug >= 0) options.plan.timeout = std::chrono::hours(24);
  if (options.plan.tap) find_tap(*options.plan.tap, worker.program);
  find_gpus(worker, options.plan, signals);
  Plan selected = bounded_plan(worker.listing, options.plan);
  if (!options.plan.scenario.empty())
    check_scenario(worker, options.plan.scenario, selected.worlds.front().size, signals);
  if (options.attention.debug >= 0) require_rank(selected, "--debug", options.attention.debug);
  for (const int rank : options.attention.output_of) require_rank(selected, "--output", rank);
  const ClaimedDirectory claimed(options.out);
  const RunDirectory directory = claimed.run();
  if (const auto obstacle = point_latest_to(directory)) complain("warning: " + *obstacle);

  warm_up(worker, options.plan, directory.warm_log(), signals);

  Terminal terminal(stdout, options.terminal);
  terminal.explain(worker.listing.clauses);
  terminal.look_in(directory);
  const bool is_drawn = !options.seed && options.plan.order == Order::random;
  // without the seed, no user could repeat the run
  if (options.terminal.quiet && is_drawn) terminal.print(fmt::format("seed {}", options.plan.seed));
  terminal.note(heading(selected, options.plan, options.profile));
  reports::RunHead head = make_head(worker, selected, options.plan, argv);
  head.profile = profile.name;
  head.outside_profile = profile.outside;
  head.demands = asked.demands;
  head.waivers = asked.waivers;
  head.unknown_in_waivers = asked.unknown_in_waivers;
  const RunResult result = run_plan(worker, std::move(selected), directory, std::move(head), signals, terminal,
                                    options.persistence, options.attention);

  terminal.print(reports::summary(result.report, terminal.style()));
  if (const std::string text = text_of(feature_pairs(result.report, worker.listing.combinable)); !text.empty())
    terminal.note(text);
  std::optional<CommandError> search_ended_by;
  if (options.plan.generated && result.interrupted_by == 0) {
    const SmallestFailures smallest =
        find_smallest_failures(worker, options.plan, result.report, directory, signals, terminal);
    terminal.print(text_of(smallest));
    if (!smallest.found.empty()) search_ended_by = smallest.found.back().shrunk.ended_by;
  }
  if (result.is_written) terminal.note(fmt::format("report: {}", directory.report().string()));
  terminal.finish();  // the following text goes to another stream
  for (const std::string& error : {result.output_error, result.infrastructure_error}) {
    if (!error.empty()) complain(error);
  }
  if (result.interrupted_by != 0) {
    complain(result.is_written ? "interrupted; the report holds what was done until then"
                               : "interrupted; there is no report");
  } else {
    require_said(terminal.finish());
  }
  if (search_ended_by) {
    complain(fmt::format("{}; the report is complete, and some scenarios of failures could be smaller",
                         search_ended_by->what()));
    return search_ended_by->code();
  }
  return exit_code(result);
}

}  // namespace shardproof::launcher
