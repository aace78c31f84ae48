// Plans that an engine must refuse, on every rank alike, and a forward that fails in the middle.
#include <functional>

#include "harness/player/play.hpp"
#include "harness/scenario/plan/foreign_section.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/trace/memory.hpp"
#include "harness/trace/order.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

struct Mistake {
  const char* name;
  const char* culprit;  ///< the name that an error must contain
  std::function<void(Scenario&, int world)> make;
  const char* call = "create";  ///< the call that must fail
  bool may_be_unsupported = false;  ///< engines do not have to know the plan's options
};

// Mistakes, each of which spoils one part of a right plan. Source of the rules: PyTorch's fully_shard.
const std::vector<Mistake>& mistakes() {
  using Kind = ReshardAfterForward::Kind;
  static const std::vector<Mistake> all{
      {"list", "spare",
       [](Scenario& s, int) {
         s.model.root.children.push_back({.name = "spare", .kind = ModuleKind::list});
         fully_shard_plan(s.plan).wrap.insert(fully_shard_plan(s.plan).wrap.begin(), {.modules = {"spare"}});
       }},
      {"mesh_of_three", "host",
       [](Scenario& s, int world) { s.plan.mesh = {.shape = {1, 1, world}, .names = {"rack", "host", "slot"}}; }},
      {"mesh_without_names", "names", [](Scenario& s, int world) { s.plan.mesh = {.shape = {1, world}, .names = {}}; }},
      {"mesh_of_other_size", "world",
       [](Scenario& s, int world) { s.plan.mesh = {.shape = {world + 1}, .names = {}}; }},
      {"scalar", "scale.factor",
       [](Scenario& s, int) {
         s.model.root.children.push_back({.name = "scale", .kind = ModuleKind::scale, .scalar = true});
       }},
      {"not_contiguous", "l1.weight", [](Scenario& s, int) { s.model.root.children.back().contiguous = false; },
       "create", true},
      {"uneven_dim", "l1.weight",
       [](Scenario& s, int) {
         s.model.root.children.front().out_features = s.model.root.children.back().in_features = 7;
         fully_shard_plan(s.plan).shard_dims["l1.weight"] = 1;
       },
       "create", true},
      {"no_such_dim", "l0.bias", [](Scenario& s, int) { fully_shard_plan(s.plan).shard_dims["l0.bias"] = 1; }},
      {"negative_dim", "l0.weight", [](Scenario& s, int) { fully_shard_plan(s.plan).shard_dims["l0.weight"] = -3; }},
      {"reshard_to_no_factor", "l0",
       [](Scenario& s, int world) {
         fully_shard_plan(s.plan).wrap.front().reshard_after_forward = {.kind = Kind::size, .size = world + 1};
       }},
      {"reshard_to_none", "l0",
       [](Scenario& s, int) {
         fully_shard_plan(s.plan).wrap.front().reshard_after_forward = {.kind = Kind::size, .size = 0};
       }},
      {"other_engine", scenario::ForeignSection::name.data(),
       [](Scenario& s, int) { s.plan.engine = ChosenEngine(std::make_unique<scenario::ForeignSection>()); }, "create",
       true},
      {"shared_with_none", "l0.weight",
       [](Scenario& s, int) {
         s.model.root.children = {linear("l0", 6, 4), linear("l1", 4, 6), linear("tied", 6, 4)};
         s.model.root.children.back().tied_to = "l0";
         fully_shard_plan(s.plan).wrap = {{.modules = {"tied"}}};
         s.script.input = {2, 6};
         s.script.given.clear();
       }},
      {"twice", "l1",
       [](Scenario& s, int) {
         fully_shard_plan(s.plan).wrap.insert(fully_shard_plan(s.plan).wrap.begin(), {.modules = {"l1"}});
       }},
      {"shared_across_groups", "l0.weight",
       [](Scenario& s, int) {
         Module tied = linear("tied", 6, 4);
         s.model.root.children = {linear("l0", 6, 4), linear("l1", 4, 6), std::move(tied)};
         s.model.root.children.back().tied_to = "l0";
         fully_shard_plan(s.plan).wrap.insert(fully_shard_plan(s.plan).wrap.begin(), {.modules = {"tied"}});
         s.script.input = {2, 6};
         s.script.given.clear();
       }},
      {"root_of_several", "l1", [](Scenario& s, int) { fully_shard_plan(s.plan).wrap = {{.modules = {"l0", "l1"}}}; },
       "forward"},
      {"later_root_of_several", "l1",
       [](Scenario& s, int) {
         s.model.root.children.insert(s.model.root.children.begin(), linear("first", 4, 4));
         fully_shard_plan(s.plan).wrap = {{.modules = {"first"}}, {.modules = {"l0", "l1"}}};
         s.script.segments.insert(s.script.segments.begin(), {.body = {{.kind = ActionKind::forward, .module = "first"},
                                                                       {.kind = ActionKind::backward}}});
       },
       "forward"},
      {"second_root", "l0",
       [](Scenario& s, int) {
         s.script.segments.insert(s.script.segments.begin(),
                                  {.body = {{.kind = ActionKind::evaluate, .module = "l0"}}});
       },
       "forward"}};
  return all;
}

