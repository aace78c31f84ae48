// `shardproof explore`: do two subjects play the same, whatever they play?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "harness/base/json_text.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/explore/exploration.hpp"
#include "launcher/explore/side_by_side.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {
namespace {

using Json = nlohmann::ordered_json;

const ClaimInfo* claim_of(const Contender& contender, const std::string& kind) {
  const auto claim = std::ranges::find(contender.subject.claims, kind, &ClaimInfo::engine);
  return claim == contender.subject.claims.end() ? nullptr : &*claim;
}

/// The kind that the user asked for, or the first that both claim and for which the worker draws scenarios.
std::string drawn_engine(const std::string& asked, const std::array<Contender, 2>& contenders) {
  const std::vector<std::string>& drawn = contenders[0].worker.listing.drawn_kinds;
  const auto refuse_lacking = [&](const Contender& contender, const std::string& kind) {
    if (claim_of(contender, kind) == nullptr)
      throw CommandError(usage, fmt::format("subject {} does not claim the engine kind {}", contender.asked, kind));
  };
  if (!asked.empty()) {
    if (std::ranges::find(drawn, asked) == drawn.end())
      throw CommandError(usage, fmt::format("--engine {}: scenarios are drawn for {}", asked, fmt::join(drawn, ", ")));
    for (const Contender& contender : contenders) refuse_lacking(contender, asked);
    return asked;
  }
  const auto common = std::ranges::find_if(drawn, [&](const std::string& kind) {
    return std::ranges::all_of(contenders,
                               [&](const Contender& contender) { return claim_of(contender, kind) != nullptr; });
  });
  if (common == drawn.end())
    throw CommandError(
        usage, fmt::format("subjects {} and {} both claim none of the engine kinds for which scenarios are drawn: {}",
                           contenders[0].asked, contenders[1].asked, fmt::join(drawn, ", ")));
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
    json["subjects"].push_back({{"asked", contender.asked},
                                {"name", contender.subject.name},
                                {"version", contender.subject.version},
                                {"fault", contender.plan.fault}});
  }
  for (const FoundDifference& difference : result.differences) {
    json["differences"].push_back({{"seed", difference.seed},
                                   {"ranks", difference.ranks},
                                   {"aspects", difference.aspects},
                                   {"kept", difference.kept},
                                   {"smallest", difference.is_smallest},
                                   {"steady", difference.is_steady},
                                   {"folder", difference.folder.string()},
                                   {"play", play_text(options, difference, place, program)},
                                   {"find", again(options, difference, program)}});
  }
  return json;
}

}  // namespace

int explore_command(const ExploreOptions& asked, const std::vector<std::string>& argv) {
  SignalWatch signals;
  ExploreOptions options = asked;
  std::array<Contender, 2> contenders = find_contenders(options.plan, options.worker, signals);
  options.engine = drawn_engine(asked.engine, contenders);
  const ScenarioSource source{.engine = options.engine,
                              .ranks = options.plan.ranks,
                              .features = common_features(contenders, options.engine),
                              .left_out = options.left_out};
  make_scenarios(contenders[0].worker, source, options.seed, 1, signals);  // throws if the left-out parts are wrong
  const ClaimedDirectory claimed(options.out);
  const std::filesystem::path& place = claimed.path();
  prepare(contenders, place, signals);

  Terminal terminal(options.json ? stderr : stdout, options.terminal);
  terminal.note(fmt::format("{}: scenarios for {} from seed {} on, for {} rank{}", names_text(contenders),
                            source.engine, options.seed, fmt::join(source.ranks, ", "),
                            source.ranks == std::vector{1} ? "" : "s"));
  const std::string program = argv.empty() ? "shardproof" : argv.front();
  const auto tell = [&](const FoundDifference& difference) {
    terminal.print(text_of(options, difference, place, program));
  };
  const ExplorationResult result = Exploration(options, contenders, source, place, argv, signals, terminal, tell).run();

  const Json json = json_of(options, contenders, source, result, place, program);
  write_file(place / "explored.json", dump_document(json) + "\n");
  std::string last = result.rounds == 0
                         ? "no scenario was played"
                         : fmt::format("{} scenario{}, {}: {} alike", result.rounds, result.rounds == 1 ? "" : "s",
                                       seeds_text(options.seed, result.rounds), result.alike);
  last += fmt::format(", {} difference{}", result.differences.size(), result.differences.size() == 1 ? "" : "s");
  if (result.seen_again > 0) last += fmt::format(", {} of them seen again", result.seen_again);
  terminal.print(last);
  terminal.note(fmt::format("found: {}", place.string()));
  if (options.json) say(dump_document(json) + "\n");
  if (result.ended_by) {
    terminal.finish();
    complain(fmt::format("{}; what was found until then is kept", result.ended_by->what()));
    return result.ended_by->code();
  }
  if (!options.json) require_said(terminal.finish());
  return result.differences.empty() ? all_passed : case_failed;
}

}  // namespace shardproof::launcher
