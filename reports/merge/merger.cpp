#include "reports/merge/merger.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include "harness/protocol/failure_text.hpp"
#include "reports/explain/explanation.hpp"
#include "reports/model/waivers.hpp"

namespace shardproof::reports {

using protocol::Ending;
using protocol::Outcome;

namespace {

std::string describe(const Ending& ending) {
  if (ending.how == Ending::How::overran && !ending.text.empty()) return ending.text;
  std::string sentence;
  switch (ending.how) {
    case Ending::How::exited: sentence = fmt::format("exited with code {}", ending.code); break;
    case Ending::How::signalled: sentence = "was killed by " + protocol::signal_text(ending); break;
    case Ending::How::overran: sentence = "overran its deadline"; break;
    case Ending::How::stopped: sentence = "was stopped by its launcher"; break;
    case Ending::How::interrupted: sentence = "was interrupted"; break;
    case Ending::How::not_started: sentence = "was not started"; break;
    case Ending::How::foreign: sentence = "ended unobserved"; break;
  }
  // For an exit or a signal, the launcher's text would only repeat the sentence. The world's endings have the text
  // anyway.
  const bool is_said = ending.how == Ending::How::exited || ending.how == Ending::How::signalled;
  if (!is_said && !ending.text.empty()) sentence += ": " + ending.text;
  return sentence;
}

/// The launcher's text about an overdue rank says where the rank was.
bool says_where(const Ending& ending) { return ending.how == Ending::How::overran && !ending.text.empty(); }

/// A name that several measurements have: the first in the order of names.
std::optional<std::string_view> name_measured_twice(const StreamedCase& streamed) {
  std::vector<std::string_view> names;
  for (const protocol::event::Measured& measured : streamed.measurements) names.push_back(measured.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  return twice == names.end() ? std::nullopt : std::optional(*twice);
}

FactSet<StreamFact> facts_of(const StreamedCase& streamed) {
  FactSet<StreamFact> facts;
  const bool has_failed =
      streamed.failures_left_out > 0 ||
      std::ranges::any_of(streamed.failures, [](const auto& failure) { return !failure.macro.empty(); });
  facts.add(StreamFact::failed_assertion, has_failed);
  facts.add(StreamFact::exception, !has_failed && !streamed.failures.empty());
  facts.add(StreamFact::measured_twice, name_measured_twice(streamed).has_value());
  if (!streamed.ended) return facts;
  facts.add(StreamFact::ended);
  facts.add(StreamFact::passed, streamed.ended->outcome == Outcome::passed);
  facts.add(StreamFact::skipped, streamed.ended->outcome == Outcome::skipped);
  return facts.add(StreamFact::released, streamed.ended->outcome == Outcome::released);
}

FactSet<EndingFact> facts_of(const Ending& ending) {
  FactSet<EndingFact> facts;
  facts.add(EndingFact::overran, ending.how == Ending::How::overran);
  facts.add(EndingFact::signalled, ending.how == Ending::How::signalled);
  facts.add(EndingFact::exited, ending.how == Ending::How::exited);
  facts.add(EndingFact::stopped, ending.how == Ending::How::stopped);
  facts.add(EndingFact::code_0, ending.code == 0);
  facts.add(EndingFact::cause, ending.is_cause);
  return facts.add(EndingFact::unrecorded, ending.position < 0);
}

std::string join_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t shown = 8;
  const auto some = fmt::format(
      "{}", fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(std::min(shown, ranks.size())), ", "));
  const auto* noun = ranks.size() == 1 ? "rank" : "ranks";
  return ranks.size() <= shown ? fmt::format("{} {}", noun, some)
                               : fmt::format("{} {} and {} more", noun, some, ranks.size() - shown);
}

}  // namespace

Merger::Merger(RunHead head) { report_.head = std::move(head); }

