// Work that a subject in C puts on streams, rightly and wrongly.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/device/wrappers.hpp"
#include "tests/subject/alone.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using shardproof::testing::allocated;
using shardproof::testing::Alone;
using shardproof::testing::f32;
using shardproof::testing::ScriptedSubject;

namespace {

struct Doubling {
  float* values;
  int calls = 0;
  shardproof_status result = SHARDPROOF_OK;
  const shardproof_harness* harness;
};

shardproof_status run_doubling(void* context, void* native, shardproof_reply* reply) {
  auto& doubling = *static_cast<Doubling*>(context);
  CHECK(native == nullptr);
  ++doubling.calls;
  if (doubling.result == 2) throw std::runtime_error("overflow");
  if (doubling.result != 0) doubling.harness->fail(reply, "singular");
  for (int i = 0; i < 4; ++i) doubling.values[i] *= 2;
  return doubling.result;
}

}  // namespace

TEST_CASE("work runs once, and is recorded with its operands and cost") {
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
                CHECK(it.harness().submit(it.engine_context->device, 0, &work) == 0);
                CHECK(doubling.calls == 1);
                CHECK(values[3] == 3);
                work.run = nullptr;
                CHECK(it.harness().submit(it.engine_context->device, 0, &work) == 0);
                CHECK(it.harness().host_access(it.engine_context->device, "looks", &half, 1, nullptr, 0) == 0);
                return it.harness().release(it.engine_context->device, 0, buffer);
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
      shardproof_work work{.kind = SHARDPROOF_WORK_OTHER,
                           .label = "0",
                           .reads = &span,
                           .read_count = 1,
                           .run = run_doubling,
                           .context = &doubling};
      make(work, span, doubling);
      if (it.harness().submit(it.engine_context->device, 0, &work) != 0) said = it.error();
      it.harness().release(it.engine_context->device, 0, buffer);
      return 0;
    });
    return said;
  };
  CHECK(submit([](auto&, auto&, auto&) {}) == "nothing");
  CHECK(submit([](auto&, auto&, auto& doubling) { doubling.result = 1; }) == "other \"0\": singular");
  CHECK(submit([](auto&, auto&, auto& doubling) { doubling.result = 2; }) ==
        "other \"0\": it threw across the boundary: overflow");
  CHECK(submit([](auto& work, auto&, auto&) { work.label = nullptr; }) == "submit: the label: it is NULL");
  CHECK(submit([](auto& work, auto&, auto&) { work.kind = 1000; }) ==
        "submit \"0\": 1000 is no kind of work: shardproof.h has 0 to 9");
  CHECK(submit([](auto& work, auto&, auto&) { work.reads = nullptr; }) == "submit \"0\": reads: it is NULL");
  CHECK(submit([](auto& work, auto&, auto&) { work.cost_ns = -1; }) ==
        "submit \"0\": it costs -1 ns; a cost must not be negative");
  CHECK_THAT(submit([](auto&, auto& span, auto&) { span.count = 9; }),
             StartsWith("submit \"0\": reads[0]: 9 elements f32 from byte 0 on; buffer ") &&
                 ContainsSubstring("\"mine\" has 32 bytes"));
  CHECK_THAT(submit([](auto&, auto& span, auto&) { span.offset = 33, span.count = 0; }),
             StartsWith("submit \"0\": reads[0]: 0 elements f32 from byte 33 on"));
  CHECK_THAT(submit([](auto&, auto& span, auto&) { span.count = ~std::uint64_t{0}; }),
             StartsWith("submit \"0\": reads[0]: 1844674407"));
  CHECK_THAT(submit([](auto&, auto& span, auto&) { span.offset = 2, span.count = 1; }),
             ContainsSubstring("cannot start at byte 2"));
  CHECK(submit([](auto&, auto& span, auto&) { span.buffer = nullptr; }) ==
        "submit \"0\": reads[0]: 8 elements, but no buffer");
  CHECK_THAT(submit([](auto&, auto& span, auto&) { span.dtype.bits = 4; }),
             StartsWith("submit \"0\": reads[0]: dtype of code 2, 4 bits"));
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
  REQUIRE(
      alone.subject->create(alone.scenario.model, alone.scenario.plan, {device, *alone.world, 0}, alone.trainer).ok());
  Doubling doubling{.values = alone.scripted.values.data(), .harness = &alone.scripted.harness()};
  const shardproof_work work{.kind = SHARDPROOF_WORK_OTHER, .label = "0", .run = run_doubling, .context = &doubling};
  CHECK(alone.scripted.harness().submit(alone.scripted.engine_context->device, 0, &work) == SHARDPROOF_OK);
  CHECK_THROWS_WITH(device.later(cpu_kernels(), nullptr), "submit \"0\": it runs after submit has returned");
  CHECK(doubling.calls == 0);
}
