#include "reports/explain/explanation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "harness/base/rank_list.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

using base::rank_list;
using protocol::Ending;
using protocol::FlightEntry;
using protocol::FlightRecord;
using protocol::FlightSnapshot;
using protocol::PeerWait;

namespace {

using What = FlightEntry::What;
using State = FlightEntry::State;

/// The text for an agreement that ranks wait in.
std::string_view agreement_text(const PeerWait& wait) {
  return wait.ends_case ? "the end of the case" : "the next case";
}

class Explainer {
 public:
  Explainer(const protocol::WorldPlan& plan, std::span<const Ending> endings, const FlightSnapshot* flight,
            const Placement& placement)
      : plan_(plan), endings_(endings), flight_(flight), placement_(placement) {
    if (flight_ != nullptr) waits_ = protocol::waits(flight_->ranks);
  }

  std::string explain() const {
    std::vector<const Ending*> dead, stuck;
    for (const Ending& ending : endings_) {
      if (ending.how == Ending::How::overran) stuck.push_back(&ending);
      const bool died = ending.how == Ending::How::signalled ||
                        (ending.how == Ending::How::exited && (ending.code != 0 || ending.is_cause));
      if (died) dead.push_back(&ending);
    }
    std::ranges::stable_sort(dead, [](const Ending* a, const Ending* b) { return a->is_cause > b->is_cause; });
    if (!dead.empty() && (dead.front()->is_cause || stuck.empty())) return explain_death(dead);
    return stuck.empty() ? explain_interruption() : explain_hang(stuck);
  }

 private:
  /// No rank is to blame. But the user may have ended the run because it made no progress.
  std::string explain_interruption() const {
    const bool was_interrupted =
        std::ranges::any_of(endings_, [](const Ending& ending) { return ending.how == Ending::How::interrupted; });
    const std::string waits_text =
        was_interrupted && flight_ != nullptr ? reports::waits_text(*flight_) : std::string();
    return waits_text.empty() ? waits_text : "when the run ended, " + waits_text;
  }

  // -- Death ----------------------------------------------------------------------------------------------------------

  std::string explain_death(const std::vector<const Ending*>& dead) const {
    const Ending& first = *dead.front();
    if (plan_.fabric == protocol::thread_fabric && first.is_cause) return explain_death_of_all(dead);
    const std::string how = end_text(first);
    std::string text =
        fmt::format("{} {} {}{}", name(first.rank), how, place(first.position, first.rank), activity(first.rank));
    text += waiters(first.rank, "waited for it");
    for (auto other = dead.begin() + 1; other != dead.end(); ++other) {
      if ((*other)->how == Ending::How::signalled)
        text += fmt::format("; {} died by {} too", name((*other)->rank), protocol::signal_text(**other));
    }
    return text;
  }

  /// The process that was all ranks died. A running rank ended it. If several were running, any of them may be the
  /// cause.
  std::string explain_death_of_all(const std::vector<const Ending*>& suspects) const {
    std::string text = fmt::format("the process of all ranks {}", end_text(*suspects.front()));
    const char* separator = suspects.size() == 1 ? " while" : "; one of these ranks is the cause:";
    for (const Ending* suspect : suspects) {
      text += fmt::format("{} rank {}{} {}{}", separator, suspect->rank, suspects.size() == 1 ? " was running," : "",
                          place(suspect->position, suspect->rank), activity(suspect->rank));
      separator = ",";
    }
    return suspects.size() == 1 ? text + waiters(suspects.front()->rank, "waited for it") : text;
  }

  static std::string end_text(const Ending& ending) {
    return ending.how == Ending::How::signalled ? "died by " + protocol::signal_text(ending)
                                                : fmt::format("exited with code {}", ending.code);
  }

  // -- Hang -----------------------------------------------------------------------------------------------------------

  std::string explain_hang(const std::vector<const Ending*>& stuck) const {
    if (flight_ == nullptr || recorded_nothing(stuck.front()->rank)) {
      std::string text;
      for (const Ending* ending : stuck)
        text += fmt::format("{}{} {}", text.empty() ? "" : "; ", name(ending->rank), ending->text);
      return text;
    }
    std::vector<const Ending*> guilty;
    for (const Ending* ending : stuck) {
      if (!protocol::is_held_up(waits_, ending->rank)) guilty.push_back(ending);
    }
    const bool all_went_on =
        std::ranges::all_of(stuck, [this](const Ending* ending) { return begun_since(ending->rank) > 0; });
    if (guilty.empty() && all_went_on) guilty = stuck;
    if (guilty.empty()) return explain_deadlock(stuck.front()->position);
    std::string text;
    for (const Ending* ending : guilty) text += (text.empty() ? "" : "; ") + explain_stuck(*ending);
    return text;
  }

