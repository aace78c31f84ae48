// The serial model on plans for `replicate`: against what PyTorch's DistributedDataParallel computed, and by hand.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <vector>

#include "fixtures/oracles/difference.hpp"
#include "fixtures/oracles/rounding.hpp"
#include "tests/oracles/replicate_golden.hpp"

using namespace shardproof;
using namespace shardproof::oracles;
using namespace shardproof::scenario;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

using Values = std::vector<double>;

Scenario copied(std::vector<Module> children) {
  Scenario scenario;
  scenario.model.root.children = std::move(children);
  replicate_plan(scenario.plan);
  scenario.script.input = {1, 1};
  scenario.script.segments = script({{forward, backward, capture}});
  return scenario;
}

// One weight, whose gradient is the input: given[iteration][rank].
Scenario copied_with_gradients(const std::vector<Values>& given) {
  Scenario scenario = copied({linear("l", 1, 1, false)});
  for (const Values& of_ranks : given) {
    auto& by_rank = scenario.script.given.emplace_back();
    for (const double value : of_ranks) by_rank.push_back({value});
  }
  return scenario;
}

constexpr double no_gradient = -1000;

// The gradient of one parameter at each capture: one value for all ranks, or one for each rank. Empty: no gradient.
std::vector<Values> gradients(const Scenario& scenario, int world, std::size_t parameter = 0) {
  std::vector<Values> all;
  for (const SerialIteration& iteration : train_serially(scenario, world, Arithmetic::f64)) {
    const NamedValues& gradient = iteration.gradients.at(parameter);
    CHECK((gradient.values.empty() || gradient.local.empty()));
    Values& values = all.emplace_back(gradient.values);
    for (const Values& own : gradient.local) values.push_back(own.empty() ? no_gradient : own.front());
  }
  return all;
}

Action sync_of_all(bool on) { return set(ActionKind::set_requires_gradient_sync, "", on); }

Action for_ranks(Action action, std::vector<int> ranks) {
  action.ranks = std::move(ranks);
  return action;
}

// Which way: `left` or `right`.
Action forward_on(const char* way) { return {.kind = ActionKind::forward, .paths = {{"way", way}}}; }

// A forward uses one weight of two.
Scenario whole_ways(BucketGradients where = BucketGradients::copies) {
  Scenario scenario =
      copied({container(ModuleKind::choice, "way", {linear("left", 1, 1, false), linear("right", 1, 1, false)})});
  replicate_plan(scenario.plan).unused_parameters = true;
  replicate_plan(scenario.plan).gradients = where;
  scenario.script.given = {{{1}, {3}}};
  return scenario;
}

double in_f16(double value) { return rounded_to(DType::f16, value); }

void check_against_golden(Arithmetic arithmetic) {
  const std::vector<std::string> files = replicate_files();
  REQUIRE(files.size() == 12);
  // Where a tolerance is zero, double precision rounds elsewhere.
  const double least = arithmetic == Arithmetic::f64 ? 6e-8 : 0;
  for (const std::string& file : files) {
    const golden::Values run = golden::values(file);
    std::vector<SerialIteration> trained = train_serially(replicate_golden(file, run), run.world, arithmetic);
    if (run.unreduced) {
      for (std::size_t p = 0; p < run.parameters.size(); ++p) {
        INFO(file << ", not reduced, " << run.parameters[p].name);
        CHECK(largest_difference(trained.front().gradients[p].tensor(0), run.unreduced->of_first_rank[p]) <= least);
        CHECK(trained.front().gradients[p].values.empty() == (run.world > 1));
      }
      trained.erase(trained.begin());
    }
    REQUIRE(trained.size() == run.iterations.size());
    for (std::size_t i = 0; i < trained.size(); ++i) {
      const golden::Iteration& expected = run.iterations[i];
      for (std::size_t rank = 0; rank < expected.losses.size(); ++rank)
        CHECK(std::abs(trained[i].losses[rank] - static_cast<double>(expected.losses[rank])) <=
              expected.tolerance.loss);
      for (std::size_t p = 0; p < expected.parameters.size(); ++p) {
        INFO(file << ", iteration " << i << ", " << expected.parameters[p].name);
        CHECK(trained[i].parameters[p].name == expected.parameters[p].name);
        const double tolerance = std::max(expected.tolerance.gradient, compressed_to(file) ? 0 : least);
        CHECK(largest_difference(trained[i].gradients[p].tensor(), expected.parameters[p].gradient) <= tolerance);
        CHECK(largest_difference(trained[i].parameters[p].tensor(), expected.parameters[p].after) <=
              expected.tolerance.parameter);
      }
    }
  }
}

}  // namespace

