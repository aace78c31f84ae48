// Scenarios for the engine with flat parameters: models, scripts and options, and the checks of a run.
#pragma once

#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/plan/flat_shard.hpp"
#include "suites/checks/flat_shard.hpp"
#include "tests/engines/serial_comparison.hpp"

namespace shardproof::testing {

using FlatModel = Module (*)();

inline Module layer(std::string name, std::int64_t in, std::int64_t out, bool bias = true) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out, .bias = bias};
}

inline Module holder(ModuleKind kind, std::string name, std::vector<Module> children) {
  return {.name = std::move(name), .kind = kind, .children = std::move(children)};
}

inline Module activation(std::string name) { return {.name = std::move(name), .kind = ModuleKind::relu}; }

/// The models differ only in their modules. Their input is [2, 3], and each layer has few features.
inline Scenario flat_scenario(std::vector<Module> children, std::vector<std::string> wrap) {
  Scenario scenario;
  scenario.model.root.children = std::move(children);
  scenario.model.loss = {.kind = LossKind::dot};
  scenario.model.init_divisor = scenario.script.input_divisor = 4;
  flat_shard_plan(scenario.plan).wrap = std::move(wrap);
  scenario.plan.optimizer.rate = 0.015625;
  scenario.script.input = {2, 3};
  return scenario;
}

inline Action sync(bool on) { return {.kind = ActionKind::set_requires_gradient_sync, .value = on}; }

/// The checks of every run: no race, no memory alive at the end, exactly the planned collectives, whole units as the
/// strategy says, and the values of the serial model. Returns the number of captures that were compared in double
/// precision, too.
inline std::size_t check_flat_run(const Scenario& scenario, int ranks) {
  validate(scenario);
  const std::vector<Run> runs = played(scenario, ranks);
  const auto planned = suites::flat_shard_checks().planned(scenario, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Run& run = runs[static_cast<std::size_t>(rank)];
    CAPTURE(rank);
    for (const trace::Race& race : run.races()) FAIL_CHECK(trace::describe(race));
    CHECK(run.left_alive() == 0);
    suites::flat_shard_checks().check_nothing_gathered_twice(run);
    for (const suites::MemoryCheck check :
         {suites::MemoryCheck::nothing_left, suites::MemoryCheck::whole_after_forward})
      suites::flat_shard_checks().check_memory(run, ranks, check);
    for (const Iteration& iteration : run.iterations()) {
      CAPTURE(iteration.index());
      const suites::Communication& asked = planned.at(static_cast<std::size_t>(iteration.index()));
      const suites::Communication done = suites::issued(suites::flat_shard_checks(), iteration);
      CHECK(done.all_gathers >= asked.all_gathers);
      if (!suites::may_gather_in_vain(scenario)) CHECK(done.all_gathers == asked.all_gathers);
      CHECK(done.reduce_scatters == asked.reduce_scatters);
      CHECK(done.all_reduces == asked.all_reduces);
    }
  }
  check_exact(scenario, runs, oracles::Arithmetic::f32);
  // If nothing is rounded to f32, double precision has the same values.
  if (!std::has_single_bit(static_cast<unsigned>(ranks))) return 0;
  const auto in_single = oracles::train_serially(scenario, ranks, oracles::Arithmetic::f32);
  const auto exact = static_cast<std::size_t>(
      std::ranges::count_if(in_single, &std::string::empty, &oracles::SerialIteration::order_shows));
  if (exact > 0) check_exact(scenario, runs, oracles::Arithmetic::f64, exact);
  return exact;
}

}  // namespace shardproof::testing
