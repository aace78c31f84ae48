// What came of playing a scenario on one rank: its facts, and the questions that cases ask of them.
#pragma once

#include <string>
#include <vector>

#include "harness/device/platform.hpp"
#include "harness/protocol/trace.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/trace/memory.hpp"
#include "harness/trace/pieces.hpp"
#include "harness/trace/races.hpp"

namespace shardproof::scenario {

/// A parameter's shard and its gradient on this rank when `capture` ran; in host memory.
struct CapturedParameter {
  std::string name;
  Shape shape;  ///< logical
  int dim = 0;  ///< along which `start` counts
  std::int64_t start = 0;
  Tensor shard, gradient;
};

struct Iteration {
  double loss = 0;
  std::vector<CapturedParameter> parameters;
};

/// Times of the first forward of an iteration, and from its beginning to the end of the first backward.
Nanoseconds forward(const Trace& trace, int iteration = 0);
Nanoseconds forward_backward(const Trace& trace, int iteration = 0);

class Run {
 public:
  Run(Scenario scenario, Recording recording, std::vector<Iteration> iterations, std::vector<std::string> warnings, std::size_t left_alive);

  const Scenario& scenario() const { return scenario_; }
  /// At virtual times, as all questions below are answered.
  const Trace& trace() const { return recording_.trace; }
  /// With what was measured beside it.
  const Recording& recording() const { return recording_; }
  const std::vector<Iteration>& iterations() const { return iterations_; }  ///< those in which `capture` ran
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Which of its collectives run one at a time.
  trace::Resource resource() const;

  Nanoseconds forward(int iteration = 0) const { return scenario::forward(trace(), iteration); }
  Nanoseconds forward_backward(int iteration = 0) const { return scenario::forward_backward(trace(), iteration); }
  Nanoseconds total() const;
  Nanoseconds exposed(int iteration = 0) const;  ///< over forward and backward
  std::vector<trace::Race> races() const;
  trace::Live peak(MemoryClass memory) const;
  std::size_t count(CollectiveKind kind) const;
  std::size_t left_alive() const { return left_alive_; }  ///< bytes that the engine had not released when it was gone

 private:
  Scenario scenario_;
  Recording recording_;
  std::vector<Iteration> iterations_;
  std::vector<std::string> warnings_;
  std::size_t left_alive_;
};

/// The marks that a player sets around each call: `iter 0 forward`, `iter 0 forward end`, …; `iter 0 forward (2)` when the iteration makes
/// the call a second time. A forward that is to fail counts apart: `iter 0 failing forward`.
std::string mark(int iteration, std::string_view call, bool end = false, int occurrence = 1);
std::string mark(int iteration, ActionKind action, bool end = false, int occurrence = 1);

}  // namespace shardproof::scenario