TEST_CASE(
    "serial training with whole gradients gives PyTorch's numbers, without a difference in the first iteration of one "
    "and two ranks") {
  check_against_golden(Arithmetic::f32);
}

TEST_CASE("serial training with whole gradients in double precision gives PyTorch's numbers") {
  check_against_golden(Arithmetic::f64);
}

// No order of four ranks gives all of PyTorch's bits. Each order is near it: by as many units in the last place as
// there are ranks.
TEST_CASE("gradients of four ranks that a hook compresses are PyTorch's but for the order of sums in low precision") {
  for (const char* file : {"d_ddp_fp16_compress_hook_W4", "d_ddp_bf16_compress_hook_W4"}) {
    const golden::Values run = golden::values(file);
    const DType dtype = compressed_to(file).value();
    Scenario scenario = replicate_golden(file, run);
    const SerialIteration reduced = train_serially(scenario, run.world, Arithmetic::f32).front();
    scenario.script.segments = script({{sync_of_all(false), forward, backward, capture}});
    const SerialIteration local = train_serially(scenario, run.world, Arithmetic::f32).front();
    for (std::size_t p = 0; p < run.parameters.size(); ++p) {
      CAPTURE(file, run.parameters[p].name);
      const std::vector<double> recorded = run.iterations[0].parameters[p].gradient.to_doubles();
      std::size_t equal = 0, far = 0;
      for (std::size_t i = 0; i < recorded.size(); ++i) {
        double largest = 0;
        for (const Values& own : local.gradients[p].local)
          largest = std::max(largest, std::abs(rounded_to(dtype, own[i]) / run.world));
        const double unit = std::ldexp(1.0, std::max(std::ilogb(largest) - (dtype == DType::f16 ? 10 : 7), -24));
        const double difference = std::abs(recorded[i] - reduced.gradients[p].values[i]);
        equal += difference == 0 ? 1 : 0;
        far += difference > run.world * unit ? 1 : 0;
      }
      CHECK(far == 0);
      CHECK(equal > recorded.size() / 3);
    }
  }
}

TEST_CASE("whole gradients are divided before the sum, in the dtype of the reduction") {
  Scenario scenario = copied_with_gradients({{1, 2.0 / 3, 5}});
  CHECK(gradients(scenario, 3) == std::vector<Values>{{(1 / 3.0 + 2.0 / 3 / 3) + 5 / 3.0}});
  const SerialIteration single = train_serially(scenario, 3, Arithmetic::f32).front();
  CHECK(single.gradients[0].values == Values{(1.0F / 3.0F + static_cast<float>(2.0 / 3) / 3.0F) + 5.0F / 3.0F});
  const auto hooked = [&](Hook hook) {
    Scenario with_hook = scenario;
    with_hook.script.segments.front().body.insert(with_hook.script.segments.front().body.begin(),
                                                  {.kind = ActionKind::register_hook, .hook = std::move(hook)});
    return gradients(with_hook, 3).at(0).at(0);
  };
  const double sum = 1 + 2.0 / 3 + 5;
  CHECK(hooked({.kind = HookKind::plain}) == sum / 3);
  CHECK(hooked({.kind = HookKind::doubled}) == sum / 3 * 2);
  CHECK(hooked({.kind = HookKind::sum}) == sum);
  CHECK(hooked({.kind = HookKind::sum, .refused = true}) == gradients(scenario, 3).at(0).at(0));
  CHECK(hooked({.kind = HookKind::fp16_compress}) ==
        in_f16(in_f16(in_f16(1 / 3.0) + in_f16(in_f16(2.0 / 3) / 3)) + in_f16(5 / 3.0)));
  CHECK(hooked({.kind = HookKind::bf16_compress}) ==
        bf16(bf16(bf16(1 / 3.0) + bf16(bf16(2.0 / 3) / 3)) + bf16(5 / 3.0)));
}

