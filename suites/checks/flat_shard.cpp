#include "suites/checks/flat_shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "harness/trace/memory.hpp"
#include "suites/checks/alive.hpp"
#include "suites/checks/said.hpp"
#include "suites/checks/script_walk.hpp"
#include "suites/checks/sharded_races.hpp"
#include "suites/checks/times.hpp"

namespace shardproof::suites {

ShardStrategy strategy(Rank& rank) {
  const std::string& name = rank.param("strategy");
  for (const ShardStrategy strategy : {ShardStrategy::full_shard, ShardStrategy::shard_grad_op, ShardStrategy::no_shard,
                                       ShardStrategy::hybrid, ShardStrategy::hybrid_zero2}) {
    if (to_string(strategy) == name) return strategy;
  }
  throw std::invalid_argument("no strategy is named " + name);
}

FlatPrefetch backward_prefetch(Rank& rank) {
  using enum FlatPrefetch;
  const std::string& name = rank.param("backward_prefetch");
  for (const FlatPrefetch prefetch : {before, after, none}) {
    if (to_string(prefetch) == name) return prefetch;
  }
  throw std::invalid_argument("no prefetch is named " + name);
}

// One forward of the script. The caller drops the state that a failing forward has begun.
class UnitCalls::Forward final : public ForwardWalk {
 public:
  Forward(UnitCalls& calls, const Action& action)
      : ForwardWalk(calls.scenario_, calls.parameters_of_, action), calls_(calls) {}

  const Pending& pending() const { return pending_; }

 private:
  void before(const std::string& path) override {
    if (calls_.units_.contains(path)) calls_.gather(path);
  }

  void after(const std::string& path, bool is_reached) override {
    const auto root = calls_.root_of_.find(path);
    if (root == calls_.root_of_.end()) return;
    if (is_reached) pending_.roots.insert(root->second);
    if (!calls_.units_.contains(path)) return;
    if (frees_after_forward(flat_shard_plan(calls_.scenario_.plan).strategy) && root->second != path)
      calls_.whole_.erase(path);
    if (is_reached) pending_.reached.insert(path);
  }

  void gets_gradient(const std::string& parameter) override {
    if (flat_shard_plan(calls_.scenario_.plan).unit_of(parameter) != nullptr) pending_.parameters.insert(parameter);
  }

  UnitCalls& calls_;
  Pending pending_;
};

UnitCalls::UnitCalls(const Scenario& scenario, int world)
    : scenario_(scenario), parameters_of_(parameters_by_module(scenario.model)) {
  const FlatShardPlan& section = flat_shard_plan(scenario.plan);
  const std::vector<int>& mesh = scenario.plan.mesh.shape;
  shards_ = mesh.size() == 2 ? mesh[1] : world;
  replicas_ = world / shards_;
  for (const ParameterShape& parameter : parameters(scenario.model)) {
    if (const std::string* const unit = section.unit_of(parameter.name)) units_.insert(*unit);
  }
  for (const std::string& wrapped : section.wrap)
    root_of_[wrapped] = *std::ranges::find_if(section.wrap.rbegin(), section.wrap.rend(),
                                              [&](const std::string& path) { return is_at_or_under(wrapped, path); });
}

bool UnitCalls::keeps_all() const {
  return flat_shard_plan(scenario_.plan).strategy == ShardStrategy::no_shard || shards_ == 1;
}

void UnitCalls::gather(const std::string& unit) {
  if (!keeps_all() && whole_.insert(unit).second) ++communication_.all_gathers;
}

void UnitCalls::free(const std::string& root) {
  std::erase_if(whole_, [&](const std::string& unit) { return root_of_.at(unit) == root; });
}

void UnitCalls::make(const Action& action) {
  switch (action.kind) {
    case ActionKind::forward:
    case ActionKind::evaluate: return forward(action);
    case ActionKind::backward: return backward();
    case ActionKind::step: whole_.clear(); return;  // whole parameters are older than the parts
    case ActionKind::zero_grad: waiting_.clear(); return;
    case ActionKind::set_requires_gradient_sync: syncs_ = action.value; return;
    default: return;
  }
}

void UnitCalls::forward(const Action& action) {
  Forward forward(*this, action);
  if (!forward.run()) {
    whole_.clear();
    return;
  }
  pending_.reached.insert(forward.pending().reached.begin(), forward.pending().reached.end());
  pending_.roots.insert(forward.pending().roots.begin(), forward.pending().roots.end());
  pending_.parameters.insert(forward.pending().parameters.begin(), forward.pending().parameters.end());
}

void UnitCalls::backward() {
  const Pending now = std::exchange(pending_, {});
  for (const std::string& unit : now.reached) gather(unit);
  waiting_.insert(now.parameters.begin(), now.parameters.end());
  for (const std::string& root : now.roots) {
    if (syncs_ || frees_after_forward(flat_shard_plan(scenario_.plan).strategy)) free(root);
  }
  if (!syncs_) return;
  std::set<std::string> reduced;
  for (const std::string& parameter : now.parameters)
    reduced.insert(*flat_shard_plan(scenario_.plan).unit_of(parameter));
  if (shards_ > 1) (keeps_all() ? communication_.all_reduces : communication_.reduce_scatters) += reduced.size();
  if (replicas_ > 1) communication_.all_reduces += reduced.size();
  std::erase_if(waiting_, [&](const std::string& parameter) {
    return reduced.contains(*flat_shard_plan(scenario_.plan).unit_of(parameter));
  });
}

namespace {

class FlatShardChecks final : public Kind {
 public:
  SoundnessClauses clauses() const override { return sharded_clauses; }

