// PlayResult is one rank's result of a scenario that it played outside any suite: times, values and facts.
// `shardproof play` prints it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/step_graph.hpp"
#include "harness/protocol/trace.hpp"

namespace shardproof::protocol {

/// One rank's part of a tensor. `bits` has 2 hexadecimal digits per byte. Elements are row-major, and each has its most
/// significant digit first.
struct PlayedTensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< Shape of the part.
  int dim = 0;  ///< Dimension along which the tensor is divided.
  std::int64_t start = 0;  ///< First index of the part in the whole tensor.
  DType dtype = DType::f32;
  std::string bits;
};

/// The values that were captured after an iteration's step.
struct PlayedIteration {
  int iteration = 0;  ///< Number in the script.
  /// Travels as its bits, because JSON has no infinity, no NaN and no negative zero.
  float loss = 0;
  std::vector<PlayedTensor> gradients, parameters;
  /// The second tensors of parameters that are pairs. Their first tensors are in `parameters`.
  std::vector<PlayedTensor> seconds;
};

/// Times of one iteration, or of one of its micro-batches, on the compute stream. None for a phase that the script does
/// not have.
struct PhaseTimes {
  std::optional<Nanoseconds> forward, forward_backward, exposed;
  /// An iteration with several micro-batches has their times, in their order. A micro-batch has none.
  std::vector<PhaseTimes> micro_batches;
};

/// The phases and the trace of a play, by one clock.
struct PlayTimes {
  Nanoseconds total = 0;
  std::vector<PhaseTimes> phases;  ///< for every iteration
  Trace trace;
};

/// One call of a gradient hook of the script.
struct PlayedHookCall {
  int iteration = 0;
  std::string during;  ///< call of the script
  std::string hook, point;
  std::uint64_t state = 0;  ///< state that the engine passed to the hook
  std::string label;  ///< label of the group or parameter
  std::int64_t count = 0;  ///< elements of the gradient
  DType dtype = DType::f32;
  /// Number of the collective that the hook issued, among the collectives of the rank, from 0.
  std::optional<std::size_t> collective;
};

/// One rank's sharded gradients just before a `clip_grad_norm`.
struct PlayedClip {
  int iteration = 0;
  double max_norm = 0, norm_type = 2;
  /// A part of a parameter. Ranks with copies of one part have the same name and start.
  struct Part {
    std::string name;
    std::int64_t start = 0;
    double power = 0;  ///< the sum of |g| to the power of `norm_type`; with an infinite type, the largest |g|
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::vector<Part> parts;
};

/// The plan that an engine played at one backward.
struct PlayedStep {
  int iteration = 0;  ///< number in the script
  int backward = 1;  ///< number within this iteration; 1 is its first
  std::size_t plan = 0;  ///< place in the rank's `plans`
  friend bool operator==(const PlayedStep&, const PlayedStep&) = default;
};

struct PlayResult {
  int rank = 0;
  PlayTimes times;  ///< Virtual times.
  std::optional<PlayTimes> measured;  ///< Real times, where there was anything to measure.
  std::vector<PlayedIteration> iterations;  ///< The captured iterations.
  std::vector<std::string> warnings;  ///< Warnings of the subject.
  std::vector<PlayedHookCall> hook_calls;  ///< In the order of the host.
  std::vector<std::string> refusals;  ///< Refused registrations, as the script planned.
  std::vector<PlayedClip> clips;
  /// The numbers of the micro-batches that the script's calls name, by call in the order of the host. Empty: the script
  /// has no micro-batches.
  std::vector<int> micro_batches;
  std::vector<PlayedStep> compiled_steps;  ///< Only from an engine that compiles its step.
  std::vector<std::vector<StepGraph>> plans;  ///< The compiled plans, each once.
};

/// The bits of a value, in the form of a tensor's bits: `bfc00000`.
std::string bits_of(float value);

void to_json(nlohmann::ordered_json& json, const PlayResult& result);
/// Throws std::invalid_argument, which names the field.
void from_json(const nlohmann::ordered_json& json, PlayResult& result);

}  // namespace shardproof::protocol
