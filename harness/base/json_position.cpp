#include "harness/base/json_position.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/base/json_parse.hpp"

namespace shardproof::base {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_mark(char c) { return std::string_view("{}[],:\"").find(c) != std::string_view::npos; }

/// The end of the JSON string that begins at `begin`, with its closing quote.
std::size_t string_end(std::string_view text, std::size_t begin) {
  std::size_t at = begin + 1;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

std::string decoded(std::string_view quoted) {
  const auto parsed = nlohmann::json::parse(quoted, nullptr, false);
  return parsed.is_string() ? parsed.get<std::string>() : std::string();
}

/// Reads a JSON text from left to right. Invalid text ends early or is skipped.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::size_t at() const { return at_; }
  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  bool is_at_end() {
    skip_blanks();
    return at_ >= text_.size();
  }
  bool take(char wanted) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool is_at(char wanted) {
    skip_blanks();
    return at_ < text_.size() && text_[at_] == wanted;
  }
  std::string string() {
    const std::size_t begin = at_;
    at_ = string_end(text_, begin);
    return decoded(text_.substr(begin, at_ - begin));
  }
  /// A key and its colon. Leaves the reader at the value.
  std::string key() {
    std::string key = string();
    take(':');
    skip_blanks();
    return key;
  }

  /// Calls `each` with the byte and the key of each member of an object. `each` reads the value.
  template <class Each>
  void members(Each&& each) {
    take('{');
    while (is_at('"')) {
      const std::size_t begin = at_;
      each(begin, key());
      take(',');
    }
    take('}');
  }
  /// Calls `each` with the byte of each element of an array. `each` reads it.
  template <class Each>
  void elements(Each&& each) {
    take('[');
    while (!is_at(']') && at_ < text_.size()) {
      each(at_);
      take(',');
    }
    take(']');
  }

  /// Counts brackets instead of calling itself, because the text may nest to any depth.
  void skip_value() {
    std::size_t open = 0;
    do {
      skip_blanks();
      skip_token(open);
    } while (open > 0 && at_ < text_.size());
  }

  /// Skips a string, a bracket, a mark, or a number or word. `open` counts the open brackets.
  void skip_token(std::size_t& open) {
    if (at_ >= text_.size()) return;
    const char first = text_[at_];
    if (first == '"') {
      at_ = string_end(text_, at_);
      return;
    }
    if (first == '{' || first == '[') ++open;
    if ((first == '}' || first == ']') && open > 0) --open;
    ++at_;
    if (is_mark(first)) return;
    while (at_ < text_.size() && !is_blank(text_[at_]) && !is_mark(text_[at_])) ++at_;
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// One step of a place: a key, or the number of an element.
struct Step {
  std::string key;
  std::optional<std::size_t> index;
};

std::optional<Step> take_step(std::string_view& place) {
  if (place.starts_with('.')) place.remove_prefix(1);
  if (place.empty() || place.front() == ' ') return std::nullopt;
  Step step;
  if (place.front() == '[') {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(place.data() + 1, place.data() + place.size(), index);
    if (error != std::errc()) return std::nullopt;
    step.index = index;
    place.remove_prefix(std::min(static_cast<std::size_t>(end - place.data()) + 1, place.size()));
  } else if (place.front() == '"') {
    const std::size_t end = string_end(place, 0);
    step.key = decoded(place.substr(0, end));
    place.remove_prefix(end);
  } else {
    const std::size_t end = std::min(place.find_first_of(".[ "), place.size());
    step.key = place.substr(0, end);
    place.remove_prefix(end);
  }
  return step;
}

/// Goes to the value of a step, and returns the step's own byte. Empty: the value at the reader does not have it.
std::optional<std::size_t> enter(Reader& reader, const Step& step) {
  std::optional<std::size_t> found;
  Reader value = reader;
  std::size_t number = 0;
  const auto visit = [&](std::size_t byte, bool is_it) {
    if (is_it && !found) {
      found = byte;
      value = reader;
    }
    reader.skip_value();
  };
  if (step.index && reader.is_at('[')) reader.elements([&](std::size_t byte) { visit(byte, number++ == *step.index); });
  if (!step.index && reader.is_at('{'))
    reader.members([&](std::size_t byte, const std::string& key) { visit(byte, key == step.key); });
  if (found) reader = value;
  return found;
}

}  // namespace

TextPosition position_at(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const std::size_t newline = before.rfind('\n');
  const std::string_view line = before.substr(newline == std::string_view::npos ? 0 : newline + 1);
  const auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; };
  return {.line = 1 + static_cast<std::size_t>(std::ranges::count(before, '\n')),
          .column = 1 + static_cast<std::size_t>(std::ranges::count_if(line, begins_character))};
}

std::size_t find_place(std::string_view text, std::string_view place) {
  Reader reader(text);
  reader.skip_blanks();
  std::size_t at = reader.at();
  while (const std::optional<Step> step = take_step(place)) {
    const auto byte = enter(reader, *step);
    if (!byte) break;
    at = *byte;
  }
  return at;
}

std::optional<std::size_t> find_duplicate_key(std::string_view text) {
  /// An open object with the keys so far, or an open array.
  struct Container {
    bool is_object;
    std::set<std::string> keys;
  };
  std::vector<Container> open;
  Reader reader(text);
  while (!reader.is_at_end()) {
    const std::size_t byte = reader.at();
    if (text[byte] == '"') {
      const std::string name = reader.string();
      const bool is_key = !open.empty() && open.back().is_object && reader.is_at(':');
      if (is_key && !open.back().keys.insert(name).second) return byte;
      continue;
    }
    std::size_t opened = open.size();
    reader.skip_token(opened);
    if (opened > deepest_json) return std::nullopt;
    if (opened > open.size()) open.push_back({.is_object = text[byte] == '{', .keys = {}});
    if (opened < open.size()) open.pop_back();
  }
  return std::nullopt;
}

}  // namespace shardproof::base
