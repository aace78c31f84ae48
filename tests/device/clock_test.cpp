// The rules of docs/simulated-time.md, one by one.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <limits>
#include <stdexcept>

#include "harness/device/sim/sim_device.hpp"
#include "tests/device/groups.hpp"

using namespace shardproof;
using shardproof::test::FakeGroup;

namespace {

struct Times {
  Nanoseconds start, end;
  friend bool operator==(const Times&, const Times&) = default;
};

Times last(const device::SimDevice& device) {
  const Fact& fact = device.trace().facts.back();
  if (const auto* work = std::get_if<fact::Work>(&fact)) return {work->start, work->end};
  const auto& collective = std::get<fact::Collective>(fact);
  return {collective.start, collective.end};
}

Times run(device::SimDevice& device, Stream stream, Nanoseconds cost) {
  device.submit(stream, {.kind = WorkKind::other, .label = "", .reads = {}, .writes = {}, .cost = cost, .run = {}});
  return last(device);
}

CostModel gathers_of(Nanoseconds cost) {
  CostModel costs;
  costs.collectives[CollectiveKind::all_gather].fixed = cost;
  return costs;
}

Collective gather(std::string tag = "layers.0", CollectiveKind kind = CollectiveKind::all_gather) {
  if (kind == CollectiveKind::reduce_scatter) {
    return {.kind = kind,
            .op = ReduceOp::avg,
            .in = Tensor::host(DType::f32, {4}),
            .out = Tensor::host(DType::f32, {2}),
            .tag = std::move(tag)};
  }
  return {
      .kind = kind, .in = Tensor::host(DType::f32, {2}), .out = Tensor::host(DType::f32, {4}), .tag = std::move(tag)};
}

}  // namespace

TEST_CASE("rule 1: the host runs ahead of its streams") {
  device::SimDevice device({}, 0);
  run(device, Device::compute, 25);
  CHECK(device.host_clock() == 0);
  const Stream other = device.create_stream(StreamRole::other, "other");
  CHECK(run(device, other, 5) == Times{0, 5});
}

TEST_CASE("rule 1: the host clock moves when the host synchronizes, and never back") {
  device::SimDevice device({}, 0);
  const Stream other = device.create_stream(StreamRole::other, "other");
  run(device, Device::compute, 25);
  const Event event = device.record(Device::compute);
  run(device, Device::compute, 25);
  run(device, other, 10);
  device.synchronize(event);
  CHECK(device.host_clock() == 25);
  device.synchronize(other);
  CHECK(device.host_clock() == 25);
  device.synchronize(Device::compute);
  CHECK(device.host_clock() == 50);
  CHECK(run(device, other, 1) == Times{50, 51});
}

TEST_CASE("rule 1: a host cost is paid before each submission and each collective, and for nothing else") {
  CostModel costs = gathers_of(10);
  costs.host_call = 3;
  device::SimDevice device(costs, 0);
  FakeGroup group;
  const auto communicator = device.communicator(group);
  CHECK(run(device, Device::compute, 25) == Times{3, 28});
  const Stream other = device.create_stream(StreamRole::all_gather, "other");
  device.wait(other, device.record(other));
  device.mark("here");
  CHECK(device.host_clock() == 3);
  communicator->run(other, gather());
  CHECK(last(device) == Times{6, 16});
  CHECK(device.host_clock() == 6);
}

TEST_CASE("time that would overflow is an error, of work and of collectives") {
  constexpr Nanoseconds half = std::numeric_limits<Nanoseconds>::max() / 2 + 1;
  device::SimDevice device({}, 0);
  run(device, Device::compute, half);
  CHECK_THROWS_AS(run(device, Device::compute, half), std::overflow_error);

  CostModel costs;
  costs.collectives[CollectiveKind::all_gather].per_kib = half;
  CHECK(costs.of_collective(CollectiveKind::all_gather, "", 1024) == half);
  CHECK_THROWS_AS(costs.of_collective(CollectiveKind::all_gather, "", 1025), std::overflow_error);
}

TEST_CASE("rule 2: work starts when the work before it on its stream has ended") {
  device::SimDevice device({}, 0);
  CHECK(run(device, Device::compute, 25) == Times{0, 25});
  CHECK(run(device, Device::compute, 0) == Times{25, 25});
  CHECK(run(device, Device::compute, 5) == Times{25, 30});
}

TEST_CASE("rule 2: the cost model counts by kind or by label, and the work's own cost comes on top") {
  CostModel costs;
  costs.work[WorkKind::forward] = 20;
  costs.labelled_work[{WorkKind::forward, "layers.1"}] = 3;
  device::SimDevice device(costs, 0);
  const auto submit = [&](WorkKind kind, std::string label, Nanoseconds cost) {
    device.submit(Device::compute,
                  {.kind = kind, .label = std::move(label), .reads = {}, .writes = {}, .cost = cost, .run = {}});
    return last(device).end - last(device).start;
  };
  CHECK(submit(WorkKind::forward, "layers.0", 0) == 20);
  CHECK(submit(WorkKind::forward, "layers.0", 7) == 27);
  CHECK(submit(WorkKind::forward, "layers.1", 7) == 10);
  CHECK(submit(WorkKind::backward, "layers.1", 0) == 0);
  CHECK_THROWS_AS(submit(WorkKind::backward, "layers.1", -1), std::invalid_argument);
}

