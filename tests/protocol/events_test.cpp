#include "harness/protocol/events.hpp"

#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <stdexcept>

#include "tests/rounds.hpp"

namespace shardproof {
namespace {

using Catch::Matchers::ContainsSubstring;
using shardproof::testing::rounds;

std::vector<protocol::RankEvent> one_of_each() {
  return {protocol::event::RankStarted{1, 4, 4242, "node-1", "n0nce", "0.1.0", "abc123", 1},
          protocol::event::CaseStarted{"overlap/training_overlap[W=2]", 7, 123456789012345},
          protocol::event::AssertionFailed{
              "suites/overlap/a.cpp", 42, "CHECK", "a == b", "1 == 2", {"i := 1", "second"}, {"OVL-1"}, 99},
          protocol::event::Measured{"forward_ns", 85000000.0, "ns"},
          protocol::event::CaseEnded{"overlap/training_overlap[W=2]", 7, protocol::Outcome::released, 3,
                                     "rank 1 failed", 1, 1500},
          protocol::event::RankEnded{1}};
}

std::string without(const std::string& line, const std::string& field) {
  auto json = nlohmann::ordered_json::parse(line);
  json.erase(field);
  return json.dump();
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> names;
  const auto json = nlohmann::ordered_json::parse(line);
  for (const auto& item : json.items()) names.push_back(item.key());
  return names;
}

TEST_CASE("every event survives the way through its line") {
  for (const auto& event : one_of_each()) {
    const auto line = protocol::to_line(event);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(protocol::to_line(protocol::parse_line(line)) == line);
    CHECK(protocol::parse_line(line).index() == event.index());
  }
}

TEST_CASE("a line has one form") {
  CHECK(protocol::to_line(protocol::event::CaseStarted{"a/b[W=2]", 0, 5}) ==
        R"({"event":"case_started","id":"a/b[W=2]","position":0,"monotonic_ns":5})");
  CHECK(protocol::to_line(protocol::event::CaseEnded{"a/b[W=2]", 0, protocol::Outcome::passed, 3, "", -1, 17}) ==
        R"({"event":"case_ended","id":"a/b[W=2]","position":0,"outcome":"passed",)"
        R"("assertions":3,"reason":"","culprit":-1,"duration_ns":17})");
  CHECK(protocol::to_line(protocol::event::Measured{"forward_ns", 0.1, "ns"}) ==
        R"({"event":"measured","name":"forward_ns","value":0.1,"unit":"ns"})");
}

TEST_CASE("a rank says where it is and which times its host's clocks have") {
  protocol::event::RankStarted started{1, 4, 4242, "node-1", "n0nce", "0.1.0", "abc123", 1};
  started.host_id = "5eed";
  started.gpu = "GPU-8a1f";
  started.interfaces = {"ib0", "eth0"};
  started.clocks = {.monotonic_ns = 5, .realtime_ns = 7};
  const std::string line = protocol::to_line(started);
  CHECK_THAT(line, ContainsSubstring(R"("host_id":"5eed","gpu":"GPU-8a1f","interfaces":["ib0","eth0"],)"
                                     R"("clocks":{"monotonic_ns":5,"realtime_ns":7}})"));
  const auto back = std::get<protocol::event::RankStarted>(protocol::parse_line(line));
  CHECK(protocol::to_line(back) == line);
  CHECK(back.clocks == started.clocks);
  const std::string wrong = line.substr(0, line.find("5,\"real")) + "-5,\"realtime_ns\":7}}";
  CHECK_THROWS_WITH(protocol::parse_line(wrong), ContainsSubstring("\"monotonic_ns\""));
}

TEST_CASE("a rank that leaves before the end of the plan says why, and only such a one") {
  CHECK(protocol::to_line(protocol::event::RankEnded{1}) == R"({"event":"rank_ended","rank":1})");
  const std::string line = protocol::to_line(protocol::event::RankEnded{1, "rank 0 cannot go on"});
  CHECK(line == R"({"event":"rank_ended","rank":1,"cut_short":"rank 0 cannot go on"})");
  CHECK(std::get<protocol::event::RankEnded>(protocol::parse_line(line)).cut_short == "rank 0 cannot go on");
  CHECK_THROWS_WITH(protocol::parse_line(R"({"event":"rank_ended","rank":1,"cut_short":2})"),
                    ContainsSubstring("\"cut_short\""));
}

TEST_CASE("integers keep all 64 bits") {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  constexpr auto latest = std::numeric_limits<std::int64_t>::max();
  const auto started = std::get<protocol::event::CaseStarted>(
      protocol::parse_line(protocol::to_line(protocol::event::CaseStarted{"a/b", most, latest})));
  CHECK(started.position == most);
  CHECK(started.monotonic_ns == latest);
}

TEST_CASE("a value that is not finite becomes null and reads as NaN") {
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()}) {
    const auto line = protocol::to_line(protocol::event::Measured{"x", value, "ns"});
    CHECK_THAT(line, ContainsSubstring("\"value\":null"));
    CHECK(std::isnan(std::get<protocol::event::Measured>(protocol::parse_line(line)).value));
  }
}

