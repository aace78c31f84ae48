#include "reports/play/play_difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "harness/base/enum_names.hpp"
#include "harness/trace/words.hpp"
#include "reports/play/compiled_steps.hpp"
#include "reports/play/play_bits.hpp"
#include "reports/play/play_calls.hpp"
#include "reports/play/play_counts.hpp"
#include "reports/play/play_order.hpp"

namespace shardproof::reports {

namespace {

using Json = nlohmann::ordered_json;
using PlayedRanks = std::vector<protocol::PlayResult>;

// -- Verdicts ---------------------------------------------------------------------------------------------------------

std::string outcome(const SubjectPlay& play) {
  std::string text(to_string(play.verdict));
  if (!play.why.empty()) text += "\n" + play.why;
  return text;
}

std::optional<PlayDifference> compare_verdicts(const SubjectPlay& first, const SubjectPlay& second) {
  if (first.verdict == second.verdict && first.ranks.empty() == second.ranks.empty()) return std::nullopt;
  std::string what = "both play it to its end, and they have different verdicts";
  if (first.ranks.empty() != second.ranks.empty()) what = "only one of them plays it to its end";
  else if (first.ranks.empty()) what = "neither plays it to its end, and they end differently";
  return PlayDifference{
      .aspect = Aspect::verdict, .what = std::move(what), .values = {outcome(first), outcome(second)}};
}

// -- Totals -----------------------------------------------------------------------------------------------------------

struct Phase {
  const char* name;
  std::optional<Nanoseconds> protocol::PhaseTimes::* time;
};

constexpr Phase compared_phases[] = {{"forward", &protocol::PhaseTimes::forward},
                                     {"forward_backward", &protocol::PhaseTimes::forward_backward},
                                     {"exposed", &protocol::PhaseTimes::exposed}};

std::string time_text(std::optional<Nanoseconds> time) { return time ? trace::in_time(*time) : "none"; }

std::optional<Nanoseconds> time_of(const protocol::PlayResult& rank, std::size_t iteration, const Phase& phase) {
  return iteration < rank.times.phases.size() ? rank.times.phases[iteration].*phase.time : std::nullopt;
}

PlayDifference total_difference(std::string what, std::size_t rank, std::optional<std::size_t> iteration,
                                std::optional<Nanoseconds> one, std::optional<Nanoseconds> other) {
  PlayDifference difference{.aspect = Aspect::totals,
                            .what = std::move(what),
                            .rank = static_cast<int>(rank),
                            .values = {time_text(one), time_text(other)}};
  if (iteration) difference.iteration = static_cast<int>(*iteration);
  return difference;
}

std::optional<Nanoseconds> micro_batch_time(const protocol::PlayResult& rank, std::size_t iteration, std::size_t number,
                                            const Phase& phase) {
  const auto& micro_batches = rank.times.phases.at(iteration).micro_batches;
  return number < micro_batches.size() ? micro_batches[number].*phase.time : std::nullopt;
}

/// The first micro-batch with different times. Both ranks have the iteration.
std::optional<PlayDifference> compare_micro_batches(const protocol::PlayResult& first,
                                                    const protocol::PlayResult& second, std::size_t rank,
                                                    std::size_t iteration) {
  const std::size_t count =
      std::max(first.times.phases[iteration].micro_batches.size(), second.times.phases[iteration].micro_batches.size());
  for (std::size_t number = 0; number < count; ++number) {
    for (const Phase& phase : compared_phases) {
      const auto one = micro_batch_time(first, iteration, number, phase),
                 other = micro_batch_time(second, iteration, number, phase);
      if (one != other)
        return total_difference(fmt::format("{} of micro-batch {}", phase.name, number), rank, iteration, one, other);
    }
  }
  return std::nullopt;
}

/// The first evaluate with different times, and then the end of the compute stream.
std::optional<PlayDifference> compare_calls(const protocol::PlayResult& first, const protocol::PlayResult& second,
                                            std::size_t rank) {
  const std::vector<CallTimes> one = call_times(first.times.trace), other = call_times(second.times.trace);
  for (std::size_t iteration = 0; iteration < first.times.phases.size(); ++iteration) {
    const auto mine = times_of(one, static_cast<int>(iteration), "evaluate"),
               theirs = times_of(other, static_cast<int>(iteration), "evaluate");
    for (std::size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i) {
      if (mine[i] != theirs[i]) return total_difference("evaluate", rank, iteration, mine[i], theirs[i]);
    }
  }
  if (compute_end(one) == compute_end(other)) return std::nullopt;
  return total_difference("compute_end", rank, std::nullopt, compute_end(one), compute_end(other));
}

std::optional<PlayDifference> compare_totals(const PlayedRanks& first, const PlayedRanks& second) {
  std::size_t iterations = 0;
  for (const PlayedRanks* ranks : {&first, &second}) {
    for (const protocol::PlayResult& rank : *ranks) iterations = std::max(iterations, rank.times.phases.size());
  }
  for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
    for (const Phase& phase : compared_phases) {
      for (std::size_t rank = 0; rank < first.size(); ++rank) {
        const auto one = time_of(first[rank], iteration, phase), other = time_of(second[rank], iteration, phase);
        if (one == other) continue;
        return total_difference(phase.name, rank, iteration, one, other);
      }
    }
  }
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    if (first[rank].times.total == second[rank].times.total) continue;
    return total_difference("total", rank, std::nullopt, first[rank].times.total, second[rank].times.total);
  }
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    const std::size_t both = std::min(first[rank].times.phases.size(), second[rank].times.phases.size());
    for (std::size_t iteration = 0; iteration < both; ++iteration) {
      if (auto found = compare_micro_batches(first[rank], second[rank], rank, iteration)) return found;
    }
    if (auto found = compare_calls(first[rank], second[rank], rank)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Aspect aspect) {
  return base::name_of<Aspect::bits>(aspect, {"verdict", "totals", "order", "counts", "plan", "bits"});
}

const PlayDifference* PlayComparison::find(Aspect aspect) const {
  const auto found = std::ranges::find(differences, aspect, &PlayDifference::aspect);
  return found == differences.end() ? nullptr : &*found;
}

PlayComparison compare(const SubjectPlay& first, const SubjectPlay& second, std::uint64_t ulps) {
  PlayComparison comparison{.subjects = {first.subject, second.subject},
                            .both_played = !first.ranks.empty() && !second.ranks.empty()};
  const auto keep = [&](std::optional<PlayDifference> difference) {
    if (difference) comparison.differences.push_back(*std::move(difference));
  };
  keep(compare_verdicts(first, second));
  if (!comparison.both_played) return comparison;
  if (first.ranks.size() != second.ranks.size()) {
    throw std::invalid_argument(
        fmt::format("{} played on {} ranks, {} on {}: plays can be compared only on equal numbers of ranks",
                    first.subject, first.ranks.size(), second.subject, second.ranks.size()));
  }
  comparison.ranks = first.ranks.size();
  keep(compare_totals(first.ranks, second.ranks));
  OrderComparison order = compare_orders(first.ranks, second.ranks);
  comparison.steps = order.steps;
  comparison.with_waits = order.with_waits;
  keep(std::move(order.first));
  CountsComparison counts = compare_counts(first.ranks, second.ranks);
  comparison.collectives = counts.collectives;
  keep(std::move(counts.first));
  CompiledStepsComparison compiled = compare_compiled_steps(first.ranks, second.ranks);
  comparison.compiled_steps = compiled.compared;
  keep(std::move(compiled.first));
  BitsComparison bits = compare_bits(first.ranks, second.ranks, ulps);
  comparison.elements = bits.compared;
  keep(std::move(bits.first));
  return comparison;
}

Json to_json(const PlayComparison& comparison) {
  Json json{{"alike", comparison.alike()},
            {"subjects", comparison.subjects},
            {"both_played", comparison.both_played},
            {"differences", Json::array()}};
  for (const PlayDifference& difference : comparison.differences) {
    Json& written =
        json["differences"].emplace_back(Json{{"aspect", to_string(difference.aspect)}, {"what", difference.what}});
    if (difference.rank) written["rank"] = *difference.rank;
    if (difference.iteration) written["iteration"] = *difference.iteration;
    if (difference.index) written["index"] = *difference.index;
    written["values"] = difference.values;
    if (!difference.more.empty()) written["more"] = difference.more;
  }
  json["compared"] = {{"ranks", comparison.ranks},
                      {"steps", comparison.steps},
                      {"waits", comparison.with_waits},
                      {"collectives", comparison.collectives},
                      {"values", comparison.elements}};
  if (comparison.compiled_steps > 0) json["compared"]["compiled_steps"] = comparison.compiled_steps;
  return json;
}

}  // namespace shardproof::reports
