#include "launcher/run/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <span>

#include "harness/base/json_text.hpp"
#include "launcher/files/output.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/leftovers.hpp"
#include "launcher/process/machine.hpp"
#include "launcher/process/oom_kills.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/run/meeting_place.hpp"
#include "launcher/run/rank_processes.hpp"
#include "launcher/run/records.hpp"
#include "launcher/run/run_events.hpp"
#include "launcher/run/trace_files.hpp"
#include "launcher/run/world.hpp"
#include "launcher/worker_client/warm_process.hpp"
#include "reports/explain/causes.hpp"
#include "reports/export/failure_text.hpp"
#include "reports/export/terminal.hpp"
#include "reports/merge/merger.hpp"
#include "reports/model/waivers.hpp"

namespace shardproof::launcher {

using protocol::WorldPlan;

namespace {

std::size_t total_cases(const std::vector<WorldPlan>& worlds) {
  std::size_t total = 0;
  for (const WorldPlan& world : worlds) total += world.skipped.empty() ? world.cases.size() : 0;
  return total;
}

/// How the world ends after a case that did not pass, with the ids that a waiver excuses in this world.
protocol::FailFast fail_fast_for(const WorldPlan& world, const reports::RunHead& head, const CaseIndex& index) {
  const auto excused = [&](reports::Verdict verdict) {
    reports::Report report;
    report.head = head;
    report.worlds.push_back({.size = world.size, .fabric = world.fabric, .device = world.device});
    for (protocol::CaseInfo& info : index.find(world.cases))
      report.cases.push_back({.info = std::move(info), .verdict = verdict});
    reports::apply_waivers(report);
    std::set<std::string> ids;
    for (const reports::CaseResult& result : report.cases) {
      if (result.waiver >= 0) ids.insert(result.info.id);
    }
    return std::vector(ids.begin(), ids.end());
  };
  if (head.waivers.empty()) return {};
  return {.may_fail = excused(reports::Verdict::failed), .may_have_error = excused(reports::Verdict::error)};
}

class Run {
 public:
  Run(const Worker& worker, Plan plan, const protocol::RunDirectory& directory, reports::RunHead head,
      SignalWatch& signals, Terminal& terminal, const RetryOptions& retry, const MonitorOptions& monitor)
      : worker_(worker),
        directory_(directory),
        head_(std::move(head)),
        merger_(head_),
        signals_(signals),
        terminal_(terminal),
        retry_(retry),
        shows_failures_(monitor.failures),
        view_(monitor.view),
        events_(monitor.events),
        index_(worker.listing.cases),
        launch_{.worker = worker.program,
                .environment = worker.environment,
                .oom_kills = &oom_kills_,
                .warm = worker.warm.get(),
                .joining = monitor.debug >= 0 ? std::chrono::hours(24) : protocol::joining_limit,
                .debug = monitor.debug,
                .wrapper = monitor.wrapper,
                .launcher = plan.launcher,
                .gpus = plan.supply ? plan.supply->by_guards : std::nullopt,
                .join_timeout = plan.join_timeout,
                .host_silence = plan.host_silence,
                .output_of = monitor.output_of,
                .names_world = plan.jobs > 1,
                .print = [&terminal](const std::string& text) { terminal.print(text); },
                .notice = [&terminal](const std::string& line) { terminal.note(line); }},
        jobs_(static_cast<std::size_t>(plan.jobs)),
        supply_(std::move(plan.supply)),
        tap_(std::move(plan.tap)),
        tracker_(total_cases(plan.worlds), !head_.waivers.empty()),
        pending_(std::make_move_iterator(plan.worlds.begin()), std::make_move_iterator(plan.worlds.end())) {
    if (!retry_.fail_fast) return;
    for (WorldPlan& world : pending_) world.fail_fast = fail_fast_for(world, head_, index_);
  }

