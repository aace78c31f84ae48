// Embeddings with positions, layer norm, attention, a head that shares the embedding's weight, cross entropy.
#include "harness/player/play.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

// Training of three steps of 0.1 on values of about one, in single precision.
constexpr Tolerance of_f32_training{.loss = 1e-5, .gradient = 1e-5, .parameter = 1e-5};

}  // namespace

RANKED_TEST_CASE("overlap/language_model", clauses("OVL-4", "OVL-5", "OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-16"),
                 ranks(1, 2, 3, 4), each("wrap", "root", "blocks"),
                 needs(Feature::timeline, Feature::language_model, Feature::shared_parameters)) {
  const Run run = play(rank, language_model(rank.param("wrap") == "blocks"));
  check_training(rank, run, oracles::Arithmetic::f64, of_f32_training);
  check_sound(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) check_nothing_is_left(rank, run, iteration.index());
}

}  // namespace shardproof::overlap
