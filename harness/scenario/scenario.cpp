#include "harness/scenario/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "harness/scenario/formula.hpp"

namespace shardproof::scenario {

namespace {

void visit(const Module& module, const std::string& path, const std::function<void(const Module&, const std::string&)>& each) {
  each(module, path);
  for (const Module& child : module.children) visit(child, child_path(path, child.name), each);
}

[[noreturn]] void fail(const std::string& place, const std::string& expected) {
  throw std::invalid_argument(fmt::format("scenario: {}: {}", place, expected));
}

void validate_module(const Module& module, const std::string& path) {
  const std::string place = fmt::format("model, module \"{}\"", path);
  if (module.forward_sleep < 0 || module.backward_sleep < 0) fail(place, "a sleep must not be negative");
  if (module.kind != ModuleKind::linear && (module.forward_sleep != 0 || module.backward_sleep != 0)) {
    fail(place, "only a linear module sleeps");
  }
  if (module.kind == ModuleKind::sequential) {
    std::set<std::string> names;
    for (const Module& child : module.children) {
      if (child.name.empty() || child.name.find('.') != std::string::npos)
        fail(place, fmt::format("a child is named \"{}\": a name must not be empty nor contain a dot", child.name));
      if (!names.insert(child.name).second) fail(place, fmt::format("two children are named \"{}\"", child.name));
    }
    return;
  }
  if (!module.children.empty()) fail(place, "only a sequential module has children");
  if (module.kind == ModuleKind::linear && (module.in_features < 1 || module.out_features < 1))
    fail(place,
         fmt::format("a linear module has at least one feature on each side, not {} -> {}", module.in_features, module.out_features));
}

void validate_loss(const Loss& loss) {
  if (!(loss.divisor > 0)) fail("model, loss, divisor", "must be positive");
  // The fixed row of a dot is by the formula, whose divisors are integers.
  if (loss.kind == LossKind::dot && (loss.divisor > std::numeric_limits<int>::max() || loss.divisor != std::trunc(loss.divisor))) {
    fail("model, loss, divisor", fmt::format("of a dot an integer, not {}", loss.divisor));
  }
}

bool is_above(const std::string& parent, const std::string& child) {
  return parent.empty() ? !child.empty() : child.starts_with(parent + ".");
}

void validate_wrapping(const std::vector<WrapGroup>& groups, const Model& model) {
  std::set<std::string> wrapped;
  for (const WrapGroup& group : groups) {
    if (group.modules.size() != 1) fail("plan, wrap", fmt::format("a group of one module is expected, not of {}", group.modules.size()));
    const std::string& path = group.modules.front();
    if (find(model, path) == nullptr) fail("plan, wrap", fmt::format("the model has no module \"{}\"", path));
    if (!wrapped.insert(path).second) fail("plan, wrap", fmt::format("\"{}\" stands twice", path));
    const auto above = std::ranges::find_if(wrapped, [&](const std::string& earlier) { return is_above(earlier, path); });
    if (above != wrapped.end()) {
      fail("plan, wrap", fmt::format("\"{}\" stands behind \"{}\": children come before parents", path, *above));
    }
  }
}

void validate_costs(const CostModel& costs) {
  const auto not_negative = [](Nanoseconds cost, const std::string& what) {
    if (cost < 0) fail("costs, " + what, "must not be negative");
  };
  for (const auto& [kind, cost] : costs.work) not_negative(cost, fmt::format("work {}", to_string(kind)));
  for (const auto& [which, cost] : costs.labelled_work) {
    not_negative(cost, fmt::format("work {} \"{}\"", to_string(which.first), which.second));
  }
  for (const auto& [kind, cost] : costs.collectives) {
    not_negative(std::min(cost.fixed, cost.per_kib), fmt::format("collective {}", to_string(kind)));
  }
  for (const auto& [which, cost] : costs.tagged_collectives) {
    not_negative(cost, fmt::format("collective {} \"{}\"", to_string(which.first), which.second));
  }
  not_negative(costs.host_call, "host_call");
}

}  // namespace

std::string_view to_string(ModuleKind kind) {
  switch (kind) {
    case ModuleKind::sequential: return "sequential";
    case ModuleKind::linear: return "linear";
    case ModuleKind::relu: return "relu";
  }
  return "unknown";
}

std::string_view to_string(LossKind kind) {
  switch (kind) {
    case LossKind::sum: return "sum";
    case LossKind::sum_of_squares: return "sum_of_squares";
    case LossKind::dot: return "dot";
  }
  return "unknown";
}

std::string_view to_string(BackwardPrefetch prefetch) { return prefetch == BackwardPrefetch::previous ? "previous" : "none"; }

std::string_view to_string(OptimizerKind kind) { return kind == OptimizerKind::sgd ? "sgd" : "adamw"; }

std::string_view to_string(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward: return "forward";
    case ActionKind::backward: return "backward";
    case ActionKind::step: return "step";
    case ActionKind::zero_grad: return "zero_grad";
    case ActionKind::post_optim_event: return "post_optim_event";
    case ActionKind::capture: return "capture";
  }
  return "unknown";
}

std::string child_path(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

std::vector<std::string> paths(const Model& model) {
  std::vector<std::string> all;
  visit(model.root, "", [&](const Module&, const std::string& path) { all.push_back(path); });
  return all;
}

const Module* find(const Model& model, std::string_view path) {
  const Module* found = nullptr;
  visit(model.root, "", [&](const Module& module, const std::string& here) {
    if (here == path) found = &module;
  });
  return found;
}

std::vector<ParameterShape> parameters(const Model& model) {
  std::vector<ParameterShape> all;
  visit(model.root, "", [&](const Module& module, const std::string& path) {
    if (module.kind != ModuleKind::linear) return;
    all.push_back({child_path(path, "weight"), {module.out_features, module.in_features}});
    if (module.bias) all.push_back({child_path(path, "bias"), {module.out_features}});
  });
  return all;
}

Tensor dot_row(const Loss& loss, std::int64_t features) {
  return formula::tensor(loss.dot_seed, {features}, static_cast<int>(loss.divisor));
}

void validate(const Scenario& scenario) {
  std::int64_t features = scenario.script.input.size() == 2 ? scenario.script.input[1] : -1;
  if (features < 1 || scenario.script.input[0] < 1)
    fail("script, input",
         fmt::format("expected [batch, features] with both positive, found {}", shardproof::to_string(scenario.script.input)));
  visit(scenario.model.root, "", [&](const Module& module, const std::string& path) {
    validate_module(module, path);
    if (module.kind != ModuleKind::linear) return;
    if (module.in_features != features)
      fail(fmt::format("model, module \"{}\"", path), fmt::format("takes {} features, but {} arrive", module.in_features, features));
    features = module.out_features;
  });
  if (scenario.model.init_divisor < 1) fail("model, init_divisor", "must be positive");
  if (scenario.script.input_divisor < 1) fail("script, input_divisor", "must be positive");
  validate_loss(scenario.model.loss);
  validate_wrapping(scenario.plan.wrap, scenario.model);
  validate_costs(scenario.costs);

  bool forward_done = false;
  for (const Script::Segment& segment : scenario.script.segments) {
    if (segment.iterations < 1) fail("script, iterations", "at least one");
    for (const Action action : segment.body) {
      if (action.kind == ActionKind::forward && std::exchange(forward_done, true))
        fail("script, body", "a second forward without a backward between");
      if (action.kind == ActionKind::backward && !std::exchange(forward_done, false))
        fail("script, body", "a backward without a forward before it");
    }
  }
}

}  // namespace shardproof::scenario
