// The scenarios that the extensions suite plays. What the numbers come from: clauses.md.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::extensions {

/// What much of the suite comes from.
inline constexpr char train_parity_test[] = "test_fully_shard_extensions.py::test_all_gather_extensions_train_parity";

/// Linear layers without bias. The weight is of this kind.
scenario::Module weight(std::string name, std::int64_t in, std::int64_t out, scenario::TensorKind kind);

/// Registers an extension for all parameters of a kind, or for one of them.
scenario::Action extend(scenario::TensorKind kind, scenario::ExtensionKind extension,
                        scenario::ExtensionForm form = scenario::ExtensionForm::full);
scenario::Action extend(std::string parameter, scenario::ExtensionKind extension,
                        scenario::ExtensionForm form = scenario::ExtensionForm::full);

scenario::ExtensionForm form_of(const Rank& rank);
scenario::ReshardAfterForward reshard_of(const Rank& rank);

/// How many rows are dealt to the ranks of a world: `even`, `uneven`, or `few`, fewer than there are ranks.
std::int64_t rows_for(const std::string& how, int world);

/// A network of blocks, each wrapped and the root too: `in_proj`, ReLU, `out_proj`, ReLU, of weights of one kind. The rows of `out_proj`
/// are `rows`, those of `in_proj` as many more as make them uneven where `rows` are, and never fewer than the ranks of a small world.
struct Blocks {
  int count = 3;
  std::int64_t rows = 8;
  scenario::TensorKind kind = scenario::TensorKind::two_tensor;
  scenario::ReshardAfterForward reshard;
  scenario::Optimizer optimizer{.rate = 0.0625};
};
scenario::Scenario blocks(const Blocks& how);

/// Trains for so many iterations. `before` stands at the beginning of the first. Captures follow each step.
void train(scenario::Scenario& scenario, int iterations, const std::vector<scenario::Action>& before);

/// Linear layers, each a group of its own, whose weights are of these kinds. Weights and inputs are small integers: a step or two are exact
/// where the mean divides by a power of two.
scenario::Scenario layers(const std::vector<scenario::TensorKind>& kinds, scenario::ReshardAfterForward reshard);

}  // namespace shardproof::extensions
