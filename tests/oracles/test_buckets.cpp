// The rule of buckets against what PyTorch's DistributedDataParallel did, and by hand; and the times of backwards with
// buckets.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/oracles/bucket_times.hpp"
#include "fixtures/oracles/buckets.hpp"
#include "harness/scenario/plan/replicate.hpp"
#include "tests/golden_tables/golden_tables.hpp"
#include "tests/oracles/compiled_golden.hpp"
#include "tests/oracles/scenarios.hpp"

using namespace shardproof;
using namespace shardproof::oracles;
using namespace shardproof::scenario;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

using Names = std::vector<std::vector<std::string>>;

Names names_of_all(const std::vector<Bucket>& buckets) {
  Names names;
  for (const Bucket& bucket : buckets) names.push_back(names_of(bucket));
  return names;
}

Scenario replicated(std::vector<Module> children, std::int64_t first_bytes, std::int64_t bytes) {
  Scenario scenario;
  scenario.model.root.children = std::move(children);
  replicate_plan(scenario.plan).first_bucket_bytes = first_bytes;
  replicate_plan(scenario.plan).bucket_bytes = bytes;
  scenario.script.input = {1, 1};
  return scenario;
}

Scenario four_layers(std::int64_t width) {
  Scenario scenario = replicated({}, ReplicatePlan().first_bucket_bytes, ReplicatePlan().bucket_bytes);
  for (const char* name : {"fc1", "fc2", "fc3", "fc4"})
    scenario.model.root.children.push_back(linear(name, width, width));
  return scenario;
}

void check_buckets(const std::vector<Bucket>& buckets, const std::vector<golden::Buckets::Bucket>& recorded) {
  REQUIRE(buckets.size() == recorded.size());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    CHECK(names_of(buckets[i]) == recorded[i].parameters);
    CHECK(bytes_of(buckets[i]) == recorded[i].elements * 4);
  }
}

// The calls that reduce these buckets in a compiled backward.
std::vector<golden::CompiledBackward::Call> compiled_calls(const Model& model, const std::vector<Bucket>& buckets,
                                                           bool concatenates) {
  std::map<std::string, Shape> shapes;
  for (const ParameterShape& parameter : parameters(model)) shapes[parameter.name] = parameter.shape;
  std::vector<golden::CompiledBackward::Call> calls, waits;
  for (const Bucket& bucket : buckets) {
    std::vector<Shape> operands;
    for (const std::string& name : names_of(bucket)) operands.push_back(shapes.at(name));
    if (concatenates && bucket.size() > 1) operands.assign(1, Shape{bytes_of(bucket) / 4});
    for (const Shape& operand : operands) waits.push_back({wait_for_one, {operand}});
    calls.push_back({operands.size() > 1 ? several_operands : one_operand, std::move(operands)});
  }
  calls.insert(calls.end(), waits.begin(), waits.end());
  return calls;
}

// In bytes, all of f32: which are in each bucket.
std::vector<std::vector<std::int64_t>> filled(const std::vector<std::int64_t>& sizes, std::int64_t first,
                                              std::int64_t others) {
  std::vector<BucketedGradient> gradients;
  for (const std::int64_t bytes : sizes) gradients.push_back({.parameter = {}, .bytes = bytes});
  std::vector<std::vector<std::int64_t>> all;
  for (const Bucket& bucket : filled_buckets(gradients, first, others)) {
    all.emplace_back();
    for (const BucketedGradient& gradient : bucket) all.back().push_back(gradient.bytes);
  }
  return all;
}

}  // namespace

TEST_CASE("buckets are those of PyTorch, at each width and cap that was recorded") {
  for (const golden::Buckets& recorded : golden::buckets()) {
    CAPTURE(recorded.width, recorded.has_default_cap, recorded.cap_bytes);
    Scenario scenario = four_layers(recorded.width);
    ReplicatePlan& section = replicate_plan(scenario.plan);
    section.bucket_bytes = recorded.cap_bytes;
    if (!recorded.has_default_cap) section.first_bucket_bytes = recorded.cap_bytes;
    check_buckets(first_buckets(scenario), recorded.first);
    check_buckets(later_buckets(scenario, ready_order(scenario.model)), recorded.later);
  }
}

TEST_CASE("buckets of a compiled backward are those of PyTorch, at the width that was recorded") {
  constexpr std::int64_t mebibyte = 1 << 20;
  for (const golden::CompiledBackward& recorded : golden::compiled_backwards()) {
    CAPTURE(recorded.fusion);
    const Scenario scenario = four_layers(recorded.width);
    const std::vector<BucketedGradient> registered = trainable_gradients(scenario);
    std::vector<BucketedGradient> ready;
    for (const std::string& name : ready_order(scenario.model, ModuleOrder::registered))
      ready.push_back(*std::ranges::find(registered, name, &BucketedGradient::parameter));
    const std::vector<Bucket> buckets = filled_buckets(ready, mebibyte, 25 * mebibyte);
    CHECK(std::ssize(buckets) == recorded.buckets);
    CHECK(calls_in_words(compiled_calls(scenario.model, buckets, recorded.fusion == "concat")) ==
          calls_in_words(recorded.calls));
  }
}

