// Gathering and resharding by hand, prefetch lists, shards over fewer ranks: the same values, and no gather more than needed.
#include <map>
#include <string>
#include <vector>

#include "harness/trace/memory.hpp"
#include "harness/trace/timeline.hpp"
#include "suites/overlap/checks.hpp"
#include "suites/overlap/comparison.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using scenario::Action;
using scenario::ActionKind;
using scenario::Scenario;

namespace {

// Two iterations, with calls before forward and between forward and backward.
Scenario with_calls(const std::vector<Action>& before, const std::vector<Action>& between, bool reshard) {
  Scenario scenario = small_mlp({.rate = 0.0625}, reshard, 2);
  std::vector<Action>& body = scenario.script.segments.front().body;
  body.insert(body.begin() + 1, between.begin(), between.end());
  body.insert(body.begin(), before.begin(), before.end());
  return scenario;
}

void check(Rank& rank, const scenario::Run& run) {
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_thirds(rank));
  check_sound(rank, run);
  for (const int iteration : {0, 1}) check_nothing_is_left(run, iteration);
}

// The groups whose gathers the second iteration's call has issued before so many pieces of work of a kind were, and the next one.
std::vector<std::string> gathers_until(const scenario::Run& run, ActionKind call, WorkKind kind, int skipped) {
  std::vector<std::string> tags;
  bool inside = false;
  for (const Fact& fact : run.trace().facts) {
    if (const auto* mark = std::get_if<fact::Mark>(&fact)) {
      if (mark->text == scenario::mark(1, call)) inside = true;
      if (mark->text == scenario::mark(1, call, true)) return tags;
    }
    if (!inside) continue;
    if (const auto* work = std::get_if<fact::Work>(&fact); work != nullptr && work->kind == kind && skipped-- == 0) return tags;
    if (const auto* gather = std::get_if<fact::Collective>(&fact); gather != nullptr && gather->kind == CollectiveKind::all_gather)
      tags.push_back(gather->tag);
  }
  return tags;
}

std::size_t gathers(const scenario::Run& run, ActionKind call) { return count_in(run, CollectiveKind::all_gather, 1, call); }

}  // namespace

RANKED_TEST_CASE("overlap/unshard_by_hand", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15", "OVL-16"), ranks(1, 2, 3, 4),
                 each("async", false, true), each("reshard", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::manual_unshard)) {
  const bool several = rank.world().size() > 1;
  const scenario::Run run = rank.play(
      with_calls({{.kind = ActionKind::unshard, .async = rank.param<bool>("async")}, {.kind = ActionKind::unshard, .module = "l0"}}, {},
                 rank.param<bool>("reshard")));
  check(rank, run);
  // Once by hand; forward finds everything there.
  CHECK(gathers(run, ActionKind::unshard) == (several ? 2 : 0));
  CHECK(gathers(run, ActionKind::forward) == 0);
  // What is asked for without `async` is whole when the call is over: two parameters in each of two layers.
  if (!rank.param<bool>("async")) {
    CHECK(trace::at(run.trace(), MemoryClass::parameter, scenario::mark(1, ActionKind::unshard, true)).buffers == 4);
  }
}

RANKED_TEST_CASE("overlap/waited_by_hand", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15", "OVL-16"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::fully_shard, Feature::manual_unshard)) {
  const scenario::Run run = rank.play(
      with_calls({{.kind = ActionKind::unshard, .module = "l1", .async = true}, {.kind = ActionKind::wait_for_unshard}}, {}, true));
  check(rank, run);
  CHECK(gathers(run, ActionKind::forward) == (rank.world().size() > 1 ? 1 : 0));
  // Two parameters, whole when the wait is over and not before.
  const auto whole = [&run](ActionKind call) {
    return trace::at(run.trace(), MemoryClass::parameter, scenario::mark(1, call, true)).buffers;
  };
  CHECK(whole(ActionKind::unshard) == 0);
  CHECK(whole(ActionKind::wait_for_unshard) == 2);
}

