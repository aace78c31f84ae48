// `shardproof explore`: do two subjects play the same, whatever they play?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/base/json_text.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/option_values.hpp"
#include "launcher/commands/shared_options.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/explore/exploration.hpp"
#include "launcher/explore/side_by_side.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {
namespace {

constexpr HelpText explore_help{
    .name = "explore",
    .summary = "Play random small scenarios on two subjects, and make each difference as small as possible.",
    .examples =
        "    shardproof explore --subject reference,pytorch --rounds 1000\n"
        "                                                 1000 scenarios on two engines\n"
        "    shardproof explore --subject reference,reference+gather_before_step\n"
        "                                                 an engine, and the same engine with a fault\n",
    .arguments = "",
    .footer =
        "Exit codes, the first that applies:\n"
        "    128+N  Signal N interrupted the command.\n"
        "    2      The command line is wrong, or output cannot be written.\n"
        "    3      A worker failed, or its ranks did not meet.\n"
        "    1      A difference was found.\n"
        "    0      No difference was found.\n"
        "\n"
        "The command keeps what it has found, however it ends."};

using Json = nlohmann::ordered_json;

const protocol::ClaimInfo* claim_of(const Contender& contender, const std::string& kind) {
  const auto claim = std::ranges::find(contender.subject.claims, kind, &protocol::ClaimInfo::engine);
  return claim == contender.subject.claims.end() ? nullptr : &*claim;
}

/// The kind that the user asked for, or the first that both claim and for which the worker draws scenarios.
std::string drawn_engine(const std::string& requested, const std::array<Contender, 2>& contenders) {
  const std::vector<std::string>& drawn = contenders[0].worker.listing.drawn_kinds;
  const auto refuse_lacking = [&](const Contender& contender, const std::string& kind) {
    if (claim_of(contender, kind) == nullptr)
      throw CommandError(usage, fmt::format("subject {} does not claim the engine kind {}", contender.requested, kind));
  };
  if (!requested.empty()) {
    if (std::ranges::find(drawn, requested) == drawn.end())
      throw CommandError(usage,
                         fmt::format("--engine {}: scenarios are drawn for {}", requested, fmt::join(drawn, ", ")));
    for (const Contender& contender : contenders) refuse_lacking(contender, requested);
    return requested;
  }
  const auto common = std::ranges::find_if(drawn, [&](const std::string& kind) {
    return std::ranges::all_of(contenders,
                               [&](const Contender& contender) { return claim_of(contender, kind) != nullptr; });
  });
  if (common == drawn.end())
    throw CommandError(
        usage, fmt::format("subjects {} and {} both claim none of the engine kinds for which scenarios are drawn: {}",
                           contenders[0].requested, contenders[1].requested, fmt::join(drawn, ", ")));
  return *common;
}

/// The features that both claim for this kind of engine.
std::vector<std::string> common_features(const std::array<Contender, 2>& contenders, const std::string& kind) {
  const std::vector<std::string>&one = claim_of(contenders[0], kind)->features,
        &other = claim_of(contenders[1], kind)->features;
  std::vector<std::string> common;
  std::ranges::copy_if(one, std::back_inserter(common),
                       [&](const std::string& feature) { return std::ranges::find(other, feature) != other.end(); });
  return common;
}

std::string seeds_text(std::uint64_t first, std::uint64_t count) {
  return count == 1 ? fmt::format("seed {}", first) : fmt::format("seeds {} to {}", first, first + count - 1);
}

/// The options that both commands below share.
std::string common_options(const ExploreOptions& options) {
  std::string text = " --subject " + reports::shell_word(options.plan.subject);
  if (options.ulps > 0) text += fmt::format(" --ulps {}", options.ulps);
  if (options.plan.timeout)
    text += fmt::format(" --timeout {}", std::chrono::duration<double>(*options.plan.timeout).count());
  if (!options.worker.empty()) text += " --worker " + reports::shell_word(options.worker.string());
  return text;
}

/// The command that finds the difference again. It keeps the options in `argv` that decide what a seed makes: the
/// subjects, and the parts that scenarios may have.
std::string again(const ExploreOptions& options, const FoundDifference& difference, const std::string& program) {
  std::string command =
      fmt::format("{} explore --engine {} --seed {} --rounds 1 --ranks {}", reports::shell_word(program),
                  options.engine, difference.seed, fmt::join(options.plan.ranks, ","));
  if (!options.left_out.empty()) command += fmt::format(" --without {}", fmt::join(options.left_out, ","));
  return command + common_options(options);
}

std::string play_text(const ExploreOptions& options, const FoundDifference& difference,
                      const std::filesystem::path& place, const std::string& program) {
  return fmt::format("{} play {} --ranks {}{}", reports::shell_word(program),
                     reports::shell_word((place / difference.folder / "scenario.json").string()), difference.ranks,
                     common_options(options));
}

std::string text_of(const ExploreOptions& options, const FoundDifference& difference,
                    const std::filesystem::path& place, const std::string& program) {
  return fmt::format(
      "seed {}: {} differ; {} in {} steps of {} plays{}:\n{}  play it: {}\n  find it: {}\n", difference.seed,
      fmt::join(difference.aspects, ", "), difference.is_smallest ? "made smaller" : "made smaller, not to the end,",
      difference.steps, difference.plays, difference.is_steady ? "" : "; played once more, it did not show",
      difference.text, play_text(options, difference, place, program), again(options, difference, program));
}

Json json_of(const ExploreOptions& options, const std::array<Contender, 2>& contenders, const ScenarioSource& source,
             const ExplorationResult& result, const std::filesystem::path& place, const std::string& program) {
  Json json{{"subjects", Json::array()},
            {"seed", options.seed},
            {"rounds", result.rounds},
            {"ranks", source.ranks},
            {"engine", source.engine},
            {"features", source.features},
            {"without", source.left_out},
            {"ulps", options.ulps},
            {"alike", result.alike},
            {"seen_again", result.seen_again},
            {"interrupted", result.ended_by && result.ended_by->is_interrupt()},
            {"error", nullptr},
            {"differences", Json::array()}};
  if (result.ended_by && !result.ended_by->is_interrupt()) json["error"] = reports::printable(result.ended_by->what());
  for (const Contender& contender : contenders) {
    json["subjects"].push_back({{"asked", contender.requested},
                                {"name", contender.subject.name},
                                {"version", contender.subject.version},
                                {"fault", contender.plan.fault}});
  }
  for (const FoundDifference& difference : result.differences) {
    json["differences"].push_back({{"seed", difference.seed},
                                   {"ranks", difference.ranks},
                                   {"aspects", difference.aspects},
                                   {"kept", difference.kept_aspect},
                                   {"smallest", difference.is_smallest},
                                   {"steady", difference.is_steady},
                                   {"folder", difference.folder.string()},
                                   {"play", play_text(options, difference, place, program)},
                                   {"find", again(options, difference, program)}});
  }
  return json;
}

class ExploreCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return explore_help; }

  void declare(OptionDeclarations& options) override {
    options.value(case_group, "--rounds", texts_.rounds, "N",
                  "Play N scenarios. The default is 100, or as many as --for has time for.");
    options.value(case_group, "--for", texts_.time, "TIME",
                  "Begin no scenario after this time, for example 90s, 10min or 2h.");
    options.value(case_group, "--seed", texts_.seed, "N",
                  "Draw the first scenario from this seed. The default is 0. Each later scenario has the next seed.");
    options.value(
        case_group, "--engine", options_.engine, "KIND",
        "Draw scenarios for this kind of engine. The default is the first kind that both engines claim and that can be "
        "drawn.");
    options.list(case_group, "--ranks", world_texts_.ranks, "N[,N...]",
                 "Play on worlds of these sizes. The default is 1,2,4. The seed chooses the size for each scenario.");
    options.list(
        case_group, "--without", texts_.left_out, "NAME[,NAME...]",
        "Leave out features, for example mixed_precision, or other ingredients, for example adam. For an unknown "
        "name, the command prints all names.");
    options.value(case_group, "--max-differences", texts_.max_differences, "N",
                  "End after N differences. The default is 1.");
    options.value(
        subject_group, "--subject", options_.plan.subject, "A,B",
        "Compare these two engines, named as in `play`. A+FAULT breaks an engine by a fault (docs/side-by-side.md).");
    declare_worker(options, options_.worker, "the engines from");
    options.value(subject_group, "--ulps", texts_.ulps, "N",
                  "Allow captured values to differ by N units in the last place. The default is 0.");
    declare_timeout(options, world_texts_, "each scenario", "");
    declare_out(options, options_.out, write_text);
    options.flag(terminal_group, "--json", options_.json, "Print what was found as JSON.");
    options.flag(terminal_group, "-q,--quiet", options_.terminal.quiet, "Print differences and the last line only.");
    declare_color(options, color_);
    options.help(terminal_group);
  }

  void convert(const Arguments& arguments) override {
    require_arguments(arguments, {});
    require_placement(convert_world(world_texts_, options_.plan));
    if (options_.plan.subject.empty())
      throw CommandError(usage, "explore takes two subjects: shardproof explore --subject A,B");
    two_subjects(options_.plan.subject);
    if (options_.plan.ranks.empty()) options_.plan.ranks = {1, 2, 4};
    const auto number = [](const char* option, const std::string& text, std::uint64_t least) {
      return whole_number(option, text, least, std::numeric_limits<std::uint64_t>::max());
    };
    if (texts_.seed) options_.seed = number("--seed", *texts_.seed, 0);
    if (texts_.rounds) options_.rounds = number("--rounds", *texts_.rounds, 1);
    if (texts_.time) options_.time = span_of_time("--for", *texts_.time);
    if (!options_.rounds && !options_.time) options_.rounds = 100;
    constexpr std::uint64_t last_seed = std::numeric_limits<std::uint64_t>::max();
    if (options_.rounds && *options_.rounds - 1 > last_seed - options_.seed)
      throw CommandError(usage, fmt::format("--seed {}: {} rounds go beyond the last seed, {}; use a smaller seed",
                                            options_.seed, *options_.rounds, last_seed));
    // Without a number of rounds, the exploration ends at the last seed, if not before.
    if (!options_.rounds && options_.seed > 0) options_.rounds = last_seed - options_.seed + 1;
    if (texts_.max_differences) options_.max_differences = number("--max-differences", *texts_.max_differences, 1);
    if (texts_.ulps) options_.ulps = whole_number("--ulps", *texts_.ulps, 0, std::numeric_limits<std::uint32_t>::max());
    options_.left_out = listed("--without", texts_.left_out);
    options_.terminal.color = convert_color(color_);
  }

  int run(const std::vector<std::string>& argv) override {
    SignalWatch signals;
    std::array<Contender, 2> contenders = find_contenders(options_.plan, options_.worker, signals);
    options_.engine = drawn_engine(options_.engine, contenders);
    const ScenarioSource source{.engine = options_.engine,
                                .ranks = options_.plan.ranks,
                                .features = common_features(contenders, options_.engine),
                                .left_out = options_.left_out};
    make_scenarios(contenders[0].worker, source, options_.seed, 1, signals);  // throws if the left-out parts are wrong
    const ClaimedDirectory claimed(options_.out);
    const std::filesystem::path& place = claimed.path();
    prepare(contenders, place, signals);

    Terminal terminal(options_.json ? stderr : stdout, options_.terminal);
    terminal.note(fmt::format("{}: scenarios for {} from seed {} on, for {} rank{}", names_text(contenders),
                              source.engine, options_.seed, fmt::join(source.ranks, ", "),
                              source.ranks == std::vector{1} ? "" : "s"));
    const std::string program = argv.empty() ? "shardproof" : argv.front();
    const auto report = [&](const FoundDifference& difference) {
      terminal.print(text_of(options_, difference, place, program));
    };
    const ExplorationResult result =
        Exploration(options_, contenders, source, place, argv, signals, terminal, report).run();

    const Json json = json_of(options_, contenders, source, result, place, program);
    write_file(place / "explored.json", base::dump_document(json) + "\n");
    std::string last = result.rounds == 0
                           ? "no scenario was played"
                           : fmt::format("{} scenario{}, {}: {} alike", result.rounds, result.rounds == 1 ? "" : "s",
                                         seeds_text(options_.seed, result.rounds), result.alike);
    last += fmt::format(", {} difference{}", result.differences.size(), result.differences.size() == 1 ? "" : "s");
    if (result.seen_again > 0) last += fmt::format(", {} of them seen again", result.seen_again);
    terminal.print(last);
    terminal.note(fmt::format("found: {}", place.string()));
    if (options_.json) print_output(base::dump_document(json) + "\n");
    if (result.ended_by) {
      terminal.finish();
      print_error(fmt::format("{}; what was found until then is kept", result.ended_by->what()));
      return result.ended_by->code();
    }
    if (!options_.json) require_printed(terminal.finish());
    return result.differences.empty() ? all_passed : case_failed;
  }

 private:
  struct Texts {
    std::optional<std::string> seed, rounds, time, max_differences, ulps;
    std::vector<std::string> left_out;
  };
  Texts texts_;
  WorldTexts world_texts_;
  ColorText color_;
  ExploreOptions options_;
};

}  // namespace

std::unique_ptr<Subcommand> make_explore_command() { return std::make_unique<ExploreCommand>(); }

}  // namespace shardproof::launcher
