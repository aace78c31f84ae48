// The report as people read it on a terminal: failures in full, first cause first, with the command that reproduces each; then counts.
#pragma once

#include <string>

#include "reports/report.hpp"

namespace shardproof::reports {

struct TextStyle {
  bool color = false;
  bool verbose = false;  ///< every case, with its measurements
  bool quiet = false;    ///< failures and the last line only
};

std::string failure_text(const CaseResult& result, const Report& report, const TextStyle& style);
std::string summary(const Report& report, const TextStyle& style);

}  // namespace shardproof::reports
