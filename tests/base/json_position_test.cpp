// Places of a JSON document in its text.
#include "harness/base/json_position.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <string_view>

using namespace shardproof::base;

TEST_CASE("a position counts lines, and characters of UTF-8") {
  CHECK(position_at("ab\ncd", 0) == TextPosition{1, 1});
  CHECK(position_at("ab\ncd", 4) == TextPosition{2, 2});
  CHECK(position_at("ab", 9) == TextPosition{1, 3});
  CHECK(position_at("\"\u00e4\u20ac\" 1", 8) == TextPosition{1, 6});
}

TEST_CASE("a place is found at its key or its element") {
  constexpr std::string_view text = R"( {"a": [1, {"b.c": "}\"", "d": [true, null]}], "e": {"f": -1.5e3}, "g": 2})";
  const auto at = [&](std::string_view place) { return text.substr(find_place(text, place)); };
  CHECK(at("").starts_with("{\"a\""));
  CHECK(at("a").starts_with("\"a\": [1"));
  CHECK(at("a[0]").starts_with("1,"));
  CHECK(at("a[1].d[1] (forward)").starts_with("null"));
  CHECK(at("a[1].\"b.c\"").starts_with("\"b.c\""));
  CHECK(at("e.f").starts_with("\"f\": -1.5e3"));
  CHECK(at("g").starts_with("\"g\": 2}"));
  CHECK(at("a[7].d").starts_with("\"a\": [1"));
  CHECK(at("e.none.more").starts_with("\"e\": {"));
  CHECK(at("g[0]").starts_with("\"g\": 2}"));
}

TEST_CASE("the second of two equal keys is found, and equal keys of two objects are not") {
  CHECK_FALSE(find_duplicate_key(R"([{"a": 1}, {"a": {"a": [{"a": 2}]}}, "a", "a"])"));
  CHECK_FALSE(find_duplicate_key(R"({"a": "a", "b": ["a", "b"], "c": {}})"));
  const auto at_duplicate = [](std::string_view text) {
    const auto byte = find_duplicate_key(text);
    return byte ? text.substr(*byte) : "none";
  };
  CHECK(at_duplicate(R"({"b": [{"a": 1, "\u0061": 2}], "b": 3})").starts_with("\"\\u0061\""));
  CHECK(at_duplicate(R"({"b": [{"a": 1}], "b": 3})") == "\"b\": 3}");
}

TEST_CASE("a text that nests without end, or is no JSON, has positions, too") {
  const std::string deep = R"({"a": 1, "a": )" + std::string(1'000'000, '[');
  CHECK(find_duplicate_key(deep) == 9);
  CHECK_FALSE(find_duplicate_key(deep.substr(0, 8) + deep.substr(14)));
  CHECK(find_place(deep, "b") == 0);
  CHECK(find_place(deep, "a[0]") == 1);
  for (const std::string_view text : {"", "}", "]]", "{", "{\"a", "{\"a\\", ":,:", "\"a\": {\"a\" \"a\"}", "[1 2}"}) {
    CAPTURE(text);
    CHECK_FALSE(find_duplicate_key(text));
    CHECK(find_place(text, "a[1].b") <= text.size());
  }
}
