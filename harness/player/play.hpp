// Plays scenarios from bodies of cases: `const Run run = play(rank, scenario);`. The program must have a
// PlayService on each rank, which `play_main` adds.
//
// The room `player` plays scenarios on a subject, and keeps what happened as a `Run`. Verdicts may not enter: suites
// judge.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "harness/device/platform.hpp"
#include "harness/player/holding.hpp"
#include "harness/player/run.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/world/rank.hpp"

namespace shardproof {

// All throw std::logic_error if the program plays no scenarios.

/// Plays the scenario on the subject under test. If the subject leaves memory allocated, the case fails at its end.
Run play(Rank& rank, const Scenario& scenario);
/// Plays it, and once more for each hold. In each of these plays, one piece is held back, to see whether another piece
/// passes it. Throws std::out_of_range with the name of a piece that is not in the scenario.
player::HeldRun play(Rank& rank, const Scenario& scenario, const std::vector<player::Hold>& holds);

/// A fresh device with the world's collectives, of the kind that this run asked for: simulated, or this rank's GPU.
/// Collective over the world. Skips the case if the device cannot run scenarios with these costs and options.
std::unique_ptr<Platform> make_platform(Rank& rank, const CostModel& costs = {}, const DeviceOptions& options = {});

/// The document that the case must play instead of a drawn scenario. Empty: the case draws.
std::filesystem::path given_scenario(const Rank& rank);

}  // namespace shardproof
