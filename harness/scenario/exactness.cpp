#include "harness/scenario/exactness.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace shardproof::scenario {

namespace {

// Every finite f32 is a multiple of 2^finest.
constexpr int finest = -149;
constexpr int significant_bits = 24;

// The bounds of a value: at most `most`, and a multiple of 2^unit. `sure`: every right engine computes the same value.
struct Reach {
  double most = 0;
  int unit = 0;
  bool sure = true;

  bool fits() const { return most <= std::ldexp(1.0, significant_bits + unit); }
};

constexpr Reach only_zero{.most = 0, .unit = 127};

Reach unsure(Reach value) {
  value.sure = false;
  return value;
}

// After a rounding, a value may be a multiple of nothing but 2^finest.
Reach rounded_once(Reach value) {
  if (!value.fits()) value.unit = finest;
  return value;
}

// A sum of `terms` terms in any order, each within the bounds of `value`.
Reach summed(std::int64_t terms, Reach value) {
  value.most *= static_cast<double>(terms);
  if (terms <= 1) return rounded_once(value);
  return value.fits() ? value : unsure(value);
}

Reach product(const Reach& a, const Reach& b) {
  return {a.most * b.most, std::max(a.unit + b.unit, finest), a.sure && b.sure};
}

Reach plain_sum(const Reach& a, const Reach& b) {
  return {a.most + b.most, std::min(a.unit, b.unit), a.sure && b.sure};
}

// Adds a term to a sum that may have other terms.
Reach joined(const Reach& a, const Reach& b) {
  return summed(2, Reach{plain_sum(a, b).most / 2, std::min(a.unit, b.unit), a.sure && b.sure});
}

// Adds two values element by element, without other terms.
Reach added(const Reach& a, const Reach& b) { return rounded_once(plain_sum(a, b)); }

std::optional<int> exponent_of(double number) {
  int exponent = 0;
  if (!(number > 0) || std::frexp(number, &exponent) != 0.5) return std::nullopt;
  return exponent - 1;
}

Reach divided(Reach value, double divisor) {
  value.most /= divisor;
  const auto exponent = exponent_of(divisor);
  value.unit = exponent ? std::max(value.unit - *exponent, finest) : finest;
  return value;
}

bool is_low(std::optional<DType> dtype) { return dtype && *dtype != DType::f32; }

Reach in_dtype(Reach value, std::optional<DType> dtype) {
  if (!is_low(dtype)) return value;
  const bool is_half = *dtype == DType::f16;
  value.most *= 1 + std::ldexp(1.0, is_half ? -10 : -7);
  if (!is_half) return value;
  constexpr double largest = 65504;
  value.unit = std::max(value.unit, -24);
  return value.most > largest ? unsure(value) : value;
}

// A value by formula, over a divisor.
Reach by_formula(double divisor) { return divided({.most = 4, .unit = 0}, divisor); }

Reach of_numbers(const std::vector<std::vector<std::vector<double>>>& given) {
  Reach all = only_zero;
  for (const auto& ranks : given) {
    for (const auto& numbers : ranks) {
      for (const double number : numbers) {
        const auto narrow = static_cast<double>(static_cast<float>(number));
        if (narrow == 0) continue;
        all.most = std::max(all.most, std::abs(narrow));
        int exponent = 0;
        double fraction = std::frexp(std::abs(narrow), &exponent);
        for (; fraction != std::trunc(fraction); fraction *= 2) --exponent;
        all.unit = std::min(all.unit, exponent);
      }
    }
  }
  return all;
}

// Either of two values.
Reach either(const Reach& a, const Reach& b) {
  return {std::max(a.most, b.most), std::min(a.unit, b.unit), a.sure && b.sure};
}

struct ParameterReach {
  ParameterShape shape;
  bool is_reduced = false;  // among ranks
  Reach first, second;      // both tensors of a pair
  DType kept = DType::f32;  // the dtype that ranks keep it in
  std::optional<ExtensionKind> extension;
  std::optional<Reach> average;  // the average of gradients that a momentum keeps
};

struct Operation {
  const Module* module = nullptr;
  std::string path;
  std::size_t in = 0, out = 0;  // variables
  std::optional<std::size_t> children_output;  // of a residual: the output of its children
};

// The values that a forward has computed, for its backward.
struct Pass {
  std::vector<Reach> variables;
  std::vector<Operation> operations;
  std::map<std::string, std::string> paths;  // of its choices
  std::size_t output = 0;
  Reach gradient;  // of the loss, with respect to its output
};

// The state of ranks that make the same calls.
struct RankReach {
  int rank = 0;               // one of them
  std::vector<Pass> forwards;  // forwards that wait for their backward
  Reach loss;
  std::map<std::string, Reach> gradients;  // whole, before any reduction, from all backwards since the last zero_grad
};

// A state for every rank that some call names, and for one rank that no call names, if such a rank exists.
std::vector<RankReach> states_of(const Script& script, int ranks) {
  std::set<int> named;
  for (const Script::Segment& segment : script.segments) {
    for (const Action& action : segment.body) named.insert(action.ranks.begin(), action.ranks.end());
  }
  int other = 0;
  while (named.contains(other)) ++other;
  if (other < ranks) named.insert(other);
  std::vector<RankReach> states;
  for (const int rank : named) states.push_back({.rank = rank});
  return states;
}

class Follower {
 public:
  Follower(const Scenario& scenario, int ranks)
      : scenario_(scenario), ranks_(ranks), states_(states_of(scenario.script, ranks)) {
    keeps_whole_ = scenario.plan.engine.get()->keeps_whole_gradients();
    const auto& given = scenario.script.given;
    input_ = given.empty() ? by_formula(scenario.script.input_divisor) : of_numbers(given);
    for (ParameterShape& shape : parameters(scenario.model)) {
      const bool is_reduced = scenario.plan.engine.get()->reduces(shape.name);
      const DType kept = scenario.plan.engine.get()->dtype_of(shape.name);
      const Reach initial = in_dtype(by_formula(scenario.model.init_divisor), kept);
      std::string name = shape.name;
      parameters_[name] = {
          .shape = std::move(shape), .is_reduced = is_reduced, .first = initial, .second = initial, .kept = kept};
    }
  }

