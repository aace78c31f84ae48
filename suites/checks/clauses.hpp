// Which clauses a check of soundness judges by. A race, a lost order or memory that stays is a failure of its own clause, whatever case
// ran into it. The clauses are those of the kind of engine (kind.hpp).
#pragma once

#include <string>
#include <string_view>

#include "harness/shardproof.hpp"

namespace shardproof::suites {

/// The findings of checks of soundness.
enum class Unsound : std::uint8_t {
  race,        ///< nothing orders two uses of the same bytes
  order,       ///< ranks issue different collectives
  repetition,  ///< a group is gathered that is there already
  memory,      ///< something is alive that the plan does not keep
};

/// Judges what follows by this clause, and by each clause of the case that demands the same of any scenario.
ClauseScope judging(const Rank& rank, std::string_view clause, Unsound finding);

}  // namespace shardproof::suites
