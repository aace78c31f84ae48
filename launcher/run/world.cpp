#include "launcher/run/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "harness/base/json_text.hpp"
#include "harness/control/control_page.hpp"
#include "harness/protocol/flight_record.hpp"
#include "harness/rendezvous/file_store.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/process/oom_kills.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/process/random_token.hpp"
#include "launcher/run/blame.hpp"
#include "launcher/run/case_clock.hpp"
#include "launcher/run/crash_evidence.hpp"
#include "launcher/run/evidence.hpp"
#include "launcher/run/foreign_ranks.hpp"
#include "launcher/run/meeting_place.hpp"
#include "launcher/run/rank_processes.hpp"
#include "launcher/run/ranks.hpp"
#include "launcher/run/running_ranks.hpp"
#include "launcher/run/supervisor.hpp"
#include "launcher/terminal/duration_text.hpp"
#include "launcher/terminal/log_tail.hpp"
#include "reports/explain/explanation.hpp"

namespace shardproof::launcher {

using control::Deadline;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The keys from here on belong to the evidence of ranks that hang. The keys below are rank numbers.
constexpr std::uint64_t evidence_keys = std::uint64_t{1} << 32;
/// The key of the process that reads the records of crashes.
constexpr std::uint64_t crash_key = ~std::uint64_t{0};

/// The time between two reads of the ranks' output.
constexpr milliseconds tail_interval{50};

/// Does the I/O of a supervised world: reports events to the supervisor, and carries out its actions.
class SupervisedWorld final : public RunningWorld {
 public:
  SupervisedWorld(MeetingPlace place, protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                  const WorldLaunch& launch, std::vector<LiveView> views)
      : rendezvous_(std::move(place.directory)),
        plan_(plan),
        directory_(directory),
        launch_(launch),
        page_(std::move(place.page)),
        clock_(plan, page_, launch.joining),
        ranks_(make_ranks(plan)),
        supervisor_(plan.size),
        tail_(directory, launch.output_of, plan.size, ranks_->is_one_process(), launch.names_world) {
    start();
    // Not at once: most worlds end before a user could read a line about them.
    for (LiveView& view : views) {
      const Deadline next = Clock::now() + view.interval;
      views_.push_back({.view = std::move(view), .next = next});
    }
    if (!launch_.output_of.empty()) next_tail_ = Clock::now();
  }

  int descriptor() const override { return poller_.descriptor(); }

  Deadline deadline() const override {
    Deadline first = std::min(ranks_->deadline(), next_tail_);
    first = std::min(first, ranks_->all_have_ended() ? crash_deadline() : supervisor_.deadline());
    for (const TimedView& timed : views_) first = std::min(first, timed.next);
    return first;
  }

  bool is_over() const override { return ranks_->is_over() && crashes_ && crashes_->done(); }

  void handle_events() override {
    const std::vector<std::uint64_t> ready = poller_.wait(Clock::now());
    report_ended(ready);
    if (supervisor_.phase() == Supervisor::Phase::collecting_evidence && !crashes_) continue_evidence(ready);
    const Deadline now = Clock::now();
    if (ranks_->all_have_ended()) crash_evidence().advance(ready, now);
    else if (now >= supervisor_.deadline()) carry_out(supervisor_.deadline_passed(now));
    for (TimedView& timed : views_) {
      if (now < timed.next) continue;
      timed.view.show(page_);
      timed.next = now + timed.view.interval;
    }
    if (now >= next_tail_) {
      print(tail_.more(false));
      next_tail_ = now + tail_interval;
    }
  }

  void interrupt(const std::string& why) override {
    if (ranks_->all_have_ended()) {
      ranks_->signal_all(SIGKILL);  // ends what is left of a command
      crash_evidence().stop(why);
    } else carry_out(supervisor_.interrupted(why, Clock::now()));
  }

  WorldOutcome outcome() override {
    print(tail_.more(true));
    carry_out(supervisor_.ended());
    bool began = false;
    for (const RankView& rank : all_views())
      began = began || rank.progress.position >= 0 || rank.progress.cases_ended > 0;
    return {.evidence = {.endings = supervisor_.endings(), .flight = std::move(flight_), .defects = {}},
            .complete = !supervisor_.is_ending(),
            .began = began,
            .overran = supervisor_.doom_reason() == control::AbortReason::deadline,
            .lacked_room = supervisor_.doom_reason() == control::AbortReason::no_room,
            .cut_short = supervisor_.doom_text(),
            .infrastructure_error = supervisor_.infrastructure_error(directory_.logs().string()),
            .interrupted = supervisor_.is_interrupted(),
            .duration = Clock::now() - started_};
  }

 private:
  struct TimedView {
    LiveView view;
    Deadline next;  ///< the next time to show it
  };

  std::unique_ptr<Ranks> make_ranks(protocol::WorldPlan& plan) {
    if (launch_.launcher.empty()) return std::make_unique<RankProcesses>(plan_, directory_, launch_, poller_);
    return std::make_unique<ForeignRanks>(plan, directory_, launch_, page_, poller_);
  }

