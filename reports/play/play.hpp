// What came of playing a scenario, as a person or a program reads it. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "harness/protocol/play_result.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

/// `{totals_ns: {forward, forward_backward, exposed, total}, iterations_ns: […], ranks: [{rank, spans, collectives, iterations, warnings,
/// hooks, refusals, compiled_steps?, plans?}]}`. An engine that compiles its step also has `compiled` in each iteration.
/// Totals are those of the first iteration and, for `total`, of the whole; each is the slowest rank's. Values of tensors are bits in
/// hexadecimal digits, as in the golden files; that of a loss are those of an f32. All times are virtual, but for `measured_ns` where there
/// was anything to measure in this `world`; `times` says then where it comes from, `unfit_for_timing` why it says nothing.
nlohmann::ordered_json to_json(std::span<const PlayResult> ranks, const WorldResult& world);

/// Times, where measured ones come from, the order of collectives, calls of gradient hooks, and a timeline that fits into `width`
/// columns; ranks that did the same are shown once.
std::string to_text(std::span<const PlayResult> ranks, const WorldResult& world, int width);

}  // namespace shardproof::reports
