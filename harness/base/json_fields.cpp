#include "harness/base/json_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/base/closest.hpp"

namespace shardproof::base {

using nlohmann::ordered_json;

std::string shown(const ordered_json& value) {
  constexpr std::size_t enough = 60;
  if (value.is_object() || value.is_array()) return fmt::format("an {} of {}", value.type_name(), value.size());
  std::string text = value.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
  if (text.size() > enough) text.replace(enough, std::string::npos, "…");
  return text;
}

void refuse(std::string_view where, std::string_view expected, const ordered_json& found) {
  throw std::invalid_argument(fmt::format("{}: expected {}, found {}", where, expected, shown(found)));
}

void refuse_integer(std::string_view where, std::int64_t least, std::uint64_t most, const ordered_json& found) {
  refuse(where, fmt::format("an integer from {} to {}", least, most), found);
}

const std::string& read_text(const ordered_json& value, std::string_view where) {
  if (!value.is_string()) refuse(where, "a text", value);
  return value.get_ref<const std::string&>();
}

std::vector<std::string> read_texts(const ordered_json& value, std::string_view where) {
  if (!value.is_array()) refuse(where, "an array of texts", value);
  std::vector<std::string> texts;
  texts.reserve(value.size());
  for (const auto& element : value) texts.push_back(read_text(element, where));
  return texts;
}

std::map<std::string, std::string> read_text_map(const ordered_json& value, std::string_view where) {
  if (!value.is_object()) refuse(where, "an object of texts", value);
  std::map<std::string, std::string> texts;
  for (const auto& [key, element] : value.items()) texts[key] = read_text(element, where);
  return texts;
}

Fields::Fields(const ordered_json& object, std::string_view what) : object_(object), what_(what) {
  if (!object.is_object()) refuse(what, "an object", object);
}

bool Fields::has(const char* name) const { return object_.contains(name); }

void Fields::expect_only(std::initializer_list<std::string_view> known) const {
  for (const auto& item : object_.items()) {
    if (std::ranges::find(known, item.key()) != known.end()) continue;
    std::string names;
    for (const std::string_view name : known) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name);
    const std::string hint = closest_hint({known.begin(), known.end()}, item.key(), '"');
    throw std::invalid_argument(
        fmt::format("{}: unknown field {}; {}its fields: {}", what_, shown(ordered_json(item.key())), hint, names));
  }
}

const ordered_json& Fields::at(const char* name, std::string_view expected) const {
  const auto found = object_.find(name);
  if (found != object_.end()) return *found;
  throw std::invalid_argument(fmt::format("{}: \"{}\" is missing, expected {}", what_, name, expected));
}

const std::string& Fields::text(const char* name) const { return read_text(at(name, "a text"), where(name)); }

std::vector<std::string> Fields::texts(const char* name) const {
  return read_texts(at(name, "an array of texts"), where(name));
}

std::map<std::string, std::string> Fields::text_map(const char* name) const {
  return read_text_map(at(name, "an object of texts"), where(name));
}

bool Fields::boolean(const char* name) const {
  const auto& value = at(name, "true or false");
  if (!value.is_boolean()) refuse(where(name), "true or false", value);
  return value.get<bool>();
}

double Fields::number(const char* name) const {
  const auto& value = at(name, "a number or null");
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) refuse(where(name), "a number or null", value);
  return value.get<double>();
}

const ordered_json& Fields::array(const char* name) const {
  const auto& value = at(name, "an array");
  if (!value.is_array()) refuse(where(name), "an array", value);
  return value;
}

const ordered_json& Fields::object(const char* name) const {
  const auto& value = at(name, "an object");
  if (!value.is_object()) refuse(where(name), "an object", value);
  return value;
}

std::string Fields::where(const char* name) const { return fmt::format("{}: \"{}\"", what_, name); }

void refuse_enumerator(const Fields& fields, const char* name) {
  throw std::invalid_argument(fmt::format("{}: unknown value \"{}\"", fields.where(name), fields.text(name)));
}

}  // namespace shardproof::base
