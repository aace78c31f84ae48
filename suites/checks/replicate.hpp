// Facts about plans for `replicate`, for checks: the buckets that a backward reduces, and the parameters that are
// divided.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fixtures/oracles/buckets.hpp"
#include "harness/scenario/plan/replicate.hpp"
#include "suites/checks/kind.hpp"

namespace shardproof::suites {

/// Finds the backwards that reduce, from the calls that rank 0 makes.
class ReducingBackwards {
 public:
  void make(const Action& action);

  /// Whether the last call was a backward that reduces.
  bool reduces() const { return reduces_; }

 private:
  bool syncs_ = true;
  bool next_reduces_ = false;
  bool reduces_ = false;
};

/// Follows a script call by call, and lists the buckets that each backward reduces. For eager plans, and models whose
/// order of gradients `oracles::ready_order` knows. If only some ranks make a call, the first rank's calls count,
/// because it decides the order of gradients.
class BucketCalls {
 public:
  /// The plan must be for `replicate`. The scenario must outlive this object.
  explicit BucketCalls(const Scenario& scenario) : scenario_(scenario) {}

  void make(const Action& action);

  /// The buckets that the last call reduces, in the order in which they start. Empty unless it was a backward that
  /// reduces.
  const std::vector<oracles::Bucket>& reduced() const { return reduced_; }

 private:
  void backward();

  const Scenario& scenario_;
  ReducingBackwards backwards_;
  std::vector<Action> forwards_;  // the forwards that wait for a backward
  std::optional<std::vector<std::string>> ready_;  // the order of the first backward that reduced
  std::vector<oracles::Bucket> reduced_;
};

/// The number of elements of all trainable parameters.
std::uint64_t trainable_elements(const Model& model);

/// The dimension along which a parameter is divided among ranks. Empty if it is whole on each rank.
std::optional<int> divided_dimension(const ReplicatePlan& plan, const std::string& parameter);

}  // namespace shardproof::suites
