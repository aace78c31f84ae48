// The results of playing a scenario, as text and as JSON. `play` and `explore` use it. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "harness/protocol/play_result.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

/// Writes `{totals_ns: {forward, forward_backward, exposed, total}, iterations_ns: […], compute_end_ns, gradient_norms:
/// […], ranks: [{rank, spans, collectives, iterations, warnings, hooks, refusals, compute_end, calls, compiled_steps?,
/// plans?}]}`. An engine that compiles its step also has `compiled` in each iteration.
///
/// Each element of `iterations_ns` also has `evaluate`, the times of its evaluates, and `micro_batches`, the phases of
/// each, if the iteration has any. `calls` are in the order of the host.
///
/// Totals are times of the first iteration, except `total`, which is the time of the whole. Each total is the slowest
/// rank's. Tensor values are bits in hexadecimal digits, as in the golden files. The bits of a loss are those of an
/// f32.
///
/// All times are virtual, except `measured_ns`, which exists if this `world` could measure. Then `times` names the
/// source of measured times, and `unfit_for_timing` says why they mean nothing, if they do.
nlohmann::ordered_json to_json(std::span<const protocol::PlayResult> ranks, const WorldResult& world);

/// Writes times, the source of measured times, the order of collectives, calls of gradient hooks, and a timeline that
/// fits into `width` columns. Ranks that did the same are shown once.
std::string to_text(std::span<const protocol::PlayResult> ranks, const WorldResult& world, int width);

}  // namespace shardproof::reports
