// `shardproof play`: one scenario on real ranks, outside any suite.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/json_text.hpp"
#include "harness/protocol/play_result.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/option_values.hpp"
#include "launcher/commands/play.hpp"
#include "launcher/commands/play_output.hpp"
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
#include "reports/export/command_line_words.hpp"
#include "reports/export/failure_text.hpp"
#include "reports/play/compiled_steps.hpp"
#include "reports/play/play.hpp"

namespace shardproof::launcher {
namespace {

constexpr HelpText play_help{
    .name = "play",
    .summary = "Play scenarios on real ranks, and show their times, their collectives and a timeline.",
    .examples =
        "    shardproof play scenario.json --ranks 4      on 4 ranks\n"
        "    shardproof play scenario.json --subject reference,pytorch\n"
        "                                                 on two engines, and what differs\n"
        "    shardproof play a.json b.json                one after the other\n"
        "    shardproof play scenario.json --trace t.json\n"
        "                                                 write a trace for Perfetto\n"
        "    shardproof play scenario.json --show-plan    also print the compiled step\n",
    .arguments = "SCENARIO...",
    .footer =
        "Exit codes, the first that applies:\n"
        "    128+N  Signal N interrupted the command.\n"
        "    2      The command line is wrong, the scenario cannot be played, or output cannot be written.\n"
        "    3      The worker failed, or its ranks did not meet.\n"
        "    4      A rank crashed or hung.\n"
        "    5      Ranks disagree.\n"
        "    1      The subject failed, or a race was found.\n"
        "    0      The scenarios were played.\n"
        "\n"
        "Exit codes with two subjects, after the first three above:\n"
        "    1      The subjects differ.\n"
        "    4      Both subjects crashed or hung.\n"
        "    0      The subjects do the same, which may be to refuse the scenario."};

constexpr int text_width = 100;

constexpr std::string_view trace_to_output = "-";

std::string trace_text(const std::vector<protocol::PlayResult>& ranks) {
  std::vector<Trace> traces;
  std::ranges::transform(ranks, std::back_inserter(traces), [](const protocol::PlayResult& rank) {
    return (rank.measured ? *rank.measured : rank.times).trace;
  });
  return base::dump_line(reports::chrome_trace(traces)) + "\n";
}

/// The names of asked files that are in the output directory. Throws CommandError (usage) where a file cannot be
/// written.
std::vector<std::string> requested_files_in_output(const PlayOptions& options) {
  std::vector<RequestedFile> files;
  if (!options.trace.empty() && options.trace != trace_to_output)
    files.push_back({"--trace", options.trace, "trace.json"});
  if (!options.plan_dot.empty()) files.push_back({"--plan-dot", options.plan_dot, "plan.dot"});
  return require_requested_files(files, options.out);
}

std::string heading(const Document& document, const Contender& player) {
  return fmt::format("{}: {} rank{}, subject {}{}", document.file.string(), document.ranks,
                     document.ranks == 1 ? "" : "s", player.subject.name,
                     player.plan.fault.empty() ? "" : " with fault " + player.plan.fault);
}

/// Options that are for a single play, or that both write to standard output.
void require_outputs(const PlayOptions& options) {
  if (options.show_plan && options.json)
    throw CommandError(usage,
                       "--show-plan with --json: leave --show-plan out; the JSON has the plans in `ranks[].plans`");
  if (options.trace == trace_to_output && options.json)
    throw CommandError(usage, "--trace - with --json: both write to standard output; give --trace a file");
  if (options.scenarios.size() == 1) return;
  for (const auto& [name, file] : {std::pair("--trace", &options.trace), std::pair("--plan-dot", &options.plan_dot)}) {
    if (!file->empty())
      throw CommandError(usage, fmt::format("{0} takes one scenario: leave {0} out, or give one scenario", name));
  }
}

/// The command line that plays this one of several documents, with the options that the play depends on.
std::vector<std::string> argv_for(const std::filesystem::path& document, const std::vector<std::string>& argv) {
  std::vector<std::string_view> options{"--worker", "--subject", "--fault", "--ranks", "--timeout", "--device"};
  options.insert(options.end(), std::begin(reports::gpu_options), std::end(reports::gpu_options));
  const std::vector<std::string> words = reports::words_given(argv, options, std::array{reports::share_gpus_flag});
  const std::string file = document.string();
  std::vector<std::string> command{argv.front(), play_help.name};
  if (!file.starts_with('-')) command.push_back(file);
  command.insert(command.end(), words.begin(), words.end());
  if (file.starts_with('-')) command.insert(command.end(), {std::string(reports::end_of_options), file});
  return command;
}

/// Plays documents on one subject, and shows each.
class OneSubjectPlay {
 public:
  OneSubjectPlay(const PlayOptions& options, Contender player)
      : options_(options),
        player_(std::move(player)),
        output_(options.json || options.trace == trace_to_output ? stderr : stdout, options) {}

