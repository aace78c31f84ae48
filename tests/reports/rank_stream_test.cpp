#include "reports/merge/rank_stream.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <limits>
#include <sstream>

#include "tests/reports/streams.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace testing;

const std::string& whole() {
  static const std::string text = [] {
    WorldOnPaper world(2, {"a/one", "a/two"});
    world.begin(1);
    world.start(1, 0);
    world.of(1).add(check_failed("x == y", "1 == 2", 5)).add(protocol::event::Measured{"n", 3, ""});
    world.end(1, 0, protocol::Outcome::failed);
    world.pass(1, 1);
    world.finish(1);
    return world.of(1).text();
  }();
  return text;
}

TEST_CASE("a whole stream is read in order") {
  const auto stream = parse(whole());
  CHECK(stream.defect.empty());
  CHECK_FALSE(stream.truncated);
  CHECK_FALSE(stream.absent);
  CHECK(stream.complete);
  REQUIRE(stream.start.has_value());
  CHECK(stream.start->rank == 1);
  REQUIRE(stream.cases.size() == 2);
  CHECK(stream.cases[0].started.id == "a/one[W=2]");
  REQUIRE(stream.cases[0].failures.size() == 1);
  CHECK(stream.cases[0].failures[0].expansion == "1 == 2");
  CHECK(stream.cases[0].measurements.size() == 1);
  CHECK(stream.cases[0].ended->outcome == protocol::Outcome::failed);
  CHECK(stream.cases[1].ended->outcome == protocol::Outcome::passed);
}

TEST_CASE("wherever a stream is cut, its earlier part remains and no unfinished case ends") {
  std::size_t line_starts = 0;
  const auto all = parse(whole());
  for (std::size_t length = 0; length < whole().size(); ++length) {
    const auto cut = parse(whole().substr(0, length));
    CAPTURE(length);
    const bool at_line_end = length == 0 || whole()[length - 1] == '\n';
    line_starts += at_line_end ? 1U : 0U;
    REQUIRE(cut.defect.empty());
    REQUIRE(cut.truncated == !at_line_end);
    REQUIRE(cut.absent == (length == 0));
    REQUIRE_FALSE(cut.complete);
    for (std::size_t i = 0; i < cut.cases.size(); ++i) {
      REQUIRE(cut.cases[i].started.id == all.cases[i].started.id);
      if (i + 1 < cut.cases.size()) REQUIRE(cut.cases[i].ended.has_value());
    }
  }
  CHECK(line_starts == 9);
}

TEST_CASE("the reader stops at the first corrupt line, gives its place, and keeps the lines before it") {
  const auto first_end = whole().find("case_ended");
  const auto begin = whole().rfind('\n', first_end) + 1;
  auto text = whole();
  text.replace(begin, 1, "x");
  const auto stream = parse(text);
  CHECK_THAT(stream.defect, StartsWith("line 5, byte " + std::to_string(begin) + ": event line: invalid JSON"));
  REQUIRE(stream.cases.size() == 1);
  CHECK_FALSE(stream.cases[0].ended.has_value());
  CHECK(stream.cases[0].failures.size() == 1);
  CHECK_FALSE(stream.complete);
}

TEST_CASE("events in a wrong place are corruption") {
  const protocol::event::RankStarted start = started(0, 1);
  const protocol::event::CaseStarted one{"a/b", 0, 1}, two{"a/c", 1, 2};
  const protocol::event::CaseEnded one_ended{"a/b", 0, protocol::Outcome::passed, 1, "", -1, 1},
      elsewhere{"a/b", 1, protocol::Outcome::passed, 1, "", -1, 1},
      two_ended{"a/c", 1, protocol::Outcome::passed, 1, "", -1, 1};
  const protocol::event::AssertionFailed failure = check_failed("x", "y", 1);
  const protocol::event::Measured measured{"m", 1, ""};
  const protocol::event::RankEnded end{0};
  const struct {
    const char* what;
    std::vector<protocol::RankEvent> events;
  } wrong[] = {
      {"the first line must be rank_started", {one}},
      {"the first line must be rank_started", {end}},
      {"a second rank_started", {start, start}},
      {"a second rank_started", {start, one, start}},
      {"\"a/c\" starts before \"a/b\" has ended", {start, one, two}},
      {"assertion_failed outside a case", {start, failure}},
      {"measured outside a case", {start, one, one_ended, measured}},
      {"case_ended outside a case", {start, one_ended}},
      {"case_ended outside a case", {start, one, one_ended, one_ended}},
      {"\"a/b\" at position 1 ends inside \"a/b\" at position 0", {start, one, elsewhere}},
      {"ends inside \"a/b\" at position 0", {start, one, two_ended}},
      {"rank_ended inside \"a/b\"", {start, one, end}},
      {"rank 3 ends the stream of rank 0", {start, protocol::event::RankEnded{3}}},
      {"a line after rank_ended", {start, end, end}},
      {"a line after rank_ended", {start, end, one}},
  };
  for (const auto& [what, events] : wrong) {
    Lines lines;
    for (const auto& event : events) lines.add(event);
    CAPTURE(what);
    const auto stream = parse(lines.text());
    CHECK_THAT(stream.defect, ContainsSubstring(what));
    CHECK_THAT(stream.defect, StartsWith("line " + std::to_string(events.size()) + ","));
  }
}

