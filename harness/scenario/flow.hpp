// Computes the output of a forward from the shapes alone.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// The input of a module: `features` of every row, or tokens.
struct Flow {
  std::int64_t features = 0;  ///< for tokens: the number of tokens in a sequence
  bool tokens = false;
};

/// Follows the forward program, and returns its output. A module may run several times. A choice runs its first child,
/// or the child that `paths` names. Throws std::invalid_argument if a module's input does not fit the module.
class FlowCheck {
 public:
  FlowCheck(const Model& model, const Shape& input, std::map<std::string, std::string> paths = {});

  Flow input() const { return {positions_, tokens_}; }
  /// Whether the module at this path has run.
  bool came_through(const std::string& path) const { return ran_.contains(path); }

  Flow through(const Module& module, const std::string& path, Flow in);

 private:
  Flow children(const Module& module, const std::string& path, Flow flow);
  Flow chosen(const Module& module, const std::string& path, Flow in);
  Flow used(const Module& module, const std::string& path, Flow in);

  const Model& model_;
  std::int64_t positions_;
  bool tokens_;
  std::map<std::string, std::string> paths_;
  std::set<std::string> running_;  // current uses
  std::set<std::string> ran_;
  int runs_ = 0;
};

}  // namespace shardproof::scenario
