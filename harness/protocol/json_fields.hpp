// Strict reading of the JSON that launcher, ranks and reports exchange: a field is there with its type, or the error says which is not.
// For .cpp files only: it pulls in the whole JSON library.
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/protocol/json_text.hpp"

namespace shardproof {

/// What a reader shows of a value that it refuses: short, and valid UTF-8 whatever came in.
inline std::string shown(const nlohmann::ordered_json& value) {
  constexpr std::size_t enough = 60;
  if (value.is_object() || value.is_array()) return fmt::format("an {} of {}", value.type_name(), value.size());
  std::string text = value.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  if (text.size() > enough) text.replace(enough, std::string::npos, "…");
  return text;
}

/// Fails for a value that is not what a reader wanted.
[[noreturn]] inline void refuse(std::string_view where, std::string_view expected, const nlohmann::ordered_json& found) {
  throw std::invalid_argument(fmt::format("{}: expected {}, found {}", where, expected, shown(found)));
}

/// An integer of the wanted width; a number with a fraction or an exponent is none.
template <std::integral T>
T read_integer(const nlohmann::ordered_json& value, std::string_view where) {
  using Limits = std::numeric_limits<T>;
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (std::in_range<T>(number)) return static_cast<T>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    if (std::in_range<T>(number)) return static_cast<T>(number);
  }
  refuse(where, fmt::format("an integer from {} to {}", Limits::min(), Limits::max()), value);
}

inline const std::string& read_text(const nlohmann::ordered_json& value, std::string_view where) {
  if (!value.is_string()) refuse(where, "a text", value);
  return value.get_ref<const std::string&>();
}

inline std::vector<std::string> read_texts(const nlohmann::ordered_json& value, std::string_view where) {
  if (!value.is_array()) refuse(where, "an array of texts", value);
  std::vector<std::string> texts;
  texts.reserve(value.size());
  for (const auto& element : value) texts.push_back(read_text(element, where));
  return texts;
}

inline std::map<std::string, std::string> read_text_map(const nlohmann::ordered_json& value, std::string_view where) {
  if (!value.is_object()) refuse(where, "an object of texts", value);
  std::map<std::string, std::string> texts;
  for (const auto& [key, element] : value.items()) texts[key] = read_text(element, where);
  return texts;
}

/// One JSON object and what it stands for, for errors like `case ended: "position": expected an integer …, found "x"`.
/// Fields that nobody asks for are ignored, so that a newer writer may add some; `expect_only` refuses them.
class Fields {
 public:
  Fields(const nlohmann::ordered_json& object, std::string_view what) : object_(object), what_(what) {
    if (!object.is_object()) refuse(what, "an object", object);
  }

  bool has(const char* name) const { return object_.contains(name); }

  /// For documents that people write: a name that is not among these is a mistake.
  void expect_only(std::initializer_list<std::string_view> known) const {
    for (const auto& item : object_.items()) {
      if (std::ranges::find(known, item.key()) != known.end()) continue;
      std::string names;
      for (const std::string_view name : known) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name);
      throw std::invalid_argument(
          fmt::format("{}: {} is not among its fields: {}", what_, shown(nlohmann::ordered_json(item.key())), names));
    }
  }

  const nlohmann::ordered_json& at(const char* name, std::string_view expected) const {
    const auto found = object_.find(name);
    if (found == object_.end()) throw std::invalid_argument(fmt::format("{}: \"{}\" is missing, expected {}", what_, name, expected));
    return *found;
  }

  template <std::integral T>
  T integer(const char* name) const {
    return read_integer<T>(at(name, "an integer"), where(name));
  }

  const std::string& text(const char* name) const { return read_text(at(name, "a text"), where(name)); }
  std::vector<std::string> texts(const char* name) const { return read_texts(at(name, "an array of texts"), where(name)); }
  std::map<std::string, std::string> text_map(const char* name) const { return read_text_map(at(name, "an object of texts"), where(name)); }

  bool boolean(const char* name) const {
    const auto& value = at(name, "true or false");
    if (!value.is_boolean()) refuse(where(name), "true or false", value);
    return value.get<bool>();
  }

  /// JSON has no NaN and no infinity: writers say null, and null reads as NaN.
  double number(const char* name) const {
    const auto& value = at(name, "a number or null");
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!value.is_number()) refuse(where(name), "a number or null", value);
    return value.get<double>();
  }

  const nlohmann::ordered_json& array(const char* name) const {
    const auto& value = at(name, "an array");
    if (!value.is_array()) refuse(where(name), "an array", value);
    return value;
  }

  const nlohmann::ordered_json& object(const char* name) const {
    const auto& value = at(name, "an object");
    if (!value.is_object()) refuse(where(name), "an object", value);
    return value;
  }

  /// Every element of an array of objects that have a from_json of their own.
  template <class T>
  std::vector<T> list(const char* name) const {
    std::vector<T> elements;
    const auto& values = array(name);
    elements.reserve(values.size());
    for (const auto& value : values) from_json(value, elements.emplace_back());
    return elements;
  }

  std::string where(const char* name) const { return fmt::format("{}: \"{}\"", what_, name); }

 private:
  const nlohmann::ordered_json& object_;
  std::string_view what_;
};

/// One of the enumerators from zero up to `last`, by its name.
template <class Enum>
Enum read_enum(const Fields& fields, const char* name, Enum last) {
  const std::string& text = fields.text(name);
  for (std::underlying_type_t<Enum> value = 0; value <= static_cast<std::underlying_type_t<Enum>>(last); ++value) {
    if (to_string(static_cast<Enum>(value)) == text) return static_cast<Enum>(value);
  }
  throw std::invalid_argument(fmt::format("{}: \"{}\" is no value of it", fields.where(name), text));
}

}  // namespace shardproof
