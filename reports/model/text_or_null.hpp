// A text that may be absent: in JSON it is null, in our structures it is empty.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace shardproof::reports {

inline nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

}  // namespace shardproof::reports