void Merger::open_world(const protocol::WorldPlan& plan, std::vector<protocol::CaseInfo> cases,
                        std::vector<Ending> endings, std::optional<int> number) {
  close_world();
  is_open_ = true;
  is_judged_ = has_failed_here_ = false;
  plan_ = plan;
  next_rank_ = 0;
  identity_.reset();
  clocks_.clear();
  flight_.reset();
  cut_short_.clear();
  is_cut_by_case_ = false;
  first_case_ = report_.cases.size();
  positions_.assign(cases.size(), {});

  const auto size = static_cast<std::size_t>(std::max(plan.size, 0));
  auto& world = report_.worlds.emplace_back();
  world.number = number.value_or(0);  // a world without a folder gets a number after all folders
  const bool is_planned = plan.planned >= 0 && plan.attempt == 0;
  places_.push_back({.attempt = plan.attempt,
                     .planned = is_planned ? plan.planned : -1,
                     .left = is_planned ? plan.cases.size() : 0,
                     .first_case = plan.attempt > 0 && !plan.cases.empty() ? plan.cases.front() : std::string(),
                     .has_folder = number.has_value()});
  world.size = plan.size;
  world.fabric = plan.fabric;
  world.device = plan.device;
  world.environment = plan.environment;
  world.unfit_for_timing = plan.unfit_for_timing;
  world.times = plan.times;
  for (auto& info : cases) {
    auto& result = report_.cases.emplace_back();
    result.info = std::move(info);
    result.world = static_cast<int>(report_.worlds.size() - 1);
    result.ranks.resize(size);
    result.attempt = plan.attempt;
  }
  // A plan with other cases than the launcher's is not valid evidence.
  const auto planned = std::min(plan.cases.size(), positions_.size());
  for (std::size_t i = 0; i < positions_.size(); ++i) {
    if (i < planned && plan.cases[i] == at(i).info.id) continue;
    world.defects.push_back(fmt::format("position {} of the plan is {}, not \"{}\"", i,
                                        i < planned ? "\"" + plan.cases[i] + "\"" : "missing", at(i).info.id));
    positions_[i].ranks_differ = true;
  }

  endings_.assign(size, std::nullopt);
  for (auto& ending : endings) {
    const auto rank = static_cast<std::size_t>(ending.rank);
    if (ending.rank < 0 || rank >= size) {
      world.defects.push_back(
          fmt::format("an ending is recorded for rank {} in a world of {}", ending.rank, plan.size));
    } else if (endings_[rank]) {
      defect(ending.rank, "has two recorded endings");
    } else {
      endings_[rank] = std::move(ending);
    }
  }
  a_rank_died_ = std::any_of(endings_.begin(), endings_.end(),
                             [](const auto& ending) { return ending && died_by_itself(*ending); });
  a_rank_refused_ = std::any_of(endings_.begin(), endings_.end(),
                                [](const auto& ending) { return ending && protocol::is_refusal(*ending); });
  interrupted_ = !a_rank_died_ && std::any_of(endings_.begin(), endings_.end(), [](const auto& ending) {
    return ending && ending->how == Ending::How::interrupted;
  });
  none_started_ = !endings_.empty() && std::all_of(endings_.begin(), endings_.end(), [&](const auto& ending) {
    return ending && ending->how == Ending::How::not_started && ending->text == endings_.front()->text;
  });
  if (none_started_) world.defects.push_back("no rank was started: " + endings_.front()->text);
  const auto is_foreign = [](const auto& ending) { return ending && ending->how == Ending::How::foreign; };
  const bool foreign_world = std::all_of(endings_.begin(), endings_.end(), is_foreign);
  for (auto& ending : endings_) {
    if (ending) world.endings.push_back(*ending);
    // The launcher that started one rank of a world started all of them, and saw how they ended.
    if (is_foreign(ending) && !foreign_world) ending.reset();
  }
  world.explanation = reports::explain(plan_, world.endings, nullptr);
}

void Merger::skip_world(const protocol::WorldPlan& plan, std::vector<protocol::CaseInfo> cases) {
  open_world(plan, std::move(cases), {});
  for (std::size_t position = 0; position < positions_.size(); ++position) {
    for (int rank = 0; rank < plan.size; ++rank) set(rank, position, Outcome::skipped, plan.skipped);
  }
  next_rank_ = plan.size;  // no rank can have evidence of a skipped case
  close_world();
}

void Merger::leave_out_world(const protocol::WorldPlan& plan, std::vector<protocol::CaseInfo> cases) {
  open_world(plan, std::move(cases), {});
  next_rank_ = plan.size;  // no rank can have evidence
  close_world();
}