RANKED_TEST_CASE("overlap/unshard_beside_compute", clauses("OVL-26"), ranks(2, 3, 4), each("async", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::manual_unshard)) {
  // A gather of 10 ms by hand, then 25 ms of computation that does not need it, then the forward that does.
  const bool async = rank.param<bool>("async");
  Scenario scenario = post_optim({.iterations = 1, .event = false});
  scenario.script.segments = {{.iterations = 2,
                               .body = {{.kind = ActionKind::unshard, .module = "tiny", .async = async},
                                        {.kind = ActionKind::evaluate, .module = "sleep"},
                                        {.kind = ActionKind::forward},
                                        {.kind = ActionKind::backward}}}};
  const scenario::Run run = rank.play(scenario);
  for (const int iteration : {0, 1}) {
    const std::chrono::nanoseconds time(
        trace::between(run.trace(), scenario::mark(iteration, ActionKind::unshard), scenario::mark(iteration, ActionKind::evaluate, true)));
    CHECK(time == (async ? 25ms : 35ms));
    CHECK(count_in(run, CollectiveKind::all_gather, iteration, ActionKind::forward) == 0);
  }
  check_sound(rank, run);
}

RANKED_TEST_CASE("overlap/streams_of_gathers", clauses("OVL-27"), ranks(2, 3, 4), each("async", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::manual_unshard), tags("reference")) {
  const bool async = rank.param<bool>("async");
  const scenario::Run run = rank.play(with_calls({{.kind = ActionKind::unshard, .async = async}}, {}, true));
  const std::map<std::uint32_t, StreamInfo> streams = shardproof::streams(run.trace());
  std::size_t gathering = 0;
  for (const auto& [id, stream] : streams) gathering += stream.role == StreamRole::all_gather ? 1 : 0;
  CHECK(gathering == (async ? 2 : 1));
  for (const Fact& fact : run.trace().facts) {
    const auto* call = std::get_if<fact::Collective>(&fact);
    if (call == nullptr || call->kind != CollectiveKind::all_gather) continue;
    const bool on_compute = streams.at(call->stream).role == StreamRole::compute;
    CAPTURE(call->tag, call->start);
    CHECK((on_compute || streams.at(call->stream).role == StreamRole::all_gather));
    if (async) CHECK_FALSE(on_compute);
  }
}

RANKED_TEST_CASE("overlap/reshard_by_hand", clauses("OVL-4", "OVL-7", "OVL-10", "OVL-15", "OVL-16"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::fully_shard, Feature::manual_unshard)) {
  const scenario::Run run = rank.play(with_calls({}, {{.kind = ActionKind::reshard, .module = "l0"}}, false));
  check(rank, run);
  // Kept by the plan, freed by hand: one of the two is gathered again.
  CHECK(gathers(run, ActionKind::backward) == (rank.world().size() > 1 ? 1 : 0));
}

RANKED_TEST_CASE("overlap/no_unshard_in_backward", clauses("OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-18"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::fully_shard, Feature::manual_unshard)) {
  // The first layer's input needs no gradient, so its backward never looks at its weight.
  const scenario::Run run =
      rank.play(with_calls({{.kind = ActionKind::set_unshard_in_backward, .module = "l0", .value = false}}, {}, true));
  check(rank, run);
  CHECK(gathers(run, ActionKind::backward) == (rank.world().size() > 1 ? 1 : 0));
}

