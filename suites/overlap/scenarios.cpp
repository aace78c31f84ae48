#include "suites/overlap/scenarios.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace shardproof::overlap {

using scenario::ActionKind;
using scenario::Module;
using scenario::ModuleKind;
using scenario::Scenario;

namespace {

Module linear(std::string name, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out};
}

Module relu(std::string name) { return {.name = std::move(name), .kind = ModuleKind::relu}; }

bool is_under(std::string_view path, std::string_view ancestor) {
  return ancestor.empty() || path == ancestor || path.starts_with(std::string(ancestor) + ".");
}

// Wrapped modules come children first, so the first above a parameter is the deepest, to whose group it belongs. A group may be empty.
std::vector<scenario::WrapGroup> groups_with_parameters(const Scenario& scenario) {
  std::set<std::string> claimed;
  std::vector<scenario::WrapGroup> groups;
  for (const scenario::WrapGroup& group : scenario.plan.wrap) {
    bool has_some = false;
    for (const scenario::ParameterShape& parameter : scenario::parameters(scenario.model)) {
      const bool is_in = std::ranges::any_of(group.modules, [&](const std::string& path) { return is_under(parameter.name, path); });
      if (is_in && claimed.insert(parameter.name).second) has_some = true;
    }
    if (has_some) groups.push_back(group);
  }
  return groups;
}

bool is_freed_after_forward(const scenario::WrapGroup& group) {
  using Kind = scenario::ReshardAfterForward::Kind;
  const bool is_root = std::ranges::find(group.modules, "") != group.modules.end();
  return group.reshard_after_forward.kind == Kind::yes || (group.reshard_after_forward.kind == Kind::automatic && !is_root);
}

Communication issued(const scenario::Run& run) {
  return {run.count(CollectiveKind::all_gather), run.count(CollectiveKind::reduce_scatter)};
}

}  // namespace

scenario::SleepingStack seed_stack() {
  return scenario::sleeping_stack(3).forward(25ms).backward(50ms).collectives(10ms).reshard_after_forward(true);
}

Scenario post_optim(const PostOptim& how) {
  Module sleeping = linear("linear", 4, 4);
  sleeping.forward_sleep = how.sleep_forward.count();
  sleeping.backward_sleep = how.sleep_backward.count();

  Scenario scenario;
  scenario.model.root.children = {{.name = "sleep", .children = {std::move(sleeping), relu("relu")}},
                                  {.name = "tiny", .children = {linear("linear", 4, 4), relu("relu")}}};
  scenario.plan.wrap = {{.modules = {"tiny"}, .reshard_after_forward = {scenario::ReshardAfterForward::Kind::no}}};
  scenario.plan.optimizer = {.kind = scenario::OptimizerKind::adamw, .rate = 1e-2, .weight_decay = 1e-2};
  scenario.script.input = {2, 4};
  scenario.script.segments = {
      {.iterations = how.iterations, .body = {{ActionKind::zero_grad}, {ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}}}};
  if (how.event) scenario.script.segments.front().body.push_back({ActionKind::post_optim_event});
  scenario.costs.collectives[CollectiveKind::all_gather] = {.fixed = how.all_gather.count()};
  return scenario;
}

Scenario small_mlp(scenario::Optimizer optimizer, bool reshard_after_forward, int iterations) {
  using Kind = scenario::ReshardAfterForward::Kind;
  const scenario::ReshardAfterForward reshard{reshard_after_forward ? Kind::yes : Kind::no};
  Scenario scenario;
  scenario.model.root.children = {linear("l0", 4, 6), relu("relu"), linear("l1", 6, 3)};
  scenario.model.loss = {.kind = scenario::LossKind::dot};
  scenario.model.init_divisor = 1;
  scenario.plan.wrap = {{{"l0"}, reshard}, {{"l1"}, reshard}, {{""}, reshard}};
  scenario.plan.optimizer = optimizer;
  scenario.script.input = {2, 4};
  scenario.script.input_divisor = 1;
  scenario.script.segments = {
      {.iterations = iterations,
       .body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}, {ActionKind::capture}, {ActionKind::zero_grad}}}};
  return scenario;
}

Scenario traced_blocks(scenario::ReshardAfterForward reshard, bool post_optim_event) {
  Scenario scenario;
  for (const char* name : {"0", "1", "2"}) {
    scenario.model.root.children.push_back({.name = name, .children = {linear("in_proj", 8, 32), relu("relu"), linear("out_proj", 32, 8)}});
    scenario.plan.wrap.push_back({{name}, reshard});
  }
  scenario.plan.wrap.push_back({{""}, reshard});
  scenario.model.loss = {.kind = scenario::LossKind::sum_of_squares, .divisor = 64};
  scenario.plan.optimizer = {.kind = scenario::OptimizerKind::sgd, .rate = 0.5};
  scenario.script.input = {2, 8};
  scenario.script.segments = {
      {.iterations = 2, .body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}, {ActionKind::zero_grad}}}};
  if (post_optim_event) scenario.script.segments.front().body.push_back({ActionKind::post_optim_event});
  return scenario;
}

Communication planned(const Scenario& scenario, int world) {
  Communication communication;
  if (world == 1) return communication;
  const auto groups = groups_with_parameters(scenario);
  const auto freed = static_cast<std::size_t>(std::ranges::count_if(groups, is_freed_after_forward));
  for (const scenario::Script::Segment& segment : scenario.script.segments) {
    const auto iterations = static_cast<std::size_t>(segment.iterations);
    for (const scenario::Action& action : segment.body) {
      if (action.kind == ActionKind::forward) communication.all_gathers += iterations * groups.size();
      if (action.kind != ActionKind::backward) continue;
      communication.all_gathers += iterations * freed;
      communication.reduce_scatters += iterations * groups.size();
    }
  }
  return communication;
}

void check_plan_is_communicated(Rank& rank, const scenario::Run& run) {
  const Communication least = planned(run.scenario(), rank.world().size()), done = issued(run);
  CHECK(done.all_gathers >= least.all_gathers);
  CHECK(done.reduce_scatters >= least.reduce_scatters);
}

void check_nothing_else_is_communicated(Rank& rank, const scenario::Run& run) {
  const Communication plan = planned(run.scenario(), rank.world().size()), done = issued(run);
  CHECK(done.all_gathers == plan.all_gathers);
  CHECK(done.reduce_scatters == plan.reduce_scatters);
}

void check_no_race(const Rank& rank, const scenario::Run& run) {
  // The first few say what is wrong; the others follow from the same edge.
  constexpr std::size_t shown = 3;
  const auto races = run.races();
  for (std::size_t i = 0; i < std::min(shown, races.size()); ++i) FAIL_CHECK(trace::describe(races[i], rank.index()));
  CHECK(races.empty());
}

}  // namespace shardproof::overlap
