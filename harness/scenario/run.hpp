// What came of playing a scenario on one rank: its facts, and the questions that cases ask of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/device/platform.hpp"
#include "harness/protocol/trace.hpp"
#include "harness/scenario/iteration.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/subject/extension.hpp"
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
  Tensor shard, second, gradient;
};

struct TensorSize {
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const TensorSize&, const TensorSize&) = default;
};

/// One call of a hook of an all-gather extension, as the harness, whose extensions they are, has seen it.
struct HookCall {
  enum class Hook : std::uint8_t { pre, post } hook = Hook::pre;
  std::string parameter;
  int iteration = 0;
  std::string during;  ///< the script's call: `forward`, …; `create` before all of them
  std::vector<TensorSize> sizes;  ///< of what a pre hook has contributed, of what a post hook was given
  std::vector<Tensor> tensors;  ///< those themselves, in host memory; none where the script keeps none
  std::uint64_t metadata = 0;   ///< number of the pre call on this rank whose metadata it is, from 1; 0: there was none
  std::uint32_t stream = 0;
  const void* out = nullptr;  ///< post: what it was to write to; nullptr: it was to make a whole parameter
  DType param_dtype = DType::f32;  ///< post
  std::optional<ShardContext> context;  ///< pre, in the full form
};

/// What a collective was given; kept where the script asks for it.
struct Operand {
  CollectiveKind kind = CollectiveKind::all_gather;
  ReduceOp op = ReduceOp::none;
  std::string tag;
  std::vector<int> group;  ///< global ranks
  int iteration = 0;
  std::string during;
  Tensor in;  ///< in host memory
};

/// The values that one `capture` of the script has copied.
struct Capture {
  double loss = 0;
  std::vector<CapturedParameter> parameters;
};

class Run {
 public:
  /// What the player has noted while the engine ran.
  struct Notes {
    std::vector<Capture> captures;
    std::vector<HookCall> hook_calls;
    std::vector<Operand> operands;
    std::vector<std::string> warnings;
  };

  Run(Scenario scenario, Recording recording, Notes notes, std::size_t left_alive);

  const Scenario& scenario() const { return scenario_; }
  /// At virtual times, as all questions below are answered.
  const Trace& trace() const { return recording_.trace; }
  /// With what was measured beside it.
  const Recording& recording() const { return recording_; }
  /// All iterations of the script, in their order. The run must outlive them.
  std::vector<Iteration> iterations() const& { return scenario::iterations(trace(), scenario_.script); }
  std::vector<Iteration> iterations() const&& = delete;
  const std::vector<Capture>& captures() const { return notes_.captures; }
  const std::vector<HookCall>& hook_calls() const { return notes_.hook_calls; }  ///< in the order in which the host made them
  const std::vector<Operand>& operands() const { return notes_.operands; }
  const std::vector<std::string>& warnings() const { return notes_.warnings; }

  /// Which of its collectives run one at a time.
  trace::Resource resource() const;

  Nanoseconds total() const;
  std::vector<trace::Race> races() const;
  trace::Live peak(MemoryClass memory) const;
  std::size_t count(CollectiveKind kind) const;
  std::size_t left_alive() const { return left_alive_; }  ///< bytes that the engine had not released when it was gone

 private:
  Scenario scenario_;
  Recording recording_;
  Notes notes_;
  std::size_t left_alive_;
};

}  // namespace shardproof::scenario