void check_refused_plan(Rank& rank) {
  const Scenario right = small_mlp({}, true, 1);
  Scenario wrong = right;
  for (const Mistake& mistake : mistakes()) {
    if (mistake.name != rank.param("mistake")) continue;
    mistake.make(wrong, rank.world().size());
    (mistake.may_be_unsupported ? check_refused_or_unsupported : check_refused)(rank, wrong, mistake.call,
                                                                                {mistake.culprit});
  }
  CHECK(wrong != right);
  CHECK_FALSE(refusal(rank, right));
}

// The collectives after a failed forward are those that a run without it makes from the mark `next` on.
void check_as_if_never_failed(const Run& run, const Run& undisturbed, const std::string& next, int iteration,
                              bool gathers_again) {
  const std::string end = mark(iteration, ActionKind::zero_grad, true);
  auto done = trace::collectives(run.trace(), mark(iteration, "failing forward", true), end);
  const auto planned = trace::collectives(undisturbed.trace(), next, end);
  if (gathers_again) std::erase_if(done, [](const auto& call) { return call.kind == CollectiveKind::all_gather; });
  REQUIRE(done.size() == planned.size());
  for (std::size_t i = 0; i < done.size(); ++i) {
    CHECK(done[i].kind == planned[i].kind);
    CHECK(done[i].tag == planned[i].tag);
  }
}

void check_nothing_is_held_after_failure(const Run& run, int iteration) {
  const std::string failed = mark(iteration, "failing forward", true);
  for (const MemoryClass memory : {MemoryClass::gathered, MemoryClass::parameter}) {
    CAPTURE(to_string(memory));
    CHECK(trace::at(run.trace(), memory, failed).buffers == 0);
  }
}

// Each of three iterations has a forward in which `module` fails, at some place of it, against the same script without
// it.
void play_failing(Rank& rank, const std::string& when, const std::string& module) {
  const bool reshard = rank.param<bool>("reshard");
  Scenario scenario = three_iterations({}, {}, reshard);
  std::vector<Action>& body = scenario.script.segments.front().body;
  std::size_t at = 0;  // where in the body it fails
  int backward = 1;  // the one that must leave nothing
  if (when == "micro_batch") {
    // The forward order of an earlier micro-batch is still there.
    const auto last = [](bool value) { return Action{.kind = ActionKind::set_is_last_backward, .value = value}; };
    const std::vector<Action> before{last(false), {ActionKind::forward}, {ActionKind::backward}, last(true)};
    body.insert(body.begin(), before.begin(), before.end());
    at = before.size();
    backward = 2;
  } else if (when == "before_backward") {
    at = 1;
  } else if (when == "ahead") {
    fully_shard_plan(scenario.plan).wrap[0].forward_prefetch = {"l1"};
  } else if (when == "before_step") {
    body.insert(body.end(), {{ActionKind::forward}, {ActionKind::backward}});
    at = 2;
  }
  const Scenario undisturbed = scenario;
  body.insert(body.begin() + static_cast<std::ptrdiff_t>(at), {.kind = ActionKind::forward, .fails_in = module});
  if (when == "by_hand") body.insert(body.begin(), {.kind = ActionKind::unshard, .module = "l1", .async = true});

  const Run run = play_accepted(rank, scenario), expected = play_accepted(rank, undisturbed);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank));
  check_sound(rank, run);
  const ActionKind next = undisturbed.script.segments.front().body.at(at).kind;
  // Parameters that an earlier forward has kept for its backward are released, too, and gathered again.
  const bool gathers_again = when == "before_backward" && !reshard;
  for (const Iteration& iteration : steady_iterations(run)) {
    const int index = iteration.index();
    CAPTURE(index);
    check_nothing_is_left(rank, run, index, backward);
    const auto judged = rank.under("OVL-19");
    check_as_if_never_failed(run, expected, mark(index, next, false, when == "micro_batch" ? 2 : 1), index,
                             gathers_again);
    check_nothing_is_held_after_failure(run, index);
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/refused_plan", clauses("OVL-42"), ranks(2, 3, 4), also_with_discarded_module(),
                 each("mistake", "mesh_of_other_size", "not_contiguous", "other_engine", "twice")) {
  check_refused_plan(rank);
}

