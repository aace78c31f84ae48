// The result of playing a scenario on one rank: its facts, and the functions by which cases query them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/device/platform.hpp"
#include "harness/player/callback.hpp"
#include "harness/player/iteration.hpp"
#include "harness/protocol/step_graph.hpp"
#include "harness/protocol/trace.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/trace/memory.hpp"
#include "harness/trace/pieces.hpp"
#include "harness/trace/races.hpp"

namespace shardproof {

/// A parameter's shard and its gradient on this rank when `capture` ran, in host memory.
struct CapturedParameter {
  std::string name;
  Shape shape;  ///< logical
  int dim = 0;  ///< the dimension along which `start` counts
  std::int64_t start = 0;
  Tensor shard, second, gradient;
};

/// The operand of a collective. Kept if the script asks for it.
struct Operand {
  CollectiveKind kind = CollectiveKind::all_gather;
  ReduceOp op = ReduceOp::none;
  std::string tag;
  std::vector<int> group;  ///< global ranks
  int iteration = 0;
  std::string during;
  Tensor in;  ///< in host memory
};

/// An engine's warning in a call of the script.
struct Warning {
  int iteration = 0;
  std::string call;  ///< `forward`, …; `create` before all calls
  std::string text;
  friend bool operator==(const Warning&, const Warning&) = default;
};
std::string to_string(const Warning& warning);

/// The values that one `capture` of the script has copied.
struct Capture {
  double loss = 0;
  std::vector<CapturedParameter> parameters;
  int iteration = 0;
};

/// The sharded gradients of one rank just before a `clip_grad_norm`.
struct ClippedGradients {
  int iteration = 0;
  double max_norm = 0, norm_type = 2;
  struct Part {
    std::string name;
    std::int64_t start = 0;
    /// The sum of |g| to the power of `norm_type` over its elements. With an infinite type, the largest |g|.
    double power = 0;
  };
  std::vector<Part> parts;
};

/// The passes that an engine had compiled and played, from the end of the previous backward to the end of this one.
struct CompiledStep {
  int iteration = 0;
  int backward = 1;  ///< of this iteration: 1 is its first
  /// Well formed. Equal steps of a run share them.
  std::shared_ptr<const std::vector<StepGraph>> graphs;
};

class Run {
 public:
  /// The player's notes while the engine ran.
  struct Notes {
    std::vector<Capture> captures;
    std::vector<Callback> callbacks;
    std::vector<Operand> operands;
    std::vector<Warning> warnings;
    std::vector<Warning> refusals;
    std::vector<CompiledStep> compiled_steps;
    std::vector<ClippedGradients> clipped;
  };

  Run(Scenario scenario, Recording recording, Notes notes, std::size_t left_alive);

  const Scenario& scenario() const { return scenario_; }
  /// The facts at virtual times. All queries below use them.
  const Trace& trace() const { return recording_.trace; }
  /// The whole recording, with the times that a clock measured.
  const Recording& recording() const { return recording_; }
  /// All iterations of the script, in their order. The run must outlive them.
  std::vector<Iteration> iterations() const& { return shardproof::iterations(trace(), scenario_.script); }
  std::vector<Iteration> iterations() const&& = delete;
  const std::vector<Capture>& captures() const { return notes_.captures; }
  /// In the order in which the engine's host thread made them.
  const std::vector<Callback>& callbacks() const { return notes_.callbacks; }
  /// The run must outlive the result.
  std::vector<const Callback*> callbacks(const CallbackFilter& filter) const& { return select(callbacks(), filter); }
  std::vector<const Callback*> callbacks(const CallbackFilter& filter) const&& = delete;
  std::size_t count_callbacks(const CallbackFilter& filter) const { return shardproof::count(callbacks(), filter); }
  std::vector<std::string> callback_names(const CallbackFilter& filter) const { return names(callbacks(), filter); }
  const std::vector<Operand>& operands() const { return notes_.operands; }
  const std::vector<Warning>& warnings() const { return notes_.warnings; }
  /// The refusals that the script planned, with the engine's texts.
  const std::vector<Warning>& refusals() const { return notes_.refusals; }

  /// One for each backward of an engine that compiles its step. Empty for other engines.
  const std::vector<CompiledStep>& compiled_steps() const { return notes_.compiled_steps; }

  /// One for each `clip_grad_norm` of this rank. Empty if the play did not note them.
  const std::vector<ClippedGradients>& clipped() const { return notes_.clipped; }

  /// Tells which collectives of the run run one at a time.
  trace::Resource resource() const;

  Nanoseconds total() const;
  std::vector<trace::Race> races() const;
  trace::Live peak(MemoryClass memory) const;
  std::size_t count(CollectiveKind kind) const;
  /// Bytes that the engine had not released when it was destroyed.
  std::size_t left_alive() const { return left_alive_; }

 private:
  Scenario scenario_;
  Recording recording_;
  Notes notes_;
  std::size_t left_alive_;
};

}  // namespace shardproof