  std::string explain_stuck(const Ending& ending) const {
    const int rank = ending.rank;
    if (const FlightRecord* const its = record(rank);
        its != nullptr && !its->entries.empty() && its->entries.back().what == What::left)
      return fmt::format("{} has left its world, and its process does not end", name(rank));
    const std::string where = place(ending.position, rank);
    std::string text;
    const PeerWait* const moving = wait_of(rank);
    if (moving != nullptr && moving->entry->what == What::call && !moving->is_for_others()) {
      const std::string age = age_text(moving->entry->since_ns);
      text = fmt::format("{} is {} inside {}, which all ranks {}", name(rank), where, call_text(*moving),
                         age.empty() ? "have entered" : fmt::format("entered {} ago", age));
    } else {
      for (const auto& [what, ranks] : waiting_for(rank)) {
        text += fmt::format("{}{} never {} ({} {})", text.empty() ? "" : ", ", name(rank), what.first, rank_list(ranks),
                            waiting_text(ranks.size() == 1, age_text(what.second)));
      }
      text += text.empty() ? fmt::format("{} is", name(rank)) : "; it is";
      text += fmt::format(" {}{}", where, activity(rank));
    }
    if (const std::uint64_t more = begun_since(rank); more > 0) {
      text += fmt::format("; it has made progress since ({} more entries): slow, not stuck", more);
    }
    return text;
  }

  std::string explain_deadlock(std::int64_t position) const {
    std::string text = fmt::format("every rank waits for another {}:", place(position, -1));
    const char* separator = "";
    for (const PeerWait& wait : waits_) {
      text += fmt::format("{} {} in {}", separator, name(wait.rank),
                          wait.entry->what == What::call ? call_text(wait) : "the agreement between cases");
      if (!wait.missing.empty()) text += " for " + rank_list(wait.missing);
      separator = ",";
    }
    return text;
  }

  std::string name(int rank) const { return rank_text(placement_, rank); }

  // -- What the records say -------------------------------------------------------------------------------------------

  const FlightRecord* record(int rank) const {
    const bool is_there = flight_ != nullptr && rank >= 0 && std::cmp_less(rank, flight_->ranks.size());
    return is_there ? &flight_->ranks[static_cast<std::size_t>(rank)] : nullptr;
  }

  bool recorded_nothing(int rank) const {
    const FlightRecord* const its = record(rank);
    return its == nullptr || its->begun == 0;
  }

  /// The record was lost with its host: no case begins before all ranks have recorded that they agree.
  bool has_lost_record(int rank) const {
    const auto is_in_case = [](const Ending& ending) { return ending.position >= 0; };
    const auto had_case = [](const FlightRecord& record) { return record.last_case().has_value(); };
    return recorded_nothing(rank) &&
           (std::ranges::any_of(endings_, is_in_case) || std::ranges::any_of(flight_->ranks, had_case));
  }

  std::uint64_t begun_since(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    const FlightRecord* const its = record(rank);
    if (its == nullptr || index >= flight_->begun_later.size() || flight_->begun_later[index] < its->begun) return 0;
    return flight_->begun_later[index] - its->begun;
  }

  const PeerWait* wait_of(int rank) const {
    const auto found = std::ranges::find(waits_, rank, &PeerWait::rank);
    return found == waits_.end() ? nullptr : &*found;
  }

  std::string call_text(const PeerWait& wait) const { return protocol::describe(*wait.entry, *record(wait.rank)); }

  /// The rank's last activity in its case, as the end of a sentence that says where the rank is.
  std::string activity(int rank) const {
    const FlightRecord* const its = record(rank);
    if (its == nullptr || its->entries.empty()) return {};
    if (its->is_writing) return ", while it recorded its next call or case";
    const FlightEntry* const last = its->last_call();
    if (its->entries.back().what == What::left) return {};
    if (last == nullptr)
      return !its->last_case() ? "" : is_in_a_body(*its) ? " before its first collective" : ", which had no collective";
    const std::string call = protocol::describe(*last, *its);
    switch (last->state) {
      case State::open:
        return fmt::format(" inside {}{}", call, protocol::is_over(flight_->ranks) ? ", which others have left" : "");
      case State::left: return " after " + call;
      case State::released: return fmt::format(" after {}, from which it was released", call);
      case State::given_up: return fmt::format(" after {}, which it gave up", call);
      case State::refused: return fmt::format(" after {}, which did not match the calls of other ranks", call);
    }
    return {};
  }

  static bool is_in_a_body(const FlightRecord& record) {
    const auto last = std::find_if(record.entries.rbegin(), record.entries.rend(), [](const FlightEntry& entry) {
      return entry.what == What::case_begun || entry.what == What::body_ended;
    });
    return last == record.entries.rend() ? record.case_begun.has_value() : last->what == What::case_begun;
  }

