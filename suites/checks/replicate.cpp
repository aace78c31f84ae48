#include "suites/checks/replicate.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "harness/scenario/plan/replicate.hpp"
#include "harness/trace/memory.hpp"
#include "suites/checks/race_parts.hpp"
#include "suites/checks/script_walk.hpp"

namespace shardproof::suites {

void ReducingBackwards::make(const Action& action) {
  reduces_ = false;
  if (!is_for(action, 0)) return;
  if (action.kind == ActionKind::set_requires_gradient_sync) syncs_ = action.value;
  if (action.kind == ActionKind::forward && !action.fails_in) next_reduces_ = next_reduces_ || syncs_;
  if (action.kind == ActionKind::backward) reduces_ = std::exchange(next_reduces_, false);
}

void BucketCalls::make(const Action& action) {
  reduced_.clear();
  backwards_.make(action);
  if (!is_for(action, 0)) return;
  if (action.kind == ActionKind::forward && !action.fails_in) forwards_.push_back(action);
  if (action.kind == ActionKind::backward) backward();
}

void BucketCalls::backward() {
  const std::vector<Action> forwards = std::exchange(forwards_, {});
  if (!backwards_.reduces()) return;
  const bool keeps_first = replicate_plan(scenario_.plan).unused_parameters;
  if (!ready_ || keeps_first) {
    if (!keeps_first) ready_ = oracles::ready_order(scenario_.model, forwards);
    reduced_ = oracles::first_buckets(scenario_);
  } else {
    reduced_ = oracles::later_buckets(scenario_, *ready_);
  }
}

std::uint64_t trainable_elements(const Model& model) {
  std::uint64_t elements = 0;
  for (const ParameterShape& parameter : parameters(model)) {
    if (parameter.trainable) elements += static_cast<std::uint64_t>(numel(parameter.shape));
  }
  return elements;
}

std::optional<int> divided_dimension(const ReplicatePlan& plan, const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  const auto module = plan.tensor_parallel.find(parameter.substr(0, dot));
  if (module == plan.tensor_parallel.end()) return std::nullopt;
  if (module->second == TensorParallel::column) return 0;
  return parameter.substr(dot + 1) == "weight" ? std::optional(1) : std::nullopt;
}

namespace {

std::uint64_t bytes_of_parameters(const Scenario& scenario, bool trainable) {
  std::uint64_t bytes = 0;
  for (const ParameterShape& parameter : parameters(scenario.model)) {
    const std::size_t width = size_of(replicate_plan(scenario.plan).dtype_of(parameter.name));
    if (parameter.trainable || !trainable) bytes += static_cast<std::uint64_t>(numel(parameter.shape)) * width;
  }
  return bytes;
}

// Whether `oracles::ready_order` knows the model's order.
bool has_known_order(const Model& model) {
  bool is_known = true;
  visit(model.root, "", [&](const Module& module, const std::string&) {
    is_known = is_known && module.kind != ModuleKind::embedding && module.kind != ModuleKind::attention;
  });
  return is_known;
}

// The bytes of buckets with copies of gradients. Buckets with views count as gradients.
std::uint64_t bytes_of_buckets(const Scenario& scenario) {
  return replicate_plan(scenario.plan).gradients == BucketGradients::views ? 0 : bytes_of_parameters(scenario, true);
}

// A hook compresses copies of buckets. A bucket that has its dtype already needs no copy.
std::uint64_t bytes_compressed(const Scenario& scenario, HookKind hook) {
  const DType dtype = hook == HookKind::fp16_compress ? DType::f16 : DType::bf16;
  std::uint64_t bytes = 0;
  for (const ParameterShape& parameter : parameters(scenario.model)) {
    if (parameter.trainable && replicate_plan(scenario.plan).dtype_of(parameter.name) != dtype)
      bytes += static_cast<std::uint64_t>(numel(parameter.shape)) * size_of(dtype);
  }
  return bytes;
}

constexpr SoundnessClauses replicate_clauses{.same_order = "REP-3",
                                             .nothing_twice = "REP-2",
                                             .nothing_left = "REP-14",
                                             .freed_memory = "REP-14",
                                             .whole_after_forward = "REP-14",
                                             .communicates = "REP-2",
                                             .no_other_gather = "REP-2",
                                             .no_other_reduction = "REP-2"};
constexpr std::string_view gradients_in_order = "REP-4", sums_over_parts_in_order = "REP-34";

class ReplicateChecks final : public Kind {
 public:
  SoundnessClauses clauses() const override { return replicate_clauses; }

  std::string_view ordering_clause(const Run& run, const trace::Race& race) const override {
    if (is_about_release(race)) return gradients_in_order;
    const auto& divided = replicate_plan(run.scenario().plan).tensor_parallel;
    const auto sums_over_parts = [&](const trace::Access& access) {
      const auto* const call = std::get_if<fact::Collective>(&run.trace().facts.at(access.fact));
      return call != nullptr && divided.contains(call->tag);
    };
    return sums_over_parts(race.first) || sums_over_parts(race.second) ? sums_over_parts_in_order : gradients_in_order;
  }

