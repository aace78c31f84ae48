// Times from CUPTI's records: the piece of each record, and the handling of missing records. If nothing runs between an
// event and the work after it, they are the times of events.
#include "harness/device/cuda/activity_log.hpp"
#include "harness/device/cuda/vendor_error.hpp"

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <string>
#include <vector>

#include "fixtures/engines/reference.hpp"
#include "harness/player/player.hpp"
#include "harness/scenario/builder.hpp"
#include "tests/device/cuda/cpu_runtime.hpp"
#include "tests/device/cuda/cpu_vendor.hpp"
#include "tests/device/cuda/planted.hpp"
#include "tests/device/cuda/rank_of_gpus.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using device::cuda::ActivityRecord;
using device::cuda::no_piece;
using device::cuda::place_before;
using shardproof::testing::Side;

namespace {

constexpr Nanoseconds ms = 1'000'000;

/// The test may change the records that the table of the CPU returns.
thread_local std::function<void(std::vector<device::cuda::ActivityRecord>& records, std::size_t& dropped)> spoil;

const device::cuda::ActivityTable& spoilt_activity() {
  static const device::cuda::ActivityTable table = [] {
    device::cuda::ActivityTable made = device::cuda::cpu::activity();
    made.flush = [](const device::cuda::ActivityRecord** records, std::size_t* count, std::size_t* dropped) {
      thread_local std::vector<device::cuda::ActivityRecord> handed_over;
      const device::cuda::Status status = device::cuda::cpu::activity().flush(records, count, dropped);
      if (status != 0) return status;
      handed_over.assign(*records, *records + *count);
      if (spoil) spoil(handed_over, *dropped);
      *records = handed_over.data();
      *count = handed_over.size();
      return status;
    };
    return made;
  }();
  return table;
}

const device::cuda::VendorTables& spoilt_vendor() {
  static const device::cuda::VendorTables tables = [] {
    device::cuda::VendorTables made = device::cuda::cpu::vendor();
    made.activity = [](const char**) { return &spoilt_activity(); };
    return made;
  }();
  return tables;
}

struct Rank : device::cuda::RankOfGpus {
  Rank(Side& side, const std::shared_ptr<fabric::Boards>& boards, bool keeps_records,
       const device::cuda::VendorTables& vendor = device::cuda::cpu::vendor())
      : RankOfGpus(side, vendor, boards, std::chrono::seconds(20), std::chrono::seconds(5), keeps_records) {}
};

void on_ranks(int ranks, const std::function<void(Side&, const std::shared_ptr<fabric::Boards>&)>& body) {
  const auto boards = std::make_shared<fabric::SharedBoards>(fabric::shm::make_thread_memory());
  for (const std::string& failure : testing::run_threads(ranks, [&](Side& side) { body(side, boards); })) {
    INFO(failure);
    CHECK(failure.empty());
  }
}

Scenario sleeping_training() {
  Scenario scenario = sleeping_stack(3).forward(std::chrono::milliseconds(2)).collectives(std::chrono::milliseconds(1));
  scenario.script.segments = {
      {.iterations = 2, .body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}}}};
  return scenario;
}

/// Two pieces of work that take time, and one that launches nothing.
Recording work_in_a_row(Platform& platform) {
  Device& device = platform.device();
  device.submit(Device::compute, {.label = "first", .cost = 3 * ms});
  device.submit(Device::compute, {.label = "nothing"});
  device.submit(Device::compute, {.label = "last", .cost = 5 * ms});
  device.synchronize();
  return platform.take_recording();
}

std::string why_refused(const decltype(spoil)& how) {
  std::string why;
  on_ranks(1, [&](Side& side, const auto& boards) {
    Rank rank(side, boards, true, spoilt_vendor());
    const auto platform = rank.world.make({}, {});
    spoil = how;
    why = testing::thrown_by<std::runtime_error>([&] { work_in_a_row(*platform); });
    spoil = nullptr;
  });
  return why;
}

}  // namespace

