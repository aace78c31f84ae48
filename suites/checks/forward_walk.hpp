// A walk through one forward, module by module: it finds the modules that run, and the outputs that will get a
// gradient. The checks of each kind of engine derive gathers and reductions from it. It shares no code with an engine.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/player/run.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::suites {

struct UsedParameter {
  std::string name;  ///< the name under which the model stores it
  bool trainable = true;
};

/// Parameters by the path of the module that computes with them. A shared parameter is in the list of each of its
/// modules.
using ParametersByModule = std::map<std::string, std::vector<UsedParameter>>;
ParametersByModule parameters_by_module(const Model& model);

class ForwardWalk {
 public:
  /// The action must be a forward or an evaluation. The arguments must outlive the walk.
  ForwardWalk(const Scenario& scenario, const ParametersByModule& parameters, const Action& action)
      : scenario_(scenario), parameters_(parameters), action_(action), trains_(action.kind == ActionKind::forward) {}
  virtual ~ForwardWalk() = default;

  /// Runs the modules. Returns false if the forward fails on its way. Then the modules that run at that moment never
  /// end.
  bool run();

 protected:
  /// Called when a module begins to run.
  virtual void before(const std::string& path) = 0;
  /// Called when the module has run. With `is_reached`, the next backward reaches its output.
  virtual void after(const std::string& path, bool is_reached) = 0;
  /// Called for a parameter that gets a gradient in the next backward.
  virtual void gets_gradient(const std::string& parameter) = 0;

  bool trains() const { return trains_; }

 private:
  // `needs_gradient`: whether the input needs a gradient. `is_used`: whether the loss depends on the output. Returns
  // whether the output needs a gradient.
  bool run_at(const std::string& path, bool needs_gradient, bool is_used);
  bool run(const Module& module, const std::string& path, bool needs_gradient, bool is_used);
  bool computed(const Module& module, const std::string& path, bool needs_gradient, bool is_used);
  bool children(const Module& module, const std::string& path, bool needs_gradient, bool is_used);

  const Scenario& scenario_;
  const ParametersByModule& parameters_;
  const Action& action_;
  bool trains_, has_failed_ = false;
};

}  // namespace shardproof::suites
