// A reader of documents that people write. It reads each value by its type and range, and refuses unknown keys. An
// error has the place (`plan.fully_shard.wrap[2].modules`), what was expected there and what was found. For .cpp files
// only: it includes the whole JSON library.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "harness/protocol/trace.hpp"

namespace shardproof::scenario {

/// One value and its place. Errors are std::invalid_argument: `scenario: plan.fully_shard.wrap[2].modules: expected …,
/// found …`.
class Node {
 public:
  Node(const nlohmann::ordered_json& value, std::string place) : value_(value), place_(std::move(place)) {}

  const std::string& place() const { return place_; }
  const nlohmann::ordered_json& json() const { return value_; }
  [[noreturn]] void fail(std::string_view expected) const;

  // -- Objects

  /// Fails unless this is an object whose keys are all among these.
  void expect_keys(std::span<const std::string_view> known) const;
  void expect_keys(std::initializer_list<std::string_view> known) const {
    expect_keys(std::span(known.begin(), known.size()));
  }
  bool has(std::string_view key) const;
  Node at(std::string_view key) const;  ///< fails if it is missing
  std::optional<Node> find(std::string_view key) const;
  std::vector<std::pair<std::string, Node>> members() const;

  // -- Other values

  std::vector<Node> elements() const;
  std::string text() const;
  std::string nonempty_text() const;
  std::vector<std::string> texts() const;
  bool boolean() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  double number() const;  ///< finite
  double positive_number() const;
  Nanoseconds duration() const;  ///< nanoseconds as an integer, or a text like `25ms`; not negative
  bool is_text() const { return value_.is_string(); }
  bool is_object() const { return value_.is_object(); }
  bool is_boolean() const { return value_.is_boolean(); }
  bool is_integer() const { return value_.is_number_integer(); }

  /// One of the enumerators from zero up to `last`, by its name. Errors call it a `noun`.
  template <class Enum>
  Enum choice(Enum last, std::string_view noun = "name") const {
    for (std::underlying_type_t<Enum> i = 0; i <= static_cast<std::underlying_type_t<Enum>>(last); ++i) {
      if (value_.is_string() && value_.get_ref<const std::string&>() == to_string(static_cast<Enum>(i)))
        return static_cast<Enum>(i);
    }
    fail_choice(noun, names_up_to(last));
  }
  /// The same for the value of a key. The error for a missing key lists the enumerators, too.
  template <class Enum>
  Enum choice_at(std::string_view key, Enum last) const {
    if (const auto node = find(key)) return node->choice(last, key);
    fail_without(key, names_up_to(last));
  }

 private:
  std::string place_of(std::string_view key) const;
  [[noreturn]] void fail_without(std::string_view key, const std::vector<std::string>& names) const;
  [[noreturn]] void fail_choice(std::string_view noun, const std::vector<std::string>& names) const;

  template <class Enum>
  static std::vector<std::string> names_up_to(Enum last) {
    std::vector<std::string> names;
    for (std::underlying_type_t<Enum> i = 0; i <= static_cast<std::underlying_type_t<Enum>>(last); ++i)
      names.emplace_back(to_string(static_cast<Enum>(i)));
    return names;
  }

  const nlohmann::ordered_json& value_;
  std::string place_;  ///< empty: the whole document
};

/// Numbers of ranks in documents.
inline constexpr int most_ranks = 1 << 20;

/// The exact time: `25ms`, `1.5us`. The unit is the largest that the time is at least one of.
std::string duration_text(Nanoseconds time);
/// The inverse of duration_text, with or without a blank before the unit. Empty for a text that is not a whole number
/// of nanoseconds.
std::optional<Nanoseconds> parse_duration(std::string_view text);

}  // namespace shardproof::scenario
