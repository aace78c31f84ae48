#include "suites/replicate/scenarios.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "fixtures/oracles/difference.hpp"
#include "fixtures/oracles/rounding.hpp"
#include "suites/checks/clauses.hpp"
#include "suites/checks/exact_inputs.hpp"
#include "suites/checks/soundness.hpp"

namespace shardproof::replicate {

namespace {

Module linear(std::string name, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out};
}

bool is_bucket(const fact::Collective& call) { return call.tag.starts_with("bucket "); }

}  // namespace

std::vector<Action> training() {
  return {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture},
          {ActionKind::step},    {ActionKind::capture},  {ActionKind::zero_grad}};
}

std::vector<Action> gradients_only() {
  return {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}, {ActionKind::zero_grad}};
}

Action sync(bool on) { return {.kind = ActionKind::set_requires_gradient_sync, .value = on}; }

Script::Segment without_sync(Script::Segment segment) {
  segment.iterations = 1;
  segment.body.insert(segment.body.begin(), sync(false));
  segment.body.push_back(sync(true));
  return segment;
}

Scenario with_last_step(Scenario scenario) {
  scenario.plan.optimizer = {.rate = 1.0 / 2};
  scenario.script.segments.push_back({.body = training()});
  return scenario;
}

suites::Tolerance exact_unless_division_rounds(Rank& rank) {
  if (!suites::mean_rounds(rank)) return suites::equal_values;
  // On seven ranks rounding alone, with the room that a tolerance needs, takes 0.34.
  return {.loss = rank.world().size() < 7 ? 0.2 : 0.4, .gradient = 1e-2, .parameter = 1e-2};
}

Scenario exact_net(bool many, std::vector<Action> body) {
  Scenario scenario;
  scenario.model.root.children = {linear("0", 4, 6), {.name = "relu", .kind = ModuleKind::relu}, linear("1", 6, 3)};
  scenario.model.loss = {.kind = LossKind::dot, .divisor = 1};
  scenario.model.init_divisor = 1;
  scenario.plan.optimizer = {.kind = OptimizerKind::sgd, .rate = 1.0 / 2};
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  // In bytes: 1.bias 12, 1.weight 72, 0.bias 24, 0.weight 96.
  if (many) plan.first_bucket_bytes = 12, plan.bucket_bytes = 96;
  scenario.script.input = {2, 4};
  scenario.script.input_divisor = 1;
  suites::give_one_hot_inputs(scenario.script);
  scenario.script.segments = {{.iterations = 3, .body = std::move(body)}};
  return scenario;
}

Scenario four_layers(std::int64_t width) {
  Scenario scenario;
  for (const char* const name : {"fc1", "fc2", "fc3", "fc4"})
    scenario.model.root.children.push_back(linear(name, width, width));
  scenario.model.init_divisor = 1;
  scenario.plan.engine = ChosenEngine(std::make_unique<ReplicatePlan>());
  scenario.script.input = {1, width};
  scenario.script.input_divisor = 1;
  scenario.script.segments = {{.iterations = iterations, .body = gradients_only()}};
  return scenario;
}

std::int64_t pick(std::mt19937_64& random, std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
}

Scenario random_layers(std::mt19937_64& random) {
  Scenario scenario = four_layers(1);
  std::vector<Module>& layers = scenario.model.root.children;
  layers.clear();
  std::int64_t width = pick(random, 1, 6);
  scenario.script.input = {1, width};
  for (std::int64_t i = 0, count = pick(random, 2, 5); i < count; ++i) {
    const std::int64_t next = pick(random, 1, 6);
    layers.push_back(linear(std::to_string(i), width, next));
    layers.back().bias = pick(random, 0, 2) > 0;
    width = next;
  }
  return scenario;
}

void draw_limits(Scenario& scenario, const std::vector<std::string>& ready, bool exact, std::mt19937_64& random) {
  const auto gradients = oracles::trainable_gradients(scenario);
  std::vector<std::int64_t> sums;  // of bytes, of gradients of the first one's dtype
  std::optional<DType> dtype;
  for (const std::string& name : ready) {
    const auto gradient = std::ranges::find(gradients, name, &oracles::BucketedGradient::parameter);
    if (!dtype) dtype = gradient->dtype;
    if (gradient->dtype != *dtype) continue;
    sums.push_back((sums.empty() ? 0 : sums.back()) + gradient->bytes);
  }
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  if (!exact) {
    plan.first_bucket_bytes = pick(random, 1, 100);
    plan.bucket_bytes = pick(random, 1, 200);
    return;
  }
  const std::int64_t last = std::ssize(sums) - 1, first_closes = pick(random, 0, last / 2),
                     first_misses = pick(random, 0, 1);
  const std::int64_t begin = std::min(last, first_closes + first_misses + 1);
  const auto sum_to = [&](std::int64_t at) { return at < 0 ? 0 : sums[static_cast<std::size_t>(at)]; };
  plan.first_bucket_bytes = sum_to(first_closes) + first_misses;
  plan.bucket_bytes = sum_to(pick(random, begin, std::max(begin, last - 1))) - sum_to(begin - 1) + pick(random, 0, 1);
}

