// JSON as text, for streams, files and terminals. Texts of a subject, a test or a system are foreign. Bytes of them
// that are not UTF-8 are repaired, never refused, so that a failure's own text never prevents its report. Characters
// that are not visible, or that change the text around them, become escapes of JSON: `\u202e`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shardproof::base {

/// Writes one line, without a newline at its end.
std::string dump_line(const nlohmann::ordered_json& json);

/// Writes several lines, without a newline at the end. Each level is indented by `indent` blanks.
std::string dump_document(const nlohmann::ordered_json& json, int indent = 2);

}  // namespace shardproof::base
