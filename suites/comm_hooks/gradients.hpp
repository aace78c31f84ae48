// Expected gradients, by parameter, and the comparison with what a rank holds.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/scenario/run.hpp"
#include "suites/comm_hooks/scenarios.hpp"

namespace shardproof::comm_hooks {

/// Computes one element of a gradient from the same element of each rank's own gradient.
using Combine = std::function<double(std::span<const double> by_rank)>;

/// The two steps in which gradients in f16 are divided by the number of ranks. Source: PyTorch's DefaultState.
struct Division {
  double before = 1, after = 1;
};
Division division(int ranks);

double mean(std::span<const double> by_rank);
double sum(std::span<const double> by_rank);

/// Checks the gradients that this rank has in each capture: each element, bit by bit, and the dtype f32. Checks that the ranks' own gradients
/// differ from the result, so that an engine that reduces nothing fails.
void check_gradients(Rank& rank, const scenario::Run& run, const Combine& combine);
/// The same for the parameters at or under a path.
void check_gradients(Rank& rank, const scenario::Run& run, const Combine& combine, const std::string& path);

/// The calls of hooks in one iteration of training, from 0. The registrations come in an iteration before.
std::vector<const scenario::Callback*> hook_calls(const scenario::Run& run, int iteration);
/// The state that the engine passed.
std::uint64_t state_of(const scenario::Callback& call);

/// Checks that no streams race, that all ranks keep one order, and that no iteration of training leaves memory. The registrations, or other
/// calls, come in an iteration before.
void check_sound_iterations(Rank& rank, const scenario::Run& run);

/// All ranks' parts of all parameters are there: as many elements in all as the plan says.
void check_all_elements(Rank& rank, const scenario::Run& run);

}  // namespace shardproof::comm_hooks
