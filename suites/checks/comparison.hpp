// Compares a run's values with the serial model, where one process computes for all ranks, without shards, streams or
// collectives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fixtures/oracles/serial_model.hpp"
#include "harness/player/run.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::suites {

/// The part of a whole parameter, or of its whole gradient, that the rank holds.
Tensor part(const Tensor& whole, const CapturedParameter& held);

/// The same values in another dtype, each rounded once, on the host. Undefined for undefined values.
Tensor in_dtype(DType dtype, const Tensor& values);

/// The treatment of zeros in a comparison of bits.
enum class Zeros : std::uint8_t {
  have_signs,
  are_equal,  ///< 0 and -0 are the same value
};

/// The largest allowed difference from the values of the serial model; 0 requires the same bits.
struct Tolerance {
  double loss = 0, gradient = 0, parameter = 0;
  std::size_t exact = 0;  ///< the number of first captures that are compared by their bits all the same
  Zeros zeros = Zeros::have_signs;
};

/// Engines do not guarantee the sign of a zero. The sign depends on a kernel's first summand: 0 + -0 is 0, and a sum of
/// -0 alone is -0.
inline constexpr Tolerance equal_values{.zeros = Zeros::are_equal};

/// Fails unless every engine computes the same bits for the scenario, on every processor: its sums must not round, so
/// that their order does not matter. For cases that compare bits themselves. The functions below call it when they
/// compare bits.
void require_exact_sums(const Scenario& scenario, int world);

/// Whether a mean over all ranks rounds: their number is not a power of two.
bool mean_rounds(Rank& rank);

/// For three steps of two layers on small integers, which are exact unless the mean rounds. If the mean rounds, only
/// the first step is exact: it is a sum of integers, divided once.
Tolerance exact_unless_mean_rounds(Rank& rank);
/// For models with more layers, whose first step alone is exact.
inline constexpr Tolerance exact_at_first{.loss = 1e-2, .gradient = 1e-2, .parameter = 1e-3, .exact = 1};

enum class Moves : std::uint8_t {
  every_parameter,  ///< in every step that is captured
  some_parameter,  ///< frozen parameters, and parameters whose gradients still wait, may stay
};

/// Compares every rank's values at every capture: loss, gradients, parameters, both tensors of pairs. Checks that
/// parameters are sharded as the plan says, and that steps move the right parameters.
void check_training(Rank& rank, const Run& run, oracles::Arithmetic arithmetic, const Tolerance& tolerance,
                    Moves moves = Moves::every_parameter);
/// The same for a caller that has trained the run's scenario serially, and knows that rounding alone stays far below
/// the tolerance.
void check_training(Rank& rank, const Run& run, oracles::Arithmetic arithmetic,
                    const std::vector<oracles::SerialIteration>& expected, const Tolerance& tolerance, Moves moves);

/// Fails unless two runs have the same parameters and gradients at every capture, bit by bit. Losses may differ like
/// sums in another order.
void check_same_training(Rank& rank, const Run& run, const Run& other);

/// Fails unless a run of `three_iterations` has right values, is sound, and leaves no memory after any iteration.
void check_three_iterations(Rank& rank, const Run& run);

}  // namespace shardproof::suites