  /// The waits of other ranks for this rank: a call or the end of a case, the time since when, and the ranks that wait
  /// there.
  std::map<std::pair<std::string, std::int64_t>, std::vector<int>> waiting_for(int rank) const {
    std::map<std::string, std::pair<std::int64_t, std::vector<int>>> by_call;
    for (const PeerWait& wait : waits_) {
      if (std::ranges::find(wait.missing, rank) == wait.missing.end()) continue;
      const std::string what = wait.entry->what == What::call ? "entered " + call_text(wait)
                                                              : fmt::format("reached {}", agreement_text(wait));
      auto& [first, ranks] = by_call[what];
      first = first == 0 ? wait.entry->since_ns : std::min(first, wait.entry->since_ns);
      ranks.push_back(wait.rank);
    }
    std::map<std::pair<std::string, std::int64_t>, std::vector<int>> result;
    for (auto& [what, waiting] : by_call) result[{what, waiting.first}] = std::move(waiting.second);
    return result;
  }

  std::string waiters(int rank, std::string_view verb) const {
    std::map<std::string, std::vector<int>> by_call;
    for (const PeerWait& wait : waits_) {
      if (wait.entry->what != What::call || std::ranges::find(wait.missing, rank) == wait.missing.end()) continue;
      by_call[call_text(wait)].push_back(wait.rank);
    }
    std::string text;
    for (const auto& [call, ranks] : by_call) text += fmt::format("; {} {} in {}", rank_list(ranks), verb, call);
    return text;
  }

  static std::string waiting_text(bool is_one_rank, const std::string& age) {
    if (age.empty()) return is_one_rank ? "waits" : "wait";
    return fmt::format("{} waited for {}", is_one_rank ? "has" : "have", age);
  }

  /// `3.0 s`. Empty: the time is unknown.
  std::string age_text(std::int64_t begun_ns) const {
    if (begun_ns == 0 || begun_ns > flight_->taken_ns) return {};
    return fmt::format("{:.1f} s", static_cast<double>(flight_->taken_ns - begun_ns) / 1e9);
  }

  /// The place in the plan: as the launcher recorded it, else as the rank did.
  std::string place(std::int64_t position, int rank) const {
    if (position >= 0 && std::cmp_less(position, plan_.cases.size()))
      return "in " + plan_.cases[static_cast<std::size_t>(position)];
    const FlightRecord* const its = record(rank);
    if (its == nullptr) return "outside of its cases";
    const std::optional<std::uint64_t> begun = its->last_case();
    if (!begun) return has_lost_record(rank) ? "outside of its cases" : "before its first case";
    int agreements = 0;  // a case has an agreement at its end, and another before the next case
    bool ended = false;
    for (auto entry = its->entries.rbegin(); entry != its->entries.rend(); ++entry) {
      if (entry->what == What::left) return "after it had left its world";
      ended = ended || entry->what == What::body_ended;
      if (entry->what == What::agreement && !ended) ++agreements;
      if (entry->what == What::case_begun) break;
    }
    const std::string name = *begun < plan_.cases.size() ? plan_.cases[*begun] : "a case that is not in the plan";
    return (!ended ? "in " : agreements < 2 ? "at the end of " : "after ") + name;
  }

  const protocol::WorldPlan& plan_;
  std::span<const Ending> endings_;
  const FlightSnapshot* flight_;
  const Placement& placement_;
  std::vector<PeerWait> waits_;
};

}  // namespace

std::string explain(const protocol::WorldPlan& plan, std::span<const Ending> endings, const FlightSnapshot* flight,
                    const Placement& placement) {
  return Explainer(plan, endings, flight, placement).explain();
}

std::string waits_text(const FlightSnapshot& flight) {
  std::map<std::pair<std::string, std::vector<int>>, std::vector<int>> groups;
  for (const PeerWait& wait : protocol::waits(flight.ranks)) {
    if (wait.missing.empty()) continue;
    const std::string where =
        wait.entry->what == What::call
            ? "in " + protocol::describe(*wait.entry, flight.ranks[static_cast<std::size_t>(wait.rank)])
            : fmt::format("at {}", agreement_text(wait));
    groups[{where, wait.missing}].push_back(wait.rank);
  }
  std::string text;
  for (const auto& [what, ranks] : groups) {
    text += fmt::format("{}{} wait{} {} for {}", text.empty() ? "" : ", ", rank_list(ranks),
                        ranks.size() == 1 ? "s" : "", what.first, rank_list(what.second));
  }
  return text;
}

}  // namespace shardproof::reports