TEST_CASE("each rank has its own gradient until a backward reduces, and that one reduces all that is there") {
  Scenario scenario = copied_with_gradients({{1, 3}, {10, 50}, {100, 700}});
  scenario.script.segments = script({{sync_of_all(false), forward, backward, capture},
                                     {forward, backward, capture},
                                     {sync_of_all(true), forward, backward, capture}});
  CHECK(gradients(scenario, 2) == std::vector<Values>{{1, 3}, {11, 53}, {432}});
  // A gradient that was reduced before counts as each rank's own.
  scenario.script.segments = script(
      {{forward, backward, capture}, {forward, backward, capture}, {sync_of_all(false), forward, backward, capture}});
  CHECK(gradients(scenario, 2) == std::vector<Values>{{2}, {32}, {132, 732}});
  // A gradient of zeros is one.
  const Action to_zero{.kind = ActionKind::zero_grad, .to_zero = true};
  scenario.script.segments =
      script({{sync_of_all(false), forward, backward, to_zero, capture}, {forward, backward, zero_grad, capture}});
  CHECK(gradients(scenario, 2) == std::vector<Values>{{0}, {}});
}

TEST_CASE("each rank steps by the gradient that it has") {
  Scenario scenario = copied_with_gradients({{1, 3}, {10, 50}});
  scenario.plan.optimizer.rate = 1;
  scenario.script.segments =
      script({{sync_of_all(false), forward, backward, step, zero_grad, capture},
              {sync_of_all(true), forward, backward, for_ranks(step, {1}), for_ranks(zero_grad, {0}), capture}});
  const auto trained = train_serially(scenario, 2, Arithmetic::f64);
  const double initial = formula::small_integer(1, 0) / 8.0;
  CHECK(trained[0].parameters[0].local == std::vector<Values>{{initial - 1}, {initial - 3}});
  CHECK(trained[1].parameters[0].local == std::vector<Values>{{initial - 1}, {initial - 33}});
  CHECK(gradients(scenario, 2) == std::vector<Values>{{}, {no_gradient, 30}});
}

TEST_CASE("the switch counts when a forward begins, and a backward reduces if one of its forwards does") {
  Scenario scenario = copied_with_gradients({{1, 3}});
  const auto captured = [&](std::vector<Action> body) {
    body.push_back(capture);
    scenario.script.segments = script({std::move(body)});
    return gradients(scenario, 2).front();
  };
  CHECK(captured({sync_of_all(false), forward, sync_of_all(true), backward}) == Values{1, 3});
  CHECK(captured({forward, sync_of_all(false), backward}) == Values{2});
  CHECK(captured({forward, sync_of_all(false), forward, backward}) == Values{4});
  CHECK(captured({sync_of_all(false), forward, sync_of_all(true), forward, backward}) == Values{4});
  CHECK(captured({sync_of_all(false), forward, sync_of_all(true), evaluate, backward}) == Values{1, 3});
  const Action fails{.kind = ActionKind::forward, .fails_in = "l"};
  CHECK(captured({sync_of_all(false), forward, sync_of_all(true), fails, backward}) == Values{1, 3});
  CHECK(captured({forward, backward, zero_grad, sync_of_all(false), forward, backward}) == Values{1, 3});
}

TEST_CASE("a parameter that some rank has used counts as zeros on the others") {
  Scenario scenario = whole_ways();
  const Action left = for_ranks(forward_on("left"), {0}), right = for_ranks(forward_on("right"), {1});
  scenario.script.segments = script({{left, right, backward, capture}});
  CHECK(gradients(scenario, 2, 0) == std::vector<Values>{{0.5}});
  CHECK(gradients(scenario, 2, 1) == std::vector<Values>{{1.5}});
  // So does its earlier gradient.
  scenario.script.segments = script({{sync_of_all(false), left, for_ranks(forward_on("left"), {1}), backward,
                                      sync_of_all(true), left, right, backward, capture}});
  CHECK(gradients(scenario, 2, 0) == std::vector<Values>{{2.5}});
  CHECK(gradients(scenario, 2, 1) == std::vector<Values>{{1.5}});
  // It was used before the reduction, even if its gradient was dropped then.
  scenario.script.segments = script({{sync_of_all(false), forward_on("left"), backward, zero_grad, sync_of_all(true),
                                      forward_on("right"), backward, capture}});
  CHECK(gradients(scenario, 2, 0) == std::vector<Values>{{0}});
}

