#include "launcher/run/classify_ending.hpp"

#include <csignal>

namespace shardproof::launcher {

using protocol::Ending;

namespace {

/// Whether the rank's process ended by a signal that the launcher sent.
bool is_ended_by_launcher(const EndedRank& ended) {
  if (!ended.exit.signalled) return false;
  const bool was_killed = ended.measure == Measure::killed && ended.exit.code == SIGKILL;
  return was_killed || (ended.measure != Measure::none && ended.exit.code == SIGTERM);
}

}  // namespace

Ending::How stopped(bool is_interrupted) { return is_interrupted ? Ending::How::interrupted : Ending::How::stopped; }

ClassifiedEnding classify_ending(const EndedRank& ended) {
  const Exit& exit = ended.exit;
  const control::Progress& progress = ended.progress;
  const bool in_order = !exit.signalled && exit.code == 0 && progress.left;
  const bool is_released = !exit.signalled && exit.code == protocol::rank_released && progress.position < 0;
  const bool follows = ended.is_doomed && (is_released || !ended.doomed_by_rank);
  ClassifiedEnding result{.position = in_order ? -1 : progress.position};
  if (in_order) return result;
  const bool is_ended = is_ended_by_launcher(ended);
  // An overdue rank may handle SIGTERM.
  const bool handled = !exit.signalled && ended.measure != Measure::none;
  if (ended.is_overdue && (is_ended || handled)) {
    result.how = Ending::How::overran;
    result.consequence = Consequence::overran;
    return result;
  }
  // A released rank may report that it did not leave in order. That is the culprit's fault. mpirun ends all ranks once
  // one is lost.
  if (is_ended || (follows && (!exit.signalled || ended.was_asked))) {
    result.how = stopped(ended.is_interrupted);
    result.consequence = Consequence::stopped;
    return result;
  }
  result.how = exit.signalled ? Ending::How::signalled : Ending::How::exited;
  result.consequence = follows ? Consequence::follows : progress.left ? Consequence::late : Consequence::cause;
  const bool began = progress.position >= 0 || progress.cases_ended > 0;
  const bool refused = protocol::is_refusal({.how = result.how, .code = exit.code, .position = result.position});
  result.is_infrastructure = !follows && !exit.signalled && !progress.left && (refused || !began);
  return result;
}

}  // namespace shardproof::launcher