  std::vector<bool> follow() {
    for (const Script::Segment& segment : scenario_.script.segments) {
      for (int i = 0; i < segment.iterations; ++i) {
        for (const Action& action : segment.body) {
          play(action);
          if (action.kind == ActionKind::backward && keeps_whole_) reduce_whole();
        }
      }
    }
    return std::move(captures_);
  }

 private:
  void play(const Action& action) {
    if (action.kind == ActionKind::step) return step(action);
    if (action.kind == ActionKind::extend) return extend(*action.extension);
    if (action.kind == ActionKind::register_hook) return hook(*action.hook);
    if (action.kind == ActionKind::capture) return captures_.push_back(is_sure());
    for (RankReach& state : states_) {
      if (is_for(action, state.rank)) play(action, state);
    }
  }

  void play(const Action& action, RankReach& state) {
    switch (action.kind) {
      case ActionKind::forward:
        if (!action.fails_in) state.forwards.push_back(forward(action, state));
        break;
      case ActionKind::evaluate: forward(action, state); break;
      case ActionKind::backward: backward(state); break;
      case ActionKind::zero_grad:
        if (!action.to_zero) state.gradients.clear();
        for (auto& [name, gradient] : state.gradients) gradient = only_zero;
        break;
      case ActionKind::clip_grad_norm:
        for (auto& [name, gradient] : state.gradients) gradient.sure = false;
        break;
      default: break;  // the others change no value
    }
  }

  void extend(const Extension& extension) {
    for (auto& [name, parameter] : parameters_) {
      const bool is_meant = extension.parameter.empty()
                                ? parameter.shape.tensor == extension.tensor && !parameter.extension
                                : name == extension.parameter;
      if (is_meant) parameter.extension = extension.kind;
    }
  }

  // Registers the hook for all groups. A hook of only some groups or some ranks makes all gradients unsure.
  void hook(const Hook& hook) {
    if (hook.refused) return;
    if (hook.point != HookPoint::reduction || hook.direct || hook_ || !hook.fails_on.empty()) has_odd_hooks_ = true;
    hook_ = hook.kind;
  }

  bool is_sure() const {
    return std::ranges::all_of(states_, [](const RankReach& state) { return state.loss.sure; }) &&
           std::ranges::all_of(parameters_, [&](const auto& entry) {
             const ParameterReach& parameter = entry.second;
             const bool is_pair = parameter.shape.tensor == TensorKind::two_tensor;
             const auto gradient = reduced(parameter);
             return parameter.first.sure && (!is_pair || parameter.second.sure) && (!gradient || gradient->sure);
           });
  }

  // -- Forward