TEST_CASE("an empty line and bytes that are no text are corruption") {
  CHECK_THAT(parse("\n").defect, StartsWith("line 1, byte 0:"));
  CHECK_THAT(parse(whole() + "\n").defect, ContainsSubstring("line 10"));
  CHECK_THAT(parse(std::string(100, '\0') + "\n").defect, StartsWith("line 1, byte 0:"));
  CHECK_THAT(parse("\xff\xfe\n").defect, StartsWith("line 1, byte 0:"));
}

TEST_CASE("memory is bounded whatever a stream holds") {
  Lines lines;
  lines.add(started(0, 1)).add(protocol::event::CaseStarted{"a/b", 0, 1});
  for (int i = 0; i < 50; ++i) lines.add(check_failed("expression " + std::to_string(i), "", i));
  for (int i = 0; i < 5; ++i) lines.add(protocol::event::Measured{"m" + std::to_string(i), 1, ""});
  lines.add(protocol::event::CaseEnded{"a/b", 0, protocol::Outcome::failed, 50, "", -1, 1});
  const auto text = lines.text();
  const auto read = [&](const StreamLimits& limits) {
    std::istringstream in(text);
    return read_rank_stream(in, limits);
  };
  SECTION("failures beyond a number are counted") {
    const auto stream = read({.failures_per_case = 10});
    REQUIRE(stream.cases.size() == 1);
    CHECK(stream.cases[0].failures.size() == 10);
    CHECK(stream.cases[0].failures[9].expression == "expression 9");
    CHECK(stream.cases[0].failures_left_out == 40);
    CHECK(stream.cases[0].ended.has_value());
  }
  SECTION("failures beyond a size are counted") {
    const auto stream = read({.failure_bytes = 1000});
    CHECK(stream.cases[0].failures.size() < 10);
    CHECK(stream.cases[0].failures.size() + stream.cases[0].failures_left_out == 50);
    CHECK(stream.defect.empty());
  }
  SECTION("too many cases or measurements are corruption") {
    CHECK_THAT(read({.cases = 0}).defect, ContainsSubstring("more than 0 cases"));
    CHECK_THAT(read({.measurements_per_case = 4}).defect, ContainsSubstring("more than 4 measurements"));
    CHECK_THAT(read({.other_bytes = 300}).defect, ContainsSubstring("more than 300 bytes"));
  }
}

TEST_CASE("a line without end is not held in memory") {
  Lines lines;
  lines.add(started(0, 1));
  CHECK_THAT(parse(lines.text() + std::string(2 * protocol::event::line_limit, ' ')).defect,
             StartsWith("line 2, byte " + std::to_string(lines.text().size()) + ": longer than"));
}

TEST_CASE("lines across the reader's chunks are whole") {
  Lines lines;
  lines.add(started(0, 1)).add(protocol::event::CaseStarted{"a/b", 0, 1});
  for (int i = 0; i < 90; ++i)
    lines.add(check_failed(std::string(static_cast<std::size_t>(i) * 180, 'x'), std::to_string(i), i));
  lines.add(protocol::event::CaseEnded{"a/b", 0, protocol::Outcome::failed, 90, "", -1, 1})
      .add(protocol::event::RankEnded{0});
  REQUIRE(lines.text().size() > 512 * 1024);
  const auto stream = parse(lines.text());
  CHECK(stream.defect.empty());
  CHECK(stream.complete);
  REQUIRE(stream.cases[0].failures.size() == 90);
  for (std::size_t i = 0; i < 90; ++i) {
    REQUIRE(stream.cases[0].failures[i].expression.size() == i * 180);
    REQUIRE(stream.cases[0].failures[i].expansion == std::to_string(i));
  }
}

TEST_CASE("a file that cannot be read is a stream with that defect") {
  const auto missing = read_rank_stream(std::filesystem::path("tests/reports/no-such-directory/rank-0.jsonl"));
  CHECK(missing.absent);
  CHECK(missing.defect == "cannot open rank-0.jsonl: No such file or directory");
  const auto directory = read_rank_stream(std::filesystem::temp_directory_path());
  CHECK_FALSE(directory.absent);
  CHECK_FALSE(directory.defect.empty());
}

}  // namespace
}  // namespace shardproof::reports
