// `shardproof play`: one scenario on real ranks, outside any suite.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/base/json_text.hpp"
#include "harness/protocol/play_result.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/explore/contenders.hpp"
#include "launcher/explore/side_by_side.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/own_files.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/preparation.hpp"
#include "launcher/run/run.hpp"
#include "reports/export/chrome_trace.hpp"
#include "reports/export/failure_text.hpp"
#include "reports/export/terminal.hpp"
#include "reports/play/compiled_steps.hpp"
#include "reports/play/play.hpp"

namespace shardproof::launcher {
namespace {

constexpr int text_width = 100;

void write_trace(const std::filesystem::path& file, const std::vector<PlayResult>& ranks) {
  std::vector<Trace> traces;
  std::ranges::transform(ranks, std::back_inserter(traces),
                         [](const PlayResult& rank) { return (rank.measured ? *rank.measured : rank.times).trace; });
  write_file(file, reports::chrome_trace(traces).dump() + "\n");
}

/// A file that the user asks for by an option, besides the files of the run.
struct AskedFile {
  const char* option;
  const std::filesystem::path& path;  ///< empty: not asked for
  const char* example;                ///< a name in the output directory
};

/// The file's name in the output directory; none: the file is not in it. Throws CommandError (usage) for a place that
/// the run itself uses.
std::optional<std::string> name_in_output(const AskedFile& file, const OutputOptions& out) {
  if (out.directory.empty()) return std::nullopt;
  const auto inner = path_in(out.directory, file.path);
  if (!inner) return std::nullopt;
  const std::string name = inner->string();
  // Only a file directly in the directory can be noted for a later replacement.
  if (name == "." || inner->has_parent_path() || is_own_file(name) || is_own_folder(name))
    throw unusable_output(
        file.path, fmt::format("the run keeps its own files there: write {} {}, or name a file outside {}", file.option,
                               (out.directory / file.example).string(), out.directory.string()));
  return name;
}

/// The names of asked files that are in the output directory. Throws CommandError (usage) where a file cannot be
/// written.
std::vector<std::string> asked_files_in_output(const PlayOptions& options) {
  const std::array files{AskedFile{"--trace", options.trace, "trace.json"},
                         AskedFile{"--plan-dot", options.plan_dot, "plan.dot"}};
  if (!options.trace.empty() && options.trace == options.plan_dot)
    throw CommandError(usage, "--trace and --plan-dot name the same file: give each its own file");
  std::vector<std::string> kept;
  for (const AskedFile& file : files) {
    if (file.path.empty()) continue;
    if (auto name = name_in_output(file, options.out)) kept.push_back(*std::move(name));
    else require_new_file(file.path);
  }
  return kept;
}

std::string heading(const PlayOptions& options, const WorldPlan& world) {
  return fmt::format("{}: {} rank{}, subject {}{}", options.scenario.string(), world.size, world.size == 1 ? "" : "s",
                     world.subject, world.fault.empty() ? "" : " with fault " + world.fault);
}

}  // namespace

int play_command(const PlayOptions& options, const std::vector<std::string>& argv) {
  if (names_two(options.plan.subject)) return play_on_two(options, argv);
  if (options.show_plan && options.json)
    throw CommandError(usage,
                       "--show-plan with --json: leave --show-plan out; the JSON has the plans in `ranks[].plans`");
  const std::vector<std::string> kept_files = asked_files_in_output(options);
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
  for (const std::string& name : kept_files) claimed.note_file(name);
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
    terminal.print(reports::printable(title) + "\n" + reports::to_text(ranks, run.report.worlds.front(), text_width));
    if (options.show_plan) terminal.print("\n" + reports::compiled_steps_text(ranks));
  }
  for (const reports::CaseResult& result : run.report.cases) {
    if (result.verdict == reports::Verdict::skipped) {
      throw CommandError(
          usage, fmt::format("{} cannot be played: {}", options.scenario.string(), reports::skip_reason(result)));
    }
    if (reports::is_bad(result.verdict)) terminal.print(reports::failure_text(result, run.report, terminal.style()));
  }
  if (!options.trace.empty() && !ranks.empty()) {
    write_trace(options.trace, ranks);
    terminal.print(fmt::format("trace: {}", options.trace.string()));
  }
  if (!options.plan_dot.empty() && reports::has_compiled_step(ranks)) {
    write_file(options.plan_dot, reports::compiled_steps_dot(ranks.front()));
    terminal.print(fmt::format("plan: {}", options.plan_dot.string()));
  }
  for (const std::string& error : {run.output_error, run.infrastructure_error}) {
    if (!error.empty()) complain(error);
  }
  require_said(terminal.finish());
  const int code = exit_code(run);
  if (code == all_passed && !options.plan_dot.empty() && !reports::has_compiled_step(ranks))
    throw CommandError(usage,
                       fmt::format("{} is not written: {}", options.plan_dot.string(), reports::no_compiled_step));
  return code;
}

}  // namespace shardproof::launcher
