// Which clauses a shared check judges by. A race, a lost order or memory that stays is a failure of its own clause, whatever case ran into
// it. The clauses are those of the kind of engine (kind.hpp). Wrong values are a failure of the case's clauses that ask about values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/shardproof.hpp"

namespace shardproof::suites {

/// A defect that a check may find.
enum class Finding : std::uint8_t {
  race,                ///< nothing orders two uses of the same bytes
  order,               ///< ranks issue different collectives
  repetition,          ///< a group is gathered that is there already
  memory,              ///< something is alive that the plan does not keep
  missing_collective,  ///< the plan asks for more gathers, or more reductions
  extra_gather,        ///< the plan asks for fewer gathers
  extra_reduction,     ///< the plan asks for fewer reductions
  values,              ///< losses, gradients or parameters are wrong
};

/// The clauses of the case that ask about this.
std::vector<std::string> asking_about(const Rank& rank, Finding finding);

/// Judges what follows by this clause, and by each clause of the case that asks about the same.
ClauseScope judging(const Rank& rank, std::string_view clause, Finding finding);

/// Judges what follows by the clauses of the case that ask about this. If none does, nothing changes.
ClauseScope judging(const Rank& rank, Finding finding);

}  // namespace shardproof::suites