RANKED_TEST_CASE("overlap/prefetch_lists", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15", "OVL-16"), ranks(1, 2, 3, 4),
                 each("lists", "ahead", "all", "wrong", "other_root"), each("reshard", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::prefetch_lists)) {
  Scenario scenario = with_calls({}, {}, rank.param<bool>("reshard"));
  std::vector<scenario::WrapGroup>& wrap = scenario.plan.wrap;
  const std::string& lists = rank.param("lists");
  if (lists == "ahead") {
    wrap[0].forward_prefetch = {"l1"};
    wrap[1].backward_prefetch = {"l0"};
  } else if (lists == "all") {
    wrap[2].forward_prefetch = {"l0", "l1"};
    wrap[2].backward_prefetch = {"l1", "l0"};
  } else if (lists == "other_root") {
    // Without one above them each is a root of its own: the second has not begun when the first would gather for it.
    wrap.pop_back();
    wrap[0].forward_prefetch = {"l1"};
  } else {
    wrap[1].forward_prefetch = {"l1", "l0"};
    wrap[0].backward_prefetch = {"l0", "l1"};
  }
  const scenario::Run run = rank.play(scenario);
  check(rank, run);
  if (rank.world().size() == 1) return;
  // The order in which the host issues gathers, and what computes or unpacks first.
  const std::vector<std::string> forward = gathers_until(run, ActionKind::forward, WorkKind::copy_out, 1),
                                 backward = gathers_until(run, ActionKind::backward, WorkKind::copy_out, 0);
  using Tags = std::vector<std::string>;
  if (lists == "all") {
    CHECK(forward == Tags{"l0", "l1"});
    if (rank.param<bool>("reshard")) CHECK(backward == Tags{"l1", "l0"});
  } else if (lists == "wrong" && rank.param<bool>("reshard")) {
    // What forward gathered too late serves backward; what backward gathers too late serves nobody.
    CHECK(gathers(run, ActionKind::backward) == 2);
  } else if (lists == "ahead") {
    CHECK(gathers_until(run, ActionKind::forward, WorkKind::forward, 0) == Tags{"l0", "l1"});
  }
}

RANKED_TEST_CASE("overlap/prefetch_without_backward", clauses("OVL-10", "OVL-15", "OVL-18"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::fully_shard, Feature::prefetch_lists, Feature::manual_unshard)) {
  // A layer that takes no part in the loss is gathered ahead of its forward, and for backward not at all, also where a list names it.
  Scenario scenario = with_calls({{.kind = ActionKind::set_unshard_in_backward, .module = "aside", .value = false}}, {}, true);
  std::vector<scenario::Module>& children = scenario.model.root.children;
  children.insert(children.begin() + 2, {.name = "aside", .kind = scenario::ModuleKind::discard, .children = {linear("inner", 6, 6)}});
  scenario.plan.wrap.insert(scenario.plan.wrap.begin() + 1,
                            {.modules = {"aside"}, .reshard_after_forward = {scenario::ReshardAfterForward::Kind::yes}});
  scenario.plan.wrap[0].forward_prefetch = {"aside"};
  scenario.plan.wrap[2].backward_prefetch = {"aside", "l0"};
  const scenario::Run run = rank.play(scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_thirds(rank), Moves::some_parameter);
  check_sound(rank, run);
  if (rank.world().size() == 1) return;
  CHECK(gathers_until(run, ActionKind::forward, WorkKind::forward, 0) == std::vector<std::string>{"l0", "aside"});
  CHECK(gathers(run, ActionKind::backward) == 2);
}

RANKED_TEST_CASE("overlap/evaluation_between", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15"), ranks(1, 2, 3, 4),
                 each("reshard", false, true), needs(Feature::timeline, Feature::fully_shard)) {
  // Before the step and behind it: what an evaluation gathers must not outlive the step.
  Scenario scenario = with_calls({{ActionKind::evaluate}}, {}, rank.param<bool>("reshard"));
  std::vector<Action>& body = scenario.script.segments.front().body;
  body.insert(body.begin() + 3, Action{ActionKind::evaluate});
  const scenario::Run run = rank.play(scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_thirds(rank));
  check_sound(rank, run);
  // No backward follows an evaluation: it leaves nothing to it, be it parameters or a place in the order of forwards.
  const bool reshard = rank.param<bool>("reshard");
  for (const int iteration : {0, 1}) {
    const std::string end = scenario::mark(iteration, ActionKind::evaluate, true);
    CHECK(trace::at(run.trace(), MemoryClass::gathered, end).buffers == 0);
    if (reshard) CHECK(trace::at(run.trace(), MemoryClass::parameter, end).buffers == 0);
    const bool alone = rank.world().size() == 1;
    CHECK(count_in(run, CollectiveKind::all_gather, iteration, ActionKind::backward) == (reshard && !alone ? 2 : 0));
  }
}

