// `shardproof merge`: the report of ranks that another launcher started, or of a run whose own launcher did not live to write it.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "harness/protocol/json_parse.hpp"
#include "launcher/commands.hpp"
#include "launcher/demands.hpp"
#include "launcher/launcher.hpp"
#include "launcher/machine.hpp"
#include "launcher/output.hpp"
#include "launcher/records.hpp"
#include "launcher/standard_streams.hpp"
#include "launcher/terminal.hpp"
#include "launcher/trace_files.hpp"
#include "launcher/worker.hpp"

namespace shardproof::launcher {
namespace {

/// What the run itself recorded, else what the worker says now. Neither: the ids speak for themselves.
std::optional<Listing> known_listing(const RunDirectory& run, const std::filesystem::path& worker) {
  if (!worker.empty()) {
    SignalWatch signals;
    return ask_worker(worker, signals).listing;
  }
  if (!std::filesystem::exists(listing_file(run))) return std::nullopt;
  return parse_listing(read_file(listing_file(run)));
}

/// The worlds of a run as they are on disk: those that began, with the plans that they had.
struct KeptWorld {
  WorldDirectory directory;
  WorldPlan plan;
  std::size_t answers_for = 0;  ///< so many of its first cases: what a rank's end kept it from went to another world
};

/// When the first rank of a run that another launcher started wrote down what it is to do.
std::string start_of(const std::map<int, KeptWorld>& worlds) {
  std::optional<std::time_t> first;
  for (const auto& [number, world] : worlds) {
    struct stat status{};
    if (::stat(world.directory.plan().c_str(), &status) == 0 && (!first || status.st_mtime < *first)) first = status.st_mtime;
  }
  return first ? utc_text(*first) : std::string();
}

/// A foreign launcher writes no head. Where this merge runs is not where the ranks ran, so the machine stays unknown.
reports::RunHead head_of(const RunDirectory& run, const WorldPlan& plan, const std::map<int, KeptWorld>& worlds) {
  if (std::filesystem::exists(run.run())) return parse_json(read_file(run.run())).get<reports::RunHead>();
  reports::RunHead head;
  head.run_id = std::filesystem::canonical(run.root).filename().string();
  head.started = start_of(worlds);
  head.partial = true;
  head.seed = plan.seed;
  head.subject = plan.subject;
  head.fault = plan.fault;
  return head;
}

struct Merged {
  reports::Report report;
  std::vector<std::string> defects;
  bool misses_plans = false;  ///< worlds of which nobody knows any more what they were
};

class Merge {
 public:
  Merge(const RunDirectory& run, const DemandOptions& demands) : run_(run), demands_(demands), planned_(read_planned_worlds(run)) {
    for (const auto& [number, directory] : find_worlds(run)) {
      try {
        if (std::filesystem::exists(directory.plan())) keep(number, directory);
      } catch (const std::runtime_error& error) {
        merged_.misses_plans = true;
        merged_.defects.push_back(error.what());
      }
    }
    for (const auto& [number, world] : worlds_) {
      if (!world.plan.continues) continue;
      const auto earlier = worlds_.find(world.plan.continues->world);
      if (earlier != worlds_.end()) earlier->second.answers_for = std::min(earlier->second.answers_for, world.plan.continues->from);
    }
  }

  bool is_empty() const { return worlds_.empty() && planned_.empty() && merged_.defects.empty(); }

