// Strict readers of the JSON that launcher, ranks and reports exchange. A field exists with its type, or the error
// names the field. For .cpp files only: this header includes the whole JSON library.
//
// The room `base` has small, general helpers. A helper that knows ranks, documents or devices may not enter.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/base/json_text.hpp"

namespace shardproof::base {

/// A short form of a value for error messages: at most 60 bytes and an ellipsis, always in valid UTF-8.
std::string shown(const nlohmann::ordered_json& value);

/// Throws std::invalid_argument: "WHERE: expected EXPECTED, found …".
[[noreturn]] void refuse(std::string_view where, std::string_view expected, const nlohmann::ordered_json& found);

[[noreturn]] void refuse_integer(std::string_view where, std::int64_t least, std::uint64_t most,
                                 const nlohmann::ordered_json& found);

/// Reads an integer from `least` that fits T. It refuses a number with a fraction or an exponent.
template <std::integral T>
T read_integer(const nlohmann::ordered_json& value, std::string_view where, T least = std::numeric_limits<T>::min()) {
  const auto fits = [least](auto number) { return std::in_range<T>(number) && static_cast<T>(number) >= least; };
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (fits(number)) return static_cast<T>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    if (fits(number)) return static_cast<T>(number);
  }
  refuse_integer(where, static_cast<std::int64_t>(least), std::numeric_limits<T>::max(), value);
}

const std::string& read_text(const nlohmann::ordered_json& value, std::string_view where);
std::vector<std::string> read_texts(const nlohmann::ordered_json& value, std::string_view where);
std::map<std::string, std::string> read_text_map(const nlohmann::ordered_json& value, std::string_view where);

/// Reads one JSON object. Errors name the object and the field:
/// `case ended: "position": expected an integer …, found "x"`. Unread fields are ignored, so that a newer writer may
/// add fields. `expect_only` refuses them.
class Fields {
 public:
  Fields(const nlohmann::ordered_json& object, std::string_view what);

  bool has(const char* name) const;

  /// Refuses unknown names. It is for documents that people write: there, an unknown name is a mistake.
  void expect_only(std::initializer_list<std::string_view> known) const;

  const nlohmann::ordered_json& at(const char* name, std::string_view expected) const;

  template <std::integral T>
  T integer(const char* name, T least = std::numeric_limits<T>::min()) const {
    return read_integer<T>(at(name, "an integer"), where(name), least);
  }

  const std::string& text(const char* name) const;
  std::vector<std::string> texts(const char* name) const;
  std::map<std::string, std::string> text_map(const char* name) const;
  bool boolean(const char* name) const;

  /// JSON has no NaN and no infinity. Writers write null for both, and null is read as NaN.
  double number(const char* name) const;

  const nlohmann::ordered_json& array(const char* name) const;
  const nlohmann::ordered_json& object(const char* name) const;

  /// Reads every element of an array of objects by the element type's own from_json.
  template <class T>
  std::vector<T> list(const char* name) const {
    std::vector<T> elements;
    const auto& values = array(name);
    elements.reserve(values.size());
    for (const auto& value : values) from_json(value, elements.emplace_back());
    return elements;
  }

  std::string where(const char* name) const;

 private:
  const nlohmann::ordered_json& object_;
  std::string_view what_;
};

[[noreturn]] void refuse_enumerator(const Fields& fields, const char* name);

/// The enumerator, from zero to `last`, whose name is in the field.
template <class Enum>
Enum read_enum(const Fields& fields, const char* name, Enum last) {
  const std::string& text = fields.text(name);
  for (std::underlying_type_t<Enum> value = 0; value <= static_cast<std::underlying_type_t<Enum>>(last); ++value) {
    if (to_string(static_cast<Enum>(value)) == text) return static_cast<Enum>(value);
  }
  refuse_enumerator(fields, name);
}

}  // namespace shardproof::base
