// A module that changes nothing: no value, no collective and no memory. A case asks for it, and so plays its scenario where features meet.
#pragma once

#include "harness/cases/ranked_test_case.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof::suites {

/// Declares that a case is also played with a discarded module: `[last_module=discarded]`.
inline options::Also also_with_discarded_module() { return also("last_module", "discarded", Feature::module_groups); }

/// Appends the module that the case asks for to the model's root, which must be sequential. The module is a residual whose output is
/// discarded. It runs on the compute stream, so cases that check times must not ask for it.
scenario::Scenario with_last_module(const Rank& rank, scenario::Scenario scenario);

}  // namespace shardproof::suites
