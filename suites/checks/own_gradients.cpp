#include "suites/checks/own_gradients.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <iterator>
#include <numeric>

#include "fixtures/oracles/rounding.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/subject/subject.hpp"
#include "suites/checks/clauses.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/kind.hpp"
#include "suites/checks/sum_over_ranks.hpp"

namespace shardproof::suites {

namespace {

// The input of a rank, as docs/scenarios.md specifies it.
std::vector<double> input(const Scenario& scenario, int rank_index, int iteration) {
  const Script& script = scenario.script;
  const int batch = batch_of(scenario, rank_index);
  if (script.given.empty()) {
    const auto seed = static_cast<std::uint32_t>(1000 + 100 * iteration + batch);
    return formula::tensor(seed, script.input, script.input_divisor).to_doubles();
  }
  const auto& of_ranks = script.given[static_cast<std::size_t>(iteration) % script.given.size()];
  return of_ranks[static_cast<std::size_t>(batch) % of_ranks.size()];
}

// The elements of the logical parameter that the rank holds.
std::span<const double> held_part(std::span<const double> whole, const CapturedParameter& held) {
  std::int64_t row = 1;  // elements
  for (std::size_t d = 1; d < held.shape.size() && held.dim != flattened; ++d) row *= held.shape[d];
  return whole.subspan(static_cast<std::size_t>(held.start * row), static_cast<std::size_t>(held.shard.numel()));
}

}  // namespace

std::vector<NamedGradient> own_gradients(const Scenario& scenario, int rank_index, int iteration) {
  Scenario alone{.model = scenario.model, .plan = kind_of(scenario.plan).of_one_rank(scenario.plan)};
  alone.script.input = scenario.script.input;
  alone.script.given = {{input(scenario, rank_index, iteration)}};
  alone.script.segments = {
      {.body = {{.kind = ActionKind::forward}, {.kind = ActionKind::backward}, {.kind = ActionKind::capture}}}};
  const auto computed = oracles::train_serially(alone, 1, oracles::Arithmetic::f64);
  std::vector<NamedGradient> gradients;
  std::ranges::transform(
      computed.at(0).gradients, std::back_inserter(gradients),
      [](const oracles::NamedValues& gradient) { return NamedGradient{gradient.name, gradient.values}; });
  return gradients;
}

double mean(std::span<const double> by_rank) { return sum(by_rank) / static_cast<double>(by_rank.size()); }

double sum(std::span<const double> by_rank) { return std::accumulate(by_rank.begin(), by_rank.end(), 0.0); }

void check_gradients(Rank& rank, const Run& run, const Combine& combine, const std::string& path) {
  const auto judged = judging(rank, Finding::values);
  const int world = rank.world().size();
  REQUIRE_FALSE(run.captures().empty());
  std::int64_t compared = 0, differing = 0;
  for (const Capture& capture : run.captures()) {
    CAPTURE(capture.iteration);
    std::vector<std::vector<NamedGradient>> by_rank;
    for (int each = 0; each < world; ++each) by_rank.push_back(own_gradients(run.scenario(), each, capture.iteration));
    const std::vector<CapturedParameter>& held = capture.parameters;
    REQUIRE(held.size() == by_rank.front().size());
    for (std::size_t p = 0; p < held.size(); ++p) {
      if (!is_at_or_under(held[p].name, path)) continue;
      CAPTURE(held[p].name);
      REQUIRE(held[p].name == by_rank.front()[p].name);
      REQUIRE((held[p].dim == flattened || held[p].dim == 0));
      const std::int64_t count = held[p].shard.numel();
      if (count == 0) continue;
      REQUIRE(held[p].gradient.defined());
      const DType dtype = run.scenario().plan.engine.get()->dtype_of(held[p].name);
      CHECK(held[p].gradient.dtype() == dtype);
      std::vector<float> expected;
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        std::vector<double> elements;
        for (const std::vector<NamedGradient>& own : by_rank) elements.push_back(held_part(own[p].values, held[p])[i]);
        expected.push_back(static_cast<float>(oracles::rounded_to(dtype, combine(elements))));
        const double own = elements[static_cast<std::size_t>(rank.index())];
        if (own != static_cast<double>(expected.back())) ++differing;
      }
      CHECK(first_difference(held[p].gradient,
                             in_dtype(dtype, Tensor::of<float>(held[p].gradient.shape(), expected))) == "");
      compared += count;
    }
  }
  CHECK(sum_over_ranks(rank, compared) > 0);
  if (world > 1) CHECK(sum_over_ranks(rank, differing) > 0);
}

}  // namespace shardproof::suites
