#include "reports/export/traceback.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardproof::reports {

namespace {

constexpr std::size_t lines_kept = 5;  // lines, including the line of the exception

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

std::string_view without_margin(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view()
                                         : line.substr(begin, line.find_last_not_of('\n') + 1 - begin);
}

std::size_t margin_of(std::string_view line) {
  return line.size() - line.substr(std::min(line.find_first_not_of(' '), line.size())).size();
}

bool begins_traceback(std::string_view line) { return without_margin(line) == "Traceback (most recent call last):"; }

/// The file of a frame's first line; empty for every other line.
std::string_view file_of(std::string_view line) {
  constexpr std::string_view begin = "File \"";
  const std::string_view text = without_margin(line);
  if (!text.starts_with(begin)) return {};
  return text.substr(begin.size(), text.find('"', begin.size()) - begin.size());
}

/// The folder of the package, with its slash, from the frame in which the harness calls it. Empty: no line has this
/// frame.
std::string_view package_of(const std::vector<std::string_view>& lines) {
  constexpr std::string_view package = "/shardproof/", called = "subject.py";
  for (const std::string_view line : lines) {
    const std::string_view file = file_of(line);
    if (!file.ends_with(called)) continue;
    const std::string_view folder = file.substr(0, file.size() - called.size());
    if (folder.ends_with(package)) return folder;
  }
  return {};
}

bool is_underline(std::string_view line) {
  return without_margin(line).find_first_not_of("^~ ") == std::string_view::npos;
}

/// The useful lines of these frames.
std::vector<std::string_view> useful_lines(const std::vector<std::string_view>& frames, std::string_view package) {
  std::vector<std::string_view> lines;
  bool is_in_package = false;
  for (const std::string_view line : frames) {
    if (const std::string_view file = file_of(line); !file.empty())
      is_in_package = !package.empty() && file.starts_with(package);
    if (!is_in_package && !is_underline(line)) lines.push_back(line);
  }
  return lines;
}

}  // namespace

std::string shortened_tracebacks(std::string_view text) {
  const std::vector<std::string_view> lines = lines_of(text);
  const std::string_view package = package_of(lines);
  std::string result;
  for (std::size_t at = 0; at < lines.size();) {
    result += lines[at];
    const std::size_t margin = margin_of(lines[at]);
    if (!begins_traceback(lines[at++])) continue;
    const std::size_t first = at;
    while (at < lines.size() && margin_of(lines[at]) > margin) ++at;
    const std::vector<std::string_view> frames(lines.begin() + static_cast<std::ptrdiff_t>(first),
                                               lines.begin() + static_cast<std::ptrdiff_t>(at));
    const std::vector<std::string_view> all = useful_lines(frames, {});
    std::vector<std::string_view> rest = useful_lines(frames, package);
    if (rest.empty()) rest = all;  // all frames are in the package: show them
    const std::size_t shown = std::min(rest.size(), at < lines.size() ? lines_kept - 1 : lines_kept);
    rest.erase(rest.begin(), rest.end() - static_cast<std::ptrdiff_t>(shown));
    if (at < lines.size()) rest.push_back(lines[at++]);  // the exception
    if (shown < all.size()) result += std::string(margin + 2, ' ') + "…\n";
    for (const std::string_view line : rest) result += line;
  }
  return result;
}

}  // namespace shardproof::reports