TEST_CASE("a record belongs to the piece whose id it has, or else to the last before it on its stream") {
  const std::uint64_t a = 2, b = 4, c = 6, one = 11, other = 12;
  // In no order, as a library may hand them over.
  const std::vector<device::cuda::ActivityRecord> records{
      {.id = 0, .stream = one, .start_ns = 60, .end_ns = 70},  // behind the place before b
      {.id = b, .stream = one, .start_ns = 80, .end_ns = 90},
      {.id = 0, .stream = one, .start_ns = 5, .end_ns = 9},  // before anybody's
      {.id = a, .stream = one, .start_ns = 30, .end_ns = 40},
      {.id = a, .stream = one, .start_ns = 10, .end_ns = 20},
      {.id = device::cuda::place_before(b), .stream = one, .start_ns = 50, .end_ns = 50},
      {.id = device::cuda::no_piece, .stream = one, .start_ns = 100, .end_ns = 110},
      {.id = 0, .stream = one, .start_ns = 120, .end_ns = 130},  // behind nobody's
      {.id = device::cuda::place_before(c), .stream = other, .start_ns = 55, .end_ns = 55},
      {.id = 0, .stream = other, .start_ns = 55, .end_ns = 65},  // at the same time, and after it
      {.id = c, .stream = other, .start_ns = 0, .end_ns = 0},  // of which there are no times
      {.id = 0, .stream = other, .start_ns = 0, .end_ns = 0},
  };
  const auto spans = device::cuda::spans_by_piece(records);
  REQUIRE(spans.size() == 3);
  const auto is = [&](std::uint64_t piece, std::int64_t start, std::int64_t end, std::size_t count,
                      std::size_t untimed) {
    const device::cuda::ActivitySpan& span = spans.at(piece);
    CHECK(span.start_ns == start);
    CHECK(span.end_ns == end);
    CHECK(span.records == count);
    CHECK(span.untimed == untimed);
  };
  is(a, 10, 40, 2, 0);
  is(b, 60, 90, 2, 0);
  is(c, 55, 65, 1, 1);
}

TEST_CASE("records and events give the same times when launches take no time") {
  on_ranks(2, [](Side& side, const auto& boards) {
    engines::Reference engine;
    std::vector<Trace> traces;
    for (const bool keeps_records : {false, true}) {
      Rank rank(side, boards, keeps_records);
      {
        const Scenario scenario = sleeping_training();
        const auto platform = rank.world.make(scenario.costs, scenario.device);
        const Run run = player::play(scenario, engine, *platform, side.rank);
        traces.push_back(run.recording().measured.value());
        const auto& recorded = run.recording().records;
        testing::expect(recorded.has_value() == keeps_records,
                        "records are kept where nobody asked for them, or the other way round");
        if (recorded) {
          testing::expect(recorded->pieces > 20, "hardly anything was recorded");
          testing::expect(recorded->alignment_error == 0 && recorded->beyond_events == 0, "virtual time is exact");
        }
      }
      testing::expect(rank.world.complaint().empty(), "there is a complaint");
      side.next_case();
    }
    testing::expect(traces[0] == traces[1], "the times differ");
  });
}

TEST_CASE("stream order distinguishes the collectives that NCCL launches from its own thread") {
  on_ranks(2, [](Side& side, const auto& boards) {
    Rank rank(side, boards, true);
    {
      const auto platform = rank.world.make({}, {});
      Device& device = platform->device();
      const Tensor operand = device.empty(Device::compute, DType::f32, {4}, MemoryClass::other, "operand");
      const auto sum = [&](const char* tag) {
        platform->world().run(
            Device::compute,
            {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = operand, .out = operand, .tag = tag});
      };
      device.submit(Device::compute, {.label = "before", .cost = Nanoseconds{side.rank} * 4 * ms});
      sum("first");  // which rank 1 comes to later
      sum("second");
      device.submit(Device::compute, {.label = "between", .cost = 2 * ms});
      sum("third");
      device.synchronize();
      std::string times;
      const Recording recording = platform->take_recording();
      for (const Fact& fact : recording.clocked().facts) {
        if (const auto* call = std::get_if<fact::Collective>(&fact))
          times += fmt::format("{}-{} ", call->start / ms, call->end / ms);
      }
      testing::expect(times == (side.rank == 0 ? "0-4 4-4 6-6 " : "4-4 4-4 6-6 "), times);
      testing::expect(recording.records.value().beyond_events == 0, "records reach out of the time between events");
    }
    side.next_case();  // no rank leaves while another still finalizes
  });
}

