#include "harness/base/json_parse.hpp"

#include <fmt/format.h>

#include <istream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace shardproof::base {

using nlohmann::ordered_json;

namespace {

[[noreturn]] void refuse_depth() {
  throw std::invalid_argument(fmt::format("JSON nested deeper than {} levels", deepest_json));
}

void require_shallow(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (depth++ == deepest_json) refuse_depth();
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

ordered_json::parser_callback_t shallow(const ordered_json::parser_callback_t& take) {
  return [&take](int depth, ordered_json::parse_event_t event, ordered_json& parsed) {
    using enum ordered_json::parse_event_t;
    const bool begins = event == array_start || event == object_start;
    if (begins && depth >= deepest_json) refuse_depth();
    return take(depth, event, parsed);
  };
}

}  // namespace

ordered_json parse_json(std::string_view text) {
  require_shallow(text);  // before the parse: a parse with a callback would take quadratic time
  return ordered_json::parse(text);
}

ordered_json parse_json(std::istream& in) { return parse_json(std::string{std::istreambuf_iterator<char>(in), {}}); }

ordered_json parse_json(std::string_view text, const ordered_json::parser_callback_t& take) {
  return ordered_json::parse(text, shallow(take));
}

ordered_json parse_json(std::istream& in, const ordered_json::parser_callback_t& take) {
  return ordered_json::parse(in, shallow(take));
}

}  // namespace shardproof::base
