// The report in the Common Test Report Format (ctrf.io, version 1.0.0), JSON that many CI tools read. Pure.
//
//   - A bad case is `failed`, also if it did not run. A waived case is `skipped`. `rawStatus` has the verdict.
//   - `message` is the cause in one line, and `trace` is the terminal's text.
//   - Times are whole milliseconds, as the format demands. `extra.duration_ns` is exact.
//   - The report does not know when its run ended. `stop` is `start` and the time of all cases, one after another.
//   - Failures of the run, such as unmet demands, are tests of a suite `shardproof run`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "reports/export/text_style.hpp"

namespace shardproof::reports {

nlohmann::ordered_json ctrf(const Report& report, const TextStyle& style);

}  // namespace shardproof::reports
