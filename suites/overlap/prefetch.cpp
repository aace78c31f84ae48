// Lists of groups to gather ahead, right ones and wrong ones.
#include <string>
#include <variant>
#include <vector>

#include "harness/player/play.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

// The groups whose gathers an iteration's call has issued before `skipped` pieces of work of a kind and the next one.
std::vector<std::string> gathers_until(const Iteration& iteration, ActionKind call, WorkKind kind, int skipped) {
  std::vector<std::string> tags;
  bool inside = false;
  for (const Fact& fact : iteration.facts()) {
    if (const auto* mark = std::get_if<fact::Mark>(&fact)) {
      if (mark->text == shardproof::mark(iteration.index(), call)) inside = true;
      if (mark->text == shardproof::mark(iteration.index(), call, true)) return tags;
    }
    if (!inside) continue;
    if (const auto* work = std::get_if<fact::Work>(&fact); work != nullptr && work->kind == kind && skipped-- == 0)
      return tags;
    if (const auto* gather = std::get_if<fact::Collective>(&fact);
        gather != nullptr && gather->kind == CollectiveKind::all_gather)
      tags.push_back(gather->tag);
  }
  return tags;
}

// The order in which the host issues gathers, and what computes or unpacks first.
void check_order_of_gathers(const Iteration& iteration, const std::string& lists, bool reshard) {
  const std::vector<std::string> forward = gathers_until(iteration, ActionKind::forward, WorkKind::copy_out, 1),
                                 backward = gathers_until(iteration, ActionKind::backward, WorkKind::copy_out, 0);
  using Tags = std::vector<std::string>;
  if (lists == "all") {
    CHECK(forward == Tags{"l0", "l1"});
    // One gradient leads to the root with its list and to l1, whichever is asked first.
    if (reshard) CHECK((backward == Tags{"l1", "l0"} || backward == Tags{"l1"}));
  } else if (lists == "ahead") {
    CHECK(gathers_until(iteration, ActionKind::forward, WorkKind::forward, 0) == Tags{"l0", "l1"});
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/prefetch_lists", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15", "OVL-16", "OVL-38"),
                 ranks(1, 2, 3, 4), each("lists", "ahead", "all", "wrong", "other_root"), each("reshard", false, true),
                 needs(Feature::timeline, FullyShardFeature::prefetch_lists)) {
  Scenario scenario = three_iterations({}, {}, rank.param<bool>("reshard"));
  std::vector<WrapGroup>& wrap = fully_shard_plan(scenario.plan).wrap;
  const std::string& lists = rank.param("lists");
  if (lists == "ahead") {
    wrap[0].forward_prefetch = {"l1"};
    wrap[1].backward_prefetch = {"l0"};
  } else if (lists == "all") {
    wrap[2].forward_prefetch = {"l0", "l1"};
    wrap[2].backward_prefetch = {"l1", "l0"};
  } else if (lists == "other_root") {
    // Without a wrapped module above them, each is its own root. The second root has not begun when the first one would
    // gather for it.
    wrap.pop_back();
    wrap[0].forward_prefetch = {"l1"};
  } else {
    wrap[1].forward_prefetch = {"l1", "l0"};
    wrap[0].backward_prefetch = {"l0", "l1"};
  }
  const Run run = play(rank, scenario);
  check_three_iterations(rank, run);
  if (rank.world().size() == 1) return;
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-38");
    check_order_of_gathers(iteration, lists, rank.param<bool>("reshard"));
  }
}

RANKED_TEST_CASE("overlap/prefetch_without_backward", clauses("OVL-10", "OVL-15", "OVL-18", "OVL-38"),
                 ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::module_groups, FullyShardFeature::prefetch_lists,
                       FullyShardFeature::manual_unshard)) {
  // A layer that takes no part in the loss is gathered ahead of its forward, and for backward not at all, also where a
  // list names it.
  Scenario scenario =
      three_iterations({{.kind = ActionKind::set_unshard_in_backward, .module = "aside", .value = false}}, {}, true);
  std::vector<Module>& children = scenario.model.root.children;
  children.insert(children.begin() + 2,
                  {.name = "aside", .kind = ModuleKind::discard, .children = {linear("inner", 6, 6)}});
  fully_shard_plan(scenario.plan)
      .wrap.insert(fully_shard_plan(scenario.plan).wrap.begin() + 1,
                   {.modules = {"aside"}, .reshard_after_forward = {ReshardAfterForward::Kind::yes}});
  fully_shard_plan(scenario.plan).wrap[0].forward_prefetch = {"aside"};
  fully_shard_plan(scenario.plan).wrap[2].backward_prefetch = {"aside", "l0"};
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank), Moves::some_parameter);
  check_sound(rank, run);
  if (rank.world().size() == 1) return;
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    {
      const auto judged = rank.under("OVL-38");
      CHECK(gathers_until(iteration, ActionKind::forward, WorkKind::forward, 0) ==
            std::vector<std::string>{"l0", "aside"});
    }
    const auto judged = rank.under("OVL-18");
    check_count(iteration, CollectiveKind::all_gather, ActionKind::backward, 2);
  }
}

}  // namespace shardproof::overlap
