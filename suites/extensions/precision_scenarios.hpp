// The scenarios that mixed precision and its rounding are shown by: networks small enough that every number can be told by hand.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/shardproof.hpp"

namespace shardproof::extensions {

/// A dtype as parameters of cases spell it, `bf16`; nothing for `none`.
std::optional<DType> dtype_named(std::string_view name);

/// What the case's parameters `param` and `reduce` name.
scenario::MixedPrecision policy_of(const Rank& rank);

/// Two linear layers with bias and a ReLU between them, each a group, and the root. 7 and 5 rows: at least one is uneven for every world
/// but that of one rank. Trains by SGD on eighths; each iteration is captured before its step, with the parameters that were gathered,
/// and after it.
scenario::Scenario uneven_layers(const scenario::MixedPrecision& policy, bool reshard, int iterations);

/// One linear layer without bias under a wrapped root, loss sum, rate 1, on inputs that are given. Each row of its weight has the same
/// gradient: the sum of the input's rows. All weights by formula are integers. Each iteration of the inputs is a forward and a backward;
/// after the last one gradients are captured.
struct OneLayer {
  std::int64_t in = 1, out = 8;
  std::int64_t batch = 1;
  std::vector<std::vector<std::vector<double>>> given;  ///< [iteration][rank]
  scenario::MixedPrecision policy;
};
scenario::Scenario one_layer(const OneLayer& how);

/// The gradient that every weight of one_layer has on this rank at the last capture, which is also that of one process in single
/// precision, or the case fails. A rank without rows answers with that of the one process.
double gradient_of_one_layer(Rank& rank, const scenario::Run& run);

/// Fails unless shards and gradients are f32 at each capture.
void check_kept_in_single_precision(const Rank& rank, const scenario::Run& run);

/// The world as a mesh of two dimensions.
scenario::Mesh replicated(int replicas, int world);

}  // namespace shardproof::extensions