  Pass forward(const Action& action, RankReach& state) {
    const std::string& path = action.module;
    Pass pass{.variables = {input_}, .paths = action.paths};
    pass.output = run(pass, *find(scenario_.model, path), path, 0);
    const Reach out = pass.variables[pass.output];
    const std::int64_t elements = scenario_.script.input[0] * features_of_output(path);
    const Loss& loss = scenario_.model.loss;
    switch (loss.kind) {
      case LossKind::sum:
        state.loss = summed(elements, out);
        pass.gradient = {.most = 1, .unit = 0};
        break;
      case LossKind::sum_of_squares: {
        state.loss = divided(summed(elements, product(out, out)), loss.divisor);
        pass.gradient = divided({2 * out.most, out.unit, out.sure}, loss.divisor);
        // An engine may divide, or multiply by the inverse.
        if (!exponent_of(loss.divisor)) pass.gradient.sure = false;
        break;
      }
      case LossKind::dot:
        pass.gradient = by_formula(std::trunc(loss.divisor));
        state.loss = summed(elements, product(out, pass.gradient));
        break;
      case LossKind::cross_entropy: state.loss = pass.gradient = unsure(out); break;
    }
    return pass;
  }

  std::int64_t features_of_output(const std::string& path) const {
    std::int64_t features = scenario_.script.input[1];
    widest(*find(scenario_.model, path), features);
    return features;
  }

  // An upper bound of the output is enough.
  void widest(const Module& module, std::int64_t& features) const {
    features = std::max({features, module.out_features, module.features});
    for (const Module& child : module.children) widest(child, features);
    if (module.kind == ModuleKind::use) widest(*find(scenario_.model, module.target), features);
  }

  std::size_t run(Pass& pass, const Module& module, const std::string& path, std::size_t in) {
    const Reach x = in_computing_dtype(pass.variables[in], path);
    const auto keep = [&](Reach value, std::optional<std::size_t> children_output = std::nullopt) {
      pass.variables.push_back(in_computing_dtype(value, path));
      const std::size_t out = pass.variables.size() - 1;
      pass.operations.push_back(
          {.module = &module, .path = path, .in = in, .out = out, .children_output = children_output});
      return out;
    };
    switch (module.kind) {
      case ModuleKind::sequential: return children(pass, module, path, in);
      case ModuleKind::residual: {
        const std::size_t made = children(pass, module, path, in);
        return keep(added(x, pass.variables[made]), made);
      }
      case ModuleKind::discard: children(pass, module, path, in); return in;
      case ModuleKind::linear:
      case ModuleKind::convolution: {
        Reach y = product(x, whole(weight_of(module, path)));
        y.most *= static_cast<double>(module.in_features);
        std::int64_t terms = module.in_features;
        if (module.bias) {
          y = plain_sum(y, whole(at(path, "bias")));
          ++terms;
        }
        y.most /= static_cast<double>(terms);
        return keep(summed(terms, y));
      }
      case ModuleKind::relu: return keep(x);
      case ModuleKind::scale: return keep(rounded_once(product(x, whole(at(path, "factor")))));
      case ModuleKind::choice: {
        const Module& child = chosen_child(module, path, pass.paths);
        return run(pass, child, child_path(path, child.name), in);
      }
      case ModuleKind::use: return run(pass, *find(scenario_.model, module.target), module.target, in);
      case ModuleKind::list: return in;
      case ModuleKind::embedding:
      case ModuleKind::layer_norm:
      case ModuleKind::attention: return keep(unsure(x));
    }
    return in;
  }

  std::size_t children(Pass& pass, const Module& module, const std::string& path, std::size_t in) {
    for (const Module& child : module.children) in = run(pass, child, child_path(path, child.name), in);
    return in;
  }

  // A module may have its own dtype.
  Reach in_computing_dtype(const Reach& value, const std::string& path) const {
    const DType own = scenario_.plan.engine.get()->dtype_of(child_path(path, "weight"));
    return in_dtype(value, is_low(own) ? own : scenario_.plan.mixed_precision.param);
  }

  const ParameterReach& at(const std::string& path, const std::string& name) const {
    return parameters_.at(child_path(path, name));
  }
  const ParameterReach& weight_of(const Module& module, const std::string& path) const {
    return at(module.tied_to.empty() ? path : module.tied_to, "weight");
  }

