#include "launcher/run/world.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "harness/base/json_text.hpp"
#include "harness/base/rank_list.hpp"
#include "harness/control/control_page.hpp"
#include "harness/protocol/flight_record.hpp"
#include "harness/rendezvous/file_store.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/process/process.hpp"
#include "launcher/run/blame.hpp"
#include "launcher/run/case_clock.hpp"
#include "launcher/run/evidence.hpp"
#include "launcher/run/rank_processes.hpp"
#include "launcher/run/running_ranks.hpp"
#include "launcher/terminal/duration_text.hpp"
#include "launcher/terminal/log_tail.hpp"
#include "reports/explain/explanation.hpp"

namespace shardproof::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The keys from here on belong to the evidence of ranks that hang. The keys below are rank numbers.
constexpr std::uint64_t evidence_keys = std::uint64_t{1} << 32;

/// The time for released ranks to leave. They leave within milliseconds, or not at all. On few cores, many ranks take
/// longer to write their last line.
milliseconds grace(int world_size) { return milliseconds(400 + 2 * world_size); }

/// The time for a rank after SIGTERM: its handlers may have something to save.
constexpr milliseconds time_to_save{500};

/// The time between two looks at overdue ranks. A rank that has moved meanwhile is slow, not stuck.
constexpr milliseconds second_look{100};

/// The time between two looks at the output of ranks.
constexpr milliseconds tail_interval{50};

std::string make_nonce() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

class WatchedWorld final : public RunningWorld {
 public:
  WatchedWorld(RendezvousDirectory rendezvous, const WorldPlan& plan, const WorldDirectory& directory,
               const WorldLaunch& launch, std::optional<LiveView> view)
      : rendezvous_(std::move(rendezvous)),
        plan_(plan),
        directory_(directory),
        launch_(launch),
        view_(std::move(view)),
        page_(ControlPage::create(plan.rendezvous / "control", plan.size, plan.nonce)),
        clock_(plan, page_, launch.joining),
        processes_(plan, directory, launch, poller_),
        ranks_(static_cast<std::size_t>(plan.size)),
        tail_(directory, launch.output_of, plan.size, processes_.are_one(), launch.names_world) {
    for (int rank = 0; rank < plan.size; ++rank) at(rank).ending.rank = rank;
    start();
    // Not at once: most worlds end before a user could read a line about them.
    if (view_) next_view_ = Clock::now() + view_->interval;
    if (!launch_.output_of.empty()) next_tail_ = Clock::now();
  }

  int descriptor() const override { return poller_.descriptor(); }

  Deadline deadline() const override { return std::min({next_check_, next_view_, next_tail_}); }

  bool is_over() const override { return processes_.all_have_ended(); }

  void look() override {
    const std::vector<std::uint64_t> ready = poller_.wait(Clock::now());
    note_endings(ready);
    if (phase_ == Phase::looking) look_on(ready);
    const Deadline now = Clock::now();
    if (!is_over() && now >= next_check_) check(now);
    if (view_ && now >= next_view_) {
      view_->show(page_);
      next_view_ = now + view_->interval;
    }
    if (now >= next_tail_) {
      print(tail_.more(false));
      next_tail_ = now + tail_interval;
    }
  }

  void interrupt(const std::string& why) override {
    if (outcome_.interrupted) {
      if (phase_ == Phase::leaving) phase_ = Phase::asked;
      next_check_ = Clock::now();  // second call: no grace
      return;
    }
    outcome_.interrupted = true;
    doom({.culprit = -1, .reason = AbortReason::interrupted, .text = why});
  }

  WorldOutcome outcome() override {
    print(tail_.more(true));
    blame_somebody_for_overrun();
    outcome_.duration = Clock::now() - started_;
    for (RankState& rank : ranks_) outcome_.remains.endings.push_back(std::move(rank.ending));
    outcome_.complete = !is_doomed();
    outcome_.overran = doom_reason_ == AbortReason::deadline;
    for (int rank = 0; rank < plan_.size; ++rank) {
      const Progress progress = page_.progress(rank);
      outcome_.began = outcome_.began || progress.position >= 0 || progress.cases_ended > 0;
    }
    outcome_.cut_short = doom_text_;
    return std::move(outcome_);
  }