TEST_CASE("a parameter that no rank has used since the last reduction keeps its gradient, or its part of a bucket") {
  for (const BucketGradients where : {BucketGradients::copies, BucketGradients::views}) {
    Scenario scenario = whole_ways(where);
    scenario.script.segments =
        script({{forward_on("left"), backward, capture, forward_on("right"), backward, capture}});
    CHECK(gradients(scenario, 2, 0) == std::vector<Values>{{2}, {2}});
    CHECK(gradients(scenario, 2, 1) == std::vector<Values>{{}, {2}});
    // A sum over ranks shows that what is in a bucket is reduced again.
    scenario.script.segments.front().body.insert(
        scenario.script.segments.front().body.begin(),
        {.kind = ActionKind::register_hook, .hook = Hook{.kind = HookKind::sum}});
    CHECK(gradients(scenario, 2, 0) == std::vector<Values>{{4}, {where == BucketGradients::views ? 8.0 : 4.0}});
  }
}

TEST_CASE(
    "a backward that leaves a trainable parameter without a gradient is not modelled, unless the plan allows for it") {
  Scenario scenario = whole_ways();
  scenario.script.segments = script({{forward_on("left"), backward, capture}});
  replicate_plan(scenario.plan).unused_parameters = false;
  CHECK_THROWS_MATCHES(train_serially(scenario, 2, Arithmetic::f64), std::invalid_argument,
                       MessageMatches(ContainsSubstring("\"way.right.weight\" no gradient")));
  // An unsynced backward may. A frozen parameter has none anyway.
  scenario.script.segments = script({{sync_of_all(false), forward_on("left"), backward, capture}});
  CHECK(gradients(scenario, 2, 1) == std::vector<Values>{{}});
  scenario.script.segments = script({{forward_on("left"), backward, capture}});
  scenario.model.root.children[0].children[1].frozen = true;
  CHECK(gradients(scenario, 2, 0) == std::vector<Values>{{2}});
}

TEST_CASE("a backward that reduces on some ranks only is not modelled") {
  Scenario scenario = copied_with_gradients({{1, 3}});
  for (const std::vector<Action>& body : {std::vector{for_ranks(sync_of_all(false), {1}), forward, backward},
                                          std::vector{for_ranks(forward, {0}), for_ranks(backward, {0})}}) {
    scenario.script.segments = script({body});
    CHECK_THROWS_MATCHES(train_serially(scenario, 2, Arithmetic::f64), std::invalid_argument,
                         MessageMatches(ContainsSubstring("only some ranks reduce")));
  }
}

TEST_CASE("copies of a divided model train as the model does on one rank for each copy") {
  for (const auto& [copies, parts] : {std::pair{2, 2}, {3, 2}, {2, 3}, {1, 2}, {2, 1}}) {
    CAPTURE(copies, parts);
    Scenario divided = copied({linear("up", 1, 6), linear("down", 6, 2)});
    divided.script.segments = script({{forward, backward, capture, step, capture, forward, backward, capture}});
    auto& inputs = divided.script.given.emplace_back();
    for (int copy = 0; copy < copies; ++copy) inputs.push_back({copy + 1.0});
    const Scenario whole = divided;
    divided.plan.mesh = {.shape = {copies, parts}, .names = {"dp", "tp"}};
    replicate_plan(divided.plan).tensor_parallel = {{"up", TensorParallel::column}, {"down", TensorParallel::row}};
    const auto found = train_serially(divided, copies * parts, Arithmetic::f32),
               expected = train_serially(whole, copies, Arithmetic::f32);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (std::size_t rank = 0; rank < found[i].losses.size(); ++rank)
        CHECK(found[i].losses[rank] == expected[i].losses[rank / static_cast<std::size_t>(parts)]);
      for (std::size_t p = 0; p < found[i].parameters.size(); ++p) {
        CHECK(found[i].parameters[p].tensor() == expected[i].parameters[p].tensor());
        CHECK(found[i].gradients[p].tensor() == expected[i].gradients[p].tensor());
      }
    }
  }
}

