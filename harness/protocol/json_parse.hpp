// Reading JSON that came from outside. What walks over a document goes down into it, and the stack ends long before a text of brackets does:
// so depth has a limit, far beyond all that the project writes. For .cpp files only: it pulls in the whole JSON library.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

namespace shardproof {

inline constexpr int deepest_json = 100;

/// For the callback of a parse: throws std::invalid_argument where an array or object begins below that many others.
inline void require_shallow(int depth, nlohmann::ordered_json::parse_event_t event) {
  using enum nlohmann::ordered_json::parse_event_t;
  const bool begins = event == array_start || event == object_start;
  if (begins && depth >= deepest_json) throw std::invalid_argument(fmt::format("JSON nested deeper than {} levels", deepest_json));
}

inline bool keep_shallow(int depth, nlohmann::ordered_json::parse_event_t event, nlohmann::ordered_json&) {
  require_shallow(depth, event);
  return true;
}

/// Throws what nlohmann's parse throws, and std::invalid_argument for a document that is too deep.
inline nlohmann::ordered_json parse_json(std::string_view text) {
  // Parsing with a callback takes longer, and few texts have as many brackets as could be too deep.
  if (std::count(text.begin(), text.end(), '[') + std::count(text.begin(), text.end(), '{') <= deepest_json)
    return nlohmann::ordered_json::parse(text);
  return nlohmann::ordered_json::parse(text, keep_shallow);
}

inline nlohmann::ordered_json parse_json(std::istream& in) { return nlohmann::ordered_json::parse(in, keep_shallow); }

}  // namespace shardproof
