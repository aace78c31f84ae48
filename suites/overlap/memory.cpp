// How many bytes does an engine hold that shards groups of parameters, and how often does its host wait?
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fixtures/oracles/group_memory.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/said.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

// The group whose backward comes first in groups_of_sizes.
constexpr std::string_view first_in_backward = "d";

// Groups of different sizes, uneven for most worlds. The root has parameters that run last.
Scenario groups_of_sizes(Rank& rank) {
  using Kind = ReshardAfterForward::Kind;
  const ReshardAfterForward reshard{rank.param<bool>("reshard") ? Kind::yes : Kind::no};
  Scenario scenario;
  scenario.model.root.children = {linear("a", 3, 5), relu("relu"),      linear("b", 5, 7),
                                  linear("c", 7, 2), linear("d", 2, 9), linear("out", 9, 3)};
  for (const char* path : {"a", "b", "c", "d"}) fully_shard_plan(scenario.plan).wrap.push_back({{path}, reshard});
  fully_shard_plan(scenario.plan).wrap.push_back({{""}, {}});
  if (rank.param("policy") == "bf16") scenario.plan.mixed_precision.param = DType::bf16;
  scenario.script.input = {2, 3};
  scenario.script.segments = {
      {.iterations = 3,
       .body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}, {ActionKind::zero_grad}}}};
  return scenario;
}

// The most bytes of a group and the next one.
std::uint64_t largest_pair(const std::vector<oracles::GroupBytes>& groups, std::uint64_t oracles::GroupBytes::* bytes) {
  std::uint64_t most = 0;
  for (std::size_t i = 1; i < groups.size(); ++i) most = std::max(most, groups[i - 1].*bytes + groups[i].*bytes);
  return most;
}

std::uint64_t smallest(const std::vector<oracles::GroupBytes>& groups, std::uint64_t oracles::GroupBytes::* bytes) {
  return std::ranges::min(groups, {}, bytes).*bytes;
}

std::uint64_t all_of(const std::vector<oracles::GroupBytes>& groups, std::uint64_t oracles::GroupBytes::* bytes) {
  std::uint64_t sum = 0;
  for (const oracles::GroupBytes& group : groups) sum += group.*bytes;
  return sum;
}

// Whole parameters of a group must be released before the operand of its reduction is allocated. PyTorch keeps the
// parameters of the group whose backward comes first.
void check_freed_before_packing(const Run& run) {
  std::map<std::uint64_t, std::string> whole;  // by buffer: the parameter's name
  std::size_t packings = 0;
  for (const Fact& fact : run.trace().facts) {
    if (const auto* gone = std::get_if<fact::Released>(&fact)) whole.erase(gone->buffer);
    const auto* const made = std::get_if<fact::Allocated>(&fact);
    if (made == nullptr) continue;
    if (made->memory == MemoryClass::parameter) whole[made->buffer] = made->label;
    if (made->memory != MemoryClass::reduce_input || made->label == first_in_backward) continue;
    ++packings;
    for (const auto& [buffer, parameter] : whole)
      check_said(fully_shard_plan(run.scenario().plan).group_of(parameter)->modules.front() != made->label,
                 fmt::format("parameter \"{}\" is whole while the gradients of its group \"{}\" are packed", parameter,
                             made->label));
  }
  CHECK(packings > 0);
}

}  // namespace

