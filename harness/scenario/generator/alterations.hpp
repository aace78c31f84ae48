// Alterations of a scenario that keep its parts together: what is renamed is so wherever it is named.
#pragma once

#include <functional>
#include <string>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// Calls `change` with every module.
void change_modules(Module& module, const std::function<void(Module&)>& change);
/// Calls it with every module and its path, as it was before any change; the root last.
void change_modules_at(Module& root, const std::function<void(Module&, const std::string&)>& change);

/// Puts the children of the container in its place, named after it.
void put_children_in_place(Scenario& scenario, const std::string& container);
/// Modules go by their places among their siblings: what is alike in two scenarios then has the same names.
void number_modules(Scenario& scenario);

/// Takes out what stands for nothing any more: groups of modules that are gone, costs of such groups, a mesh of another number of ranks.
void drop_what_is_lost(Scenario& scenario, int ranks);

}  // namespace shardproof::scenario
