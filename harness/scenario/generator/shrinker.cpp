#include "harness/scenario/generator/shrinker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/scenario/exactness.hpp"

namespace shardproof::scenario {

namespace {

using Reshard = ReshardAfterForward;

// -- References -------------------------------------------------------------------------------------------------------------------------

// Every path that the document names, but for those of modules that are tied or used.
void change_paths(Scenario& scenario, const std::function<void(std::string&)>& change) {
  const auto all = [&](std::vector<std::string>& paths) { std::ranges::for_each(paths, change); };
  for (WrapGroup& group : scenario.plan.wrap) {
    all(group.modules);
    all(group.forward_prefetch);
    all(group.backward_prefetch);
  }
  all(scenario.plan.ignored_parameters);
  const auto keys = [&](auto& map, const auto& path_of) {
    auto old = std::exchange(map, {});
    for (auto& [key, value] : old) {
      auto changed = key;
      change(path_of(changed));
      map.emplace(std::move(changed), value);
    }
  };
  const auto second = [](auto& key) -> std::string& { return key.second; };
  keys(scenario.plan.shard_dims, [](std::string& key) -> std::string& { return key; });
  keys(scenario.costs.tagged_collectives, second);
  keys(scenario.costs.labelled_work, second);
  for (Script::Segment& segment : scenario.script.segments) {
    for (Action& action : segment.body) {
      change(action.module);
      if (action.fails_in) change(*action.fails_in);
      if (action.extension && !action.extension->parameter.empty()) change(action.extension->parameter);
    }
  }
}

void change_modules(Module& module, const std::function<void(Module&)>& change) {
  change(module);
  for (Module& child : module.children) change_modules(child, change);
}

// Calls `change` with every module and its path; the root last.
void change_modules_at(Module& module, const std::string& path, const std::function<void(Module&, const std::string&)>& change) {
  for (Module& child : module.children) change_modules_at(child, child_path(path, child.name), change);
  change(module, path);
}

class Mender {
 public:
  Mender(Scenario& scenario, int ranks) : scenario_(scenario), ranks_(std::max(ranks, scenario.costs.imagined_ranks)) {}

  // Takes out what stands for nothing any more.
  void mend() {
    while (drop_lost_uses()) {
    }
    change_modules(scenario_.model.root, [&](Module& module) {
      if (!module.tied_to.empty() && find(scenario_.model, module.tied_to) == nullptr) module.tied_to.clear();
    });
    mend_plan();
    mend_costs();
    for (Script::Segment& segment : scenario_.script.segments) std::erase_if(segment.body, [&](const Action& a) { return is_lost(a); });
    std::erase_if(scenario_.script.segments, [](const Script::Segment& segment) { return segment.body.empty(); });
  }

 private:
  bool has_module(const std::string& path) const { return find(scenario_.model, path) != nullptr; }

  bool has_parameter(const std::string& name) const {
    const std::vector<ParameterShape> all = parameters(scenario_.model);
    return std::ranges::find(all, name, &ParameterShape::name) != all.end();
  }

  bool is_wrapped(const std::string& path) const {
    return std::ranges::any_of(scenario_.plan.wrap,
                               [&](const WrapGroup& group) { return std::ranges::find(group.modules, path) != group.modules.end(); });
  }

  bool holds_wrapped(const std::string& path) const {
    return std::ranges::any_of(scenario_.plan.wrap, [&](const WrapGroup& group) {
      return std::ranges::any_of(group.modules, [&](const std::string& wrapped) { return is_at_or_under(wrapped, path); });
    });
  }

  bool drop_lost_uses() {
    std::size_t dropped = 0;
    change_modules(scenario_.model.root, [&](Module& module) {
      dropped +=
          std::erase_if(module.children, [&](const Module& child) { return child.kind == ModuleKind::use && !has_module(child.target); });
    });
    return dropped > 0;
  }