  // One all-reduce for each bucket, by the engine or by a hook. A compiled step has one for each gradient, also if one
  // call issues several.
  std::vector<Communication> planned(const Scenario& scenario, int world) const override {
    const std::vector<ParameterShape> parameters = shardproof::parameters(scenario.model);
    const auto trainable = static_cast<std::size_t>(std::ranges::count(parameters, true, &ParameterShape::trainable));
    const bool compiles = replicate_plan(scenario.plan).compile.has_value();
    ReducingBackwards backwards;
    BucketCalls buckets(scenario);
    std::vector<Communication> all;
    for (const Script::Segment& segment : scenario.script.segments) {
      for (int i = 0; i < segment.iterations; ++i) {
        Communication& communication = all.emplace_back();
        for (const Action& action : segment.body) {
          if (compiles) backwards.make(action);
          else buckets.make(action);
          const std::size_t compiled = backwards.reduces() ? trainable : 0;
          if (world > 1) communication.all_reduces += compiles ? compiled : buckets.reduced().size();
        }
      }
    }
    return all;
  }

  Plans plans(const Scenario& scenario, int /*world*/) const override {
    const ReplicatePlan& section = replicate_plan(scenario.plan);
    // The gradients that a compiled step puts into one tensor depend on the order of a compiler's graph.
    const bool is_known = section.compile ? section.compile->fusion != BucketFusion::concat
                                          : section.unused_parameters || has_known_order(scenario.model);
    return is_known && section.tensor_parallel.empty() ? Plans::exactly : Plans::nothing;
  }

  bool is_agreement(const fact::Collective& call) const override {
    constexpr std::array tags{parameter_list_tag, parameter_values_tag, ready_order_tag, used_parameters_tag};
    return std::ranges::find(tags, call.tag) != tags.end();
  }

  int holders(const Plan& plan, const std::string& parameter, int world) const override {
    return divided_dimension(replicate_plan(plan), parameter) ? world / plan.mesh.shape.at(1) : world;
  }

  Plan of_one_rank(const Plan& plan) const override {
    if (replicate_plan(plan).parameter_dtypes.empty()) return plan_of_one_rank();
    Plan alone;
    replicate_plan(alone).parameter_dtypes = replicate_plan(plan).parameter_dtypes;
    replicate_plan(alone).unused_parameters = true;  // a part of the model may run alone
    return alone;
  }

  // All parameters are whole, so nothing may be gathered.
  void check_nothing_gathered_twice(const Run& run) const override {
    if (!replicate_plan(run.scenario().plan).tensor_parallel.empty()) return;
    for (const Fact& fact : run.trace().facts) {
      const auto* const call = std::get_if<fact::Collective>(&fact);
      if (call == nullptr || is_agreement(*call)) continue;
      CAPTURE(call->tag, call->start);
      CHECK(call->kind != CollectiveKind::all_gather);
      CHECK(call->kind != CollectiveKind::reduce_scatter);
    }
  }

  // Whole parameters, whole gradients and buckets stay.
  void check_nothing_is_left(const Run& run, int iteration, int backward) const override {
    const std::string end = mark(iteration, ActionKind::backward, true, backward);
    CAPTURE(end);
    CHECK(trace::at(run.trace(), MemoryClass::gathered, end).buffers == 0);
    CHECK(trace::at(run.trace(), MemoryClass::reduce_input, end).bytes <= bytes_of_buckets(run.scenario()));
    CHECK(trace::at(run.trace(), MemoryClass::parameter, end).bytes <= bytes_of_parameters(run.scenario(), false));
  }

  // Buckets have the same number of bytes as their gradients. Views of buckets need no additional memory.
  void check_memory(const Run& run, int /*world*/, MemoryCheck check) const override {
    if (check != MemoryCheck::nothing_left) return;
    const Scenario& scenario = run.scenario();
    const ReplicatePlan& section = replicate_plan(scenario.plan);
    if (section.compile || !section.tensor_parallel.empty() || !is_for_all_ranks(scenario.script)) return;
    const bool makes_views = section.gradients == BucketGradients::views;
    const std::uint64_t all = bytes_of_parameters(scenario, true);
    const std::uint64_t buckets = bytes_of_buckets(scenario);
    std::uint64_t most_inputs = buckets;
    ReducingBackwards calls;
    int iteration = 0;
    for (const Script::Segment& segment : scenario.script.segments) {
      for (int i = 0; i < segment.iterations; ++i, ++iteration) {
        int backwards = 0;
        for (const Action& action : segment.body) {
          if (registers_compression(action) && !action.hook->refused)
            most_inputs = buckets + bytes_compressed(scenario, action.hook->kind);
          calls.make(action);
          if (action.kind != ActionKind::backward) continue;
          ++backwards;
          check_nothing_is_left(run, iteration, backwards);
          const std::string begin = mark(iteration, ActionKind::backward, false, backwards),
                            end = mark(iteration, ActionKind::backward, true, backwards);
          CAPTURE(end);
          CHECK(trace::peak(run.trace(), MemoryClass::reduce_input, begin, end).bytes <=
                (calls.reduces() ? most_inputs : buckets));
          // A bucket of views has room for a missing gradient. The gradient may get its own memory until the next
          // reduction.
          const bool may_have_room = makes_views && !calls.reduces();
          CHECK(trace::at(run.trace(), MemoryClass::gradient, end).bytes <= (may_have_room ? 2 * all : all));
        }
      }
    }
  }
};

}  // namespace

ENGINE_CLAUSES(.engine = "replicate", .equal_collectives = std::string(replicate_clauses.same_order),
               .freed_memory = std::string(replicate_clauses.freed_memory),
               .in_scopes = {std::string(gradients_in_order), std::string(sums_over_parts_in_order)});

const Kind& replicate_checks() {
  static const ReplicateChecks checks;
  return checks;
}

}  // namespace shardproof::suites
