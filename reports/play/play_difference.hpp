// Compares two plays of one scenario on two subjects, and finds the first difference in each aspect. It compares only
// facts that the harness saw, never a subject's own labels. The facts are:
//   - times of the virtual clock,
//   - the order in which hosts issued work, and what waits for what,
//   - the collectives,
//   - the values.
//
// Pure.
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

/// The result of the scenario on one subject.
struct SubjectPlay {
  std::string subject;  ///< The user's name for it.
  Verdict verdict = Verdict::not_run;  ///< The verdict of the scenario's case.
  std::string why;  ///< Why it has not passed, in lines.
  std::vector<protocol::PlayResult> ranks;  ///< Empty if the play did not finish: refused, hung, …
};

enum class Aspect : std::uint8_t {
  verdict,  ///< One subject played it and the other refused it, or only one has a race.
  /// Virtual times: of an iteration's phases, of the whole, of micro-batches and evaluates, and the end of the compute
  /// stream.
  totals,
  order,  ///< The order in which a host issued collectives and modules' computation, then what had to wait for what.
  counts,  ///< Collectives: how many of each kind, for which group, of which size.
  /// Communication of compiled steps, as the engines report it. Compared if at least one subject has compiled steps.
  plan,
  bits,  ///< Captured losses, gradients and parameters.
};

inline constexpr std::array<Aspect, 6> all_aspects{Aspect::verdict, Aspect::totals, Aspect::order,
                                                   Aspect::counts,  Aspect::plan,   Aspect::bits};

std::string_view to_string(Aspect aspect);

/// The first difference in one aspect.
struct PlayDifference {
  Aspect aspect = Aspect::verdict;
  std::string what;  ///< What differs: `exposed`, `step 4`, `gradient "l0.weight"`.
  std::optional<int> rank, iteration;  ///< For bits, `iteration` is the number of the capture.
  std::optional<std::size_t> index;  ///< Index of an element in this rank's part, row-major.
  std::array<std::string, 2> values;  ///< The first subject's value and the second's.
  std::string more;  ///< Lines that help to see it: earlier work, and how much else differs.
};

struct PlayComparison {
  std::array<std::string, 2> subjects;
  bool both_played = false;  ///< False: only the verdicts can be compared.
  std::vector<PlayDifference> differences;  ///< At most one for each aspect, in the order of aspects.
  std::size_t ranks = 0;
  /// Counts for the first subject, on all ranks.
  std::size_t steps = 0, collectives = 0, elements = 0, compiled_steps = 0;
  bool with_waits = true;  ///< Waits were compared. False: there are too many steps.
  bool alike() const { return differences.empty(); }
  /// Nullptr: no difference in this aspect.
  const PlayDifference* find(Aspect aspect) const;
};

/// Two values are alike if they differ by at most `ulps` units in the last place of their dtype. Two NaNs are alike. So
/// are two zeros of different sign, but as losses they are one unit apart. Throws std::invalid_argument if both
/// subjects played, on different numbers of ranks.
PlayComparison compare(const SubjectPlay& first, const SubjectPlay& second, std::uint64_t ulps = 0);

/// Writes `{alike, subjects, both_played, differences: [{aspect, what, rank?, iteration?, index?, values, more?}],
/// compared: {ranks, steps, waits, collectives, values, compiled_steps?}}`.
nlohmann::ordered_json to_json(const PlayComparison& comparison);

/// Writes a paragraph for every aspect.
std::string to_text(const PlayComparison& comparison);

}  // namespace shardproof::reports
