// Checks whether a scenario can be played. These checks need the whole document.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "harness/base/closest.hpp"
#include "harness/scenario/document.hpp"
#include "harness/scenario/flow.hpp"
#include "harness/scenario/refusal.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/scenario/validate_script.hpp"

namespace shardproof {

using scenario::fail;
using scenario::member_place;
using scenario::place_of;

namespace {

bool is_control(char character) { return static_cast<unsigned char>(character) < 0x20 || character == 0x7f; }

void validate_names(const Model& model, const Module& module, const std::string& path) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < module.children.size(); ++i) {
    const Module& child = module.children[i];
    if (std::ranges::any_of(child.name, is_control))
      fail(place_of(model, path),
           fmt::format("children[{}].name has a control character: use characters that can be printed", i));
    if (child.name.empty() || child.name.find('.') != std::string::npos)
      fail(place_of(model, path),
           fmt::format("a child is named \"{}\": a name must not be empty nor contain a dot", child.name));
    if (!names.insert(child.name).second)
      fail(place_of(model, path), fmt::format("two children are named \"{}\"", child.name));
  }
}

void validate_module(const Model& model, const Module& module, const std::string& path) {
  const auto place = [&] { return place_of(model, path); };
  if (module.forward_sleep < 0 || module.backward_sleep < 0) fail(place(), "a sleep must not be negative");
  if (module.kind != ModuleKind::linear && (module.forward_sleep != 0 || module.backward_sleep != 0)) {
    fail(place(), "only a linear module sleeps");
  }
  if (module.kind == ModuleKind::choice && module.children.empty()) fail(place(), "a choice has at least one child");
  if (is_container(module.kind)) return validate_names(model, module, path);
  if (!module.children.empty()) fail(place(), fmt::format("a {} module has no children", to_string(module.kind)));
  if (is_linear_map(module.kind) && (module.in_features < 1 || module.out_features < 1))
    fail(place(), fmt::format("a {} module needs at least one feature on each side, not {} -> {}",
                              to_string(module.kind), module.in_features, module.out_features));
  if (module.kind == ModuleKind::convolution && (module.channels < 1 || module.in_features % module.channels != 0))
    fail(place(), fmt::format("{} channels do not divide its {} input features: choose a divisor of {}",
                              module.channels, module.in_features, module.in_features));
  const bool has_features = module.kind == ModuleKind::embedding || module.kind == ModuleKind::layer_norm ||
                            module.kind == ModuleKind::attention;
  if (has_features && module.features < 1)
    fail(place(), fmt::format("expected at least one feature, found {}", module.features));
  if (module.kind == ModuleKind::embedding && (module.vocabulary < 1 || module.positions < 0))
    fail(place(), fmt::format("expected a vocabulary of at least 1 and positions of at least 0, found {} and {}",
                              module.vocabulary, module.positions));
}

void validate_ties(const Model& model) {
  visit(model.root, "", [&](const Module& module, const std::string& path) {
    if (module.kind != ModuleKind::linear || module.tied_to.empty()) return;
    const Module* owner = find(model, module.tied_to);
    const Shape mine{module.out_features, module.in_features};
    Shape theirs;
    if (owner != nullptr && owner->kind == ModuleKind::linear && owner->tied_to.empty())
      theirs = {owner->out_features, owner->in_features};
    if (owner != nullptr && owner->kind == ModuleKind::embedding) theirs = {owner->vocabulary, owner->features};
    if (owner == nullptr || owner == &module || theirs.empty())
      fail(place_of(model, path),
           fmt::format("\"{}\" is not a linear module or embedding with its own weight", module.tied_to));
    if (mine != theirs)
      fail(place_of(model, path),
           fmt::format("its weight would be {}, but the weight of \"{}\" is {}", shardproof::to_string(mine),
                       module.tied_to, shardproof::to_string(theirs)));
  });
}

// Checks the tensor kinds of weights. A weight that two modules share has its kind where it is defined, and must not be
// a pair.
void validate_tensors(const Model& model) {
  visit(model.root, "", [&](const Module& module, const std::string& path) {
    if (module.tensor == TensorKind::plain) return;
    if (!is_linear_map(module.kind))
      fail(place_of(model, path), "only a linear module or a convolution can have a weight that is not plain");
    if (!module.tied_to.empty())
      fail(place_of(model, path),
           fmt::format("it shares the weight of \"{}\": set the kind of tensor there", module.tied_to));
  });
  for (const ParameterShape& parameter : parameters(model)) {
    if (parameter.tensor == TensorKind::two_tensor && !parameter.aliases.empty())
      fail("model",
           fmt::format("\"{}\" is a pair, and \"{}\" is tied to it", parameter.name, parameter.aliases.front()));
  }
}

