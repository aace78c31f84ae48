// Whether the parts of a report agree. A report that was cut, edited or made from two reports may have the right types
// and still claim what its ranks did not do. The readers of report.json call this function.
#pragma once

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// Throws std::invalid_argument, which names the place of the first disagreement. These are disagreements:
///   1. An index names no world, no rank or no waiver.
///   2. An attempt has two results, or results are not in order.
///   3. A result has other ranks than its world.
///   4. A verdict hides what a rank reports. Only a pass, a skip and a result that does not count can do so.
void require_consistent(const Report& report);

}  // namespace shardproof::reports
