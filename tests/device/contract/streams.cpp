// Order within and between streams, and events.
#include "harness/player/play.hpp"
#include "tests/device/contract/contract.hpp"

#include <stdexcept>

using namespace contract;

RANKED_TEST_CASE("contract/order_within_a_stream", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Stream stream = device.create_stream(StreamRole::other, "one");
  const Tensor value = put(device, stream, iota(1, 1000));
  for (int i = 0; i < 50; ++i) {
    device.submit(stream, work("double", {value}, {value},
                               [=](const Kernels& kernels, NativeStream on) { kernels.scale(on, value, value, 2); }));
    device.submit(stream, work("halve", {value}, {value},
                               [=](const Kernels& kernels, NativeStream on) { kernels.divide(on, value, value, 2); }));
  }
  device.submit(stream, work("double", {value}, {value},
                             [=](const Kernels& kernels, NativeStream on) { kernels.scale(on, value, value, 4); }));
  const Tensor expected = iota(1, 1000);
  for (float& element : expected.values<float>()) element *= 4;
  CHECK(get(device, value) == expected);
}

RANKED_TEST_CASE("contract/an_event_orders_streams", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Stream writer = device.create_stream(StreamRole::other, "writer"),
               reader = device.create_stream(StreamRole::other, "reader");
  const Tensor value = put(device, writer, iota(0, 64)), seen = room(device, reader, value);
  device.wait(reader, writer);
  fill(device, writer, value, 7, slow);
  device.wait(reader, device.record(writer));
  copy(device, reader, seen, value);
  const Tensor sevens = Tensor::host(DType::f32, {64});
  for (float& element : sevens.values<float>()) element = 7;
  CHECK(get(device, seen) == sevens);
}

/// Work that is issued after an event does not belong to it, on the event's stream or on any other.
RANKED_TEST_CASE("contract/an_event_captures_what_was_before", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Stream writer = device.create_stream(StreamRole::other, "writer"),
               reader = device.create_stream(StreamRole::other, "reader");
  const Tensor first = put(device, writer, iota(0, 64)), second = put(device, writer, iota(0, 64)),
               seen = room(device, reader, first);
  fill(device, writer, first, 1, slow);
  const Event captured = device.record(writer);
  fill(device, writer, second, 2, 10 * slow);
  device.wait(reader, captured);
  copy(device, reader, seen, first);
  device.synchronize();

  const Trace trace = platform->take_recording().clocked();
  std::vector<const fact::Work*> fills, copies;
  for (const Fact& fact : trace.facts) {
    const auto* done = std::get_if<fact::Work>(&fact);
    if (done != nullptr && done->label == "fill") fills.push_back(done);
    if (done != nullptr && done->stream == reader.id) copies.push_back(done);
  }
  REQUIRE(fills.size() == 2);
  REQUIRE(copies.size() == 1);
  CHECK(fills[0]->end - fills[0]->start >= slow);
  CHECK(copies[0]->end >= fills[0]->end);
  CHECK(copies[0]->end < fills[1]->end);
}

RANKED_TEST_CASE("contract/an_event_of_another_moment_is_another_event", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Event before = device.record(Device::compute), after = device.record(Device::compute);
  CHECK(before != after);
  device.wait(Device::compute, before);
  device.synchronize(after);
  device.synchronize(before);
}

RANKED_TEST_CASE("contract/an_unrecorded_event_is_refused", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  CHECK_THROWS_AS(device.wait(Device::compute, Event{}), std::invalid_argument);
  CHECK_THROWS_AS(device.synchronize(Event{}), std::invalid_argument);
  const Event last = device.record(Device::compute);
  CHECK_THROWS_AS(device.wait(Device::compute, Event{last.id + 1}), std::invalid_argument);
  device.wait(Device::compute, last);
}

RANKED_TEST_CASE("contract/a_stream_of_another_device_is_refused", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Stream last = device.create_stream(StreamRole::other, "last"), none{last.id + 1, StreamRole::other};
  CHECK_THROWS_AS(device.submit(none, work("nothing", {}, {}, {})), std::invalid_argument);
  CHECK_THROWS_AS(device.record(none), std::invalid_argument);
  CHECK_THROWS_AS(device.allocate(none, 8, MemoryClass::other, "nothing"), std::invalid_argument);
  device.submit(last, work("nothing", {}, {}, {}));
}

RANKED_TEST_CASE("contract/work_takes_at_least_its_cost", ranks(1)) {
  CostModel costs;
  costs.work[WorkKind::forward] = slow;
  const auto platform = make_platform(rank, costs);
  Device& device = platform->device();
  device.mark("begin");
  device.submit(Device::compute, {.kind = WorkKind::forward, .label = "module", .cost = slow});
  device.mark("end");
  device.synchronize();
  const Trace trace = platform->take_recording().clocked();
  std::vector<Nanoseconds> marks;
  for (const Fact& fact : trace.facts) {
    if (const auto* mark = std::get_if<fact::Mark>(&fact)) marks.push_back(mark->time);
  }
  REQUIRE(marks.size() == 2);
  CHECK(marks[1] - marks[0] >= 2 * slow);
}