  // -- Events ---------------------------------------------------------------------------------------------------------

  void start() {
    const auto failure = ranks_->start();
    if (failure) return carry_out(supervisor_.start_failed(failure->rank, failure->why, Clock::now()));
    clock_.start(Clock::now());
    supervisor_.started(clock_.check([](int) { return false; }, Clock::now()).next);
  }

  void report_ended(const std::vector<std::uint64_t>& ready) {
    if (ranks_->shows_end(ready)) evidence_.reset();  // while the process numbers still belong to the suspects
    for (const auto& [rank, end, guard_saw_kill, reason, was_asked] : ranks_->collect(ready)) {
      const bool lacked_memory = guard_saw_kill || was_killed_for_memory(end);
      // A rank that gives up ends its world itself. This launcher may see the end of other ranks first.
      if (const auto abort = page_.doomed()) carry_out(supervisor_.doom_seen(*abort, Clock::now()));
      if (ranks_->is_one_process())
        carry_out(supervisor_.process_ended(end, all_views(lacked_memory), running_ranks(page_), Clock::now()));
      else carry_out(supervisor_.rank_ended(rank, end, view(rank, lacked_memory, reason, was_asked), Clock::now()));
    }
    if (const Ranks::Unstarted unstarted = ranks_->take_unstarted(); !unstarted.ranks.empty())
      carry_out(supervisor_.ranks_unstarted(unstarted.ranks, unstarted.why, unstarted.output, Clock::now()));
  }

  void continue_evidence(const std::vector<std::uint64_t>& ready) {
    const Deadline now = Clock::now();
    if (evidence_) evidence_->advance(ready, now);
    std::optional<Deadline> until = ranks_->evidence_deadline();
    if (evidence_ && !evidence_->done()) until = evidence_->deadline();
    carry_out(supervisor_.evidence_progressed(until, now));
  }

  /// Begins when all ranks have ended.
  CrashEvidence& crash_evidence() {
    if (!crashes_) {
      std::vector<protocol::Ending> endings = supervisor_.endings();
      std::erase_if(endings, [this](const protocol::Ending& ending) { return ranks_->guard_saw_end(ending.rank); });
      crashes_.emplace(plan_, directory_, endings, poller_, crash_key);
    }
    return *crashes_;
  }

  Deadline crash_deadline() const {
    if (!crashes_) return started_;
    return crashes_->done() ? Deadline::max() : crashes_->deadline();
  }

  void check_ranks() {
    const Deadline now = Clock::now();
    const CaseClock::Check check = clock_.check([this](int rank) { return ranks_->is_alive(rank); }, now);
    const bool is_running = supervisor_.phase() == Supervisor::Phase::running;
    if (is_running && check.slow && launch_.notice) report_slow(*check.slow);
    const bool is_blaming = !is_running && !check.overdue.empty();
    carry_out(supervisor_.ranks_checked(check.overdue, is_blaming ? overruns(check.overdue) : std::vector<Overrun>(),
                                        check.next, now));
  }

  bool was_killed_for_memory(const Exit& end) const {
    const bool is_own_signal = supervisor_.phase() == Supervisor::Phase::killing;
    return end == Exit{.signalled = true, .code = SIGKILL} && !is_own_signal && launch_.oom_kills != nullptr &&
           launch_.oom_kills->take();
  }

  RankView view(int rank, bool lacked_memory, const std::string& reason = {}, bool was_asked = false) const {
    return {.progress = page_.progress(rank),
            .place = clock_.place(rank),
            .lacked_memory = lacked_memory,
            .reason = reason,
            .was_asked = was_asked};
  }

  std::vector<RankView> all_views(bool lacked_memory = false) const {
    std::vector<RankView> views;
    for (int rank = 0; rank < plan_.size; ++rank) views.push_back(view(rank, lacked_memory));
    return views;
  }

  /// The ranks to blame, with what they have not done.
  std::vector<Overrun> overruns(const std::vector<int>& overdue) const {
    const std::vector<int> guilty =
        find_culprits({.waits = protocol::waits(flight_->ranks),
                       .overdue = overdue,
                       .alive = alive(*ranks_, plan_.size),
                       .turn = page_.turn(),
                       .is_absent = [this](int rank) { return page_.progress(rank).pid == 0; }});
    std::vector<Overrun> overruns;
    for (const int rank : guilty) {
      const bool is_overdue = std::ranges::find(overdue, rank) != overdue.end();
      overruns.push_back({.rank = rank,
                          .text = is_overdue ? clock_.overrun_text(rank)
                                             : fmt::format("has kept others waiting {}", clock_.place(rank)),
                          .progress = page_.progress(rank)});
    }
    return overruns;
  }

  // -- Actions -------------------------------------------------------------------------------------------------------

  void carry_out(const Actions& actions) {
    for (const Action& action : actions) std::visit([this](const auto& one) { carry_out(one); }, action);
  }