void Merger::lose_world(const protocol::WorldPlan& plan, std::vector<protocol::CaseInfo> cases, std::string defect,
                        std::optional<int> number) {
  open_world(plan, std::move(cases), {}, number);
  next_rank_ = plan.size;  // no rank can have evidence
  add_defect(std::move(defect));
  close_world();
}

void Merger::explain(const protocol::FlightSnapshot& flight) {
  if (!is_open_) throw std::logic_error("Merger::explain: no world is open");
  WorldResult& world = report_.worlds.back();
  world.explanation = reports::explain(plan_, world.endings, &flight);
  flight_ = flight;
}

void Merger::add_nccl_calls(std::vector<std::string> sentences) {
  if (!is_open_) throw std::logic_error("Merger::add_nccl_calls: no world is open");
  report_.worlds.back().nccl = std::move(sentences);
}

void Merger::add_defect(std::string defect) {
  if (!is_open_) throw std::logic_error("Merger::add_defect: no world is open");
  report_.worlds.back().defects.push_back(std::move(defect));
}

void Merger::add(RankStream stream) {
  if (!is_open_ || next_rank_ >= plan_.size)
    throw std::logic_error("Merger::add: no world is open or all its ranks have been added");
  const int rank = next_rank_++;
  const auto& ending = endings_[static_cast<std::size_t>(rank)];

  // A rank with a stream ran, even if its launcher recorded that it was not started.
  const bool never_started = ending && ending->how == Ending::How::not_started && stream.absent;
  const auto rejection = never_started ? std::string("was not started") : rejection_of(stream, rank);
  if (!rejection.empty()) {
    // A rank that died or was stopped before its first line can have no stream.
    const bool is_expected = stream.absent && ending &&
                             (ending->how == Ending::How::signalled || ending->how == Ending::How::overran ||
                              ending->how == Ending::How::stopped || ending->how == Ending::How::interrupted);
    if (!never_started && !is_expected) defect(rank, rejection);
    const RankStream nothing;
    return apply_ending(nothing, rank, {});
  }
  if (!stream.defect.empty()) defect(rank, "has a corrupt stream: " + stream.defect);
  place(stream);

  StreamEnd end;
  for (auto& streamed : stream.cases) {
    const auto position = streamed.started.position;
    if (position >= positions_.size()) {
      defect(rank, fmt::format("ran \"{}\" at position {}, but the plan has {}", streamed.started.id, position,
                               positions_.size()));
      break;
    }
    if (position < end.next) {
      defect(rank, fmt::format("ran position {} again", position));
      set(rank, position, outcome_by_stream(facts_of(streamed).add(StreamFact::repeated)), "ran it twice");
      break;
    }
    end.is_inside = !streamed.ended;
    end.next = end.is_inside ? position : position + 1;
    end.left_changes =
        !end.is_inside && std::ranges::find(streamed.failures, protocol::unchanged_process_check,
                                            &protocol::event::AssertionFailed::macro) != streamed.failures.end();
    take_case(streamed, rank, position);
  }
  if (!stream.cut_short.empty()) {
    cut_short_ = stream.cut_short;
    is_cut_by_case_ = stream.is_cut_by_case;
    std::string& explanation = report_.worlds.back().explanation;
    if (explanation.empty()) explanation = cut_short_;
    end.next = positions_.size();  // however its process ended afterwards, it ran no other case
    end.left_changes = false;
  }
  // A corrupt stream does not show where the rank was at its end. It only shows where its evidence ends.
  end.is_inside = end.is_inside && stream.defect.empty();
  apply_ending(stream, rank, end);
}

