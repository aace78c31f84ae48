#include "reports/export/run_events.hpp"

#include <nlohmann/json.hpp>

#include "reports/export/exported_cases.hpp"
#include "reports/export/verdict_text.hpp"
#include "reports/model/text_or_null.hpp"

namespace shardproof::reports {

using nlohmann::ordered_json;

namespace {

/// The first cause of a bad case, and its place in the source. Null for every other case.
ordered_json failure_of(const CaseResult& result, const std::string& explanation) {
  if (!is_bad(result.verdict)) return nullptr;
  const SourcePlace place = place_of(result);
  return {{"message", cause_line(result, explanation)},
          {"file", text_or_null(place.file)},
          {"line", place.line > 0 ? ordered_json(place.line) : ordered_json(nullptr)}};
}

}  // namespace

ordered_json run_started_event(const RunHead& head, const PlannedRun& run) {
  return {{"event", "run_started"},
          {"events_version", events_version},
          {"run_id", head.run_id},
          {"started", head.started},
          {"suite_version", head.suite_version},
          {"subject", head.subject},
          {"seed", head.seed},
          {"worlds", run.worlds},
          {"cases", run.cases},
          {"directory", run.directory}};
}

ordered_json world_started_event(int number, const protocol::WorldPlan& plan) {
  return {{"event", "world_started"}, {"world", number},         {"ranks", plan.size},        {"fabric", plan.fabric},
          {"device", plan.device},    {"attempt", plan.attempt}, {"cases", plan.cases.size()}};
}

ordered_json case_finished_event(const CaseResult& result, const std::string& explanation,
                                 const std::optional<CasePlace>& place, bool revised) {
  return {{"event", "case_finished"},
          {"world", place ? ordered_json(place->world) : ordered_json(nullptr)},
          {"position", place ? ordered_json(place->position) : ordered_json(nullptr)},
          {"id", result.info.id},
          {"attempt", result.attempt},
          {"verdict", to_string(result.verdict)},
          {"waived", result.waiver >= 0},
          {"revised", revised},
          {"duration_ns", result.duration_ns},
          {"failure", failure_of(result, explanation)},
          {"reason", result.verdict == Verdict::skipped ? ordered_json(skip_text(result)) : ordered_json(nullptr)}};
}

ordered_json world_finished_event(const EndedWorld& world) {
  return {{"event", "world_finished"},
          {"world", world.number},
          {"cases", world.cases},
          {"ended_early", text_or_null(world.cut_short)},
          {"duration_ns", world.duration.count()}};
}

ordered_json run_finished_event(const EndedRun& run, const ordered_json& summary) {
  return {{"event", "run_finished"},
          {"exit_code", run.exit_code},
          {"interrupted_by", run.interrupted_by == 0 ? ordered_json(nullptr) : ordered_json(run.interrupted_by)},
          {"error", text_or_null(run.error)},
          {"report", text_or_null(run.report)},
          {"summary", summary},
          {"duration_ns", run.duration.count()}};
}

}  // namespace shardproof::reports