TEST_CASE("a bucket closes with the gradient that brings it to its limit") {
  using Sizes = std::vector<std::vector<std::int64_t>>;
  CHECK(filled({}, 8, 8).empty());
  CHECK(filled({4, 4, 4, 4}, 8, 8) == Sizes{{4, 4}, {4, 4}});
  CHECK(filled({4, 4, 4, 4}, 7, 9) == Sizes{{4, 4}, {4, 4}});
  CHECK(filled({4, 4, 4, 4}, 9, 8) == Sizes{{4, 4, 4}, {4}});
  CHECK(filled({4, 4, 4, 4}, 4, 8) == Sizes{{4}, {4, 4}, {4}});
  CHECK(filled({100, 4, 100, 4}, 8, 8) == Sizes{{100}, {4, 100}, {4}});
  CHECK(filled({4, 4, 4}, 1, 1) == Sizes{{4}, {4}, {4}});
  CHECK(filled({4, 4, 4}, 1, 100) == Sizes{{4}, {4, 4}});
  CHECK(filled({4, 4, 4}, 100, 1) == Sizes{{4, 4, 4}});
}

TEST_CASE("each dtype has its own buckets, with a first one, and buckets that no limit closed come last") {
  const auto gradient = [](const char* name, std::int64_t bytes, DType dtype) {
    return BucketedGradient{name, bytes, dtype};
  };
  const std::vector<BucketedGradient> mixed{gradient("a", 4, DType::bf16), gradient("b", 4, DType::f32),
                                            gradient("c", 4, DType::f32),  gradient("d", 4, DType::bf16),
                                            gradient("e", 4, DType::f32),  gradient("f", 4, DType::bf16)};
  CHECK(names_of_all(filled_buckets(mixed, 8, 8)) == Names{{"b", "c"}, {"a", "d"}, {"f"}, {"e"}});
  CHECK(names_of_all(filled_buckets(mixed, 4, 100)) == Names{{"a"}, {"b"}, {"d", "f"}, {"c", "e"}});
}

TEST_CASE("in the first backward all gradients are in one bucket, unless parameters may be unused") {
  Scenario scenario =
      replicated({linear("a", 1, 1), linear("b", 1, 1, false), frozen(linear("c", 1, 1)), linear("d", 1, 1)}, 4, 8);
  CHECK(names_of_all(first_buckets(scenario)) == Names{{"a.weight", "a.bias", "b.weight", "d.weight", "d.bias"}});
  const std::vector<std::string> ready = ready_order(scenario.model);
  CHECK(ready == std::vector<std::string>{"d.bias", "d.weight", "b.weight", "a.bias", "a.weight"});
  CHECK(names_of_all(later_buckets(scenario, ready)) ==
        Names{{"d.bias"}, {"d.weight", "b.weight"}, {"a.bias", "a.weight"}});

  replicate_plan(scenario.plan).unused_parameters = true;
  const Names limited{{"d.bias"}, {"b.weight", "d.weight"}, {"a.bias"}, {"a.weight"}};
  CHECK(names_of_all(first_buckets(scenario)) == Names{{"d.weight", "d.bias"}, {"a.bias", "b.weight"}, {"a.weight"}});
  CHECK(later_buckets(scenario, ready) == first_buckets(scenario));

  replicate_plan(scenario.plan).parameter_dtypes = {{"b", DType::bf16}, {"d", DType::bf16}};
  CHECK(names_of_all(first_buckets(scenario)) == Names{{"d.bias"}, {"b.weight", "d.weight"}, {"a.bias"}, {"a.weight"}});
  replicate_plan(scenario.plan).unused_parameters = false;
  CHECK(names_of_all(first_buckets(scenario)) == Names{{"b.weight", "d.weight", "d.bias"}, {"a.weight", "a.bias"}});
  CHECK(bytes_of(trainable_gradients(scenario)) == 4 + 4 + 2 + 2 + 2);

  scenario.model.root.children = {frozen(linear("c", 1, 1))};
  CHECK(first_buckets(scenario).empty());
  CHECK_THROWS_MATCHES(later_buckets(four_layers(2), {"fc9.bias"}), std::invalid_argument,
                       MessageMatches(ContainsSubstring("fc9.bias")));
}

TEST_CASE("gradients become ready from the last module to the first, biases first or in order of registration") {
  const Model model = four_layers(2).model;
  const std::vector<std::string> compiled = ready_order(model, ModuleOrder::registered);
  CHECK(compiled.front() == "fc4.weight");
  CHECK(compiled.back() == "fc1.bias");
  // PyTorch's compiled step makes 3 buckets of this order, at width 2000. An eager backward makes buckets of other
  // members.
  CHECK(names_of_all(later_buckets(four_layers(2000), ready_order(four_layers(2000).model, ModuleOrder::registered))) ==
        Names{{"fc4.weight"},
              {"fc4.bias", "fc3.weight", "fc3.bias", "fc2.weight"},
              {"fc2.bias", "fc1.weight", "fc1.bias"}});

  Model nested;
  nested.root.children = {container(ModuleKind::sequential, "in", {linear("a", 1, 1), relu("relu"), scale("s")}),
                          linear("out", 1, 1)};
  CHECK(ready_order(nested) ==
        std::vector<std::string>{"out.bias", "out.weight", "in.s.factor", "in.a.bias", "in.a.weight"});
}

