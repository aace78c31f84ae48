#include "launcher/run/run_events.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "harness/base/json_text.hpp"
#include "launcher/run/finished_cases.hpp"

namespace shardproof::launcher {

void RunEvents::print(const nlohmann::ordered_json& event) { print_(base::dump_line(event) + "\n"); }

void RunEvents::run_started(const reports::RunHead& head, std::size_t worlds, std::size_t cases,
                            const protocol::RunDirectory& directory) {
  print(reports::run_started_event(
      head, {.worlds = worlds, .cases = cases, .directory = std::filesystem::absolute(directory.root).string()}));
}

void RunEvents::world_started(int number, const protocol::WorldPlan& plan) {
  running_.insert(number);
  print(reports::world_started_event(number, plan));
}

LiveView RunEvents::view(int number, const protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                         const CaseIndex& index, const reports::RunHead& head) {
  const auto cases = std::make_shared<FinishedCases>(plan, directory, index, head);
  return {.interval = std::chrono::milliseconds(100), .show = [this, number, cases](const control::ControlPlane& page) {
            cases->update(page, [&](std::uint64_t position, const reports::CaseResult& result) {
              case_ended({number, position}, result, {});
            });
          }};
}

void RunEvents::case_ended(const Place& place, const reports::CaseResult& result, const std::string& explanation) {
  const CaseEvent event{
      .id = result.info.id, .attempt = result.attempt, .verdict = result.verdict, .is_waived = result.waiver >= 0};
  const auto [printed, is_new] = printed_.try_emplace(place, event);
  if (!is_new && printed->second == event) return;
  printed->second = event;
  print(reports::case_finished_event(result, explanation,
                                     reports::CasePlace{.world = place.first, .position = place.second}, !is_new));
}

void RunEvents::world_ended(int number, std::span<const reports::CaseResult> results, const std::string& explanation,
                            const std::string& cut_short, std::chrono::nanoseconds duration) {
  for (std::size_t position = 0; position < results.size(); ++position)
    case_ended({number, position}, results[position], explanation);
  running_.erase(number);
  ended_.insert(number);
  std::erase_if(printed_, [number](const auto& one) { return one.first.first == number; });
  print(reports::world_finished_event(
      {.number = number, .cases = results.size(), .cut_short = cut_short, .duration = duration}));
}

void RunEvents::report_made(const reports::Report& report, const std::string& file, const std::string& why) {
  for (const reports::CaseResult& result : report.cases) {
    const reports::WorldResult& world = report.worlds.at(static_cast<std::size_t>(result.world));
    if (ended_.contains(world.number)) continue;
    const auto printed = std::ranges::find_if(printed_, [&](const auto& one) {
      return one.second.id == result.info.id && one.second.attempt == result.attempt;
    });
    if (printed == printed_.end()) {
      print(reports::case_finished_event(result, world.explanation, std::nullopt, false));
    } else {
      case_ended(printed->first, result, world.explanation);
      printed_.erase(printed);
    }
  }
  for (const int number : running_)
    print(reports::world_finished_event({.number = number, .cases = 0, .cut_short = why, .duration = {}}));
  running_.clear();
  summary_ = reports::summary_json(report);
  report_ = file.empty() ? file : std::filesystem::absolute(file).string();
}

void RunEvents::run_ended(int exit_code, int interrupted_by, const std::string& error) {
  print(reports::run_finished_event({.exit_code = exit_code,
                                     .interrupted_by = interrupted_by,
                                     .error = error,
                                     .report = report_,
                                     .duration = std::chrono::steady_clock::now() - started_},
                                    summary_));
}

}  // namespace shardproof::launcher