  RunResult run() {
    if (events_) {
      const auto more = [](std::size_t cases, const WorldPlan& world) { return cases + world.cases.size(); };
      events_->run_started(head_, pending_.size(),
                           std::accumulate(pending_.begin(), pending_.end(), std::size_t{0}, more), directory_);
    }
    try {
      write_own_file(directory_.run(), base::dump_document(head_) + "\n", 0);
      write_own_file(listing_file(directory_), worker_.listing_text, 0);
      // A merge needs the plans of worlds that this run does not live to begin.
      write_own_file(directory_.plan(),
                     base::dump_line(std::vector<WorldPlan>(pending_.begin(), pending_.end())) + "\n", 0);
      run_worlds();
    } catch (const CommandError& error) {
      // The results so far are kept.
      (error.code() == infrastructure ? result_.infrastructure_error : result_.output_error) = error.what();
    } catch (const std::exception& error) {
      result_.infrastructure_error = error.what();
    }
    if (begun_ > 0) end_leftovers(begun_ - 1, {});  // if the last world's end could not be recorded
    const std::string why = fmt::format("the run ended before this world: {}", reason_of_end());
    for (const WorldPlan& plan : pending_) {
      // For a case that waits for another attempt, its last attempt counts.
      if (plan.attempt == 0 && plan.skipped.empty()) {
        if (has_failed_fast_) add_left_out(merger_, plan, index_);
        else add_not_started(merger_, plan, index_, why);
      }
      if (!plan.skipped.empty()) skipped_.push_back(plan);
    }
    for (const WorldPlan& plan : skipped_) add_skipped(merger_, plan, index_);

    result_.report = merger_.finish();
    try {
      write_own_file(directory_.report(), [&](std::ostream& out) { reports::write_report(out, result_.report); }, 0);
      result_.is_written = true;
    } catch (const CommandError& error) {
      result_.output_error += fmt::format("{}{}", result_.output_error.empty() ? "" : "\n", error.what());
    }
    if (events_)
      events_->report_made(result_.report, result_.is_written ? directory_.report().string() : "", reason_of_end());
    return std::move(result_);
  }

 private:
  /// A world that runs.
  struct Active {
    WorldPlan plan;
    int number = 0;
    protocol::WorldDirectory directory;
    std::vector<std::string> gpus;  ///< lent to it by the pool
    std::unique_ptr<RunningWorld> world;
  };

  void run_worlds() {
    poller_.add(signals_.descriptor(), signal_key);
    try {
      for (begin_worlds(); !active_.empty(); begin_worlds()) handle_events();
    } catch (const std::exception& error) {
      end_worlds(error.what());
      throw;
    }
  }

  /// Begins as many worlds as may run at the same time, in the order of the plan. A world on GPUs needs GPUs that no
  /// running world has.
  void begin_worlds() {
    while (!is_ended_ && active_.size() < jobs_ && !pending_.empty()) {
      if (!pending_.front().skipped.empty()) {
        skipped_.push_back(std::move(pending_.front()));
        pending_.pop_front();
        continue;
      }
      std::vector<std::string> gpus;
      if (pool_) {
        auto lent = pool_->take(pending_.front().size);
        if (!lent) return;
        gpus = std::move(*lent);
      }
      begin_world(std::move(gpus));
    }
  }

  void begin_world(std::vector<std::string> gpus) {
    const int number = begun_++;
    if (active_.empty()) oom_kills_.forget();
    Active& one = active_.emplace_back(Active{.plan = std::move(pending_.front()),
                                              .number = number,
                                              .directory = directory_.world(number),
                                              .gpus = std::move(gpus)});
    pending_.pop_front();
    if (pool_)
      one.plan.environment =
          gpu_environment(one.gpus, supply_->listing.nccl, std::to_string(number), launch_.environment);
    if (launch_.gpus) {  // Guards find the GPUs. The plan may have the variables of an earlier world, with other GPUs.
      one.plan.environment.clear();
      one.plan.unfit_for_timing.clear();
    }
    try {
      if (tap_) {
        apply_tap(one.plan, *tap_, one.directory, launch_.environment);
        make_directory(one.directory.nccl());
      }
      const auto more = [](int ranks, const Active& other) { return ranks + other.plan.size; };
      allow_descriptors(std::accumulate(active_.begin(), active_.end(), 0, more), active_.size(),
                        !launch_.launcher.empty());
      std::vector<LiveView> views;
      if (auto view = terminal_.view(tracker_, one.plan)) views.push_back(std::move(*view));
      if (view_) views.push_back(*view_);
      if (events_) views.push_back(events_->view(number, one.plan, one.directory, index_, head_));
      one.world = start_world(one.plan, one.directory, launch_, std::move(views));
      if (events_) events_->world_started(number, one.plan);
      poller_.add(one.world->descriptor(), static_cast<std::uint64_t>(number));
    } catch (const std::exception& error) {
      add_not_started(merger_, one.plan, index_, error.what());
      active_.pop_back();
      throw;
    }
  }

