#include "suites/replicate/plans.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "fixtures/oracles/buckets.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

namespace {

using Names = std::vector<std::string>;  // of the gradients in one tensor, in order

// By value: the parameters whose gradients it holds. A gradient that is not reduced yet has its parameter's name.
class GradientsOfValues {
 public:
  explicit GradientsOfValues(const StepGraph& graph) {
    for (const StepValue& value : graph.values) names_.push_back({value.name});
    for (const StepNode& node : graph.nodes) follow(node);
  }
  const Names& of(std::size_t value) const { return names_[value]; }

 private:
  void follow(const StepNode& node) {
    if (node.operation == "concat") {
      Names all;
      for (const std::size_t input : node.inputs) all.insert(all.end(), names_[input].begin(), names_[input].end());
      names_[node.outputs.at(0)] = all;
    } else if (node.operation == "split") {
      const Names all = names_[node.inputs.at(0)];
      for (std::size_t i = 0; i < node.outputs.size() && i < all.size(); ++i) names_[node.outputs[i]] = {all[i]};
    } else if (node.kind != StepNodeKind::compute || node.operation == "divide" || node.operation == "cast") {
      for (std::size_t i = 0; i < node.outputs.size() && i < node.inputs.size(); ++i)
        names_[node.outputs[i]] = names_[node.inputs[i]];
    }
  }

  std::vector<Names> names_;
};

std::string in_words(const std::vector<Names>& operands) {
  Names tensors;
  for (const Names& names : operands) tensors.push_back(fmt::format("{}", fmt::join(names, " + ")));
  return fmt::format("{}", fmt::join(tensors, ", "));
}

std::string reduction(std::string_view tag, std::int64_t elements, DType dtype, ReduceOp op,
                      const std::vector<int>& group) {
  return fmt::format("{}: {} {} ({} of {})", tag, elements, to_string(dtype), to_string(op), fmt::join(group, ","));
}

std::string in_words(std::int64_t elements, DType dtype) { return fmt::format("{} {}", elements, to_string(dtype)); }

bool is_result(std::string_view line) {
  return line.starts_with("wait ") || line.starts_with("split ") || line.starts_with("copy ");
}

// No clause fixes the order of results that nothing is computed between. So they are sorted: waits, then splits, then
// copies.
PlanLines with_ordered_results(PlanLines lines) {
  const auto is_before = [](const std::string& a, const std::string& b) {
    return std::pair(b.substr(0, b.find(' ')), a) < std::pair(a.substr(0, a.find(' ')), b);
  };
  for (auto begin = lines.begin(); (begin = std::find_if(begin, lines.end(), is_result)) != lines.end();) {
    const auto end = std::find_if_not(begin, lines.end(), is_result);
    std::sort(begin, end, is_before);
    begin = end;
  }
  return lines;
}

bool is_part_of_reduction(const StepNode& node) {
  constexpr std::array operations{"divide", "concat", "split", "cast"};
  return node.kind != StepNodeKind::compute || std::ranges::find(operations, node.operation) != operations.end();
}

}  // namespace

CompilePlan fused_by(Rank& rank) {
  for (const BucketFusion fusion : {BucketFusion::coalesce, BucketFusion::none})
    if (rank.param("fusion") == to_string(fusion)) return {.fusion = fusion};
  return {.fusion = BucketFusion::concat};
}

CompiledRegion region_by(Rank& rank) {
  using enum CompiledRegion;
  return rank.param("region") == to_string(backward) ? backward : forward_backward;
}

CompilePlan compile_plan(Rank& rank) {
  CompilePlan compile = fused_by(rank);
  compile.region = region_by(rank);
  return compile;
}

PlanLines reduction_plan(const StepGraph& backward) {
  const GradientsOfValues gradients(backward);
  PlanLines lines;
  for (const StepNode& node : backward.nodes) {
    if (!is_part_of_reduction(node)) continue;
    std::vector<Names> operands;
    for (const std::size_t input : node.inputs) operands.push_back(gradients.of(input));
    std::string line(node.kind == StepNodeKind::compute ? std::string_view(node.operation) : to_string(node.kind));
    if (node.kind == StepNodeKind::all_reduce || node.kind == StepNodeKind::wait)
      line += fmt::format(" {}:", node.label);
    line += " " + in_words(operands);
    if (node.operation == "divide") line += fmt::format(" by {}", node.divisor);
    if (node.kind == StepNodeKind::all_reduce) {
      Names sizes;
      for (const std::size_t input : node.inputs)
        sizes.push_back(in_words(numel(backward.values[input].shape), backward.values[input].dtype));
      line += fmt::format(" = {} ({} of {})", fmt::join(sizes, ", "), to_string(node.op), fmt::join(node.group, ","));
    }
    lines.push_back(std::move(line));
  }
  return with_ordered_results(std::move(lines));
}

std::vector<std::string> compiled_ready_order(const Scenario& scenario) {
  const bool is_whole = replicate_plan(scenario.plan).compile.value().region == CompiledRegion::forward_backward;
  return oracles::ready_order(scenario.model,
                              is_whole ? oracles::ModuleOrder::registered : oracles::ModuleOrder::reversed);
}