Scenario sleeping_layers(const std::vector<SleepingLayer>& layers, Nanoseconds all_reduce) {
  Scenario scenario;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Module layer = linear(std::to_string(i), 4, 4);
    layer.forward_sleep = layers[i].forward;
    layer.backward_sleep = layers[i].backward;
    scenario.model.root.children.push_back(std::move(layer));
  }
  scenario.plan.engine = ChosenEngine(std::make_unique<ReplicatePlan>());
  scenario.costs.collectives[CollectiveKind::all_reduce] = {.fixed = all_reduce};
  scenario.script.input = {2, 4};
  scenario.script.segments = {
      {.iterations = iterations, .body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::zero_grad}}}};
  return scenario;
}

std::vector<fact::Collective> bucket_calls(const Iteration& iteration) {
  std::vector<fact::Collective> calls = iteration.collectives();
  std::erase_if(calls, [](const fact::Collective& call) { return !is_bucket(call); });
  return calls;
}

namespace {

// Between two marks, without agreements. No first mark: from the beginning.
std::vector<fact::Collective> calls_between(const Iteration& iteration, const std::string& begin,
                                            const std::string& end) {
  const suites::Kind& kind = suites::replicate_checks();
  std::vector<fact::Collective> calls;
  bool is_in = begin.empty();
  for (const Fact& fact : iteration.facts()) {
    if (const auto* const mark = std::get_if<fact::Mark>(&fact))
      is_in = mark->text == begin || (is_in && mark->text != end);
    const auto* const call = std::get_if<fact::Collective>(&fact);
    if (is_in && call != nullptr && !kind.is_agreement(*call)) calls.push_back(*call);
  }
  return calls;
}

std::string mark_of_backward(const Iteration& iteration, int backward, bool end) {
  return mark(iteration.index(), ActionKind::backward, end, backward);
}

}  // namespace

std::vector<fact::Collective> calls_in_backward(const Iteration& iteration, int backward) {
  return calls_between(iteration, mark_of_backward(iteration, backward, false),
                       mark_of_backward(iteration, backward, true));
}

std::vector<fact::Collective> calls_before_backward(const Iteration& iteration, int backward) {
  return calls_between(iteration, backward == 1 ? "" : mark_of_backward(iteration, backward - 1, true),
                       mark_of_backward(iteration, backward, false));
}

void check_equal(const Rank& rank, const Run& run, const Run& other) {
  const auto judged = suites::judging(rank, suites::Finding::values);
  REQUIRE_FALSE(other.captures().empty());
  REQUIRE(run.captures().size() == other.captures().size());
  for (std::size_t i = 0; i < other.captures().size(); ++i) {
    const Capture &found = run.captures()[i], &expected = other.captures()[i];
    CAPTURE(i, found.iteration);
    CHECK(found.loss == expected.loss);
    REQUIRE(found.parameters.size() == expected.parameters.size());
    for (std::size_t p = 0; p < expected.parameters.size(); ++p) {
      CAPTURE(expected.parameters[p].name);
      CHECK(found.parameters[p].shard == expected.parameters[p].shard);
      REQUIRE(found.parameters[p].gradient.defined() == expected.parameters[p].gradient.defined());
      if (expected.parameters[p].gradient.defined())
        CHECK(found.parameters[p].gradient == expected.parameters[p].gradient);
    }
  }
}

void check_memory_classes(const Rank& rank, const Run& run) {
  const auto judged = rank.under("REP-14");
  for (const MemoryClass memory :
       {MemoryClass::shard, MemoryClass::gathered, MemoryClass::sharded_gradient, MemoryClass::optimizer_state}) {
    CAPTURE(to_string(memory));
    CHECK(run.peak(memory).bytes == 0);
  }
}

void check_reduced_once(Rank& rank, const Run& run) {
  const auto judged = suites::judging(rank, "REP-2", suites::Finding::extra_reduction);
  std::map<DType, std::uint64_t> expected;  // elements
  for (const ParameterShape& parameter : parameters(run.scenario().model)) {
    if (parameter.trainable && rank.world().size() > 1)
      expected[run.scenario().plan.engine.get()->dtype_of(parameter.name)] +=
          static_cast<std::uint64_t>(numel(parameter.shape));
  }
  const suites::Kind& kind = suites::kind_of(run.scenario().plan);
  for (const Iteration& iteration : suites::steady_iterations(run)) {
    CAPTURE(iteration.index());
    std::map<DType, std::uint64_t> reduced;
    std::size_t started = 0;
    for (const fact::Collective& call : iteration.collectives()) {
      if (kind.is_agreement(call)) continue;
      CAPTURE(call.tag);
      CHECK(call.tag == bucket_tag(started++));
      CHECK(call.kind == CollectiveKind::all_reduce);
      reduced[call.dtype] += call.in_count;
    }
    CHECK(reduced == expected);
  }
}