  /// Waits for an event in one of the worlds, lets the world handle it, and takes the worlds that are over.
  void handle_events() {
    const auto first = std::ranges::min_element(active_, {}, [](const Active& one) { return one.world->deadline(); });
    const bool is_over = std::ranges::any_of(active_, [](const Active& one) { return one.world->is_over(); });
    const std::vector<std::uint64_t> ready =
        poller_.wait(is_over ? std::chrono::steady_clock::now() : first->world->deadline());
    const auto now = std::chrono::steady_clock::now();
    for (auto one = active_.begin(); one != active_.end();) {
      const auto next = std::next(one);
      const bool is_ready = std::ranges::find(ready, static_cast<std::uint64_t>(one->number)) != ready.end();
      if (is_ready || one->world->deadline() <= now) handle_events_of(one);
      one = next;
    }
    if (std::ranges::find(ready, signal_key) != ready.end()) handle_signals();
    while (true) {
      const auto ended = std::ranges::find_if(active_, [](const Active& one) { return one.world->is_over(); });
      if (ended == active_.end()) return;
      finish(ended);
    }
  }

  void handle_events_of(std::list<Active>::iterator one) {
    try {
      one->world->handle_events();
    } catch (const std::exception& error) {
      poller_.remove(one->world->descriptor());
      add_not_started(merger_, one->plan, index_, error.what());
      active_.erase(one);
      throw;
    }
  }

  void finish(std::list<Active>::iterator ended) {
    std::list<Active> done;
    done.splice(done.begin(), active_, ended);
    Active& one = done.front();
    poller_.remove(one.world->descriptor());
    WorldOutcome outcome = one.world->outcome();
    one.world.reset();
    if (pool_) pool_->give_back(one.gpus);
    record(one.plan, one.number, one.directory, std::move(outcome));
  }

  /// Handles signals of the user or of a batch system. All worlds end, and no other world begins.
  void handle_signals() {
    while (const auto number = signals_.take()) {
      if (result_.interrupted_by == 0) result_.interrupted_by = *number;
      end_run("it was interrupted");
      const std::string why =
          fmt::format("the launcher was interrupted by {}", describe(Exit{.signalled = true, .code = *number}));
      for (Active& one : active_) {
        if (!one.world->is_over()) one.world->interrupt(why);
      }
    }
  }

  /// Ends all worlds. Keeps their results so far, as far as possible after an error.
  void end_worlds(const std::string& why) {
    end_run(why);
    try {
      for (Active& one : active_) {
        if (!one.world->is_over()) one.world->interrupt(why);
      }
    } catch (const std::exception&) {  // the first error is the reported error
    }
    // A world that cannot be taken leaves the list. The other worlds remain in it.
    while (!active_.empty()) {
      const std::size_t before = active_.size();
      try {
        handle_events();
      } catch (const std::exception&) {
        if (active_.size() < before) continue;
        for (Active& one : active_) add_not_started(merger_, one.plan, index_, why);
        active_.clear();
      }
    }
  }