  /// `listing`: what is known of the cases and clauses. Throws CommandError for demands that cannot be.
  Merged merge(const std::optional<Listing>& listing) {
    const CaseIndex index = listing ? CaseIndex(listing->cases) : CaseIndex();
    std::optional<reports::Merger> merger;
    const auto open = [&](const WorldPlan& plan) -> reports::Merger& {
      if (merger) return *merger;
      reports::RunHead head = head_of(run_, plan, worlds_);
      put_demands(head, demands_, listing ? &*listing : nullptr);
      return merger.emplace(std::move(head));
    };
    for (const auto& [number, world] : worlds_) {
      for (std::string& defect : merge_traces(world.directory)) merged_.defects.push_back(std::move(defect));
      try {
        const Remains remains = read_remains(world.directory, world.plan.size);
        reports::Merger& into = open(world.plan);
        add_world(into, world.plan, index, remains, world.directory);
        into.keep(world.answers_for);
      } catch (const CommandError&) {
        throw;
      } catch (const std::runtime_error& error) {
        merged_.defects.push_back(error.what());
      }
    }
    for (std::size_t number = 0; number < planned_.size(); ++number) {
      if (begun_.contains(static_cast<int>(number))) continue;
      add_not_started(open(planned_[number]), planned_[number], index, "it was planned, and it is not there");
    }
    if (merger) merged_.report = merger->finish();
    return std::move(merged_);
  }

 private:
  /// The world's plan must be the one that the run made for it, else its results are those of other cases.
  void keep(int number, const WorldDirectory& directory) {
    KeptWorld world{.directory = directory, .plan = read_plan(directory)};
    world.answers_for = world.plan.cases.size();
    if (world.plan.attempt == 0) {
      const auto [cases, source] = expected_cases(number, world.plan);
      if (cases && *cases != world.plan.cases)
        throw std::runtime_error(fmt::format("{} has other cases than {} says", directory.plan().string(), source));
      if (world.plan.planned >= 0) begun_.insert(world.plan.planned);
    }
    worlds_.emplace(number, std::move(world));
  }

  /// What the world should run and who says so; nothing where nobody does.
  std::pair<std::optional<std::vector<std::string>>, std::string> expected_cases(int number, const WorldPlan& plan) const {
    if (plan.continues) {
      const auto earlier = worlds_.find(plan.continues->world);
      if (earlier == worlds_.end() || plan.continues->world >= number || plan.continues->from > earlier->second.plan.cases.size())
        return {std::vector<std::string>(), fmt::format("world {}, which it continues,", plan.continues->world)};
      const auto& cases = earlier->second.plan.cases;
      return {std::vector<std::string>(cases.begin() + static_cast<std::ptrdiff_t>(plan.continues->from), cases.end()),
              earlier->second.directory.plan().string()};
    }
    if (plan.planned < 0 || std::cmp_greater_equal(plan.planned, planned_.size())) return {};
    return {planned_[static_cast<std::size_t>(plan.planned)].cases, run_.plan().string()};
  }

  const RunDirectory& run_;
  const DemandOptions& demands_;
  std::vector<WorldPlan> planned_;
  std::map<int, KeptWorld> worlds_;
  std::set<int> begun_;  ///< of those planned
  Merged merged_;
};

}  // namespace

int merge_command(const MergeOptions& options) {
  const RunDirectory run{options.directory};
  Merged merged;
  try {
    Merge merge(run, options.demands);
    if (merge.is_empty()) throw CommandError(usage, fmt::format("{}: no world to merge in {}", run.root.string(), run.worlds().string()));
    merged = merge.merge(known_listing(run, options.worker));
  } catch (const CommandError&) {
    throw;
  } catch (const std::exception& error) {
    throw CommandError(evidence_unusable, fmt::format("{}: {}", run.root.string(), error.what()));
  }
  for (const std::string& defect : merged.defects) complain(defect);
  if (merged.report.worlds.empty()) return evidence_unusable;

  Terminal terminal(stdout, options.terminal);
  terminal.look_for_scenarios(run);
  terminal.print(reports::summary(merged.report, terminal.style()));
  write_file(run.report(), [&](std::ostream& out) { reports::write_report(out, merged.report); });
  terminal.note(fmt::format("report: {}", run.report().string()));
  require_said(terminal.lost());
  const int code = reports::exit_code(merged.report);
  // Evidence that cannot be read comes before cases that failed, and after ranks that crashed.
  const bool is_stronger = code == crashed_or_hung || (code == infrastructure && !merged.misses_plans);
  return merged.defects.empty() || is_stronger ? code : evidence_unusable;
}

}  // namespace shardproof::launcher