TEST_CASE("a low-precision module computes, accumulates, reduces and steps in it, next to f32 modules") {
  Scenario scenario = copied({linear("low", 1, 1, false), linear("wide", 1, 1, false)});
  replicate_plan(scenario.plan).parameter_dtypes = {{"low", DType::bf16}};
  scenario.plan.optimizer = {.rate = 1.0 / 512, .momentum = 0.5};
  scenario.model.init_divisor = 1;
  scenario.script.given = {{{257}, {261}}};
  scenario.script.segments = script({{sync_of_all(false), forward, backward, capture, sync_of_all(true), forward,
                                      backward, capture, step, capture, forward, backward, step, capture}});
  const auto in_bf16 = [](double value) { return rounded_to(DType::bf16, value); };
  const std::vector<SerialIteration> found = train_serially(scenario, 2, Arithmetic::f32);
  const double low = formula::tensor(1, {1}, 1).to_doubles().front(),
               wide = formula::tensor(2, {1}, 1).to_doubles().front();
  // 257 and 261 have nine bits, and bf16 has eight.
  const Values input{256, 260}, once{in_bf16(input[0] * wide), in_bf16(input[1] * wide)};
  CHECK(found[0].gradients[0].local == std::vector<Values>{{once[0]}, {once[1]}});
  CHECK(found[0].losses == Values{in_bf16(input[0] * low) * wide, in_bf16(input[1] * low) * wide});
  const double mean = in_bf16(in_bf16(in_bf16(2 * once[0]) / 2) + in_bf16(in_bf16(2 * once[1]) / 2));
  CHECK(found[1].gradients[0].values == Values{mean});
  const double stepped = in_bf16(low - mean / 512);
  CHECK(found[2].parameters[0].values == Values{stepped});
  // Without zero_grad each rank adds to the mean. The weight of the other module has stepped, too.
  const double next = found[2].parameters[1].values.front();
  const auto added = [&](double x) { return in_bf16(in_bf16(mean + in_bf16(x * in_bf16(next))) / 2); };
  const double second = in_bf16(added(input[0]) + added(input[1]));
  const double momentum = in_bf16(in_bf16(mean / 2) + second);
  CHECK(found[3].parameters[0].values == Values{in_bf16(stepped - momentum / 512)});
}

TEST_CASE("hooks of the script, which average over all ranks, are not modelled for a divided model") {
  Scenario divided = copied({linear("up", 1, 2), linear("down", 2, 1)});
  divided.plan.mesh = {.shape = {1, 2}, .names = {"dp", "tp"}};
  replicate_plan(divided.plan).tensor_parallel = {{"up", TensorParallel::column}, {"down", TensorParallel::row}};
  divided.script.given = {{{1}, {1}}};
  divided.script.segments = script({{{.kind = ActionKind::register_hook, .hook = Hook{}}, forward, backward, capture}});
  CHECK_THROWS_MATCHES(train_serially(divided, 2, Arithmetic::f32), std::invalid_argument,
                       MessageMatches(ContainsSubstring("hook at the point reduction is not modelled")));
}

TEST_CASE("quotients that are rounded before they are added show how a library divides and adds") {
  const auto shows = [](const std::vector<double>& given) {
    const Scenario scenario = copied_with_gradients({given});
    return train_serially(scenario, static_cast<int>(given.size()), Arithmetic::f32).front().order_shows;
  };
  CHECK(shows({1, 3}).empty());
  CHECK(shows({1, 3, 5, 7}).empty());
  CHECK(shows({0, 0, 0}).empty());
  CHECK_THAT(shows({1, 3, 5}), ContainsSubstring("\"l.weight\": each rank's gradient is divided"));
}
