// What ranks agree on before they train: that they have the same model, and the same values.
#include <shardproof.hpp>

#include <string>

#include "harness/scenario/formula.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/sum_over_ranks.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;

using scenario::Module;

RANKED_TEST_CASE("replicate/model_differs", clauses("REP-12"), ranks(2, 3, 4), each("in", "count", "shape", "order", "trainability"),
                 each("culprit", "first", "last"), needs_if("in", "trainability", Feature::module_groups)) {
  const int world = rank.world().size();
  const bool is_first = rank.param("culprit") == "first";
  const int culprit = is_first ? 1 : world - 1;
  scenario::Scenario scenario = four_layers(4);
  std::vector<Module>& layers = scenario.model.root.children;
  layers[1].out_features = layers[2].in_features = 5;
  layers[0].bias = false;
  if (rank.index() == culprit) {
    const std::string& what = rank.param("in");
    if (what == "count") layers[3].bias = false;
    if (what == "shape") layers[1].out_features = layers[2].in_features = 6;
    if (what == "order") layers[0].out_features = layers[1].in_features = 5, layers[1].out_features = layers[2].in_features = 4;
    if (what == "trainability") layers[0].frozen = true;  // only the first parameter differs
  }
  check_refused(rank, scenario, "create", {"rank 0", "rank " + std::to_string(culprit)});
}

// Each rank comes with its own values.
RANKED_TEST_CASE("replicate/starts_from_rank_0", clauses("REP-13"), ranks(2, 3, 4)) {
  scenario::Scenario scenario = exact_net(true, gradients_only());
  const int usual = scenario.model.init_divisor;
  scenario.model.init_divisor = rank.index() == 0 ? usual : 2 * usual;
  const scenario::Run run = play_accepted(rank, scenario);
  const scenario::Run expected = play_accepted(rank, exact_net(true, gradients_only()));
  REQUIRE_FALSE(run.captures().empty());
  std::int64_t differs_from_own = 0;
  for (std::size_t i = 0; i < run.captures().size(); ++i) {
    for (std::size_t p = 0; p < run.captures()[i].parameters.size(); ++p) {
      const scenario::CapturedParameter &mine = run.captures()[i].parameters[p], &same = expected.captures()[i].parameters[p];
      CAPTURE(i, mine.name);
      CHECK(first_difference(mine.shard, same.shard) == "");
      CHECK(first_difference(mine.gradient, same.gradient) == "");
      const Tensor own = formula::tensor(static_cast<std::uint32_t>(1 + p), mine.shape, scenario.model.init_divisor);
      if (mine.shard != own) ++differs_from_own;
    }
  }
  CHECK(sum_over_ranks(rank, differs_from_own) > 0);
}

}  // namespace shardproof::replicate
