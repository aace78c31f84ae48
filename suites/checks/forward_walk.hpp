// Follows one forward module by module: which modules run, and where gradients of their outputs will come. The kinds of engines derive from
// it what is gathered and reduced. It shares no code with an engine.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/shardproof.hpp"

namespace shardproof::suites {

struct UsedParameter {
  std::string name;  ///< under which the model stores it
  bool trainable = true;
};

/// By the path of the module that computes with them. A shared parameter is in the list of each of its modules.
using ParametersByModule = std::map<std::string, std::vector<UsedParameter>>;
ParametersByModule parameters_by_module(const scenario::Model& model);

class ForwardWalk {
 public:
  /// The action is a forward or an evaluation. The arguments must outlive the walk.
  ForwardWalk(const scenario::Scenario& scenario, const ParametersByModule& parameters, const scenario::Action& action)
      : scenario_(scenario), parameters_(parameters), action_(action), trains_(action.kind == scenario::ActionKind::forward) {}
  virtual ~ForwardWalk() = default;

  /// Runs the modules. The result is false if the forward fails on its way: then the modules that run at that moment never end.
  bool run();

 protected:
  /// A module begins to run.
  virtual void before(const std::string& path) = 0;
  /// The module has run. The next backward comes to its output if `is_reached`.
  virtual void after(const std::string& path, bool is_reached) = 0;
  /// The next backward gives the parameter a gradient.
  virtual void gets_gradient(const std::string& parameter) = 0;

  bool trains() const { return trains_; }

 private:
  // `needs_gradient`: whether the input does. `is_used`: whether the loss depends on the output. The result: whether the output needs one.
  bool run_at(const std::string& path, bool needs_gradient, bool is_used);
  bool run(const scenario::Module& module, const std::string& path, bool needs_gradient, bool is_used);
  bool computed(const scenario::Module& module, const std::string& path, bool needs_gradient, bool is_used);
  bool children(const scenario::Module& module, const std::string& path, bool needs_gradient, bool is_used);

  const scenario::Scenario& scenario_;
  const ParametersByModule& parameters_;
  const scenario::Action& action_;
  bool trains_, has_failed_ = false;
};

}  // namespace shardproof::suites