std::string Merger::rejection_of(const RankStream& stream, int rank) {
  if (!stream.start) {
    if (!stream.defect.empty()) return "has no valid stream: " + stream.defect;
    return stream.truncated ? "has a stream that is cut off in its first line" : "has an empty stream";
  }
  const auto& start = *stream.start;
  if (start.nonce != plan_.nonce)
    return fmt::format("has a stream of another world (nonce \"{}\", not \"{}\")", start.nonce, plan_.nonce);
  if (start.rank != rank) return fmt::format("has the stream of rank {}", start.rank);
  if (start.world_size != plan_.size)
    return fmt::format("has a stream of a world of {} ranks, not {}", start.world_size, plan_.size);
  if (start.protocol != protocol::Listing::current_protocol) {
    return fmt::format("has a stream of protocol {}; this merge reads {}", start.protocol,
                       protocol::Listing::current_protocol);
  }
  if (!identity_) identity_ = Identity{rank, start.suite_version, start.build};
  if (start.suite_version != identity_->suite_version || start.build != identity_->build) {
    return fmt::format("ran suite {}, build {}; rank {} ran suite {}, build {}", start.suite_version, start.build,
                       identity_->rank, identity_->suite_version, identity_->build);
  }
  return {};
}

void Merger::place(RankStream& stream) {
  const protocol::event::RankStarted& start = *stream.start;
  if (start.host_id.empty()) return;
  WorldResult& world = report_.worlds.back();
  const std::size_t host = world.placement.add(start.rank, start.host, start.host_id);
  if (host == world.host_details.size()) {
    world.host_details.push_back({.interfaces = start.interfaces, .gpus = {}});
    clocks_.push_back(start.clocks);
  }
  std::vector<std::string>& gpus = world.host_details[host].gpus;
  if (!start.gpu.empty() || !gpus.empty()) {
    gpus.resize(world.placement.hosts()[host].ranks.size());
    gpus.back() = start.gpu;
  }
  // All ranks of a host have one clock. So the first pair of a host is for all its ranks, and keeps their order exact.
  const std::optional<protocol::ClockPair>&own = clocks_[host], &reference = clocks_.front();
  if (host == 0 || !own || !reference) return;
  for (StreamedCase& streamed : stream.cases) {
    for (protocol::event::AssertionFailed& failure : streamed.failures)
      failure.monotonic_ns = protocol::rebased(failure.monotonic_ns, *own, *reference);
  }
}

void Merger::take_case(StreamedCase& streamed, int rank, std::size_t position) {
  auto& result = at(position);
  auto& place = positions_[position];
  auto facts = facts_of(streamed);
  if (streamed.started.id != result.info.id) {
    place.ranks_differ = true;
    const auto outcome = outcome_by_stream(facts.add(StreamFact::other_case));
    return set(rank, position, outcome, fmt::format("ran \"{}\" instead", streamed.started.id));
  }
  const auto reported = streamed.ended ? streamed.ended->outcome : Outcome::missing;
  const auto outcome = outcome_by_stream(facts, reported);
  add_failures(result, streamed, rank, reported == Outcome::released);
  if (!place.measurements.add(result, streamed, rank, outcome == Outcome::passed, plan_.device))
    place.ranks_differ = true;
  if (!streamed.ended) return set(rank, position, outcome, "its stream stops inside this case");

  auto& ended = *streamed.ended;
  auto reason = std::move(ended.reason);
  if (outcome == Outcome::released && reason.empty() && ended.culprit >= 0)
    reason = fmt::format("left because of rank {}", ended.culprit);
  const bool is_exception = facts.has_all({StreamFact::exception});
  if (outcome == Outcome::error && reported == Outcome::passed && !is_exception)
    reason = fmt::format("measured \"{}\" twice", *name_measured_twice(streamed));
  if (outcome == Outcome::skipped && result.skipped_by < 0 && ended.culprit < plan_.size)
    result.skipped_by = std::max(ended.culprit, -1);
  if (outcome == Outcome::skipped) result.unclaimed = result.unclaimed || ended.unclaimed;
  set(rank, position, outcome, std::move(reason));
  result.ranks[static_cast<std::size_t>(rank)].assertions = ended.assertions;
  result.assertions += ended.assertions;
  if (result.combined.empty()) result.combined = ended.combined;
  result.duration_ns = std::max(result.duration_ns, ended.duration_ns);
}

