// Finds places of a JSON document in its text, so that an error can name line and column. The text may be invalid JSON,
// and may nest to any depth. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace shardproof::base {

/// Both count from 1. A column is a character of UTF-8.
struct TextPosition {
  std::size_t line = 1, column = 1;
  friend bool operator==(const TextPosition&, const TextPosition&) = default;
};

/// The position of the character at this byte. A byte after the end has the position of the end.
TextPosition position_at(std::string_view text, std::size_t byte);

/// The byte at which the text has the value of a place like `script.segments[0].body[1] (forward)`. For a member of an
/// object, it is the byte of the key. Text after a blank in the place does not count. If the text does not have the
/// place, the result is the deepest part of the place that it has.
std::size_t find_place(std::string_view text, std::string_view place);

/// The byte of the first key that is already in its object. Reads no further than this key, and no deeper than
/// `deepest_json`. Nullopt: no such key.
std::optional<std::size_t> find_duplicate_key(std::string_view text);

}  // namespace shardproof::base
