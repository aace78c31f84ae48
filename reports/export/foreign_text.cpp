#include "reports/export/foreign_text.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "harness/base/utf8.hpp"

namespace shardproof::reports {

namespace {

/// XML 1.0 has no such characters, not even as references.
bool is_in_xml(char32_t character) { return character != 0xFFFE && character != 0xFFFF; }

std::string escape(char32_t character) {
  const auto number = static_cast<std::uint32_t>(character);
  return number < 0x80 ? fmt::format("\\x{:02x}", number) : fmt::format("\\u{{{:x}}}", number);
}

}  // namespace

std::string visible_text(std::string_view text) {
  std::string visible;
  visible.reserve(text.size());
  while (!text.empty()) {
    const std::string_view rest = text;
    const std::optional<char32_t> character = base::take_character(text);
    if (!character) {
      visible += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
    } else if (*character == U'\n' || *character == U'\t' || (base::shows(*character) && is_in_xml(*character))) {
      visible += rest.substr(0, rest.size() - text.size());
    } else {
      visible += escape(*character);
    }
  }
  return visible;
}

std::string escaped_markup(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string one_line(std::string_view text, std::size_t most) {
  constexpr std::string_view cut = "…";
  std::string line = visible_text(text);
  for (char& c : line) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  if (line.size() <= most) return line;
  return std::string(base::beginning_within(line, most - cut.size())) + std::string(cut);
}

}  // namespace shardproof::reports
