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

/// Replaces control characters by text like `\x1b`, except newline and tab.
std::string printable(std::string_view text);

/// Puts `margin` before every line.
std::string indented(std::string_view text, std::string_view margin);

/// `a, b, c and 4 more`: the first three names.
std::string few_of(const std::vector<std::string_view>& names);

using base::shell_word;

/// `0.4 ms`, `12 ms`, `3.5 s`
std::string duration_text(std::int64_t nanoseconds);

}  // namespace shardproof::reports
