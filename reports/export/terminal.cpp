#include "reports/export/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cstddef>
#include <iterator>

#include "reports/export/foreign_text.hpp"

namespace shardproof::reports {

namespace {

/// By hue. The last one ends a colour.
constexpr std::string_view colour_codes[] = {"\x1b[31;1m", "\x1b[32m", "\x1b[33m", "\x1b[2m", "\x1b[0m"};

}  // namespace

std::string Paint::operator()(Hue hue, std::string_view text) const {
  if (!color_ || hue == Hue::none) return std::string(text);
  const auto number = static_cast<std::size_t>(hue) - 1;  // the first hue is no colour
  return fmt::format("{}{}{}", colour_codes[number], text, std::end(colour_codes)[-1]);
}

std::string printable(std::string_view text) { return visible_text(text); }

std::string printable_line(std::string_view text) { return one_line(text); }

std::string screened(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t code = text.find('\x1b');
    result += visible_text(text.substr(0, code));
    if (code == std::string_view::npos) break;
    text.remove_prefix(code);
    const auto* const own =
        std::ranges::find_if(colour_codes, [text](std::string_view colour) { return text.starts_with(colour); });
    const std::size_t taken = own == std::end(colour_codes) ? 1 : own->size();
    result += own == std::end(colour_codes) ? visible_text(text.substr(0, 1)) : std::string(*own);
    text.remove_prefix(taken);
  }
  return result;
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
  std::string text = printable_line(fmt::format("{}", fmt::join(names.begin(), few, ", ")));
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
