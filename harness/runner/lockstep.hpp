// All ranks take the plan's cases one after the other, together: they agree to start one, run its body, agree on its end.
#pragma once

#include <span>
#include <string>

#include "harness/cases/bound_case.hpp"
#include "harness/runner/body_run.hpp"
#include "harness/world/world.hpp"

namespace shardproof {

/// Runs the cases of the world's plan, which must all be among `cases`, their bodies by `runner`. Each rank tells its own stream what it did
/// and saw. Returns why no case can follow the last that has been run, the same on all ranks: one of them can run no other (its GPU is lost,
/// say); empty: all have been run. Throws Released when the world is doomed (the running case, if any, is then already written as released),
/// WorldMismatch when the ranks do not agree on which case is next, std::system_error when an event cannot be written.
std::string run_in_lockstep(World& world, std::span<const BoundCase> cases, BodyRunner& runner);

}  // namespace shardproof