RANKED_TEST_CASE("overlap/refused_plan", clauses("OVL-42"), ranks(2, 3, 4), also_with_discarded_module(),
                 each("mistake", "list", "root_of_several", "later_root_of_several", "scalar", "second_root"),
                 needs(Feature::module_groups)) {
  check_refused_plan(rank);
}

RANKED_TEST_CASE("overlap/refused_plan", clauses("OVL-42"), ranks(2, 3, 4), also_with_discarded_module(),
                 each("mistake", "mesh_of_three", "mesh_without_names"), needs(Feature::replicated_mesh)) {
  check_refused_plan(rank);
}

RANKED_TEST_CASE("overlap/refused_plan", clauses("OVL-42"), ranks(2, 3, 4), also_with_discarded_module(),
                 each("mistake", "negative_dim", "no_such_dim", "uneven_dim"), needs(FullyShardFeature::shard_dims)) {
  check_refused_plan(rank);
}

RANKED_TEST_CASE("overlap/refused_plan", clauses("OVL-42"), ranks(2, 3, 4), also_with_discarded_module(),
                 each("mistake", "reshard_to_no_factor", "reshard_to_none"),
                 needs(FullyShardFeature::reshard_to_size)) {
  check_refused_plan(rank);
}

RANKED_TEST_CASE("overlap/refused_plan", clauses("OVL-42"), ranks(2, 3, 4), also_with_discarded_module(),
                 each("mistake", "shared_across_groups", "shared_with_none"), needs(Feature::shared_parameters)) {
  check_refused_plan(rank);
}

RANKED_TEST_CASE("overlap/refused_on_a_mesh", clauses("OVL-42"), ranks(4), also_with_discarded_module(),
                 needs(Feature::replicated_mesh, FullyShardFeature::reshard_to_size)) {
  // A factor of the world, but not of the ranks that shard.
  Scenario scenario = small_mlp({}, true, 1);
  scenario.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
  CHECK_FALSE(refusal(rank, scenario));
  fully_shard_plan(scenario.plan).wrap.front().reshard_after_forward = {.kind = ReshardAfterForward::Kind::size,
                                                                        .size = 4};
  check_refused(rank, scenario, "create", {"l0"});
  scenario.plan.mesh.shape = {1, 4};
  CHECK_FALSE(refusal(rank, scenario));
}

RANKED_TEST_CASE("overlap/unsharded_scalar", clauses("OVL-10"), ranks(1, 2, 3, 4), also_with_discarded_module(),
                 each("how", "ignored", "unwrapped"), needs(Feature::module_groups, Feature::ignored_parameters)) {
  // A parameter that is not sharded does not have to be shardable.
  Scenario scenario = small_mlp({.rate = 0.25}, true, 1);
  scenario.model.root.children.push_back({.name = "scale", .kind = ModuleKind::scale, .scalar = true});
  if (rank.param("how") == "ignored") {
    fully_shard_plan(scenario.plan).ignored_parameters = {"scale.factor"};
  } else {
    fully_shard_plan(scenario.plan).wrap.pop_back();
  }
  check_training(rank, play_accepted(rank, scenario), oracles::Arithmetic::f32, {}, Moves::some_parameter);
}

RANKED_TEST_CASE("overlap/failed_forward", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15", "OVL-19"),
                 ranks(1, 2, 3, 4), also_with_discarded_module(), each("in", "root", "l0", "relu", "l1"),
                 each("reshard", false, true), needs(Feature::timeline, Feature::failed_forward)) {
  play_failing(rank, "first", rank.param("in") == "root" ? "" : rank.param("in"));
}

RANKED_TEST_CASE("overlap/failed_forward_amid", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15", "OVL-19"),
                 ranks(1, 2, 3, 4), also_with_discarded_module(),
                 each("when", "micro_batch", "ahead", "by_hand", "before_backward", "before_step"),
                 each("reshard", false, true),
                 needs(Feature::timeline, Feature::failed_forward, Feature::gradient_accumulation,
                       FullyShardFeature::manual_unshard, FullyShardFeature::prefetch_lists)) {
  // A gather ahead, or a manual gather, is still under way when the first layer fails.
  const std::string& when = rank.param("when");
  play_failing(rank, when, when == "ahead" || when == "by_hand" ? "l0" : "l1");
}

RANKED_TEST_CASE("overlap/failed_forward_of_two_roots", clauses("OVL-10", "OVL-15", "OVL-19"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::failed_forward)) {
  // The first root has finished its part when the second one fails.
  Scenario scenario = three_iterations({}, {}, false);
  fully_shard_plan(scenario.plan).wrap.pop_back();
  std::vector<Action>& body = scenario.script.segments.front().body;
  body.insert(body.begin(), Action{.kind = ActionKind::forward, .fails_in = "l1"});
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank));
  check_sound(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-19");
    check_nothing_is_held_after_failure(run, iteration.index());
  }
}

}  // namespace shardproof::overlap
