// Computes the times of a recording again, from its order alone. At the pace at which it ran, the times are the same.
// Replay: --rng-seed N as printed.
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <vector>

#include "harness/device/sim/sim_device.hpp"
#include "harness/trace/virtual_clock.hpp"
#include "tests/device/groups.hpp"
#include "tests/rounds.hpp"

using namespace shardproof;
using shardproof::test::Crowd;
using shardproof::testing::rounds;

namespace {

constexpr int crowd_size = 3;

// Each rank does what it likes between collectives, of which all issue the same.
Trace random_run(Group& group, std::uint64_t seed) {
  std::mt19937_64 shared(seed), own(seed * 31 + static_cast<std::uint64_t>(group.rank()));
  const auto below = [](std::mt19937_64& random, std::uint64_t bound) { return random() % bound; };
  CostModel costs;
  costs.collectives[CollectiveKind::all_gather].fixed = 10;
  device::SimDevice device(costs, group.rank());
  const auto communicator = device.communicator(group);
  std::vector<Stream> streams{Device::compute};
  for (int i = 0; i < 3; ++i) streams.push_back(device.create_stream(StreamRole::other, "s"));
  std::vector<Event> events{device.record(Device::compute)};
  const auto stream = [&] { return streams[below(own, streams.size())]; };
  for (int n = 0; n < 12; ++n) {
    for (auto some = below(own, 6); some > 0; --some) {
      switch (below(own, 7)) {
        case 0:
        case 1: device.submit(stream(), {.label = "w", .cost = static_cast<Nanoseconds>(below(own, 40))}); break;
        case 2: events.push_back(device.record(stream())); break;
        case 3: device.wait(stream(), events[below(own, events.size())]); break;
        case 4: device.synchronize(events[below(own, events.size())]); break;
        case 5: device.synchronize(stream()); break;
        default: device.mark("here");
      }
    }
    const Tensor in = iota(static_cast<float>(group.rank()), 1);
    communicator->run(streams[below(shared, streams.size())],
                      {.in = in, .out = Tensor::host(DType::f32, {crowd_size}), .tag = "round"});
  }
  return device.take_trace();
}

Nanoseconds recorded_duration(const Fact& fact) {
  return std::visit(
      [](const auto& which) -> Nanoseconds {
        if constexpr (requires { which.start; }) return which.end - which.start;
        return 0;
      },
      fact);
}

Trace without_times(Trace trace) {
  for (Fact& fact : trace.facts) {
    std::visit(
        [](auto& which) {
          if constexpr (requires { which.start; }) which.start = which.end = -1;
          if constexpr (requires { which.text; }) which.time = -1;
        },
        fact);
  }
  return trace;
}

}  // namespace

TEST_CASE("retiming: what ranks recorded takes the times of the device, which meets at every collective") {
  for (std::uint64_t round = 0; round < rounds(200U); ++round) {
    const std::uint64_t seed = Catch::getSeed() + round;
    std::vector<Trace> recorded(crowd_size), again(crowd_size);
    Crowd(crowd_size).run([&](Group& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      recorded[rank] = random_run(group, seed);
      // The ranks ask each other again when they are ready, as if they did not know it.
      const auto all_ready = [&](std::size_t, Nanoseconds ready) {
        Tensor one = iota(0, 1), all = Tensor::host(DType::f32, {crowd_size});
        Call call = as_call({.in = one, .out = all, .tag = "ready"});
        call.descriptor.ready_ns = ready;
        return group.run(call).latest_ready_ns;
      };
      again[rank] =
          trace::retimed(without_times(recorded[rank]),
                         {.duration = [&](std::size_t fact) { return recorded_duration(recorded[rank].facts[fact]); },
                          .resource = [](std::size_t) { return 0; },
                          .all_ready = all_ready});
    });
    INFO("seed " << seed);
    REQUIRE(again == recorded);
  }
}

TEST_CASE("retiming: quicker work moves everything that waited for it, and nothing else") {
  device::SimDevice device({}, 0);
  const Stream other_stream = device.create_stream(StreamRole::other, "beside");
  device.submit(Device::compute, {.label = "first", .cost = 30});
  device.submit(other_stream, {.label = "alone", .cost = 20});
  device.wait(other_stream, Device::compute);
  device.submit(other_stream, {.label = "after", .cost = 5});
  const Trace recorded = device.take_trace();
  const Trace quicker = trace::retimed(
      recorded, {.duration = [&](std::size_t fact) { return recorded_duration(recorded.facts[fact]) / 5; },
                 .resource = [](std::size_t) { return 0; },
                 .all_ready = [](std::size_t, Nanoseconds ready) { return ready; }});
  std::vector<Nanoseconds> starts;
  for (const Fact& fact : quicker.facts) {
    if (const auto* work = std::get_if<fact::Work>(&fact)) starts.push_back(work->start);
  }
  CHECK(starts == std::vector<Nanoseconds>{0, 0, 6});
}

TEST_CASE("retiming: a wait for what was never recorded is a wait for nothing, and streams may have any numbers") {
  const Trace trace{
      .rank = 0, .facts = {fact::EventWaited{7, 3}, fact::EventSynchronized{9}, fact::Work{.stream = 7, .label = "w"}}};
  const Trace timed = trace::retimed(trace, {.duration = [](std::size_t) { return 4; },
                                             .resource = [](std::size_t) { return 0; },
                                             .all_ready = [](std::size_t, Nanoseconds ready) { return ready; }});
  CHECK(std::get<fact::Work>(timed.facts[2]).start == 0);
  CHECK(std::get<fact::Work>(timed.facts[2]).end == 4);
}