RANKED_TEST_CASE("overlap/reshard_to_size", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-12", "OVL-15", "OVL-18"), ranks(1, 2, 3, 4),
                 each("size", 1, 2), needs(Feature::timeline, Feature::fully_shard, Feature::reshard_to_size)) {
  const int world = rank.world().size(), size = world % rank.param<int>("size") == 0 ? rank.param<int>("size") : world;
  Scenario scenario = with_calls({}, {}, true);
  for (scenario::WrapGroup& group : scenario.plan.wrap) {
    group.reshard_after_forward = {.kind = scenario::ReshardAfterForward::Kind::size, .size = size};
  }
  const scenario::Run run = rank.play(scenario);
  check(rank, run);
  // Over one rank nothing is gathered again; over some, among those alone.
  const auto again = collectives_in(run, 1, ActionKind::backward);
  std::vector<int> few;
  for (int i = 0; i < size; ++i) few.push_back(rank.index() / size * size + i);
  std::size_t all_gathers = 0;
  for (const fact::Collective& collective : again) {
    if (collective.kind != CollectiveKind::all_gather) continue;
    ++all_gathers;
    CHECK(collective.group == few);
  }
  CHECK(all_gathers == (world > 1 && size > 1 ? 2 : 0));
  const auto live = [&run](MemoryClass memory, ActionKind call, bool end) {
    return trace::at(run.trace(), memory, scenario::mark(1, call, end));
  };
  CHECK(live(MemoryClass::gathered, ActionKind::forward, true).buffers == 0);
  // Over all ranks there is nothing to keep but the shards.
  if (size == world && size > 1) {
    CHECK(live(MemoryClass::shard, ActionKind::forward, true) == live(MemoryClass::shard, ActionKind::forward, false));
  }
}

RANKED_TEST_CASE("overlap/narrow_parts", clauses("OVL-10"), ranks(4), needs(Feature::fully_shard, Feature::reshard_to_size)) {
  // Three rows of one, kept by two ranks: one of them has a single row, and backward reads it.
  Scenario scenario = small_mlp({.rate = 0.0625}, true, 1);
  scenario.model.root.children = {linear("l0", 4, 1), linear("narrow", 1, 3)};
  scenario.plan.wrap = {{.modules = {"l0"}},
                        {.modules = {"narrow"}, .reshard_after_forward = {scenario::ReshardAfterForward::Kind::size, 2}},
                        {.modules = {""}}};
  check_training(rank, rank.play(scenario), oracles::Arithmetic::f32, {});
}

RANKED_TEST_CASE("overlap/parts_nobody_needs", clauses("OVL-7", "OVL-10", "OVL-18"), ranks(4),
                 needs(Feature::timeline, Feature::fully_shard, Feature::reshard_to_size)) {
  // No gradient comes by a first layer that takes no part in the loss: what it keeps for backward goes with the iteration.
  Scenario scenario = small_mlp({.rate = 0.0625}, true, 1);
  std::vector<scenario::Module>& children = scenario.model.root.children;
  children.insert(children.begin(), {.name = "aside", .kind = scenario::ModuleKind::discard, .children = {linear("inner", 4, 4)}});
  scenario.plan.wrap.insert(scenario.plan.wrap.begin(),
                            {.modules = {"aside"}, .reshard_after_forward = {scenario::ReshardAfterForward::Kind::size, 2}});
  scenario.plan.wrap.back().reshard_after_forward = {};
  const scenario::Run run = rank.play(scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {}, Moves::some_parameter);
  check_sound(rank, run);
  const auto shards = [&run](ActionKind call, bool end) {
    return trace::at(run.trace(), MemoryClass::shard, scenario::mark(0, call, end));
  };
  CHECK(shards(ActionKind::backward, true) == shards(ActionKind::forward, false));
}

