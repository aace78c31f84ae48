// Whether the parts of a report agree. A report that was cut, edited or made from two reports may have the right types
// and still claim what its ranks did not do. The readers of report.json call this function.
#pragma once

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// Throws std::invalid_argument naming the place of the first disagreement:
///   - an index, a rank or a waiver that does not exist,
///   - two results of one attempt, or results that are not in order,
///   - a result with other ranks than its world,
///   - a verdict that hides what a rank reports: a pass, a skip, or a result that does not count.
void require_consistent(const Report& report);

}  // namespace shardproof::reports