  void mend_plan() {
    Plan& plan = scenario_.plan;
    for (WrapGroup& group : plan.wrap) std::erase_if(group.modules, [&](const std::string& path) { return !has_module(path); });
    std::erase_if(plan.wrap, [](const WrapGroup& group) { return group.modules.empty(); });
    for (WrapGroup& group : plan.wrap) {
      for (auto* list : {&group.forward_prefetch, &group.backward_prefetch})
        std::erase_if(*list, [&](const std::string& path) { return !is_wrapped(path); });
    }
    std::erase_if(plan.ignored_parameters, [&](const std::string& name) { return !has_parameter(name); });
    std::erase_if(plan.shard_dims, [&](const auto& entry) { return !has_parameter(entry.first); });
    int meshed = 1;
    for (const int size : plan.mesh.shape) meshed *= size;
    if (!plan.mesh.shape.empty() && meshed != ranks_) plan.mesh = {};
    const int shards = plan.mesh.shape.size() == 2 ? plan.mesh.shape[1] : ranks_;
    for (WrapGroup& group : plan.wrap) {
      Reshard& reshard = group.reshard_after_forward;
      if (reshard.kind == Reshard::Kind::size && (reshard.size < 1 || shards % reshard.size != 0)) reshard = {};
    }
  }

  void mend_costs() {
    const auto is_group = [&](const std::string& name) {
      return std::ranges::any_of(scenario_.plan.wrap, [&](const WrapGroup& group) { return group.modules.front() == name; });
    };
    std::erase_if(scenario_.costs.tagged_collectives, [&](const auto& entry) {
      const std::string& tag = entry.first.second;
      return tag != gradient_norm_tag && tag != extension_sizes_tag && !is_group(tag);
    });
    std::erase_if(scenario_.costs.labelled_work, [&](const auto& entry) {
      const auto& [kind, label] = entry.first;
      if (kind == WorkKind::forward || kind == WorkKind::backward) return !has_module(label);
      return kind == WorkKind::optimizer ? !has_parameter(label) : !is_group(label);
    });
  }

  bool is_lost(const Action& action) const {
    if (!has_module(action.module) || (action.fails_in && !has_module(*action.fails_in))) return true;
    switch (action.kind) {
      case ActionKind::materialize:
      case ActionKind::initialize: return scenario_.plan.initialisation != Initialisation::meta;
      case ActionKind::extend: {
        if (!action.extension->parameter.empty()) return !has_parameter(action.extension->parameter);
        const std::vector<ParameterShape> all = parameters(scenario_.model);
        return std::ranges::find(all, action.extension->tensor, &ParameterShape::tensor) == all.end();
      }
      case ActionKind::unshard:
      case ActionKind::wait_for_unshard:
      case ActionKind::reshard:
      case ActionKind::set_requires_gradient_sync:
      case ActionKind::set_requires_all_reduce:
      case ActionKind::set_reshard_after_backward:
      case ActionKind::set_unshard_in_backward: return !holds_wrapped(action.module);
      default: return false;
    }
  }

  Scenario& scenario_;
  const int ranks_;  // as engines see them
};

// -- Variants ---------------------------------------------------------------------------------------------------------------------------

class Variants {
 public:
  explicit Variants(const Staged& from) : from_(from), is_exact_(captures_exactly(from.scenario, from.ranks)) {}

  std::vector<Staged> all() && {
    for (int ranks = 1; ranks < from_.ranks; ++ranks) offer(ranks, [](Scenario&) {});
    segments();
    bodies();
    modules();
    groups();
    costs();
    plan();
    widths();
    details();
    return std::move(variants_);
  }

 private:
  static bool captures_exactly(const Scenario& scenario, int ranks) {
    const std::vector<bool> exact = exact_captures(scenario, ranks);
    return std::ranges::all_of(exact, std::identity());
  }

  void offer(const std::function<void(Scenario&)>& change) { offer(from_.ranks, change); }

  void offer(int ranks, const std::function<void(Scenario&)>& change) {
    Staged variant{.scenario = from_.scenario, .ranks = ranks};
    change(variant.scenario);
    Mender(variant.scenario, ranks).mend();
    if (variant.ranks == from_.ranks && variant.scenario == from_.scenario) return;
    try {
      validate(variant.scenario);
    } catch (const std::invalid_argument&) {
      return;
    }
    if (is_exact_ && !captures_exactly(variant.scenario, ranks)) return;
    variants_.push_back(std::move(variant));
  }

  // -- The script

  void segments() {
    const std::size_t count = from_.scenario.script.segments.size();
    for (std::size_t i = 0; i < count; ++i) {
      offer([&](Scenario& s) { s.script.segments.erase(s.script.segments.begin() + static_cast<std::ptrdiff_t>(i)); });
    }
    for (std::size_t i = 0; i < count; ++i) {
      const int iterations = from_.scenario.script.segments[i].iterations;
      for (const int fewer : {1, iterations / 2, iterations - 1}) {
        if (fewer >= 1 && fewer < iterations) offer([&](Scenario& s) { s.script.segments[i].iterations = fewer; });
      }
    }
  }

