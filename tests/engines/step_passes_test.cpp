// The passes of the compiler, on graphs by hand: each graph that a pass gives is compared whole.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "fixtures/engines/replicate/compile/bucket_by_coalescing.hpp"
#include "fixtures/engines/replicate/compile/bucket_by_concatenation.hpp"
#include "fixtures/engines/replicate/compile/compiled_pass.hpp"
#include "fixtures/engines/replicate/compile/schedule_waits.hpp"
#include "tests/engines/step_graphs.hpp"

namespace shardproof::engines {
namespace {

using shardproof::testing::BackwardByHand;
using shardproof::testing::in_words;
using Words = std::vector<std::string>;

// Limits in bytes: a fills the first bucket, b and c the second.
constexpr BucketLimits limits{.first = 16, .others = 20};

StepGraph three(bool existed = false) {
  return BackwardByHand({{.name = "a", .elements = 4, .existed = existed},
                         {.name = "b", .elements = 3, .existed = existed},
                         {.name = "c", .elements = 2, .existed = existed}})
      .graph();
}

// The labels of all-reduces with the names of their operands.
Words all_reduces(const StepGraph& graph) {
  Words words;
  for (const StepNode& node : graph.nodes) {
    if (node.kind == StepNodeKind::all_reduce) words.push_back(in_words(graph, node));
  }
  return words;
}

TEST_CASE("concatenation makes one all-reduce of a bucket, and leaves a single gradient as it is") {
  const StepGraph graph = bucket_by_concatenation(three(), limits);
  CHECK(in_words(graph) ==
        Words{"backward a:  -> own a", "divide a: own a -> divided a", "all_reduce bucket 0: divided a -> reduced a",
              "wait bucket 0: reduced a -> mean a", "backward b:  -> own b", "backward c:  -> own c",
              "concat bucket 1: own b, own c -> concat bucket 1", "divide bucket 1: concat bucket 1 -> divide bucket 1",
              "all_reduce bucket 1: divide bucket 1 -> all_reduce bucket 1",
              "wait bucket 1: all_reduce bucket 1 -> wait bucket 1",
              "split bucket 1: wait bucket 1 -> mean b, mean c"});
  const StepNode& divide = graph.nodes[7];
  const StepNode& all_reduce = graph.nodes[8];
  CHECK(divide.divisor == 2);
  CHECK(all_reduce.op == ReduceOp::sum);
  CHECK(all_reduce.group == std::vector{0, 1});
  CHECK(graph.values[all_reduce.inputs.front()].shape == std::vector<std::int64_t>{5});
  // The values that only the replaced nodes had are gone: 4 of a, 2 each of b and c, and 4 flat ones.
  CHECK(graph.values.size() == 12);
}

TEST_CASE("coalescing makes one all-reduce of several operands, with a wait for each") {
  const StepGraph graph = bucket_by_coalescing(three(), limits);
  CHECK(in_words(graph) == Words{"backward a:  -> own a", "divide a: own a -> divided a",
                                 "all_reduce bucket 0: divided a -> reduced a", "wait bucket 0: reduced a -> mean a",
                                 "backward b:  -> own b", "backward c:  -> own c",
                                 "divide bucket 1: own b, own c -> divided b, divided c",
                                 "all_reduce bucket 1: divided b, divided c -> reduced b, reduced c",
                                 "wait bucket 1: reduced b -> mean b", "wait bucket 1: reduced c -> mean c"});
  CHECK(graph.values == three().values);
  CHECK(graph.nodes[6].divisor == 2);
  CHECK(graph.nodes[7].op == ReduceOp::sum);
  CHECK(graph.nodes[7].group == std::vector{0, 1});
}

TEST_CASE("the output of a bucket is split before its first use") {
  CHECK(in_words(bucket_by_concatenation(three(true), limits)) ==
        Words{"backward a:  -> own a", "divide a: own a -> divided a", "all_reduce bucket 0: divided a -> reduced a",
              "wait bucket 0: reduced a -> mean a", "backward b:  -> own b", "backward c:  -> own c",
              "concat bucket 1: own b, own c -> concat bucket 1", "divide bucket 1: concat bucket 1 -> divide bucket 1",
              "all_reduce bucket 1: divide bucket 1 -> all_reduce bucket 1",
              "wait bucket 1: all_reduce bucket 1 -> wait bucket 1", "copy a: mean a -> own a",
              "split bucket 1: wait bucket 1 -> mean b, mean c", "copy b: mean b -> own b", "copy c: mean c -> own c"});
}

TEST_CASE("a bucket closes with the gradient that brings it to its limit") {
  const auto first = [](std::int64_t limit) {
    return all_reduces(bucket_by_coalescing(three(), {.first = limit, .others = 1})).front();
  };
  CHECK(first(16) == "all_reduce bucket 0: divided a -> reduced a");
  CHECK(first(17) == "all_reduce bucket 0: divided a, divided b -> reduced a, reduced b");
  CHECK(first(28) == "all_reduce bucket 0: divided a, divided b -> reduced a, reduced b");
  CHECK(first(29) == "all_reduce bucket 0: divided a, divided b, divided c -> reduced a, reduced b, reduced c");
}

TEST_CASE("a bucket mixes neither dtypes nor divisors, and buckets are numbered as they start") {
  const StepGraph dtypes =
      BackwardByHand(
          {{.name = "a"}, {.name = "b", .dtype = DType::bf16}, {.name = "c"}, {.name = "d", .dtype = DType::bf16}})
          .graph();
  const StepGraph divisors =
      BackwardByHand({{.name = "a"}, {.name = "b", .divisor = 4}, {.name = "c"}, {.name = "d", .divisor = 4}}).graph();
  for (const StepGraph& graph : {dtypes, divisors}) {
    CHECK(all_reduces(bucket_by_coalescing(graph, {.first = 100, .others = 100})) ==
          Words{"all_reduce bucket 0: divided a, divided c -> reduced a, reduced c",
                "all_reduce bucket 1: divided b, divided d -> reduced b, reduced d"});
  }
  // The size of a gradient is that of what is reduced: 2 bytes each.
  CHECK(all_reduces(bucket_by_coalescing(dtypes, {.first = 4, .others = 4})) ==
        Words{"all_reduce bucket 0: divided a -> reduced a", "all_reduce bucket 1: divided c -> reduced c",
              "all_reduce bucket 2: divided b, divided d -> reduced b, reduced d"});
}

TEST_CASE("a bucket that ends earlier starts earlier") {
  const StepGraph graph = BackwardByHand({{.name = "a"}, {.name = "b", .dtype = DType::bf16}, {.name = "c"}}).graph();
  CHECK(all_reduces(bucket_by_coalescing(graph, {.first = 100, .others = 100})) ==
        Words{"all_reduce bucket 0: divided b -> reduced b",
              "all_reduce bucket 1: divided a, divided c -> reduced a, reduced c"});
}

TEST_CASE("a wait moves to the first use of its result, or to the end") {
  CHECK(in_words(schedule_waits(three())) ==
        Words{"backward a:  -> own a", "divide a: own a -> divided a", "all_reduce bucket 0: divided a -> reduced a",
              "backward b:  -> own b", "divide b: own b -> divided b", "all_reduce bucket 1: divided b -> reduced b",
              "backward c:  -> own c", "divide c: own c -> divided c", "all_reduce bucket 2: divided c -> reduced c",
              "wait bucket 0: reduced a -> mean a", "wait bucket 1: reduced b -> mean b",
              "wait bucket 2: reduced c -> mean c"});
  const Words copied = in_words(schedule_waits(bucket_by_concatenation(three(true), limits)));
  CHECK(Words(copied.end() - 6, copied.end()) == Words{"wait bucket 0: reduced a -> mean a", "copy a: mean a -> own a",
                                                       "wait bucket 1: all_reduce bucket 1 -> wait bucket 1",
                                                       "split bucket 1: wait bucket 1 -> mean b, mean c",
                                                       "copy b: mean b -> own b", "copy c: mean c -> own c"});
}

TEST_CASE("waits keep their order where a later result is used first") {
  const StepGraph graph = BackwardByHand({{.name = "a"}, {.name = "b", .existed = true}}).graph();
  const Words words = in_words(schedule_waits(graph));
  CHECK(Words(words.end() - 3, words.end()) ==
        Words{"wait bucket 0: reduced a -> mean a", "wait bucket 1: reduced b -> mean b", "copy b: mean b -> own b"});
}

TEST_CASE("a graph without reductions stays as it is") {
  const StepGraph graph{
      .pass = StepPass::forward,
      .values = {{.name = "x", .kind = StepValueKind::input, .shape = {2}}, {.name = "y", .shape = {2}}},
      .nodes = {{.operation = "forward", .label = "a", .inputs = {0}, .outputs = {1}}}};
  for (const BucketFusion fusion : {BucketFusion::concat, BucketFusion::coalesce})
    CHECK(compiled_pass(graph, {.fusion = fusion}, limits).graph == graph);
}

TEST_CASE("a division may overwrite what the pass made and reads no more, and not a gradient that exists") {
  const auto is_free = [](const StepGraph& graph) {
    const CompiledPass pass = compiled_pass(graph, {.fusion = BucketFusion::none}, limits);
    return pass.is_free_after(1, pass.graph.nodes[1].inputs.front());
  };
  CHECK(is_free(three()));
  CHECK(!is_free(three(true)));
  StepGraph read_later = three();
  read_later.nodes.push_back({.operation = "backward", .label = "reader", .inputs = {0}});
  CHECK(!is_free(read_later));
}

TEST_CASE("memory becomes a gradient's where no copy comes between") {
  const auto labels = [](const CompiledPass& pass) {
    Words names;
    for (std::size_t i = 0; i < pass.graph.values.size(); ++i) {
      if (pass.becomes_gradient[i]) names.push_back(pass.graph.values[i].name);
    }
    return names;
  };
  CHECK(labels(compiled_pass(three(), {}, limits)) == Words{"own a", "divided a", "reduced a", "mean a", "mean b",
                                                            "mean c", "concat bucket 1", "divide bucket 1",
                                                            "all_reduce bucket 1", "wait bucket 1"});
  CHECK(labels(compiled_pass(three(true), {}, limits)) == Words{"own a", "own b", "own c"});
}

TEST_CASE("a graph is compiled once, and any difference compiles anew") {
  CompiledPasses passes({}, limits);
  const CompiledPass& first = passes.of(three());
  CHECK(&passes.of(three()) == &first);
  CHECK(passes.compilations() == 1);
  CHECK(&passes.of(three(true)) != &first);
  CHECK(passes.compilations() == 2);
  StepGraph longer = three();
  longer.values.front().shape = {5};
  passes.of(longer);
  CHECK(passes.compilations() == 3);
  CHECK(&passes.of(three()) == &first);
}

}  // namespace
}  // namespace shardproof::engines
