// The scenarios for mixed precision and its rounding. Their networks are so small that a reader can compute every
// number by hand.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/player/run.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::extensions {

/// The dtype for a case's parameter, such as `bf16`. Empty for `none`.
std::optional<DType> dtype_named(std::string_view name);

/// The policy that the case's parameters `param` and `reduce` name.
MixedPrecision policy_of(const Rank& rank);

/// Two linear layers with bias, each a group, with a ReLU between them, and the root. They have 7 and 5 rows, so at
/// least one is uneven for every world of more than one rank. Trains by SGD on eighths. Captures come before each step,
/// with the gathered parameters, and after it.
Scenario uneven_layers(const MixedPrecision& policy, bool reshard, int iterations);

/// One linear layer without bias under a wrapped root, with the loss `sum`, rate 1, and given inputs. Each row of its
/// weight has the same gradient: the sum of the input's rows. All weights by formula are integers. Each iteration of
/// the inputs is a forward and a backward. Gradients are captured after the last one.
struct OneLayer {
  std::int64_t in = 1, out = 8;
  std::int64_t batch = 1;
  std::vector<std::vector<std::vector<double>>> given;  ///< [iteration][rank]
  MixedPrecision policy;
};
Scenario one_layer(const OneLayer& how);

/// The gradient that every weight of one_layer has on this rank at the last capture. Fails unless the serial model in
/// single precision has the same gradient. A rank without rows returns the serial model's gradient.
double gradient_of_one_layer(Rank& rank, const Run& run);

/// Fails unless shards and gradients are f32 at each capture.
void check_kept_in_single_precision(const Rank& rank, const Run& run);

/// The world as a mesh of two dimensions.
Mesh replicated(int replicas, int world);

}  // namespace shardproof::extensions
