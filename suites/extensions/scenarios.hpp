// The scenarios of the extensions suite. clauses.md gives the source of the numbers.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::extensions {

/// The seed test of much of the suite.
inline constexpr char train_parity_test[] = "test_fully_shard_extensions.py::test_all_gather_extensions_train_parity";

/// A linear layer without bias, whose weight has this kind.
Module weight(std::string name, std::int64_t in, std::int64_t out, TensorKind kind);

/// Registers an extension for all parameters of a kind, or for one parameter.
Action extend(TensorKind kind, ExtensionKind extension, ExtensionForm form = ExtensionForm::full);
Action extend(std::string parameter, ExtensionKind extension, ExtensionForm form = ExtensionForm::full);

ExtensionForm form_of(const Rank& rank);
ReshardAfterForward reshard_of(const Rank& rank);

/// A number of rows to shard over a world: `even`, `uneven`, or `few`, which is less than the number of ranks.
std::int64_t rows_for(const std::string& how, int world);

/// A network of blocks, with weights of one kind. A block is `in_proj`, ReLU, `out_proj`, ReLU. Each block and the root
/// are wrapped. `out_proj` has `rows` rows. `in_proj` has more rows, which are uneven if `rows` are, and at least the
/// number of ranks of a small world.
struct Blocks {
  int count = 3;
  std::int64_t rows = 8;
  TensorKind kind = TensorKind::two_tensor;
  ReshardAfterForward reshard;
  Optimizer optimizer{.rate = 0.0625};
};
Scenario blocks(const Blocks& how);

/// Trains for `iterations` iterations. The first one begins with the calls in `before`. A capture follows each step.
void train(Scenario& scenario, int iterations, const std::vector<Action>& before);

/// Linear layers, each its own group, whose weights have these kinds. Weights and inputs are small integers. So a step
/// or two are exact if the mean divides by a power of two.
Scenario layers(const std::vector<TensorKind>& kinds, ReshardAfterForward reshard);

}  // namespace shardproof::extensions
