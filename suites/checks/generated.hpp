// Cases that play random scenarios. Each scenario combines features, and one function judges all of them. A suite
// chooses the features of its scenarios. A draw depends only on the case's parameters `generator` and `seed`, its kind
// of engine and its world size.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "fixtures/oracles/serial_model.hpp"
#include "harness/player/run.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "harness/shardproof.hpp"
#include "suites/checks/comparison.hpp"

namespace shardproof::suites {

/// The parameter `generator` of each case. If seeds draw other scenarios, this is a new version, and its cases are new
/// cases.
inline constexpr int generator_version = 2;

/// The scenarios that a suite wants.
struct Subjects {
  std::string_view kind;  ///< the kind of the engine
  std::vector<scenario::Trait> without;  ///< features and ingredients that no scenario has
  /// For each pair of traits that contains one of these, some scenario has the pair. Empty: for each pair.
  std::vector<scenario::Trait> about;
  /// Empty: each scenario is wanted.
  std::function<bool(const Scenario&)> is_wanted;
};

/// A scenario, with the expected values and their tolerance.
struct Drawn {
  Scenario scenario;
  std::vector<oracles::SerialIteration> expected;  ///< the results of the serial model in f32, by capture
  Tolerance tolerance;  ///< the allowed difference from `expected`
};

/// The traits that the scenario of the case must have. Over the seeds from 1 on, and the worlds of 2, 3 and 4 ranks,
/// they form all pairs that `about` requires. A dozen seeds have all pairs.
std::vector<scenario::Trait> wanted_traits(const Subjects& subjects, std::uint64_t seed, int world);

/// Draws until a scenario is wanted, has the traits of the case, and has captures that the serial model can judge. In
/// these captures, some parameter moves, and some gradient is not zero. Throws std::logic_error if no such scenario
/// exists.
Drawn drawn(const Subjects& subjects, std::uint64_t seed, int world);

/// Draws the scenario of the case and plays it. Checks values, races, the order and the number of collectives, memory,
/// and that no rank refuses it. Skips the case if the subject does not claim a feature of the scenario. Returns the run
/// for the suite's own checks.
Run check_generated(Rank& rank, const Subjects& subjects);

}  // namespace shardproof::suites
