// Text for terminals: colour where it was asked for, and no control codes that a test's own output smuggles in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::reports {

enum class Hue : std::uint8_t { none, red, green, yellow, faint };

class Paint {
 public:
  explicit Paint(bool color) : color_(color) {}
  std::string operator()(Hue hue, std::string_view text) const;

 private:
  bool color_;
};

/// Control characters but newline and tab as `\x1b`.
std::string printable(std::string_view text);

/// Every line behind `margin`.
std::string indented(std::string_view text, std::string_view margin);

/// `a, b, c and 4 more`: the first three names.
std::string few_of(const std::vector<std::string_view>& names);

/// As one word of a POSIX shell.
std::string shell_word(std::string_view text);

/// `0.4 ms`, `12 ms`, `3.5 s`
std::string duration_text(std::int64_t nanoseconds);

}  // namespace shardproof::reports
