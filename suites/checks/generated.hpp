// Cases that play random scenarios. Each scenario combines features, and one function judges all of them. A suite says what its scenarios
// are about. A case draws by its parameters `generator` and `seed`, for its kind of engine and its world size: the draw depends on nothing
// else.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "harness/shardproof.hpp"
#include "suites/checks/comparison.hpp"

namespace shardproof::suites {

/// The parameter `generator` of each case. A change of what seeds draw is a new version, whose cases are new cases.
inline constexpr int generator_version = 1;

/// Says which scenarios a suite wants.
struct Subjects {
  std::string_view kind;         ///< of the engine
  std::vector<Feature> without;  ///< features that no scenario has
  /// For the case with this seed.
  std::function<bool(const scenario::Scenario&, std::uint64_t seed)> is_wanted;
};

/// A scenario, and how far values may be from the serial model.
struct Drawn {
  scenario::Scenario scenario;
  Tolerance tolerance;
};

/// Draws until a scenario is wanted, combines three features or more, and has captures that the serial model can judge: some parameter
/// moves, and some gradient is not zero. The collectives of scenarios with odd seeds can be counted. Throws std::logic_error if there is
/// no such scenario.
Drawn drawn(const Subjects& subjects, std::uint64_t seed, int world);

/// Draws the scenario of the case and plays it. Checks values, races, the order and the number of collectives, memory, and that no rank
/// refuses it. Skips the case if the subject does not claim a feature of the scenario. The run is for checks of the suite's own.
scenario::Run check_generated(Rank& rank, const Subjects& subjects);

}  // namespace shardproof::suites
