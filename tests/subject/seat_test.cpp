// The harness's functions as a subject in C calls them, rightly and wrongly.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "harness/device/wrappers.hpp"
#include "harness/scenario/player.hpp"
#include "harness/trace/races.hpp"
#include "tests/engines/thread_ranks.hpp"
#include "tests/scenario/simulated.hpp"
#include "tests/subject/alone.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using shardproof::testing::Alone;
using shardproof::testing::ScriptedSubject;

namespace {

constexpr DLDataType f32{kDLFloat, 32, 1};

shardproof_buffer* allocated(ScriptedSubject& it, std::size_t bytes, const char* label = "mine") {
  shardproof_buffer* buffer = nullptr;
  const int status = it.harness().allocate(it.seat->device, 0, bytes, SHARDPROOF_MEMORY_OTHER, label, &buffer);
  if (status != 0) throw std::runtime_error(it.error());
  return buffer;
}

Batch batch_on(Device& device) {
  return {.input = device.empty(Device::compute, DType::f32, {2, 4}, MemoryClass::activation, "input"), .targets = {}};
}

}  // namespace

// -- Buffers ------------------------------------------------------------------------------------------------------------------------------

TEST_CASE("memory is allocated, described and released, and all of it is told") {
  Alone alone;
  CHECK(alone
            .perform([&](ScriptedSubject& it, shardproof_reply*) {
              const shardproof_harness& harness = it.harness();
              std::uint32_t stream = 0;
              CHECK(harness.create_stream(it.seat->device, SHARDPROOF_STREAM_ALL_GATHER, "gathers", &stream) == 0);
              shardproof_buffer *gathered = nullptr, *own = nullptr;
              CHECK(harness.allocate(it.seat->device, stream, 8, SHARDPROOF_MEMORY_OTHER, "?", &gathered) == 0);
              CHECK(harness.bytes(gathered) == 8);
              CHECK(harness.describe(it.seat->device, gathered, SHARDPROOF_MEMORY_GATHERED, "0") == 0);
              CHECK(harness.adopt(it.seat->device, 0, it.values.data(), 4, SHARDPROOF_MEMORY_SHARD, "0.linear.weight", &own) == 0);
              CHECK(harness.data(own) == it.values.data());
              CHECK(harness.release(it.seat->device, stream, gathered) == 0);
              CHECK(harness.release(it.seat->device, 0, own) == 0);
              CHECK(harness.data(own) == nullptr);
              return 0;
            })
            .ok());
  CHECK(alone.scripted.values[0] == 1);
  CHECK(alone.device.trace().facts == std::vector<Fact>{fact::StreamCreated{1, StreamRole::all_gather, "gathers"},
                                                        fact::Allocated{1, 1, 8, MemoryClass::gathered, "0"},
                                                        fact::Allocated{0, 2, 4, MemoryClass::shard, "0.linear.weight", true},
                                                        fact::Released{1, 1}, fact::Released{0, 2}});
}

TEST_CASE("memory of the subject's own that it still uses when it is anybody's is a race") {
  const auto races = [](auto release) {
    Alone alone;
    CHECK(alone
              .perform([&](ScriptedSubject& it, shardproof_reply*) {
                const shardproof_harness& harness = it.harness();
                shardproof_device* const device = it.seat->device;
                std::uint32_t side = 0;
                shardproof_buffer* mine = nullptr;
                std::uint64_t ready = 0;
                CHECK(harness.create_stream(device, SHARDPROOF_STREAM_OTHER, "side", &side) == 0);
                CHECK(harness.adopt(device, 0, it.values.data(), 64, SHARDPROOF_MEMORY_OTHER, "mine", &mine) == 0);
                CHECK(harness.record(device, 0, &ready) == 0);
                CHECK(harness.wait(device, side, ready) == 0);
                const shardproof_span all{.buffer = mine, .offset = 0, .count = 16, .dtype = f32};
                const shardproof_work work{.kind = SHARDPROOF_WORK_OTHER, .label = "late", .reads = &all, .read_count = 1};
                CHECK(harness.submit(device, side, &work) == 0);
                return release(harness)(device, 0, mine);
              })
              .ok());
    return trace::find_races(alone.device.trace()).size();
  };
  CHECK(races([](const shardproof_harness& harness) { return harness.release; }) == 1);
  CHECK(races([](const shardproof_harness& harness) { return harness.release_to_cache; }) == 0);  // nobody has asked for it yet
}

