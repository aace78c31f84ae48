// `shardproof faults`: is every deliberate defect noticed by a case whose clause it breaks?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "harness/base/json_text.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/kill_matrix.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/shared_options.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/machine.hpp"
#include "launcher/run/demands.hpp"
#include "launcher/run/preparation.hpp"
#include "launcher/run/run.hpp"
#include "launcher/worker_client/profile.hpp"
#include "reports/export/columns.hpp"

namespace shardproof::launcher {

using protocol::CaseInfo;

namespace {

constexpr HelpText faults_help{
    .name = "faults",
    .summary = "Run the cases on broken engines: a case has to notice each fault.",
    .examples =
        "    shardproof faults overlap                    one suite, on each fault that it can notice\n"
        "    shardproof faults --worker ./my_tests        the faults of your own program\n"
        "    shardproof faults overlap --out matrix       keep the report of each run\n",
    .arguments = "[FILTER...]",
    .footer =
        "Filters:\n"
        "    A filter is a suite, a case id, a glob over ids (* and ?), or a [tag].\n"
        "    The command runs each case that at least one filter selects. Without filters, it runs all.\n"
        "    After the word --, each word is a filter.\n"
        "\n"
        "Exit codes, the first that applies:\n"
        "    128+N  Signal N interrupted the command.\n"
        "    2      The command line is wrong, no case is selected, or output cannot be written.\n"
        "    3      The worker failed, or its ranks did not meet.\n"
        "    4,5,1  Not all cases pass without a fault. The codes are those of `run`.\n"
        "    1      No selected case noticed a fault, although a case checks one of its clauses.\n"
        "    0      Cases noticed each fault, except faults of which all cases were skipped."};

/// Runs of the same worker, one after the other. Each run has its own directory below `place`.
class FaultRuns {
 public:
  FaultRuns(const Worker& worker, ChosenProfile profile, std::filesystem::path place,
            const std::vector<std::string>& argv, SignalWatch& signals)
      : worker_(worker),
        profile_(std::move(profile)),
        place_(std::move(place)),
        argv_(argv),
        signals_(signals),
        silent_(stderr, {.quiet = true}) {}

  struct Result {
    reports::Report report;
    /// The run covers only a part: it could not begin, ranks could not do their work, or the user ended it.
    std::optional<CommandError> ended_by;
  };

  /// `view` shows the progress while ranks run.
  Result run(const PlanOptions& options, const std::string& name, std::optional<LiveView> view,
             std::vector<reports::Waiver> waivers = {}) try {
    Plan selected = plan(worker_.listing, options);
    const ClaimedDirectory claimed({.directory = place_ / name});
    const protocol::RunDirectory directory = claimed.run();
    reports::RunHead head = make_head(worker_, selected, options, argv_);
    head.profile = profile_.name;
    head.outside_profile = profile_.outside;
    head.waivers = std::move(waivers);
    RunResult result = run_plan(worker_, std::move(selected), directory, std::move(head), signals_, silent_, {},
                                {.view = std::move(view)});
    return {.report = std::move(result.report), .ended_by = why_ended(result, name)};
  } catch (const CommandError& error) {
    return {.report = {}, .ended_by = error};
  }

 private:
  static std::optional<CommandError> why_ended(const RunResult& result, const std::string& name) {
    if (!result.output_error.empty()) return CommandError(usage, result.output_error);
    if (!result.infrastructure_error.empty())
      return CommandError(infrastructure, fmt::format("{}: {}", name, result.infrastructure_error));
    if (result.interrupted_by != 0)
      return CommandError(static_cast<ExitCode>(128 + result.interrupted_by), "interrupted");
    return std::nullopt;
  }

  const Worker& worker_;
  ChosenProfile profile_;
  std::filesystem::path place_;
  const std::vector<std::string>& argv_;
  SignalWatch& signals_;
  Terminal silent_;
};

/// How far the command has come. The remaining time is estimated from the cases that were run, with a fault or without.
class FaultsProgress {
 public:
  FaultsProgress(std::size_t cases, const std::vector<std::vector<CaseInfo>>& related) : total_cases_(cases) {
    for (const std::vector<CaseInfo>& of_fault : related) total_cases_ += of_fault.size();
    progress_.what = "faults";
    progress_.total = related.size();
  }