  // The parameter as layers read it.
  Reach whole(const ParameterReach& parameter) const {
    Reach value = parameter.first;
    if (parameter.shape.tensor == TensorKind::two_tensor) {
      Reach twice = parameter.second;
      twice.most *= 2;
      value = added(value, twice);
    }
    if (parameter.extension == ExtensionKind::bf16) value = in_dtype(value, DType::bf16);
    if (parameter.extension == ExtensionKind::int8)
      value = {.most = std::min(value.most, 8.0), .unit = -4, .sure = value.sure};
    return parameter.is_reduced ? in_dtype(value, scenario_.plan.mixed_precision.param) : value;
  }

  // -- Backward

  // A gradient that comes from several places. Low precision rounds every partial sum.
  struct Gathered {
    Reach sum;
    int terms = 0;
  };

  void join(Gathered& gathered, const Reach& value, DType kept = DType::f32) const {
    gathered.sum = gathered.terms == 0 ? value : joined(gathered.sum, value);
    if (++gathered.terms > 2 && (is_low(scenario_.plan.mixed_precision.param) || is_low(kept)))
      gathered.sum.sure = false;
  }
  void join(std::map<std::string, Gathered>& contributions, const ParameterReach& parameter, const Reach& value) const {
    join(contributions[parameter.shape.name], in_dtype(value, parameter.kept), parameter.kept);
  }

  void backward(RankReach& state) {
    std::map<std::string, Gathered> contributions;  // by parameter
    for (const Pass& pass : std::exchange(state.forwards, {})) backward(pass, contributions);
    for (const auto& [name, contributed] : contributions) {
      const ParameterReach& parameter = parameters_.at(name);
      if (!parameter.shape.trainable) continue;
      Reach gradient = in_dtype(contributed.sum, parameter.kept);
      if (parameter.is_reduced) gradient = in_dtype(gradient, scenario_.plan.mixed_precision.param);
      // If a module runs twice, an engine may reduce the gradient of each run separately.
      if (parameter.is_reduced && contributed.terms > 1 && rounds_reductions()) gradient.sure = false;
      const auto [at, is_first] = state.gradients.try_emplace(name, gradient);
      if (!is_first) at->second = in_dtype(joined(at->second, gradient), parameter.kept);
    }
  }

  void backward(const Pass& pass, std::map<std::string, Gathered>& contributions) {
    std::map<std::size_t, Gathered> gradients;
    join(gradients[pass.output], pass.gradient);
    for (auto operation = pass.operations.rbegin(); operation != pass.operations.rend(); ++operation) {
      const auto found = gradients.find(operation->out);
      if (found == gradients.end()) continue;  // takes no part in the loss
      const Reach gradient = in_computing_dtype(found->second.sum, operation->path);
      if (operation->children_output) join(gradients[*operation->children_output], gradient);
      join(gradients[operation->in],
           in_computing_dtype(through(pass, *operation, gradient, contributions), operation->path));
    }
  }

  // The gradient that the operation passes to its input.
  Reach through(const Pass& pass, const Operation& operation, const Reach& gradient,
                std::map<std::string, Gathered>& contributions) {
    const Module& module = *operation.module;
    const Reach x = in_computing_dtype(pass.variables[operation.in], operation.path);
    const std::int64_t rows = scenario_.script.input[0];
    switch (module.kind) {
      case ModuleKind::linear:
      case ModuleKind::convolution: {
        const ParameterReach& weight = weight_of(module, operation.path);
        join(contributions, weight, summed(rows, product(x, gradient)));
        if (module.bias) join(contributions, at(operation.path, "bias"), summed(rows, gradient));
        return summed(module.out_features, product(gradient, whole(weight)));
      }
      case ModuleKind::scale: {
        const ParameterReach& factor = at(operation.path, "factor");
        join(contributions, factor, summed(rows * features_of_output(operation.path), product(x, gradient)));
        return rounded_once(product(gradient, whole(factor)));
      }
      case ModuleKind::embedding:
      case ModuleKind::layer_norm:
      case ModuleKind::attention:
        for (const auto& [name, parameter] : parameters_) {
          if (is_at_or_under(name, operation.path)) join(contributions, parameter, unsure(gradient));
        }
        return unsure(gradient);
      default: return gradient;
    }
  }

  double gradient_divisor() const {
    const double usual = scenario_.plan.engine.get()->gradient_divisor(ranks_);
    return hook_ == HookKind::sum ? 1 : hook_ == HookKind::doubled ? usual / 2 : usual;
  }

  std::optional<DType> reduction_dtype() const {
    if (hook_ == HookKind::fp16_compress) return DType::f16;
    if (hook_ == HookKind::bf16_compress) return DType::bf16;
    return scenario_.plan.mixed_precision.reduce;
  }