namespace {

// How many buckets at the end no limit has closed.
std::ptrdiff_t unclosed_buckets(const ReplicatePlan& plan, const std::vector<oracles::Bucket>& buckets) {
  std::set<DType> begun;
  std::ptrdiff_t unclosed = 0;
  for (const oracles::Bucket& bucket : buckets) {
    const bool is_first = begun.insert(bucket.front().dtype).second;
    unclosed = oracles::bytes_of(bucket) < (is_first ? plan.first_bucket_bytes : plan.bucket_bytes) ? unclosed + 1 : 0;
  }
  return unclosed;
}

// The buckets of the first backward in iteration 0, later those in ready order. Buckets that no limit has closed, one
// for each dtype, come in the order in which the engine has them. With unused parameters, buckets are always those of
// the construction.
std::vector<oracles::Bucket> expected_buckets(const Scenario& scenario, int iteration,
                                              const std::vector<DType>& found) {
  const ReplicatePlan& plan = replicate_plan(scenario.plan);
  if (iteration == 0 || plan.unused_parameters) return oracles::first_buckets(scenario);
  std::vector<oracles::Bucket> buckets = oracles::later_buckets(scenario, oracles::ready_order(scenario.model));
  for (auto bucket = buckets.end() - unclosed_buckets(plan, buckets); bucket != buckets.end(); ++bucket) {
    const std::ptrdiff_t place = bucket - buckets.begin();
    if (place >= std::ssize(found)) break;
    const auto same = std::find_if(bucket, buckets.end(), [&](const oracles::Bucket& other) {
      return other.front().dtype == found[static_cast<std::size_t>(place)];
    });
    if (same != buckets.end()) std::iter_swap(bucket, same);
  }
  return buckets;
}

}  // namespace

void check_bucket_sizes(Rank& rank, const Run& run) {
  const auto in_words = [](std::uint64_t bytes, DType dtype) {
    return fmt::format("{} bytes of {}", bytes, to_string(dtype));
  };
  for (const Iteration& iteration : suites::steady_iterations(run)) {
    CAPTURE(iteration.index());
    std::vector<std::string> reduced, expected;
    std::vector<DType> dtypes;
    for (const fact::Collective& call : bucket_calls(iteration)) {
      reduced.push_back(in_words(call.in_count * size_of(call.dtype), call.dtype));
      dtypes.push_back(call.dtype);
    }
    for (const oracles::Bucket& bucket : expected_buckets(run.scenario(), iteration.index(), dtypes))
      expected.push_back(in_words(static_cast<std::uint64_t>(oracles::bytes_of(bucket)), bucket.front().dtype));
    CHECK(reduced == (rank.world().size() > 1 ? expected : std::vector<std::string>{}));
  }
}

namespace {

// Empty if all values are equal. No engine promises the sign of a zero.
std::string difference_of_values(const Tensor& a, const Tensor& b) {
  const bool equal = a.dtype() == b.dtype() && a.shape() == b.shape() && oracles::largest_difference(a, b) == 0;
  return equal ? std::string() : first_difference(a, b);
}

}  // namespace

void check_bucket_members(Rank& rank, const Run& run) {
  for (const Iteration& iteration : suites::steady_iterations(run)) {
    CAPTURE(iteration.index());
    const std::vector<suites::NamedGradient> own =
        suites::own_gradients(run.scenario(), rank.index(), iteration.index());
    std::vector<Tensor> operands;
    for (const Operand& operand : run.operands()) {
      if (operand.iteration == iteration.index() && operand.tag.starts_with("bucket ")) operands.push_back(operand.in);
    }
    std::vector<DType> dtypes;
    std::ranges::transform(operands, std::back_inserter(dtypes), [](const Tensor& operand) { return operand.dtype(); });
    const std::vector<oracles::Bucket> buckets = expected_buckets(run.scenario(), iteration.index(), dtypes);
    REQUIRE(operands.size() == buckets.size());
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      CAPTURE(b);
      std::vector<float> expected;
      for (const std::string& name : oracles::names_of(buckets[b])) {
        const auto gradient = std::ranges::find(own, name, &suites::NamedGradient::name);
        REQUIRE(gradient != own.end());
        for (const double value : gradient->values)
          expected.push_back(
              static_cast<float>(oracles::rounded_to(buckets[b].front().dtype, value / rank.world().size())));
      }
      const Tensor in_f32 = Tensor::of<float>({std::ssize(expected)}, expected);
      CHECK(difference_of_values(operands[b].flatten(), suites::in_dtype(buckets[b].front().dtype, in_f32)) == "");
    }
  }
}

void take_parameters(const Tensor& flat, std::vector<suites::NamedGradient>& left) {
  const std::vector<double> values = flat.to_doubles();
  for (auto at = values.begin(); at != values.end();) {
    const auto found = std::ranges::find_if(left, [&](const suites::NamedGradient& gradient) {
      return static_cast<std::size_t>(values.end() - at) >= gradient.values.size() &&
             std::equal(gradient.values.begin(), gradient.values.end(), at);
    });
    INFO("at element " << at - values.begin() << ", every gradient of this rank that could begin is in another bucket");
    REQUIRE(found != left.end());
    at += std::ssize(found->values);
    left.erase(found);
  }
}

}  // namespace shardproof::replicate
