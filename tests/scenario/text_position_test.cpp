// Places of a JSON document in its text.
#include "harness/scenario/text_position.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string_view>

using namespace shardproof::scenario;

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
  CHECK_FALSE(find_repeated_key(R"([{"a": 1}, {"a": {"a": [{"a": 2}]}}])"));
  const std::string_view text = R"({"b": [{"a": 1, "\u0061": 2}], "b": 3})";
  const auto found = find_repeated_key(text);
  REQUIRE(found);
  CHECK(found->key == "a");
  CHECK(text.substr(found->byte).starts_with("\"\\u0061\""));
}
