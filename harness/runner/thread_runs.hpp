// Runs the bodies of ranks that are threads of one process. Catch2 keeps the state of a running test once per process:
// results of assertions, and the messages in scope. This class replaces that state, and keeps one state for every rank.
// An assertion belongs to the rank whose thread runs it. No lock is held while an expression is evaluated: the
// expression may wait for peers that run assertions, too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/runner/body_run.hpp"

namespace shardproof::runner {

class ThreadRuns {
 public:
  /// Why this program cannot have ThreadRuns. Empty: it can. The program may be built with a Catch2 whose internals
  /// this class does not know.
  static std::string why_none();

  /// One per process, and never at the same time as a CatchRun. `seed` is the seed of Catch2's own random numbers.
  /// Throws std::runtime_error with `why_none()` if that is not empty.
  explicit ThreadRuns(std::uint32_t seed);
  ~ThreadRuns();

  /// For one thread. This object must outlive the runner.
  std::unique_ptr<BodyRunner> for_rank();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardproof::runner
