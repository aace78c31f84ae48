// Parsing of JSON that came from outside. A reader that walks a document recurses, and the stack ends long before a
// text of brackets does. So depth has a limit, far beyond every document of the project. An object that has a key twice
// is refused: a parser that keeps one of the two values would hide the other. The parser is compiled here once: it is
// slow to compile.
#pragma once

#include <functional>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace shardproof::base {

inline constexpr int deepest_json = 100;

/// An object has a key twice. The text names the key and its place: `cases[3].ranks[0]: duplicate key "outcome"`.
class DuplicateKey : public std::invalid_argument {
 public:
  DuplicateKey(std::string key, const std::string& text) : std::invalid_argument(text), key_(std::move(key)) {}
  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

/// Each parser throws nlohmann's exceptions, DuplicateKey, and std::invalid_argument for a document that nests deeper
/// than `deepest_json`.
nlohmann::ordered_json parse_json(std::string_view text);
nlohmann::ordered_json parse_json(std::istream& in);

/// Where a document is invalid and why, for an error message: `line 3, column 5: syntax error while parsing value - …`.
std::string syntax_error_text(const nlohmann::ordered_json::parse_error& error);

/// Called with the document so far, and with an element that the document then does not keep.
using TakeElement = std::function<void(const nlohmann::ordered_json& document, const nlohmann::ordered_json& element)>;

/// Gives each element of the top-level array `list` to `take`, and drops it: a long document never has to fit into
/// memory. The returned document has an empty array there.
nlohmann::ordered_json parse_json(std::istream& in, std::string_view list, const TakeElement& take);

}  // namespace shardproof::base