TEST_CASE("a measured double keeps its bits") {
  for (const double value : {0.1, 1e300, -1e-300, 5e-324, 123456789.123456789, 9007199254740993.0, -0.0}) {
    const double back = std::get<protocol::event::Measured>(
                            protocol::parse_line(protocol::to_line(protocol::event::Measured{"x", value, ""})))
                            .value;
    CHECK(back == value);
    CHECK(std::signbit(back) == std::signbit(value));
  }
}

TEST_CASE("a failure text that is not UTF-8 is repaired, not refused") {
  const auto line = protocol::to_line(protocol::event::AssertionFailed{
      "f.cpp", 1, "CHECK", "a == \xff\xfe", std::string("b\0c\n\xc3", 5), {"\x80"}, {}, 0});
  CHECK(line.find('\n') == std::string::npos);
  const auto back = std::get<protocol::event::AssertionFailed>(protocol::parse_line(line));
  CHECK(back.expression == "a == \xef\xbf\xbd\xef\xbf\xbd");
  CHECK(back.expansion == std::string("b\0c\n\xef\xbf\xbd", 7));
}

TEST_CASE("long texts are cut between characters and no line exceeds its limit") {
  const std::string odd = "x";
  std::string text = odd;
  while (text.size() < 3 * protocol::event::text_limit) text += "é";
  const auto cut = std::get<protocol::event::AssertionFailed>(
                       protocol::parse_line(
                           protocol::to_line(protocol::event::AssertionFailed{"f", 1, "CHECK", text, "", {}, {}, 0})))
                       .expression;
  CHECK(cut.size() < protocol::event::text_limit + 64);
  CHECK_THAT(cut, ContainsSubstring("bytes more)"));
  CHECK(cut.find("\xef\xbf\xbd") == std::string::npos);

  const std::string control(2 * protocol::event::text_limit, '\x01');
  const protocol::event::AssertionFailed worst{
      control, 1, control, control, control, std::vector<std::string>(1000, control), {"OVL-1"}, 0};
  const auto line = protocol::to_line(worst);
  CHECK(line.size() < protocol::event::line_limit);
  CHECK(std::get<protocol::event::AssertionFailed>(protocol::parse_line(line)).messages.size() ==
        protocol::event::messages_limit + 1);
}

TEST_CASE("a line that lacks any field is refused, naming the field") {
  for (const auto& event : one_of_each()) {
    const auto line = protocol::to_line(event);
    for (const auto& field : fields_of(line)) {
      CAPTURE(line, field);
      CHECK_THROWS_WITH(protocol::parse_line(without(line, field)), ContainsSubstring("\"" + field + "\" is missing"));
    }
  }
}

TEST_CASE("a field of another type is refused, naming field, expectation and finding") {
  for (const auto& event : one_of_each()) {
    const auto line = protocol::to_line(event);
    for (const auto& field : fields_of(line)) {
      auto json = nlohmann::ordered_json::parse(line);
      json[field] = nlohmann::ordered_json::object();
      CAPTURE(json.dump());
      CHECK_THROWS_WITH(protocol::parse_line(json.dump()), ContainsSubstring("\"" + field + "\"") &&
                                                               ContainsSubstring("expected") &&
                                                               ContainsSubstring("found an object"));
    }
  }
  CHECK_THROWS_WITH(protocol::parse_line(R"({"event":"case_started","id":"a","position":1.5,"monotonic_ns":0})"),
                    ContainsSubstring("found 1.5"));
  CHECK_THROWS_WITH(protocol::parse_line(R"({"event":"case_started","id":"a","position":-1,"monotonic_ns":0})"),
                    ContainsSubstring("found -1"));
  CHECK_THROWS_WITH(protocol::parse_line(R"({"event":"rank_ended","rank":4294967296})"),
                    ContainsSubstring("found 4294967296"));
}