TEST_CASE("what is wrong with a buffer is said") {
  Alone alone, other;
  REQUIRE(other.create().ok());
  shardproof_buffer* const foreign = allocated(other.scripted, 4, "foreign");
  shardproof_buffer* gone = nullptr;
  REQUIRE(alone
              .perform([&](ScriptedSubject& it, shardproof_reply*) {
                gone = allocated(it, 4, "gone");
                return it.harness().release(it.seat->device, 0, gone);
              })
              .ok());
  const auto objection = [&](auto call) { return alone.objection(call); };
  CHECK(objection([&](auto& harness, auto* device) { return harness.release(device, 0, gone); }) ==
        "release: buffer 1 \"gone\" was released, or let go of, before");
  CHECK(objection([&](auto& harness, auto* device) { return harness.release_to_cache(device, 0, allocated(alone.scripted, 4)); }) ==
        "release_to_cache on rank 0: buffer 2 \"mine\" was allocated here, not adopted: release it");
  CHECK(objection([&](auto& harness, auto* device) { return harness.release(device, 0, foreign); }) ==
        "release: that is no buffer of this device");
  CHECK(objection([&](auto& harness, auto* device) { return harness.release(device, 0, nullptr); }) == "release: it is NULL");
  CHECK(objection([&](auto& harness, auto* device) { return harness.describe(device, gone, SHARDPROOF_MEMORY_SHARD, "x"); }) ==
        "describe: buffer 1 \"gone\" was released, or let go of, before");
  CHECK(objection([&](auto& harness, auto* device) {
          shardproof_buffer* buffer = nullptr;
          return harness.allocate(device, 0, 4, 1000, "x", &buffer);
        }) == "allocate: 1000 is no class of memory: shardproof.h has 0 to 8");
  CHECK(objection([&](auto& harness, auto* device) {
          shardproof_buffer* buffer = nullptr;
          return harness.allocate(device, 0, 4, SHARDPROOF_MEMORY_OTHER, nullptr, &buffer);
        }) == "allocate: the label: it is NULL");
  CHECK(objection([&](auto& harness, auto* device) { return harness.allocate(device, 0, 4, SHARDPROOF_MEMORY_OTHER, "x", nullptr); }) ==
        "allocate: where to say which buffer: it is NULL");
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

TEST_CASE("a batch is lent: until the next forward has succeeded, or until the call returns") {
  using scenario::ActionKind;
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
  CHECK_FALSE(is_there(0));
  CHECK(is_there(3));
  CHECK(alone.objection([&](auto& harness, auto* device) { return harness.release(device, 0, inputs[3]); }) ==
        "release: buffer 4 \"input\" is the harness's, which has only lent it");
  alone.trainer.reset();
  CHECK(alone.device.live_bytes() == 0);
}

TEST_CASE("what a trainer has not released counts as left alive when it is gone") {
  Alone alone;
  REQUIRE(alone
              .perform([](ScriptedSubject& it, shardproof_reply*) {
                allocated(it, 100);
                return it.harness().release(it.seat->device, 0, allocated(it, 10));
              })
              .ok());
  alone.trainer.reset();
  CHECK(alone.device.live_bytes() == 100);
  REQUIRE(alone.create().ok());
  CHECK(alone.device.live_bytes() == 0);
}

// -- Tensors ------------------------------------------------------------------------------------------------------------------------------

TEST_CASE("a tensor is looked at before it is believed") {
  struct Flaw {
    std::function<void(ScriptedSubject&, shardproof_tensor&)> make;
    std::string said;
  };
  const Flaw flaw = GENERATE(
      Flaw{[](auto&, auto& it) { it.view.dtype.code = kDLComplex; },
           "the loss: dtype of code 5, 32 bits, 1 lanes is none that tensors have here: float of 64, 32 or 16 bits"},
      Flaw{[](auto&, auto& it) { it.view.dtype.lanes = 4; }, "the loss: dtype of code 2, 32 bits, 4 lanes is none"},
      Flaw{[](auto&, auto& it) { it.view.data = nullptr; }, "the loss, f32 [1, 2]: it has elements and no data"},
      Flaw{[](auto&, auto& it) { it.view.ndim = -1; }, "the loss: -1 dimensions without a shape"},
      Flaw{[](auto&, auto& it) { it.view.ndim = 33; }, "the loss: 33 dimensions; there may be 32"},
      Flaw{[](auto& subject, auto& it) {
             it.buffer = nullptr;
             it.view.data = reinterpret_cast<std::byte*>(subject.values.data()) + 2;
           },
           "the loss, f32 [1, 2]: it begins at 0x"},
      Flaw{[](auto&, auto& it) {
             it.buffer = nullptr;
             it.view.byte_offset = ~std::uint64_t{0} - 3;
           },
           "the loss, f32 [1, 2]: it ends behind the last address"},
      Flaw{[](auto&, auto& it) {
             it.buffer = nullptr;
             it.view.data = reinterpret_cast<void*>(~std::uintptr_t{7});
             it.view.byte_offset = 4;
           },
           "the loss, f32 [1, 2]: it ends behind the last address"},
      Flaw{[](auto&, auto& it) { it.view.shape = nullptr; }, "the loss: 2 dimensions without a shape"},
      Flaw{[](auto& subject, auto&) { subject.shape = {1, -2}; }, "shape [1, -2] has a negative size"},
      Flaw{[](auto& subject, auto& it) {
             subject.shape = {2, 2};
             static std::array<std::int64_t, 2> strides{1, 2};
             it.view.strides = strides.data();
           },
           "the loss, f32 [2, 2]: strides [1, 2]: its elements have to lie row-major without gaps"},
      Flaw{[](auto&, auto& it) { it.view.byte_offset = 12; }, "the loss, f32 [1, 2]: its 8 bytes are at 0x"},
      Flaw{[](auto&, auto& it) { it.view.byte_offset = 2; }, "the loss: tensor f32 [1, 2] cannot start at byte 2"},
      Flaw{[](auto& subject, auto& it) { it.view.data = subject.values.data(); }, "the loss, f32 [1, 2]: its 8 bytes are at 0x"},
      Flaw{[](auto&, auto& it) { it.view.device = {kDLCUDA, 0}; },
           "the loss, f32 [1, 2]: device type 2; buffer 1 \"mine\" is memory of the host"},
      Flaw{[](auto&, auto& it) {
             it.buffer = nullptr;
             it.view.device = {kDLCUDA, 0};
           },
           "the loss, f32 [1, 2]: it names no buffer, yet is no host memory: device type 2"},
      Flaw{[](auto&, auto& it) { it.buffer = reinterpret_cast<shardproof_buffer*>(&it); }, "the loss: that is no buffer of this device"},
      Flaw{[](auto& subject, auto& it) { subject.harness().release(subject.seat->device, 0, it.buffer); },
           "the loss: buffer 1 \"mine\" was released, or let go of, before"});
  Alone alone;
  REQUIRE(alone.create().ok());
  shardproof_buffer* const buffer = allocated(alone.scripted, 16);
  alone.scripted.shape = {1, 2};
  alone.scripted.the_loss = ScriptedSubject::of_host(static_cast<float*>(alone.scripted.harness().data(buffer)), alone.scripted.shape);
  alone.scripted.the_loss.buffer = buffer;
  Tensor loss;
  REQUIRE(alone.trainer->loss(loss).ok());
  CHECK(loss.range() == ByteRange{1, 0, 8});
  flaw.make(alone.scripted, alone.scripted.the_loss);
  CHECK_THAT(alone.trainer->loss(loss).error, StartsWith(flaw.said));
}

TEST_CASE("a tensor may be host memory, have no elements, no dimensions, or not be there") {
  Alone alone;
  REQUIRE(alone.create().ok());
  Tensor loss;
  REQUIRE(alone.trainer->loss(loss).ok());
  CHECK(loss.shape().empty());
  CHECK(loss.to_doubles() == std::vector<double>{1});
  alone.scripted.the_loss = {};
  REQUIRE(alone.trainer->loss(loss).ok());
  CHECK_FALSE(loss.defined());
  alone.scripted.shape = {0, 4};
  alone.scripted.the_loss = ScriptedSubject::of_host(nullptr, alone.scripted.shape);
  REQUIRE(alone.trainer->loss(loss).ok());
  CHECK(loss.shape() == Shape{0, 4});
  // Of a dimension of size one no stride is ever taken.
  std::array<std::int64_t, 2> strides{77, 1};
  alone.scripted.shape = {1, 4};
  alone.scripted.the_loss = ScriptedSubject::of_host(alone.scripted.values.data() + 4, alone.scripted.shape);
  alone.scripted.the_loss.view.strides = strides.data();
  alone.scripted.the_loss.view.byte_offset = 4;
  REQUIRE(alone.trainer->loss(loss).ok());
  CHECK(loss.to_doubles() == std::vector<double>{6, 7, 8, 9});
}

TEST_CASE("a parameter is one of the model's, and what is given of it fits") {
  struct Flaw {
    std::function<void(ScriptedSubject&, shardproof_parameter&)> make;
    std::string said;
  };
  static std::array<std::int64_t, 2> other{4, 3};
  static std::array<std::int64_t, 1> flat{16};
  const auto of = [](ScriptedSubject& it, auto& shape) { return ScriptedSubject::of_host(it.values.data(), shape); };
  const std::string it = "parameter \"0.linear.weight\"";
  const Flaw flaw = GENERATE_COPY(
      Flaw{[](auto&, auto& view) { view.name = nullptr; }, "parameter 0 of those it has is without a name"},
      Flaw{[](auto&, auto& view) { view.name = "head.weight"; }, "parameter \"head.weight\": the model has none of this name"},
      Flaw{[](auto&, auto& view) { view.shape = other.data(); }, it + ": its logical shape is [4, 3], that of the model [4, 4]"},
      Flaw{[](auto&, auto& view) { view.shape = nullptr; }, it + ": 2 dimensions without a shape"},
      Flaw{[](auto&, auto& view) { view.ndim = 33; }, it + ": 33 dimensions; there may be 32"},
      Flaw{[](auto&, auto& view) { view.dim = 2; }, it + ": there is no dimension 2"},
      Flaw{[](auto&, auto& view) { view.start = 1; }, it + ": its shard of 4 rows from 1 on is no part of the 4 along dimension 0"},
      Flaw{[](auto&, auto& view) { view.start = -1; }, it + ": its shard of 4 rows from -1 on is no part of the 4 along dimension 0"},
      Flaw{[](auto&, auto& view) { view.shard.view.shape = other.data(); },
           it + ": its shard is [4, 3], which is no part of [4, 4] along dimension 0"},
      Flaw{[&](auto& self, auto& view) { view.shard = of(self, flat); },
           it + ": its shard is [16], which is no part of [4, 4] along dimension 0"},
      Flaw{[](auto&, auto& view) { view.shard.view.dtype = {kDLInt, 32, 1}; }, it + ": its shard is i32; shards stay f32"},
      Flaw{[](auto&, auto& view) { view.shard.view.data = nullptr; }, it + ", shard, f32 [4, 4]: it has elements and no data"},
      Flaw{[&](auto& self, auto& view) { view.gradient = of(self, other); }, it + ": its gradient is f32 [4, 3], its shard f32 [4, 4]"},
      Flaw{[&](auto& self, auto& view) {
             view.second = of(self, self.shape);
             view.second.view.dtype = {kDLInt, 32, 1};
           },
           it + ": its second tensor is i32 [4, 4], its shard f32 [4, 4]"});
  Alone alone;
  REQUIRE(alone.create().ok());
  std::vector<ParameterView> views;
  REQUIRE(alone.trainer->parameters(views).ok());
  REQUIRE(views.size() == 1);
  CHECK(views[0].shard.to_doubles().back() == 16);
  flaw.make(alone.scripted, alone.scripted.the_parameters[0]);
  CHECK(alone.trainer->parameters(views).error == flaw.said);
}

TEST_CASE("a parameter may be meta, have no rows here, or be a part along any dimension") {
  Alone alone;
  REQUIRE(alone.create().ok());
  std::vector<ParameterView> views;
  shardproof_parameter& given = alone.scripted.the_parameters[0];
  std::array<std::int64_t, 2> part{4, 1}, nothing{0, 4}, whole{4, 4};
  given.shape = whole.data();
  given.dim = 1;
  given.start = 3;
  given.shard = given.gradient = ScriptedSubject::of_host(alone.scripted.values.data(), part);
  REQUIRE(alone.trainer->parameters(views).ok());
  CHECK(views[0].gradient.shape() == Shape{4, 1});
  given.dim = 0;
  given.start = 4;
  given.shard = ScriptedSubject::of_host(nullptr, nothing);
  given.gradient = {};
  REQUIRE(alone.trainer->parameters(views).ok());
  CHECK(views[0].shard.numel() == 0);
  given.shard = {};
  REQUIRE(alone.trainer->parameters(views).ok());
  CHECK_FALSE(views[0].shard.defined());
  alone.scripted.table.parameters = [](shardproof_trainer*, const shardproof_parameter**, std::size_t* count, shardproof_reply*) {
    *count = 2;
    return 0;
  };
  CHECK(alone.trainer->parameters(views).error == "2 parameters, at NULL");
}

// -- Work ---------------------------------------------------------------------------------------------------------------------------------

namespace {

struct Doubling {
  float* values;
  int calls = 0;
  int result = 0;
  const shardproof_harness* harness;
};

int run_doubling(void* context, void* native, shardproof_reply* reply) {
  auto& doubling = *static_cast<Doubling*>(context);
  CHECK(native == nullptr);
  ++doubling.calls;
  if (doubling.result == 2) throw std::runtime_error("overflow");
  if (doubling.result != 0) doubling.harness->fail(reply, "singular");
  for (int i = 0; i < 4; ++i) doubling.values[i] *= 2;
  return doubling.result;
}

}  // namespace

TEST_CASE("work is done once, and told with what it touches and costs") {
  Alone alone;
  REQUIRE(alone
              .perform([](ScriptedSubject& it, shardproof_reply*) {
                shardproof_buffer* const buffer = allocated(it, 32);
                const shardproof_span half{.buffer = buffer, .offset = 16, .count = 4, .dtype = f32},
                    none{.buffer = nullptr, .count = 0, .dtype = f32};
                const std::array reads{half, none};
                auto* const values = static_cast<float*>(it.harness().data(buffer));
                std::fill_n(values, 8, 1.5F);
                Doubling doubling{.values = values, .harness = &it.harness()};
                shardproof_work work{.kind = SHARDPROOF_WORK_BACKWARD,
                                     .label = "0",
                                     .reads = reads.data(),
                                     .writes = &half,
                                     .read_count = 2,
                                     .write_count = 1,
                                     .cost_ns = 70,
                                     .run = run_doubling,
                                     .context = &doubling};
                CHECK(it.harness().submit(it.seat->device, 0, &work) == 0);
                CHECK(doubling.calls == 1);
                CHECK(values[3] == 3);
                work.run = nullptr;
                CHECK(it.harness().submit(it.seat->device, 0, &work) == 0);
                CHECK(it.harness().host_access(it.seat->device, "looks", &half, 1, nullptr, 0) == 0);
                return it.harness().release(it.seat->device, 0, buffer);
              })
              .ok());
  const auto& facts = alone.device.trace().facts;
  const std::vector<ByteRange> half{{1, 16, 16}};
  CHECK(facts.at(1) == Fact{fact::Work{0, WorkKind::backward, "0", 0, 70, half, half}});
  CHECK(std::get<fact::Work>(facts.at(2)).end == 140);
  CHECK(facts.at(3) == Fact{fact::HostAccess{"looks", half, {}}});
}

TEST_CASE("work that fails or throws is an error of submit, and what is wrong with work is said") {
  Alone alone;
  const auto submit = [&](const std::function<void(shardproof_work&, shardproof_span&, Doubling&)>& make) {
    std::string said = "nothing";
    alone.perform([&](ScriptedSubject& it, shardproof_reply*) {
      shardproof_buffer* const buffer = allocated(it, 32);
      Doubling doubling{.values = it.values.data(), .harness = &it.harness()};
      shardproof_span span{.buffer = buffer, .offset = 0, .count = 8, .dtype = f32};
      shardproof_work work{
          .kind = SHARDPROOF_WORK_OTHER, .label = "0", .reads = &span, .read_count = 1, .run = run_doubling, .context = &doubling};
      make(work, span, doubling);
      if (it.harness().submit(it.seat->device, 0, &work) != 0) said = it.error();
      it.harness().release(it.seat->device, 0, buffer);
      return 0;
    });
    return said;
  };
  CHECK(submit([](auto&, auto&, auto&) {}) == "nothing");
  CHECK(submit([](auto&, auto&, auto& doubling) { doubling.result = 1; }) == "other \"0\": singular");
  CHECK(submit([](auto&, auto&, auto& doubling) { doubling.result = 2; }) == "other \"0\": it has thrown across the boundary: overflow");
  CHECK(submit([](auto& work, auto&, auto&) { work.label = nullptr; }) == "submit: the label: it is NULL");
  CHECK(submit([](auto& work, auto&, auto&) { work.kind = 1000; }) == "submit \"0\": 1000 is no kind of work: shardproof.h has 0 to 9");
  CHECK(submit([](auto& work, auto&, auto&) { work.reads = nullptr; }) == "submit \"0\": reads: it is NULL");
  CHECK(submit([](auto& work, auto&, auto&) { work.cost_ns = -1; }) == "submit \"0\": it costs -1 ns, on top of what the scenario says");
  CHECK_THAT(submit([](auto&, auto& span, auto&) { span.count = 9; }),
             StartsWith("submit \"0\": reads[0]: 9 elements f32 from byte 0 on; buffer ") && ContainsSubstring("\"mine\" has 32 bytes"));
  CHECK_THAT(submit([](auto&, auto& span, auto&) { span.offset = 33, span.count = 0; }),
             StartsWith("submit \"0\": reads[0]: 0 elements f32 from byte 33 on"));
  CHECK_THAT(submit([](auto&, auto& span, auto&) { span.count = ~std::uint64_t{0}; }), StartsWith("submit \"0\": reads[0]: 1844674407"));
  CHECK_THAT(submit([](auto&, auto& span, auto&) { span.offset = 2, span.count = 1; }), ContainsSubstring("cannot start at byte 2"));
  CHECK(submit([](auto&, auto& span, auto&) { span.buffer = nullptr; }) == "submit \"0\": reads[0]: 8 elements, and no buffer");
  CHECK_THAT(submit([](auto&, auto& span, auto&) { span.dtype.bits = 4; }), StartsWith("submit \"0\": reads[0]: dtype of code 2, 4 bits"));
}

TEST_CASE("work that is run when submit has returned is refused: what it works on may be gone") {
  class Procrastinating final : public DeviceWrapper {
   public:
    using DeviceWrapper::DeviceWrapper;
    void submit(Stream, Work work) override { later = std::move(work.run); }
    std::function<void(const Kernels&, NativeStream)> later;
  };
  Alone alone;
  Procrastinating device(alone.device);
  REQUIRE(alone.subject->create(alone.scenario.model, alone.scenario.plan, {device, *alone.world, 0}, alone.trainer).ok());
  Doubling doubling{.values = alone.scripted.values.data(), .harness = &alone.scripted.harness()};
  const shardproof_work work{.kind = SHARDPROOF_WORK_OTHER, .label = "0", .run = run_doubling, .context = &doubling};
  CHECK(alone.scripted.harness().submit(alone.scripted.seat->device, 0, &work) == 0);
  CHECK_THROWS_WITH(device.later(cpu_kernels(), nullptr), "submit \"0\": it is run after submit has returned");
  CHECK(doubling.calls == 0);
}

// -- Collectives --------------------------------------------------------------------------------------------------------------------------

namespace {

/// One collective of four floats, in place unless told otherwise.
int collective(ScriptedSubject& it, shardproof_group* group, shardproof_buffer* buffer, shardproof_collective asked) {
  const shardproof_span span{.buffer = buffer, .offset = 0, .count = 4, .dtype = f32};
  asked.in = asked.out = span;
  if (asked.tag == nullptr) asked.tag = "0";
  return it.harness().run(group, 0, &asked);
}

/// What a rank sees that should not be. Catch2 does not count what several threads check.
class Witness {
 public:
  void operator()(bool holds, const char* what) {
    if (!holds) objections_.emplace_back(what);
  }
  const std::vector<std::string>& objections() const { return objections_; }

 private:
  std::vector<std::string> objections_;
};

/// Plays a forward on ranks that are threads, each with a subject that does this in it. What one of them has to object to.
std::vector<std::string> play_on(int ranks, const std::function<int(ScriptedSubject&, Witness&)>& forward) {
  std::vector<Witness> witnesses(static_cast<std::size_t>(ranks));
  on_thread_ranks(ranks, [&](int rank, Group& group) {
    ScriptedSubject scripted;
    scripted.perform = [&](ScriptedSubject& it, shardproof_reply*) { return forward(it, witnesses[static_cast<std::size_t>(rank)]); };
    const auto subject = foreign_subject(&scripted.table, "here");
    scenario::Scenario scenario = scenario::sleeping_stack(1);
    scenario.script.segments = {{.body = {{.kind = scenario::ActionKind::forward}}}};
    shardproof::testing::play_simulated(scenario, *subject, group, rank);
  });
  std::vector<std::string> all;
  for (const Witness& witness : witnesses) all.insert(all.end(), witness.objections().begin(), witness.objections().end());
  return all;
}

}  // namespace

TEST_CASE("ranks communicate, in the world and in parts of it") {
  const auto objections = play_on(3, [](ScriptedSubject& it, Witness& must) {
    const shardproof_harness& harness = it.harness();
    shardproof_group* const world = it.seat->world;
    must(harness.group_rank(world) == it.seat->rank, "its rank");
    must(harness.group_size(world) == 3, "all ranks");
    must(harness.group_members(world)[2] == 2, "the last rank");
    shardproof_buffer* const buffer = allocated(it, 16);
    auto* const values = static_cast<float*>(harness.data(buffer));
    std::fill_n(values, 4, static_cast<float>(it.seat->rank + 1));
    must(collective(it, world, buffer, {.kind = SHARDPROOF_ALL_REDUCE, .op = SHARDPROOF_OP_SUM, .root = 5}) == 0, "an all-reduce");
    must(values[3] == 6, "the sum");

    // Of no account but at the root.
    const shardproof_span all{.buffer = buffer, .offset = 0, .count = 4, .dtype = f32}, none{.dtype = f32};
    std::fill_n(values, 4, static_cast<float>(it.seat->rank));
    const shardproof_collective from_last{
        .kind = SHARDPROOF_BROADCAST, .root = 2, .in = it.seat->rank == 2 ? all : none, .out = all, .tag = "0"};
    must(harness.run(world, 0, &from_last) == 0, "a broadcast");
    must(values[0] == 2, "what the last rank had");

    const shardproof_collective barrier{.kind = SHARDPROOF_BARRIER, .tag = "end"};
    must(harness.run(world, 0, &barrier) == 0, "a barrier");
    shardproof_group* part = world;
    must(harness.split(world, it.seat->rank == 0 ? -1 : 0, -it.seat->rank, "last two", &part) == 0, "a split");
    must((part == nullptr) == (it.seat->rank == 0), "no part for the first rank");
    if (part != nullptr) {
      must(harness.group_rank(part) == 2 - it.seat->rank, "its rank in the part");
      must(harness.group_members(part)[0] == 2, "the part's first rank");
      must(collective(it, part, buffer, {.kind = SHARDPROOF_ALL_REDUCE, .op = SHARDPROOF_OP_PREMUL_SUM, .factor = 0.5}) == 0, "halves");
      must(values[0] == 2, "the sum of halves");
      harness.drop_group(part);
      must(harness.group_members(part) == nullptr, "that the part has gone");
    }
    return harness.release(it.seat->device, 0, buffer);
  });
  CHECK(objections == std::vector<std::string>{});
}

TEST_CASE("what ranks disagree about is told as it is, whatever the subject makes of it") {
  const bool ignores = GENERATE(true, false);
  CHECK_THROWS_WITH(play_on(2,
                            [&](ScriptedSubject& it, Witness&) {
                              const auto op = it.seat->rank == 0 ? SHARDPROOF_OP_MAX : SHARDPROOF_OP_MIN;
                              const int failed =
                                  collective(it, it.seat->world, allocated(it, 16), {.kind = SHARDPROOF_ALL_REDUCE, .op = op});
                              return ignores ? 0 : failed;
                            }),
                    ContainsSubstring("(max)") && ContainsSubstring("(min)") && !StartsWith("subject: "));
}

TEST_CASE("what is wrong with a collective or a group is said") {
  Alone alone;
  shardproof_group* world = nullptr;
  const auto run = [&](shardproof_collective asked) {
    return alone.objection([&](auto&, auto*) {
      world = alone.scripted.seat->world;
      return collective(alone.scripted, world, nullptr, asked);
    });
  };
  CHECK(run({.kind = 1000}) == "run \"0\": 1000 is no kind of collective: shardproof.h has 0 to 5");
  CHECK(run({.kind = SHARDPROOF_ALL_REDUCE, .op = 1000}) == "run \"0\": 1000 is no operation: shardproof.h has 0 to 5");
  CHECK(run({.kind = SHARDPROOF_ALL_REDUCE, .op = SHARDPROOF_OP_SUM}) == "run \"0\": out: 4 elements, and no buffer");
  CHECK_THAT(run({.kind = SHARDPROOF_BARRIER}), ContainsSubstring("a group of one rank has nobody to talk to"));
  CHECK(alone.objection([&](auto& harness, auto*) {
    harness.drop_group(world);
    return 1;
  }) == "drop_group: the group of the whole world is the harness's");
  CHECK(alone.objection([&](auto& harness, auto*) {
    shardproof_group* part = nullptr;
    CHECK(harness.split(world, 0, 0, "me", &part) == 0);
    harness.drop_group(part);
    return harness.split(part, 0, 0, "again", &part);
  }) == "split: this group was dropped before");
  CHECK(alone.objection([&](auto& harness, auto*) { return harness.split(world, 0, 0, "me", nullptr); }) ==
        "split: where to say which group: it is NULL");
}
