// The file of waivers: what is one, and how a mistake in it is said.
#include "reports/model/waiver.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::ordered_json;

ordered_json whole_waiver() {
  return {{"pattern", "a/*"},
          {"verdict", "failed"},
          {"when", {{"fabric", "shm"}, {"device", "sim"}, {"subject", "s"}, {"fault", "f"}, {"world_size", 2}}},
          {"reason", "known"},
          {"link", "https://tracker.example/1"},
          {"owner", "ada"},
          {"expires", "2030-12-31"},
          {"shown_by", {{"scenario", "late.json"}, {"ranks", 3}, {"beside", "reference"}}}};
}

std::vector<Waiver> parsed(const ordered_json& waivers) {
  return parse_waivers(ordered_json{{"waivers", waivers}}.dump());
}

std::string refusal(const std::string& text) {
  try {
    parse_waivers(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

/// The reader's result for a document whose second waiver is this one.
std::string refusal(const ordered_json& waiver) {
  return refusal(ordered_json{{"waivers", {whole_waiver(), waiver}}}.dump());
}

ordered_json with(const char* field, const ordered_json& value) {
  auto json = whole_waiver();
  json[field] = value;
  return json;
}

TEST_CASE("a waiver is read as written, and written so that it reads the same") {
  const auto waivers = parsed({whole_waiver(), with("when", ordered_json::object())});
  REQUIRE(waivers.size() == 2);
  CHECK(waivers[0] == Waiver{.pattern = "a/*",
                             .verdict = Verdict::failed,
                             .when = {.fabric = "shm", .device = "sim", .subject = "s", .fault = "f", .world_size = 2},
                             .reason = "known",
                             .link = "https://tracker.example/1",
                             .owner = "ada",
                             .expires = "2030-12-31",
                             .shown_by = {{.scenario = "late.json", .ranks = 3, .other_subject = "reference"}}});
  CHECK(waivers[1].when == Waiver::When{});
  CHECK(ordered_json(waivers[0]) == whole_waiver());
  CHECK(parsed(ordered_json(waivers)) == waivers);
  CHECK(parsed(ordered_json::array()).empty());
  auto anywhere = whole_waiver();
  anywhere.erase("when");
  CHECK(parsed(ordered_json::array({anywhere}))[0] == waivers[1]);
  anywhere.erase("shown_by");
  CHECK(parsed(ordered_json::array({anywhere}))[0].shown_by == std::nullopt);
  CHECK(ordered_json(parsed(ordered_json::array({anywhere}))[0]).contains("shown_by") == false);
}

TEST_CASE("a mistake is named by waiver and field") {
  CHECK(refusal(std::string(R"({"waivers": [{"case": "a", "when": {"fault": "f"}, "owner": "f", "case": "b"}]})")) ==
        "waivers[0]: duplicate key \"case\": remove one of the two");
  CHECK(refusal(with("expires", "soon")) ==
        "waivers[1]: \"expires\": expected a day such as 2030-12-31, found \"soon\"");
  CHECK(refusal(with("verdict", "disagreed")) ==
        "waivers[1]: \"verdict\": expected failed, error, hung or crashed, found \"disagreed\"");
  CHECK(refusal(with("owner", "")) == "waivers[1]: \"owner\": expected a text that is not empty");
  CHECK(refusal(with("expire", "2030-12-31")) ==
        "waivers[1]: unknown field \"expire\"; closest is \"expires\"; its fields: \"pattern\", \"verdict\", \"when\", "
        "\"reason\", "
        "\"link\", \"owner\", \"expires\", \"shown_by\"");
  CHECK(refusal(with("when", {{"divice", "sim"}})) ==
        "waivers[1]: when: unknown field \"divice\"; closest is \"device\"; its fields: \"fabric\", \"device\", "
        "\"subject\", \"fault\", "
        "\"world_size\"");
  CHECK(refusal(with("when", {{"world_size", 0}})) == "waivers[1]: when: \"world_size\": expected at least 1, found 0");
  CHECK(refusal(with("when", {{"fault", ""}})) == "waivers[1]: when: \"fault\": expected a text that is not empty");
  CHECK(refusal(with("shown_by", {{"scenario", "a.json"}, {"rank", 1}})) ==
        "waivers[1]: shown_by: unknown field \"rank\"; closest is \"ranks\"; its fields: \"scenario\", \"ranks\", "
        "\"beside\"");
  CHECK(refusal(with("shown_by", {{"ranks", 1}})) == "waivers[1]: shown_by: \"scenario\" is missing, expected a text");
  CHECK(refusal(with("shown_by", {{"scenario", ""}})) ==
        "waivers[1]: shown_by: \"scenario\": expected a text that is not empty");
  CHECK(refusal(with("shown_by", {{"scenario", "a.json"}, {"ranks", 0}})) ==
        "waivers[1]: shown_by: \"ranks\": expected at least 1, found 0");
  CHECK(refusal(with("shown_by", {{"scenario", "a.json"}, {"beside", ""}})) ==
        "waivers[1]: shown_by: \"beside\": expected a text that is not empty");
  CHECK(refusal(std::string("{\n\"waivers\": [}"))
            .starts_with("invalid JSON at line 2, column 13: syntax error while parsing value - unexpected '}'"));
  CHECK(refusal(std::string("{\"waivers\": 1e999}")) == "a number is out of range");
  CHECK(parse_waivers(R"({"version": 1, "waivers": []})").empty());
  CHECK(refusal(std::string(R"({"version": 2, "waivers": []})")) ==
        "waivers: \"version\": expected 1, the version that this shardproof reads, found 2");
  CHECK(refusal(std::string("[]")) == "waivers: expected an object, found an array of 0");
  CHECK(refusal(std::string("{\"waivers\": [], \"waiver\": 1}")) ==
        "waivers: unknown field \"waiver\"; closest is \"waivers\"; its fields: \"$schema\", \"version\", \"waivers\"");
}

TEST_CASE("no field may be missing but its condition and what shows it, and none may be of another type") {
  const auto good = whole_waiver();
  for (const auto& item : good.items()) {
    CAPTURE(item.key());
    CHECK_THAT(refusal(with(item.key().c_str(), 7)), ContainsSubstring("waivers[1]: \"" + item.key() + "\": expected"));
    if (item.key() == "when" || item.key() == "shown_by") continue;
    auto without = good;
    without.erase(item.key());
    CHECK_THAT(refusal(without), ContainsSubstring("waivers[1]: \"" + item.key() + "\" is missing"));
  }
  CHECK_THAT(refusal(ordered_json(7)), ContainsSubstring("waivers[1]: expected an object, found 7"));
}

TEST_CASE("a verdict that is no failure cannot be waived, nor missing evidence") {
  for (const auto verdict : {Verdict::passed, Verdict::skipped, Verdict::not_run, Verdict::disagreed}) {
    CAPTURE(to_string(verdict));
    CHECK_FALSE(is_waivable(verdict));
    CHECK_THAT(refusal(with("verdict", to_string(verdict))),
               ContainsSubstring("expected failed, error, hung or crashed"));
  }
  for (const auto verdict : {Verdict::failed, Verdict::error, Verdict::hung, Verdict::crashed}) {
    CHECK(is_waivable(verdict));
    CHECK(parsed(ordered_json::array({with("verdict", to_string(verdict))}))[0].verdict == verdict);
  }
}

TEST_CASE("a day is one of the calendar") {
  for (const char* day : {"2030-12-31", "2028-02-29", "0001-01-01"}) CHECK(is_day(day));
  for (const char* none : {"", "2030-12-3", "2030-13-01", "2030-00-01", "2030-01-00", "2030-02-29",
                           "2030-12-31T00:00:00Z", "2030/12/31", "-030-12-31", "+030-12-31", "2030-12- 1", "20301231"})
    CHECK_FALSE(is_day(none));
}

}  // namespace
}  // namespace shardproof::reports
