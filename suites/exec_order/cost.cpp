#include "suites/exec_order/cost.hpp"

#include <shardproof.hpp>

#include <algorithm>
#include <variant>

#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/exec_order/scenarios.hpp"
#include "suites/exec_order/warnings.hpp"

namespace shardproof::exec_order {

using suites::play_accepted;

std::size_t validating_gathers(const Run& run, int iteration) {
  const std::vector<Iteration> all = run.iterations();
  const std::vector<fact::Collective> collectives = all.at(static_cast<std::size_t>(iteration)).collectives();
  return static_cast<std::size_t>(std::ranges::count(collectives, execution_order_tag, &fact::Collective::tag));
}

namespace {

std::size_t collectives(const Run& run, int iteration) {
  const std::vector<Iteration> all = run.iterations();
  return all.at(static_cast<std::size_t>(iteration)).collectives().size();
}

std::size_t host_waits(const Run& run, int iteration) {
  const std::vector<Iteration> all = run.iterations();
  return suites::host_waits(all.at(static_cast<std::size_t>(iteration)));
}

}  // namespace

RANKED_TEST_CASE("exec_order/cost", clauses("EXO-10", "EXO-11"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 needs(Feature::timeline, FlatShardFeature::order_validation)) {
  constexpr int iterations = 4;
  const auto play = [&](bool validates) {
    return play_accepted(
        rank, Twins(rank, strategy(rank)).validate(validates).train(Way::first, iterations).evaluate(Way::first));
  };
  const Run validated = play(true), plain = play(false);
  {
    const auto judged = rank.under("EXO-11");
    CHECK(validating_gathers(plain, 0) == 0);
  }
  const auto judged = rank.under("EXO-10");
  CHECK(validating_gathers(validated, 0) > 0);
  CHECK(host_waits(validated, 0) > host_waits(plain, 0));
  for (int iteration = 1; iteration <= iterations; ++iteration) {
    CAPTURE(iteration);
    CHECK(validating_gathers(validated, iteration) == 0);
    CHECK(collectives(validated, iteration) == collectives(plain, iteration));
    CHECK(host_waits(validated, iteration) == host_waits(plain, iteration));
  }
  rank.measure("validating_gathers", static_cast<double>(validating_gathers(validated, 0)), "calls");
}

RANKED_TEST_CASE("exec_order/cost_of_each_use", clauses("EXO-21"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"), needs(FlatShardFeature::order_validation),
                 tags("reference")) {
  const Run run = play_accepted(rank, Twins(rank, strategy(rank)).train(Way::first, 3));
  const std::vector<Iteration> all = run.iterations();
  std::size_t single = 0;
  for (const fact::Collective& call : all.front().collectives()) {
    if (call.tag != execution_order_tag) continue;
    CHECK(call.kind == CollectiveKind::all_gather);
    CHECK(call.in_count == 1);
    ++single;
  }
  CHECK(single == 2 * 2);  // the root and one way, twice each
}

}  // namespace shardproof::exec_order
