#include <catch2/catch_test_macros.hpp>

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "harness/world/event_stream.hpp"

using namespace shardproof;

TEST_CASE("A stream is there line by line, before it is closed, and belongs to one rank of one world") {
  std::string name = (std::filesystem::temp_directory_path() / "shardproof-stream-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  const auto file = std::filesystem::path(name) / "ranks" / "rank-0.jsonl";
  {
    world::EventStream stream(file);
    stream.write(protocol::event::Measured{.name = "a", .value = 1, .unit = "ns"});
    stream.write(protocol::event::RankEnded{.rank = 3});
    std::ifstream in(file);
    std::string first, second, third;
    REQUIRE(std::getline(in, first));
    REQUIRE(std::getline(in, second));
    CHECK_FALSE(std::getline(in, third));
    CHECK(std::get<protocol::event::Measured>(protocol::parse_line(first)).name == "a");
    CHECK(std::get<protocol::event::RankEnded>(protocol::parse_line(second)).rank == 3);
  }
  CHECK_THROWS_AS(world::EventStream(file), std::system_error);
  std::filesystem::remove_all(name);
}
