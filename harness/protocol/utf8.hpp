// Cutting text to a size without cutting a character in two: what is left is shown, and written into JSON.
#pragma once

#include <cstddef>
#include <string_view>

namespace shardproof {

/// The length of the longest beginning of `text` with at most `most` bytes that ends between characters. Text that is no UTF-8 is cut at
/// `most`, or up to three bytes before.
constexpr std::size_t length_within(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text.size();
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; };
  std::size_t end = most;
  while (end > 0 && most - end < 3 && continues(text[end])) --end;
  return continues(text[end]) ? most : end;
}

/// That beginning itself.
constexpr std::string_view beginning_within(std::string_view text, std::size_t most) { return text.substr(0, length_within(text, most)); }

}  // namespace shardproof
