// Text for terminals: colour if asked for, and no control codes from a test's own output.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/shell_word.hpp"

namespace shardproof::reports {

enum class Hue : std::uint8_t { none, red, green, yellow, faint };

class Paint {
 public:
  explicit Paint(bool color) : color_(color) {}
  std::string operator()(Hue hue, std::string_view text) const;

 private:
  bool color_;
};

/// The foreign text for a terminal: visible_text (foreign_text.hpp). It keeps newlines, so the caller indents the
/// lines.
std::string printable(std::string_view text);

/// The same for a place in a line: newlines and tabs become blanks.
std::string printable_line(std::string_view text);

/// The last step before a text for people is printed: escapes what is not visible, and keeps the colours of Paint.
std::string screened(std::string_view text);

/// Puts `margin` before every line.
std::string indented(std::string_view text, std::string_view margin);

/// `a, b, c and 4 more`: the first three names.
std::string few_of(const std::vector<std::string_view>& names);

using base::shell_word;

/// `0.4 ms`, `12 ms`, `3.5 s`
std::string duration_text(std::int64_t nanoseconds);

}  // namespace shardproof::reports
