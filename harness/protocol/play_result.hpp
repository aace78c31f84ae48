// What one rank leaves behind of a scenario that it has played outside any suite: times, values, facts. `shardproof play` prints it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/step_graph.hpp"
#include "harness/protocol/trace.hpp"

namespace shardproof {

/// One rank's part of a tensor; bits are 2 hexadecimal digits per byte, each element with its most significant digit first, row-major.
struct PlayedTensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of the part
  int dim = 0;                      ///< along which it is a part
  std::int64_t start = 0;           ///< where in the whole it begins
  DType dtype = DType::f32;
  std::string bits;
};

/// What was captured after an iteration's step.
struct PlayedIteration {
  int iteration = 0;  ///< of the script
  float loss = 0;  ///< travels as its bits: JSON has no infinity, no NaN, and no zero below zero
  std::vector<PlayedTensor> gradients, parameters;
  std::vector<PlayedTensor> seconds;  ///< of parameters that are pairs, whose first tensors stand in `parameters`
};

/// Times of one iteration on the compute stream; none for a phase that the script does not have.
struct PhaseTimes {
  std::optional<Nanoseconds> forward, forward_backward, exposed;
};

/// What was done, by one clock.
struct PlayTimes {
  Nanoseconds total = 0;
  std::vector<PhaseTimes> phases;  ///< of every iteration
  Trace trace;
};

/// One call of a gradient hook of the script.
struct PlayedHookCall {
  int iteration = 0;
  std::string during;  ///< the script's call
  std::string hook, point;
  std::uint64_t state = 0;  ///< that the engine passed to it
  std::string label;        ///< of the group or parameter
  std::int64_t count = 0;   ///< elements of the gradient
  DType dtype = DType::f32;
  std::optional<std::size_t> collective;  ///< that it issued: its number among the collectives of the rank, from 0
};

/// The plan that an engine played at one backward.
struct PlayedStep {
  int iteration = 0;     ///< of the script
  int backward = 1;      ///< of this iteration: 1 is its first
  std::size_t plan = 0;  ///< its place in the rank's `plans`
  friend bool operator==(const PlayedStep&, const PlayedStep&) = default;
};

struct PlayResult {
  int rank = 0;
  PlayTimes times;                          ///< virtual
  std::optional<PlayTimes> measured;        ///< where there was anything to measure
  std::vector<PlayedIteration> iterations;  ///< of those that were captured
  std::vector<std::string> warnings;        ///< of the subject
  std::vector<PlayedHookCall> hook_calls;   ///< in the order of the host
  std::vector<std::string> refusals;        ///< of registrations, as the script planned
  std::vector<PlayedStep> compiled_steps;   ///< of an engine that compiles its step
  std::vector<std::vector<StepGraph>> plans;  ///< that it compiled, each once
};

/// As those of a tensor: `bfc00000`.
std::string bits_of(float value);

void to_json(nlohmann::ordered_json& json, const PlayResult& result);
/// Throws std::invalid_argument that names the field.
void from_json(const nlohmann::ordered_json& json, PlayResult& result);

}  // namespace shardproof
