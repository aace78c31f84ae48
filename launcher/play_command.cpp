// `shardproof play`: one scenario on real ranks, outside any suite.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/protocol/json_text.hpp"
#include "harness/protocol/play_result.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/claimed_directory.hpp"
#include "launcher/commands.hpp"
#include "launcher/contenders.hpp"
#include "launcher/launcher.hpp"
#include "launcher/output.hpp"
#include "launcher/own_files.hpp"
#include "launcher/run.hpp"
#include "launcher/side_by_side.hpp"
#include "launcher/standard_streams.hpp"
#include "launcher/warm_process.hpp"
#include "reports/chrome_trace.hpp"
#include "reports/play.hpp"
#include "reports/terminal.hpp"

namespace shardproof::launcher {
namespace {

constexpr int page_width = 100;

void write_trace(const std::filesystem::path& file, const std::vector<PlayResult>& ranks) {
  std::vector<Trace> traces;
  std::ranges::transform(ranks, std::back_inserter(traces),
                         [](const PlayResult& rank) { return (rank.measured ? *rank.measured : rank.times).trace; });
  write_file(file, reports::chrome_trace(traces).dump() + "\n");
}

/// The trace's name in the output directory; none: the trace is not in it. Throws CommandError (usage) for a place that the run itself uses.
std::optional<std::string> trace_in_output(const PlayOptions& options) {
  if (options.trace.empty() || options.out.directory.empty()) return std::nullopt;
  const auto inner = path_in(options.out.directory, options.trace);
  if (!inner) return std::nullopt;
  const std::string name = inner->string();
  // Only a file directly in the directory can be noted for a later replacement.
  if (name == "." || inner->has_parent_path() || is_own_file(name) || is_own_folder(name))
    throw unusable_output(options.trace, fmt::format("the run keeps its own files there: write --trace {}, or name a file outside {}",
                                                     (options.out.directory / "trace.json").string(), options.out.directory.string()));
  return name;
}

std::string heading(const PlayOptions& options, const WorldPlan& world) {
  return fmt::format("{}: {} rank{}, subject {}{}", options.scenario.string(), world.size, world.size == 1 ? "" : "s", world.subject,
                     world.fault.empty() ? "" : " with fault " + world.fault);
}

}  // namespace

int play_command(const PlayOptions& options, const std::vector<std::string>& argv) {
  if (names_two(options.plan.subject)) return play_on_two(options, argv);
  const std::optional<std::string> kept_trace = trace_in_output(options);
  if (!options.trace.empty() && !kept_trace) require_new_file(options.trace);
  require_kept(options.scenario, options.out);
  SignalWatch signals;
  Contender player = find_contender({options.plan.subject, options.plan.fault}, options.plan, options.worker, signals);
  check_scenario(player.worker, options.scenario, options.plan.ranks.front(), signals);

  const Document document{.file = options.scenario, .ranks = options.plan.ranks.front()};
  PlayPlan play = plan_of(player, {&document, 1});
  const std::string title = heading(options, play.plan.worlds.front());

  const RendezvousDirectory scratch = RendezvousDirectory::make(1);
  const bool keeps_run = !options.out.directory.empty();
  ClaimedDirectory claimed(keeps_run ? options.out : OutputOptions{.directory = scratch.path() / "run"});
  if (kept_trace) claimed.note_file(*kept_trace);
  const RunDirectory directory = claimed.run();
  warm_up(player.worker, player.plan, directory.warm_log(), signals);
  reports::RunHead head = make_head(player.worker, play.plan, player.plan, argv);
  Terminal silent(stderr, {.quiet = true});
  const RunResult run = run_plan(player.worker, std::move(play.plan), directory, std::move(head), signals, silent);

  Terminal terminal(options.json ? stderr : stdout, options.terminal);
  if (keeps_run) terminal.look_in(directory);
  else terminal.keep_nothing();
  const std::vector<PlayResult> ranks = play_results(directory.world(0), play.ids.front(), document.ranks);
  if (options.json && !ranks.empty()) {
    say(dump_document(reports::to_json(ranks, run.report.worlds.front())) + "\n");
  } else if (!ranks.empty()) {
    terminal.print(reports::printable(title) + "\n" + reports::to_text(ranks, run.report.worlds.front(), page_width));
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
