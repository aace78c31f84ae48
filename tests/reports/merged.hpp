// Worlds of three cases, and the report of their merge.
#pragma once

#include <string>
#include <vector>

#include "tests/reports/streams.hpp"

namespace shardproof::reports::testing {

inline std::vector<std::string> verdicts(const Report& report) {
  std::vector<std::string> words;
  for (const auto& result : report.cases) words.emplace_back(to_string(result.verdict));
  return words;
}

using Words = std::vector<std::string>;

inline WorldOnPaper three_cases() { return {2, {"a/one", "a/three", "a/two"}}; }

/// Rank 1 stops in the middle of the second case, rank 0 is released from it and leaves.
inline WorldOnPaper died_in_the_second(const protocol::Ending& ending) {
  auto world = three_cases();
  world.begin(1);
  world.pass(1, 0);
  world.start(1, 1);
  world.ending(1) = ending;
  world.begin(0);
  world.pass(0, 0);
  world.start(0, 1);
  world.end(0, 1, protocol::Outcome::released, "rank 1 died", 1);
  world.finish(0);
  return world;
}

}  // namespace shardproof::reports::testing
