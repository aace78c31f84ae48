// Is a scenario one that can be played? What only a look at the whole document shows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

namespace {

[[noreturn]] void fail(const std::string& place, const std::string& expected) {
  throw std::invalid_argument(fmt::format("scenario: {}: {}", place, expected));
}

std::string place_of(const std::string& path) { return fmt::format("model, module \"{}\"", path); }

void validate_names(const Module& module, const std::string& place) {
  std::set<std::string> names;
  for (const Module& child : module.children) {
    if (child.name.empty() || child.name.find('.') != std::string::npos)
      fail(place, fmt::format("a child is named \"{}\": a name must not be empty nor contain a dot", child.name));
    if (!names.insert(child.name).second) fail(place, fmt::format("two children are named \"{}\"", child.name));
  }
}

void validate_module(const Module& module, const std::string& path) {
  const std::string place = place_of(path);
  if (module.forward_sleep < 0 || module.backward_sleep < 0) fail(place, "a sleep must not be negative");
  if (module.kind != ModuleKind::linear && (module.forward_sleep != 0 || module.backward_sleep != 0)) {
    fail(place, "only a linear module sleeps");
  }
  if (is_container(module.kind)) return validate_names(module, place);
  if (!module.children.empty()) fail(place, fmt::format("a {} module has no children", to_string(module.kind)));
  if (module.kind == ModuleKind::linear && (module.in_features < 1 || module.out_features < 1))
    fail(place,
         fmt::format("a linear module has at least one feature on each side, not {} -> {}", module.in_features, module.out_features));
  const bool has_features =
      module.kind == ModuleKind::embedding || module.kind == ModuleKind::layer_norm || module.kind == ModuleKind::attention;
  if (has_features && module.features < 1) fail(place, fmt::format("at least one feature, not {}", module.features));
  if (module.kind == ModuleKind::embedding && (module.vocabulary < 1 || module.positions < 0))
    fail(place,
         fmt::format("a vocabulary of at least one token, and no or some positions, not {} and {}", module.vocabulary, module.positions));
}

// What arrives at a module: `features` of every row, or tokens.
struct Flow {
  std::int64_t features = 0;  ///< of tokens: how many there are of a sequence
  bool tokens = false;
};

// Follows the forward program and says what comes out. A module may run several times.
class FlowCheck {
 public:
  FlowCheck(const Model& model, const Shape& input) : model_(model), positions_(input[1]), tokens_(vocabulary(model) > 0) {}

  Flow input() const { return {positions_, tokens_}; }
  /// Whether the module at this path has run.
  bool came_through(const std::string& path) const { return ran_.contains(path); }

  Flow through(const Module& module, const std::string& path, Flow in) {
    constexpr int most = 100'000;
    if (++runs_ > most) fail(place_of(path), fmt::format("more than {} modules run in one forward", most));
    if (module.kind != ModuleKind::list) ran_.insert(path);
    switch (module.kind) {
      case ModuleKind::list: return in;
      case ModuleKind::sequential: return children(module, path, in);
      case ModuleKind::discard: children(module, path, in); return in;
      case ModuleKind::residual: {
        const Flow out = children(module, path, rows(in, path));
        if (out.features != in.features)
          fail(place_of(path), fmt::format("adds {} features to the {} that arrive", out.features, in.features));
        return out;
      }
      case ModuleKind::linear: take(module.in_features, in, path); return {module.out_features};
      case ModuleKind::layer_norm: take(module.features, in, path); return in;
      case ModuleKind::attention:
        take(module.features, in, path);
        if (!tokens_) fail(place_of(path), "attends to the positions of a sequence, but the model takes no tokens");
        return in;
      case ModuleKind::relu:
      case ModuleKind::scale: return rows(in, path);
      case ModuleKind::embedding:
        if (!in.tokens) fail(place_of(path), fmt::format("takes tokens, but {} features arrive", in.features));
        if (module.vocabulary < vocabulary(model_))
          fail(place_of(path), fmt::format("knows {} tokens, but the model gets {}", module.vocabulary, vocabulary(model_)));
        if (module.positions != 0 && module.positions != in.features)
          fail(place_of(path), fmt::format("has {} positions, but sequences of {} tokens arrive", module.positions, in.features));
        return {module.features};
      case ModuleKind::use: return used(module, path, in);
    }
    return in;
  }

