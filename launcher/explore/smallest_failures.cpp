#include "launcher/explore/smallest_failures.hpp"

#include <fmt/format.h>

#include <limits>
#include <span>
#include <utility>

#include "harness/base/input_file.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/files/output.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/run.hpp"
#include "reports/explain/causes.hpp"
#include "reports/export/repeat_command.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {
namespace {

/// A broken engine may fail for many causes. The first ones are enough to begin with.
constexpr std::size_t most_causes = 5;

std::vector<const reports::CaseResult*> failed_draws(const reports::Report& report) {
  std::vector<const reports::CaseResult*> failed;
  for (const reports::CaseResult& result : report.cases) {
    const bool counts = !result.superseded && result.waiver < 0 && reports::is_bad(result.verdict);
    if (counts && !result.info.drawn_by.empty()) failed.push_back(&result);
  }
  return failed;
}

/// Plays scenarios as one case: each is a repetition of the case in one world.
class CasePlayer {
 public:
  CasePlayer(const Worker& worker, const PlanOptions& requested, const reports::CaseResult& failed,
             const reports::Report& report, std::filesystem::path shared_place, SignalWatch& signals)
      : worker_(worker),
        requested_(requested),
        shared_place_(std::move(shared_place)),
        failed_(failed),
        report_(report),
        signals_(signals),
        cause_(reports::cause_of(failed)) {}

  /// Which of these scenarios make the case fail for the same cause.
  std::vector<bool> fail_alike(std::span<const MadeScenario> scenarios) const {
    const rendezvous::RendezvousDirectory scratch = make_scratch();
    Plan plan;
    protocol::WorldPlan& world =
        plan.worlds.emplace_back(world_of(worker_.listing, requested_, failed_.info.world_size));
    world.planned = 0;
    world.cases.assign(scenarios.size(), failed_.info.id);
    for (const MadeScenario& scenario : scenarios) {
      world.given.push_back(scratch.path() / fmt::format("{}.json", world.given.size()));
      write_file(world.given.back(), scenario.document);
    }
    plan.selected = 1;
    plan.supply = requested_.supply;
    plan.launcher = requested_.launcher;
    plan.join_timeout = requested_.join_timeout;
    plan.host_silence = requested_.host_silence;
    const ClaimedDirectory claimed({.directory = scratch.path() / "run"});
    reports::RunHead head = make_head(worker_, plan, requested_, report_.head.argv);
    Terminal silent(stderr, {.quiet = true});
    // Scenarios are independent: hangs of some scenarios say nothing about the others.
    const RetryOptions retry{.retries = 0, .max_hangs = std::numeric_limits<int>::max()};
    const RunResult played =
        run_plan(worker_, std::move(plan), claimed.run(), std::move(head), signals_, silent, retry);
    if (played.interrupted_by != 0)
      throw CommandError(static_cast<ExitCode>(128 + played.interrupted_by), "interrupted");
    if (!played.output_error.empty()) throw CommandError(usage, played.output_error);
    if (!played.infrastructure_error.empty()) throw CommandError(infrastructure, played.infrastructure_error);
    std::vector<bool> alike(scenarios.size());
    for (const reports::CaseResult& result : played.report.cases)
      alike.at(result.repetition) = reports::is_bad(result.verdict) && reports::cause_of(result) == cause_;
    return alike;
  }

 private:
  /// The command of --launcher may start ranks on other hosts. They see the run's folder, but no scratch directory.
  rendezvous::RendezvousDirectory make_scratch() const {
    if (requested_.launcher.empty()) return rendezvous::RendezvousDirectory::make(1);
    make_directory(shared_place_);
    return rendezvous::RendezvousDirectory::make_in(shared_place_);
  }

  const Worker& worker_;
  const PlanOptions& requested_;
  const std::filesystem::path shared_place_;
  const reports::CaseResult& failed_;
  const reports::Report& report_;
  SignalWatch& signals_;
  const std::string cause_;
};

}  // namespace

SmallestFailures find_smallest_failures(const Worker& worker, const PlanOptions& requested,
                                        const reports::Report& report, const protocol::RunDirectory& run,
                                        SignalWatch& signals, Terminal& terminal) {
  PlanOptions settings = requested;
  settings.trace = false;
  SmallestFailures failures;
  for (const reports::CauseGroup& group : reports::by_cause(failed_draws(report))) {
    const reports::CaseResult& failed = *group.shown;
    const int world = report.worlds.at(static_cast<std::size_t>(failed.world)).number;
    const std::filesystem::path left = run.world(world).scenario(failed.info.id, 1);
    if (!base::is_there(left)) continue;  // the ranks died before they could leave it
    if (failures.found.size() == most_causes) {
      ++failures.left_out;
      continue;
    }
    const MadeScenario drawn{.seed = 0, .ranks = failed.info.world_size, .document = base::read_evidence(left, 1)};
    const CasePlayer player(worker, settings, failed, report, std::filesystem::absolute(run.root) / "smallest",
                            signals);
    SmallestFailure& smallest = failures.found.emplace_back();
    smallest.id = failed.info.id;
    smallest.shrunk = shrink(
        worker, drawn, [&](std::span<const MadeScenario> scenarios) { return player.fail_alike(scenarios); }, signals,
        [&](const Shrunk& found) {
          terminal.show_live(
              fmt::format("{}: {} steps smaller, {} scenarios played", failed.info.id, found.steps, found.plays));
        });
    const std::filesystem::path folder = run.root / "smallest" / std::to_string(failures.found.size());
    make_directory(folder);
    smallest.file = relative_to_current(folder / "scenario.json");
    write_file(smallest.file, smallest.shrunk.scenario.document);
    write_file(folder / "as_drawn.json", drawn.document);
    smallest.command = fmt::format("{} --scenario {}", reports::repeat_command(failed, report),
                                   reports::shell_word(smallest.file.string()));
    if (smallest.shrunk.ended_by) break;
  }
  return failures;
}

std::string text_of(const SmallestFailures& failures) {
  std::string text;
  for (const SmallestFailure& failure : failures.found) {
    const Shrunk& shrunk = failure.shrunk;
    text += fmt::format(
        "{} fails for the same cause with a smaller scenario ({} step{} smaller, {} played{}{}): {}\n  play it: {}\n",
        failure.id, shrunk.steps, shrunk.steps == 1 ? "" : "s", shrunk.plays,
        shrunk.is_smallest ? "" : fmt::format("; the search ended early: {}", shrunk.ended_by->what()),
        shrunk.is_steady ? "" : "; played again, it did not fail this way", failure.file.string(), failure.command);
  }
  if (failures.left_out > 0)
    text += fmt::format(
        "{} more cause{} of generated failures: play those cases alone with --generated to make their scenarios "
        "smaller\n",
        failures.left_out, failures.left_out == 1 ? "" : "s");
  return text;
}

}  // namespace shardproof::launcher
