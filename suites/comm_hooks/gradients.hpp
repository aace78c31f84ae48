// Expected gradients by parameter, and their comparison with a rank's gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/player/run.hpp"
#include "suites/comm_hooks/scenarios.hpp"

namespace shardproof::comm_hooks {

using suites::Combine;
using suites::mean;
using suites::sum;

/// The two divisors by which gradients in f16 are divided by the number of ranks. Source: PyTorch's DefaultState.
struct Division {
  double before = 1, after = 1;
};
Division division(int ranks);

/// Checks the gradients in the captures of all iterations of training, of parameters at or under a path.
void check_gradients(Rank& rank, const Run& run, const Combine& combine, const std::string& path = "");

/// The calls of hooks in one iteration of training, from 0. The registrations are in an earlier iteration.
std::vector<const Callback*> hook_calls(const Run& run, int iteration);
/// The state that the engine passed to the hook.
std::uint64_t state_of(const Callback& call);

/// Checks that no streams race, that all ranks keep one order, and that no iteration of training leaves memory. The
/// registrations, or other calls, must be in an earlier iteration.
void check_sound_iterations(Rank& rank, const Run& run);

/// Checks that the ranks' parts of all parameters have the number of elements that the plan says.
void check_all_elements(Rank& rank, const Run& run);

}  // namespace shardproof::comm_hooks