 private:
  struct RankState {
    std::string overrun;  ///< the work that it has not done in time
    std::int64_t overdue_in = -1;  ///< the position of its case at that time
    Ending ending;
  };

  RankState& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  // -- Beginning ------------------------------------------------------------------------------------------------------

  void start() {
    if (const auto failure = processes_.start()) return give_up_starting(failure->rank, failure->why);
    clock_.start(Clock::now());
    next_check_ = clock_.look([](int) { return false; }, Clock::now()).next;
  }

  void give_up_starting(int first, const std::string& why) {
    for (int rank = first; rank < plan_.size; ++rank) {
      Ending& ending = at(rank).ending;
      ending.how = Ending::How::not_started;
      ending.text = rank == first ? why : fmt::format("rank {} could not be started", first);
    }
    outcome_.infrastructure_error = fmt::format("rank {} of {} could not be started: {}", first, plan_.size, why);
    doom({.culprit = first, .reason = AbortReason::died, .text = outcome_.infrastructure_error});
  }

  void print(const std::string& text) const {
    if (launch_.print) launch_.print(text);
  }

  // -- Watching -------------------------------------------------------------------------------------------------------

  void check(Deadline now) {
    switch (phase_) {
      case Phase::running: return check_deadlines(now);
      case Phase::looking: return;  // see look_on
      case Phase::leaving: return ask_the_rest(now);
      case Phase::asked: return kill_the_rest(now);
      case Phase::killed: return abandon_the_rest();
    }
  }

  void note_endings(const std::vector<std::uint64_t>& ready) {
    const bool somebody_ended = std::ranges::any_of(ready, [](std::uint64_t key) { return key < evidence_keys; });
    if (somebody_ended) evidence_.reset();  // while the process numbers still belong to the suspects
    for (const auto& [rank, end] : processes_.collect(ready)) {
      if (processes_.are_one()) {
        note_end_of_all(end);
      } else {
        note_ending(rank, end);
      }
    }
  }

  /// Handles the end of a process that is all ranks.
  void note_end_of_all(const Exit& end) {
    adopt_doom();
    const bool began = std::ranges::any_of(
        ranks_, [this](const RankState& rank) { return page_.progress(rank.ending.rank).pid != 0; });
    const bool all_left =
        std::ranges::all_of(ranks_, [this](const RankState& rank) { return page_.progress(rank.ending.rank).left; });
    if (is_doomed() || !began || all_left) {
      for (int rank = 0; rank < plan_.size; ++rank) note_ending(rank, end);
    } else {
      blame_for_end_of_all(end);
    }
  }

  /// A running rank ended the process, and the other ranks left no word. If several ranks were running, each of them
  /// may be the cause.
  void blame_for_end_of_all(const Exit& end) {
    const std::vector<int> running = running_ranks(page_);
    const std::string text =
        fmt::format("the process of all ranks ended with {} while {}", describe(end), running_text(running));
    for (RankState& rank : ranks_) {
      Ending& ending = rank.ending;
      ending.position = page_.progress(ending.rank).position;
      ending.code = end.code;
      ending.text = text;
      ending.is_cause = running.empty() || std::ranges::find(running, ending.rank) != running.end();
      ending.how = !ending.is_cause ? stopped() : end.signalled ? Ending::How::signalled : Ending::How::exited;
      if (ending.is_cause) ending.last_words = last_words(directory_.standard_error(ending.rank));
    }
    doom({.culprit = running.size() == 1 ? running.front() : -1, .reason = AbortReason::died, .text = text});
  }

  std::string running_text(const std::vector<int>& running) const {
    if (running.empty()) return "every rank waited for others";
    std::string text = fmt::format("{} {} running", rank_list(running), running.size() == 1 ? "was" : "were");
    for (const int rank : running)
      text += fmt::format("{} {}", rank == running.front() ? "," : " and", clock_.place(rank));
    return running.size() == 1 ? text : text + "; one of them did it";
  }

