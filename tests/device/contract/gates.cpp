// Gates prove what can run before what, by holding work back. No time decides.
#include "harness/player/play.hpp"
#include "tests/device/contract/contract.hpp"

using namespace contract;

namespace {

/// Ends the case on devices that cannot hold anything back.
std::unique_ptr<StreamGate> closed_gate(Rank& rank, Platform& platform) {
  std::unique_ptr<StreamGate> gate = platform.gate();
  if (gate == nullptr) rank.skip("the device does work as it is issued: nothing can be held back");
  return gate;
}

}  // namespace

/// Spin work replaces communication, so one GPU is enough.
RANKED_TEST_CASE("contract/work_passes_compute_that_is_held", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Stream other_stream = device.create_stream(StreamRole::other, "beside");
  const Tensor held = put(device, Device::compute, iota(0, part)), free = put(device, other_stream, iota(0, part));
  device.synchronize();
  const auto gate = closed_gate(rank, *platform);
  gate->hold(Device::compute);
  fill(device, Device::compute, held, 7);
  fill(device, other_stream, free, 8, slow);
  device.synchronize(device.record(other_stream));
  CHECK(gate->holds());
  gate->open();
  CHECK(get(device, held).values<float>()[0] == 7);
  CHECK(get(device, free).values<float>()[0] == 8);
  CHECK_FALSE(gate->holds());
}

RANKED_TEST_CASE("contract/work_behind_a_gate_waits_for_it", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Stream reader = device.create_stream(StreamRole::other, "reader");
  const Tensor value = put(device, Device::compute, iota(0, part)), seen = put(device, reader, iota(0, part));
  device.synchronize();
  const auto gate = closed_gate(rank, *platform);
  gate->hold(Device::compute);
  fill(device, Device::compute, value, 7);
  copy(device, reader, seen, value);  // waits for nothing, and so reads what was there
  device.synchronize(device.record(reader));
  CHECK(gate->holds());
  gate->open();
  CHECK(get(device, seen) == iota(0, part));
  CHECK(get(device, value).values<float>()[0] == 7);
}

RANKED_TEST_CASE("contract/a_collective_passes_compute_that_is_held", ranks(2, 3)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Stream other_stream = device.create_stream(StreamRole::all_gather, "all-gather");
  const Tensor held = put(device, Device::compute, iota(0, part)),
               mine = put(device, other_stream, iota(static_cast<float>(rank.index()), 1));
  const Tensor all = room(device, other_stream, iota(0, rank.world().size()));
  device.synchronize();
  const auto gate = closed_gate(rank, *platform);
  gate->hold(Device::compute);
  fill(device, Device::compute, held, 7);
  platform->world().run(other_stream, {.kind = CollectiveKind::all_gather, .in = mine, .out = all, .tag = "gather"});
  device.synchronize(device.record(other_stream));
  CHECK(gate->holds());
  rank.world().barrier();  // compute is held on every rank until all have seen that
  gate->open();
  CHECK(get(device, all) == iota(0, rank.world().size()));
  CHECK(get(device, held).values<float>()[0] == 7);
}

RANKED_TEST_CASE("contract/compute_passes_a_collective_that_is_held", ranks(2, 3)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Stream other_stream = device.create_stream(StreamRole::all_gather, "all-gather");
  const Tensor computed = put(device, Device::compute, iota(0, part)), sum = put(device, other_stream, iota(1, 1));
  device.synchronize();
  const auto gate = closed_gate(rank, *platform);
  if (rank.index() == 0)
    gate->hold(other_stream);  // the others' part of the collective is under way, and waits for this one
  platform->world().run(other_stream,
                        {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = sum, .out = sum, .tag = "sum"});
  fill(device, Device::compute, computed, 9, slow);
  device.synchronize(device.record(Device::compute));
  CHECK((rank.index() != 0 || gate->holds()));
  rank.world().barrier();
  gate->open();
  CHECK(get(device, computed).values<float>()[0] == 9);
  CHECK(get(device, sum).values<float>()[0] == static_cast<float>(rank.world().size()));
}
