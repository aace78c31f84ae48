// Functions on the characters of foreign text. They check whether it is UTF-8 and visible, and cut it to a size without
// splitting a character. The remaining text is shown and written into JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardproof::base {

/// The length of the longest beginning of `text` that has at most `most` bytes and ends between characters. Text that
/// is not UTF-8 is cut at `most`, or up to three bytes before.
constexpr std::size_t length_within(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text.size();
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; };
  std::size_t end = most;
  while (end > 0 && most - end < 3 && continues(text[end])) --end;
  return continues(text[end]) ? most : end;
}

/// The beginning of `text` with that length.
constexpr std::string_view beginning_within(std::string_view text, std::size_t most) {
  return text.substr(0, length_within(text, most));
}

/// Removes the first character from `text` and returns it. Returns nothing where `text` does not begin with a character
/// of UTF-8.
constexpr std::optional<char32_t> take_character(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || text.size() < length) return std::nullopt;
  std::uint32_t character = length == 1 ? first : first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return std::nullopt;
    character = character << 6U | (byte(i) & 0x3FU);
  }
  const bool is_too_long = (length == 3 && character < 0x800) || (length == 4 && character < 0x10000);
  if (is_too_long || (character >= 0xD800 && character < 0xE000) || character > 0x10FFFF) return std::nullopt;
  text.remove_prefix(length);
  return character;
}

constexpr bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    if (!take_character(text)) return false;
  }
  return true;
}

/// True for a character that is visible (or a blank) and does not change the text around it. Control characters, ends
/// of lines, characters without width, and characters that change the writing direction are not visible in this sense.
constexpr bool shows(char32_t character) {
  struct Range {
    char32_t first, last;
  };
  constexpr Range hidden[] = {
      {0x00, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},     {0x34F, 0x34F},     {0x61C, 0x61C},     {0x115F, 0x1160},
      {0x17B4, 0x17B5}, {0x180B, 0x180F}, {0x200B, 0x200F}, {0x2028, 0x202E},   {0x2060, 0x206F},   {0x3164, 0x3164},
      {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xFFF0, 0xFFFB}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};
  for (const Range& range : hidden) {
    if (character >= range.first && character <= range.last) return false;
  }
  return true;
}

}  // namespace shardproof::base
