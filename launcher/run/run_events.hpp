// Prints what happens in a run as JSON lines, for programs (`run --message-format json`). Each event is one line, and
// is written as it happens. The last event is always the end of the run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/run/records.hpp"
#include "launcher/terminal/live_view.hpp"
#include "reports/export/run_events.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

class RunEvents {
 public:
  /// `print` gets each line, and does not block.
  explicit RunEvents(std::function<void(std::string_view line)> print) : print_(std::move(print)) {}

  void run_started(const reports::RunHead& head, std::size_t worlds, std::size_t cases,
                   const protocol::RunDirectory& directory);
  void world_started(int number, const protocol::WorldPlan& plan);
  /// Prints the cases of a running world soon after they have ended. Borrows all arguments until the world has ended.
  LiveView view(int number, const protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                const CaseIndex& index, const reports::RunHead& head);
  /// `results`: the cases for which the world answers, in the order of its plan.
  void world_ended(int number, std::span<const reports::CaseResult> results, const std::string& explanation,
                   const std::string& cut_short, std::chrono::nanoseconds duration);
  /// The run has its report. Prints the other cases, and the end of worlds that an error has ended: `why`. `file` is
  /// empty if the report is not written.
  void report_made(const reports::Report& report, const std::string& file, const std::string& why);
  /// The last event. Without a report, the run ended before it had one, because of `error`.
  void run_ended(int exit_code, int interrupted_by, const std::string& error);

 private:
  using Place = std::pair<int, std::uint64_t>;  ///< a world, and a position in its plan
  struct CaseEvent {
    std::string id;
    int attempt = 0;
    reports::Verdict verdict = reports::Verdict::not_run;
    bool is_waived = false;
    friend bool operator==(const CaseEvent&, const CaseEvent&) = default;
  };

  void print(const nlohmann::ordered_json& event);
  void case_ended(const Place& place, const reports::CaseResult& result, const std::string& explanation);

  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::function<void(std::string_view)> print_;
  std::set<int> running_, ended_;  ///< worlds
  /// The last event of each case of a running world, or of a world that an error has ended.
  std::map<Place, CaseEvent> printed_;
  nlohmann::ordered_json summary_;  ///< of the report; null: none yet
  std::string report_;
};

}  // namespace shardproof::launcher
