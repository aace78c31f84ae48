#include "launcher/run/supervisor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <iterator>

#include "harness/base/rank_list.hpp"
#include "launcher/terminal/duration_text.hpp"

namespace shardproof::launcher {

using control::AbortReason;
using control::Deadline;
using protocol::Ending;

namespace {

void append(Actions& actions, Actions more) {
  actions.insert(actions.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string running_text(const std::vector<int>& running, const std::vector<RankView>& ranks) {
  if (running.empty()) return "every rank waited for others";
  std::string text = fmt::format("{} {} running", base::rank_list(running), running.size() == 1 ? "was" : "were");
  for (const int rank : running)
    text += fmt::format("{} {}", rank == running.front() ? "," : " and", ranks[static_cast<std::size_t>(rank)].place);
  return running.size() == 1 ? text : text + "; one of these ranks is the cause";
}

}  // namespace

std::chrono::milliseconds Supervisor::leaving_limit(int world_size) {
  return std::chrono::milliseconds(400 + 2 * world_size);
}

Supervisor::Supervisor(int world_size) : ranks_(static_cast<std::size_t>(world_size)) {
  for (int rank = 0; rank < world_size; ++rank) at(rank).ending.rank = rank;
}

// -- Ranks end -------------------------------------------------------------------------------------------------------

Actions Supervisor::start_failed(int first, const std::string& why, Deadline now) {
  const int size = static_cast<int>(ranks_.size());
  for (int rank = first; rank < size; ++rank) {
    Ending& ending = at(rank).ending;
    ending.how = Ending::How::not_started;
    ending.text = rank == first ? why : fmt::format("rank {} could not be started", first);
  }
  infrastructure_error_ = {.text = fmt::format("rank {} of {} could not be started: {}", first, size, why)};
  return doom({.culprit = first, .reason = AbortReason::died, .text = infrastructure_error_.text}, now);
}

Actions Supervisor::ranks_unstarted(const std::vector<int>& ranks, const std::string& why, const std::string& output,
                                    Deadline now) {
  for (const int rank : ranks) {
    at(rank).ending.how = is_ending() ? stopped(is_interrupted_) : Ending::How::not_started;
    at(rank).ending.text = is_ending() ? doom_text_ : why;
  }
  if (is_ending()) return {};
  infrastructure_error_ = {.text = fmt::format("{}\n{}", why, output)};
  return doom({.culprit = -1, .reason = AbortReason::died, .text = why}, now);
}

Actions Supervisor::doom_seen(const control::Abort& abort, Deadline now) {
  if (is_ending()) return {};
  Actions actions = doom(abort, now);
  doomed_by_ = abort.culprit;
  return actions;
}

Actions Supervisor::rank_ended(int rank, const Exit& exit, const RankView& view, Deadline now) {
  RankState& state = at(rank);
  const ClassifiedEnding classified = classify_ending({.exit = exit,
                                                       .progress = view.progress,
                                                       .measure = measure(),
                                                       .is_doomed = is_ending(),
                                                       .doomed_by_rank = rank == doomed_by_,
                                                       .is_overdue = !state.overrun.empty(),
                                                       .was_asked = view.was_asked,
                                                       .is_interrupted = is_interrupted_});
  Ending& ending = state.ending;
  ending.code = exit.code;
  ending.position = classified.position;
  ending.how = classified.how;
  if (classified.consequence == Consequence::in_order) return {};
  if (classified.consequence == Consequence::stopped) {
    state.had_to_be_ended = exit.signalled;
    state.has_begun = view.progress.position >= 0 || view.progress.cases_ended > 0;
    ending.text = doom_text_;
    return {};
  }
  if (classified.consequence == Consequence::overran) return {record_overrun(state)};

  ending.lacked_memory = view.lacked_memory && exit.signalled && exit.code == SIGKILL;
  ending.reason = view.reason;
  ending.text = fmt::format("rank {} ended with {} {}", rank,
                            exit.signalled ? protocol::signal_text(ending) : describe(exit), view.place);
  if (classified.consequence == Consequence::follows) return {};
  if (classified.is_infrastructure) infrastructure_error_ = {.text = ending.text, .rank = rank, .has_output = true};
  Actions actions{action::KeepOutput{rank}};
  if (classified.consequence == Consequence::late) {
    actions.emplace_back(action::KeepFlightRecords{});
    return actions;
  }
  ending.is_cause = true;
  append(actions, doom({.culprit = rank, .reason = AbortReason::died, .text = ending.text}, now));
  return actions;
}

Actions Supervisor::process_ended(const Exit& exit, const std::vector<RankView>& ranks, const std::vector<int>& running,
                                  Deadline now) {
  const bool began = std::ranges::any_of(ranks, [](const RankView& rank) { return rank.progress.pid != 0; });
  const bool all_left = std::ranges::all_of(ranks, [](const RankView& rank) { return rank.progress.left; });
  if (!is_ending() && began && !all_left) return blame_process(exit, ranks, running, now);
  Actions actions;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    append(actions, rank_ended(static_cast<int>(rank), exit, ranks[rank], now));
  return actions;
}

/// A running rank ended the process, and the other ranks left no word. If several ranks were running, each of them may
/// be the cause.
Actions Supervisor::blame_process(const Exit& exit, const std::vector<RankView>& ranks, const std::vector<int>& running,
                                  Deadline now) {
  const std::string text =
      fmt::format("the process of all ranks ended with {} while {}", describe(exit), running_text(running, ranks));
  Actions actions;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    Ending& ending = ranks_[rank].ending;
    ending.position = ranks[rank].progress.position;
    ending.code = exit.code;
    ending.lacked_memory = ranks[rank].lacked_memory && exit.signalled && exit.code == SIGKILL;
    ending.text = text;
    ending.is_cause = running.empty() || std::ranges::find(running, ending.rank) != running.end();
    ending.how = !ending.is_cause ? stopped(is_interrupted_)
                 : exit.signalled ? Ending::How::signalled
                                  : Ending::How::exited;
    if (ending.is_cause) actions.emplace_back(action::KeepOutput{ending.rank});
  }
  const int culprit = running.size() == 1 ? running.front() : -1;
  append(actions, doom({.culprit = culprit, .reason = AbortReason::died, .text = text}, now));
  return actions;
}

// -- Ranks are overdue -----------------------------------------------------------------------------------------------

Actions Supervisor::ranks_checked(const std::vector<int>& overdue, const std::vector<Overrun>& overruns, Deadline next,
                                  Deadline now) {
  deadline_ = next;
  const bool is_second = phase_ == Phase::collecting_evidence;
  if (overdue.empty()) {
    phase_ = Phase::running;
    return is_second ? Actions{action::DropFlightRecords{}} : Actions{};
  }
  if (is_second) return blame(overruns, now);
  phase_ = Phase::collecting_evidence;
  first_check_ = now;
  return {action::KeepFlightRecords{.anew = true}, action::CollectEvidence{overdue}};
}

Actions Supervisor::evidence_progressed(std::optional<Deadline> until, Deadline now) {
  deadline_ = until.value_or(first_check_ + second_check);
  if (until || now < deadline_) return {};
  // A deadline is for ranks that make no progress. A rank that has moved while evidence was collected goes on.
  return {action::StopEvidence{}, action::CheckRanks{}};
}

Actions Supervisor::blame(const std::vector<Overrun>& overruns, Deadline now) {
  std::string text;
  for (const Overrun& overrun : overruns) {
    at(overrun.rank).overdue_in = overrun.progress.position;
    at(overrun.rank).overrun = overrun.text;
    text += fmt::format("{}rank {} {}", text.empty() ? "" : "; ", overrun.rank, overrun.text);
  }
  const control::Progress& first = overruns.front().progress;
  if (first.cases_ended == 0 && first.position < 0) infrastructure_error_ = {.text = text, .has_output = true};
  Actions actions{action::KeepLaterProgress{}};
  const int culprit = overruns.size() == 1 ? overruns.front().rank : -1;
  append(actions, doom({.culprit = culprit, .reason = AbortReason::deadline, .text = text}, now));
  return actions;
}

// -- The world ends --------------------------------------------------------------------------------------------------

/// A rank that has not left by the deadline is terminated.
Actions Supervisor::doom(const control::Abort& abort, Deadline now) {
  if (is_ending()) return {};
  phase_ = Phase::leaving;
  doom_text_ = abort.text;
  doom_reason_ = abort.reason;
  released(now);  // again when the actions have been carried out
  // Flight records before any rank is released: afterwards, no rank waits.
  return {action::StopEvidence{}, action::KeepFlightRecords{}, action::DoomWorld{abort}};
}

Actions Supervisor::deadline_passed(Deadline now) {
  switch (phase_) {
    case Phase::running: return {action::CheckRanks{}};
    case Phase::collecting_evidence: return {};  // see evidence_progressed
    case Phase::leaving:  // the remaining ranks do not wait in a call of ours
      phase_ = Phase::terminating;
      deadline_ = now + saving_limit;
      return {action::SignalRanks{SIGTERM}};
    case Phase::terminating:
      phase_ = Phase::killing;
      deadline_ = now + Process::unkillable_after;
      return {action::SignalRanks{SIGKILL}};
    case Phase::killing: return {action::AbandonRanks{}};
  }
  return {};
}

Actions Supervisor::interrupted(const std::string& why, Deadline now) {
  if (!is_interrupted_) {
    is_interrupted_ = true;
    return doom({.culprit = -1, .reason = AbortReason::interrupted, .text = why}, now);
  }
  if (phase_ == Phase::killing) return {};
  if (phase_ == Phase::leaving) phase_ = Phase::terminating;
  deadline_ = now;
  return {};
}

/// The rank is in uninterruptible sleep, in a driver or a network file system.
void Supervisor::rank_abandoned(int rank, std::int64_t process, std::int64_t position) {
  Ending& ending = at(rank).ending;
  ending.how = at(rank).overrun.empty() ? stopped(is_interrupted_) : Ending::How::overran;
  ending.position = position;
  at(rank).had_to_be_ended = true;
  ending.text = fmt::format("process {} did not end within {} of SIGKILL and is left behind", process,
                            seconds_text(Process::unkillable_after));
}

Measure Supervisor::measure() const {
  return phase_ == Phase::killing       ? Measure::killed
         : phase_ == Phase::terminating ? Measure::terminated
                                        : Measure::none;
}

action::KeepOutput Supervisor::record_overrun(RankState& rank) const {
  rank.ending.text = rank.overrun.empty() ? "had to be killed: " + doom_text_ : rank.overrun;
  // it may have left the case after the request
  if (rank.ending.position < 0) rank.ending.position = rank.overdue_in;
  return {rank.ending.rank};
}

/// Finds the ranks to blame for a deadline:
///   1. Overdue ranks that had to be ended are to blame. The others only waited for them.
///   2. If all of them left when asked to, they waited for each other, and all overdue ranks are to blame.
///   3. If a rank noticed the deadline first, no rank is marked as overdue. Then the ranks that had to be ended are to
///      blame, or all ranks that left when asked to, if no rank had to be ended.
/// No rank is to blame for a lack of room.
Actions Supervisor::ended() {
  if (doom_reason_ == AbortReason::no_room) {
    for (RankState& rank : ranks_) {
      if (rank.ending.how == Ending::How::stopped) rank.ending.how = Ending::How::interrupted;
    }
  }
  if (doom_reason_ != AbortReason::deadline) return {};
  const bool is_blamed = std::ranges::any_of(ranks_, [](const RankState& rank) {
    return rank.ending.how == Ending::How::overran || rank.ending.how == Ending::How::signalled;
  });
  if (is_blamed) return {};
  const bool is_marked = std::ranges::any_of(ranks_, [](const RankState& rank) { return !rank.overrun.empty(); });
  const bool had_to_end = std::ranges::any_of(ranks_, &RankState::had_to_be_ended);
  Actions actions;
  for (RankState& rank : ranks_) {
    const bool is_guilty = is_marked    ? !rank.overrun.empty()
                           : had_to_end ? rank.had_to_be_ended
                                        : rank.ending.how == stopped(is_interrupted_);
    if (!is_guilty) continue;
    rank.ending.how = Ending::How::overran;
    actions.emplace_back(record_overrun(rank));
    if (is_marked || rank.has_begun) continue;
    infrastructure_error_ = {.text = fmt::format("rank {} {}", rank.ending.rank, rank.ending.text),
                             .rank = rank.ending.rank,
                             .has_output = true};
  }
  return actions;
}

// -- Result ----------------------------------------------------------------------------------------------------------

std::vector<Ending> Supervisor::endings() const {
  std::vector<Ending> endings;
  std::ranges::transform(ranks_, std::back_inserter(endings), &RankState::ending);
  return endings;
}

std::string Supervisor::infrastructure_error(const std::string& logs) const {
  const auto& [text, rank, has_output] = infrastructure_error_;
  if (!has_output) return text;
  if (rank < 0) return fmt::format("{}\n(its output: {})", text, logs);
  const std::string& words = ranks_[static_cast<std::size_t>(rank)].ending.last_words;
  return fmt::format("{}{}\n(its output: {})", text, words.empty() ? " and printed nothing" : ":\n" + words, logs);
}

}  // namespace shardproof::launcher