  /// Returns the exit code.
  int run(std::span<const CheckedDocument> checked, std::span<const std::string> kept_files,
          const std::vector<std::string>& argv, SignalWatch& signals) {
    const std::vector<Document> documents = playable(checked);
    if (documents.empty()) {
      for (const CheckedDocument& each : checked) output_.refuse(each);
      output_.print_array();
      return usage;
    }
    const rendezvous::RendezvousDirectory scratch = rendezvous::RendezvousDirectory::make(1);
    const bool keeps_run = !options_.out.directory.empty();
    ClaimedDirectory claimed(keeps_run ? options_.out : OutputOptions{.directory = scratch.path() / "run"});
    for (const std::string& name : kept_files) claimed.note_file(name);
    const protocol::RunDirectory directory = claimed.run();
    if (keeps_run) output_.terminal().show_files_of(directory);
    else output_.terminal().keep_nothing();

    PlayPlan play = plan_of(player_, documents);
    warm_up(player_.worker, player_.plan, directory.warm_log(), signals);
    reports::RunHead head = make_head(player_.worker, play.plan, player_.plan, argv);
    Terminal silent(stderr, {.quiet = true});
    // Documents are independent: hangs of some documents say nothing about the others.
    const RetryOptions retry{.retries = 0, .max_hangs = std::numeric_limits<int>::max()};
    RunResult run = run_plan(player_.worker, std::move(play.plan), directory, std::move(head), signals, silent, retry);
    auto id = play.ids.begin();
    for (const CheckedDocument& each : checked) {
      if (!each.refusal.empty()) output_.refuse(each);
      else show(each.document, *id++, run, directory, argv);
    }
    output_.print_array();
    for (const std::string& error : {run.output_error, run.infrastructure_error}) {
      if (!error.empty()) print_error(error);
    }
    if (run.interrupted_by == 0) output_.finish();
    else
      print_error(documents.size() == 1 ? "interrupted before the scenario was played to its end"
                                        : "interrupted before all scenarios were played");
    const int code = exit_code(run);
    if (!output_.is_refused()) return code;
    return code > 128 ? code : usage;
  }

 private:
  void show(const Document& document, const std::string& id, RunResult& run, const protocol::RunDirectory& directory,
            const std::vector<std::string>& argv) {
    const auto result = std::ranges::find(run.report.cases, id, [](const auto& one) { return one.info.id; });
    if (result == run.report.cases.end()) return;  // the run says why it has none
    if (result->verdict == reports::Verdict::skipped) {
      output_.refuse(
          {document, fmt::format("{} cannot be played: {}", document.file.string(), reports::skip_reason(*result))});
      return;
    }
    const reports::WorldResult& world = run.report.worlds.at(static_cast<std::size_t>(result->world));
    const std::vector<protocol::PlayResult> ranks = play_results(directory.world(world.number), id, document.ranks);
    if (options_.json)
      output_.show(document, why_bad(*result, run.report), ranks.empty() ? nullptr : reports::to_json(ranks, world));
    else if (!ranks.empty()) show_text(document, ranks, world);
    if (reports::is_bad(result->verdict)) {
      if (options_.scenarios.size() > 1) run.report.head.argv = argv_for(document.file, argv);
      output_.terminal().print(reports::fitted(reports::failure_text(*result, run.report, output_.terminal().style())));
    }
    write_files(document, ranks, result->verdict);
  }

  void show_text(const Document& document, const std::vector<protocol::PlayResult>& ranks,
                 const reports::WorldResult& world) {
    output_.show(heading(document, player_), reports::to_text(ranks, world, text_width));
    if (options_.show_plan) output_.terminal().print("\n" + reports::compiled_steps_text(ranks));
  }

  void write_files(const Document& document, const std::vector<protocol::PlayResult>& ranks, reports::Verdict verdict) {
    if (options_.trace == trace_to_output) {
      if (!ranks.empty()) print_output(trace_text(ranks));
    } else if (!options_.trace.empty() && !ranks.empty()) {
      write_file(options_.trace, trace_text(ranks));
      output_.terminal().print(fmt::format("trace: {}", options_.trace.string()));
    }
    if (options_.plan_dot.empty()) return;
    if (reports::has_compiled_step(ranks)) {
      write_file(options_.plan_dot, reports::compiled_steps_dot(ranks.front()));
      output_.terminal().print(fmt::format("plan: {}", options_.plan_dot.string()));
    } else if (!reports::is_bad(verdict)) {
      output_.refuse(
          {document, fmt::format("{} is not written: {}", options_.plan_dot.string(), reports::no_compiled_step)});
    }
  }

  const PlayOptions& options_;
  Contender player_;
  PlayOutput output_;
};

class PlayCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return play_help; }

