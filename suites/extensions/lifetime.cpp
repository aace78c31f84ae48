// The memory of gathers by hooks is released again, and padding is zero in every collective.
#include <algorithm>

#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/trace/memory.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/extensions/hooks.hpp"
#include "suites/extensions/scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

namespace {

void check_nothing_whole(const Run& run, int iteration, ActionKind call) {
  for (const MemoryClass memory : {MemoryClass::gathered, MemoryClass::parameter}) {
    CAPTURE(to_string(memory), iteration, to_string(call));
    CHECK(trace::at(run.trace(), memory, mark(iteration, call, true)).buffers == 0);
  }
}

// Checks an operand of a group with one parameter. The operand of an all-gather has one rank's rows, and the operand of
// a reduction has the rows of all ranks. The rows of a rank with fewer rows end with padding. Returns the number of
// zeros in the padding.
std::int64_t check_operand(const Operand& operand, const Shape& whole, int rank) {
  const auto ranks = static_cast<std::int64_t>(operand.group.size());
  const std::int64_t padded = (whole[0] + ranks - 1) / ranks, row = numel(whole) / whole[0];
  const bool is_gather = operand.kind == CollectiveKind::all_gather;
  REQUIRE(operand.in.numel() == (is_gather ? padded : ranks * padded) * row);
  const std::vector<double> values = operand.in.to_doubles();
  std::int64_t zeros = 0;
  for (std::int64_t r = 0; r < (is_gather ? 1 : ranks); ++r) {
    const std::int64_t place = is_gather ? std::ranges::find(operand.group, rank) - operand.group.begin() : r;
    for (std::int64_t i = std::clamp<std::int64_t>(whole[0] - place * padded, 0, padded) * row; i < padded * row;
         ++i, ++zeros) {
      CHECK(values[static_cast<std::size_t>(r * padded * row + i)] == 0);
    }
  }
  return zeros;
}

}  // namespace

RANKED_TEST_CASE("extensions/resharded", clauses("EXT-9"), ranks(1, 2, 3, 4),
                 each("kind", "two_tensor", "low_precision"),
                 needs(Feature::timeline, Feature::all_gather_extensions)) {
  // A whole pair has its own memory. So has a parameter that is gathered in bf16 and computed in f32.
  const bool is_pair = rank.param("kind") == "two_tensor";
  const TensorKind kind = is_pair ? TensorKind::two_tensor : TensorKind::low_precision;
  Scenario scenario = layers({kind, kind}, {ReshardAfterForward::Kind::yes});
  train(scenario, 2, {extend(kind, is_pair ? ExtensionKind::components : ExtensionKind::bf16), {ActionKind::evaluate}});
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank));
  CHECK(run.peak(MemoryClass::parameter).buffers > 0);
  check_nothing_whole(run, 0, ActionKind::evaluate);
  for (const int iteration : {0, 1}) {
    check_nothing_whole(run, iteration, ActionKind::forward);
    check_nothing_is_left(rank, run, iteration);
  }
  check_freed_memory(rank, run);
}

RANKED_TEST_CASE("extensions/padding", clauses("EXT-10"), ranks(2, 3, 4), each("kind", "plain", "two_tensor"),
                 needs(Feature::timeline, Feature::all_gather_extensions)) {
  const bool is_pair = rank.param("kind") == "two_tensor";
  const TensorKind kind = is_pair ? TensorKind::two_tensor : TensorKind::plain;
  Scenario scenario = layers({kind, kind}, {});
  // Fewer rows than two for each rank, and at two ranks an odd number.
  scenario.model.root.children[0].out_features = scenario.model.root.children[1].in_features =
      2 * rank.world().size() - 1;
  std::vector<Action> extension;
  if (is_pair) extension = {extend(kind, ExtensionKind::components)};
  train(scenario, 2, extension);
  const Run run = play_accepted(rank, scenario);
  if (is_pair) check_padding(rank, run);
  std::int64_t reduced = 0, gathered = 0;
  for (const Operand& operand : run.operands()) {
    const bool is_gather = operand.kind == CollectiveKind::all_gather;
    if (is_gather && is_pair) continue;  // what hooks contribute travels as they like
    CAPTURE(to_string(operand.kind), operand.tag, operand.iteration);
    for (const ParameterShape& parameter : parameters(scenario.model)) {
      if (parameter.name == operand.tag + ".weight")
        (is_gather ? gathered : reduced) += check_operand(operand, parameter.shape, rank.index());
    }
  }
  CHECK(reduced > 0);
  CHECK((gathered > 0) == (!is_pair && rank.index() == rank.world().size() - 1));
}

}  // namespace shardproof::extensions
