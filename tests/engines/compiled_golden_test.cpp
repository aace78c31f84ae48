// The plan of a compiled step against the all-reduces and waits that PyTorch's compiler made, at PyTorch's sizes.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fixtures/engines/replicate/compile/compiled_step.hpp"
#include "fixtures/oracles/buckets.hpp"
#include "harness/device/imagined_communicator.hpp"
#include "harness/device/sim/sim_device.hpp"
#include "harness/device/wrappers.hpp"
#include "harness/scenario/plan/replicate.hpp"
#include "tests/engines/networks.hpp"
#include "tests/golden_tables/golden_tables.hpp"
#include "tests/oracles/compiled_golden.hpp"

namespace shardproof::engines {
namespace {

using oracles::golden::CompiledBackward;

// Computes no values, so wide layers take neither time nor memory: no work touches the pages. The exception is the
// order that ranks agree on, because the plan depends on it.
class SizesOnlyDevice final : public DeviceWrapper {
 public:
  using DeviceWrapper::DeviceWrapper;

  void submit(Stream stream, Work work) override {
    if (work.kind != WorkKind::other || work.imagined_call) work.run = {};
    inner_.submit(stream, std::move(work));
  }
  std::shared_ptr<Storage> allocate(Stream stream, std::size_t bytes, MemoryClass memory,
                                    std::string_view label) override {
    memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    return inner_.adopt(stream, memory_.back().get(), bytes, memory, label);
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> memory_;  // of all storage, released or not
};

Scenario four_layers_of(const CompiledBackward& recorded) {
  Scenario scenario;
  for (const char* const name : {"fc1", "fc2", "fc3", "fc4"})
    scenario.model.root.children.push_back(linear_module(name, recorded.width, recorded.width));
  const bool concatenates = recorded.fusion == to_string(BucketFusion::concat);
  replicate_plan(scenario.plan).compile =
      CompilePlan{.fusion = concatenates ? BucketFusion::concat : BucketFusion::coalesce};
  scenario.script.input = {1, recorded.width};
  return scenario;
}

// The plan of the first backward of one rank of two.
StepGraph plan_of_backward(const Scenario& scenario) {
  device::SimDevice simulated({}, 0);
  SizesOnlyDevice sizes(simulated);
  TracingDevice device(sizes);
  device::ImaginedCommunicator world(sizes, 2);
  Network network(scenario.model);
  for (Parameter& parameter : network.parameters())
    parameter.value =
        device.empty(Device::compute, parameter.dtype, parameter.shape, MemoryClass::parameter, parameter.name);
  CompiledStep step(network.parameters(), device, world, replicate_plan(scenario.plan));
  Tape tape(device);
  const Shape& batch = scenario.script.input;  // layers are as wide as their inputs
  const Tensor input = sizes.empty(Device::compute, DType::f32, batch, MemoryClass::other, "batch"),
               gradient = sizes.empty(Device::compute, DType::f32, batch, MemoryClass::other, "gradient");
  step.begin_forward();
  const Variable output = network.forward(device, tape, {}, {input});
  step.end_forward();
  step.begin_backward(true);
  tape.backward({{output, [&gradient] { return gradient; }}}, [&step](Parameter& parameter) { step.ready(parameter); });
  step.end_backward();
  std::vector<StepGraph> passes;
  REQUIRE(step.compiled_plan(passes).ok());
  REQUIRE(passes.size() == 2);
  REQUIRE(passes.back().pass == StepPass::backward);
  return passes.back();
}

std::vector<CompiledBackward::Call> planned_calls(const StepGraph& graph) {
  std::vector<CompiledBackward::Call> calls;
  for (const StepNode& node : graph.nodes) {
    if (node.kind != StepNodeKind::all_reduce && node.kind != StepNodeKind::wait) continue;
    const char* const started = node.inputs.size() > 1 ? oracles::several_operands : oracles::one_operand;
    CompiledBackward::Call& call = calls.emplace_back(
        CompiledBackward::Call{node.kind == StepNodeKind::wait ? oracles::wait_for_one : started, {}});
    for (const std::size_t operand : node.inputs) call.operands.push_back(graph.values[operand].shape);
  }
  return calls;
}

// The parameters whose gradients the bucket gives, in order.
std::vector<std::string> given_by(const StepGraph& graph, const std::string& bucket) {
  std::vector<std::string> names;
  for (const StepNode& node : graph.nodes) {
    if (node.label != bucket) continue;
    for (const std::size_t output : node.outputs) {
      if (graph.values[output].kind == StepValueKind::gradient) names.push_back(graph.values[output].name);
    }
  }
  return names;
}

TEST_CASE(
    "the plan of a compiled backward has the all-reduces and waits of PyTorch's, at the width that was recorded") {
  for (const CompiledBackward& recorded : oracles::golden::compiled_backwards()) {
    CAPTURE(recorded.fusion);
    const Scenario scenario = four_layers_of(recorded);
    const StepGraph plan = plan_of_backward(scenario);
    CHECK(oracles::calls_in_words(planned_calls(plan)) == oracles::calls_in_words(recorded.calls));
    CHECK(std::ranges::count(plan.nodes, StepNodeKind::all_reduce, &StepNode::kind) == recorded.buckets);
    // The record has no names.
    const std::vector<oracles::Bucket> buckets =
        oracles::later_buckets(scenario, oracles::ready_order(scenario.model, oracles::ModuleOrder::registered));
    for (std::size_t index = 0; index < buckets.size(); ++index)
      CHECK(given_by(plan, bucket_tag(index)) == oracles::names_of(buckets[index]));
  }
}

}  // namespace
}  // namespace shardproof::engines
