#include "harness/base/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "harness/base/utf8.hpp"

namespace shardproof::base {

namespace {

constexpr auto replace_invalid = nlohmann::ordered_json::error_handler_t::replace;

/// The escape of JSON: two of them for a character beyond 16 bits.
std::string escape(char32_t character) {
  const auto number = static_cast<std::uint32_t>(character);
  constexpr std::uint32_t first_beyond = 0x10000;
  if (number < first_beyond) return fmt::format("\\u{:04x}", number);
  const std::uint32_t rest = number - first_beyond;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xD800U + (rest >> 10U), 0xDC00U + (rest & 0x3FFU));
}

bool may_be_hidden(char byte) { return static_cast<unsigned char>(byte) >= 0x7F; }

/// Escapes the hidden characters of a document. Outside its strings, a document has only ASCII, and its strings have no
/// ASCII control character but DEL.
std::string visible(std::string document) {
  const auto first = std::ranges::find_if(document, may_be_hidden);
  if (first == document.end()) return document;
  std::string_view rest = document;
  std::string result;
  result.reserve(document.size());
  while (!rest.empty()) {
    const auto next = std::ranges::find_if(rest, may_be_hidden);
    result.append(rest.begin(), next);
    rest.remove_prefix(static_cast<std::size_t>(next - rest.begin()));
    const std::string_view before = rest;
    const std::optional<char32_t> character = take_character(rest);
    if (!character) return result.append(rest);  // not UTF-8, and shown as it is
    if (shows(*character)) result += before.substr(0, before.size() - rest.size());
    else result += escape(*character);
  }
  return result;
}

}  // namespace

std::string dump_line(const nlohmann::ordered_json& json) {
  return visible(json.dump(-1, ' ', false, replace_invalid));
}

std::string dump_document(const nlohmann::ordered_json& json, int indent) {
  return visible(json.dump(indent, ' ', false, replace_invalid));
}

}  // namespace shardproof::base
