// Alterations of a scenario that keep its parts together: a renamed module gets its new name in all parts. Inner
// header.
#pragma once

#include <functional>
#include <string>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// Calls `change` with every module.
void change_modules(Module& module, const std::function<void(Module&)>& change);
/// Calls `change` with every module and its path before any change. The root is last.
void change_modules_at(Module& root, const std::function<void(Module&, const std::string&)>& change);

/// Replaces the container by its children, which are named after it.
void put_children_in_place(Scenario& scenario, const std::string& container);
/// Names each module by its position among its siblings. Equal parts of two scenarios then have equal names.
void number_modules(Scenario& scenario);

/// Removes parts that have lost their meaning: groups of removed modules, costs of such groups, and a mesh of another
/// number of ranks.
void drop_what_is_lost(Scenario& scenario, int ranks);

}  // namespace shardproof::scenario