  void note_ending(int rank, const Exit& end) {
    adopt_doom();
    RankState& state = at(rank);
    const Progress progress = page_.progress(rank);
    const bool in_order = !end.signalled && end.code == 0 && progress.left;
    const bool released = !end.signalled && end.code == rank_released && progress.position < 0;
    const bool consequence = released || (is_doomed() && rank != self_confessed_);
    Ending& ending = state.ending;
    ending.code = end.code;
    ending.position = in_order ? -1 : progress.position;
    const bool was_asked = phase_ == Phase::asked || phase_ == Phase::killed;
    const bool was_killed = phase_ == Phase::killed && end.signalled && end.code == SIGKILL;
    if (was_killed || (was_asked && end.signalled && end.code == SIGTERM)) {
      ending.how = !state.overrun.empty() ? Ending::How::overran : stopped();
    } else if (end.signalled) {
      ending.how = Ending::How::signalled;
    } else if (was_asked && !state.overrun.empty() && !in_order) {
      ending.how = Ending::How::overran;  // it handles SIGTERM
    } else {
      // A released rank may report that it did not leave in order. That is the culprit's fault.
      ending.how = consequence && !in_order ? stopped() : Ending::How::exited;
    }
    if (ending.how == stopped()) ending.text = doom_text_;
    if (ending.how == Ending::How::overran) tell_overrun(state);
    if (in_order || ending.how == stopped() || ending.how == Ending::How::overran) return;

    ending.text = fmt::format("rank {} ended with {} {}", rank, describe(end), clock_.place(rank));
    if (consequence) return;
    ending.last_words = last_words(directory_.standard_error(rank));
    const bool began = progress.position >= 0 || progress.cases_ended > 0;
    if (!end.signalled && !progress.left && (is_refusal(ending) || !began)) {
      outcome_.infrastructure_error = fmt::format(
          "{}{}\n(its output: {})", ending.text,
          ending.last_words.empty() ? ", saying nothing" : ":\n" + ending.last_words, directory_.logs().string());
    }
    // A rank that left in order and then failed holds up no other rank: the others finish their cases.
    if (progress.left) {
      if (!outcome_.remains.flight) outcome_.remains.flight = take_flight();
      return;
    }
    ending.is_cause = !is_doomed() || rank == self_confessed_;
    doom({.culprit = rank, .reason = AbortReason::died, .text = ending.text});
  }

  /// A rank that gives up ends its world itself. This launcher may see the end of other ranks first.
  void adopt_doom() {
    if (is_doomed()) return;
    if (const auto abort = page_.doomed()) {
      doom(*abort);
      self_confessed_ = abort->culprit;
    }
  }

  /// Looks at every rank and sets the time of the next look. A case that begins meanwhile is due later than that.
  void check_deadlines(Deadline now) {
    const CaseClock::Look look = clock_.look([this](int rank) { return processes_.is_alive(rank); }, now);
    next_check_ = look.next;
    if (look.slow && launch_.notice) tell_slow(*look.slow);
    if (!look.overdue.empty()) overrun(look.overdue, now);
  }

  void tell_slow(std::uint64_t position) {
    const milliseconds time = plan_.time_for(position);
    const std::string standing = reports::standing(take_flight());
    launch_.notice(fmt::format("SLOW {}: half of its {} are over{}{}", plan_.cases[position], seconds_text(time),
                               standing.empty() ? "" : "; ", standing));
  }

  /// The world will end. But first, evidence is collected while its processes live.
  void overrun(std::vector<int> overdue, Deadline now) {
    overdue_ = std::move(overdue);
    outcome_.remains.flight = take_flight();
    phase_ = Phase::looking;
    looked_at_ = now;
    std::vector<Evidence::Suspect> suspects;
    const auto add = [&](int rank) {
      const bool is_seen = processes_.are_one() && !suspects.empty();  // one look at a process shows all its threads
      if (processes_.is_alive(rank) && !is_seen) suspects.push_back({.rank = rank, .process = processes_.pid(rank)});
    };
    if (const std::optional<int> turn = page_.turn()) add(*turn);
    std::ranges::for_each(overdue_, add);
    for (int rank = 0; rank < plan_.size; ++rank) {
      if (std::ranges::find(overdue_, rank) == overdue_.end()) add(rank);
    }
    evidence_.emplace(directory_, suspects, find_stack_tool(std::getenv("PATH")), poller_, evidence_keys);
    look_on({});
  }