  void record(const WorldPlan& plan, int number, const protocol::WorldDirectory& directory, WorldOutcome outcome) {
    // The same would happen again only on the same file system.
    if (outcome.lacked_room && plan.on_disk) outcome.infrastructure_error = outcome.cut_short;
    if (result_.infrastructure_error.empty()) result_.infrastructure_error = outcome.infrastructure_error;
    add_world(merger_, plan, index_, outcome.evidence, directory);
    const bool was_left = outcome.complete && !merger_.cut_short().empty() && !merger_.is_cut_by_case();
    // A world that leaves before its first case ends would also do so when it is tried again.
    const std::size_t answered = merger_.answered();
    if (outcome.complete && !merger_.cut_short().empty() && answered > 0 && answered < plan.cases.size()) {
      outcome.complete = false;
      outcome.cut_short = merger_.cut_short();
    }
    // Before a fresh world's plan says where it continues this world's cases.
    write_evidence(directory, outcome.evidence);
    if (plan.fail_fast && !is_ended_) has_failed_fast_ = merger_.has_failed_fast();
    const bool is_last = !has_failed_fast_ && has_lost_too_many(outcome, was_left);
    if (!outcome.complete && !is_last && !has_failed_fast_) continue_plan(plan, number, outcome);

    std::size_t ended = 0, waived = 0;
    std::map<reports::Verdict, std::size_t> bad;  // without waived cases
    std::string failures;
    const std::span<const reports::CaseResult> results = merger_.close_world();
    if (events_)
      events_->world_ended(number, results, merger_.explanation(), outcome.complete ? "" : outcome.cut_short,
                           outcome.duration);
    for (const reports::CaseResult& result : results) {
      if (has_failed_fast_ && !is_ended_ && reports::is_unexcused_failure(result)) end_at_failure(result.info.id);
      ++ended;
      if (!reports::is_bad(result.verdict) || result.verdict == reports::Verdict::not_run) continue;
      ++(result.waiver >= 0 ? waived : bad[result.verdict]);
      // Shows only the first case of a cause. The summary counts the others.
      if (reports::has_own_text(result, terminal_.style()) &&
          (causes_.insert(reports::cause_of(result)).second || terminal_.style().verbose))
        failures += reports::failure_line(result, terminal_.style(), merger_.placement());
      if (result.attempt < retry_.retries) pending_.push_back(retry_of(plan, result.info.id));
    }
    std::size_t failed = 0;
    for (const auto& [verdict, count] : bad) failed += count;
    tracker_.world_ended(plan, plan.attempt == 0 ? ended : 0, failed, waived);
    terminal_.log(world_line(plan, number, outcome, ended, bad, waived));
    end_leftovers(number, directory.plan());
    // Ranks on a full disk cannot report that in a log on the same disk.
    if (!outcome.complete) require_writable(directory.logs());
    if (plan.trace) {
      for (const std::string& defect : merge_traces(directory))
        terminal_.print("warning: " + reports::printable_line(defect));
    }
    // The summary shows each cause in full. But a reader should see the names of known failures early.
    const bool waits = !is_ended_ && !pending_.empty() && std::chrono::steady_clock::now() - started_ > short_run;
    if (shows_failures_ && waits && !failures.empty()) terminal_.print(failures);
  }

  /// Ends the leftovers of world `number`, whose ranks had this plan. If no other world runs, ends the leftovers of all
  /// worlds.
  void end_leftovers(int number, const std::filesystem::path& plan) {
    const auto warn = [this](const std::string& whose, const std::vector<Leftover>& leftovers) {
      for (const Leftover& leftover : leftovers) {
        // The helpers of a command may end after it, as the srun of mpirun does. Guards report what ranks have left.
        if (!launch_.launcher.empty() && leftover.rank.empty() && leftover.is_gone) continue;
        terminal_.print(fmt::format("warning: {} left {}", whose, describe(leftover)));
      }
    };
    const std::string world = fmt::format("world {}", number);
    if (jobs_ > 1 && !plan.empty()) warn(world, leftovers_.end_of(plan));
    if (active_.empty()) warn(jobs_ > 1 ? "some world" : world, leftovers_.end());
  }

