// JSON as text, for streams, files and terminals. Text of a subject, a test or a system is foreign: what of it is no UTF-8 is mended, never
// refused, so that a failure's own words cannot get in its way.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shardproof {

/// On one line, without a newline at its end.
std::string dump_line(const nlohmann::ordered_json& json);

/// Over several lines, each level indented by so many blanks; without a newline at its end.
std::string dump_document(const nlohmann::ordered_json& json, int indent = 2);

}  // namespace shardproof
