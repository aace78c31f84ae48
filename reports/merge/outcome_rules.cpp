#include "reports/merge/outcome_rules.hpp"

#include <algorithm>

namespace shardproof::reports {

using protocol::Outcome;

namespace {

/// The first rule that applies. Nullptr: none.
template <class Fact, class Result>
const Rule<Fact, Result>* first_rule(std::span<const Rule<Fact, Result>> rules, FactSet<Fact> facts) {
  const auto found = std::ranges::find_if(rules, [&](const auto& rule) { return rule.applies(facts); });
  return found == rules.end() ? nullptr : &*found;
}

CaseFact fact_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed: return CaseFact::passed;
    case Outcome::failed: return CaseFact::failed;
    case Outcome::error: return CaseFact::error;
    case Outcome::released: return CaseFact::released;
    case Outcome::skipped: return CaseFact::skipped;
    case Outcome::hung: return CaseFact::hung;
    case Outcome::crashed: return CaseFact::crashed;
    case Outcome::missing: break;
  }
  return CaseFact::missing;
}

}  // namespace

bool died_by_itself(const protocol::Ending& ending) {
  using enum Ending::How;
  return ending.how == signalled || ending.how == overran || ending.how == not_started ||
         (ending.how == exited && (ending.position >= 0 || (ending.is_cause && !protocol::is_refusal(ending))));
}

// clang-format off

std::span<const StreamRule> stream_rules() {
  using enum StreamFact;
  static constexpr StreamRule rules[] = {
    {.when = "The rank ran another case than the plan's",
     .all_of = {other_case}, .result = Outcome::missing},
    {.when = "The rank went back in the plan",
     .all_of = {repeated}, .result = Outcome::missing},
    {.when = "An assertion failed, and the rank reports a pass, a skip or a release",
     .all_of = {failed_assertion}, .any_of = {passed, skipped, released}, .result = Outcome::failed},
    {.when = "An exception left the body, and the rank reports a pass or a skip",
     .all_of = {exception}, .any_of = {passed, skipped}, .result = Outcome::error},
    {.when = "The rank reports a pass, and measured a name twice",
     .all_of = {passed, measured_twice}, .result = Outcome::error},
    {.when = "The rank reports an outcome",
     .all_of = {ended}, .result = {}},
    {.when = "In all other cases, for example if the stream stops inside the case",
     .result = Outcome::missing},
  };
  return rules;
}

std::span<const EndingRule> ending_rules() {
  using enum EndingFact;
  static constexpr EndingRule rules[] = {
    {.when = "The process overran its deadline",
     .all_of = {overran}, .result = Outcome::hung},
    {.when = "A signal ended the process, and the launcher had not sent it",
     .all_of = {signalled}, .result = Outcome::crashed},
    {.when = "The process exited with code 0 between cases, and this did not end the world",
     .all_of = {exited, between_cases, code_0}, .none_of = {cause}, .result = {}},
    {.when = "The process exited between cases, another rank of the world died, and this exit did not end the world",
     .all_of = {exited, between_cases, a_rank_died}, .none_of = {cause}, .result = {}},
    {.when = "The process exited between cases, before its last case, "
             "with the code for usage (2) or infrastructure (3)",
     .all_of = {exited, between_cases, refusal}, .result = Outcome::missing},
    // A process that left in order has flushed its lines. A cut-off line then means a full disk, not an exit inside
    // the case.
    {.when = "The process exited with code 0 in the open case, "
             "the last line of its stream is cut off, the launcher recorded no case, and this did not end the world",
     .all_of = {exited, open, unrecorded, code_0, last_line_cut}, .none_of = {cause}, .result = {}},
    // The launcher's record is then older than the stream.
    {.when = "The process exited in no open case, "
             "the launcher recorded a case from which the rank had been released, and this did not end the world",
     .all_of = {exited, recorded, was_released}, .none_of = {cause, open_elsewhere}, .result = {}},
    {.when = "The process exited in any other way",
     .all_of = {exited}, .result = Outcome::crashed},
    {.when = "The launcher stopped the process because of another rank, and recorded this case",
     .all_of = {stopped, recorded}, .result = Outcome::released},
    {.when = "The launcher stopped the process because of another rank, in the open case, "
             "and recorded no case",
     .all_of = {stopped, open, unrecorded}, .result = Outcome::released},
    {.when = "The launcher stopped the process because of another rank, between cases, "
             "and another rank began this case",
     .all_of = {stopped, between_cases, another_began}, .result = Outcome::released},
  };
  return rules;
}

std::span<const VerdictRule> verdict_rules() {
  using enum CaseFact;
  static constexpr VerdictRule rules[] = {
    {.when = "Some rank crashed",
     .all_of = {crashed}, .result = Verdict::crashed},
    {.when = "Some rank hung",
     .all_of = {hung}, .result = Verdict::hung},
    {.when = "The ranks ran different cases, or ranks that passed measured different values",
     .all_of = {ranks_differ}, .result = Verdict::disagreed},
    {.when = "The run was interrupted, no rank of the world died, some rank was released or has no evidence, "
             "and no rank failed or had an error",
     .all_of = {interrupted}, .any_of = {released, missing}, .none_of = {failed, error}, .result = Verdict::not_run},
    {.when = "Some rank has no evidence, and another rank passed, failed, had an error or was released",
     .all_of = {missing}, .any_of = {passed, failed, error, released}, .result = Verdict::disagreed},
    {.when = "Some rank skipped the case, and another rank passed, failed or had an error",
     .all_of = {skipped}, .any_of = {passed, failed, error}, .result = Verdict::disagreed},
    {.when = "Some rank failed",
     .all_of = {failed}, .result = Verdict::failed},
    {.when = "Some rank had an error, or passed without an assertion",
     .any_of = {error, passed_vacuously}, .result = Verdict::error},
    {.when = "Some rank was released, and no rank skipped the case: nothing explains the release",
     .all_of = {released}, .none_of = {skipped}, .result = Verdict::error},
    {.when = "Every rank skipped the case or has no evidence",
     .all_of = {missing}, .result = Verdict::not_run},
    {.when = "Some rank skipped the case, and every other rank skipped it or was released",
     .all_of = {skipped}, .result = Verdict::skipped},
    {.when = "Every rank passed, with at least one assertion",
     .all_of = {passed}, .result = Verdict::passed},
    {.when = "The world has no rank",
     .result = Verdict::not_run},
  };
  return rules;
}

// clang-format on

Outcome outcome_by_stream(FactSet<StreamFact> facts, Outcome reported) {
  return first_rule(stream_rules(), facts)->result.value_or(reported);
}

std::optional<Outcome> outcome_by_ending(FactSet<EndingFact> facts) {
  const EndingRule* rule = first_rule(ending_rules(), facts);
  return rule == nullptr ? std::nullopt : rule->result;
}

Verdict decide(std::span<const RankOutcome> ranks, FactSet<CaseFact> facts) {
  for (const RankOutcome& rank : ranks) {
    facts.add(fact_of(rank.outcome));
    facts.add(CaseFact::passed_vacuously, rank.outcome == Outcome::passed && rank.assertions == 0);
  }
  return first_rule(verdict_rules(), facts)->result;
}

}  // namespace shardproof::reports
