// Memory, as a subject in C allocates, adopts and gives it back, rightly and wrongly.
#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "harness/trace/races.hpp"
#include "tests/subject/alone.hpp"

using namespace shardproof;
using shardproof::testing::allocated;
using shardproof::testing::Alone;
using shardproof::testing::f32;
using shardproof::testing::ScriptedSubject;

namespace {

Batch batch_on(Device& device) {
  return {.input = device.empty(Device::compute, DType::f32, {2, 4}, MemoryClass::activation, "input"), .targets = {}};
}

}  // namespace

TEST_CASE("the harness allocates, describes and releases memory, and records each step") {
  Alone alone;
  CHECK(
      alone
          .perform([&](ScriptedSubject& it, shardproof_reply*) {
            const shardproof_harness& harness = it.harness();
            std::uint32_t stream = 0;
            CHECK(harness.create_stream(it.engine_context->device, SHARDPROOF_STREAM_ALL_GATHER, "gathers", &stream) ==
                  0);
            shardproof_buffer *gathered = nullptr, *own = nullptr;
            CHECK(harness.allocate(it.engine_context->device, stream, 8, SHARDPROOF_MEMORY_OTHER, "?", &gathered) == 0);
            CHECK(harness.bytes(gathered) == 8);
            CHECK(harness.describe(it.engine_context->device, gathered, SHARDPROOF_MEMORY_GATHERED, "0") == 0);
            CHECK(harness.adopt(it.engine_context->device, 0, it.values.data(), 4, SHARDPROOF_MEMORY_SHARD,
                                "0.linear.weight", &own) == 0);
            CHECK(harness.data(own) == it.values.data());
            CHECK(harness.release(it.engine_context->device, stream, gathered) == 0);
            CHECK(harness.release(it.engine_context->device, 0, own) == 0);
            CHECK(harness.data(own) == nullptr);
            return 0;
          })
          .ok());
  CHECK(alone.scripted.values[0] == 1);
  CHECK(alone.device.trace().facts ==
        std::vector<Fact>{fact::StreamCreated{1, StreamRole::all_gather, "gathers"},
                          fact::Allocated{1, 1, 8, MemoryClass::gathered, "0"},
                          fact::Allocated{0, 2, 4, MemoryClass::shard, "0.linear.weight", true}, fact::Released{1, 1},
                          fact::Released{0, 2}});
}

TEST_CASE("a use of the subject's own memory after it is released is a race") {
  const auto races = [](auto release) {
    Alone alone;
    CHECK(alone
              .perform([&](ScriptedSubject& it, shardproof_reply*) {
                const shardproof_harness& harness = it.harness();
                shardproof_device* const device = it.engine_context->device;
                std::uint32_t side = 0;
                shardproof_buffer* mine = nullptr;
                std::uint64_t ready = 0;
                CHECK(harness.create_stream(device, SHARDPROOF_STREAM_OTHER, "side", &side) == 0);
                CHECK(harness.adopt(device, 0, it.values.data(), 64, SHARDPROOF_MEMORY_OTHER, "mine", &mine) == 0);
                CHECK(harness.record(device, 0, &ready) == 0);
                CHECK(harness.wait(device, side, ready) == 0);
                const shardproof_span all{.buffer = mine, .offset = 0, .count = 16, .dtype = f32};
                const shardproof_work work{
                    .kind = SHARDPROOF_WORK_OTHER, .label = "late", .reads = &all, .read_count = 1};
                CHECK(harness.submit(device, side, &work) == 0);
                return release(harness)(device, 0, mine);
              })
              .ok());
    return trace::find_races(alone.device.trace()).size();
  };
  CHECK(races([](const shardproof_harness& harness) { return harness.release; }) == 1);
  CHECK(races([](const shardproof_harness& harness) { return harness.release_to_cache; }) ==
        0);  // no work has asked for the memory yet
}

