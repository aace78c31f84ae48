// Streams that are no evidence, or not all of it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>

#include "tests/reports/merged.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;
using How = protocol::Ending::How;

TEST_CASE("a stream that is not of this rank, world or program is no evidence") {
  auto world = three_cases();
  auto start = started(1, 2);
  const char* sentence = nullptr;
  SECTION("nonce") {
    start.nonce = "other";
    sentence = "another world (nonce \"other\", not \"nonce-1\")";
  }
  SECTION("rank") {
    start.rank = 0;
    sentence = "has the stream of rank 0";
  }
  SECTION("world size") {
    start.world_size = 4;
    sentence = "a world of 4 ranks, not 2";
  }
  SECTION("protocol") {
    start.protocol = 3;
    sentence = "of protocol 3";
  }
  SECTION("build") {
    start.build = "build-b";
    sentence = "ran suite 0.1.0, build build-b; rank 0 ran suite 0.1.0, build build-a";
  }
  SECTION("suite version") {
    start.suite_version = "0.2.0";
    sentence = "ran suite 0.2.0, build build-a; rank 0";
  }
  world.of(1).lines[0] = protocol::to_line(start);
  if (start.rank != 1) world.of(1).lines.pop_back();  // else the stream contradicts itself
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"disagreed", "disagreed", "disagreed"});
  REQUIRE(report.worlds.at(0).defects.size() == 1);
  CHECK_THAT(report.worlds.at(0).defects[0], ContainsSubstring(std::string("rank 1 ")) && ContainsSubstring(sentence));
  CHECK(report.cases.at(0).notes == std::vector<std::string>{"no evidence from rank 1"});
  CHECK(exit_code(report) == 5);
}

TEST_CASE("a missing, empty or headless stream is no evidence") {
  auto world = three_cases();
  SECTION("empty") { world.clear(1); }
  SECTION("headless") { world.of(1).lines.erase(world.of(1).lines.begin()); }
  SECTION("garbage") {
    world.of(1).lines[0] =
        "\x7f"
        "ELF";
  }
  auto report = world.merged();
  CHECK(verdicts(report) == Words{"disagreed", "disagreed", "disagreed"});
  CHECK(report.worlds.at(0).defects.size() == 1);
  CHECK(exit_code(report) == 5);

  auto record = world.record();
  record.streams.pop_back();
  report = merge({}, std::span(&record, 1));
  CHECK(verdicts(report) == Words{"disagreed", "disagreed", "disagreed"});
}

TEST_CASE("a corrupt line ends a rank's evidence there") {
  auto world = three_cases();
  world.of(1).lines[5] = "{\"event\":\"measured\"}";  // inside the second case
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "disagreed", "disagreed"});
  REQUIRE(report.worlds.at(0).defects.size() == 1);
  CHECK_THAT(report.worlds.at(0).defects[0], ContainsSubstring("rank 1 has a corrupt stream: line 6, byte"));
  CHECK(report.cases.at(1).reasons.at(1) == "its stream stops inside this case");
}

TEST_CASE("a corrupt stream does not say where a rank died, its launcher does") {
  auto world = three_cases();
  world.of(1).lines[5] = "{}";
  world.ending(1) = {1, How::signalled, SIGKILL, 2, ""};
  CHECK(verdicts(world.merged()) == Words{"passed", "disagreed", "crashed"});
}

TEST_CASE("a line cut off before code 0 is a full disk, not a crash") {
  auto world = three_cases();
  auto record = world.record();
  auto text = world.of(1).text();
  record.streams[1] = parse(text.substr(0, text.find("case_ended", text.find("a/three"))));
  const auto report = merge({}, std::span(&record, 1));
  CHECK(verdicts(report) == Words{"passed", "disagreed", "disagreed"});
  CHECK_THAT(report.worlds.at(0).defects.at(0), ContainsSubstring("its stream has no end"));
}

TEST_CASE("a stream without an end is missing evidence even after code 0") {
  auto world = three_cases();
  world.of(0).lines.pop_back();
  const auto report = world.merged();
  CHECK(verdicts(report) == Words{"passed", "passed", "passed"});
  CHECK_THAT(report.worlds.at(0).defects.at(0),
             ContainsSubstring("rank 0 exited with code 0, but its stream has no end"));
  CHECK(exit_code(report) == 5);
}

}  // namespace
}  // namespace shardproof::reports
