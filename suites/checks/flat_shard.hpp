// Facts about plans for `flat_shard`, for checks: which units are whole after each call.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "harness/scenario/plan/flat_shard.hpp"
#include "suites/checks/forward_walk.hpp"
#include "suites/checks/kind.hpp"

namespace shardproof::suites {

/// The case's parameter `strategy`.
ShardStrategy strategy(Rank& rank);

/// The case's parameter `backward_prefetch`.
FlatPrefetch backward_prefetch(Rank& rank);

/// Follows a script call by call. It knows which units are whole after a call, and what the calls communicate. For
/// scripts in which every rank makes every call. It does not count a gather ahead of a unit that then does not run,
/// because a right engine does not have to make it.
class UnitCalls {
 public:
  /// The plan must be for `flat_shard`. The scenario must outlive this object.
  UnitCalls(const Scenario& scenario, int world);

  void make(const Action& action);

  /// The communication of all calls so far.
  const Communication& communication() const { return communication_; }
  /// The number of units whose whole flat parameter has its own memory.
  std::size_t whole() const { return whole_.size(); }
  /// The number of parameters whose whole gradients wait for a reduction.
  std::size_t waiting_gradients() const { return waiting_.size(); }

 private:
  /// The units, roots and parameters that the next backward reaches.
  struct Pending {
    std::set<std::string> reached;  ///< units whose output gets a gradient
    std::set<std::string> roots;  ///< roots of reached wrapped modules, with or without parameters
    std::set<std::string> parameters;  ///< parameters that get a gradient
  };
  class Forward;

  void forward(const Action& action);
  void backward();
  void gather(const std::string& unit);
  /// Frees all units under a root.
  void free(const std::string& root);
  bool keeps_all() const;

  const Scenario& scenario_;
  int shards_ = 1, replicas_ = 1;
  ParametersByModule parameters_of_;
  std::set<std::string> units_;  // with parameters
  std::map<std::string, std::string> root_of_;  // by wrapped module: the outermost wrapped module above it, or itself
  std::set<std::string> whole_, waiting_;
  Pending pending_;
  bool syncs_ = true;
  Communication communication_;
};

/// Whether a plan that gathers ahead may gather a unit that then does not run.
bool may_gather_in_vain(const Scenario& scenario);

}  // namespace shardproof::suites
