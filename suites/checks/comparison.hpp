// What a run computed against what one process computes for all ranks, without shards, streams or collectives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fixtures/oracles/serial_model.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::suites {

/// The part of a whole tensor that the rank holds: of a parameter, or of its gradient.
Tensor part(const Tensor& whole, const scenario::CapturedParameter& held);

/// The same values in another dtype, each rounded once; on the host. Undefined, if that is what they are.
Tensor in_dtype(DType dtype, const Tensor& values);

/// Where bits are compared.
enum class Zeros : std::uint8_t {
  have_signs,
  are_equal,  ///< 0 and -0 are the same value
};

/// How far values may be from what one process computes; 0 asks for the same bits.
struct Tolerance {
  double loss = 0, gradient = 0, parameter = 0;
  std::size_t exact = 0;  ///< the first captures, this many, are compared by their bits all the same
  Zeros zeros = Zeros::have_signs;
};

/// No engine promises the sign of a zero. It depends on how a kernel begins a sum: 0 + -0 is 0, and a sum of -0 alone is -0.
inline constexpr Tolerance equal_values{.zeros = Zeros::are_equal};

/// Fails unless every engine computes the same bits for the scenario, on every processor: its sums do not round, so their order does not
/// matter. For cases that compare bits themselves. The functions below call it where they compare bits.
void require_exact_sums(const scenario::Scenario& scenario, int world);

/// Whether a mean over all ranks rounds: their number is not a power of two.
bool mean_rounds(Rank& rank);

/// Three steps of two layers on small integers are exact unless the mean rounds. Then only the first step is: a sum of integers, divided once.
Tolerance exact_unless_mean_rounds(Rank& rank);
/// For models of more layers, where only the first step is exact.
inline constexpr Tolerance exact_at_first{.loss = 1e-2, .gradient = 1e-2, .parameter = 1e-3, .exact = 1};

enum class Moves : std::uint8_t {
  every_parameter,  ///< in every step that is captured
  some_parameter,  ///< frozen ones, and those whose gradients still wait, may stay
};

/// Compares what every rank holds at every capture: loss, gradients, parameters, both tensors of pairs; that parameters are sharded as the
/// plan says; and that steps move what they should.
void check_training(Rank& rank, const scenario::Run& run, oracles::Arithmetic arithmetic, const Tolerance& tolerance,
                    Moves moves = Moves::every_parameter);
/// The same where the caller has trained the run's scenario serially, and knows that rounding alone stays far below the tolerance.
void check_training(Rank& rank, const scenario::Run& run, oracles::Arithmetic arithmetic,
                    const std::vector<oracles::SerialIteration>& expected, const Tolerance& tolerance, Moves moves);

/// Fails unless two runs have the same parameters and gradients at every capture, bit by bit. Losses may differ as sums in another order.
void check_same_training(Rank& rank, const scenario::Run& run, const scenario::Run& other);

/// Fails unless a run of `three_iterations` has right values, is sound, and leaves nothing after any iteration.
void check_three_iterations(Rank& rank, const scenario::Run& run);

}  // namespace shardproof::suites
