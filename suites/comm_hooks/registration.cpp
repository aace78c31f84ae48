// Registrations that succeed, and those that engines refuse.
#include <shardproof.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "suites/checks/refusal.hpp"
#include "suites/comm_hooks/gradients.hpp"
#include "suites/comm_hooks/scenarios.hpp"

namespace shardproof::comm_hooks {

using namespace suites;

namespace {

constexpr const char* initialization_test = "test_fsdp_comm_hooks.py::test_default_communication_hook_initialization";

std::set<std::string> all_units(bool wrapping) {
  const std::vector<std::string> all = units(wrapping);
  return {all.begin(), all.end()};
}

// Each iteration calls the hooks of exactly these units, each once. Which units these are is judged by `clause`.
void check_called(const Rank& rank, const Run& run, const char* clause, const std::set<std::string>& units) {
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CAPTURE(iteration);
    std::set<std::string> called;
    for (const Callback* call : hook_calls(run, iteration)) {
      const auto judged = rank.under("CMH-3");
      CHECK(called.insert(call->name).second);
      CHECK(call->during == "backward");
      CHECK(state_of(*call) == static_cast<std::uint64_t>(state));
    }
    const auto judged = rank.under(clause);
    CHECK(called == units);
  }
}

}  // namespace

// A second registration is refused, and the first one stays in effect for every unit.
RANKED_TEST_CASE("comm_hooks/initialization", clauses("CMH-2", "CMH-3", "CMH-9", "CMH-12"), ranks(1, 2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), each("wrapping", false, true),
                 needs(FlatShardFeature::gradient_hooks),
                 seed(initialization_test, each("strategy", "no_shard", "full_shard", "shard_grad_op"),
                      each("wrapping", false, true))) {
  const bool wrapping = rank.param<bool>("wrapping");
  const Run run =
      play_accepted(rank, with_calls_first(hooked_net(strategy(rank), wrapping),
                                           {registration(HookKind::plain), refused(registration(HookKind::doubled))}));
  check_called(rank, run, "CMH-2", all_units(wrapping));
  check_gradients(rank, run, mean);
}

RANKED_TEST_CASE("comm_hooks/registering_hook_non_root", clauses("CMH-8", "CMH-12"), ranks(2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), needs(FlatShardFeature::gradient_hooks),
                 seed("test_fsdp_comm_hooks.py::test_registering_hook_non_root",
                      each("strategy", "no_shard", "full_shard", "shard_grad_op"))) {
  const Run run = play_accepted(
      rank, with_calls_first(hooked_net(strategy(rank), true), {refused(registration(HookKind::doubled, "net"))}));
  check_called(rank, run, "CMH-12", {});
  check_gradients(rank, run, mean);
}

// A unit under the root has a hook: the root's registration is refused, and only that unit has one.
RANKED_TEST_CASE("comm_hooks/registering_hook_submodules", clauses("CMH-9", "CMH-12"), ranks(2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), needs(FlatShardFeature::gradient_hooks),
                 seed("test_fsdp_comm_hooks.py::test_registering_hook_submodules",
                      each("strategy", "no_shard", "full_shard", "shard_grad_op"))) {
  const Run run = play_accepted(
      rank, with_calls_first(hooked_net(strategy(rank), true),
                             {direct(registration(HookKind::doubled, "net")), refused(registration(HookKind::sum))}));
  check_called(rank, run, "CMH-12", {"net"});
  check_gradients(rank, run, [](std::span<const double> by_rank) { return 2 * mean(by_rank); }, "net");
  check_gradients(rank, run, mean, "out");
}

// A hook that is put on one unit is this unit's alone, also if the unit is the root's.
RANKED_TEST_CASE("comm_hooks/hook_of_one_unit", clauses("CMH-1", "CMH-3", "CMH-5"), ranks(1, 2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), each("unit", "net", "root"),
                 needs(FlatShardFeature::gradient_hooks)) {
  const bool is_root = rank.param("unit") == "root";
  const std::string unit = is_root ? "" : "net";
  const Run run = play_accepted(
      rank, with_calls_first(hooked_net(strategy(rank), true), {direct(registration(HookKind::doubled, unit))}));
  check_called(rank, run, "CMH-3", {unit});
  const Combine doubled = [](std::span<const double> by_rank) { return 2 * mean(by_rank); };
  check_gradients(rank, run, is_root ? Combine(mean) : doubled, "net");
  check_gradients(rank, run, is_root ? doubled : Combine(mean), "out");
}

// A hook that is registered after a forward is in effect from that iteration's backward on.
RANKED_TEST_CASE("comm_hooks/registered_later", clauses("CMH-3"), ranks(1, 2, 3),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), needs(FlatShardFeature::gradient_hooks)) {
  const Run run = play_accepted(
      rank, with_call_in_third_iteration(hooked_net(strategy(rank), true), registration(HookKind::plain)));
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CAPTURE(iteration);
    std::vector<std::string> called;
    for (const Callback* call : run.callbacks({.kind = CallbackKind::gradient_hook, .iteration = iteration}))
      called.push_back(call->name);
    std::ranges::sort(called);
    CHECK(called == (iteration < 2 ? std::vector<std::string>{} : std::vector<std::string>{"", "net"}));
  }
  check_gradients(rank, run, mean);
}

RANKED_TEST_CASE("comm_hooks/registering_hook_hybrid", clauses("CMH-10", "CMH-12"), ranks(2, 4),
                 each("strategy", "hybrid", "hybrid_zero2"),
                 needs(FlatShardFeature::gradient_hooks, Feature::replicated_mesh),
                 seed("test_fsdp_comm_hooks.py::test_registering_hook_hybrid_strategy",
                      each("strategy", "hybrid", "hybrid_zero2"))) {
  Scenario scenario = hooked_net(strategy(rank), true);
  scenario.plan.mesh = {.shape = {rank.world().size() / 2, 2}, .names = {"copies", "parts"}};
  const Run run = play_accepted(rank, with_calls_first(scenario, {refused(registration(HookKind::doubled))}));
  check_called(rank, run, "CMH-12", {});
  check_gradients(rank, run, mean);
}

// After the refusal a hook that can be called is registered: nothing was there.
RANKED_TEST_CASE("comm_hooks/not_callable", clauses("CMH-11", "CMH-12"), ranks(1, 2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), needs(FlatShardFeature::gradient_hooks)) {
  const Run run = play_accepted(
      rank, with_calls_first(hooked_net(strategy(rank), true),
                             {refused(registration(HookKind::not_callable)), registration(HookKind::doubled)}));
  check_called(rank, run, "CMH-12", all_units(true));
  check_gradients(rank, run, [](std::span<const double> by_rank) { return 2 * mean(by_rank); });
}

}  // namespace shardproof::comm_hooks