  void carry_out(action::CheckRanks) { check_ranks(); }

  void carry_out(action::KeepFlightRecords keep) {
    if (keep.anew || !flight_) flight_ = take_flight();
  }

  void carry_out(action::KeepLaterProgress) {
    for (const protocol::FlightRecord& record : flight_records()) flight_->begun_later.push_back(record.begun);
  }

  void carry_out(action::DropFlightRecords) { flight_.reset(); }

  void carry_out(const action::CollectEvidence& collect) {
    if (ranks_->guards_collect_evidence()) {
      ranks_->collect_evidence();
      return continue_evidence({});
    }
    std::vector<EvidenceCollector::Suspect> suspects;
    const auto add = [&](int rank) {
      const bool is_known =
          ranks_->is_one_process() && !suspects.empty();  // the stacks of a process have all its threads
      const pid_t process = ranks_->is_alive(rank) && !is_known ? ranks_->pid(rank) : 0;
      if (process > 0) suspects.push_back({.rank = rank, .process = process});
    };
    if (const std::optional<int> turn = page_.turn()) add(*turn);
    std::ranges::for_each(collect.overdue, add);
    for (int rank = 0; rank < plan_.size; ++rank) {
      if (std::ranges::find(collect.overdue, rank) == collect.overdue.end()) add(rank);
    }
    evidence_.emplace(directory_, suspects, find_stack_tool(std::getenv("PATH")), poller_, evidence_keys);
    continue_evidence({});
  }

  void carry_out(action::StopEvidence) { evidence_.reset(); }

  void carry_out(action::KeepOutput keep) {
    supervisor_.output_kept(keep.rank,
                            last_words(directory_.standard_error(ranks_->is_one_process() ? 0 : keep.rank), 1));
  }

  void carry_out(const action::DoomWorld& doom) {
    page_.doom(doom.abort);
    try {
      // Ranks that have not met yet wait on the store, not on the page.
      rendezvous::FileStore(ranks_->store().value_or(plan_.meeting_store()), plan_.nonce, doom.abort.culprit)
          .poison(doom.abort.text);
    } catch (const std::exception&) {
      // They are killed with the rest.
    }
    ranks_->release();
    supervisor_.released(Clock::now());
  }

  void carry_out(action::SignalRanks signal) { ranks_->signal_all(signal.number); }

  void carry_out(action::AbandonRanks) {
    for (const auto& [rank, process] : ranks_->abandon())
      supervisor_.rank_abandoned(rank, process, page_.progress(rank).position);
  }

  void report_slow(std::uint64_t position) const {
    const milliseconds time = plan_.time_for(position);
    const std::string standing = reports::waits_text(take_flight());
    launch_.notice(fmt::format("SLOW {}: half of its {} are over{}{}", plan_.cases[position], seconds_text(time),
                               standing.empty() ? "" : "; ", standing));
  }

  protocol::FlightSnapshot take_flight() const {
    const auto now = std::chrono::nanoseconds(Clock::now().time_since_epoch());
    return {.taken_ns = now.count(), .ranks = flight_records(), .begun_later = {}};
  }

  std::vector<protocol::FlightRecord> flight_records() const {
    auto of_all_hosts = ranks_->flight_records();
    return of_all_hosts ? *std::move(of_all_hosts) : page_.flight_records();
  }

  void print(const std::string& text) const {
    if (launch_.print) launch_.print(text);
  }

  const Deadline started_ = Clock::now();
  const rendezvous::RendezvousDirectory rendezvous_;  ///< destroyed last
  const protocol::WorldPlan& plan_;
  const protocol::WorldDirectory& directory_;
  const WorldLaunch& launch_;
  std::vector<TimedView> views_;
  control::ControlPage page_;
  CaseClock clock_;
  Poller poller_;
  const std::unique_ptr<Ranks> ranks_;
  Supervisor supervisor_;
  LogTail tail_;
  Deadline next_tail_ = Deadline::max();
  std::optional<protocol::FlightSnapshot> flight_;
  std::optional<EvidenceCollector> evidence_;
  std::optional<CrashEvidence> crashes_;  ///< nullopt: ranks still run
};

}  // namespace

std::unique_ptr<RunningWorld> start_world(protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                                          const WorldLaunch& launch, std::vector<LiveView> views) {
  for (const auto& part : {directory.root.parent_path(), directory.root}) refuse_link(part);
  for (const auto& part : {directory.ranks(), directory.logs(), directory.evidence()}) make_directory(part);
  if (plan.trace) make_directory(directory.traces());
  plan.nonce = random_token();
  plan.directory = directory.root;
  MeetingPlace place = make_meeting_place(plan, directory, launch.print);
  write_own_file(directory.plan(), base::dump_line(plan) + "\n", 2);

  return std::make_unique<SupervisedWorld>(std::move(place), plan, directory, launch, std::move(views));
}

}  // namespace shardproof::launcher