TEST_CASE("what is wrong with a buffer is said") {
  Alone alone, other;
  REQUIRE(other.create().ok());
  shardproof_buffer* const foreign = allocated(other.scripted, 4, "foreign");
  shardproof_buffer* gone = nullptr;
  REQUIRE(alone
              .perform([&](ScriptedSubject& it, shardproof_reply*) {
                gone = allocated(it, 4, "gone");
                return it.harness().release(it.engine_context->device, 0, gone);
              })
              .ok());
  const auto objection = [&](auto call) { return alone.objection(call); };
  CHECK(objection([&](auto& harness, auto* device) { return harness.release(device, 0, gone); }) ==
        "release: buffer 1 \"gone\" was released, or let go of, before");
  CHECK(objection([&](auto& harness, auto* device) {
          return harness.release_to_cache(device, 0, allocated(alone.scripted, 4));
        }) == "release_to_cache on rank 0: buffer 2 \"mine\" was allocated here, not adopted: release it");
  CHECK(objection([&](auto& harness, auto* device) { return harness.release(device, 0, foreign); }) ==
        "release: it is not a buffer of this device");
  CHECK(objection([&](auto& harness, auto* device) { return harness.release(device, 0, nullptr); }) ==
        "release: it is NULL");
  CHECK(objection([&](auto& harness, auto* device) {
          return harness.describe(device, gone, SHARDPROOF_MEMORY_SHARD, "x");
        }) == "describe: buffer 1 \"gone\" was released, or let go of, before");
  CHECK(objection([&](auto& harness, auto* device) {
          shardproof_buffer* buffer = nullptr;
          return harness.allocate(device, 0, 4, 1000, "x", &buffer);
        }) == "allocate: 1000 is no class of memory: shardproof.h has 0 to 8");
  CHECK(objection([&](auto& harness, auto* device) {
          shardproof_buffer* buffer = nullptr;
          return harness.allocate(device, 0, 4, SHARDPROOF_MEMORY_OTHER, nullptr, &buffer);
        }) == "allocate: the label: it is NULL");
  CHECK(objection([&](auto& harness, auto* device) {
          return harness.allocate(device, 0, 4, SHARDPROOF_MEMORY_OTHER, "x", nullptr);
        }) == "allocate: the pointer for the buffer: it is NULL");
  CHECK(objection([&](auto& harness, auto* device) {
          std::uint32_t stream = 0;
          return harness.create_stream(device, 1000, "x", &stream);
        }) == "create_stream: 1000 is no role of a stream: shardproof.h has 0 to 5");
  CHECK(objection([&](auto& harness, auto* device) { return harness.synchronize_stream(device, 3); }) ==
        "synchronize_stream: there is no stream 3; the subject has made 0");
  CHECK(objection([&](auto& harness, auto* device) { return harness.wait(device, 0, 5); }) ==
        "wait on rank 0: event 5 was never recorded on this device");
  CHECK(other.scripted.harness().release(nullptr, 0, foreign) != 0);
}

TEST_CASE("a batch is lent: until a forward after its backward has succeeded, or until the call returns") {
  Alone alone;
  std::vector<shardproof_buffer*> inputs;
  const auto keep = [&](ScriptedSubject& it, shardproof_reply*) {
    inputs.push_back(it.input.buffer);
    return 0;
  };
  const auto fail = [&](ScriptedSubject& it, shardproof_reply*) {
    inputs.push_back(it.input.buffer);
    return 1;
  };
  const auto is_there = [&](std::size_t i) { return alone.scripted.harness().data(inputs.at(i)) != nullptr; };
  CHECK(alone.perform(keep, ActionKind::forward, batch_on(alone.device)).ok());
  CHECK(is_there(0));
  CHECK(alone.device.live_bytes() == 32);
  CHECK(alone.perform(keep, ActionKind::evaluate, batch_on(alone.device)).ok());
  CHECK_FALSE(alone.perform(fail, ActionKind::forward, batch_on(alone.device)).ok());
  CHECK(is_there(0));
  CHECK_FALSE(is_there(1));
  CHECK_FALSE(is_there(2));
  CHECK(alone.device.live_bytes() == 32);
  CHECK(alone.perform(keep, ActionKind::forward, batch_on(alone.device)).ok());
  CHECK(is_there(0));
  CHECK(is_there(3));
  CHECK_FALSE(alone.perform(fail, ActionKind::backward, {}).ok());
  CHECK(alone.perform(keep, ActionKind::forward, batch_on(alone.device)).ok());
  CHECK(is_there(0));
  CHECK(alone.perform(keep, ActionKind::backward, {}).ok());
  CHECK(is_there(0));
  CHECK(alone.perform(keep, ActionKind::forward, batch_on(alone.device)).ok());
  CHECK_FALSE(is_there(0));
  CHECK_FALSE(is_there(3));
  CHECK_FALSE(is_there(5));
  CHECK(is_there(7));
  CHECK(alone.objection([&](auto& harness, auto* device) { return harness.release(device, 0, inputs[7]); }) ==
        "release: buffer 6 \"input\" belongs to the harness, which only lends it");
  alone.trainer.reset();
  CHECK(alone.device.live_bytes() == 0);
}

TEST_CASE("what a trainer has not released counts as left alive when it is gone") {
  Alone alone;
  REQUIRE(alone
              .perform([](ScriptedSubject& it, shardproof_reply*) {
                allocated(it, 100);
                return it.harness().release(it.engine_context->device, 0, allocated(it, 10));
              })
              .ok());
  alone.trainer.reset();
  CHECK(alone.device.live_bytes() == 100);
  REQUIRE(alone.create().ok());
  CHECK(alone.device.live_bytes() == 0);
}