TEST_CASE("pieces that launch nothing keep their events' times, and a clock that runs differently is reported") {
  on_ranks(1, [](Side& side, const auto& boards) {
    Rank rank(side, boards, true, spoilt_vendor());
    for (const Nanoseconds late : {Nanoseconds{0}, 7 * ms}) {
      const auto platform = rank.world.make({}, {});
      spoil = [late](std::vector<device::cuda::ActivityRecord>& records, std::size_t&) {
        for (device::cuda::ActivityRecord& record : records) {
          if (record.end_ns - record.start_ns == 5 * ms) record.start_ns += late, record.end_ns += late;
        }
      };
      const Recording recording = work_in_a_row(*platform);
      spoil = nullptr;
      const auto work = [&](std::size_t i) { return std::get<fact::Work>(recording.clocked().facts.at(i)); };
      const std::string at = fmt::format("by {} ns: {} to {}, {} to {}, {} to {}", late, work(0).start, work(0).end,
                                         work(1).start, work(1).end, work(2).start, work(2).end);
      testing::expect(work(0).start == 0 && work(0).end == 3 * ms && work(1).start == 3 * ms && work(1).end == 3 * ms,
                      at);
      testing::expect(work(2).start == 3 * ms + late && work(2).end == 8 * ms + late, at);
      testing::expect(recording.records.value().pieces == 2 && recording.records->beyond_events == late, at);
    }
  });
}

TEST_CASE("records that no call took end with their device") {
  on_ranks(1, [](Side& side, const auto& boards) {
    Rank rank(side, boards, true, spoilt_vendor());
    {
      const auto platform = rank.world.make({}, {});
      for (int i = 0; i < 100; ++i) platform->device().submit(Device::compute, {.label = "nobody looks", .cost = ms});
      platform->device().synchronize();
    }
    const auto platform = rank.world.make({}, {});
    std::size_t found = 0;
    spoil = [&](std::vector<device::cuda::ActivityRecord>& records, std::size_t&) { found = records.size(); };
    work_in_a_row(*platform);
    spoil = nullptr;
    testing::expect(found == 4, fmt::format("{} records of two pieces, and of the comparison of clocks", found));
  });
}

TEST_CASE("records that are lost, missing or without times are an error, and times of two kinds are not mixed") {
  CHECK_THAT(why_refused([](auto&, std::size_t& dropped) { dropped = 3; }),
             ContainsSubstring("CUPTI on rank 0, GPU 0") && ContainsSubstring("3 records were lost") &&
                 ContainsSubstring("--times events"));
  CHECK_THAT(
      why_refused([](auto& records, std::size_t&) {
        std::erase_if(records, [](auto& one) { return one.end_ns - one.start_ns == 5 * ms; });
      }),
      ContainsSubstring("of other \"last\", which launched at least 1, it has 0 records with times and 0 without"));
  CHECK_THAT(
      why_refused([](auto& records, std::size_t&) {
        for (device::cuda::ActivityRecord& one : records) {
          if (one.end_ns - one.start_ns == 5 * ms) one.start_ns = one.end_ns = 0;
        }
      }),
      ContainsSubstring("of other \"last\", which launched at least 1, it has 0 records with times and 1 without"));
  CHECK_THAT(why_refused([](auto& records, std::size_t&) { records.clear(); }),
             ContainsSubstring("a memset that has ended has no record"));
}

TEST_CASE("a rank whose records cannot be kept says why before it begins") {
  on_ranks(1, [](Side& side, const auto& boards) {
    static const device::cuda::VendorTables without = [] {
      device::cuda::VendorTables made = device::cuda::cpu::vendor();
      made.activity = [](const char** why) -> const device::cuda::ActivityTable* {
        *why = "there is no libcupti";
        return nullptr;
      };
      return made;
    }();
    const std::string absent = testing::thrown_by<std::runtime_error>([&] { Rank(side, boards, true, without); });
    testing::expect(absent == "rank 0, GPU 0 (threads of this process): no times from CUPTI: there is no libcupti",
                    absent);
    device::cuda::cpu::plant(device::cuda::cpu::Planted{.function = "start", .call = 1, .status = 39});
    const std::string refused = testing::thrown_by<device::cuda::VendorError>(
        [&] { Rank(side, boards, true, device::cuda::cpu::fragile_vendor()); });
    device::cuda::cpu::plant(device::cuda::cpu::Planted{.function = "stop"});
    {
      const Rank rank(side, boards, true, device::cuda::cpu::fragile_vendor());
    }  // nothing depends on it any more
    testing::expect(device::cuda::cpu::has_failed(), "records are never stopped");
    device::cuda::cpu::plant({});
    testing::expect(refused.starts_with("cuptiActivityEnable on rank 0, GPU 0 (threads of this process): CUPTI status "
                                        "39, an error that was planted") &&
                        refused.find("activity_log.cpp:") != std::string::npos,
                    refused);
  });
}
