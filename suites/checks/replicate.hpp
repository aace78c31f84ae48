// What checks must know of plans for `replicate`: which buckets a backward reduces, and which parameters are divided.
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
  void make(const scenario::Action& action);

  /// Whether the last call was a backward that reduces.
  bool reduces() const { return reduces_; }

 private:
  bool syncs_ = true;
  bool next_reduces_ = false;
  bool reduces_ = false;
};

/// Follows a script call by call: which buckets does each backward reduce? For eager plans, and models whose order of gradients
/// `oracles::ready_order` knows. Of calls for some ranks only, those of the first rank count: it decides on the order of gradients.
class BucketCalls {
 public:
  /// The plan is for `replicate`. The scenario must outlive it.
  explicit BucketCalls(const scenario::Scenario& scenario) : scenario_(scenario) {}

  void make(const scenario::Action& action);

  /// Of the last call, in the order in which they start. Empty, unless it was a backward that reduces.
  const std::vector<oracles::Bucket>& reduced() const { return reduced_; }

 private:
  void backward();

  const scenario::Scenario& scenario_;
  ReducingBackwards backwards_;
  std::vector<scenario::Action> forwards_;  // that wait for it
  std::optional<std::vector<std::string>> ready_;  // the order of the first backward that reduced
  std::vector<oracles::Bucket> reduced_;
};

/// Elements of all trainable parameters.
std::uint64_t trainable_elements(const scenario::Model& model);

/// Along which dimension a parameter is divided among ranks. None: it is whole on each rank.
std::optional<int> divided_dimension(const scenario::ReplicatePlan& plan, const std::string& parameter);

}  // namespace shardproof::suites
