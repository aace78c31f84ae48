// The outcome rules: three tables that turn evidence into the outcome of one rank in one case, and the outcomes of all
// ranks into the verdict of the case. The Merger collects the facts and applies the rules. Pure.
//
// In each table, the first rule that applies decides. `docs/reports.md` shows the tables, and a test compares them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "harness/protocol/ending.hpp"
#include "harness/protocol/events.hpp"
#include "reports/model/verdict.hpp"

namespace shardproof::reports {

/// A set of facts, which are enumerators of `Fact`.
template <class Fact>
class FactSet {
 public:
  constexpr FactSet() = default;
  constexpr FactSet(std::initializer_list<Fact> facts) {
    for (const Fact fact : facts) add(fact);
  }
  constexpr FactSet& add(Fact fact, bool holds = true) {
    if (holds) bits_ |= 1U << static_cast<unsigned>(fact);
    return *this;
  }
  constexpr FactSet& add(FactSet other) {
    bits_ |= other.bits_;
    return *this;
  }
  constexpr bool is_empty() const { return bits_ == 0; }
  constexpr bool has_all(FactSet other) const { return (bits_ & other.bits_) == other.bits_; }
  constexpr bool has_any(FactSet other) const { return (bits_ & other.bits_) != 0; }

 private:
  std::uint32_t bits_ = 0;
};

template <class Fact, class Result>
struct Rule {
  std::string_view when;  ///< The condition in words, as in the documentation.
  FactSet<Fact> all_of = {}, any_of = {}, none_of = {};  ///< An empty set sets no condition.
  Result result;

  constexpr bool applies(FactSet<Fact> facts) const {
    return facts.has_all(all_of) && (any_of.is_empty() || facts.has_any(any_of)) && !facts.has_any(none_of);
  }
};

/// A rank's stream shows these facts of a case.
enum class StreamFact : std::uint8_t {
  other_case,        ///< Its id is not the plan's id at this position.
  repeated,          ///< The rank had been at this position, or at a later one, before.
  ended,             ///< The rank reported an outcome. `passed`, `skipped` and `released` are such outcomes.
  passed,
  skipped,
  released,
  failed_assertion,
  exception,         ///< An exception left the body.
  measured_twice,    ///< Two measurements have the same name.
};

/// The end of a rank's process has these facts for a case. The end concerns the case that the launcher recorded, and
/// the case that the stream left open. Without either, it concerns the first case that the rank has not ended. But if
/// the rank's last case left its process changed, it concerns that case.
enum class EndingFact : std::uint8_t {
  overran,  ///< This and the next three facts: how the process ended (Ending::How).
  signalled,
  exited,
  stopped,
  code_0,  ///< An exit with code 0.
  /// is_refusal(): an exit with the code for usage or for infrastructure, in no recorded case. And the rank has not
  /// ended its last case.
  refusal,
  cause,  ///< Ending::is_cause: this end ended the world.
  a_rank_died,  ///< died_by_itself() holds for some rank of the world.
  last_line_cut,  ///< The stream's last line has no newline.
  recorded,  ///< The launcher recorded that the process ended in this case.
  unrecorded,  ///< The launcher recorded no case.
  open,  ///< The stream, which is intact, stops inside this case.
  open_elsewhere,  ///< The stream, which is intact, stops inside another case.
  between_cases,  ///< No case was recorded or open.
  was_released,  ///< By its stream, the rank was released from this case.
  another_began,  ///< Another rank began this case.
};

/// The outcomes of a case's ranks, and its world, give these facts.
enum class CaseFact : std::uint8_t {
  passed,  ///< This and the next seven facts: some rank has the outcome.
  failed,
  error,
  released,
  skipped,
  hung,
  crashed,
  missing,
  passed_vacuously,  ///< Some rank passed without an assertion.
  ranks_differ,  ///< The ranks ran different cases, or measured different values.
  interrupted,  ///< The user interrupted the world, and no rank of it died.
};

/// A rule without a result leaves the decision to the rank's stream: its rules, or the outcome that it reports.
using StreamRule = Rule<StreamFact, std::optional<protocol::Outcome>>;
using EndingRule = Rule<EndingFact, std::optional<protocol::Outcome>>;
using VerdictRule = Rule<CaseFact, Verdict>;

std::span<const StreamRule> stream_rules();
std::span<const EndingRule> ending_rules();
std::span<const VerdictRule> verdict_rules();

/// Whether a process ended by a signal, by its deadline, by an exit inside a case, or by an exit that ended its world
/// and is no refusal (is_refusal()). A process that never started counts, too.
bool died_by_itself(const protocol::Ending& ending);

/// The outcome by the stream alone. `reported` is the outcome that the stream reports, if it does.
protocol::Outcome outcome_by_stream(FactSet<StreamFact> facts, protocol::Outcome reported = protocol::Outcome::missing);

/// The outcome by the end of the process, which outranks the stream. Empty: the stream decides.
std::optional<protocol::Outcome> outcome_by_ending(FactSet<EndingFact> facts);

/// The verdict of a case. `facts` has the facts that are not outcomes.
Verdict decide(std::span<const RankOutcome> ranks, FactSet<CaseFact> facts = {});

}  // namespace shardproof::reports