TEST_CASE("what is no event line is refused") {
  for (const char* line : {"", "{", "null", "[]", "\"x\"", "{}", "{\"event\":1}", "{\"event\":\"case_stopped\"}",
                           "{\"event\":\"rank_ended\",\"rank\":1}x", "{\"event\":\"rank_ended\",\"rank\":1e999}",
                           "{\"event\":\"rank_ended\",\"rank\":\"\xff\"}"}) {
    CAPTURE(line);
    CHECK_THROWS_AS(protocol::parse_line(line), std::invalid_argument);
  }
}

TEST_CASE("a rank cannot claim what only a merge concludes") {
  for (const auto outcome : {protocol::Outcome::hung, protocol::Outcome::crashed, protocol::Outcome::missing}) {
    CHECK_THROWS_AS(
        protocol::parse_line(protocol::to_line(protocol::event::CaseEnded{"a/b", 0, outcome, 1, "", -1, 0})),
        std::invalid_argument);
  }
}

/// The JSON library's reading: the same line with a space in it, which no writer writes.
std::optional<std::string> read_generally(std::string line) {
  const auto brace = line.find('{');
  if (brace != std::string::npos) line.insert(brace + 1, " ");
  try {
    return protocol::to_line(protocol::parse_line(line));
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

std::optional<std::string> read_as_written(const std::string& line) {
  try {
    return protocol::to_line(protocol::parse_line(line));
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

TEST_CASE("lines in the form in which they are written mean what they mean to the JSON library") {
  const auto seed = Catch::getSeed();
  INFO("replay with --rng-seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> snippets{"0",     "1",      "-",      "01", ".",    "e",    "E+",
                                          "e-3",   "\"",     "\\",     ",",  "}",    "null", "18446744073709551616",
                                          "1e999", "1e-999", "5e-324", "é",  "\x01", " "};
  std::vector<std::string> lines;
  for (const auto& event : one_of_each()) lines.push_back(protocol::to_line(event));
  for (const double value : {0.0, -0.0, 1.5, 1e21, 1e-7, 85000000.0})
    lines.push_back(protocol::to_line(protocol::event::Measured{"m", value, "ns"}));
  std::size_t read = 0;
  for (int i = 0; i < rounds(20000); ++i) {
    auto line = lines[random() % lines.size()];
    for (auto edits = random() % 3; edits > 0; --edits) {
      const auto at = random() % line.size();
      switch (random() % 3) {
        case 0: line.insert(at, snippets[random() % snippets.size()]); break;
        case 1: line.erase(at, 1 + random() % 3); break;
        default: line.replace(at, 1, snippets[random() % snippets.size()]);
      }
      if (line.empty()) line = "{";
    }
    const auto one = read_as_written(line);
    if (one != read_generally(line))
      FAIL(line << " reads as " << one.value_or("an error") << " or as " << read_generally(line).value_or("an error"));
    read += one ? 1U : 0U;
  }
  CHECK(read > rounds(std::size_t{5000}));
  for (const char* number : {"0.1", "1e5", "1E+5", "1.25e-3", "-0.0", "-0",  "0",   "12",  "01",    "1.",
                             ".5",  "1e",  "1e+",  "+1",      "--1",  "inf", "nan", "0x1", "1e999", "-"}) {
    const auto line = std::string(R"({"event":"measured","name":"m","value":)") + number + R"(,"unit":"ns"})";
    CAPTURE(line);
    CHECK(read_as_written(line) == read_generally(line));
  }
}

TEST_CASE("fields that a newer writer adds are ignored") {
  CHECK(std::get<protocol::event::RankEnded>(
            protocol::parse_line(R"({"event":"rank_ended","rank":3,"new":[1,{"a":null}]})"))
            .rank == 3);
}

TEST_CASE("every outcome has its own word") {
  for (int i = 0; i < 8; ++i)
    CHECK(protocol::outcome_from_string(protocol::to_string(static_cast<protocol::Outcome>(i))) ==
          static_cast<protocol::Outcome>(i));
  CHECK_FALSE(protocol::outcome_from_string("Passed").has_value());
}

}  // namespace
}  // namespace shardproof