  /// Counts the worlds that a sick machine has cost: by a deadline, or because a rank could run no further case. Ends
  /// the run and returns true if there are too many.
  bool has_lost_too_many(const WorldOutcome& outcome, bool was_left) {
    lost_ += outcome.overran || was_left ? 1 : 0;
    const bool ends_anyway = !outcome.infrastructure_error.empty() && !outcome.overran;
    if (lost_ <= retry_.max_hangs || is_ended_ || outcome.interrupted || ends_anyway) return false;
    end_run(fmt::format("{} {} been lost to a deadline or to a rank that could not go on (--max-hangs)", lost_,
                        lost_ == 1 ? "world has" : "worlds have"));
    terminal_.print("the run ends here: " + why_ended_);
    return true;
  }

  /// Continues after a rank has ended its world, or after all ranks left it together because a rank can run no further
  /// case. A fresh world runs the rest of the plan, after the case in which this happened, unless that would end just
  /// as soon.
  void continue_plan(const WorldPlan& plan, int number, const WorldOutcome& outcome) {
    if (outcome.interrupted) {
      // The run ends.
    } else if (outcome.overran && !outcome.began) {
      // A rank did not join. Other worlds may run, and this one would wait as long for it again.
    } else if (!outcome.infrastructure_error.empty()) {
      end_run(outcome.infrastructure_error.substr(0, outcome.infrastructure_error.find('\n')));
    } else if (outcome.lacked_room) {
      // The last case that began is not to blame, and has no result.
      const std::size_t ended = outcome.began ? std::max<std::size_t>(merger_.answered(), 1) - 1 : 0;
      merger_.keep(ended);
      pending_.push_front(continuation(plan, number, ended));
      pending_.front().on_disk = true;
      terminal_.print(on_disk_text(directory_.world(number), outcome.cut_short));
    } else if (outcome.began) {
      const std::size_t answered = merger_.answered();
      merger_.keep(answered);
      if (answered < plan.cases.size()) pending_.push_front(continuation(plan, number, answered));
    }
  }

  /// Ends the run at this failed case: no world begins, and the worlds that run end.
  void end_at_failure(const std::string& id) {
    const std::string why = protocol::fail_fast_reason(id);
    end_run(why);
    for (Active& one : active_) {
      if (!one.world->is_over()) one.world->interrupt(why);
    }
    terminal_.print("the run ends here: " + why);
  }

  void end_run(const std::string& why) {
    if (is_ended_) return;
    is_ended_ = true;
    why_ended_ = why;
  }

  static std::string world_line(const WorldPlan& plan, int number, const WorldOutcome& outcome, std::size_t cases,
                                const std::map<reports::Verdict, std::size_t>& bad, std::size_t waived) {
    std::string line =
        fmt::format("world {}: {} rank{}{}, {} case{}", number, plan.size, plan.size == 1 ? "" : "s",
                    plan.fabric == protocol::thread_fabric ? " on threads" : "", cases, cases == 1 ? "" : "s");
    if (plan.attempt > 0) line += fmt::format(", attempt {}", plan.attempt + 1);
    if (waived > 0) line += fmt::format(", {} waived", waived);
    for (const auto& [verdict, count] : bad) line += fmt::format(", {} {}", count, to_string(verdict));
    if (!outcome.complete) line += ", ended early: " + outcome.cut_short;
    return line + fmt::format(" ({:.2f} s)", std::chrono::duration<double>(outcome.duration).count());
  }

  std::string reason_of_end() const {
    if (!result_.output_error.empty()) return result_.output_error;
    if (!why_ended_.empty()) return why_ended_;
    return result_.infrastructure_error.substr(0, result_.infrastructure_error.find('\n'));
  }

