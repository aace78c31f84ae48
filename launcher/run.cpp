#include "launcher/run.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/protocol/json_text.hpp"
#include "launcher/launcher.hpp"
#include "launcher/machine.hpp"
#include "launcher/output.hpp"
#include "launcher/records.hpp"
#include "launcher/trace_files.hpp"
#include "launcher/world.hpp"
#include "reports/merger.hpp"

namespace shardproof::launcher {
namespace {

std::size_t total_cases(const std::vector<WorldPlan>& worlds) {
  std::size_t total = 0;
  for (const WorldPlan& world : worlds) total += world.cases.size();
  return total;
}

class Run {
 public:
  Run(const Worker& worker, Plan plan, const RunDirectory& directory, reports::RunHead head, SignalWatch& signals, Terminal& terminal)
      : worker_(worker),
        directory_(directory),
        head_(std::move(head)),
        merger_(head_),
        signals_(signals),
        terminal_(terminal),
        index_(worker.listing.cases),
        tracker_(total_cases(plan.worlds)),
        pending_(std::make_move_iterator(plan.worlds.begin()), std::make_move_iterator(plan.worlds.end())) {}

  RunResult run() {
    try {
      write_file(directory_.run(), dump_document(head_) + "\n");
      write_file(listing_file(directory_), worker_.listing_text);
      // A merge has to know of worlds that this run does not live to begin.
      write_file(directory_.plan(), dump_line(std::vector<WorldPlan>(pending_.begin(), pending_.end())) + "\n");
      run_worlds();
    } catch (const CommandError& error) {
      // What was done until now is not lost with it.
      (error.code() == infrastructure ? result_.infrastructure_error : result_.output_error) = error.what();
    } catch (const std::exception& error) {
      result_.infrastructure_error = error.what();
    }
    const std::string why = fmt::format("the run ended before this world: {}", reason_of_end());
    for (const WorldPlan& plan : pending_) add_not_started(merger_, plan, index_, why);

    result_.report = merger_.finish();
    try {
      write_file(directory_.report(), [&](std::ostream& out) { reports::write_report(out, result_.report); });
    } catch (const CommandError& error) {
      if (result_.output_error.empty()) result_.output_error = error.what();
    }
    return std::move(result_);
  }

 private:
  void run_worlds() {
    while (!pending_.empty()) {
      WorldPlan plan = std::move(pending_.front());
      pending_.pop_front();
      const WorldDirectory directory = directory_.world(begun_++);
      WorldOutcome outcome;
      try {
        outcome = run_world(plan, directory, {.worker = worker_.program, .environment = worker_.environment}, signals_,
                            terminal_.view(tracker_, plan));
      } catch (const std::exception& error) {
        add_not_started(merger_, plan, index_, error.what());
        throw;
      }
      take(plan, directory, outcome);
      // A world that lost a rank ends the run. What its plan still holds behind the case that ended it would make a fresh world here.
      if (!outcome.complete) break;
    }
  }

  void take(const WorldPlan& plan, const WorldDirectory& directory, const WorldOutcome& outcome) {
    result_.infrastructure_error = outcome.infrastructure_error;
    result_.interrupted_by = outcome.interrupted_by;
    result_.rank_died = !outcome.complete && outcome.interrupted_by == 0;
    const WorldTally tally = add_world(merger_, plan, index_, outcome.remains, directory);
    tracker_.world_ended(plan.cases.size(), tally.failed);
    terminal_.log(world_line(plan, outcome, tally.failed));
    write_remains(directory, outcome.remains);
    // Ranks that run out of disk cannot say so in a log on that disk.
    if (!outcome.complete) require_writable(directory.logs());
    if (plan.trace) {
      for (const std::string& defect : merge_traces(directory)) terminal_.print("warning: " + defect);
    }
    // All failures come with the summary; nobody should have to wait long for those that are known.
    const bool waits = outcome.complete && !pending_.empty() && std::chrono::steady_clock::now() - started_ > short_run;
    if (tally.failed > 0 && waits) show_failures(plan, directory, outcome);
  }

  /// In full, while the other worlds run.
  void show_failures(const WorldPlan& plan, const WorldDirectory& directory, const WorldOutcome& outcome) {
    reports::Merger one(head_);
    add_world(one, plan, index_, outcome.remains, directory);
    const reports::Report report = one.finish();
    for (const reports::CaseResult& result : report.cases) {
      if (reports::is_bad(result.verdict)) terminal_.print(reports::failure_text(result, report, terminal_.style()));
    }
  }

  std::string world_line(const WorldPlan& plan, const WorldOutcome& outcome, std::size_t failed) const {
    std::string line = fmt::format("world {}: {} rank{}, {} case{}", begun_ - 1, plan.size, plan.size == 1 ? "" : "s", plan.cases.size(),
                                   plan.cases.size() == 1 ? "" : "s");
    if (failed > 0) line += fmt::format(", {} failed", failed);
    if (!outcome.complete) line += ", ended early: " + outcome.cut_short;
    return line + fmt::format(" ({:.2f} s)", std::chrono::duration<double>(outcome.duration).count());
  }

  std::string reason_of_end() const {
    if (!result_.output_error.empty()) return result_.output_error;
    if (!result_.infrastructure_error.empty()) return result_.infrastructure_error.substr(0, result_.infrastructure_error.find('\n'));
    return result_.interrupted_by != 0 ? "it was interrupted" : "a rank of an earlier world died or overran its deadline";
  }

  static constexpr std::chrono::seconds short_run{5};

  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  const Worker& worker_;
  const RunDirectory& directory_;
  reports::RunHead head_;
  reports::Merger merger_;
  SignalWatch& signals_;
  Terminal& terminal_;
  CaseIndex index_;
  ProgressTracker tracker_;
  int begun_ = 0;
  std::deque<WorldPlan> pending_;
  RunResult result_;
};

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

}  // namespace

RunResult run_plan(const Worker& worker, Plan plan, const RunDirectory& directory, reports::RunHead head, SignalWatch& signals,
                   Terminal& terminal) {
  head.run_id = directory.root.filename().string();
  return Run(worker, std::move(plan), directory, std::move(head), signals, terminal).run();
}

int exit_code(const RunResult& result, std::optional<std::size_t> allowed_skips) {
  if (result.interrupted_by != 0) return 128 + result.interrupted_by;
  if (!result.output_error.empty()) return usage;
  if (!result.infrastructure_error.empty()) return infrastructure;
  if (result.rank_died) return crashed_or_hung;
  return reports::exit_code(result.report, allowed_skips);
}

reports::RunHead make_head(const Worker& worker, const Plan& plan, const PlanOptions& options, const std::vector<std::string>& argv) {
  reports::RunHead head;
  head.started = utc_now();
  head.argv = argv;
  head.seed = options.seed;
  head.suite_version = worker.listing.suite_version;
  head.git_commit = git_commit(std::filesystem::current_path());
  head.subject = plan.worlds.empty() ? options.subject : plan.worlds.front().subject;
  const auto subject = std::ranges::find(worker.listing.subjects, head.subject, &SubjectInfo::name);
  if (subject != worker.listing.subjects.end()) head.subject_version = subject->version;
  head.fault = options.fault;
  head.partial = plan.partial;
  head.machine = machine_facts();
  head.environment = recorded_environment(worker.environment);
  head.repeat = options.repeat;
  return head;
}

}  // namespace shardproof::launcher
