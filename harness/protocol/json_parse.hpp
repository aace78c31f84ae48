// Reading JSON that came from outside. What walks over a document goes down into it, and the stack ends long before a text of brackets does:
// so depth has a limit, far beyond all that the project writes. For .cpp files only: it pulls in the whole JSON library.
#pragma once

#include <fmt/format.h>

#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace shardproof {

inline constexpr int deepest_json = 100;

/// For the callback of a parse: throws std::invalid_argument where an array or object begins below that many others.
inline void require_shallow(int depth, nlohmann::ordered_json::parse_event_t event) {
  using enum nlohmann::ordered_json::parse_event_t;
  const bool begins = event == array_start || event == object_start;
  if (begins && depth >= deepest_json) throw std::invalid_argument(fmt::format("JSON nested deeper than {} levels", deepest_json));
}

/// The same for a whole text, before it is parsed: a parse with a callback takes time that grows with the square of an array's length.
inline void require_shallow(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (depth++ == deepest_json) throw std::invalid_argument(fmt::format("JSON nested deeper than {} levels", deepest_json));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

/// Throws what nlohmann's parse throws, and std::invalid_argument for a document that is too deep.
inline nlohmann::ordered_json parse_json(std::string_view text) {
  require_shallow(text);
  return nlohmann::ordered_json::parse(text);
}

inline nlohmann::ordered_json parse_json(std::istream& in) {
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_json(text);
}

}  // namespace shardproof
