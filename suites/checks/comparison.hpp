// What a run computed against what one process computes for all ranks, without shards, streams or collectives.
#pragma once

#include <cstdint>

#include "fixtures/oracles/serial_model.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::suites {

/// How far values may be from what one process computes; 0 asks for the same bits.
struct Tolerance {
  double loss = 0, gradient = 0, parameter = 0;
};

/// Fails unless every engine computes the same bits for the scenario, on every processor: its sums round nowhere, so that their order does
/// not matter. For cases that compare bits by themselves; the functions below call it where they compare bits.
void require_exact_sums(const scenario::Scenario& scenario, int world);

/// Two steps on small integers are exact where the mean divides by a power of two.
Tolerance exact_unless_thirds(Rank& rank);

enum class Moves : std::uint8_t {
  every_parameter,  ///< in every step that is captured
  some_parameter,   ///< frozen ones, and those whose gradients still wait, may stay
};

/// Compares what every rank holds at every capture: loss, gradients, parameters, both tensors of pairs; that shards are dealt as the
/// plan says; and that steps move what they should.
void check_training(Rank& rank, const scenario::Run& run, oracles::Arithmetic arithmetic, const Tolerance& tolerance,
                    Moves moves = Moves::every_parameter);

/// Fails unless two runs have the same parameters and gradients at every capture, bit by bit. Losses may differ as sums in another order.
void check_same_training(Rank& rank, const scenario::Run& run, const scenario::Run& other);

/// Of a run of `two_iterations`: its values are right, it is sound, and neither iteration leaves anything.
void check_two_iterations(Rank& rank, const scenario::Run& run);

}  // namespace shardproof::suites