PlanLines expected_plan(const Scenario& scenario, int world, bool existed) {
  const ReplicatePlan& plan = replicate_plan(scenario.plan);
  const BucketFusion fusion = plan.compile.value().fusion;
  const auto all = oracles::trainable_gradients(scenario);
  std::vector<oracles::BucketedGradient> ready;
  for (const std::string& name : compiled_ready_order(scenario))
    ready.push_back(*std::ranges::find(all, name, &oracles::BucketedGradient::parameter));
  // One rank has no all-reduces to fuse.
  const bool fuses = fusion != BucketFusion::none && world > 1;
  auto buckets = fuses ? oracles::filled_buckets(ready, plan.first_bucket_bytes, plan.bucket_bytes)
                       : oracles::filled_buckets(ready, 1, 1);
  // Each starts with its last gradient.
  std::ranges::stable_sort(buckets, {}, [&](const oracles::Bucket& bucket) {
    return std::ranges::find(ready, bucket.back()) - ready.begin();
  });
  std::vector<int> ranks(static_cast<std::size_t>(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  PlanLines lines, results;
  for (std::size_t index = 0; index < buckets.size(); ++index) {
    const oracles::Bucket& bucket = buckets[index];
    const std::string tag = bucket_tag(index);
    const Names members = oracles::names_of(bucket);
    const bool is_flat = fusion == BucketFusion::concat && members.size() > 1;
    std::vector<Names> operands;
    if (is_flat) operands = {members};
    else
      std::ranges::transform(members, std::back_inserter(operands),
                             [](const std::string& name) { return Names{name}; });
    std::vector<Names> each;
    std::ranges::transform(members, std::back_inserter(each), [](const std::string& name) { return Names{name}; });
    if (is_flat) lines.push_back("concat " + in_words(each));
    lines.push_back(fmt::format("divide {} by {}", in_words(operands), world));
    Names sizes;
    const auto width = static_cast<std::int64_t>(size_of(bucket.front().dtype));
    if (is_flat) sizes = {in_words(oracles::bytes_of(bucket) / width, bucket.front().dtype)};
    else
      std::ranges::transform(bucket, std::back_inserter(sizes),
                             [&](const auto& one) { return in_words(one.bytes / width, one.dtype); });
    if (world > 1)
      lines.push_back(fmt::format("all_reduce {}: {} = {} (sum of {})", tag, in_words(operands), fmt::join(sizes, ", "),
                                  fmt::join(ranks, ",")));
    if (is_flat) {
      results.push_back(fmt::format("wait {}: {}", tag, in_words(operands)));
      results.push_back("split " + in_words(operands));
    }
    for (const std::string& name : members) {
      if (!is_flat && world > 1) results.push_back(fmt::format("wait {}: {}", tag, name));
      if (existed) results.push_back("copy " + name);
    }
  }
  lines.insert(lines.end(), results.begin(), results.end());
  return with_ordered_results(std::move(lines));
}

PlanLines planned_reductions(const StepGraph& graph) {
  PlanLines lines;
  for (const StepNode& node : graph.nodes) {
    if (node.kind != StepNodeKind::all_reduce) continue;
    for (const std::size_t input : node.inputs)
      lines.push_back(
          reduction(node.label, numel(graph.values[input].shape), graph.values[input].dtype, node.op, node.group));
  }
  return lines;
}

PlanLines executed_reductions(const std::vector<fact::Collective>& calls) {
  PlanLines lines;
  for (const fact::Collective& call : calls)
    lines.push_back(reduction(call.tag, static_cast<std::int64_t>(call.in_count), call.dtype, call.op, call.group));
  return lines;
}

Scenario eager(Scenario scenario) {
  replicate_plan(scenario.plan).compile.reset();
  return scenario;
}

void check_ran_as_planned(const Rank& rank, const Run& run) {
  const auto judged = rank.under("REP-41");
  REQUIRE_FALSE(run.compiled_steps().empty());
  const std::vector<Iteration> all = run.iterations();
  for (const CompiledStep& step : run.compiled_steps()) {
    CAPTURE(step.iteration, step.backward);
    const Iteration& iteration = all.at(static_cast<std::size_t>(step.iteration));
    CHECK(executed_reductions(calls_in_backward(iteration, step.backward)) == planned_reductions(backward_of(step)));
    PlanLines forward;
    for (const StepGraph& graph : *step.graphs) {
      if (graph.pass == StepPass::forward) std::ranges::move(planned_reductions(graph), std::back_inserter(forward));
    }
    const bool is_planned = std::ranges::count(*step.graphs, StepPass::forward, &StepGraph::pass) > 0;
    if (is_planned) CHECK(executed_reductions(calls_before_backward(iteration, step.backward)) == forward);
  }
}

const StepGraph& backward_of(const CompiledStep& step) {
  const auto found = std::ranges::find(*step.graphs, StepPass::backward, &StepGraph::pass);
  REQUIRE(found != step.graphs->end());
  return *found;
}

}  // namespace shardproof::replicate