void validate_divisor(int divisor, const std::string& place) {
  if (divisor < 1)
    fail(place, fmt::format("expected an integer from 1 to {}, found {}", std::numeric_limits<int>::max(), divisor));
}

void validate_loss(const Loss& loss) {
  if (!(loss.divisor > 0))
    fail("model.loss.divisor", fmt::format("expected a positive number, found {}", loss.divisor));
  // The fixed row of a `dot` loss is by formula, whose divisors are integers.
  constexpr int most = std::numeric_limits<int>::max();
  if (loss.kind == LossKind::dot && (loss.divisor > most || loss.divisor != std::trunc(loss.divisor)))
    fail("model.loss.divisor", fmt::format("expected an integer from 1 to {} for a dot, found {}", most, loss.divisor));
}

void validate_mixed_precision(const MixedPrecision& mixed) {
  const auto real = [](std::optional<DType> dtype, const char* key) {
    if (dtype && *dtype != DType::f32 && *dtype != DType::bf16 && *dtype != DType::f16)
      fail(fmt::format("plan.mixed_precision.{}", key),
           fmt::format("expected f32, bf16 or f16, found {}", to_string(*dtype)));
  };
  real(mixed.param, "param");
  real(mixed.reduce, "reduce");
  real(mixed.output, "output");
}

void validate_optimizer(const Optimizer& optimizer) {
  const auto require = [](bool is_met, const char* key, const char* expected, double found) {
    if (!is_met) fail(fmt::format("plan.optimizer.{}", key), fmt::format("expected {}, found {}", expected, found));
  };
  const auto is_fraction = [](double value) { return value >= 0 && value < 1; };
  require(optimizer.momentum >= 0, "momentum", "a number that is not negative", optimizer.momentum);
  require(is_fraction(optimizer.beta1), "beta1", "a number of at least 0 and less than 1", optimizer.beta1);
  require(is_fraction(optimizer.beta2), "beta2", "a number of at least 0 and less than 1", optimizer.beta2);
  require(optimizer.epsilon >= 0, "epsilon", "a number that is not negative", optimizer.epsilon);
  require(optimizer.weight_decay >= 0, "weight_decay", "a number that is not negative", optimizer.weight_decay);
}

void validate_plan(const Scenario& scenario) {
  const Plan& plan = scenario.plan;
  for (const int size : plan.mesh.shape) {
    if (size < 1)
      fail("plan.mesh.shape", fmt::format("expected integers from 1 to {}, found {}", scenario::most_ranks, size));
  }
  if (!plan.mesh.names.empty() && plan.mesh.names.size() != plan.mesh.shape.size())
    fail("plan.mesh.names", fmt::format("{} names for {} dimensions", plan.mesh.names.size(), plan.mesh.shape.size()));
  for (const std::string& name : plan.mesh.names) {
    if (std::ranges::count(plan.mesh.names, name) > 1)
      fail("plan.mesh.names", fmt::format("two dimensions are named \"{}\"", name));
  }
  validate_mixed_precision(plan.mixed_precision);
  validate_optimizer(plan.optimizer);
  if (plan.engine.get() == nullptr)
    fail("plan", "it has no engine section; " + base::closest_or_all(names_of_engine_kinds(), ""));
  plan.engine.get()->validate(scenario);
}

void require_group(const Scenario& scenario, const std::string& name, const std::string& place) {
  const std::vector<std::string> groups = scenario.plan.engine.get()->groups(scenario.model);
  if (std::ranges::find(groups, name) != groups.end()) return;
  fail(place, fmt::format("the plan has no group \"{}\"; {}", name,
                          base::closest_or_all({groups.begin(), groups.end()}, name)));
}

