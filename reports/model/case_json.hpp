// The JSON of one case of a report. Only report_json.cpp uses this header.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "harness/base/json_fields.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

nlohmann::ordered_json json_of(const CaseResult& result, bool flaky);
/// Throws std::invalid_argument naming the field.
CaseResult read_case(const nlohmann::ordered_json& json);

/// An index, or -1 if the field is absent.
int read_index_if_given(const base::Fields& fields, const char* name);

}  // namespace shardproof::reports
