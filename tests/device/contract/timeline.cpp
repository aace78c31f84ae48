// Times that the device itself recorded of each piece (`--times cupti`): in order, each piece's own, and within the
// time between its events.
#include "harness/player/play.hpp"
#include "tests/device/contract/contract.hpp"

#include <algorithm>
#include <array>
#include <map>

using namespace contract;

namespace {

constexpr Nanoseconds ms = 1'000'000;
// The time of an event has a resolution of half a microsecond, and a time has two events. The clock of the spin work
// has a resolution of a microsecond.
constexpr Nanoseconds resolution = 2'000;

/// Ends the case where times are not recorded.
Recording recorded_or_skip(Rank& rank, Platform& platform) {
  Recording recording = platform.take_recording();
  if (!recording.records) rank.skip("the device keeps no records of what it runs (--times cupti, on GPUs)");
  return recording;
}

std::vector<fact::Work> works(const Trace& trace) {
  std::vector<fact::Work> all;
  for (const Fact& fact : trace.facts) {
    if (const auto* work = std::get_if<fact::Work>(&fact)) all.push_back(*work);
  }
  return all;
}

}  // namespace

RANKED_TEST_CASE("contract/timeline_is_in_order", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const std::array streams{Device::compute, device.create_stream(StreamRole::other, "beside")};
  const Tensor value = room(device, Device::compute, iota(0, 64));
  for (int round = 0; round < 4; ++round) {
    for (const std::size_t on : {0U, 1U}) {
      device.wait(streams[on], streams[1 - on]);
      fill(device, streams[on], value, round, ms);
      fill(device, streams[on], value, -round);
    }
  }
  device.synchronize();
  const Trace trace = recorded_or_skip(rank, *platform).clocked();
  // Each waits for the one before it, by its stream or by an event.
  const auto all = works(trace);
  CHECK(all.size() == 16);
  for (std::size_t i = 1; i < all.size(); ++i) {
    CAPTURE(i, all[i - 1].start, all[i - 1].end, all[i].start, all[i].end);
    CHECK(all[i - 1].start <= all[i - 1].end);
    CHECK(all[i - 1].end <= all[i].start);
  }
}

/// Every piece takes another time: records that were another piece's would make one of them shorter than it can be.
RANKED_TEST_CASE("contract/timeline_is_of_the_pieces_themselves", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const std::array streams{Device::compute, device.create_stream(StreamRole::other, "beside")};
  std::map<std::string, Nanoseconds> costs;
  for (const int turn : {3, 1, 4, 2}) {
    for (const std::size_t on : {0U, 1U}) {
      const Nanoseconds cost = turn * ms + static_cast<Nanoseconds>(on) * ms / 2;
      const std::string label = "of " + std::to_string(cost);
      costs[label] = cost;
      device.submit(streams[on], {.label = label, .cost = cost});
    }
  }
  device.submit(Device::compute, {.label = "nothing"});
  device.synchronize();
  const Recording recording = recorded_or_skip(rank, *platform);
  CHECK(recording.records->pieces == costs.size());
  for (const fact::Work& work : works(recording.clocked())) {
    CAPTURE(work.label, work.start, work.end);
    CHECK(work.end - work.start >= costs[work.label] - resolution);
  }
}

/// By two clocks that know nothing of each other.
RANKED_TEST_CASE("contract/timeline_lies_between_events", ranks(1, 2)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Stream reduces = device.create_stream(StreamRole::all_reduce, "all-reduce");
  const Tensor value = put(device, Device::compute, iota(1, 1000)), operand = put(device, reduces, iota(1, 1000));
  std::size_t pieces = 2;
  for (int round = 0; round < 3; ++round) {
    fill(device, Device::compute, value, round, ms);
    ++pieces;
    if (rank.world().size() == 1) continue;
    // One after the other, with nothing between them, and at the same time as the work.
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
      platform->world().run(
          reduces, {.kind = CollectiveKind::all_reduce, .op = op, .in = operand, .out = operand, .tag = "reduce"});
      ++pieces;
    }
  }
  device.synchronize();
  const Recording recording = recorded_or_skip(rank, *platform);
  const RecordedTimes& recorded = *recording.records;
  CHECK(recorded.pieces == pieces);
  CHECK(recorded.beyond_events <= recorded.alignment_error + resolution);
  rank.measure("alignment_error_us", static_cast<double>(recorded.alignment_error) / 1000, "us");
  rank.measure("beyond_events_us", static_cast<double>(recorded.beyond_events) / 1000, "us");
  for (const Fact& fact : recording.clocked().facts) {
    if (const auto* call = std::get_if<fact::Collective>(&fact)) CHECK(call->start <= call->end);
  }
}