TEST_CASE("rule 3: an event is the end of its stream so far, and holds back only what is issued after the wait") {
  device::SimDevice device({}, 0);
  const Stream other = device.create_stream(StreamRole::other, "other");
  run(device, Device::compute, 25);
  const Event event = device.record(Device::compute);
  run(device, Device::compute, 100);
  CHECK(run(device, other, 5) == Times{0, 5});
  device.wait(other, event);
  CHECK(run(device, other, 5) == Times{25, 30});
}

TEST_CASE("rule 3: a wait for what has ended costs nothing") {
  device::SimDevice device({}, 0);
  const Stream other = device.create_stream(StreamRole::other, "other");
  run(device, other, 5);
  const Event early = device.record(other);
  run(device, Device::compute, 25);
  device.wait(Device::compute, early);
  CHECK(run(device, Device::compute, 1) == Times{25, 26});
}

TEST_CASE("rule 3: an event on a stream that waits passes the wait on") {
  device::SimDevice device({}, 0);
  const Stream middle = device.create_stream(StreamRole::other, "middle");
  const Stream last_one = device.create_stream(StreamRole::other, "last");
  run(device, Device::compute, 25);
  device.wait(middle, Device::compute);
  device.wait(last_one, middle);
  CHECK(run(device, last_one, 5) == Times{25, 30});
}

TEST_CASE("rule 3: an event on an idle stream is not before the host") {
  device::SimDevice device({}, 0);
  const Stream idle = device.create_stream(StreamRole::other, "idle");
  run(device, Device::compute, 25);
  device.synchronize(Device::compute);
  device.synchronize(device.record(idle));
  CHECK(device.host_clock() == 25);
}

TEST_CASE("rule 4: a collective starts when all ranks are ready and lasts what the model says") {
  device::SimDevice device(gathers_of(10), 0);
  FakeGroup group;
  const auto communicator = device.communicator(group);
  const Stream stream = device.create_stream(StreamRole::all_gather, "ag");
  run(device, stream, 5);
  communicator->run(stream, gather());
  CHECK(group.calls[0].ready_ns == 5);
  CHECK(last(device) == Times{5, 15});
  group.peers_ready = 40;
  communicator->run(stream, gather());
  CHECK(group.calls[1].ready_ns == 15);
  CHECK(last(device) == Times{40, 50});
  CHECK(run(device, stream, 1) == Times{50, 51});
}

TEST_CASE("rule 4: a group's collectives run one at a time, on whatever streams they are") {
  device::SimDevice device(gathers_of(10), 0);
  FakeGroup group;
  const auto communicator = device.communicator(group);
  const auto same_group = device.communicator(group);
  const Stream a = device.create_stream(StreamRole::all_gather, "a");
  const Stream b = device.create_stream(StreamRole::reduce, "b");
  communicator->run(a, gather());
  communicator->run(b, gather());
  CHECK(last(device) == Times{10, 20});
  same_group->run(a, gather());
  CHECK(last(device) == Times{20, 30});
}

TEST_CASE("rule 4: each group has its own resource") {
  device::SimDevice device(gathers_of(10), 0);
  FakeGroup group, other_group;
  const auto communicator = device.communicator(group);
  const auto other = device.communicator(other_group);
  const Stream a = device.create_stream(StreamRole::all_gather, "a");
  const Stream b = device.create_stream(StreamRole::reduce, "b");
  communicator->run(a, gather());
  other->run(b, gather());
  CHECK(last(device) == Times{0, 10});
}

TEST_CASE("rule 4: separate resources let collectives of different kinds overlap, not those of one kind") {
  CostModel costs = gathers_of(10);
  costs.collectives[CollectiveKind::reduce_scatter].fixed = 7;
  device::SimDevice device(costs, 0, {.separate_resources = true});
  FakeGroup group;
  const auto communicator = device.communicator(group);
  const Stream a = device.create_stream(StreamRole::all_gather, "a");
  const Stream b = device.create_stream(StreamRole::reduce, "b");
  communicator->run(a, gather());
  communicator->run(b, gather("layers.0", CollectiveKind::reduce_scatter));
  CHECK(last(device) == Times{0, 7});
  communicator->run(b, gather());
  CHECK(last(device) == Times{10, 20});
}

