// The gradients that a rank computes by itself before any reduction, and checks of their reduction.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/player/run.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/world/rank.hpp"

namespace shardproof::suites {

/// The gradient of one parameter.
struct NamedGradient {
  std::string name;
  std::vector<double> values;
};

/// The gradients of one rank in one iteration: one process plays the rank's batch alone, with the initial parameters.
/// Iterations count over the whole script, from 0.
std::vector<NamedGradient> own_gradients(const Scenario& scenario, int rank_index, int iteration);

/// Computes one element of a gradient from the same element of each rank's own gradient.
using Combine = std::function<double(std::span<const double> by_rank)>;
double mean(std::span<const double> by_rank);
double sum(std::span<const double> by_rank);

/// Checks the gradients of this rank in each capture, of parameters at or under a path: each element, bit by bit, and
/// the dtype. Checks that the ranks' own gradients differ from the result, so that an engine that reduces nothing
/// fails. The script must not move parameters, and must have one backward before each capture of an iteration.
void check_gradients(Rank& rank, const Run& run, const Combine& combine, const std::string& path = "");

}  // namespace shardproof::suites
