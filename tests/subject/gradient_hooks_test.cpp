// Gradient hooks as a subject in C gets and calls them.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/subject/alone.hpp"

using namespace shardproof;
using Catch::Matchers::StartsWith;
using shardproof::testing::allocated;
using shardproof::testing::Alone;
using shardproof::testing::ScriptedSubject;

namespace {

/// Registers a hook that keeps what it is given. The script finds the hook of the last registration at `given`.
struct Hooked : Alone {
  struct Call {
    std::uint64_t state;
    HookedGradient operands;
    Stream stream;
  };
  std::vector<Call> calls;
  Reply answer;  ///< of the hook
  const shardproof_gradient_hook* given = nullptr;

  Hooked() {
    scripted.table.register_gradient_hook = [](shardproof_trainer* at, const char* point, const char* module,
                                               int direct, const shardproof_gradient_hook* hook,
                                               shardproof_reply* reply) -> shardproof_status {
      // The trainer is the script itself.
      auto& it = *reinterpret_cast<ScriptedSubject*>(at);
      it.action = std::string(point) + " at \"" + module + "\"" + (direct != 0 ? ", direct" : "");
      it.gradient_hook = hook;
      if (hook->call != nullptr) return SHARDPROOF_OK;
      it.harness().fail(reply, "that is no hook");
      return SHARDPROOF_FAILED;
    };
    REQUIRE(create().ok());
  }

  Reply add(const HookTarget& target) {
    const Reply reply = trainer->register_gradient_hook(
        target, {.state = 7, .call = [this](std::uint64_t state, const HookedGradient& operands, Stream stream) {
                   calls.push_back({state, operands, stream});
                   return answer;
                 }});
    given = scripted.gradient_hook;
    return reply;
  }

  /// Runs the call. Returns the reason of the last registered hook if the call fails, and "nothing" otherwise.
  std::string said(const std::function<shardproof_status(ScriptedSubject&)>& call) {
    std::string text = "nothing";
    const Reply reply = perform([&](ScriptedSubject& it, shardproof_reply*) {
      if (call(it) == SHARDPROOF_OK) return 0;
      text = given->error(given->context);
      CHECK(it.error() == text);
      return 0;
    });
    // As after any other failure of a function of the harness.
    CHECK((reply.ok() ? "nothing" : reply.error()) ==
          (text == "nothing" ? text : "it continued after a harness function had failed: " + text));
    return text;
  }

  shardproof_status call(const shardproof_tensor* gradient, const shardproof_tensor* output,
                         std::uint32_t stream = 0) const {
    return given->call(given->context, given->state, "0", gradient, output, stream);
  }
};

struct Flat {
  std::array<std::int64_t, 1> shape;
  shardproof_tensor tensor;

  Flat(ScriptedSubject& it, shardproof_buffer* buffer, std::int64_t count)
      : shape{count}, tensor(ScriptedSubject::of_host(static_cast<float*>(it.harness().data(buffer)), shape)) {
    tensor.buffer = buffer;
  }
};

const shardproof_tensor undefined{};

}  // namespace

TEST_CASE("a gradient hook crosses with its place and its state, and gets the subject's own tensors") {
  Hooked hooked;
  CHECK(hooked.add({.point = HookPoint::after_accumulation, .module = "0.linear"}).ok());
  CHECK(hooked.scripted.action == "after_accumulation at \"0.linear\"");
  CHECK(hooked.add({.point = HookPoint::after_reduction, .module = "0", .direct = true}).ok());
  CHECK(hooked.scripted.action == "after_reduction at \"0\", direct");
  CHECK(hooked.add({}).ok());
  CHECK(hooked.scripted.action == "reduction at \"\"");
  CHECK(hooked.given->state == 7);

  std::uint32_t stream = 0;
  CHECK(hooked
            .perform([&](ScriptedSubject& it, shardproof_reply*) {
              REQUIRE(it.harness().create_stream(it.engine_context->device, SHARDPROOF_STREAM_REDUCE, "reduce",
                                                 &stream) == 0);
              shardproof_buffer *const whole = allocated(it, 32), *const mine = allocated(it, 16);
              const Flat gradient(it, whole, 8), output(it, mine, 4);
              CHECK(hooked.call(&gradient.tensor, &output.tensor, stream) == 0);
              CHECK(hooked.given->call(hooked.given->context, 9, "head", &output.tensor, &undefined, 0) == 0);
              it.harness().release(it.engine_context->device, 0, whole);
              return it.harness().release(it.engine_context->device, 0, mine);
            })
            .ok());
  REQUIRE(hooked.calls.size() == 2);
  CHECK(hooked.calls[0].state == 7);
  CHECK(hooked.calls[0].operands.label == "0");
  CHECK(hooked.calls[0].operands.gradient.shape() == Shape{8});
  CHECK(hooked.calls[0].operands.output.shape() == Shape{4});
  CHECK(hooked.calls[0].stream.id == stream);
  CHECK(hooked.calls[1].state == 9);
  CHECK(hooked.calls[1].operands.label == "head");
  CHECK(hooked.calls[1].operands.gradient.storage() == hooked.calls[0].operands.output.storage());
  CHECK_FALSE(hooked.calls[1].operands.output.defined());
  hooked.calls.clear();
  CHECK(hooked.device.live_bytes() == 0);
}