 private:
  Flow children(const Module& module, const std::string& path, Flow flow) {
    for (const Module& child : module.children) flow = through(child, child_path(path, child.name), flow);
    return flow;
  }

  Flow used(const Module& module, const std::string& path, Flow in) {
    const Module* target = find(model_, module.target);
    if (target == nullptr) fail(place_of(path), fmt::format("the model has no module \"{}\"", module.target));
    if (target->kind == ModuleKind::list) fail(place_of(path), fmt::format("\"{}\" is a list, which has no forward", module.target));
    if (!running_.insert(path).second) fail(place_of(path), "runs itself");
    const Flow out = through(*target, module.target, in);
    running_.erase(path);
    return out;
  }

  static Flow rows(Flow in, const std::string& path) {
    if (in.tokens) fail(place_of(path), "takes features, but tokens arrive");
    return in;
  }

  static void take(std::int64_t features, Flow in, const std::string& path) {
    if (rows(in, path).features != features) fail(place_of(path), fmt::format("takes {} features, but {} arrive", features, in.features));
  }

  const Model& model_;
  std::int64_t positions_;
  bool tokens_;
  std::set<std::string> running_;  // uses under way
  std::set<std::string> ran_;
  int runs_ = 0;
};

void validate_ties(const Model& model) {
  visit(model.root, "", [&](const Module& module, const std::string& path) {
    if (module.kind != ModuleKind::linear || module.tied_to.empty()) return;
    const Module* owner = find(model, module.tied_to);
    const Shape mine{module.out_features, module.in_features};
    Shape theirs;
    if (owner != nullptr && owner->kind == ModuleKind::linear && owner->tied_to.empty()) theirs = {owner->out_features, owner->in_features};
    if (owner != nullptr && owner->kind == ModuleKind::embedding) theirs = {owner->vocabulary, owner->features};
    if (owner == nullptr || owner == &module || theirs.empty())
      fail(place_of(path), fmt::format("\"{}\" is no linear module or embedding with a weight of its own", module.tied_to));
    if (mine != theirs)
      fail(place_of(path), fmt::format("its weight would be {}, that of \"{}\" is {}", shardproof::to_string(mine), module.tied_to,
                                       shardproof::to_string(theirs)));
  });
}

void validate_loss(const Loss& loss) {
  if (!(loss.divisor > 0)) fail("model, loss, divisor", "must be positive");
  // The fixed row of a dot is by the formula, whose divisors are integers.
  if (loss.kind == LossKind::dot && (loss.divisor > std::numeric_limits<int>::max() || loss.divisor != std::trunc(loss.divisor))) {
    fail("model, loss, divisor", fmt::format("of a dot an integer, not {}", loss.divisor));
  }
}

void require_module(const Model& model, const std::string& path, const std::string& place) {
  if (find(model, path) == nullptr) fail(place, fmt::format("the model has no module \"{}\"", path));
}

void require_parameter(const std::vector<ParameterShape>& all, const std::string& name, const std::string& place) {
  if (std::ranges::find(all, name, &ParameterShape::name) != all.end()) return;
  for (const ParameterShape& parameter : all) {
    if (std::ranges::find(parameter.aliases, name) != parameter.aliases.end())
      fail(place, fmt::format("\"{}\" is tied to \"{}\": name that", name, parameter.name));
  }
  fail(place, fmt::format("the model has no parameter \"{}\"", name));
}

void validate_wrapping(const Plan& plan, const Model& model) {
  std::set<std::string> wrapped;
  for (const WrapGroup& group : plan.wrap) {
    if (group.modules.empty()) fail("plan, wrap", "a group of no module");
    for (const std::string& path : group.modules) {
      require_module(model, path, "plan, wrap");
      if (const Module& module = *find(model, path); module.kind == ModuleKind::use)
        fail("plan, wrap", fmt::format("\"{}\" is a use of \"{}\": wrap \"{}\" instead", path, module.target, module.target));
      const auto above =
          std::ranges::find_if(wrapped, [&](const std::string& earlier) { return earlier != path && is_at_or_under(path, earlier); });
      if (above != wrapped.end()) {
        fail("plan, wrap", fmt::format("\"{}\" stands behind \"{}\": children come before parents", path, *above));
      }
    }
    wrapped.insert(group.modules.begin(), group.modules.end());
  }
  for (const WrapGroup& group : plan.wrap) {
    for (const auto* list : {&group.forward_prefetch, &group.backward_prefetch}) {
      for (const std::string& path : *list) {
        if (!wrapped.contains(path)) fail("plan, wrap, prefetch", fmt::format("\"{}\" is not wrapped", path));
      }
    }
  }
}

void validate_plan(const Plan& plan, const Model& model) {
  for (const int size : plan.mesh.shape) {
    if (size < 1) fail("plan, mesh", fmt::format("a dimension of {} ranks", size));
  }
  if (!plan.mesh.names.empty() && plan.mesh.names.size() != plan.mesh.shape.size())
    fail("plan, mesh", fmt::format("{} names for {} dimensions", plan.mesh.names.size(), plan.mesh.shape.size()));
  for (const std::string& name : plan.mesh.names) {
    if (std::ranges::count(plan.mesh.names, name) > 1) fail("plan, mesh", fmt::format("two dimensions are named \"{}\"", name));
  }
  validate_wrapping(plan, model);
  const std::vector<ParameterShape> all = parameters(model);
  for (const std::string& name : plan.ignored_parameters) require_parameter(all, name, "plan, ignored_parameters");
  for (const auto& [name, dim] : plan.shard_dims) require_parameter(all, name, "plan, shard_dims");
  if (!(plan.gradient_divide_factor >= 0)) fail("plan, gradient_divide_factor", "must be positive");
}

// The forwards of a script, by the module that runs: each is followed once.
class Forwards {
 public:
  explicit Forwards(const Scenario& scenario) : scenario_(scenario) {}