  // Ever smaller stretches of calls.
  void bodies() {
    for (std::size_t i = 0; i < from_.scenario.script.segments.size(); ++i) {
      const std::size_t calls = from_.scenario.script.segments[i].body.size();
      for (std::size_t length = calls / 2; length > 0; length /= 2) {
        const std::size_t stride = length <= 2 ? 1 : length;
        for (std::size_t begin = 0; begin + length <= calls; begin += stride) {
          offer([&](Scenario& s) {
            auto& body = s.script.segments[i].body;
            const auto first = body.begin() + static_cast<std::ptrdiff_t>(begin);
            body.erase(first, first + static_cast<std::ptrdiff_t>(length));
          });
        }
      }
    }
  }

  // -- The model

  void modules() {
    for (const std::string& path : paths(from_.scenario.model)) {
      if (path.empty()) continue;
      offer([&](Scenario& s) {
        change_modules_at(s.model.root, "", [&](Module& module, const std::string& at) {
          std::erase_if(module.children, [&](const Module& child) { return child_path(at, child.name) == path; });
        });
      });
    }
    for (const std::string& path : paths(from_.scenario.model)) {
      const Module& module = *find(from_.scenario.model, path);
      if (!is_container(module.kind)) continue;
      if (!path.empty()) offer([&](Scenario& s) { put_children_in_place(s, path); });
      if (module.kind != ModuleKind::sequential) {
        offer([&](Scenario& s) {
          change_modules_at(s.model.root, "", [&](Module& changed, const std::string& at) {
            if (at == path) changed.kind = ModuleKind::sequential;
          });
        });
      }
    }
  }

  // Instead of a container its children, named after it.
  static void put_children_in_place(Scenario& scenario, const std::string& path) {
    const Module container = *find(scenario.model, path);
    const std::string parent = path.substr(0, path.size() - std::min(path.size(), container.name.size() + 1));
    const bool is_only = container.children.size() == 1;
    const auto name_of = [&](const Module& child) { return is_only ? container.name : container.name + "_" + child.name; };
    const auto rename = [&](std::string& text) {
      for (const Module& child : container.children) {
        const std::string old = child_path(path, child.name);
        if (!is_at_or_under(text, old)) continue;
        text = child_path(parent, name_of(child)) + text.substr(old.size());
        return;
      }
    };
    change_modules_at(scenario.model.root, "", [&](Module& module, const std::string& at) {
      rename(module.tied_to);
      rename(module.target);
      if (at != parent) return;
      const auto place = std::ranges::find(module.children, container.name, &Module::name);
      std::vector<Module> children = std::move(place->children);
      for (Module& child : children) child.name = name_of(child);
      module.children.insert(module.children.erase(place), children.begin(), children.end());
    });
    change_paths(scenario, rename);
    // A group of the container is one of its child, which may have had another.
    auto& wrap = scenario.plan.wrap;
    for (auto group = wrap.begin(); group != wrap.end();) {
      std::erase_if(group->modules, [&](const std::string& wrapped) {
        return std::any_of(wrap.begin(), group,
                           [&](const WrapGroup& earlier) { return std::ranges::find(earlier.modules, wrapped) != earlier.modules.end(); });
      });
      group = group->modules.empty() ? wrap.erase(group) : std::next(group);
    }
  }

  // Modules go by their places: what shows in two scenarios alike is then alike.
  static void number_modules(Scenario& scenario) {
    std::map<std::string, std::string> numbered;  // new paths by old ones
    const auto visit_numbered = [&](auto&& self, const Module& module, const std::string& path, const std::string& renamed) -> void {
      numbered[path] = renamed;
      for (std::size_t i = 0; i < module.children.size(); ++i) {
        const Module& child = module.children[i];
        self(self, child, child_path(path, child.name), child_path(renamed, fmt::format("{}", i)));
      }
    };
    visit_numbered(visit_numbered, scenario.model.root, "", "");
    const auto rename = [&](std::string& text) {
      if (const auto module = numbered.find(text); module != numbered.end()) {
        text = module->second;
      } else if (const std::size_t dot = text.rfind('.'); dot != std::string::npos) {  // a parameter
        text = child_path(numbered.at(text.substr(0, dot)), text.substr(dot + 1));
      }
    };
    change_modules(scenario.model.root, [&](Module& module) {
      rename(module.tied_to);
      rename(module.target);
    });
    change_modules(scenario.model.root, [](Module& module) {
      for (std::size_t i = 0; i < module.children.size(); ++i) module.children[i].name = fmt::format("{}", i);
    });
    change_paths(scenario, rename);
  }

