// A model of `fully_shard` for checks: which groups are whole, and what the calls of a script communicate.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/forward_walk.hpp"
#include "suites/checks/kind.hpp"

namespace shardproof::suites {

/// Whether `GroupCalls` can follow the scenario. It cannot follow these scenarios:
///
/// * Modules run twice before a backward, or share parameters. An engine may reduce their group once or several times.
/// * The output of a wrapped module without parameters is discarded, and is the input itself. A backward that reaches
///   the input then reaches the module, too.
bool can_follow_groups(const Scenario& scenario);

/// Follows a script call by call, for scripts in which every rank makes every call. A group is gathered when its
/// parameters are needed and are not whole. An engine that gathers ahead makes the same number of gathers, except for
/// groups that it gathers and does not use.
class GroupCalls {
 public:
  /// The plan must be for `fully_shard`. The scenario must outlive this object.
  GroupCalls(const Scenario& scenario, int world);

  void make(const Action& action);

  /// The collectives of all calls so far.
  const Communication& communication() const { return communication_; }
  /// The number of parameters that are whole because their group is.
  std::size_t whole_parameters() const;
  /// The number of parameters whose whole gradients wait for a reduction.
  std::size_t waiting_gradients() const { return waiting_.size(); }
  /// Whether an asynchronous unshard has begun and still lacks a wait.
  bool is_gathering() const;
  /// Whether the script says that the last backward is not the last of its iteration. Then an engine may keep work for
  /// the next one.
  bool goes_on() const { return !is_last_backward_; }
  /// Whether some call so far may have gathered a group ahead without need.
  bool may_have_gathered_in_vain() const { return may_gather_in_vain_; }
  /// Whether such a group may be whole.
  bool may_be_whole_in_vain() const { return may_be_whole_in_vain_; }

 private:
  struct Group;
  /// A wrapped module that ran first, and the groups at or under it.
  struct Root {
    std::vector<Group*> groups;  ///< its own first
    std::string running;  ///< the module whose forward is the root's forward, while it runs
    bool is_running = false;
  };
  struct Group {
    const WrapGroup* plan = nullptr;
    std::set<std::string> parameters;
    Root* root = nullptr;
    std::set<std::string> running;  ///< after the first module has run: the modules that have not run yet
    bool is_whole = false, is_gathering = false;
    bool reduces = true, all_reduces = true, frees_after_backward = true, gathers_in_backward = true;
    bool was_forward = false;  ///< since the last backward that ended an iteration
  };
  /// The groups, roots and parameters that the next backward reaches.
  struct Pending {
    std::set<Group*> groups;
    std::set<Group*> incomplete;  ///< some of their modules have not run
    std::set<Root*> roots;
    std::set<std::string> parameters;
  };
  class Forward;

  void forward(const Action& action);
  void backward();
  void reduce(Group& group);
  void gather(Group& group);
  void finish(Group& group);
  Root& root_of(Group& group);
  std::vector<Group*> at_or_under(const std::string& path);

  const Scenario& scenario_;
  const FullyShardPlan& plan_;
  int shards_ = 1, replicas_ = 1;
  ParametersByModule parameters_of_;
  std::deque<Group> groups_;  // in the order of the plan; roots point to them
  std::map<std::string, Group*> group_of_;  // by path of a wrapped module
  std::deque<Root> roots_;
  std::set<std::string> waiting_;
  Pending pending_;
  bool is_last_backward_ = true, may_gather_in_vain_ = false, may_be_whole_in_vain_ = false;
  Communication communication_;
};

}  // namespace shardproof::suites
