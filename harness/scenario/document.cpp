#include "harness/scenario/document.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "harness/base/closest.hpp"
#include "harness/base/json_fields.hpp"
#include "harness/scenario/document_error.hpp"
#include "harness/scenario/refusal.hpp"

namespace shardproof::scenario {

namespace {

struct Unit {
  std::string_view name;
  Nanoseconds ns;
};

constexpr std::array units{Unit{"s", 1'000'000'000}, Unit{"ms", 1'000'000}, Unit{"us", 1'000}, Unit{"ns", 1}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The value, if it is an integer that fits.
std::optional<std::int64_t> whole(const nlohmann::ordered_json& value) {
  if (value.is_number_unsigned() && !std::in_range<std::int64_t>(value.get<std::uint64_t>())) return std::nullopt;
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

std::string quoted(const std::vector<std::string>& names) { return fmt::format("\"{}\"", fmt::join(names, "\", \"")); }

}  // namespace

void Node::fail(std::string_view expected) const {
  throw DocumentError(place_, fmt::format("expected {}, found {}", expected, base::shown(value_)));
}

std::string Node::place_of(std::string_view key) const { return member_place(place_, key); }

void Node::expect_keys(std::span<const std::string_view> known) const {
  if (!value_.is_object()) fail("an object");
  for (const auto& [key, value] : value_.items()) {
    if (std::ranges::find(known, std::string_view(key)) != known.end()) continue;
    const std::string hint = base::closest_hint({known.begin(), known.end()}, key, '"');
    throw DocumentError(place_of(key), fmt::format("no such key; {}there is {}", hint, fmt::join(known, ", ")));
  }
}

bool Node::has(std::string_view key) const { return value_.is_object() && value_.contains(key); }

Node Node::at(std::string_view key) const {
  if (auto node = find(key)) return *std::move(node);
  throw DocumentError(place_of(key), "is missing");
}

void Node::fail_without(std::string_view key, const std::vector<std::string>& names) const {
  throw DocumentError(place_of(key), fmt::format("is missing; one of {}", quoted(names)));
}

void Node::fail_choice(std::string_view noun, const std::vector<std::string>& names) const {
  if (!is_text()) fail(fmt::format("one of {}", quoted(names)));
  const std::string hint = base::closest_hint({names.begin(), names.end()}, text(), '"');
  throw DocumentError(place_,
                      fmt::format("unknown {0} {1}; {2}{0}s: {3}", noun, base::shown(value_), hint, quoted(names)));
}

std::optional<Node> Node::find(std::string_view key) const {
  if (!value_.is_object()) fail("an object");
  const auto found = value_.find(key);
  if (found == value_.end()) return std::nullopt;
  return Node(*found, place_of(key));
}

std::vector<std::pair<std::string, Node>> Node::members() const {
  if (!value_.is_object()) fail("an object");
  std::vector<std::pair<std::string, Node>> all;
  for (const auto& [key, value] : value_.items()) all.emplace_back(key, Node(value, place_of(key)));
  return all;
}

std::vector<Node> Node::elements() const {
  if (!value_.is_array()) fail("an array");
  std::vector<Node> all;
  for (std::size_t i = 0; i < value_.size(); ++i) all.emplace_back(value_[i], fmt::format("{}[{}]", place_, i));
  return all;
}

std::string Node::text() const {
  if (!value_.is_string()) fail("a text");
  return value_.get<std::string>();
}

std::string Node::nonempty_text() const {
  if (!value_.is_string() || value_.get_ref<const std::string&>().empty()) fail("a text that is not empty");
  return value_.get<std::string>();
}

std::vector<std::string> Node::texts() const {
  std::vector<std::string> all;
  for (const Node& element : elements()) all.push_back(element.text());
  return all;
}

bool Node::boolean() const {
  if (!value_.is_boolean()) fail("true or false");
  return value_.get<bool>();
}

std::int64_t Node::integer(std::int64_t least, std::int64_t most) const {
  if (const auto number = whole(value_); number && *number >= least && *number <= most) return *number;
  fail(most == std::numeric_limits<std::int64_t>::max() ? fmt::format("an integer of at least {}", least)
                                                        : fmt::format("an integer from {} to {}", least, most));
}

double Node::number() const {
  if (!value_.is_number() || !std::isfinite(value_.get<double>())) fail("a finite number");
  return value_.get<double>();
}

double Node::positive_number() const {
  if (!value_.is_number() || !std::isfinite(value_.get<double>()) || !(value_.get<double>() > 0))
    fail("a positive number");
  return value_.get<double>();
}

Nanoseconds Node::duration() const {
  // A clock can hold a hundred thousand days.
  constexpr Nanoseconds day = 86'400'000'000'000;
  std::optional<Nanoseconds> time;
  if (value_.is_string()) time = parse_duration(value_.get_ref<const std::string&>());
  if (value_.is_number_integer()) time = whole(value_);
  if (!time || *time < 0 || *time > day)
    fail(fmt::format("a duration from 0 to a day: up to {} nanoseconds, or a text like \"25ms\" or \"1.5us\"", day));
  return *time;
}

std::string duration_text(Nanoseconds time) {
  const auto unit = std::ranges::find_if(units, [time](const Unit& candidate) { return time >= candidate.ns; });
  const Unit& best = unit == units.end() ? units.back() : *unit;
  const Nanoseconds rest = time % best.ns;
  if (rest == 0) return fmt::format("{}{}", time / best.ns, best.name);
  std::string digits = fmt::format("{}", best.ns + rest);  // with a leading 1 that keeps its zeros
  digits.erase(digits.find_last_not_of('0') + 1);
  return fmt::format("{}.{}{}", time / best.ns, digits.substr(1), best.name);
}

std::optional<Nanoseconds> parse_duration(std::string_view text) {
  const auto whole_end = std::ranges::find_if_not(text, is_digit);
  std::string_view rest(whole_end, text.end());
  const std::string_view whole(text.begin(), whole_end);
  std::string_view fraction;
  if (rest.starts_with('.')) {
    const auto end = std::ranges::find_if_not(rest.substr(1), is_digit);
    fraction = std::string_view(rest.begin() + 1, end);
    rest = std::string_view(end, rest.end());
    if (fraction.empty()) return std::nullopt;
  }
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  const auto unit = std::ranges::find(units, rest, &Unit::name);
  Nanoseconds time = 0;
  if (unit == units.end() || std::from_chars(whole.data(), whole.data() + whole.size(), time).ec != std::errc())
    return std::nullopt;
  if (time > std::numeric_limits<Nanoseconds>::max() / unit->ns - 1) return std::nullopt;
  time *= unit->ns;
  Nanoseconds place = unit->ns;
  for (const char digit : fraction) {
    if (place == 1 && digit != '0') return std::nullopt;  // less than a nanosecond
    place /= place > 1 ? 10 : 1;
    time += place * (digit - '0');
  }
  return time;
}

}  // namespace shardproof::scenario
