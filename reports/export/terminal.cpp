#include "reports/export/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>

namespace shardproof::reports {

std::string Paint::operator()(Hue hue, std::string_view text) const {
  if (!color_ || hue == Hue::none) return std::string(text);
  const auto* code = hue == Hue::red ? "31;1" : hue == Hue::green ? "32" : hue == Hue::yellow ? "33" : "2";
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string printable(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      clean += fmt::format("\\x{:02x}", byte);
    } else {
      clean += c;
    }
  }
  return clean;
}

std::string indented(std::string_view text, std::string_view margin) {
  std::string result;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    result += margin;
    result += text.substr(0, end);
    result += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::string few_of(const std::vector<std::string_view>& names) {
  constexpr std::size_t shown = 3;
  const auto few = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), shown));
  std::string text = printable(fmt::format("{}", fmt::join(names.begin(), few, ", ")));
  if (few != names.end()) text += fmt::format(" and {} more", names.end() - few);
  return text;
}

std::string duration_text(std::int64_t nanoseconds) {
  const double ms = static_cast<double>(nanoseconds) / 1e6;
  if (ms < 10) return fmt::format("{:.1f} ms", ms);
  if (ms < 10'000) return fmt::format("{:.0f} ms", ms);
  return fmt::format("{:.1f} s", ms / 1e3);
}

}  // namespace shardproof::reports
