// Cases that play random scenarios. Each scenario combines features, and one function judges all of them. A suite says what its scenarios
// are about. A case draws by its parameters `generator` and `seed`, for its kind of engine and its world size: the draw depends on nothing
// else.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "fixtures/oracles/serial_model.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "harness/shardproof.hpp"
#include "suites/checks/comparison.hpp"

namespace shardproof::suites {

/// The parameter `generator` of each case. A change of what seeds draw is a new version, whose cases are new cases.
inline constexpr int generator_version = 2;

/// Says which scenarios a suite wants.
struct Subjects {
  std::string_view kind;  ///< of the engine
  std::vector<scenario::Trait> without;  ///< features and ingredients that no scenario has
  /// Some scenario has each pair of traits, one of which is one of these. Empty: each pair.
  std::vector<scenario::Trait> about;
  /// Empty: each scenario is wanted.
  std::function<bool(const scenario::Scenario&)> is_wanted;
};

/// A scenario, and what judges its values.
struct Drawn {
  scenario::Scenario scenario;
  std::vector<oracles::SerialIteration> expected;  ///< by the serial model in f32, by capture
  Tolerance tolerance;  ///< how far values may be from `expected`
};

/// The traits that the scenario of the case has, at least. Over the seeds from 1 on, and the worlds of 2, 3 and 4 ranks, they are together
/// in pairs as `about` says: a dozen seeds have all pairs.
std::vector<scenario::Trait> wanted_traits(const Subjects& subjects, std::uint64_t seed, int world);

/// Draws until a scenario is wanted, has the traits of the case, and has captures that the serial model can judge: some parameter moves, and
/// some gradient is not zero. Throws std::logic_error if there is no such scenario.
Drawn drawn(const Subjects& subjects, std::uint64_t seed, int world);

/// Draws the scenario of the case and plays it. Checks values, races, the order and the number of collectives, memory, and that no rank
/// refuses it. Skips the case if the subject does not claim a feature of the scenario. The run is for checks of the suite's own.
scenario::Run check_generated(Rank& rank, const Subjects& subjects);

}  // namespace shardproof::suites
