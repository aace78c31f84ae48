// `shardproof merge`: makes the report of ranks that another launcher started, or of a run whose launcher died before
// it wrote a report.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "harness/base/input_file.hpp"
#include "harness/base/json_parse.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/shared_options.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/earlier_run.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/machine.hpp"
#include "launcher/run/demands.hpp"
#include "launcher/run/records.hpp"
#include "launcher/run/trace_files.hpp"
#include "launcher/terminal/terminal.hpp"
#include "launcher/worker_client/worker.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {

using protocol::RunDirectory;
using protocol::WorldPlan;

namespace {

constexpr HelpText merge_help{
    .name = "merge",
    .summary = "Make the report of a run that another launcher started, or that was cut short.",
    .examples = "    shardproof merge my_run                      write my_run/report.json\n",
    .arguments = "DIRECTORY",
    .footer =
        "Exit codes, the first that applies:\n"
        "    2  The command line is wrong, the directory has no world, or output cannot be written.\n"
        "    3  Ranks did not meet.\n"
        "    4  A rank crashed or hung.\n"
        "    5  Evidence is missing or corrupt, or ranks disagree.\n"
        "    1  A case failed.\n"
        "    6  A demand is not met, as in `run`.\n"
        "    0  Each case passed, was skipped or was waived."};

/// A sentence about a file of the run that cannot be used.
std::string unusable(const std::filesystem::path& file, const std::exception& error) {
  return fmt::format("{}: {}", file.string(), error.what());
}

/// The listing that the run recorded, else the worker's listing now. Without both, the case ids are the only source.
/// Adds a defect for an unreadable record.
std::optional<protocol::Listing> known_listing(const RunDirectory& run, const std::filesystem::path& worker,
                                               std::vector<std::string>& defects) {
  if (!worker.empty()) {
    SignalWatch signals;
    return ask_worker(worker, signals).listing;
  }
  if (!base::is_there(listing_file(run))) return std::nullopt;
  try {
    return parse_listing(base::read_evidence(listing_file(run)));
  } catch (const std::exception& error) {
    defects.push_back(unusable(listing_file(run), error));
    return std::nullopt;
  }
}

/// A world that began, as its files record it, with the plan that it had.
struct RecordedWorld {
  protocol::WorldDirectory directory;
  WorldPlan plan;
  /// The number of its first cases that it answers for. Another world runs the cases that it did not reach because of a
  /// rank's end.
  std::size_t answers_for = 0;
};

/// The time when the first rank of a run with another launcher wrote its plan.
std::string start_of(const std::map<int, RecordedWorld>& worlds) {
  std::optional<std::time_t> first;
  for (const auto& [number, world] : worlds) {
    struct stat status{};
    if (::stat(world.directory.plan().c_str(), &status) == 0 && (!first || status.st_mtime < *first))
      first = status.st_mtime;
  }
  return first ? utc_text(*first) : std::string();
}

/// Another launcher writes no head. The merge may run on another machine than the ranks, so the machine stays unknown.
/// Adds a defect for an unreadable head.
reports::RunHead head_of(const RunDirectory& run, const WorldPlan& plan, const std::map<int, RecordedWorld>& worlds,
                         std::vector<std::string>& defects) {
  try {
    if (base::is_there(run.run())) return base::parse_json(base::read_evidence(run.run())).get<reports::RunHead>();
  } catch (const std::exception& error) {
    defects.push_back(unusable(run.run(), error) + "; so its demands and waivers are unknown");
  }
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
  bool misses_plans = false;  ///< some worlds have lost their plan
};

class Merge {
 public:
  Merge(const RunDirectory& run, const DemandOptions& demands) : run_(run), demands_(demands) {
    try {
      planned_ = read_planned_worlds(run);
    } catch (const std::runtime_error& error) {
      lose_plan(error.what());
    }
    const auto found = find_worlds(run);
    for (const auto& [number, directory] : found) {
      try {
        if (base::is_there(directory.plan())) keep(number, directory);
        else if (has_begun(directory))
          lose_plan(fmt::format("{} is missing: the results of this world are lost", directory.plan().string()));
      } catch (const std::runtime_error& error) {
        lose_plan(error.what());
      }
    }
    find_links(found);
    if (is_own_run()) find_lost_files(found);
    assign_cases();
  }

  bool is_empty() const { return worlds_.empty() && planned_.empty() && merged_.defects.empty(); }

  /// `listing`: the known cases and clauses. Throws CommandError for impossible demands.
  Merged merge(const std::optional<protocol::Listing>& listing) {
    const CaseIndex index = listing ? CaseIndex(listing->cases) : CaseIndex();
    std::optional<reports::Merger> merger;
    const auto open = [&](const WorldPlan& plan) -> reports::Merger& {
      if (merger) return *merger;
      reports::RunHead head = head_of(run_, plan, worlds_, merged_.defects);
      apply_demands(head, demands_, listing ? &*listing : nullptr);
      return merger.emplace(std::move(head));
    };
    for (const auto& [number, world] : worlds_) {
      for (std::string& defect : merge_traces(world.directory)) merged_.defects.push_back(std::move(defect));
      reports::Merger& into = open(world.plan);
      try {
        add_world(into, world.plan, index, evidence_of(world), world.directory);
        into.keep(world.answers_for);
      } catch (const CommandError&) {
        throw;
      } catch (const std::runtime_error& error) {
        merged_.defects.push_back(error.what());
      }
    }
    for (std::size_t number = 0; number < planned_.size(); ++number) {
      WorldPlan lost = planned_[number];
      const auto first = begun_.find(static_cast<int>(number));
      if (first != begun_.end()) lost.cases.resize(first->second);
      if (!lost.skipped.empty()) add_skipped(open(lost), lost, index);
      else if (lost.cases.empty()) continue;
      else if (lost.fail_fast && open(lost).has_failed_fast()) add_left_out(open(lost), lost, index);
      else add_not_started(open(lost), lost, index, "it was planned, and nothing of it can be read");
    }
    if (merger) merged_.report = merger->finish();
    return std::move(merged_);
  }

