#include "launcher/run/case_clock.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/terminal/duration_text.hpp"

namespace shardproof::launcher {

using control::Deadline;
using control::Progress;

CaseClock::CaseClock(const protocol::WorldPlan& plan, const control::ControlPlane& page,
                     std::chrono::milliseconds joining)
    : plan_(plan),
      page_(page),
      joining_(joining),
      shortest_(plan.case_timeout),
      seen_(static_cast<std::size_t>(plan.size)),
      reported_(plan.cases.size()) {
  for (const auto& [id, time] : plan.timeouts) shortest_ = std::min(shortest_, time);
}

void CaseClock::start(Deadline now) {
  for (SeenProgress& seen : seen_) seen.at = now;
}

CaseClock::Check CaseClock::check(const std::function<bool(int rank)>& is_alive, Deadline now) {
  // A case that begins after this look becomes slow after at least half of the shortest time limit.
  Check check{.overdue = {}, .slow = std::nullopt, .next = now + std::min(joining_, shortest_ / 2)};
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (!is_alive(rank)) continue;
    const Progress progress = page_.progress(rank);
    const Deadline due_at = due(rank, progress, now);
    if (due_at <= now) {
      check.overdue.push_back(rank);
      continue;
    }
    check.next = std::min(check.next, due_at);
    const auto position = static_cast<std::size_t>(progress.position);
    if (progress.position < 0 || position >= reported_.size() || reported_[position]) continue;
    const Deadline slow_at = due_at - limit(progress) / 2;
    if (slow_at <= now) {
      reported_[position] = true;
      check.slow = position;
    } else {
      check.next = std::min(check.next, slow_at);
    }
  }
  return check;
}

/// At the end of a case, a rank may wait for others as long as they may take for it. After that, the others are
/// overdue.
std::chrono::milliseconds CaseClock::limit(const Progress& progress) const {
  if (progress.position >= 0) return plan_.time_for(static_cast<std::uint64_t>(progress.position));
  if (progress.cases_ended == 0 || progress.left) return joining_;
  return std::max(plan_.time_for(progress.cases_ended - 1), plan_.time_for(progress.cases_ended));
}

Deadline CaseClock::due(int rank, const Progress& progress, Deadline now) {
  SeenProgress& seen = seen_[static_cast<std::size_t>(rank)];
  if (progress.cases_ended != seen.progress.cases_ended || progress.left != seen.progress.left) seen.at = now;
  seen.progress = progress;
  const Deadline begun =
      progress.position >= 0 ? Deadline(std::chrono::nanoseconds(progress.case_started_ns)) : seen.at;
  return begun + limit(progress);
}

std::string CaseClock::overrun_text(int rank) const {
  const Progress progress = page_.progress(rank);
  if (progress.pid == 0) return fmt::format("did not join its world within {}", seconds_text(joining_));
  const std::chrono::milliseconds time = limit(progress);
  const bool is_joining = progress.cases_ended == 0 && progress.position < 0;
  std::string text = fmt::format("has been {} for more than {}{}", place(rank), progress.position >= 0 ? "its " : "",
                                 seconds_text(time));
  if (plan_.ranks_per_core > 1 && !is_joining && !progress.left)
    text += fmt::format(": {} × {} ranks that share a core", seconds_text(time / plan_.ranks_per_core),
                        plan_.ranks_per_core);
  return text;
}

std::string CaseClock::place(int rank) const {
  const Progress progress = page_.progress(rank);
  if (progress.position >= 0 && static_cast<std::size_t>(progress.position) < plan_.cases.size())
    return "in " + plan_.cases[static_cast<std::size_t>(progress.position)];
  if (progress.cases_ended == 0) return "before its first case";
  return progress.cases_ended < plan_.cases.size() ? "between two cases" : "after its last case";
}

}  // namespace shardproof::launcher
