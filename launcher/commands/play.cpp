// `shardproof play`: one scenario on real ranks, outside any suite.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "harness/base/json_text.hpp"
#include "harness/protocol/play_result.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/option_values.hpp"
#include "launcher/commands/play.hpp"
#include "launcher/commands/shared_options.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/explore/contenders.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/requested_files.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/preparation.hpp"
#include "launcher/run/run.hpp"
#include "reports/export/chrome_trace.hpp"
#include "reports/export/columns.hpp"
#include "reports/export/failure_text.hpp"
#include "reports/export/terminal.hpp"
#include "reports/play/compiled_steps.hpp"
#include "reports/play/play.hpp"

namespace shardproof::launcher {
namespace {

constexpr HelpText play_help{
    .name = "play",
    .summary = "Play one scenario on real ranks, and show its times, its collectives and a timeline.",
    .examples =
        "    shardproof play scenario.json --ranks 4      on 4 ranks\n"
        "    shardproof play scenario.json --subject reference,pytorch\n"
        "                                                 on two engines, and what differs\n"
        "    shardproof play scenario.json --trace t.json\n"
        "                                                 write a trace for Perfetto\n"
        "    shardproof play scenario.json --show-plan    also print the compiled step\n",
    .arguments = "SCENARIO",
    .footer =
        "Exit codes, the first that applies:\n"
        "    128+N  Signal N interrupted the command.\n"
        "    2      The command line is wrong, the scenario cannot be played, or output cannot be written.\n"
        "    3      The worker failed, or its ranks did not meet.\n"
        "    4      A rank crashed or hung.\n"
        "    5      Ranks disagree.\n"
        "    1      The subject failed, or a race was found.\n"
        "    0      The scenario was played.\n"
        "\n"
        "Exit codes with two subjects, after the first three above:\n"
        "    1      The subjects differ.\n"
        "    4      Both subjects crashed or hung.\n"
        "    0      The subjects do the same, which may be to refuse the scenario."};

constexpr int text_width = 100;

void write_trace(const std::filesystem::path& file, const std::vector<protocol::PlayResult>& ranks) {
  std::vector<Trace> traces;
  std::ranges::transform(ranks, std::back_inserter(traces), [](const protocol::PlayResult& rank) {
    return (rank.measured ? *rank.measured : rank.times).trace;
  });
  write_file(file, base::dump_line(reports::chrome_trace(traces)) + "\n");
}

/// The names of asked files that are in the output directory. Throws CommandError (usage) where a file cannot be
/// written.
std::vector<std::string> requested_files_in_output(const PlayOptions& options) {
  std::vector<RequestedFile> files;
  if (!options.trace.empty()) files.push_back({"--trace", options.trace, "trace.json"});
  if (!options.plan_dot.empty()) files.push_back({"--plan-dot", options.plan_dot, "plan.dot"});
  return require_requested_files(files, options.out);
}

std::string heading(const PlayOptions& options, const protocol::WorldPlan& world) {
  return fmt::format("{}: {} rank{}, subject {}{}", options.scenario.string(), world.size, world.size == 1 ? "" : "s",
                     world.subject, world.fault.empty() ? "" : " with fault " + world.fault);
}

class PlayCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return play_help; }

  void declare(OptionDeclarations& options) override {
    options.argument("scenario", options_.scenario, "The scenario, a JSON document (docs/scenarios.md).");
    options.value(
        subject_group, "--subject", options_.plan.subject, "NAME[,NAME]",
        "Play on this engine: reference, pytorch, the path of a shared object, or an engine of the worker. The "
        "default is the worker's first engine. With two engines, the command compares them, and NAME+FAULT breaks "
        "one by a fault.");
    declare_worker(options, options_.worker, "the engines from");
    declare_fault(options, options_.plan.fault);
    options.value(subject_group, "--ulps", ulps_, "N",
                  "With two engines: allow captured values to differ by N units in the last place. The default is 0.");
    options.value(device_group, "--ranks", world_texts_.ranks, "N", "Play on N ranks. The default is 2.");
    declare_device(options, options_.plan, world_texts_);
    declare_timeout(options, world_texts_, "the scenario", "");
    options.value(file_group, "--trace", options_.trace, "FILE", "Write a trace for Perfetto into this file.");
    options.flag(
        file_group, "--show-plan", options_.show_plan,
        "Print the compiled step of rank 0: its nodes, all-reduces and waits. Also prints each later step that "
        "differs from the step before it.");
    options.value(file_group, "--plan-dot", options_.plan_dot, "FILE",
                  "Write the compiled step of rank 0 for Graphviz into this file.");
    declare_out(options, options_.out, keep_text);
    options.flag(terminal_group, "--json", options_.json, "Print JSON, with all values.");
    declare_color(options, color_);
    options.help(terminal_group);
  }

