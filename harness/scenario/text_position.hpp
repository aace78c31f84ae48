// Finds places of a JSON document in its text, so that an error can name line and column. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace shardproof::scenario {

/// Both count from 1. A column is a character of UTF-8.
struct TextPosition {
  std::size_t line = 1, column = 1;
  friend bool operator==(const TextPosition&, const TextPosition&) = default;
};

/// The position of the character at this byte. A byte behind the end has the position of the end.
TextPosition position_at(std::string_view text, std::size_t byte);

/// The byte at which the text has the value of a place like `script.segments[0].body[1] (forward)`. For a member of an
/// object, it is the byte of the key. Text after a blank in the place does not count. If the document does not
/// have the place, the result is the deepest part of the place that it has. `text` is valid JSON.
std::size_t find_place(std::string_view text, std::string_view place);

struct KeyTwice {
  std::string key;
  std::size_t byte = 0;  ///< of the second one
};
/// The first key that one object has twice. `text` is valid JSON.
std::optional<KeyTwice> find_repeated_key(std::string_view text);

}  // namespace shardproof::scenario