  void declare(OptionDeclarations& options) override {
    options.argument("scenario", scenario_,
                     "A scenario, a JSON document (docs/scenarios.md). Several scenarios are played in their order.");
    options.value(
        subject_group, "--subject", options_.plan.subject, "NAME[,NAME]",
        "Play on this engine: reference, pytorch, the path of a shared object, or an engine of the worker. The "
        "default is the worker's first engine. With two engines, the command compares them, and NAME+FAULT breaks "
        "one by a fault.");
    declare_worker(options, options_.worker, "the engines from");
    declare_fault(options, options_.plan.fault);
    options.value(subject_group, "--ulps", ulps_, "N",
                  "With two engines: allow captured values to differ by N units in the last place. The default is 0.");
    options.value(device_group, "--ranks", world_texts_.ranks, "N",
                  "Play on N ranks. The default is the `world_size` of the document, or 2.");
    declare_device(options, options_.plan, world_texts_);
    declare_timeout(options, world_texts_, "the scenario", "");
    options.value(
        file_group, "--trace", options_.trace, "FILE",
        "Write a trace for Perfetto into this file. With -, write it to standard output, and all other text to "
        "standard error.");
    options.flag(
        file_group, "--show-plan", options_.show_plan,
        "Print the compiled step of rank 0: its nodes, all-reduces and waits. Also prints each later step that "
        "differs from the step before it.");
    options.value(file_group, "--plan-dot", options_.plan_dot, "FILE",
                  "Write the compiled step of rank 0 for Graphviz into this file.");
    declare_out(options, options_.out, keep_text);
    options.flag(terminal_group, "--json", options_.json,
                 "Print JSON, with all values. For several scenarios, an array with an element for each.");
    declare_color(options, color_);
    options.help(terminal_group);
  }

  void convert(const Arguments& arguments) override {
    require_arguments({arguments.command, {}}, {{"SCENARIO", scenario_}});
    options_.scenarios = {scenario_};
    options_.scenarios.insert(options_.scenarios.end(), arguments.words.begin(), arguments.words.end());
    require_placement(convert_world(world_texts_, options_.plan));
    if (options_.plan.ranks.size() > 1)
      throw CommandError(usage,
                         fmt::format("--ranks {}: play takes one world size", fmt::join(world_texts_.ranks, ",")));
    if (!options_.plan.ranks.empty()) options_.ranks = options_.plan.ranks.front();
    if (ulps_) options_.ulps = whole_number("--ulps", *ulps_, 0, std::numeric_limits<std::uint32_t>::max());
    if (ulps_ && !names_two(options_.plan.subject))
      throw CommandError(usage, "--ulps: values of two subjects are compared, which --subject A,B names");
    options_.terminal.color = convert_color(color_);
  }

  int run(const std::vector<std::string>& argv) override {
    if (names_two(options_.plan.subject)) return play_on_two(options_, argv);
    require_outputs(options_);
    const std::vector<std::string> kept_files = requested_files_in_output(options_);
    for (const std::filesystem::path& scenario : options_.scenarios) require_not_replaced(scenario, options_.out);
    SignalWatch signals;
    Contender player =
        find_contender({options_.plan.subject, options_.plan.fault}, options_.plan, options_.worker, signals);
    const std::vector<CheckedDocument> checked = check_documents(options_, {&player, 1}, signals);
    return OneSubjectPlay(options_, std::move(player)).run(checked, kept_files, argv, signals);
  }

 private:
  WorldTexts world_texts_;
  std::filesystem::path scenario_;  // the first
  std::optional<std::string> ulps_;
  ColorText color_;
  PlayOptions options_;
};

}  // namespace

std::vector<CheckedDocument> check_documents(const PlayOptions& options, std::span<const Contender> contenders,
                                             SignalWatch& signals) {
  std::vector<CheckedDocument> checked;
  for (const std::filesystem::path& scenario : options.scenarios) {
    CheckedDocument& each = checked.emplace_back(CheckedDocument{{.file = scenario}, ""});
    try {
      std::optional<int> ranks = options.ranks;
      for (const Contender& contender : contenders) {
        ranks = check_scenario(contender.worker, scenario, ranks, signals);
        each.document.ranks = *ranks;
        require_playable(contender, each.document);
      }
    } catch (const CommandError& error) {
      if (error.code() != usage) throw;
      each.refusal = error.what();
    }
  }
  return checked;
}

std::vector<Document> playable(std::span<const CheckedDocument> checked) {
  std::vector<Document> documents;
  for (const CheckedDocument& each : checked) {
    if (each.refusal.empty()) documents.push_back(each.document);
  }
  return documents;
}

std::unique_ptr<Subcommand> make_play_command() { return std::make_unique<PlayCommand>(); }

}  // namespace shardproof::launcher
