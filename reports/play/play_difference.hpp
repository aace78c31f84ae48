// One scenario, played on two subjects: where do they first differ? What counts is what the harness saw of each, never labels of their own:
// times of the virtual clock, the order in which hosts issued what and what waits for what, the collectives, the values. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/play_result.hpp"
#include "reports/model/verdict.hpp"

namespace shardproof::reports {

/// What became of the scenario on one subject.
struct SubjectPlay {
  std::string subject;  ///< as its user calls it
  Verdict verdict = Verdict::not_run;  ///< of the case
  std::string why;  ///< it has not passed: lines
  std::vector<PlayResult> ranks;  ///< none where it was not played to its end: refused, hung, …
};

enum class Aspect : std::uint8_t {
  verdict,  ///< one played it, the other refused it; or one has a race, and the other has none
  totals,  ///< virtual times of an iteration's phases, and of the whole
  order,  ///< in which a host issued collectives and modules' computation; then what had to wait for what
  counts,  ///< of collectives: how many of a kind, for a group, of which size
  plan,  ///< what compiled steps communicate, as the engines say; compared if one of them has such steps
  bits,  ///< losses, gradients, parameters, as they were captured
};

inline constexpr std::array<Aspect, 6> all_aspects{Aspect::verdict, Aspect::totals, Aspect::order,
                                                   Aspect::counts,  Aspect::plan,   Aspect::bits};

std::string_view to_string(Aspect aspect);

/// The first difference in one aspect.
struct PlayDifference {
  Aspect aspect = Aspect::verdict;
  std::string what;  ///< that differs: `exposed`, `step 4`, `gradient "l0.weight"`
  std::optional<int> rank, iteration;  ///< of bits, the number of the capture
  std::optional<std::size_t> index;  ///< of an element of this rank's part, row-major
  std::array<std::string, 2> values;  ///< as the one and the other has it
  std::string more;  ///< what helps to see it: what came before, how much else differs; lines
};

struct PlayComparison {
  std::array<std::string, 2> subjects;
  bool both_played = false;  ///< else there is nothing to compare but the verdicts
  std::vector<PlayDifference> differences;  ///< one of an aspect at most, in the order of aspects
  std::size_t ranks = 0;
  std::size_t steps = 0, collectives = 0, elements = 0, compiled_steps = 0;  ///< of the first subject, on all ranks
  bool with_waits = true;  ///< what waits for what was compared: not where there are too many steps
  bool alike() const { return differences.empty(); }
  /// nullptr: none in this aspect.
  const PlayDifference* find(Aspect aspect) const;
};

/// Values are alike that are at most `ulps` units in the last place of their dtype apart; two zeros of unlike sign are, and two NaNs.
/// Throws std::invalid_argument where both have played, on unlike numbers of ranks.
PlayComparison compare(const SubjectPlay& first, const SubjectPlay& second, std::uint64_t ulps = 0);

/// `{alike, subjects, both_played, differences: [{aspect, what, rank?, iteration?, index?, values, more?}], compared: {ranks, steps,
/// waits, collectives, values, compiled_steps?}}`.
nlohmann::ordered_json to_json(const PlayComparison& comparison);

/// A paragraph for every aspect.
std::string to_text(const PlayComparison& comparison);

}  // namespace shardproof::reports
