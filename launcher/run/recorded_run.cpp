#include "launcher/run/recorded_run.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/base/input_file.hpp"
#include "harness/base/json_parse.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/machine.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {

using protocol::RunDirectory;
using protocol::WorldDirectory;
using protocol::WorldPlan;

namespace {

/// Names the unknown parts of a run without its head, and the user's next step.
constexpr std::string_view without_head =
    "the demands, the waivers and the worker of this run are unknown: restore it, or give `merge` --require, "
    "--max-skips and --waivers, and add --worker to the commands that it prints";

/// A sentence about a file of the run that cannot be used.
std::string unusable(const std::filesystem::path& file, const std::exception& error) {
  return fmt::format("{}: {}", file.string(), error.what());
}

}  // namespace

void require_run_directory(const std::filesystem::path& directory) {
  std::error_code unknown;
  if (std::filesystem::is_directory(directory, unknown)) return;
  const bool is_file = std::filesystem::exists(directory, unknown);
  const bool is_report = is_file && directory.filename() == RunDirectory{}.report();
  throw CommandError(usage,
                     fmt::format("{}: {}; name the directory that a run wrote{}", directory.string(),
                                 is_file ? "not a directory" : "no such directory",
                                 is_report ? ", " + std::filesystem::absolute(directory).parent_path().string() : ""));
}

std::optional<WorldDirectory> as_world(const std::filesystem::path& directory) {
  std::error_code unknown;
  const WorldDirectory world{directory};
  if (std::filesystem::exists(RunDirectory{directory}.worlds(), unknown)) return std::nullopt;
  const bool has_ranks = std::filesystem::is_directory(world.ranks(), unknown);
  if (has_ranks || base::is_there(world.endings())) return world;
  return std::nullopt;
}

RunDirectory run_of(const WorldDirectory& world) { return {world.root.parent_path().parent_path()}; }

RecordedRun::RecordedRun(RunDirectory run) : run_(std::move(run)), is_whole_(true) {
  try {
    planned_ = read_planned_worlds(run_);
  } catch (const std::runtime_error& error) {
    lose_plan(error.what());
  }
  const auto found = find_worlds(run_);
  for (const auto& [number, directory] : found) take_world(number, directory);
  find_links(found);
  if (is_own_run()) find_lost_files(found);
  assign_cases();
}

RecordedRun::RecordedRun(const WorldDirectory& world) : run_(run_of(world)), is_whole_(false) {
  take_world(world_number(world).value_or(0), world);
}

void RecordedRun::take_world(int number, const WorldDirectory& directory) {
  try {
    if (base::is_there(directory.plan())) keep(number, directory);
    else if (has_begun(directory))
      lose_plan(fmt::format("{} is missing: the results of this world are lost", directory.plan().string()));
  } catch (const std::runtime_error& error) {
    lose_plan(error.what());
  }
}

std::map<int, WorldDirectory> RecordedRun::worlds() const {
  std::map<int, WorldDirectory> directories;
  for (const auto& [number, world] : worlds_) directories.emplace(number, world.directory);
  return directories;
}

std::optional<protocol::Listing> RecordedRun::read_recorded_listing() {
  const std::filesystem::path file = listing_file(run_);
  if (!base::is_there(file)) return std::nullopt;
  try {
    return parse_listing(base::read_evidence(file));
  } catch (const std::exception& error) {
    merged_.defects.push_back(unusable(file, error));
    return std::nullopt;
  }
}

MergedRun RecordedRun::merge(const std::optional<protocol::Listing>& listing, const DemandOptions& demands) {
  const CaseIndex index = listing ? CaseIndex(listing->cases) : CaseIndex();
  std::optional<reports::Merger> merger;
  const auto open = [&](const WorldPlan& plan) -> reports::Merger& {
    if (merger) return *merger;
    reports::RunHead head = read_head(plan);
    apply_demands(head, demands, listing ? &*listing : nullptr);
    return merger.emplace(std::move(head));
  };
  for (const auto& [number, world] : worlds_) {
    reports::Merger& into = open(world.plan);
    try {
      add_recorded_world(into, world, index);
    } catch (const CommandError&) {
      throw;
    } catch (const std::runtime_error& error) {
      merged_.defects.push_back(error.what());
    }
  }
  std::vector<WorldPlan> lost;
  for (std::size_t number = 0; number < planned_.size(); ++number) {
    WorldPlan& plan = planned_[number];
    const auto first = begun_.find(static_cast<int>(number));
    if (first != begun_.end()) plan.cases.resize(first->second);
    if (!plan.skipped.empty()) add_skipped(open(plan), plan, index);
    else if (plan.cases.empty()) continue;
    else if (plan.fail_fast && open(plan).has_failed_fast()) add_left_out(open(plan), plan, index);
    else lost.push_back(std::move(plan));
  }
  for (std::size_t i = 0; i < lost.size(); ++i) {
    const bool is_numbered = lost.size() == lost_numbers_.size();  // else some of these worlds have never begun
    open(lost[i]).lose_world(lost[i], index.find(lost[i].cases),
                             "nothing of it can be read: its ranks never started, or its folder is lost",
                             is_numbered ? std::optional(lost_numbers_[i]) : std::nullopt);
  }
  if (merger) merged_.report = merger->finish();
  return std::move(merged_);
}

void RecordedRun::add_recorded_world(reports::Merger& merger, const RecordedWorld& world, const CaseIndex& index) {
  add_world(merger, world.plan, index, evidence_of(world), world.directory);
  // Alone, a world does not show which world runs the rest of its plan.
  merger.keep(is_whole_ ? world.answers_for : merger.answered());
}