  void run_begins(const std::string& name) {
    progress_.running = name;
    since_ = std::chrono::steady_clock::now();
  }
  void run_ended(std::size_t cases, bool has_fault) {
    progress_.done += has_fault ? 1 : 0;
    done_cases_ += cases;
    progress_.running.clear();
    spent_ += std::chrono::steady_clock::now() - since_;
  }
  RunProgress now() const {
    RunProgress progress = progress_;
    progress.running_for = std::chrono::steady_clock::now() - since_;
    progress.left = time_left(spent_, done_cases_, total_cases_);
    return progress;
  }

 private:
  RunProgress progress_;
  std::size_t done_cases_ = 0, total_cases_;
  std::chrono::nanoseconds spent_{0};  ///< by runs that have ended
  std::chrono::steady_clock::time_point since_;  ///< start of the running or last run
};

/// The run of all cases on the subject as it is.
constexpr char without_fault[] = "clean";

std::vector<std::string> ids(const std::vector<CaseInfo>& cases) {
  std::vector<std::string> result;
  for (const CaseInfo& info : cases) result.push_back(info.id);
  return result;
}

std::string cases_text(std::size_t count) { return fmt::format("{} case{}", count, count == 1 ? "" : "s"); }

/// The first few names, or all if asked for.
std::string names_text(const std::vector<std::string>& names, bool all) {
  constexpr std::size_t shown = 3;
  if (all || names.size() <= shown + 1) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more (--verbose names them)", fmt::join(names.begin(), names.begin() + shown, ", "),
                     names.size() - shown);
}

std::vector<CaseInfo> selected_cases(const protocol::Listing& listing, const PlanOptions& options) {
  std::vector<CaseInfo> cases = select_cases(listing, options);
  plan(listing, options);  // throws if another option is wrong
  std::erase_if(cases, [&](const CaseInfo& info) {
    return options.supply && !why_too_large(*options.supply, info.world_size).empty();
  });
  return cases;
}

/// The faults that the run judges. It does not judge a fault for which the selection has no case. All cases together
/// judge all faults: a fault that no case checks survives.
struct Judged {
  std::vector<protocol::FaultInfo> faults;
  std::vector<std::string> left_out;
};

Judged judged_by(const std::vector<CaseInfo>& cases, const protocol::Listing& listing) {
  Judged judged;
  for (const protocol::FaultInfo& fault : listing.faults) {
    if (lacks_usual_cases(cases, listing) && related_cases(fault, cases).empty()) {
      judged.left_out.push_back(fault.name);
    } else {
      judged.faults.push_back(fault);
    }
  }
  return judged;
}

class FaultsCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return faults_help; }

  void declare(OptionDeclarations& options) override {
    declare_profile(options, profile_, "the worker's first profile");
    declare_plan(options, plan_, texts_);
    declare_worker(options, worker_, "the cases from");
    options.value(demand_group, "--waivers", waivers_, "FILE",
                  "Excuse the failures in this file. They occur without a fault, too (docs/skips-and-waivers.md).");
    declare_out(options, out_, keep_text);
    options.flag(terminal_group, "--json", json_, "Print JSON.");
    declare_terminal(options, terminal_, color_);
  }

  void convert(const Arguments& arguments) override {
    require_placement(convert_plan(arguments, texts_, plan_));
    terminal_.color = convert_color(color_);
  }

  int run(const std::vector<std::string>& argv) override {
    SignalWatch signals;
    Worker worker = find_subject(plan_, worker_, signals);
    if (worker.listing.faults.empty()) throw CommandError(usage, "the worker has no faults");
    reports::RunHead requested;
    apply_demands(requested, {.waivers = waivers_}, &worker.listing);
    const ChosenProfile profile = keep_profile(worker.listing, profile_, plan_.filters);
    find_gpus(worker, plan_, signals);
    const std::vector<CaseInfo> cases = selected_cases(worker.listing, plan_);
    const Judged judged = judged_by(cases, worker.listing);
    if (judged.faults.empty())
      throw CommandError(usage, "no selected case checks a clause that a fault breaks (`shardproof list --clauses`)");
    plan_.ranks.clear();
    plan_.cores = usable_cores();

    Terminal terminal(json_ ? stderr : stdout, terminal_);
    const bool keep = !out_.directory.empty();
    const rendezvous::RendezvousDirectory scratch = rendezvous::RendezvousDirectory::make(1);
    const ClaimedDirectory claimed(keep ? out_ : OutputOptions{.directory = scratch.path() / "runs"});
    const protocol::RunDirectory place = claimed.run();
    warm_up(worker, plan_, place.warm_log(), signals);
    FaultRuns runs(worker, profile, place.root, argv, signals);

    PlanOptions one = plan_;
    one.filters = ids(cases);
    terminal.note(fmt::format("without a fault: {}; the table has those that check a clause of a fault",
                              cases_text(cases.size())));
    std::vector<std::vector<CaseInfo>> related;  // by fault
    for (const protocol::FaultInfo& fault : judged.faults) related.push_back(related_cases(fault, cases));
    FaultsProgress progress(cases.size(), related);
    const std::optional<LiveView> view = terminal.view([&progress] { return progress.now(); });
    progress.run_begins("without a fault");
    const FaultRuns::Result clean = runs.run(one, without_fault, view, requested.waivers);
    progress.run_ended(cases.size(), false);
    const int clean_code = reports::exit_code(clean.report);
    if (keep) terminal.show_files_of({place.root / without_fault});
    else terminal.keep_nothing();
    if (clean.ended_by || clean_code != all_passed) terminal.print(reports::summary(clean.report, terminal.style()));

    std::optional<CommandError> ended_by = clean.ended_by;
    std::vector<protocol::FaultInfo> tried;
    std::vector<reports::Report> faulty;
    for (std::size_t i = 0; i < judged.faults.size() && !ended_by; ++i) {
      const protocol::FaultInfo& fault = judged.faults[i];
      if (terminal_.verbose)
        terminal.note(
            fmt::format("{}: {} with {}", fault.name, cases_text(related[i].size()), fmt::join(fault.clauses, " or ")));
      progress.run_begins(fault.name);
      terminal.show_progress(progress.now());
      one.filters = ids(related[i]);
      one.fault = fault.name;
      FaultRuns::Result result = related[i].empty() ? FaultRuns::Result() : runs.run(one, fault.name, view);
      progress.run_ended(related[i].size(), true);
      ended_by = std::move(result.ended_by);
      if (ended_by) break;  // the result of its other cases is unknown
      tried.push_back(fault);
      faulty.push_back(std::move(result.report));
    }

    const KillMatrix matrix = kill_matrix(tried, cases, clean.report, faulty);
    if (json_) {
      print_output(base::dump_document(to_json(matrix)) + "\n");
    } else {
      if (!ended_by || !tried.empty()) terminal.print(to_text(matrix, terminal.color()));
      if (!matrix.all_killed() && cases.size() < worker.listing.cases.size())
        terminal.print(
            "only some of the cases were selected: a fault that is alive here may be killed by cases that were not "
            "selected");
      if (!judged.left_out.empty())
        terminal.print(reports::fitted("not checked, as no selected case has a clause of theirs: " +
                                       names_text(judged.left_out, terminal_.verbose)));
    }
    if (keep) terminal.note(fmt::format("reports: {}", std::filesystem::absolute(out_.directory).string()));
    if (ended_by) {
      terminal.finish();
      print_error(fmt::format("{}; tried until then: {} of {} fault{}", ended_by->what(), tried.size(),
                              judged.faults.size(), judged.faults.size() == 1 ? "" : "s"));
      return ended_by->code();
    }
    if (!json_) require_printed(terminal.finish());
    // The result without a fault comes first: with a broken subject, no fault can be judged.
    if (clean_code != all_passed) return clean_code;
    return matrix.all_killed() ? all_passed : case_failed;
  }

 private:
  WorldTexts texts_;
  PlanOptions plan_;
  std::string profile_;  ///< empty: the worker's first
  std::filesystem::path waivers_;  ///< of cases that do not pass without a fault; empty: no waivers
  std::filesystem::path worker_;
  OutputOptions out_;  ///< empty: the command keeps no output
  bool json_ = false;
  ColorText color_;
  TerminalOptions terminal_;
};

}  // namespace

std::unique_ptr<Subcommand> make_faults_command() { return std::make_unique<FaultsCommand>(); }

}  // namespace shardproof::launcher