  void look_on(const std::vector<std::uint64_t>& ready) {
    const Deadline now = Clock::now();
    if (evidence_) evidence_->look(ready, now);
    const bool is_looked_at = !evidence_ || evidence_->done();
    next_check_ = is_looked_at ? looked_at_ + second_look : evidence_->deadline();
    if (!is_looked_at || now < looked_at_ + second_look) return;
    evidence_.reset();
    // A deadline is for ranks that make no progress. A rank that has moved while evidence was collected goes on.
    const CaseClock::Look look = clock_.look([this](int rank) { return processes_.is_alive(rank); }, now);
    overdue_ = look.overdue;
    next_check_ = look.next;
    if (overdue_.empty()) {
      phase_ = Phase::running;
      outcome_.remains.flight.reset();
      return;
    }
    for (const FlightRecord& record : page_.flight_records())
      outcome_.remains.flight->begun_later.push_back(record.begun);
    blame_for_overrun();
  }

  void blame_for_overrun() {
    const std::vector<int> guilty = blamed({.waits = waits(outcome_.remains.flight->ranks),
                                            .overdue = overdue_,
                                            .alive = processes_.alive(),
                                            .turn = page_.turn(),
                                            .is_absent = [this](int rank) { return page_.progress(rank).pid == 0; }});
    std::string text;
    for (const int rank : guilty) {
      const bool is_overdue = std::ranges::find(overdue_, rank) != overdue_.end();
      at(rank).overdue_in = page_.progress(rank).position;
      at(rank).overrun =
          is_overdue ? clock_.overrun_text(rank) : fmt::format("has kept others waiting {}", clock_.place(rank));
      text += fmt::format("{}rank {} {}", text.empty() ? "" : "; ", rank, at(rank).overrun);
    }
    const Progress first = page_.progress(guilty.front());
    if (first.cases_ended == 0 && first.position < 0)
      outcome_.infrastructure_error = fmt::format("{}\n(its output: {})", text, directory_.logs().string());
    doom({.culprit = guilty.size() == 1 ? guilty.front() : -1, .reason = AbortReason::deadline, .text = text});
  }

  // -- Ending ---------------------------------------------------------------------------------------------------------

  /// Releases every rank from each wait. A rank that has not left by `next_check_` is killed.
  void doom(const Abort& abort) {
    if (is_doomed()) return;
    evidence_.reset();
    phase_ = Phase::leaving;
    // Before any rank is released: afterwards, no rank waits.
    if (!outcome_.remains.flight) outcome_.remains.flight = take_flight();
    doom_text_ = abort.text;
    doom_reason_ = abort.reason;
    page_.doom(abort);
    try {
      // Ranks that have not met yet wait on the store, not on the page.
      FileStore(plan_.rendezvous / "store", plan_.nonce, abort.culprit).poison(abort.text);
    } catch (const std::exception&) {
      // They are killed with the rest.
    }
    next_check_ = Clock::now() + grace(plan_.size);
  }

  FlightSnapshot take_flight() const {
    const auto now = std::chrono::nanoseconds(Clock::now().time_since_epoch());
    return {.taken_ns = now.count(), .ranks = page_.flight_records(), .begun_later = {}};
  }

  bool is_doomed() const { return phase_ != Phase::running && phase_ != Phase::looking; }

  /// The remaining ranks do not wait in a call of ours.
  void ask_the_rest(Deadline now) {
    processes_.signal_all(SIGTERM);
    phase_ = Phase::asked;
    next_check_ = now + time_to_save;
  }

  void kill_the_rest(Deadline now) {
    processes_.signal_all(SIGKILL);
    phase_ = Phase::killed;
    next_check_ = now + Process::unkillable_after;
  }

