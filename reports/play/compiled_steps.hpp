// The compiled steps of a play, for readers: as text, as a drawing, and where the steps of two subjects differ. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/play_result.hpp"
#include "reports/play/play_difference.hpp"

namespace shardproof::reports {

/// Why there is nothing to show, and what to do.
inline constexpr std::string_view no_compiled_step =
    "no compiled step: a compiled step needs \"compile\": {} in the plan's section replicate, and a backward in the "
    "script.";

/// Whether the first rank has a compiled step.
bool has_compiled_step(std::span<const protocol::PlayResult> ranks);

/// The compiled steps of the first rank: the first one, and each later one that is not the same as the step before.
/// Then the ranks that compiled otherwise. Without a compiled step: `no_compiled_step`.
std::string compiled_steps_text(std::span<const protocol::PlayResult> ranks);

/// A Graphviz file of the same steps. A step that was drawn before is not drawn again.
std::string compiled_steps_dot(const protocol::PlayResult& rank);

struct CompiledStepsComparison {
  std::size_t compared = 0;  ///< steps
  std::optional<PlayDifference> first;
};

/// Both plays have the same number of ranks. Engines name and divide their computation freely. So only the
/// communication of a compiled pass counts: which all-reduces start with how many elements, and when the computation
/// waits for which.
CompiledStepsComparison compare_compiled_steps(const std::vector<protocol::PlayResult>& first,
                                               const std::vector<protocol::PlayResult>& second);

}  // namespace shardproof::reports
