#include "harness/protocol/call_mark.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <system_error>

namespace shardproof::protocol {

namespace {

constexpr std::string_view prefix = "iter ", end_word = " end", before_occurrence = " (";

std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take_start(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

bool take_end(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

}  // namespace

std::string to_text(const CallMark& mark) {
  const std::string number = mark.occurrence > 1 ? fmt::format("{}{})", before_occurrence, mark.occurrence) : "";
  return fmt::format("{}{} {}{}{}", prefix, mark.iteration, mark.call, number, mark.is_end ? end_word : "");
}

std::optional<CallMark> read_call_mark(std::string_view text) {
  if (!take_start(text, prefix)) return std::nullopt;
  const auto iteration = take_number(text);
  if (!iteration || !take_start(text, " ")) return std::nullopt;
  CallMark mark{.iteration = *iteration, .call = {}, .is_end = take_end(text, end_word)};
  const std::size_t open = text.rfind(before_occurrence);
  if (open != std::string_view::npos) {
    std::string_view number = text.substr(open + before_occurrence.size());
    if (const auto occurrence = take_number(number); occurrence && number == ")") {
      mark.occurrence = *occurrence;
      text = text.substr(0, open);
    }
  }
  mark.call = text;
  return mark;
}

}  // namespace shardproof::protocol
