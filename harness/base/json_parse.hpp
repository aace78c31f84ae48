// Parsing of JSON that came from outside. A reader that walks a document recurses, and the stack ends long before a
// text of brackets does. So depth has a limit, far beyond every document of the project. The parser is compiled here
// once: it is slow to compile.
#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string_view>

namespace shardproof::base {

inline constexpr int deepest_json = 100;

/// Each parser throws nlohmann's exceptions, and std::invalid_argument for a document that nests deeper than
/// `deepest_json`.
nlohmann::ordered_json parse_json(std::string_view text);
nlohmann::ordered_json parse_json(std::istream& in);

/// The callback sees each value when it is complete, and false drops the value: a long stream never has to fit into
/// memory. The time of such a parse grows with the square of an array's length, unless the callback drops the elements.
nlohmann::ordered_json parse_json(std::string_view text, const nlohmann::ordered_json::parser_callback_t& take);
nlohmann::ordered_json parse_json(std::istream& in, const nlohmann::ordered_json::parser_callback_t& take);

}  // namespace shardproof::base