  bool rounds_reductions() const {
    return is_low(scenario_.plan.mixed_precision.param) || is_low(reduction_dtype()) ||
           !exponent_of(gradient_divisor());
  }

  // The gradient that the optimizer gets, over all ranks or only over the ranks for which `is_meant` holds.
  std::optional<Reach> reduced(const ParameterReach& parameter,
                               const std::function<bool(int rank)>& is_meant = {}) const {
    std::optional<Reach> any;
    for (const RankReach& state : states_) {
      const auto own = state.gradients.find(parameter.shape.name);
      if (own == state.gradients.end() || (is_meant && !is_reduced_late(parameter) && !is_meant(state.rank))) continue;
      any = any ? either(*any, own->second) : own->second;
    }
    return any && is_reduced_late(parameter) ? after_reduction(*any, parameter) : any;
  }

  // Gradients are treated as reduced when they are needed, unless the backward replaces them.
  bool is_reduced_late(const ParameterReach& parameter) const { return parameter.is_reduced && !keeps_whole_; }

  Reach after_reduction(Reach gradient, const ParameterReach& parameter) const {
    if (has_odd_hooks_) gradient.sure = false;
    gradient = in_dtype(gradient, reduction_dtype());
    gradient.most *= ranks_;
    gradient = divided(rounded_once(in_dtype(gradient, parameter.kept)), gradient_divisor());
    if (is_low(reduction_dtype())) gradient.unit = finest;
    return in_dtype(gradient, parameter.kept);
  }

  // A backward may reduce or not: both results are possible. An engine may divide each term, or multiply it by an
  // inverse.
  void reduce_whole() {
    for (const auto& [name, parameter] : parameters_) {
      const std::optional<Reach> any = reduced(parameter);
      if (!any || !parameter.is_reduced) continue;
      Reach mean = after_reduction(*any, parameter);
      if (!hook_ && !exponent_of(gradient_divisor())) mean.sure = false;
      for (RankReach& state : states_) state.gradients[name] = either(mean, *any);
    }
  }

  void step(const Action& action) {
    const Optimizer& optimizer = scenario_.plan.optimizer;
    for (auto& [name, parameter] : parameters_) {
      const auto gradient = reduced(parameter, [&](int rank) { return is_for(action, rank); });
      if (!gradient) continue;
      Reach change = *gradient;
      if (optimizer.kind == OptimizerKind::sgd) {
        if (optimizer.momentum != 0) change = averaged(parameter, change);
        const bool is_exact = exponent_of(optimizer.rate).has_value();
        change = divided(change, 1 / optimizer.rate);
        // An engine may round the product, or subtract it without a rounding.
        change.sure = change.sure && is_exact;
      } else {
        // It divides by a root. Most arithmetics round this differently.
        change = {.most = 2 * optimizer.rate + parameter.first.most, .unit = finest, .sure = false};
      }
      parameter.first = in_dtype(added(parameter.first, change), parameter.kept);
      parameter.second = in_dtype(added(parameter.second, change), parameter.kept);
    }
  }

  // With a momentum: the first gradient, or the scaled average plus the new gradient.
  Reach averaged(ParameterReach& parameter, const Reach& gradient) const {
    const double momentum = scenario_.plan.optimizer.momentum;
    if (!parameter.average) return *(parameter.average = gradient);
    Reach left = divided(*parameter.average, 1 / momentum);
    // An engine may round the product, or add it without a rounding.
    left.sure = left.sure && exponent_of(momentum).has_value();
    // Some ranks may take their first step now.
    parameter.average = either(in_dtype(added(in_dtype(left, parameter.kept), gradient), parameter.kept), gradient);
    return *parameter.average;
  }

  const Scenario& scenario_;
  const int ranks_;
  Reach input_;
  std::map<std::string, ParameterReach> parameters_;
  std::optional<HookKind> hook_;  // instead of reductions
  bool has_odd_hooks_ = false;  // a hook whose gradients are not followed
  bool keeps_whole_ = false;  // each rank keeps whole gradients
  std::vector<RankReach> states_;
  std::vector<bool> captures_;
};

}  // namespace

std::vector<bool> exact_captures(const Scenario& scenario, int ranks) {
  std::vector<bool> captures = Follower(scenario, ranks).follow();
  // The data of other ranks is only imagined.
  if (scenario.device.imagined_ranks > 0) captures.assign(captures.size(), false);
  return captures;
}

}  // namespace shardproof::scenario
