// `shardproof play` with two subjects: shows how they differ on one scenario.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/json_text.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/commands/play.hpp"
#include "launcher/explore/contenders.hpp"
#include "launcher/explore/side_by_side.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "reports/export/columns.hpp"

namespace shardproof::launcher {
namespace {

std::string title(const PlayOptions& options, const std::array<Contender, 2>& contenders) {
  const int ranks = options.plan.ranks.front();
  return fmt::format("{}: {} rank{}, {}", options.scenario.string(), ranks, ranks == 1 ? "" : "s",
                     names_text(contenders));
}

bool was_lost(const DocumentPlay& played) {
  return played.play.verdict == reports::Verdict::crashed || played.play.verdict == reports::Verdict::hung;
}

}  // namespace

int play_on_two(const PlayOptions& options, const std::vector<std::string>& argv) {
  if (!options.trace.empty())
    throw CommandError(usage, "--trace with two subjects: a trace is of one; play it on each alone");
  if (options.show_plan || !options.plan_dot.empty())
    throw CommandError(
        usage,
        fmt::format("{} with two subjects: --show-plan works with one subject: play the scenario on each subject alone",
                    options.show_plan ? "--show-plan" : "--plan-dot"));
  require_not_replaced(options.scenario, options.out);
  SignalWatch signals;
  std::array<Contender, 2> contenders = find_contenders(options.plan, options.worker, signals);
  for (const Contender& contender : contenders)
    check_scenario(contender.worker, options.scenario, options.plan.ranks.front(), signals);

  const rendezvous::RendezvousDirectory scratch = rendezvous::RendezvousDirectory::make(1);
  const bool keeps_runs = !options.out.directory.empty();
  const ClaimedDirectory claimed(keeps_runs ? options.out : OutputOptions{.directory = scratch.path() / "runs"});
  const std::filesystem::path& place = claimed.path();
  prepare(contenders, place, signals);
  const Document document{.file = options.scenario, .ranks = options.plan.ranks.front()};
  const SideBySide both =
      std::move(play_side_by_side(contenders, {&document, 1}, options.ulps, place, argv, signals).front());
  if (!both.plays[0].skipped.empty() && !both.plays[1].skipped.empty())
    throw CommandError(usage, fmt::format("{} cannot be played: {}", options.scenario.string(), both.plays[0].skipped));

  if (options.json) {
    print_output(base::dump_document(to_json(both, contenders)) + "\n");
  } else {
    Terminal terminal(stdout, options.terminal);
    terminal.print(reports::fitted(title(options, contenders) + "\n" + to_text(both)));
    require_printed(terminal.finish());
  }
  if (!both.comparison.alike()) return case_failed;
  return was_lost(both.plays[0]) ? crashed_or_hung : all_passed;
}

}  // namespace shardproof::launcher
