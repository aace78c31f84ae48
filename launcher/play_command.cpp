// `shardproof play`: one scenario on real ranks, outside any suite.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/protocol/json_text.hpp"
#include "harness/protocol/play_result.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/claimed_directory.hpp"
#include "launcher/commands.hpp"
#include "launcher/contenders.hpp"
#include "launcher/launcher.hpp"
#include "launcher/output.hpp"
#include "launcher/run.hpp"
#include "launcher/side_by_side.hpp"
#include "launcher/standard_streams.hpp"
#include "launcher/warm_process.hpp"
#include "reports/chrome_trace.hpp"
#include "reports/play.hpp"

namespace shardproof::launcher {
namespace {

constexpr int page_width = 100;

void write_trace(const std::filesystem::path& file, const std::vector<PlayResult>& ranks) {
  std::vector<Trace> traces;
  std::ranges::transform(ranks, std::back_inserter(traces),
                         [](const PlayResult& rank) { return (rank.measured ? *rank.measured : rank.times).trace; });
  write_file(file, reports::chrome_trace(traces).dump() + "\n");
}

/// Whether the trace is a file in the output directory.
bool is_trace_in_output(const PlayOptions& options) {
  if (options.trace.empty() || options.out.directory.empty()) return false;
  const auto whole = [](const std::filesystem::path& path) { return std::filesystem::absolute(path).lexically_normal(); };
  return whole(options.trace).parent_path() == whole(options.out.directory / "").parent_path();
}

std::string heading(const PlayOptions& options, const WorldPlan& world) {
  return fmt::format("{}: {} rank{}, subject {}{}", options.scenario.string(), world.size, world.size == 1 ? "" : "s", world.subject,
                     world.fault.empty() ? "" : " with fault " + world.fault);
}

}  // namespace

int play_command(const PlayOptions& options, const std::vector<std::string>& argv) {
  if (names_two(options.plan.subject)) return play_on_two(options, argv);
  const bool keeps_trace = is_trace_in_output(options);
  if (!options.trace.empty() && !keeps_trace) require_new_file(options.trace);
  require_kept(options.scenario, options.out);
  SignalWatch signals;
  Contender player = find_contender({options.plan.subject, options.plan.fault}, options.plan, options.worker, signals);
  check_scenario(player.worker, options.scenario, signals);

  const Document document{.file = options.scenario, .ranks = options.plan.ranks.front()};
  PlayPlan play = plan_of(player, {&document, 1});
  const std::string title = heading(options, play.plan.worlds.front());

  const RendezvousDirectory scratch = RendezvousDirectory::make(1);
  const bool keeps_run = !options.out.directory.empty();
  ClaimedDirectory claimed(keeps_run ? options.out : OutputOptions{.directory = scratch.path() / "run"});
  if (keeps_trace) claimed.note_file(options.trace.filename().string());
  const RunDirectory directory = claimed.run();
  warm_up(player.worker, player.plan, directory.warm_log(), signals);
  reports::RunHead head = make_head(player.worker, play.plan, player.plan, argv);
  Terminal silent(stderr, {.quiet = true});
  const RunResult run = run_plan(player.worker, std::move(play.plan), directory, std::move(head), signals, silent);

  Terminal terminal(options.json ? stderr : stdout, options.terminal);
  const std::vector<PlayResult> ranks = play_results(directory.world(0), play.ids.front(), document.ranks);
  if (options.json && !ranks.empty()) {
    say(dump_document(reports::to_json(ranks, run.report.worlds.front())) + "\n");
  } else if (!ranks.empty()) {
    terminal.print(title + "\n" + reports::to_text(ranks, run.report.worlds.front(), page_width));
  }
  for (const reports::CaseResult& result : run.report.cases) {
    if (result.verdict == reports::Verdict::skipped) {
      throw CommandError(usage, fmt::format("{} cannot be played: {}", options.scenario.string(), reports::skip_reason(result)));
    }
    if (reports::is_bad(result.verdict)) terminal.print(reports::failure_text(result, run.report, terminal.style()));
  }
  if (!options.trace.empty() && !ranks.empty()) {
    write_trace(options.trace, ranks);
    terminal.print(fmt::format("trace: {}", options.trace.string()));
  }
  for (const std::string& error : {run.output_error, run.infrastructure_error}) {
    if (!error.empty()) complain(error);
  }
  require_said(terminal.finish());
  return exit_code(run);
}

}  // namespace shardproof::launcher