void validate_label(const Scenario& scenario, WorkKind kind, const std::string& label) {
  const std::string place = member_place(fmt::format("costs.work.{}.labelled", to_string(kind)), label);
  switch (kind) {
    case WorkKind::forward:
    case WorkKind::backward: {
      scenario::require_module(scenario.model, label, place);
      const ModuleKind module = find(scenario.model, label)->kind;
      const bool adds = kind == WorkKind::forward && module == ModuleKind::residual;
      if (!adds && (is_container(module) || module == ModuleKind::use))
        fail(place, fmt::format("\"{}\" is a {}, which does no such work itself: label a module in it", label,
                                to_string(module)));
      return;
    }
    case WorkKind::optimizer: return scenario::require_parameter(parameters(scenario.model), label, place);
    case WorkKind::copy_in:
    case WorkKind::copy_out:
    case WorkKind::reduce_copy_in:
    case WorkKind::reduce_copy_out: return require_group(scenario, label, place);
    case WorkKind::loss:
    case WorkKind::fill:
    case WorkKind::snapshot:
    case WorkKind::other: return;
  }
}

// Refuses costs of unknown names. Such a name would cost nothing, and the user would not notice the mistake.
void validate_cost_names(const Scenario& scenario) {
  std::set<std::string> tags{std::string(gradient_norm_tag), std::string(extension_sizes_tag)};
  for (std::string& tag : scenario.plan.engine.get()->collective_tags(scenario.model)) tags.insert(std::move(tag));
  for (const auto& [which, cost] : scenario.costs.tagged_collectives) {
    const auto& [kind, tag] = which;
    if (tags.contains(tag)) continue;
    fail(member_place(fmt::format("costs.collectives.{}.tagged", to_string(kind)), tag),
         fmt::format("no collective has the tag \"{}\"; {}", tag, base::closest_or_all(tags, tag)));
  }
  for (const auto& [which, cost] : scenario.costs.labelled_work) validate_label(scenario, which.first, which.second);
}

void validate_imagined(const Scenario& scenario) {
  const int ranks = scenario.device.imagined_ranks;
  if (ranks == 0) return;
  if (ranks < 2 || ranks > DeviceOptions::most_imagined_ranks)
    fail("costs.imagined_ranks",
         fmt::format("expected an integer from 2 to {}, found {}", DeviceOptions::most_imagined_ranks, ranks));
  // Split-off groups would have members that no rank can name.
  if (scenario.plan.mesh.shape.size() > 1) scenario::refuse_imagined("the plan has a mesh of two dimensions");
}

void validate_costs(const CostModel& costs) {
  const auto not_negative = [](Nanoseconds cost, const std::string& place) {
    if (cost < 0) fail(place, fmt::format("expected a duration that is not negative, found {} ns", cost));
  };
  for (const auto& [kind, cost] : costs.work) not_negative(cost, fmt::format("costs.work.{}", to_string(kind)));
  for (const auto& [which, cost] : costs.labelled_work)
    not_negative(cost, member_place(fmt::format("costs.work.{}.labelled", to_string(which.first)), which.second));
  for (const auto& [kind, cost] : costs.collectives) {
    not_negative(cost.fixed, fmt::format("costs.collectives.{}.fixed", to_string(kind)));
    not_negative(cost.per_kib, fmt::format("costs.collectives.{}.per_kib", to_string(kind)));
  }
  for (const auto& [which, cost] : costs.tagged_collectives)
    not_negative(cost, member_place(fmt::format("costs.collectives.{}.tagged", to_string(which.first)), which.second));
  not_negative(costs.host_call, "costs.host_call");
}

}  // namespace

void validate(const Scenario& scenario) {
  const Shape& input = scenario.script.input;
  if (input.size() != 2 || input[0] < 1 || input[1] < 1)
    fail("script.input",
         fmt::format("expected [batch, features] with both positive, found {}", shardproof::to_string(input)));
  visit(scenario.model.root, "",
        [&](const Module& module, const std::string& path) { validate_module(scenario.model, module, path); });
  validate_ties(scenario.model);
  validate_tensors(scenario.model);
  scenario::FlowCheck flow(scenario.model, input);
  const scenario::Flow output = flow.through(scenario.model.root, "", flow.input());
  if (output.tokens) fail("model", "the output is tokens: add an embedding to make features of them");
  validate_divisor(scenario.model.init_divisor, "model.init_divisor");
  validate_divisor(scenario.script.input_divisor, "script.input_divisor");
  validate_loss(scenario.model.loss);
  validate_plan(scenario);
  if (scenario.world_size) scenario::require_world_size(scenario, *scenario.world_size);
  validate_costs(scenario.costs);
  validate_imagined(scenario);
  validate_cost_names(scenario);
  scenario::validate_script(scenario);
}

}  // namespace shardproof
