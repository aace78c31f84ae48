// The events of a run as JSON, for programs that follow the run (`run --message-format json`). Each event is one
// object, and one line of the output. docs/reports.md describes them. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "harness/protocol/world_plan.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

inline constexpr int events_version = 1;

struct PlannedRun {
  std::size_t worlds = 0, cases = 0;
  std::string directory;  ///< of the run
};

/// The place of a case in a world that has begun.
struct CasePlace {
  int world = 0;  ///< number of its folder
  std::uint64_t position = 0;  ///< in the world's plan, from 0
};

struct EndedWorld {
  int number = 0;
  std::size_t cases = 0;  ///< for which the world answers
  std::string cut_short;  ///< why it ended early; empty: it did not
  std::chrono::nanoseconds duration{0};
};

struct EndedRun {
  int exit_code = 0;
  int interrupted_by = 0;  ///< a signal; 0: none
  std::string error;  ///< why the run is incomplete; empty: no error
  std::string report;  ///< path of report.json; empty: it is not written
  std::chrono::nanoseconds duration{0};
};

nlohmann::ordered_json run_started_event(const RunHead& head, const PlannedRun& run);
nlohmann::ordered_json world_started_event(int number, const protocol::WorldPlan& plan);
/// `explanation`: why its world ended early, if it did. `place` is empty for a case whose world has not begun.
/// `revised`: an earlier event had another verdict for this place.
nlohmann::ordered_json case_finished_event(const CaseResult& result, const std::string& explanation,
                                           const std::optional<CasePlace>& place, bool revised);
nlohmann::ordered_json world_finished_event(const EndedWorld& world);
/// `summary` is the report's. Null: there is no report.
nlohmann::ordered_json run_finished_event(const EndedRun& run, const nlohmann::ordered_json& summary);

}  // namespace shardproof::reports
