// What a program of ranked cases answers to a launcher that explores: scenarios that it makes, and such as are smaller than one. A launcher
// knows nothing of documents.
#pragma once

#include <filesystem>

#include "harness/cases/command_line.hpp"

namespace shardproof {

/// To standard output a line for every seed: `{"seed", "ranks", "scenario"}`. Throws std::invalid_argument for names of features or
/// ingredients that there are not.
void make_scenarios(const ScenariosAsked& asked);

/// A line for every variant, the smallest first: `{"ranks", "scenario"}`. Throws as `read_scenario`.
void shrink_scenario(const std::filesystem::path& document, int ranks);

}  // namespace shardproof