  void convert(const Arguments& arguments) override {
    require_arguments(arguments, {{"SCENARIO", options_.scenario}});
    require_placement(convert_world(world_texts_, options_.plan));
    if (options_.plan.ranks.size() > 1)
      throw CommandError(usage,
                         fmt::format("--ranks {}: play takes one world size", fmt::join(world_texts_.ranks, ",")));
    if (options_.plan.ranks.empty()) options_.plan.ranks = {2};
    if (ulps_) options_.ulps = whole_number("--ulps", *ulps_, 0, std::numeric_limits<std::uint32_t>::max());
    if (ulps_ && !names_two(options_.plan.subject))
      throw CommandError(usage, "--ulps: values of two subjects are compared, which --subject A,B names");
    options_.terminal.color = convert_color(color_);
  }

  int run(const std::vector<std::string>& argv) override {
    if (names_two(options_.plan.subject)) return play_on_two(options_, argv);
    if (options_.show_plan && options_.json)
      throw CommandError(usage,
                         "--show-plan with --json: leave --show-plan out; the JSON has the plans in `ranks[].plans`");
    const std::vector<std::string> kept_files = requested_files_in_output(options_);
    require_not_replaced(options_.scenario, options_.out);
    SignalWatch signals;
    Contender player =
        find_contender({options_.plan.subject, options_.plan.fault}, options_.plan, options_.worker, signals);
    check_scenario(player.worker, options_.scenario, options_.plan.ranks.front(), signals);

    const Document document{.file = options_.scenario, .ranks = options_.plan.ranks.front()};
    PlayPlan play = plan_of(player, {&document, 1});
    const std::string title = heading(options_, play.plan.worlds.front());

    const rendezvous::RendezvousDirectory scratch = rendezvous::RendezvousDirectory::make(1);
    const bool keeps_run = !options_.out.directory.empty();
    ClaimedDirectory claimed(keeps_run ? options_.out : OutputOptions{.directory = scratch.path() / "run"});
    for (const std::string& name : kept_files) claimed.note_file(name);
    const protocol::RunDirectory directory = claimed.run();
    warm_up(player.worker, player.plan, directory.warm_log(), signals);
    reports::RunHead head = make_head(player.worker, play.plan, player.plan, argv);
    Terminal silent(stderr, {.quiet = true});
    const RunResult run = run_plan(player.worker, std::move(play.plan), directory, std::move(head), signals, silent);

    Terminal terminal(options_.json ? stderr : stdout, options_.terminal);
    if (keeps_run) terminal.show_files_of(directory);
    else terminal.keep_nothing();
    const std::vector<protocol::PlayResult> ranks = play_results(directory.world(0), play.ids.front(), document.ranks);
    if (options_.json && !ranks.empty()) {
      print_output(base::dump_document(reports::to_json(ranks, run.report.worlds.front())) + "\n");
    } else if (!ranks.empty()) {
      terminal.print(reports::fitted(reports::printable(title) + "\n" +
                                     reports::to_text(ranks, run.report.worlds.front(), text_width)));
      if (options_.show_plan) terminal.print("\n" + reports::compiled_steps_text(ranks));
    }
    for (const reports::CaseResult& result : run.report.cases) {
      if (result.verdict == reports::Verdict::skipped) {
        throw CommandError(
            usage, fmt::format("{} cannot be played: {}", options_.scenario.string(), reports::skip_reason(result)));
      }
      if (reports::is_bad(result.verdict))
        terminal.print(reports::fitted(reports::failure_text(result, run.report, terminal.style())));
    }
    if (!options_.trace.empty() && !ranks.empty()) {
      write_trace(options_.trace, ranks);
      terminal.print(fmt::format("trace: {}", options_.trace.string()));
    }
    if (!options_.plan_dot.empty() && reports::has_compiled_step(ranks)) {
      write_file(options_.plan_dot, reports::compiled_steps_dot(ranks.front()));
      terminal.print(fmt::format("plan: {}", options_.plan_dot.string()));
    }
    for (const std::string& error : {run.output_error, run.infrastructure_error}) {
      if (!error.empty()) print_error(error);
    }
    if (run.interrupted_by != 0) print_error("interrupted before the scenario was played to its end");
    else require_printed(terminal.finish());
    const int code = exit_code(run);
    if (code == all_passed && !options_.plan_dot.empty() && !reports::has_compiled_step(ranks))
      throw CommandError(usage,
                         fmt::format("{} is not written: {}", options_.plan_dot.string(), reports::no_compiled_step));
    return code;
  }

 private:
  WorldTexts world_texts_;
  std::optional<std::string> ulps_;
  ColorText color_;
  PlayOptions options_;
};

}  // namespace

std::unique_ptr<Subcommand> make_play_command() { return std::make_unique<PlayCommand>(); }

}  // namespace shardproof::launcher
