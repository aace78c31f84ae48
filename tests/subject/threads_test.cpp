// A subject that calls the harness in a thread of its own, where nothing is locked.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/subject/alone.hpp"

using namespace shardproof;
using shardproof::testing::allocated;
using shardproof::testing::Alone;
using shardproof::testing::ScriptedSubject;

namespace {

const std::string objection =
    "the subject called a harness function in another thread: call it only in the thread in which the rank calls the "
    "subject";
const std::string went_on = "it continued after a harness function had failed: " + objection;

void elsewhere(const std::function<void()>& call) { std::thread(call).join(); }

}  // namespace

TEST_CASE(
    "a function of the harness that is called in another thread does nothing but fail, and the call of the subject has "
    "failed") {
  Alone alone;
  REQUIRE(alone.create().ok());
  shardproof_buffer* const buffer = [&] {
    shardproof_buffer* made = nullptr;
    CHECK(alone.perform([&](ScriptedSubject& it, shardproof_reply*) { return made = allocated(it, 16), 0; }).ok());
    return made;
  }();
  // Each one on its own: that one call has failed.
  using Call = std::function<bool(const shardproof_harness&, const shardproof_engine_context&, shardproof_reply*)>;
  const std::vector<Call> fail{
      [](auto& harness, auto& engine_context, auto*) {
        return harness.create_stream(engine_context.device, SHARDPROOF_STREAM_REDUCE, "r", nullptr) != 0;
      },
      [](auto& harness, auto& engine_context, auto*) {
        std::uint64_t event = 0;
        return harness.record(engine_context.device, 0, &event) != 0 && event == 0;
      },
      [](auto& harness, auto& engine_context, auto*) { return harness.synchronize(engine_context.device) != 0; },
      [&](auto& harness, auto& engine_context, auto*) {
        return harness.release(engine_context.device, 0, buffer) != 0;
      },
      [&](auto& harness, auto&, auto*) { return harness.data(buffer) == nullptr; },
      [&](auto& harness, auto&, auto*) { return harness.bytes(buffer) == 0; },
      [](auto& harness, auto& engine_context, auto*) { return harness.group_rank(engine_context.world) == -1; },
      [](auto& harness, auto& engine_context, auto*) { return harness.group_size(engine_context.world) == 0; },
      [](auto& harness, auto& engine_context, auto*) { return harness.group_members(engine_context.world) == nullptr; },
      [](auto& harness, auto& engine_context, auto*) { return harness.error(engine_context.device) == objection; },
      [](auto& harness, auto&, auto* reply) { return harness.warn(reply, "slow"), true; },
      [](auto& harness, auto&, auto* reply) { return harness.fail(reply, "no memory"), true; },
  };
  for (std::size_t i = 0; i < fail.size(); ++i) {
    CAPTURE(i);
    bool is_refused = false;
    const Reply reply = alone.perform([&](ScriptedSubject& it, shardproof_reply* answered) {
      elsewhere([&] { is_refused = fail[i](it.harness(), *it.engine_context, answered); });
      return 0;
    });
    CHECK(is_refused);
    CHECK(reply.error() == went_on);
    CHECK(reply.warnings.empty());
  }
  CHECK(alone
            .perform([&](ScriptedSubject& it, shardproof_reply*) {
              return it.harness().release(it.engine_context->device, 0, buffer);
            })
            .ok());
}

TEST_CASE(
    "a call in another thread meets none of the rank's own, and one between two calls of the subject fails the "
    "second") {
  Alone alone;
  REQUIRE(alone.create().ok());
  const shardproof_engine_context& engine_context = *alone.scripted.engine_context;
  CHECK(alone
            .perform([&](ScriptedSubject& it, shardproof_reply*) {
              std::thread other([&] {
                shardproof_buffer* buffer = nullptr;
                for (int i = 0; i < 1000; ++i)
                  engine_context.harness->allocate(engine_context.device, 0, 16, SHARDPROOF_MEMORY_OTHER, "theirs",
                                                   &buffer);
              });
              for (int i = 0; i < 1000; ++i) it.harness().release(it.engine_context->device, 0, allocated(it, 16));
              other.join();
              return 0;
            })
            .error() == went_on);
  const auto& facts = alone.device.trace().facts;
  CHECK(std::ranges::count_if(facts, [](const Fact& fact) { return std::holds_alternative<fact::Allocated>(fact); }) ==
        1000);
  elsewhere([&] { engine_context.harness->synchronize(engine_context.device); });
  CHECK(alone.perform({}).error() == went_on);
  CHECK(alone.perform({}).ok());
}