TEST_CASE("a gradient hook that fails says why, and the engine says it in its own words") {
  Hooked hooked;
  REQUIRE(hooked.add({}).ok());
  hooked.answer = Reply::failed("no bandwidth left");
  const auto fails = [&](ScriptedSubject& it) {
    shardproof_buffer* const whole = allocated(it, 32);
    const Flat gradient(it, whole, 8);
    const shardproof_status status = hooked.call(&gradient.tensor, &undefined);
    it.harness().release(it.engine_context->device, 0, whole);
    return status;
  };
  CHECK(hooked.said(fails) == "no bandwidth left");
  CHECK(hooked
            .perform([&](ScriptedSubject& it, shardproof_reply* reply) -> shardproof_status {
              if (fails(it) == SHARDPROOF_OK) return SHARDPROOF_OK;
              it.harness().fail(
                  reply, (std::string("the hook failed: ") + hooked.given->error(hooked.given->context)).c_str());
              return SHARDPROOF_FAILED;
            })
            .error() == "the hook failed: no bandwidth left");
  hooked.answer = {};
  CHECK(hooked.said(fails) == "nothing");
}

TEST_CASE("a gradient hook that is called wrongly says what is wrong, and the user's hook is not called") {
  Hooked hooked;
  REQUIRE(hooked.add({}).ok());
  shardproof_buffer* whole = nullptr;
  REQUIRE(hooked.perform([&](ScriptedSubject& it, shardproof_reply*) { return whole = allocated(it, 32), 0; }).ok());
  const Flat gradient(hooked.scripted, whole, 8);
  CHECK(hooked.said([&](ScriptedSubject&) {
    return hooked.given->call(hooked.given->context, 7, nullptr, &gradient.tensor, &undefined, 0);
  }) == "the label: it is NULL");
  CHECK(hooked.said([&](ScriptedSubject&) { return hooked.call(nullptr, &undefined); }) == "the gradient: it is NULL");
  CHECK(hooked.said([&](ScriptedSubject&) { return hooked.call(&gradient.tensor, nullptr); }) ==
        "the output: it is NULL");
  CHECK(hooked.said([&](ScriptedSubject&) { return hooked.call(&gradient.tensor, &undefined, 4); }) ==
        "the hook's stream: there is no stream 4; the subject has made 0");
  CHECK(hooked.said([&](ScriptedSubject& it) {
    std::array<std::int64_t, 1> shape{8};
    const shardproof_tensor in_host = ScriptedSubject::of_host(it.values.data(), shape);
    return hooked.call(&in_host, &undefined);
  }) == "the gradient: it is in no buffer of the device");
  CHECK(hooked.said([&](ScriptedSubject& it) {
    it.harness().release(it.engine_context->device, 0, whole);
    return hooked.call(&gradient.tensor, &undefined);
  }) == "the gradient: buffer 1 \"mine\" was released, or let go of, before");
  CHECK(hooked.calls.empty());
}

TEST_CASE("a hook that is not callable crosses without a function") {
  Hooked hooked;
  const Reply reply = hooked.trainer->register_gradient_hook({}, {.state = 5, .call = {}});
  CHECK(reply.status() == CallStatus::failed);
  CHECK(reply.error() == "that is no hook");
  REQUIRE(hooked.scripted.gradient_hook != nullptr);
  CHECK(hooked.scripted.gradient_hook->call == nullptr);
  CHECK(hooked.scripted.gradient_hook->state == 5);
}

TEST_CASE("a gradient hook whose registration has failed can no longer be called") {
  Hooked hooked;
  hooked.scripted.table.register_gradient_hook = [](shardproof_trainer* at, const char*, const char*, int,
                                                    const shardproof_gradient_hook* hook,
                                                    shardproof_reply* reply) -> shardproof_status {
    auto& it = *reinterpret_cast<ScriptedSubject*>(at);
    it.gradient_hook = hook;
    it.harness().fail(reply, "there is one already");
    return SHARDPROOF_FAILED;
  };
  CHECK(hooked.add({}).error() == "there is one already");
  CHECK(hooked.said([&](ScriptedSubject&) { return hooked.call(&undefined, &undefined); }) ==
        "a gradient hook is called for \"0\", but its registration has failed");
  CHECK(hooked.calls.empty());
}

TEST_CASE("a gradient hook that is called in another thread does nothing but fail") {
  Hooked hooked;
  REQUIRE(hooked.add({}).ok());
  CHECK_FALSE(hooked
                  .perform([](ScriptedSubject& it, shardproof_reply*) {
                    return it.harness().wait(it.engine_context->device, 9, 1);
                  })
                  .ok());
  const Reply reply = hooked.perform([&](ScriptedSubject&, shardproof_reply*) {
    std::thread([&] {
      CHECK(hooked.call(&undefined, &undefined) == SHARDPROOF_FAILED);
      CHECK_THAT(hooked.given->error(hooked.given->context),
                 StartsWith("the subject called a harness function in another thread"));
    }).join();
    CHECK(std::string(hooked.given->error(hooked.given->context)).empty());  // the rank has not called it
    return 0;
  });
  CHECK_THAT(
      reply.error(),
      StartsWith("it continued after a harness function had failed: the subject called a harness function in another"));
  CHECK(hooked.calls.empty());
}
