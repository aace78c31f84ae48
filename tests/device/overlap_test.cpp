// The calls that PyTorch 2.15's fully_shard makes on its streams, as logged in the goldens (h_overlap_virtual_clock),
// on this clock: the same totals must come out. Layers cost 25 ms forward and 50 ms backward, collectives 10 ms on one
// resource.
#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "harness/device/sim/sim_device.hpp"
#include "harness/trace/races.hpp"
#include "harness/trace/timeline.hpp"
#include "tests/device/groups.hpp"

using namespace shardproof;

namespace {

constexpr Nanoseconds ms = 1'000'000;

CostModel costs(Nanoseconds reduce_scatter = 10 * ms) {
  CostModel model;
  model.work[WorkKind::forward] = 25 * ms;
  model.work[WorkKind::backward] = 50 * ms;
  model.labelled_work[{WorkKind::forward, "tiny"}] = 0;
  model.labelled_work[{WorkKind::backward, "tiny"}] = 0;
  model.collectives[CollectiveKind::all_gather].fixed = 10 * ms;
  model.collectives[CollectiveKind::reduce_scatter].fixed = reduce_scatter;
  return model;
}

// The streams of the log and what is done on them.
class Replay {
 public:
  explicit Replay(const CostModel& model, const DeviceOptions& options = {})
      : device(model, 0, options), communicator_(device.communicator(group_)) {}

  void compute(WorkKind kind, const std::string& label) {
    device.submit(Device::compute, {.kind = kind, .label = label, .reads = {}, .writes = {}, .run = {}});
  }
  Event all_gather(const std::string& tag) {
    device.wait(ag, copy_in);
    communicator_->run(ag, {.in = Tensor::host(DType::f32, {10}), .out = Tensor::host(DType::f32, {20}), .tag = tag});
    return device.record(ag);
  }
  Event reduce_scatter(const std::string& tag) {
    device.wait(rs, Device::compute);
    communicator_->run(rs, {.kind = CollectiveKind::reduce_scatter,
                            .op = ReduceOp::avg,
                            .in = Tensor::host(DType::f32, {20}),
                            .out = Tensor::host(DType::f32, {10}),
                            .tag = tag});
    return device.record(rs);
  }
  // Later gathers may overwrite what the compute stream has copied out.
  void gathers_wait(Event copied_out) {
    device.wait(copy_in, copied_out);
    device.wait(ag, copied_out);
  }
  void gathers_wait_for_compute() {
    device.wait(copy_in, Device::compute);
    device.wait(ag, Device::compute);
  }

  device::SimDevice device;
  const Stream copy_in = device.create_stream(StreamRole::copy_in, "ag_copy_in");
  const Stream ag = device.create_stream(StreamRole::all_gather, "ag");
  const Stream rs = device.create_stream(StreamRole::reduce, "rs");

 private:
  test::FakeGroup group_;  // the other rank does the same at the same time
  std::unique_ptr<Communicator> communicator_;
};

// Three layers, each its own group, freed after forward and gathered again in backward, one ahead.
Trace three_layers(const CostModel& model, const DeviceOptions& options = {}) {
  Replay replay(model, options);
  device::SimDevice& device = replay.device;
  device.mark("forward");
  replay.gathers_wait_for_compute();
  std::optional<Event> copied_out;
  for (const char* layer : {"0", "1", "2"}) {
    const Event gathered = replay.all_gather(layer);
    if (copied_out) replay.gathers_wait(*copied_out);
    device.wait(Device::compute, gathered);
    copied_out = device.record(Device::compute);
    replay.compute(WorkKind::forward, layer);
  }
  replay.gathers_wait(*copied_out);

  device.mark("backward");
  Event gathered = replay.all_gather("2");
  std::optional<Event> reduced;
  for (const int layer : {2, 1, 0}) {
    device.wait(Device::compute, gathered);
    replay.gathers_wait(device.record(Device::compute));
    if (layer > 0) gathered = replay.all_gather(std::to_string(layer - 1));
    replay.compute(WorkKind::backward, std::to_string(layer));
    if (reduced) device.wait(Device::compute, *reduced);
    reduced = replay.reduce_scatter(std::to_string(layer));
  }
  device.wait(Device::compute, *reduced);
  device.mark("end");
  return device.take_trace();
}

// A layer that is not sharded before one that is; five iterations. The next gather waits for the optimizer, or for all
// of the compute stream.
Nanoseconds five_iterations(bool post_optim_event) {
  Replay replay(costs(0));
  device::SimDevice& device = replay.device;
  std::optional<Event> optimizer_done;
  for (int iteration = 0; iteration < 5; ++iteration) {
    replay.compute(WorkKind::forward, "sleep");
    if (post_optim_event && optimizer_done) {
      replay.gathers_wait(*optimizer_done);
    } else {
      replay.gathers_wait_for_compute();
    }
    const Event gathered = replay.all_gather("tiny");
    device.wait(Device::compute, gathered);
    const Event copied_out = device.record(Device::compute);
    replay.compute(WorkKind::forward, "tiny");
    replay.gathers_wait(copied_out);
    replay.compute(WorkKind::backward, "tiny");
    const Event reduced = replay.reduce_scatter("tiny");
    replay.compute(WorkKind::backward, "sleep");
    device.wait(Device::compute, reduced);
    replay.compute(WorkKind::optimizer, "");
    optimizer_done = device.record(Device::compute);
  }
  return trace::total(device.trace());
}

}  // namespace

TEST_CASE("overlapped: forward 85 ms, forward and backward 245 ms") {
  const Trace trace = three_layers(costs());
  CHECK(trace::between(trace, "forward", "backward") == 85 * ms);
  CHECK(trace::between(trace, "forward", "end") == 245 * ms);
  CHECK(trace::exposed(trace, "forward", "backward") == 10 * ms);
  CHECK(trace::exposed(trace, "forward", "end") == 20 * ms);
}

TEST_CASE("serial: forward 105 ms, forward and backward 315 ms") {
  const Trace trace = three_layers(costs(), {.single_stream = true});
  CHECK(trace::between(trace, "forward", "backward") == 105 * ms);
  CHECK(trace::between(trace, "forward", "end") == 315 * ms);
}

TEST_CASE("five iterations: 425 ms, and 385 ms with the event after the optimizer") {
  CHECK(five_iterations(false) == 425 * ms);
  CHECK(five_iterations(true) == 385 * ms);
}