RANKED_TEST_CASE("overlap/parts_freed_by_hand", clauses("OVL-7", "OVL-10", "OVL-15", "OVL-18"), ranks(4),
                 needs(Feature::timeline, Feature::fully_shard, Feature::reshard_to_size, Feature::manual_unshard)) {
  // Also what is on its way from those parts.
  Scenario scenario = with_calls({}, {{.kind = ActionKind::unshard, .module = "l0", .async = true}, {.kind = ActionKind::reshard}}, true);
  for (scenario::WrapGroup& group : scenario.plan.wrap) {
    group.reshard_after_forward = {.kind = scenario::ReshardAfterForward::Kind::size, .size = 2};
  }
  const scenario::Run run = rank.play(scenario);
  check(rank, run);
  // Gathered again among all: the larger parts are gone.
  const auto again = collectives_in(run, 1, ActionKind::backward);
  for (const fact::Collective& collective : again) CHECK(collective.group.size() == 4);
  const auto shards = [&run](ActionKind call, bool end) {
    return trace::at(run.trace(), MemoryClass::shard, scenario::mark(1, call, end));
  };
  CHECK(shards(ActionKind::reshard, true) == shards(ActionKind::forward, false));
  // Each group once.
  CHECK(count_in(run, CollectiveKind::all_gather, 1, ActionKind::backward) == 2);
}

RANKED_TEST_CASE("overlap/gathered_before_step", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15"), ranks(1, 2, 3, 4),
                 each("how", "by_hand", "ahead", "prefetched_and_by_hand", "parts"),
                 needs(Feature::timeline, Feature::fully_shard, Feature::manual_unshard, Feature::prefetch_lists,
                       Feature::reshard_to_size)) {
  // What a step finds on its way to being whole is older than what the step writes.
  const std::string& how = rank.param("how");
  const int world = rank.world().size();
  Scenario scenario = with_calls({}, {}, true);
  std::vector<Action>& body = scenario.script.segments.front().body;
  std::vector<Action> before_step{{.kind = ActionKind::unshard, .module = "l0", .async = true}};
  if (how == "ahead" || how == "prefetched_and_by_hand") scenario.plan.wrap[1].forward_prefetch = {"l0"};
  if (how == "ahead") before_step = {{ActionKind::evaluate}};
  if (how == "prefetched_and_by_hand") before_step = {{.kind = ActionKind::unshard, .module = "l0"}};
  if (how == "parts") {
    scenario.plan.wrap[0].reshard_after_forward = {scenario::ReshardAfterForward::Kind::size, world % 2 == 0 ? 2 : 1};
    before_step.insert(before_step.begin(), Action{ActionKind::evaluate});
  }
  const bool between = how == "prefetched_and_by_hand";  // the forward that has just ended gathered it ahead
  body.insert(body.begin() + (between ? 1 : 2), before_step.begin(), before_step.end());
  const scenario::Run run = rank.play(scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_thirds(rank));
  check_sound(rank, run);
}

RANKED_TEST_CASE("overlap/unfinished_scripts", clauses("OVL-7", "OVL-13"), ranks(1, 2, 3, 4),
                 each("ends_with", "unshard", "forward", "not_last", "prefetch", "zero_grad"),
                 needs(Feature::timeline, Feature::fully_shard, Feature::manual_unshard, Feature::prefetch_lists,
                       Feature::gradient_accumulation)) {
  // Wherever a script ends, memory that is still in use goes back in order.
  const std::string& end = rank.param("ends_with");
  Scenario scenario = with_calls({}, {}, true);
  std::vector<Action>& body = scenario.script.segments.front().body;
  scenario.script.segments.front().iterations = 1;
  const Action not_last{.kind = ActionKind::set_is_last_backward, .value = false};
  if (end == "unshard") body = {{.kind = ActionKind::unshard, .async = true}};
  if (end == "forward") body = {{ActionKind::forward}};
  if (end == "not_last") body = {not_last, {ActionKind::forward}, {ActionKind::backward}};
  if (end == "zero_grad") body = {not_last, {ActionKind::forward}, {ActionKind::backward}, {ActionKind::zero_grad}};
  if (end == "prefetch") {
    scenario.plan.wrap[1].forward_prefetch = {"l0"};
    body = {{ActionKind::evaluate}, {ActionKind::forward}};
  }
  const scenario::Run run = rank.play(scenario);
  check_no_race(rank, run);
  CHECK(run.left_alive() == 0);
  if (rank.world().size() > 1) CHECK(run.count(CollectiveKind::all_gather) > 0);
}

}  // namespace shardproof::overlap