TEST_CASE("a gradient is ready after all modules that use its parameter, of all forwards") {
  using Order = std::vector<std::string>;
  Model model;
  Module tied = linear("t", 1, 1);
  tied.tied_to = "a";
  model.root.children = {linear("a", 1, 1), linear("b", 1, 1, false), use("again", "b"), tied};
  CHECK(ready_order(model) == Order{"t.bias", "b.weight", "a.bias", "a.weight"});

  model.root.children = {
      container(ModuleKind::choice, "way", {linear("left", 1, 1, false), frozen(linear("right", 1, 1))}),
      container(ModuleKind::discard, "aside", {linear("x", 1, 1)}),
      container(ModuleKind::list, "unused", {linear("x", 1, 1)}), residual("r", {layer_norm("n", 1)}), scale("s")};
  const Action right{.kind = ActionKind::forward, .paths = {{"way", "right"}}};
  CHECK(ready_order(model) == Order{"s.factor", "r.n.bias", "r.n.weight", "way.left.weight"});
  CHECK(ready_order(model, {right}) == Order{"s.factor", "r.n.bias", "r.n.weight"});
  // The second forward's modules come first.
  CHECK(ready_order(model, {right, forward}) == Order{"way.left.weight", "s.factor", "r.n.bias", "r.n.weight"});
  CHECK(ready_order(model, {{.kind = ActionKind::forward, .module = "r"}}) == Order{"r.n.bias", "r.n.weight"});
  CHECK(ready_order(model, {{.kind = ActionKind::forward, .fails_in = "s"}}).empty());
  model.root.children.push_back(attention("mix", 1));
  CHECK_THROWS_MATCHES(ready_order(model), std::invalid_argument, MessageMatches(ContainsSubstring("\"mix\"")));
}

TEST_CASE("a bucket starts when its gradients are ready and the resource has finished the buckets before it") {
  using Reductions = std::vector<BucketTimes::Reduction>;
  BucketTimes times = bucket_times({50, 50, 50}, {{1, 10}, {2, 10}, {3, 10}});
  CHECK(times.reductions == Reductions{{50, 60}, {100, 110}, {150, 160}});
  CHECK((times.compute == 150 && times.backward == 160 && times.serial == 180));
  times = bucket_times({5, 5, 5}, {{1, 10}, {3, 20}});
  CHECK(times.reductions == Reductions{{5, 15}, {15, 35}});
  CHECK((times.compute == 15 && times.backward == 35 && times.serial == 45));
  // A bucket that is ready early waits for the one before it, even if that one takes no time.
  CHECK(bucket_times({5, 5}, {{2, 0}, {1, 3}}).reductions == Reductions{{10, 10}, {10, 13}});
  CHECK(bucket_times({5, 5}, {}).backward == 10);
}

TEST_CASE("times of a scenario come from sleeps of modules and from all-reduces") {
  Scenario scenario = replicated({linear("a", 1, 1), linear("b", 1, 1, false), linear("c", 1, 1)}, 4, 8);
  Nanoseconds sleep = 1;
  for (Module& module : scenario.model.root.children) module.backward_sleep = (sleep *= 10);  // 10, 100, 1000
  scenario.costs.collectives[CollectiveKind::all_reduce] = {.fixed = 7, .per_kib = 1};
  scenario.costs.tagged_collectives[{CollectiveKind::all_reduce, bucket_tag(1)}] = 500;
  const std::vector<Bucket> buckets = later_buckets(scenario, ready_order(scenario.model));
  REQUIRE(names_of_all(buckets) == Names{{"c.bias"}, {"c.weight", "b.weight"}, {"a.bias", "a.weight"}});
  const BucketTimes times = bucket_times(scenario, buckets, 2);
  CHECK(times.reductions == std::vector<BucketTimes::Reduction>{{1000, 1008}, {1100, 1600}, {1600, 1608}});
  CHECK((times.compute == 1110 && times.backward == 1608));
  CHECK(bucket_times(scenario, first_buckets(scenario), 2).reductions ==
        std::vector<BucketTimes::Reduction>{{1110, 1118}});
  CHECK(bucket_times(scenario, buckets, 1).backward == 1110);
  scenario.model.root.children.push_back(use("again", "a"));
  CHECK_THROWS_MATCHES(bucket_times(scenario, buckets, 2), std::invalid_argument,
                       MessageMatches(ContainsSubstring("\"again\"")));
  scenario.model.root.children.pop_back();
  scenario.costs.host_call = 1;
  CHECK_THROWS_AS(bucket_times(scenario, buckets, 2), std::invalid_argument);
}
