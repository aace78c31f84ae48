#include "suites/comm_hooks/gradients.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>

#include "harness/subject/subject.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/sum_over_ranks.hpp"

namespace shardproof::comm_hooks {

namespace {

// The elements of the logical parameter that the rank holds.
std::span<const double> held_part(std::span<const double> whole, const scenario::CapturedParameter& held) {
  std::int64_t row = 1;  // elements
  for (std::size_t d = 1; d < held.shape.size() && held.dim != flattened; ++d) row *= held.shape[d];
  return whole.subspan(static_cast<std::size_t>(held.start * row), static_cast<std::size_t>(held.shard.numel()));
}

}  // namespace

Division division(int ranks) {
  Division steps;
  while (ranks % static_cast<int>(steps.before) == 0 && ranks / steps.before > steps.before) steps.before *= 2;
  steps.after = ranks / steps.before;
  return steps;
}

double mean(std::span<const double> by_rank) { return sum(by_rank) / static_cast<double>(by_rank.size()); }

double sum(std::span<const double> by_rank) { return std::accumulate(by_rank.begin(), by_rank.end(), 0.0); }

void check_gradients(Rank& rank, const scenario::Run& run, const Combine& combine) { check_gradients(rank, run, combine, ""); }

void check_gradients(Rank& rank, const scenario::Run& run, const Combine& combine, const std::string& path) {
  const int world = rank.world().size();
  REQUIRE(run.captures().size() == static_cast<std::size_t>(iterations));
  std::size_t compared = 0, differing = 0;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CAPTURE(iteration);
    std::vector<std::vector<NamedGradient>> by_rank;
    for (int each = 0; each < world; ++each) by_rank.push_back(local_gradients(run.scenario(), each, iteration));
    const std::vector<scenario::CapturedParameter>& held = run.captures()[static_cast<std::size_t>(iteration)].parameters;
    REQUIRE(held.size() == by_rank.front().size());
    for (std::size_t p = 0; p < held.size(); ++p) {
      if (!scenario::is_at_or_under(held[p].name, path)) continue;
      CAPTURE(held[p].name);
      REQUIRE(held[p].name == by_rank.front()[p].name);
      REQUIRE((held[p].dim == flattened || held[p].dim == 0));
      const std::size_t count = static_cast<std::size_t>(held[p].shard.numel());
      if (count == 0) continue;
      REQUIRE(held[p].gradient.defined());
      CHECK(held[p].gradient.dtype() == DType::f32);
      std::vector<float> expected;
      for (std::size_t i = 0; i < count; ++i) {
        std::vector<double> elements;
        for (const std::vector<NamedGradient>& own : by_rank) elements.push_back(held_part(own[p].values, held[p])[i]);
        expected.push_back(static_cast<float>(combine(elements)));
        const double own = elements[static_cast<std::size_t>(rank.index())];
        if (own != static_cast<double>(expected.back())) ++differing;
      }
      CHECK(first_difference(held[p].gradient, Tensor::of<float>(held[p].gradient.shape(), expected)) == "");
      compared += count;
    }
  }
  Tensor counts = Tensor::host(DType::i64, {2});
  counts.values<std::int64_t>()[0] = static_cast<std::int64_t>(compared);
  counts.values<std::int64_t>()[1] = static_cast<std::int64_t>(differing);
  const Tensor all = rank.world().all_reduce(counts);
  CHECK(all.values<std::int64_t>()[0] > 0);
  if (world > 1) CHECK(all.values<std::int64_t>()[1] > 0);
}

std::vector<const scenario::Callback*> hook_calls(const scenario::Run& run, int iteration) {
  return run.callbacks({.kind = scenario::CallbackKind::gradient_hook, .iteration = iteration + 1});
}

std::uint64_t state_of(const scenario::Callback& call) { return std::get<scenario::GradientHookCall>(call.detail).state; }

void check_sound_iterations(Rank& rank, const scenario::Run& run) {
  suites::check_no_race(rank, run);
  suites::check_same_order(rank, run);
  for (int iteration = 0; iteration < iterations; ++iteration) suites::check_nothing_is_left(run, iteration + 1);
}

void check_all_elements(Rank& rank, const scenario::Run& run) {
  REQUIRE_FALSE(run.captures().empty());
  std::int64_t mine = 0, whole = 0;
  for (const scenario::CapturedParameter& held : run.captures().front().parameters) {
    mine += held.shard.numel();
    whole += numel(held.shape);
  }
  const auto* const flat = run.scenario().plan.engine.as<scenario::FlatShardPlan>();
  const bool keeps_all = flat != nullptr && flat->strategy == scenario::ShardStrategy::no_shard;
  CHECK(suites::sum_over_ranks(rank, mine) == whole * (keeps_all ? rank.world().size() : 1));
}

}  // namespace shardproof::comm_hooks
