#include "launcher/explore/exploration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/json_text.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/explore/shrinking.hpp"
#include "launcher/files/output.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {
namespace {

/// The number of scenarios in one world. It is large enough that starting the world costs little, and small enough that
/// a waiting user sees progress.
constexpr std::uint64_t scenarios_at_once = 32;
/// If everything differs, the first few scenarios show it.
constexpr std::uint64_t first_scenarios = 4;

/// Aspects that shrinking keeps, the strongest first.
constexpr std::array by_strength{reports::Aspect::verdict, reports::Aspect::counts, reports::Aspect::order,
                                 reports::Aspect::plan,    reports::Aspect::bits,   reports::Aspect::totals};

}  // namespace

DifferenceSignature signature_of(const SideBySide& both) {
  const auto strongest = std::ranges::find_if(
      by_strength, [&](reports::Aspect aspect) { return both.comparison.find(aspect) != nullptr; });
  DifferenceSignature signature{.aspect = *strongest, .both_played = both.comparison.both_played};
  if (signature.aspect == reports::Aspect::verdict)
    signature.verdicts = {both.plays[0].play.verdict, both.plays[1].play.verdict};
  return signature;
}

Exploration::Exploration(const ExploreOptions& options, const std::array<Contender, 2>& contenders,
                         ScenarioSource source, std::filesystem::path place, const std::vector<std::string>& argv,
                         SignalWatch& signals, Terminal& terminal, std::function<void(const FoundDifference&)> report)
    : options_(options),
      contenders_(contenders),
      source_(std::move(source)),
      place_(std::move(place)),
      argv_(argv),
      signals_(signals),
      terminal_(terminal),
      report_(std::move(report)),
      next_seed_(options.seed) {}

ExplorationResult Exploration::run() {
  try {
    while (!is_over()) play_batch();
  } catch (const CommandError& error) {
    result_.ended_by = error;
  }
  return std::move(result_);
}

bool Exploration::is_over() const {
  if (result_.ended_by || result_.differences.size() >= options_.max_differences) return true;
  if (options_.rounds && result_.rounds >= *options_.rounds) return true;
  return options_.time && std::chrono::steady_clock::now() - started_ >= *options_.time;
}

void Exploration::play_batch() {
  const std::uint64_t left =
      options_.rounds ? *options_.rounds - result_.rounds : std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t count = std::min({left, scenarios_at_once, std::max(result_.rounds, first_scenarios)});
  show_progress("");
  std::vector<MadeScenario> scenarios = make_scenarios(contenders_[0].worker, source_, next_seed_, count, signals_);
  std::vector<SideBySide> plays = play(scenarios);
  next_seed_ += count;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    ++result_.rounds;
    if (plays[i].comparison.alike()) ++result_.alike;
    else take({std::move(scenarios[i]), std::move(plays[i])});
    if (is_over()) return;
  }
}

std::vector<SideBySide> Exploration::play(std::span<const MadeScenario> scenarios) {
  const rendezvous::RendezvousDirectory scratch = rendezvous::RendezvousDirectory::make(1);
  std::vector<Document> documents;
  for (const MadeScenario& scenario : scenarios) {
    documents.push_back({.file = scratch.path() / fmt::format("{}.json", documents.size()), .ranks = scenario.ranks});
    write_file(documents.back().file, scenario.document);
  }
  return play_side_by_side(contenders_, documents, options_.ulps, scratch.path(), argv_, signals_);
}

void Exploration::take(const Candidate& candidate) {
  FoundDifference difference{.seed = candidate.scenario.seed};
  const DifferenceSignature signature = signature_of(candidate.both);
  difference.kept_aspect = to_string(signature.aspect);
  Candidate smallest = candidate;
  const auto shows = [&](std::span<const MadeScenario> scenarios) {
    std::vector<SideBySide> plays = play(scenarios);
    std::vector<bool> shown;
    for (const SideBySide& both : plays) shown.push_back(!both.comparison.alike() && signature_of(both) == signature);
    // The search continues with the first variant that shows it.
    if (const auto first = std::ranges::find(shown, true); first != shown.end())
      smallest.both = std::move(plays[static_cast<std::size_t>(first - shown.begin())]);
    return shown;
  };
  Shrunk shrunk = shrink(contenders_[0].worker, candidate.scenario, shows, signals_, [&](const Shrunk& found) {
    show_progress(fmt::format("seed {}: {} steps smaller, {} variants", difference.seed, found.steps, found.plays));
  });
  smallest.scenario = std::move(shrunk.scenario);
  difference.steps = shrunk.steps;
  difference.plays = shrunk.plays;
  difference.is_smallest = shrunk.is_smallest;
  difference.is_steady = shrunk.is_steady;
  if (shrunk.ended_by) result_.ended_by = shrunk.ended_by;
  const std::string known =
      fmt::format("{} {} {}", difference.kept_aspect, smallest.scenario.ranks, smallest.scenario.document);
  if (difference.is_smallest && !known_.insert(known).second) {
    ++result_.seen_again;
    return;
  }
  write(candidate, smallest, difference);
  report_(difference);
  result_.differences.push_back(std::move(difference));
}

void Exploration::write(const Candidate& found, const Candidate& smallest, FoundDifference& difference) {
  difference.ranks = smallest.scenario.ranks;
  for (const reports::PlayDifference& one : smallest.both.comparison.differences)
    difference.aspects.emplace_back(to_string(one.aspect));
  difference.folder = fmt::format("{}/{}", differences, result_.differences.size() + 1);
  difference.text = to_text(smallest.both);
  const std::filesystem::path folder = place_ / difference.folder;
  make_directory(folder);
  write_file(folder / "scenario.json", smallest.scenario.document);
  write_file(folder / "as_found.json", found.scenario.document);
  write_file(folder / "difference.txt", difference.text);
  write_file(folder / "difference.json", base::dump_document(to_json(smallest.both, contenders_)) + "\n");
}

void Exploration::show_progress(const std::string& doing) {
  std::string line = fmt::format("{} scenarios, {} difference{}", result_.rounds, result_.differences.size(),
                                 result_.differences.size() == 1 ? "" : "s");
  if (!doing.empty()) line += " | " + doing;
  terminal_.show_live(line);
}

}  // namespace shardproof::launcher