 private:
  /// Whether this launcher's `run` wrote the directory. Another launcher writes neither file.
  bool is_own_run() const { return base::is_there(run_.run()) || base::is_there(run_.plan()); }

  void lose_plan(std::string defect) {
    merged_.misses_plans = true;
    merged_.defects.push_back(std::move(defect));
  }

  /// A world, or the folder of all worlds, that is a link is not read.
  void find_links(const std::map<int, protocol::WorldDirectory>& found) {
    std::vector<std::filesystem::path> folders{run_.worlds()};
    const int last = found.empty() ? -1 : found.rbegin()->first;
    for (int number = 0; number <= last || std::cmp_less(number, planned_.size()); ++number)
      folders.push_back(run_.world(number).root);
    for (const std::filesystem::path& folder : folders) {
      std::error_code unknown;
      if (!std::filesystem::is_symlink(folder, unknown)) continue;
      lose_plan(
          fmt::format("{} is a symbolic link, and shardproof follows no link in a run directory", folder.string()));
    }
  }

  /// `run` writes the head and the plan before its first world, and numbers its worlds without a gap.
  void find_lost_files(const std::map<int, protocol::WorldDirectory>& found) {
    if (!base::is_there(run_.run()) && !found.empty())
      merged_.defects.push_back(
          fmt::format("{} is missing: the demands and waivers of this run are unknown", run_.run().string()));
    if (!base::is_there(run_.plan()) && !found.empty())
      lose_plan(fmt::format("{} is missing: worlds that never began are unknown", run_.plan().string()));
    for (int number = 0; !found.empty() && number < found.rbegin()->first; ++number) {
      if (!found.contains(number))
        lose_plan(fmt::format("{} is missing, and later worlds are not", run_.world(number).root.string()));
    }
  }

  WorldEvidence evidence_of(const RecordedWorld& world) const {
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
  void keep(int number, const protocol::WorldDirectory& directory) {
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

  bool is_planned(const WorldPlan& plan) const {
    return plan.planned >= 0 && std::cmp_less(plan.planned, planned_.size());
  }

  /// If a rank ends before its last case, another world continues the plan from there. Each world answers for its cases
  /// up to the first case of the next world.
  void assign_cases() {
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

  const RunDirectory& run_;
  const DemandOptions& demands_;
  std::vector<WorldPlan> planned_;
  std::map<int, RecordedWorld> worlds_;
  /// for each planned world: the number of its first cases that no world can answer for
  std::map<int, std::size_t> begun_;
  Merged merged_;
};

class MergeCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return merge_help; }

  void declare(OptionDeclarations& options) override {
    options.argument("directory", directory_, "The run directory.");
    options.value(subject_group, "--worker", worker_, "PROGRAM",
                  "Take the cases from this program, where the run directory does not list them.");
    declare_demands(options, demands_, demand_texts_);
    declare_terminal(options, terminal_, color_);
  }

  void convert(const Arguments& arguments) override {
    require_arguments(arguments, {{"DIRECTORY", directory_}});
    convert_demands(demand_texts_, demands_);
    terminal_.color = convert_color(color_);
  }

  int run(const std::vector<std::string>& /*argv*/) override {
    const RunDirectory run{directory_};
    std::error_code unknown;
    if (!std::filesystem::is_directory(run.root, unknown))
      throw CommandError(
          usage, fmt::format("{}: {}; name the directory that a run wrote", run.root.string(),
                             std::filesystem::exists(run.root, unknown) ? "not a directory" : "no such directory"));
    const base::FileDescriptor lock = lock_run(run.root);
    Merged merged;
    try {
      Merge merge(run, demands_);
      if (merge.is_empty())
        throw CommandError(usage, fmt::format("{}: no world to merge in {}", run.root.string(), run.worlds().string()));
      std::vector<std::string> defects;
      const auto listing = known_listing(run, worker_, defects);
      merged = merge.merge(listing);
      merged.defects.insert(merged.defects.begin(), defects.begin(), defects.end());
    } catch (const CommandError&) {
      throw;
    } catch (const std::exception& error) {
      throw CommandError(evidence_unusable, fmt::format("{}: {}", run.root.string(), error.what()));
    }
    for (const std::string& defect : merged.defects) print_error(reports::printable_line(defect));
    if (merged.report.worlds.empty()) return evidence_unusable;

    Terminal terminal(stdout, terminal_);
    terminal.show_files_of(run);
    terminal.print(reports::summary(merged.report, terminal.style()));
    write_own_file(run.report(), [&](std::ostream& out) { reports::write_report(out, merged.report); });
    terminal.note(fmt::format("report: {}", run.report().string()));
    require_printed(terminal.finish());
    const int code = reports::exit_code(merged.report);
    // Unreadable evidence is stronger than failed cases, and weaker than crashed ranks.
    const bool is_stronger = code == crashed_or_hung || (code == infrastructure && !merged.misses_plans);
    return merged.defects.empty() || is_stronger ? code : evidence_unusable;
  }

 private:
  std::filesystem::path directory_;
  /// The worker to ask for the cases if the run directory does not have them. Empty: no worker.
  std::filesystem::path worker_;
  DemandTexts demand_texts_;
  DemandOptions demands_;  ///< replace the run's own
  ColorText color_;
  TerminalOptions terminal_;
};

}  // namespace

std::unique_ptr<Subcommand> make_merge_command() { return std::make_unique<MergeCommand>(); }

}  // namespace shardproof::launcher