/// Whether this launcher's `run` wrote the directory. Another launcher writes neither file.
bool RecordedRun::is_own_run() const { return base::is_there(run_.run()) || base::is_there(run_.plan()); }

void RecordedRun::lose_plan(std::string defect) {
  merged_.misses_plans = true;
  merged_.defects.push_back(std::move(defect));
}

/// A world, or the folder of all worlds, that is a link is not read.
void RecordedRun::find_links(const std::map<int, WorldDirectory>& found) {
  std::vector<std::filesystem::path> folders{run_.worlds()};
  const int last = found.empty() ? -1 : found.rbegin()->first;
  for (int number = 0; number <= last || std::cmp_less(number, planned_.size()); ++number)
    folders.push_back(run_.world(number).root);
  for (const std::filesystem::path& folder : folders) {
    std::error_code unknown;
    if (!std::filesystem::is_symlink(folder, unknown)) continue;
    lose_plan(fmt::format("{} is a symbolic link, and shardproof follows no link in a run directory", folder.string()));
  }
}

/// `run` writes the head and the plan before its first world, and numbers its worlds without a gap.
void RecordedRun::find_lost_files(const std::map<int, WorldDirectory>& found) {
  if (found.empty()) return;
  if (!base::is_there(run_.run()))
    merged_.defects.push_back(fmt::format("{} is missing: {}", run_.run().string(), without_head));
  if (!base::is_there(run_.plan()))
    lose_plan(fmt::format("{} is missing: worlds that never began are unknown", run_.plan().string()));
  for (int number = 0; number < found.rbegin()->first; ++number) {
    if (found.contains(number)) continue;
    lost_numbers_.push_back(number);
    lose_plan(fmt::format("{} is missing, but later worlds exist: restore it and merge again",
                          run_.world(number).root.string()));
  }
}

/// The time when the first rank of a run with another launcher wrote its plan.
std::string RecordedRun::start() const {
  std::optional<std::time_t> first;
  for (const auto& [number, world] : worlds_) {
    struct stat status{};
    if (::stat(world.directory.plan().c_str(), &status) == 0 && (!first || status.st_mtime < *first))
      first = status.st_mtime;
  }
  return first ? utc_text(*first) : std::string();
}

/// Another launcher writes no head. The merge may run on another machine than the ranks, so the machine stays unknown.
/// Adds a defect for an unreadable head.
reports::RunHead RecordedRun::read_head(const WorldPlan& plan) {
  try {
    if (base::is_there(run_.run())) return base::parse_json(base::read_evidence(run_.run())).get<reports::RunHead>();
  } catch (const std::exception& error) {
    merged_.defects.push_back(fmt::format("{}: {}", unusable(run_.run(), error), without_head));
  }
  reports::RunHead head;
  head.run_id = std::filesystem::canonical(run_.root).filename().string();
  head.started = start();
  head.partial = true;
  head.seed = plan.seed;
  head.subject = plan.subject;
  head.fault = plan.fault;
  return head;
}

WorldEvidence RecordedRun::evidence_of(const RecordedWorld& world) const {
  try {
    WorldEvidence evidence = read_evidence(world.directory, world.plan.size);
    if (is_own_run() && !base::is_there(world.directory.endings()))
      evidence.defects.push_back(fmt::format("{} is missing: its launcher did not record how its ranks ended",
                                             world.directory.endings().string()));
    return evidence;
  } catch (const std::runtime_error& error) {
    return without_endings(world.plan.size, error.what());
  }
}

/// The world's plan has to be the plan that the run made for it, or the end of that plan. Else its results belong to
/// other cases.
void RecordedRun::keep(int number, const WorldDirectory& directory) {
  RecordedWorld world{.directory = directory, .plan = read_plan(directory)};
  world.answers_for = world.plan.cases.size();
  if (world.plan.attempt == 0 && is_planned(world.plan)) {
    const auto& planned = planned_[static_cast<std::size_t>(world.plan.planned)].cases;
    const auto& cases = world.plan.cases;
    const bool is_end = cases.size() <= planned.size() && std::equal(cases.rbegin(), cases.rend(), planned.rbegin());
    if (!is_end || (!world.plan.continues && cases.size() != planned.size()))
      throw std::runtime_error(
          fmt::format("{} has other cases than {} says", directory.plan().string(), run_.plan().string()));
  }
  worlds_.emplace(number, std::move(world));
}

bool RecordedRun::is_planned(const WorldPlan& plan) const {
  return plan.planned >= 0 && std::cmp_less(plan.planned, planned_.size());
}

/// If a rank ends before its last case, another world continues the plan from there. Each world answers for its cases
/// up to the first case of the next world.
void RecordedRun::assign_cases() {
  std::map<int, std::vector<RecordedWorld*>> by_plan;
  for (auto& [number, world] : worlds_) {
    if (world.plan.attempt == 0 && world.plan.planned >= 0) by_plan[world.plan.planned].push_back(&world);
  }
  for (auto& [planned, worlds] : by_plan) {
    std::ranges::stable_sort(worlds, std::greater{},
                             [](const RecordedWorld* world) { return world->plan.cases.size(); });
    for (std::size_t i = 0; i + 1 < worlds.size(); ++i)
      worlds[i]->answers_for = worlds[i]->plan.cases.size() - worlds[i + 1]->plan.cases.size();
    if (is_planned(worlds.front()->plan))
      begun_[planned] = planned_[static_cast<std::size_t>(planned)].cases.size() - worlds.front()->plan.cases.size();
  }
}

}  // namespace shardproof::launcher