void Merger::apply_ending(const RankStream& stream, int rank, StreamEnd end) {
  const auto& recorded = endings_[static_cast<std::size_t>(rank)];
  if (!recorded) return defect(rank, "has no recorded ending");
  const Ending& ending = *recorded;
  const bool is_recorded = ending.position >= 0;
  const auto [next, is_inside, left_changes] = end;
  // A rank that was stopped because of another rank has its own result of the case that it ended.
  const bool is_blamed_on_last = left_changes && ending.how != Ending::How::stopped;
  const auto position = is_recorded ? static_cast<std::size_t>(ending.position) : is_blamed_on_last ? next - 1 : next;
  const bool is_in_plan = position < positions_.size();
  const bool is_open = is_inside && position == next;

  auto facts = facts_of(ending);
  facts.add(EndingFact::refusal, protocol::is_refusal(ending) && is_in_plan);
  facts.add(EndingFact::a_rank_died, a_rank_died_).add(EndingFact::last_line_cut, stream.truncated);
  if (is_inside && !is_open) decide_by_ending(ending, next, FactSet(facts).add(EndingFact::open), "inside");
  facts.add(EndingFact::recorded, is_recorded).add(EndingFact::between_cases, !is_inside && !is_recorded);
  facts.add(EndingFact::open, is_open).add(EndingFact::open_elsewhere, is_inside && !is_open);
  facts.add(EndingFact::was_released,
            is_recorded && is_in_plan && outcome_of(rank, position).outcome == Outcome::released);
  const auto outcome = decide_by_ending(ending, position, facts,
                                        is_inside || is_recorded ? "inside"
                                        : is_blamed_on_last      ? "after"
                                                                 : "before");

  if (facts.has_all({EndingFact::stopped, EndingFact::between_cases}) && is_in_plan)
    positions_[position].waiting.push_back(rank);
  switch (ending.how) {
    case Ending::How::not_started:
      if (!none_started_) defect(rank, describe(ending));
      return;
    case Ending::How::foreign:
      if (stream.start && !stream.complete && stream.defect.empty())
        defect(rank,
               fmt::format("has a stream without an end{}, and no launcher saw how its process ended",
                           is_inside && is_in_plan ? fmt::format(" (it stops in {})", at(position).info.id) : ""));
      return;
    case Ending::How::interrupted: return;
    case Ending::How::stopped:
      if (!a_rank_died_ && !a_rank_refused_) defect(rank, describe(ending) + ", but no rank of its world died");
      return;
    case Ending::How::exited:
      if (outcome == Outcome::missing) return defect(rank, "could not join or stay in its world: " + describe(ending));
      if (outcome || ending.code != 0 || is_recorded) break;
      if (stream.start && stream.defect.empty() && !stream.complete)
        defect(rank, "exited with code 0, but its stream has no end");
      if (stream.complete && is_in_plan && !a_rank_died_)
        defect(rank, fmt::format("left after {} of {} cases", next, positions_.size()));
      return;
    case Ending::How::signalled:
    case Ending::How::overran: break;
  }
  if (outcome && !is_in_plan && !is_inside)
    defect(rank, describe(ending) + (says_where(ending) ? "" : " after its last case"));
}

std::optional<Outcome> Merger::decide_by_ending(const Ending& ending, std::size_t position, FactSet<EndingFact> facts,
                                                std::string_view where) {
  const auto outcome = outcome_by_ending(facts);
  if (!outcome || position >= positions_.size()) return outcome;
  const bool is_death = outcome == Outcome::crashed || outcome == Outcome::hung;
  set(ending.rank, position, *outcome,
      describe(ending) + (is_death && !says_where(ending) ? fmt::format(" {} this case", where) : ""));
  return outcome;
}

void Merger::set(int rank, std::size_t position, Outcome outcome, std::string reason) {
  outcome_of(rank, position).outcome = outcome;
  auto& reasons = at(position).reasons;
  if (reason.empty()) {
    reasons.erase(rank);
  } else {
    reasons[rank] = std::move(reason);
  }
}

void Merger::defect(int rank, std::string_view sentence) {
  report_.worlds.back().defects.push_back(fmt::format("rank {} {}", rank, sentence));
}