  // What all have in common goes at once where it can, else one after the other.
  void each_module(const std::function<void(Module&)>& change) {
    offer([&](Scenario& s) { change_modules(s.model.root, change); });
    for (const std::string& path : paths(from_.scenario.model)) {
      offer([&](Scenario& s) {
        change_modules_at(s.model.root, "", [&](Module& module, const std::string& at) {
          if (at == path) change(module);
        });
      });
    }
  }

  void widths() {
    const bool takes_tokens = vocabulary(from_.scenario.model) > 0;
    // None becomes wider than the widest: all of one width are only made narrower then.
    std::int64_t widest = takes_tokens ? 1 : from_.scenario.script.input[1];
    visit(from_.scenario.model.root, "", [&](const Module& module, const std::string&) {
      widest = std::max({widest, module.in_features, module.out_features, module.features, module.vocabulary});
    });
    for (const std::int64_t width : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, widest / 2, widest - 1, widest}) {
      if (width < 1 || width > widest) continue;
      offer([&](Scenario& s) {
        change_modules(s.model.root, [&](Module& module) {
          for (std::int64_t* features : {&module.in_features, &module.out_features, &module.features}) {
            if (*features > 0) *features = width;
          }
          if (module.kind == ModuleKind::embedding) module.vocabulary = std::max<std::int64_t>(width, 1);
        });
        if (!takes_tokens) s.script.input[1] = width;
      });
    }
    for (const std::int64_t batch : {std::int64_t{1}, from_.scenario.script.input[0] - 1}) {
      if (batch >= 1 && batch < from_.scenario.script.input[0]) offer([&](Scenario& s) { s.script.input[0] = batch; });
    }
    if (takes_tokens && from_.scenario.script.input[1] > 1) {
      offer([&](Scenario& s) {
        s.script.input[1] = 1;
        change_modules(s.model.root, [](Module& module) { module.positions = std::min<std::int64_t>(module.positions, 1); });
      });
    }
  }

  void details() {
    each_module([](Module& module) { module.forward_sleep = module.backward_sleep = 0; });
    each_module([](Module& module) { module.frozen = false; });
    each_module([](Module& module) { module.tied_to.clear(); });
    each_module([](Module& module) { module.tensor = TensorKind::plain; });
    each_module([](Module& module) { module.bias = module.kind != ModuleKind::linear; });
    each_module([](Module& module) { module.positions = 0; });
    each_module([](Module& module) { module.contiguous = true; });
    each_module([](Module& module) { module.scalar = false; });
    for (const Nanoseconds all : {Nanoseconds{0}, Nanoseconds{1'000'000}}) {
      each_module([&](Module& module) { module.forward_sleep = std::min(module.forward_sleep, all); });
      each_module([&](Module& module) { module.backward_sleep = std::min(module.backward_sleep, all); });
    }
    offer(number_modules);
    offer([](Scenario& s) { s.model.loss = {}; });
    offer([](Scenario& s) { s.model.loss.divisor = 1; });
    offer([](Scenario& s) { s.model.init_divisor = Model().init_divisor; });
    offer([](Scenario& s) { s.script.input_divisor = Script().input_divisor; });
    offer([](Scenario& s) { s.script.given.clear(); });
    offer([](Scenario& s) { s.script.keep_tensors = false; });
    for (std::size_t i = 0; i < from_.scenario.script.segments.size(); ++i) {
      for (std::size_t call = 0; call < from_.scenario.script.segments[i].body.size(); ++call) {
        offer([&](Scenario& s) { s.script.segments[i].body[call].module.clear(); });
        offer([&](Scenario& s) { s.script.segments[i].body[call].async = false; });
        offer([&](Scenario& s) { s.script.segments[i].body[call].fails_in.reset(); });
      }
    }
  }

  // -- The plan

