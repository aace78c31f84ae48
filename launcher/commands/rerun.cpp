#include "launcher/commands/rerun.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <string_view>

#include "harness/protocol/world_plan.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/foreign_command.hpp"
#include "reports/export/command_line_words.hpp"

namespace shardproof::launcher {
namespace {

using Words = std::vector<std::string>;

Words given(const Words& argv, std::string_view option) {
  return reports::words_given(argv, std::span(&option, 1), {});
}

bool has_flag(const Words& argv, std::string_view flag) {
  return !reports::words_given(argv, {}, std::span(&flag, 1)).empty();
}

}  // namespace

Words options_of_run(const reports::Report& report, const Words& argv, bool chooses_placement) {
  Words words;
  const auto take = [&](std::string_view option) {
    if (given(argv, option).empty()) std::ranges::copy(given(report.head.argv, option), std::back_inserter(words));
  };
  const auto take_flag = [&](std::string_view flag) {
    if (has_flag(report.head.argv, flag) && !has_flag(argv, flag)) words.emplace_back(flag);
  };
  if (!report.head.fault.empty() && given(argv, "--fault").empty())
    words.insert(words.end(), {"--fault", report.head.fault});
  for (const std::string_view option : {"--worker", "--subject", "--timeout", "--waivers", "--nccl-faults"})
    take(option);
  take_flag("--nccl-tap");
  if (chooses_placement || report.worlds.empty()) return words;
  if (const Words launcher = given(report.head.argv, "--launcher"); !launcher.empty()) {
    take("--launcher");
    take("--join-timeout");
    take("--host-silence");
    if (launcher.back().find(ranks_word) == std::string::npos) take("--ranks");  // the one size that it starts
  }
  take("--scheduler");
  const reports::WorldResult& world = report.worlds.front();
  // A case that needs threads asks for them again by itself.
  const bool is_fabric_of_run = world.fabric != protocol::thread_fabric || !given(report.head.argv, "--fabric").empty();
  if (world.device == protocol::sim_device && (world.fabric == protocol::shm_fabric || !is_fabric_of_run)) return words;
  words.insert(words.end(), {"--device", world.device, "--fabric", world.fabric});
  for (const std::string_view option : reports::gpu_options) take(option);
  take_flag(reports::share_gpus_flag);
  return words;
}

std::vector<std::string> failed_cases(const reports::Report& report, const protocol::Listing& listing,
                                      const PlanOptions& options, const std::filesystem::path& named) {
  std::set<std::string> failed;
  for (const reports::CaseResult& result : report.cases) {
    if (!result.superseded && reports::is_bad(result.verdict)) failed.insert(result.info.id);
  }
  if (failed.empty())
    throw CommandError(usage, fmt::format("--rerun-failed {}: no case of it ended badly", named.string()));
  std::vector<std::string> again;
  for (const protocol::CaseInfo& info : matching_cases(listing, options.filters, options.named_worker)) {
    if (failed.contains(info.id)) again.push_back(info.id);
  }
  if (again.empty()) {
    throw CommandError(
        usage,
        fmt::format("--rerun-failed {}: none of the {} cases that ended badly there is among the selected ones, as {}",
                    named.string(), failed.size(), *failed.begin()));
  }
  return again;
}

}  // namespace shardproof::launcher
