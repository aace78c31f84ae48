#include "reports/export/columns.hpp"

#include <algorithm>
#include <vector>

#include "harness/base/utf8.hpp"

namespace shardproof::reports {

namespace {

/// The size in bytes of the colour code at the beginning of `text`. 0: no colour code is there.
std::size_t colour_code(std::string_view text) {
  return text.starts_with("\x1b[") ? std::min(text.find('m'), text.size() - 1) + 1 : 0;
}

/// The offsets of all characters, and the size of the text. A byte that is not UTF-8 counts as a character.
std::vector<std::size_t> offsets_of(std::string_view text) {
  std::vector<std::size_t> offsets{0};
  for (std::string_view rest = text; !rest.empty();) {
    if (!base::take_character(rest)) rest.remove_prefix(1);
    offsets.push_back(text.size() - rest.size());
  }
  return offsets;
}

/// The labels of commands in texts for people.
bool has_command(std::string_view line) {
  constexpr std::string_view labels[] = {"again: ", "what it played: ", "to see it: ", "play it: ", "find it: "};
  return std::ranges::any_of(labels,
                             [line](std::string_view label) { return line.find(label) != std::string_view::npos; });
}

std::string fitted_line(std::string_view line, std::size_t columns) {
  const std::size_t indentation = std::min(line.find_first_not_of(' '), line.size());
  const std::string margin(indentation + 2 <= columns / 2 ? indentation + 2 : 2, ' ');
  std::string text, current;
  std::size_t used = 0;
  while (!line.empty()) {
    const std::size_t word = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t end = std::min(line.find(' ', word), line.size());
    const std::size_t width = columns_of(line.substr(0, end));
    if (used > 0 && used + width > columns) {
      text += current + '\n';
      current = margin;
      used = margin.size();
    } else {
      current += line.substr(0, word);
      used += word;
    }
    const std::string shown = shortened(line.substr(word, end - word), columns - used);
    current += shown;
    used += columns_of(shown);
    line.remove_prefix(end);
  }
  return text + current;
}

}  // namespace

std::size_t columns_of(std::string_view line) {
  std::size_t columns = 0;
  while (!line.empty()) {
    if (const std::size_t code = colour_code(line); code > 0) {
      line.remove_prefix(code);
      continue;
    }
    if (!base::take_character(line)) line.remove_prefix(1);
    ++columns;
  }
  return columns;
}

std::string shortened(std::string_view text, std::size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  const std::vector<std::size_t> offsets = offsets_of(text);
  const std::size_t head = (columns - 1) / 2, tail = columns - 1 - head;
  return std::string(text.substr(0, offsets[head])) + "…" +
         std::string(text.substr(offsets[offsets.size() - 1 - tail]));
}

std::string fitted(std::string_view text, std::size_t columns) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    result += columns_of(line) <= columns || has_command(line) ? std::string(line) : fitted_line(line, columns);
    if (end < text.size()) result += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

}  // namespace shardproof::reports
