// Runs the bodies of ranks that are threads of one process. Catch2 keeps what it knows of a running test in one place for the whole process:
// assertions say there what they found, messages lie there while they are in scope. This stands in its place and keeps a place for every
// rank instead: an assertion belongs to the rank whose thread it runs in. Nothing is locked while an expression is evaluated, which may wait
// for peers that assert something themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/runner/body_run.hpp"

namespace shardproof {

class ThreadRuns {
 public:
  /// Why there can be none; empty where there can. A program may be built with a Catch2 whose inside is not known here.
  static std::string why_none();

  /// One per process, and no CatchRun beside it. `seed` is of Catch2's own random numbers. Throws std::runtime_error where there can be
  /// none.
  explicit ThreadRuns(std::uint32_t seed);
  ~ThreadRuns();

  /// To be used by one thread, as long as this lives.
  std::unique_ptr<BodyRunner> for_rank();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardproof
