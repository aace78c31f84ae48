#include <fmt/format.h>

#include <algorithm>

#include "reports/export/terminal.hpp"
#include "reports/export/traceback.hpp"
#include "reports/play/play_difference.hpp"

namespace shardproof::reports {

namespace {

std::string place_text(const PlayDifference& difference) {
  std::string text = difference.what;
  if (difference.index) text += fmt::format(", element {}", *difference.index);
  if (difference.iteration)
    text += fmt::format(", {} {}", difference.aspect == Aspect::bits ? "capture" : "iteration", *difference.iteration);
  if (difference.rank) text += fmt::format(", rank {}", *difference.rank);
  return text;
}

std::string alike_text(const PlayComparison& comparison, Aspect aspect) {
  switch (aspect) {
    case Aspect::verdict: return comparison.both_played ? "alike" : "alike: neither plays it to its end";
    case Aspect::totals: return "alike";
    case Aspect::order:
      return fmt::format(
          "alike: {} collectives and computations of modules{}", comparison.steps,
          comparison.with_waits ? ", and what each waits for" : "; too many to compare what each waits for");
    case Aspect::counts: return fmt::format("alike: {} collectives", comparison.collectives);
    case Aspect::plan: return fmt::format("alike: {} compiled steps", comparison.compiled_steps);
    case Aspect::bits:
      return comparison.elements == 0 ? "nothing was captured"
                                      : fmt::format("alike: {} captured values", comparison.elements);
  }
  return {};
}

constexpr std::string_view value_margin = "         ";

/// The first lines of a text, as many as a shortened traceback needs, and the number of further lines.
std::string beginning(std::string_view whole) {
  constexpr std::size_t shown = 10;
  const std::string text = shortened_tracebacks(whole);
  std::size_t end = 0;
  for (std::size_t line = 0; line < shown && end < text.size(); ++line)
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  const auto more = std::ranges::count(std::string_view(text).substr(end), '\n');
  return fmt::format("{}{}", text.substr(0, end), more > 0 ? fmt::format("and {} more lines\n", more) : std::string());
}

std::string difference_text(const PlayComparison& comparison, const PlayDifference& difference) {
  std::string text = fmt::format("differ: {}\n", printable_line(place_text(difference)));
  for (std::size_t side = 0; side < comparison.subjects.size(); ++side) {
    const std::string value = printable(difference.values[side]);
    const std::size_t end = std::min(value.find('\n'), value.size());
    text += fmt::format("{}{}: {}\n", value_margin, printable_line(comparison.subjects[side]), value.substr(0, end));
    if (end < value.size())
      text += indented(beginning(value.substr(end + 1) + "\n"), fmt::format("{}  ", value_margin));
  }
  return text + indented(printable(difference.more), value_margin);
}

}  // namespace

std::string to_text(const PlayComparison& comparison) {
  std::string text;
  for (const Aspect aspect : all_aspects) {
    if (aspect != Aspect::verdict && !comparison.both_played) continue;
    const PlayDifference* difference = comparison.find(aspect);
    if (aspect == Aspect::plan && difference == nullptr && comparison.compiled_steps == 0) continue;
    text += fmt::format(
        "{:9}{}", to_string(aspect),
        difference != nullptr ? difference_text(comparison, *difference) : alike_text(comparison, aspect) + "\n");
  }
  return text;
}

}  // namespace shardproof::reports