RANKED_TEST_CASE("overlap/peak_bytes", clauses("OVL-51"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 also_with_discarded_module(), each("reshard", false, true), each("policy", "f32", "bf16"),
                 needs(Feature::timeline), needs_if("policy", "bf16", Feature::mixed_precision)) {
  using oracles::GroupBytes;
  const Run run = play_accepted(rank, groups_of_sizes(rank));
  const std::vector<GroupBytes> groups = oracles::group_bytes(run.scenario(), rank.world().size());
  const GroupBytes& root = groups.front();
  const bool is_alone = rank.world().size() == 1;
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto peak = [&](MemoryClass memory) { return iteration.peak(memory).bytes; };
    CHECK(peak(MemoryClass::parameter) >= root.whole + smallest(groups, &GroupBytes::whole));
    CHECK(peak(MemoryClass::gradient) >= smallest(groups, &GroupBytes::gradients));
    CHECK(peak(MemoryClass::parameter) <= (rank.param<bool>("reshard")
                                               ? root.padded + largest_pair(groups, &GroupBytes::padded)
                                               : all_of(groups, &GroupBytes::padded)));
    CHECK(peak(MemoryClass::gradient) <= root.gradients + largest_pair(groups, &GroupBytes::gradients));
    if (!is_alone) {
      CHECK(peak(MemoryClass::gathered) > 0);
      CHECK(peak(MemoryClass::reduce_input) > 0);
    }
    CHECK(peak(MemoryClass::gathered) <= (is_alone ? 0 : largest_pair(groups, &GroupBytes::padded)));
    CHECK(peak(MemoryClass::reduce_input) <= largest_pair(groups, &GroupBytes::operand));
  }
}

RANKED_TEST_CASE("overlap/peak_bytes_of_pytorch", clauses("OVL-53"), ranks(2, 3, 4), more_ranks(5, 7, 8),
                 also_with_discarded_module(), each("reshard", false, true), each("policy", "f32", "bf16"),
                 needs(Feature::timeline), needs_if("policy", "bf16", Feature::mixed_precision), tags("reference")) {
  const Run run = play_accepted(rank, groups_of_sizes(rank));
  const oracles::GroupMemory expected = oracles::group_memory(run.scenario(), rank.world().size());
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto peak = [&](MemoryClass memory) { return iteration.peak(memory).bytes; };
    CHECK(peak(MemoryClass::parameter) >= expected.parameter);
    CHECK(peak(MemoryClass::parameter) <= expected.padded_parameter);
    CHECK(peak(MemoryClass::gathered) == expected.gathered);
    CHECK(peak(MemoryClass::gradient) == expected.gradient);
    CHECK(peak(MemoryClass::reduce_input) == expected.reduce_input);
  }
  check_freed_before_packing(run);
}

namespace {

// Three iterations, each with one of the calls in which an engine may be tempted to wait.
Scenario with_call(Rank& rank) {
  const std::string& with = rank.param("with");
  Scenario scenario = three_iterations({}, {}, true);
  std::vector<Action>& body = scenario.script.segments.front().body;
  std::erase(body, Action{ActionKind::capture});  // to read values is to wait for them
  if (with == "clipping")
    body.insert(body.begin() + 2, {.kind = ActionKind::clip_grad_norm, .max_norm = 1, .norm_type = 2});
  if (with == "accumulation") {
    const auto sync = [](bool value) { return Action{.kind = ActionKind::set_requires_gradient_sync, .value = value}; };
    body.insert(body.begin(), {sync(false), {ActionKind::forward}, {ActionKind::backward}, sync(true)});
  }
  if (with == "event") body.push_back({ActionKind::post_optim_event});
  if (with == "evaluation") body.insert(body.begin(), {ActionKind::evaluate});
  if (with == "unshard") body.insert(body.begin(), {.kind = ActionKind::unshard, .module = "l0", .async = true});
  if (with == "bf16") scenario.plan.mixed_precision = {.param = DType::bf16, .reduce = DType::bf16};
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("overlap/host_waits", clauses("OVL-52"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 each("with", "nothing", "clipping", "accumulation", "event", "evaluation", "unshard", "bf16"),
                 needs(Feature::timeline), needs_if("with", "clipping", Feature::clip_grad_norm),
                 needs_if("with", "accumulation", Feature::gradient_accumulation),
                 needs_if("with", "event", FullyShardFeature::post_optim_event),
                 needs_if("with", "unshard", FullyShardFeature::manual_unshard),
                 needs_if("with", "bf16", Feature::mixed_precision)) {
  const Run run = play_accepted(rank, with_call(rank));
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK((iteration.count(CollectiveKind::all_gather) > 0) ==
          (rank.world().size() > 1));  // there was something to wait for
    CHECK(host_waits(iteration) == 0);
  }
}

}  // namespace shardproof::overlap