  std::string_view ordering_clause(const Run& run, const trace::Race& race) const override {
    return ordering_clause_of_sharded(run, race);
  }

  std::vector<Communication> planned(const Scenario& scenario, int world) const override {
    UnitCalls calls(scenario, world);
    return communication_by_iteration(
        scenario, [&](const Action& action) { calls.make(action); }, [&] { return calls.communication(); });
  }

  Plans plans(const Scenario& scenario, int /*world*/) const override {
    if (!is_for_all_ranks(scenario.script)) return Plans::nothing;
    return may_gather_in_vain(scenario) ? Plans::least : Plans::exactly;
  }

  // Checks the end of each forward, evaluate and backward. The number of whole units is as the strategy says. Only
  // gradients that no backward has reduced wait, and no operand of a reduction is left. Units that were gathered in
  // vain may be whole after a forward.
  void check_memory(const Run& run, int world, MemoryCheck check) const override {
    if (plans(run.scenario(), world) == Plans::nothing) return;
    const bool counts_gathers = !may_gather_in_vain(run.scenario());
    const std::uint64_t unsharded = unsharded_parameters(run.scenario());
    UnitCalls calls(run.scenario(), world);
    const auto make = [&](const Action& action) { calls.make(action); };
    follow_script(run.scenario(), make, [&](const Action& action, const std::string& end) {
      CAPTURE(end);
      const bool is_backward = action.kind == ActionKind::backward;
      if (is_backward == (check == MemoryCheck::nothing_left)) {
        const std::uint64_t whole = trace::at(run.trace(), MemoryClass::parameter, end).buffers;
        CHECK(whole >= unsharded + calls.whole());
        if ((is_backward && calls.whole() == 0) || counts_gathers) CHECK(whole == unsharded + calls.whole());
      }
      if (check != MemoryCheck::nothing_left) return;
      CHECK(trace::at(run.trace(), MemoryClass::gradient, end).buffers <= unsharded + calls.waiting_gradients());
      CHECK(trace::at(run.trace(), MemoryClass::reduce_input, end).buffers == 0);
    });
  }

  // Ranks agree on the order of forwards.
  bool is_agreement(const fact::Collective& call) const override { return call.tag == execution_order_tag; }

  int holders(const Plan& plan, const std::string& /*parameter*/, int world) const override {
    if (flat_shard_plan(plan).strategy == ShardStrategy::no_shard) return world;
    return plan.mesh.shape.size() == 2 ? plan.mesh.shape[0] : 1;
  }

  // A unit's whole flat parameter, and the gather that fills it, have the unit's name.
  void check_nothing_gathered_twice(const Run& run) const override {
    std::map<std::uint64_t, std::string> whole;  // by buffer: whose parameters it holds, or will hold
    for (const Fact& fact : run.trace().facts) {
      if (const auto* gone = std::get_if<fact::Released>(&fact)) whole.erase(gone->buffer);
      const auto* const call = std::get_if<fact::Collective>(&fact);
      if (call == nullptr || call->kind != CollectiveKind::all_gather || is_agreement(*call)) continue;
      check_said(has_group(run.scenario(), call->tag),
                 fmt::format("an all-gather at {} has the tag \"{}\", which no unit of the plan has",
                             in_ms(call->start), call->tag));
      check_said(
          std::ranges::none_of(whole, [&](const auto& buffer) { return buffer.second == call->tag; }),
          fmt::format("unit \"{}\" is gathered at {}, while its parameters are whole or are being gathered already",
                      call->tag, in_ms(call->start)));
      REQUIRE_FALSE(call->writes.empty());
      whole[call->writes.front().buffer] = call->tag;
    }
  }

  void check_nothing_is_left(const Run& run, int iteration, int backward) const override {
    const std::string end = mark(iteration, ActionKind::backward, true, backward);
    const std::uint64_t unsharded = unsharded_parameters(run.scenario());
    check_alive(run.trace(), MemoryClass::reduce_input, end, Alive::exactly, 0);
    check_alive(run.trace(), MemoryClass::parameter, end, Alive::exactly, unsharded);
    check_alive(run.trace(), MemoryClass::gradient, end, Alive::at_most, unsharded);
  }
};

}  // namespace

ENGINE_CLAUSES(.engine = "flat_shard", .equal_collectives = std::string(sharded_clauses.same_order),
               .freed_memory = std::string(sharded_clauses.freed_memory), .in_scopes = clauses_of_sharded_scopes());

const Kind& flat_shard_checks() {
  static const FlatShardChecks checks;
  return checks;
}

bool may_gather_in_vain(const Scenario& scenario) {
  const FlatShardPlan& section = flat_shard_plan(scenario.plan);
  bool varies = false, discards = false;
  for (const Script::Segment& segment : scenario.script.segments) {
    for (const Action& action : segment.body) varies = varies || action.fails_in || !action.paths.empty();
  }
  visit(scenario.model.root, "",
        [&](const Module& module, const std::string&) { discards = discards || module.kind == ModuleKind::discard; });
  return (section.forward_prefetch && varies) || (section.backward_prefetch != FlatPrefetch::none && discards);
}

}  // namespace shardproof::suites
