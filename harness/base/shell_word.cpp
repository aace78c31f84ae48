#include "harness/base/shell_word.hpp"

#include <fmt/format.h>

#include <optional>

#include "harness/base/utf8.hpp"

namespace shardproof::base {

namespace {

bool is_visible(std::string_view text) {
  while (!text.empty()) {
    const std::optional<char32_t> character = take_character(text);
    if (!character || !shows(*character)) return false;
  }
  return true;
}

std::string escaped_word(std::string_view text) {
  std::string word = "$'";
  while (!text.empty()) {
    const std::string_view before = text;
    const std::optional<char32_t> character = take_character(text);
    if (!character) text.remove_prefix(1);
    const std::string_view bytes = before.substr(0, before.size() - text.size());
    if (character == U'\n') {
      word += "\\n";
    } else if (character == U'\'' || character == U'\\') {
      word += fmt::format("\\{}", bytes);
    } else if (character && shows(*character)) {
      word += bytes;
    } else {
      // An octal escape has at most three digits, so that it does not take the character after it.
      for (const char byte : bytes) word += fmt::format("\\{:03o}", static_cast<unsigned char>(byte));
    }
  }
  return word + "'";
}

}  // namespace

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) return std::string(text);
  if (!is_visible(text)) return escaped_word(text);
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

}  // namespace shardproof::base