  void groups() {
    const std::vector<WrapGroup>& wrap = from_.scenario.plan.wrap;
    for (std::size_t i = 0; i < wrap.size(); ++i) {
      offer([&](Scenario& s) { s.plan.wrap.erase(s.plan.wrap.begin() + static_cast<std::ptrdiff_t>(i)); });
      for (const std::string& path : wrap[i].modules) offer([&](Scenario& s) { std::erase(s.plan.wrap[i].modules, path); });
    }
    each_group([](WrapGroup& group) { group.reshard_after_forward = {}; });
    each_group([](WrapGroup& group) { group.forward_prefetch.clear(); });
    each_group([](WrapGroup& group) { group.backward_prefetch.clear(); });
    for (std::size_t i = 0; i < wrap.size(); ++i) {
      for (auto list : {&WrapGroup::forward_prefetch, &WrapGroup::backward_prefetch}) {
        for (const std::string& path : wrap[i].*list) offer([&](Scenario& s) { std::erase(s.plan.wrap[i].*list, path); });
      }
    }
  }

  void each_group(const std::function<void(WrapGroup&)>& change) {
    offer([&](Scenario& s) { std::ranges::for_each(s.plan.wrap, change); });
    for (std::size_t i = 0; i < from_.scenario.plan.wrap.size(); ++i) offer([&](Scenario& s) { change(s.plan.wrap[i]); });
  }

  void plan() {
    offer([](Scenario& s) { s.plan.mesh = {}; });
    offer([](Scenario& s) { s.plan.mixed_precision = {}; });
    offer([](Scenario& s) { s.plan.mixed_precision.param.reset(); });
    offer([](Scenario& s) { s.plan.mixed_precision.reduce.reset(); });
    offer([](Scenario& s) { s.plan.mixed_precision.output.reset(); });
    offer([](Scenario& s) { s.plan.mixed_precision.cast_forward_inputs = true; });
    offer([](Scenario& s) { s.plan.initialisation = Initialisation::direct; });
    offer([](Scenario& s) { s.plan.optimizer = {}; });
    offer([](Scenario& s) { s.plan.optimizer = {.kind = s.plan.optimizer.kind, .rate = s.plan.optimizer.rate}; });
    offer([](Scenario& s) { s.plan.gradient_divide_factor = 0; });
    offer([](Scenario& s) { s.plan.backward_prefetch = Plan().backward_prefetch; });
    offer([](Scenario& s) { s.plan.ignored_parameters.clear(); });
    for (const auto& [parameter, dim] : from_.scenario.plan.shard_dims) {
      offer([&name = parameter](Scenario& s) { s.plan.shard_dims.erase(name); });
    }
  }

  // -- Costs

  void costs() {
    offer([](Scenario& s) { s.costs = CostModel{.imagined_ranks = s.costs.imagined_ranks}; });
    offer([](Scenario& s) { s.costs.imagined_ranks = 0; });
    offer([](Scenario& s) { s.costs.single_stream = false; });
    offer([](Scenario& s) { s.costs.separate_resources = false; });
    offer([](Scenario& s) { s.costs.hide_undeclared_memory = false; });
    offer([](Scenario& s) { s.costs.host_call = 0; });
    offer([](Scenario& s) { s.costs.work.clear(); });
    offer([](Scenario& s) { s.costs.labelled_work.clear(); });
    offer([](Scenario& s) { s.costs.tagged_collectives.clear(); });
    each_entry(&CostModel::collectives);
    each_entry(&CostModel::work);
    each_entry(&CostModel::labelled_work);
    each_entry(&CostModel::tagged_collectives);
    for (const auto& [kind, cost] : from_.scenario.costs.collectives) {
      offer([&which = kind](Scenario& s) { s.costs.collectives[which].per_kib = 0; });
      offer([&which = kind](Scenario& s) {
        Nanoseconds& fixed = s.costs.collectives[which].fixed;
        fixed = std::min(fixed, Nanoseconds{1'000'000});
      });
    }
  }

  template <class Map>
  void each_entry(Map CostModel::* map) {
    for (const auto& [key, cost] : from_.scenario.costs.*map) {
      offer([&, &which = key](Scenario& s) { (s.costs.*map).erase(which); });
    }
  }

  const Staged& from_;
  const bool is_exact_;
  std::vector<Staged> variants_;
};

}  // namespace

std::vector<Staged> smaller(const Staged& staged) { return Variants(staged).all(); }

}  // namespace shardproof::scenario
