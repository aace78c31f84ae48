// The choice of the clauses by which a shared check judges. A race, a lost order or leaked memory fails its own clause
// in every case. These clauses belong to the kind of engine (kind.hpp). Wrong values fail the case's clauses that ask
// about values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/shardproof.hpp"

namespace shardproof::suites {

/// A defect that a check may find.
enum class Finding : std::uint8_t {
  race,                ///< Two uses of the same bytes have no order.
  order,               ///< Ranks issue different collectives.
  repetition,          ///< A gather of a group that is whole already.
  memory,              ///< Memory is alive that the plan does not keep.
  missing_collective,  ///< The plan requires more gathers, or more reductions.
  extra_gather,        ///< The plan requires fewer gathers.
  extra_reduction,     ///< The plan requires fewer reductions.
  values,              ///< Losses, gradients or parameters are wrong.
};

/// The clauses of the case that ask about this finding.
std::vector<std::string> asking_about(const Rank& rank, Finding finding);

/// Judges the scope by this clause, and by each clause of the case that asks about the same finding.
ClauseScope judging(const Rank& rank, std::string_view clause, Finding finding);

/// Judges the scope by the clauses of the case that ask about this finding. If no clause asks about it, nothing
/// changes.
ClauseScope judging(const Rank& rank, Finding finding);

}  // namespace shardproof::suites