  /// Gives up ranks in uninterruptible sleep, in a driver or a network file system. Records that, and goes on.
  void abandon_the_rest() {
    for (const auto& [rank, process] : processes_.leave_behind()) {
      Ending& ending = at(rank).ending;
      ending.how = at(rank).overrun.empty() ? stopped() : Ending::How::overran;
      ending.position = page_.progress(rank).position;
      ending.text = fmt::format("process {} did not end within {} of SIGKILL and is left behind", process,
                                seconds_text(Process::unkillable_after));
    }
  }

  Ending::How stopped() const { return outcome_.interrupted ? Ending::How::interrupted : Ending::How::stopped; }

  void tell_overrun(RankState& rank) const {
    rank.ending.text = rank.overrun.empty() ? "had to be killed: " + doom_text_ : rank.overrun;
    rank.ending.last_words = last_words(directory_.standard_error(rank.ending.rank));
    // it may have left the case after the request
    if (rank.ending.position < 0) rank.ending.position = rank.overdue_in;
  }

  /// Finds the ranks to blame for a deadline:
  ///   1. Overdue ranks that had to be ended are to blame. The others only waited for them.
  ///   2. If all of them left when asked to, they waited for each other, and all overdue ranks are to blame.
  ///   3. If a rank noticed the deadline first, no rank is marked as overdue. Then the ranks that had to be ended are
  ///      to blame.
  void blame_somebody_for_overrun() {
    if (doom_reason_ != AbortReason::deadline) return;
    const bool somebody = std::any_of(ranks_.begin(), ranks_.end(), [](const RankState& rank) {
      return rank.ending.how == Ending::How::overran || rank.ending.how == Ending::How::signalled;
    });
    if (somebody) return;
    const bool marked =
        std::any_of(ranks_.begin(), ranks_.end(), [](const RankState& rank) { return !rank.overrun.empty(); });
    for (RankState& rank : ranks_) {
      if (marked ? rank.overrun.empty() : rank.ending.how != stopped()) continue;
      rank.ending.how = Ending::How::overran;
      tell_overrun(rank);
    }
  }

  const Deadline started_ = Clock::now();
  const RendezvousDirectory rendezvous_;  ///< destroyed last
  const WorldPlan& plan_;
  const WorldDirectory& directory_;
  const WorldLaunch& launch_;
  const std::optional<LiveView> view_;
  ControlPage page_;
  CaseClock clock_;
  Poller poller_;
  RankProcesses processes_;
  std::vector<RankState> ranks_;
  WorldOutcome outcome_;
  LogTail tail_;
  Deadline next_check_;
  Deadline next_view_ = Deadline::max(), next_tail_ = Deadline::max();
  /// The phases of a world. It runs. When it hangs, it is looked at. At the end, its ranks are released, then asked to
  /// end, then killed, and then left behind.
  enum class Phase : std::uint8_t { running, looking, leaving, asked, killed };
  Phase phase_ = Phase::running;
  std::vector<int> overdue_;
  Deadline looked_at_;  ///< the time of the first look
  std::optional<Evidence> evidence_;
  int self_confessed_ = -1;  ///< the rank that ended the world itself
  std::string doom_text_;
  std::optional<AbortReason> doom_reason_;
};

}  // namespace

std::unique_ptr<RunningWorld> start_world(WorldPlan& plan, const WorldDirectory& directory, const WorldLaunch& launch,
                                          std::optional<LiveView> view) {
  for (const auto& part : {directory.ranks(), directory.logs(), directory.evidence()}) make_directory(part);
  if (plan.trace) make_directory(directory.traces());
  RendezvousDirectory rendezvous = RendezvousDirectory::make(plan.size);
  plan.nonce = make_nonce();
  plan.rendezvous = rendezvous.path();
  plan.directory = directory.root;
  write_file(directory.plan(), dump_line(plan) + "\n");

  return std::make_unique<WatchedWorld>(std::move(rendezvous), plan, directory, launch, std::move(view));
}

}  // namespace shardproof::launcher
