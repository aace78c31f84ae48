// A last module that changes no value, no collective and no memory. A case with this module plays its scenario in
// combination with a discarded module.
#pragma once

#include "harness/cases/ranked_test_case.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof::suites {

/// Declares that a case is also played with a discarded module: `[last_module=discarded]`.
inline options::Also also_with_discarded_module() { return also("last_module", "discarded", Feature::module_groups); }

/// Appends the module to the model's root, which must be sequential, if the case's parameter says so. The module is a
/// residual whose output is discarded. It runs on the compute stream, so cases that check times must not use it.
Scenario with_last_module(const Rank& rank, Scenario scenario);

}  // namespace shardproof::suites
