#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/generator/alterations.hpp"
#include "harness/scenario/generator/engine_generator.hpp"

namespace shardproof::scenario {

namespace {

// Changes the children that choices run. Both the path of the choice and the name of its child may change.
void change_ways(std::map<std::string, std::string>& ways, const std::function<void(std::string&)>& change) {
  for (auto& [choice, child] : std::exchange(ways, {})) {
    std::string renamed = choice, way = child_path(choice, child);
    change(renamed);
    change(way);
    const bool stays = is_at_or_under(way, renamed) && way != renamed;
    ways.emplace(renamed, stays ? way.substr(renamed.empty() ? 0 : renamed.size() + 1) : child);
  }
}

// Changes every path in the document, except the paths of tied or used modules.
void change_paths(Scenario& scenario, const std::function<void(std::string&)>& change) {
  engine_generator(scenario.plan).rename(scenario.plan, change);
  const auto labels = [&](auto& costs) {
    for (auto& [key, cost] : std::exchange(costs, {})) {
      auto changed = key;
      change(changed.second);
      costs.emplace(std::move(changed), cost);
    }
  };
  labels(scenario.costs.tagged_collectives);
  labels(scenario.costs.labelled_work);
  for (Script::Segment& segment : scenario.script.segments) {
    for (Action& action : segment.body) {
      change(action.module);
      if (action.fails_in) change(*action.fails_in);
      change_ways(action.paths, change);
      if (action.extension && !action.extension->parameter.empty()) change(action.extension->parameter);
    }
  }
}

void change_under(Module& module, const std::string& path,
                  const std::function<void(Module&, const std::string&)>& change) {
  for (Module& child : module.children) change_under(child, child_path(path, child.name), change);
  change(module, path);
}

}  // namespace

void change_modules(Module& module, const std::function<void(Module&)>& change) {
  change(module);
  for (Module& child : module.children) change_modules(child, change);
}

void change_modules_at(Module& root, const std::function<void(Module&, const std::string&)>& change) {
  change_under(root, "", change);
}

void put_children_in_place(Scenario& scenario, const std::string& path) {
  const Module container = *find(scenario.model, path);
  const std::string parent = path.substr(0, path.size() - std::min(path.size(), container.name.size() + 1));
  const bool is_only = container.children.size() == 1;
  const auto name_of = [&](const Module& child) {
    return is_only ? container.name : container.name + "_" + child.name;
  };
  const auto rename = [&](std::string& text) {
    for (const Module& child : container.children) {
      const std::string old = child_path(path, child.name);
      if (!is_at_or_under(text, old)) continue;
      text = child_path(parent, name_of(child)) + text.substr(old.size());
      return;
    }
  };
  change_modules_at(scenario.model.root, [&](Module& module, const std::string& at) {
    rename(module.tied_to);
    rename(module.target);
    if (at != parent) return;
    const auto place = std::ranges::find(module.children, container.name, &Module::name);
    std::vector<Module> children = std::move(place->children);
    for (Module& child : children) child.name = name_of(child);
    module.children.insert(module.children.erase(place), children.begin(), children.end());
  });
  change_paths(scenario, rename);
}

void number_modules(Scenario& scenario) {
  std::map<std::string, std::string> numbered;  // new paths by old ones
  const auto visit_numbered = [&](auto&& self, const Module& module, const std::string& path,
                                  const std::string& renamed) -> void {
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

}  // namespace shardproof::scenario