  static constexpr std::chrono::seconds short_run{5};
  /// The poller's key for signals. The key of a world is its number.
  static constexpr std::uint64_t signal_key = ~std::uint64_t{0};

  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  const Worker& worker_;
  const protocol::RunDirectory& directory_;
  reports::RunHead head_;
  reports::Merger merger_;
  SignalWatch& signals_;
  Terminal& terminal_;
  const RetryOptions retry_;
  const bool shows_failures_;
  const std::optional<LiveView> view_;
  RunEvents* const events_;  ///< nullptr: no program follows the run
  CaseIndex index_;
  OomKills oom_kills_;
  const WorldLaunch launch_;
  const std::size_t jobs_;  ///< worlds that may run at the same time
  const std::optional<GpuSupply> supply_;
  const std::optional<NcclTap> tap_;
  /// Empty: ranks run on no GPU, or guards find the GPUs.
  std::optional<GpuPool> pool_ = supply_ && !supply_->by_guards ? std::optional<GpuPool>(*supply_) : std::nullopt;
  Poller poller_;
  ProgressTracker tracker_;
  Leftovers leftovers_{worker_.started};
  int begun_ = 0;
  int lost_ = 0;
  std::set<std::string> causes_;  // causes of failures that have been shown
  bool is_ended_ = false;
  bool has_failed_fast_ = false;  ///< --fail-fast has ended the run
  std::string why_ended_;
  std::deque<WorldPlan> pending_;
  std::vector<WorldPlan> skipped_;
  std::list<Active> active_;
  RunResult result_;
};

}  // namespace

RunResult run_plan(const Worker& worker, Plan plan, const protocol::RunDirectory& directory, reports::RunHead head,
                   SignalWatch& signals, Terminal& terminal, const RetryOptions& retry, const MonitorOptions& monitor) {
  head.run_id = directory.root.filename().string();
  return Run(worker, std::move(plan), directory, std::move(head), signals, terminal, retry, monitor).run();
}

int exit_code(const RunResult& result) {
  if (result.interrupted_by != 0) return 128 + result.interrupted_by;
  if (!result.output_error.empty()) return usage;
  if (!result.infrastructure_error.empty()) return infrastructure;
  return reports::exit_code(result.report);
}

namespace {

// The worker knows a kind that it has cases for, even if it reads no document of the kind.
std::vector<std::string> unknown_kinds(const protocol::SubjectInfo& subject, const protocol::Listing& listing) {
  if (listing.engine_kinds.empty()) return {};  // an older worker does not say
  std::set<std::string> known(listing.engine_kinds.begin(), listing.engine_kinds.end());
  for (const protocol::CaseInfo& info : listing.cases) known.insert(info.engine);
  std::vector<std::string> unknown;
  for (const protocol::ClaimInfo& claim : subject.claims) {
    if (!known.contains(claim.engine)) unknown.push_back(claim.engine);
  }
  return unknown;
}

}  // namespace

reports::RunHead make_head(const Worker& worker, const Plan& plan, const PlanOptions& options,
                           const std::vector<std::string>& argv) {
  reports::RunHead head;
  head.started = utc_text(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
  head.argv = argv;
  head.seed = options.seed;
  head.suite_version = worker.listing.suite_version;
  std::error_code deleted;  // then the path is empty
  head.git_commit = git_commit(std::filesystem::current_path(deleted));
  head.subject = plan.worlds.empty() ? options.subject : plan.worlds.front().subject;
  const auto subject = std::ranges::find(worker.listing.subjects, head.subject, &protocol::SubjectInfo::name);
  if (subject != worker.listing.subjects.end()) {
    head.subject_version = subject->version;
    head.unknown_kinds = unknown_kinds(*subject, worker.listing);
  }
  head.fault = options.fault;
  if (worker.warm) head.warnings = worker.warm->warnings();
  head.partial = plan.partial;
  head.machine = machine_facts();
  if (plan.supply) {
    head.machine.merge(gpu_facts(plan.supply->listing));
    if (std::string driver = driver_version(); !driver.empty()) head.machine["driver"] = std::move(driver);
    head.gpus = plan.supply->listing.gpus;
  }
  head.environment = recorded_environment(worker.environment);
  head.repeat = options.repeat;
  return head;
}

}  // namespace shardproof::launcher
