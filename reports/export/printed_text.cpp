#include "reports/export/printed_text.hpp"

#include <fmt/format.h>

#include "reports/export/foreign_text.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::reports {

std::string printed_text(int rank, std::string_view text, std::string_view log) {
  constexpr std::size_t most_lines = 8;
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::size_t begin = text.size();
  for (std::size_t lines = 0; lines < most_lines && begin != std::string_view::npos && begin > 0; ++lines)
    begin = text.rfind('\n', begin - 1);
  if (begin != std::string_view::npos && begin > 0) text.remove_prefix(begin + 1);
  const std::string place = log.empty() ? std::string() : fmt::format(" ({})", one_line(log));
  return fmt::format("  rank {} printed last{}:\n{}", rank, place, indented(visible_text(text), "    "));
}

}  // namespace shardproof::reports
