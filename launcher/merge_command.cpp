// `shardproof merge`: the report of ranks that another launcher started, or of a run whose own launcher did not live to write it.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "harness/protocol/json_parse.hpp"
#include "launcher/commands.hpp"
#include "launcher/launcher.hpp"
#include "launcher/output.hpp"
#include "launcher/records.hpp"
#include "launcher/standard_streams.hpp"
#include "launcher/terminal.hpp"
#include "launcher/trace_files.hpp"
#include "launcher/worker.hpp"

namespace shardproof::launcher {
namespace {

/// What the run itself recorded, else what the worker says now. Neither: the ids speak for themselves.
CaseIndex known_cases(const RunDirectory& run, const std::filesystem::path& worker) {
  if (!worker.empty()) {
    SignalWatch signals;
    return CaseIndex(ask_worker(worker, signals).listing.cases);
  }
  if (!std::filesystem::exists(listing_file(run))) return {};
  return CaseIndex(parse_listing(read_file(listing_file(run))).cases);
}

/// A foreign launcher writes no head. Where this merge runs is not where the ranks ran, so the machine stays unknown.
reports::RunHead head_of(const RunDirectory& run, const WorldPlan& plan) {
  if (std::filesystem::exists(run.run())) return parse_json(read_file(run.run())).get<reports::RunHead>();
  reports::RunHead head;
  head.run_id = std::filesystem::canonical(run.root).filename().string();
  head.partial = true;
  head.seed = plan.seed;
  head.subject = plan.subject;
  head.fault = plan.fault;
  return head;
}

struct Merged {
  reports::Report report;
  std::vector<std::string> defects;
};

Merged merge(const RunDirectory& run, const std::vector<WorldPlan>& planned, const std::map<int, WorldDirectory>& worlds,
             const CaseIndex& index) {
  Merged merged;
  std::optional<reports::Merger> merger;
  for (const auto& [number, world] : worlds) {
    for (std::string& defect : merge_traces(world)) merged.defects.push_back(std::move(defect));
    try {
      const bool is_planned = std::cmp_less(number, planned.size());
      const bool began = std::filesystem::exists(world.plan());
      const WorldPlan plan = began || !is_planned ? read_plan(world) : planned[static_cast<std::size_t>(number)];
      if (!merger) merger.emplace(head_of(run, plan));
      if (is_planned && plan.cases != planned[static_cast<std::size_t>(number)].cases)
        throw std::runtime_error(fmt::format("{} has other cases than {} says", world.plan().string(), run.plan().string()));
      if (began) {
        add_world(*merger, plan, index, read_remains(world, plan.size), world);
      } else {
        add_not_started(*merger, plan, index, fmt::format("it was planned, and there is no {}", world.plan().string()));
      }
    } catch (const std::runtime_error& error) {
      merged.defects.push_back(error.what());
    }
  }
  if (merger) merged.report = merger->finish();
  return merged;
}

}  // namespace

int merge_command(const MergeOptions& options) {
  const RunDirectory run{options.directory};
  Merged merged;
  try {
    const std::vector<WorldPlan> planned = read_planned_worlds(run);
    const std::map<int, WorldDirectory> worlds = find_worlds(run, planned.size());
    if (worlds.empty()) throw CommandError(usage, fmt::format("{}: no world to merge in {}", run.root.string(), run.worlds().string()));
    merged = merge(run, planned, worlds, known_cases(run, options.worker));
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
  const int code = reports::exit_code(merged.report, options.allowed_skips);
  // Evidence that cannot be read comes before cases that failed, and after ranks that crashed.
  return merged.defects.empty() || code == crashed_or_hung || code == infrastructure ? code : evidence_unusable;
}

}  // namespace shardproof::launcher