  void validate(const Action& action, const std::string& place) {
    const FlowCheck& forward = followed(action.module, place);
    if (!action.fails_in) return;
    require_module(scenario_.model, *action.fails_in, place);
    if (!forward.came_through(*action.fails_in)) fail(place, fmt::format("module \"{}\" is to fail, but does not run", *action.fails_in));
  }

 private:
  const FlowCheck& followed(const std::string& path, const std::string& place) {
    const auto [at, fresh] = followed_.try_emplace(path, scenario_.model, scenario_.script.input);
    FlowCheck& flow = at->second;
    if (!fresh) return flow;
    const Module& module = *find(scenario_.model, path);
    if (module.kind == ModuleKind::list) fail(place, fmt::format("\"{}\" is a list, which has no forward", path));
    const Flow output = flow.through(module, path, flow.input());
    if (output.tokens) fail(place, fmt::format("tokens come out of \"{}\": an embedding makes features of them", path));
    // Targets are of as many classes as the whole model has.
    const bool is_classified = scenario_.model.loss.kind == LossKind::cross_entropy;
    if (is_classified && output.features < output_features(scenario_))
      fail(place, fmt::format("\"{}\" makes {} classes, but targets are of {}", path, output.features, output_features(scenario_)));
    return flow;
  }

  const Scenario& scenario_;
  std::map<std::string, FlowCheck> followed_;
};

void validate_script(const Scenario& scenario) {
  const auto require_wrapped = [&](const std::string& path, const std::string& place) {
    const bool some = std::ranges::any_of(scenario.plan.wrap, [&](const WrapGroup& group) {
      return std::ranges::any_of(group.modules, [&](const std::string& wrapped) { return is_at_or_under(wrapped, path); });
    });
    if (!some) fail(place, fmt::format("no module at or under \"{}\" is wrapped", path));
  };
  Forwards forwards(scenario);
  bool forward_done = false;  // and no backward yet
  bool any_forward = false;
  bool is_last = true;       // as the switch says
  bool is_reducing = false;  // after a backward that was not the last
  const auto expect_gradients = [&is_reducing](const std::string& place) {
    if (is_reducing) fail(place, "behind a backward that is not the last, whose reductions nobody has waited for");
  };
  for (const Script::Segment& segment : scenario.script.segments) {
    if (segment.iterations < 1) fail("script, iterations", "at least one");
    std::vector<Action> played = segment.body;  // twice shows all that more often would
    if (segment.iterations > 1) played.insert(played.end(), segment.body.begin(), segment.body.end());
    for (const Action& action : played) {
      const std::string place = fmt::format("script, {}", to_string(action.kind));
      require_module(scenario.model, action.module, place);
      switch (action.kind) {
        case ActionKind::forward:
          if (!action.fails_in && std::exchange(forward_done, true)) fail("script, body", "a second forward without a backward between");
          [[fallthrough]];
        case ActionKind::evaluate:
          forwards.validate(action, place);
          any_forward = any_forward || !action.fails_in;
          break;
        case ActionKind::backward:
          if (!std::exchange(forward_done, false)) fail("script, body", "a backward without a forward before it");
          is_reducing = !is_last;
          break;
        case ActionKind::clip_grad_norm:
          if (!(action.max_norm > 0) || !(action.norm_type > 0))
            fail(place, fmt::format("max_norm {} and norm_type {} must be positive", action.max_norm, action.norm_type));
          expect_gradients(place);
          break;
        case ActionKind::unshard:
        case ActionKind::wait_for_unshard:
        case ActionKind::reshard:
        case ActionKind::set_requires_gradient_sync:
        case ActionKind::set_requires_all_reduce:
        case ActionKind::set_reshard_after_backward:
        case ActionKind::set_unshard_in_backward: require_wrapped(action.module, place); break;
        case ActionKind::step:
          if (forward_done) fail("script, body", "a step between a forward and its backward, which needs the parameters as they were");
          expect_gradients(place);
          break;
        case ActionKind::capture:
          if (!any_forward) fail("script, body", "a capture before any forward, when there is no loss");
          expect_gradients(place);
          break;
        case ActionKind::zero_grad: is_reducing = false; break;
        case ActionKind::set_is_last_backward: is_last = action.value; break;
        case ActionKind::post_optim_event: break;
      }
    }
  }
}

bool is_group(const Plan& plan, const std::string& name) {
  return std::ranges::any_of(plan.wrap, [&](const WrapGroup& group) { return !group.modules.empty() && group.modules.front() == name; });
}

void validate_label(const Scenario& scenario, WorkKind kind, const std::string& label) {
  const std::string place = fmt::format("costs, work {}", to_string(kind));
  switch (kind) {
    case WorkKind::forward:
    case WorkKind::backward: {
      require_module(scenario.model, label, place);
      const ModuleKind module = find(scenario.model, label)->kind;
      const bool adds = kind == WorkKind::forward && module == ModuleKind::residual;
      if (!adds && (is_container(module) || module == ModuleKind::use))
        fail(place, fmt::format("\"{}\" is a {}, which has no such work of its own: label what runs in it", label, to_string(module)));
      return;
    }
    case WorkKind::optimizer: return require_parameter(parameters(scenario.model), label, place);
    case WorkKind::copy_in:
    case WorkKind::copy_out:
    case WorkKind::reduce_copy_in:
    case WorkKind::reduce_copy_out:
      if (!is_group(scenario.plan, label)) fail(place, fmt::format("no group is named \"{}\": a group goes by its first module", label));
      return;
    default: return;
  }
}

// A name that nothing has would cost nothing, and nobody would notice the slip.
void validate_cost_names(const Scenario& scenario) {
  for (const auto& [which, cost] : scenario.costs.tagged_collectives) {
    const auto& [kind, tag] = which;
    if (tag == gradient_norm_tag || is_group(scenario.plan, tag)) continue;
    fail(fmt::format("costs, collective {}", to_string(kind)),
         fmt::format("no group is named \"{}\": a group goes by its first module", tag));
  }
  for (const auto& [which, cost] : scenario.costs.labelled_work) validate_label(scenario, which.first, which.second);
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

std::int64_t output_features(const Scenario& scenario) {
  FlowCheck flow(scenario.model, scenario.script.input);
  return flow.through(scenario.model.root, "", flow.input()).features;
}

void validate(const Scenario& scenario) {
  const Shape& input = scenario.script.input;
  if (input.size() != 2 || input[0] < 1 || input[1] < 1)
    fail("script, input", fmt::format("expected [batch, features] with both positive, found {}", shardproof::to_string(input)));
  visit(scenario.model.root, "", validate_module);
  validate_ties(scenario.model);
  FlowCheck flow(scenario.model, input);
  const Flow output = flow.through(scenario.model.root, "", flow.input());
  if (output.tokens) fail("model", "tokens come out: an embedding makes features of them");
  if (scenario.model.init_divisor < 1) fail("model, init_divisor", "must be positive");
  if (scenario.script.input_divisor < 1) fail("script, input_divisor", "must be positive");
  validate_loss(scenario.model.loss);
  validate_plan(scenario.plan, scenario.model);
  validate_costs(scenario.costs);
  validate_cost_names(scenario);
  validate_script(scenario);
}

}  // namespace shardproof::scenario