std::size_t Merger::answered() const {
  std::size_t count = positions_.size();
  const auto says_nothing = [&](std::size_t i) {
    const auto& ranks = report_.cases[first_case_ + i].ranks;
    return !positions_[i].ranks_differ &&
           std::ranges::all_of(ranks, [](const RankOutcome& rank) { return rank.outcome == Outcome::missing; });
  };
  while (count > 0 && says_nothing(count - 1)) --count;
  return count;
}

void Merger::keep(std::size_t first) {
  if (!is_open_ || first > positions_.size())
    throw std::logic_error("Merger::keep: no world is open, or it has fewer cases");
  report_.cases.resize(first_case_ + first);
  positions_.resize(first);
}

bool Merger::has_failed_fast() {
  judge();
  return has_failed_fast_;
}

void Merger::judge() {
  if (!is_open_ || is_judged_) return;
  is_judged_ = true;
  while (next_rank_ < plan_.size) {
    RankStream none;
    none.defect = "it does not exist";
    none.absent = true;
    add(std::move(none));
  }
  for (std::size_t i = 0; i < positions_.size(); ++i) {
    auto& result = at(i);
    auto& place = positions_[i];
    const bool began = std::ranges::any_of(result.ranks, [](const RankOutcome& rank) {
      return rank.outcome != Outcome::missing && rank.outcome != Outcome::skipped;
    });
    FactSet stopped_before{EndingFact::stopped, EndingFact::unrecorded, EndingFact::between_cases};
    stopped_before.add(EndingFact::another_began, began);
    for (const int rank : place.waiting)
      decide_by_ending(*endings_[static_cast<std::size_t>(rank)], i, stopped_before, "before");
    FactSet<CaseFact> facts;
    facts.add(CaseFact::ranks_differ, place.ranks_differ).add(CaseFact::interrupted, interrupted_);
    result.verdict = decide(result.ranks, facts);
    if (result.verdict == Verdict::disagreed) {
      std::vector<int> silent;
      for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
        if (result.ranks[rank].outcome == Outcome::missing) silent.push_back(static_cast<int>(rank));
      }
      if (!silent.empty()) result.notes.push_back("no evidence from " + join_ranks(silent));
    }
    keep_first_failures(result);
  }
  const auto own = std::span(report_.cases).subspan(first_case_);
  apply_waivers(own, report_);
  has_failed_here_ = std::ranges::any_of(own, is_unexcused_failure);
  has_failed_fast_ = has_failed_fast_ || (has_failed_here_ && plan_.fail_fast);
}

std::span<const CaseResult> Merger::close_world() {
  if (!is_open_) return {};
  judge();
  const bool is_end_expected = plan_.fail_fast && has_failed_here_;
  if (const std::size_t begun = answered(); !cut_short_.empty() && begun < positions_.size() && !is_end_expected)
    add_defect(fmt::format("its ranks left after {} of {} cases, and no other world has run the rest: {}", begun,
                           positions_.size(), cut_short_));
  name_hosts();
  is_open_ = false;
  const auto own = std::span(report_.cases).subspan(first_case_);
  if (std::ranges::none_of(own, is_bad, &CaseResult::verdict)) report_.worlds.back().nccl.clear();
  return own;
}

void Merger::name_hosts() {
  WorldResult& world = report_.worlds.back();
  if (world.placement.hosts().size() < 2) return;
  const std::string named = reports::explain(plan_, world.endings, flight_ ? &*flight_ : nullptr, world.placement);
  if (!named.empty()) world.explanation = named;
}

void Merger::mark_left_out() {
  const auto failed = std::ranges::find_if(report_.cases, is_unexcused_failure);
  if (!has_failed_fast_ || failed == report_.cases.end()) return;
  const std::string note =
      fmt::format("the run ended before the end of this case: {}", protocol::fail_fast_reason(failed->info.id));
  for (CaseResult& result : report_.cases) {
    // A defect is another reason why a case did not run.
    if (result.verdict != Verdict::not_run || !report_.worlds[static_cast<std::size_t>(result.world)].defects.empty())
      continue;
    result.left_out = true;
    result.notes.push_back(note);
  }
}

Report Merger::finish() {
  close_world();
  order_worlds(report_, places_);
  places_.clear();
  mark_left_out();
  order_cases(report_);
  return std::exchange(report_, {});
}

}  // namespace shardproof::reports
