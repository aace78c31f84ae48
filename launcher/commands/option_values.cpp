#include "launcher/commands/option_values.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "harness/base/closest.hpp"
#include "harness/control/control_plane.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {

using control::ControlPlane;
using protocol::Scheduler;

namespace {

/// The whole text, in decimal: no sign, no blanks, no other base.
template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The parts between the commas.
std::vector<std::string_view> parts(std::string_view text) {
  std::vector<std::string_view> found;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    found.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

CommandError wrong(std::string_view option, std::string_view text, const std::string& expected) {
  return {usage, fmt::format("{} {}: {}", option, text.empty() ? "''" : text, expected)};
}

template <class Value, std::size_t count>
using Choices = std::array<std::pair<std::string_view, Value>, count>;

constexpr Choices<Order, 2> orders{{{"listed", Order::listed}, {"random", Order::random}}};
constexpr Choices<Scheduler, 2> schedulers{{{"seeded", Scheduler::seeded}, {"free", Scheduler::free}}};
constexpr Choices<ColorWhen, 3> color_modes{
    {{"auto", ColorWhen::automatic}, {"always", ColorWhen::always}, {"never", ColorWhen::never}}};

template <class Value, std::size_t count>
std::vector<std::string> words(const Choices<Value, count>& known) {
  std::vector<std::string> names;
  for (const auto& [name, value] : known) names.emplace_back(name);
  return names;
}

template <class Value, std::size_t count>
Value choice(std::string_view option, std::string_view text, const Choices<Value, count>& known) {
  for (const auto& [name, value] : known)
    if (name == text) return value;
  throw CommandError(usage, fmt::format("{}: {}", option, base::unknown_name("value", text, words(known))));
}

}  // namespace

std::uint64_t whole_number(std::string_view option, std::string_view text, std::uint64_t least, std::uint64_t most) {
  const auto value = number<std::uint64_t>(text);
  if (!value || *value < least || *value > most)
    throw wrong(option, text, fmt::format("a whole number from {} to {}", least, most));
  return *value;
}

std::vector<int> ranks(std::string_view option, std::span<const std::string> texts) {
  std::vector<int> found;
  for (const std::string& text : texts) {
    for (const std::string_view part : parts(text)) {
      const auto rank = number<int>(part);
      if (!rank || *rank < 0 || *rank >= ControlPlane::max_world_size)
        throw wrong(option, text,
                    fmt::format("ranks from 0 to {}; several are given as 0,2", ControlPlane::max_world_size - 1));
      found.push_back(*rank);
    }
  }
  return found;
}

std::vector<int> world_sizes(std::span<const std::string> texts) {
  std::vector<int> sizes;
  for (const std::string& text : texts) {
    for (const std::string_view part : parts(text)) {
      const auto size = number<int>(part);
      if (!size || *size < 1 || *size > ControlPlane::max_world_size)
        throw wrong(
            "--ranks", text,
            fmt::format("a world has 1 to {} ranks; several sizes are given as 2,4", ControlPlane::max_world_size));
      sizes.push_back(*size);
    }
  }
  return sizes;
}

std::vector<std::string> listed(std::string_view option, std::span<const std::string> texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) {
    for (const std::string_view part : parts(text)) {
      if (part.empty()) throw wrong(option, text, "a name, or several as A,B");
      items.emplace_back(part);
    }
  }
  return items;
}

std::chrono::milliseconds timeout(std::string_view text) {
  const auto seconds = number<double>(text);
  if (!seconds || !(*seconds >= 0.001 && *seconds <= 1e6))
    throw wrong("--timeout", text, "a number of seconds from 0.001 to 1000000");
  return std::chrono::milliseconds(std::llround(*seconds * 1000));
}

std::chrono::milliseconds span_of_time(std::string_view option, std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> units{{{"s", 1}, {"min", 60}, {"h", 3600}, {"", 1}}};
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto unit = std::ranges::find(units, text.substr(digits), [](const auto& entry) { return entry.first; });
  const auto count = number<double>(text.substr(0, digits));
  constexpr double most = 1e7;
  if (!count || unit == units.end() || !(*count * unit->second >= 0.001 && *count * unit->second <= most))
    throw wrong(option, text,
                "a time from 0.001 to 10000000 seconds, such as 0.5s, 90s, 10min or 2h, or seconds without a unit");
  return std::chrono::milliseconds(std::llround(*count * unit->second * 1000));
}

GpuChoice gpu_choice(std::string_view text) {
  const auto refuse = [&] {
    return wrong("--gpus", text,
                 "how many, as 4, or which, as 0,2 or GPU-8a1f by their uuids; the one with index 2 alone is `2,`");
  };
  if (const auto count = number<int>(text)) {
    if (*count < 1) throw refuse();
    return {.count = count, .names = {}};
  }
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  if (is_number) throw wrong("--gpus", text, "no machine has so many");
  GpuChoice choice;
  std::vector<std::string_view> names = parts(text);
  if (names.size() > 1 && names.back().empty()) names.pop_back();
  for (const std::string_view name : names) {
    if (name.empty() || name.starts_with('-')) throw refuse();
    choice.names.emplace_back(name);
  }
  return choice;
}

std::vector<std::string> order_words() { return words(orders); }
std::vector<std::string> scheduler_words() { return words(schedulers); }
std::vector<std::string> color_words() { return words(color_modes); }

Order order(std::string_view text) { return choice("--order", text, orders); }
Scheduler scheduler(std::string_view text) { return choice("--scheduler", text, schedulers); }
ColorWhen color_when(std::string_view text) { return choice("--color", text, color_modes); }

MessageFormat message_format(std::string_view text) {
  return choice<MessageFormat, 2>("--message-format", text,
                                  {{{"text", MessageFormat::text}, {"json", MessageFormat::json}}});
}

reports::AnnotationFormat annotation_format(std::string_view text) {
  using reports::AnnotationFormat;
  return choice<AnnotationFormat, 2>("--annotations", text,
                                     {{{"github", AnnotationFormat::github}, {"azure", AnnotationFormat::azure}}});
}

}  // namespace shardproof::launcher