TEST_CASE("rule 4: cost by size counts every begun KiB of the larger side, a tag's own cost replaces it") {
  CostModel costs;
  costs.collectives[CollectiveKind::all_gather] = {.fixed = 100, .per_kib = 3};
  costs.tagged_collectives[{CollectiveKind::all_gather, "special"}] = 1;
  CHECK(costs.of_collective(CollectiveKind::all_gather, "any", 0) == 100);
  CHECK(costs.of_collective(CollectiveKind::all_gather, "any", 1) == 103);
  CHECK(costs.of_collective(CollectiveKind::all_gather, "any", 1024) == 103);
  CHECK(costs.of_collective(CollectiveKind::all_gather, "any", 1025) == 106);
  CHECK(costs.of_collective(CollectiveKind::all_gather, "special", 1 << 20) == 1);
  CHECK(costs.of_collective(CollectiveKind::reduce_scatter, "special", 1 << 20) == 0);

  device::SimDevice device(costs, 0);
  FakeGroup group;
  const auto communicator = device.communicator(group);
  communicator->run(Device::compute,
                    {.in = Tensor::host(DType::f32, {200}), .out = Tensor::host(DType::f32, {400}), .tag = "any"});
  CHECK(last(device) == Times{0, 106});
}

TEST_CASE("rule 4: all ranks see a collective at the same time, though they were ready at different ones") {
  std::vector<Trace> traces(3);
  test::Crowd(3).run([&](Group& group) {
    device::SimDevice device(gathers_of(10), group.rank());
    const auto communicator = device.communicator(group);
    const Stream stream = device.create_stream(StreamRole::all_gather, "ag");
    for (int round = 0; round < 4; ++round) {
      run(device, stream, (group.rank() + round) % 3 * 7);
      const Tensor in = iota(static_cast<float>(group.rank()), 1);
      const Tensor out = device.empty(stream, DType::f32, {3}, MemoryClass::gathered, "all");
      communicator->run(stream, {.in = in, .out = out, .tag = "round"});
      if (!(out == iota(0, 3))) throw std::logic_error("the crowd did not gather");
    }
    traces[static_cast<std::size_t>(group.rank())] = device.take_trace();
  });
  std::vector<std::vector<Nanoseconds>> starts(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    for (const Fact& fact : traces[rank].facts) {
      if (const auto* collective = std::get_if<fact::Collective>(&fact)) starts[rank].push_back(collective->start);
    }
  }
  // Work of 0, 7 or 14 precedes each; the slowest rank decides every time.
  CHECK(starts[0] == std::vector<Nanoseconds>{14, 38, 62, 86});
  CHECK(starts[1] == starts[0]);
  CHECK(starts[2] == starts[0]);
}

TEST_CASE("rule 5: a mark is the end of the compute stream so far, its waits included") {
  device::SimDevice device({}, 0);
  const Stream other = device.create_stream(StreamRole::reduce, "rs");
  const auto marked = [&] {
    device.mark("here");
    return std::get<fact::Mark>(device.trace().facts.back()).time;
  };
  CHECK(marked() == 0);
  run(device, Device::compute, 25);
  run(device, other, 40);
  CHECK(marked() == 25);
  device.wait(Device::compute, other);
  CHECK(marked() == 40);
}

TEST_CASE("serial: the same calls, all on the compute stream, in the clock and in the facts") {
  device::SimDevice device(gathers_of(10), 0, {.single_stream = true});
  FakeGroup group;
  const auto communicator = device.communicator(group);
  const Stream stream = device.create_stream(StreamRole::all_gather, "ag");
  const Stream other = device.create_stream(StreamRole::reduce, "rs");
  CHECK(stream.role == StreamRole::all_gather);
  CHECK_FALSE(stream == other);
  CHECK_FALSE(stream == Device::compute);

  run(device, Device::compute, 25);
  communicator->run(stream, gather());
  CHECK(last(device) == Times{25, 35});
  CHECK(run(device, other, 5) == Times{35, 40});
  device.wait(Device::compute, device.record(stream));
  device.release(other, device.allocate(stream, 4, MemoryClass::other, "x"));
  device.synchronize(other);
  CHECK(device.host_clock() == 40);
  for (const Fact& fact : device.trace().facts) {
    CHECK_FALSE(std::holds_alternative<fact::StreamCreated>(fact));
    std::visit(
        [](const auto& f) {
          if constexpr (requires { f.stream; }) CHECK(f.stream == 0);
        },
        fact);
  }
}

TEST_CASE("the device refuses unknown streams and events by name") {
  device::SimDevice device({}, 3);
  const Stream stranger{7, StreamRole::other};
  CHECK_THROWS_MATCHES(run(device, stranger, 1), std::invalid_argument,
                       Catch::Matchers::Message("submit on rank 3: there is no stream 7; this device has made 1"));
  CHECK_THROWS_AS(device.record(stranger), std::invalid_argument);
  CHECK_THROWS_AS(device.synchronize(stranger), std::invalid_argument);
  CHECK_THROWS_AS(device.allocate(stranger, 4, MemoryClass::other, "x"), std::invalid_argument);
  CHECK_THROWS_MATCHES(device.wait(Device::compute, Event{4}), std::invalid_argument,
                       Catch::Matchers::Message("wait on rank 3: event 4 was never recorded on this device"));
  CHECK_THROWS_AS(device.synchronize(Event{}), std::invalid_argument);
  CHECK(device.trace().facts.empty());
}
