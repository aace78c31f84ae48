// Units that get no gradients: their iterations end, too.
#include <shardproof.hpp>

#include "suites/checks/refusal.hpp"
#include "suites/exec_order/cost.hpp"
#include "suites/exec_order/scenarios.hpp"
#include "suites/exec_order/warnings.hpp"

namespace shardproof::exec_order {

// Only a layer that is in no unit trains.
RANKED_TEST_CASE("exec_order/frozen_units", clauses("EXO-2", "EXO-10"), ranks(2, 3),
                 each("strategy", "full_shard", "shard_grad_op"),
                 needs(FlatShardFeature::order_validation, Feature::module_groups)) {
  Twins twins(rank, strategy(rank));
  twins.way_is_frozen().train(Way::first, 3).train(Way::all_second);
  const Run run = suites::play_accepted(rank, twins);
  {
    const auto judged = rank.under("EXO-2");
    check_silent(run, 0, 3);
    // The root is `way`: an engine may name modules from there on.
    check_warned(run, 3, rank.index(), {"first", "second"});
  }
  const auto judged = rank.under("EXO-10");
  CHECK(validating_gathers(run, 0) > 0);
  for (int iteration = 1; iteration < 4; ++iteration) {
    CAPTURE(iteration);
    CHECK(validating_gathers(run, iteration) == 0);
  }
}

}  // namespace shardproof::exec_order
