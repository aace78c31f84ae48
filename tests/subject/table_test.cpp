// A subject in another language: its table, and the answers of its functions.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>

#include "harness/protocol/step_graph_json.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/subject/abi/exported_subject.hpp"
#include "tests/protocol/sample_step.hpp"
#include "tests/subject/alone.hpp"

using namespace shardproof;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Message;
using Catch::Matchers::StartsWith;
using shardproof::testing::Alone;
using shardproof::testing::ScriptedSubject;

namespace {

int is_still_busy(ScriptedSubject& it, shardproof_reply* reply) {
  it.harness().fail(reply, "a stream is still busy");
  return 1;
}

}  // namespace

TEST_CASE("a table that cannot be a subject's is refused, and what is wrong is said") {
  struct Flaw {
    std::function<void(ScriptedSubject&)> make;
    std::string said;
  };
  constexpr std::size_t least = offsetof(shardproof_subject, keeps_threads);  // appended within the version
  const std::string of_this = fmt::format("{}", least);
  const Flaw flaw = GENERATE_COPY(
      Flaw{[](ScriptedSubject& it) { it.table.abi_version = 2; },
           "here: its table has version 2 of shardproof.h, this harness has version 6: compile it with this harness's "
           "header"},
      Flaw{[](ScriptedSubject& it) { it.table.size = least - 8; },
           "here: its table gives its size as " + fmt::format("{}", least - 8) + " bytes; version 6 has " + of_this +
               ": set `size` to sizeof(shardproof_subject)"},
      Flaw{[](ScriptedSubject& it) { it.table.name = nullptr; }, "here: its table has no `name`"},
      Flaw{[](ScriptedSubject& it) { it.table.name = ""; }, "here: its table has no `name`"},
      Flaw{[](ScriptedSubject& it) { it.table.name = "my/engine"; },
           "here: its name is \"my/engine\": without a comma, a plus and a slash, and not ending in .so, --subject can "
           "ask for it"},
      Flaw{[](ScriptedSubject& it) { it.table.name = "my\nengine"; },
           "here: its name is \"my\\nengine\": it has an invisible character, U+000A"},
      Flaw{[](ScriptedSubject& it) { it.table.name = "pytorch"; },
           "here: its name is \"pytorch\": so --subject calls PyTorch as shardproof brings it: it takes a name of its "
           "own"},
      Flaw{[](ScriptedSubject& it) { it.table.version = nullptr; }, "here: its table has no `version`"},
      Flaw{[](ScriptedSubject& it) { it.table.version = "1\xff"; },
           "here: its version is \"1\\ufffd\": it is not UTF-8"},
      Flaw{[](ScriptedSubject& it) { it.table.claims = nullptr; }, "here: its table has 1 claims, but a NULL pointer"},
      Flaw{[](ScriptedSubject& it) { it.claims[0].engine = nullptr; }, "here: its claim 0 has no `engine`"},
      Flaw{[](ScriptedSubject& it) { it.claims[0].engine = ""; }, "here: it claims the engine kind \"\": it is empty"},
      Flaw{[](ScriptedSubject& it) { it.claims[0].engine = "fully\nsharded"; },
           "here: it claims the engine kind \"fully\\nsharded\": it has an invisible character, U+000A"},
      Flaw{[](ScriptedSubject& it) { it.claims[0].features = nullptr; },
           "here: its claim of \"fully_shard\" has no `features`"},
      Flaw{[](ScriptedSubject& it) { it.table.create = nullptr; }, "here: its table has no `create`"},
      Flaw{[](ScriptedSubject& it) { it.table.destroy = nullptr; }, "here: its table has no `destroy`"},
      Flaw{[](ScriptedSubject& it) { it.table.perform = nullptr; }, "here: its table has no `perform`"},
      Flaw{[](ScriptedSubject& it) { it.table.loss = nullptr; }, "here: its table has no `loss`"},
      Flaw{[](ScriptedSubject& it) { it.table.parameters = nullptr; }, "here: its table has no `parameters`"});
  ScriptedSubject scripted;
  flaw.make(scripted);
  CHECK_THROWS_MATCHES(subject::table_subject(&scripted.table, "here"), subject::SubjectRefused, Message(flaw.said));
}

TEST_CASE("an engine kind is claimed once, and a kind that the harness does not know may be claimed") {
  ScriptedSubject scripted;
  const std::array<const char*, 2> timed{"timeline", nullptr};
  const std::array<const char*, 1> nothing{nullptr};
  const std::array two{shardproof_claim{"telepathic", nothing.data()}, shardproof_claim{"fully_shard", timed.data()}};
  scripted.table.claims = two.data();
  scripted.table.claim_count = two.size();
  CHECK(subject::table_subject(&scripted.table, "here")->claims() ==
        Claims{{"telepathic", {}}, {"fully_shard", {Feature::timeline}}});
  const std::array same{two[1], two[0], two[1]};
  scripted.table.claims = same.data();
  scripted.table.claim_count = same.size();
  CHECK_THROWS_MATCHES(subject::table_subject(&scripted.table, "here"), subject::SubjectRefused,
                       Message("here: it claims the engine kind \"fully_shard\" twice"));
  scripted.table.claims = nullptr;
  scripted.table.claim_count = 0;
  CHECK(subject::table_subject(&scripted.table, "here")->claims() == Claims());
}

TEST_CASE("no table is refused; features are known by name, and others are refused") {
  CHECK_THROWS_MATCHES(subject::table_subject(nullptr, "here"), subject::SubjectRefused,
                       Message("here: it returns no table of a subject"));
  ScriptedSubject scripted;
  const auto claim = [&](std::vector<const char*> names) {
    scripted.features = std::move(names);
    scripted.claims.front().features = scripted.features.data();
  };
  claim({"serial", "hidden_memory", "serial", nullptr});
  CHECK(subject::table_subject(&scripted.table, "here")->claims() ==
        Claims{{"fully_shard", {Feature::serial, Feature::hidden_memory}}});
  claim({"reshard_to_size", nullptr});
  CHECK(
      subject::table_subject(&scripted.table, "here")->claims().has("fully_shard", FullyShardFeature::reshard_to_size));
  claim({"serial", "telepathy", nullptr});
  CHECK_THROWS_WITH(
      subject::table_subject(&scripted.table, "here"),
      StartsWith(
          "here: it claims \"telepathy\" for the engine kind fully_shard, whose features are: timeline, serial, ") &&
          EndsWith(", shard_dims, gradient_divide_factor, reduction_hooks, forward_methods"));
}

TEST_CASE("of a kind that the harness does not know, the common features are kept") {
  ScriptedSubject scripted;
  scripted.features = {"serial", "reshard_to_size", "telepathy", nullptr};
  scripted.claims.front() = {.engine = "telepathic", .features = scripted.features.data()};
  CHECK(subject::table_subject(&scripted.table, "here")->claims() == Claims{{"telepathic", {Feature::serial}}});
}

TEST_CASE("a subject is asked for what it is by its table, and what later versions append does not matter") {
  ScriptedSubject scripted;
  scripted.table.size += 16;
  const auto subject = subject::table_subject(&scripted.table, "here");
  CHECK(subject->name() == "scripted");
  CHECK(subject->version() == "7");
  CHECK(subject->prepare().ok());
  scripted.table.prepare = [](void*, const shardproof_harness* harness, shardproof_reply* reply) -> shardproof_status {
    harness->fail(reply, "no module named torch");
    return SHARDPROOF_FAILED;
  };
  scripted.table.fork = [](void*) { return 4711; };
  CHECK(subject->prepare().error() == "no module named torch");
  CHECK(subject->fork() == 4711);
}

TEST_CASE("a shared object that is no subject is refused by its path") {
  CHECK_THROWS_MATCHES(subject::load_subject_table("/nowhere/engine.so"), subject::SubjectRefused,
                       Message("subject /nowhere/engine.so: there is no such file"));
  Dl_info libc{};
  REQUIRE(::dladdr(reinterpret_cast<void*>(&::gnu_get_libc_version), &libc) != 0);
  CHECK_THROWS_WITH(subject::load_subject_table(libc.dli_fname),
                    Catch::Matchers::EndsWith(": it exports no shardproof_subject_table, so it is not a subject"));
  CHECK_THROWS_WITH(subject::load_subject_table(__FILE__),
                    StartsWith("subject ") && Catch::Matchers::EndsWith("invalid ELF header"));
}

TEST_CASE("the subject gets models, plans and actions as the documents write them") {
  Alone alone;
  REQUIRE(alone.create().ok());
  CHECK_THAT(alone.scripted.model, StartsWith(R"({"root":)"));
  CHECK_THAT(alone.scripted.plan, StartsWith(R"({"fully_shard":{"wrap":[)"));
  CHECK(alone.perform({}).ok());
  CHECK(alone.scripted.action == R"("step")");
  CHECK(alone.scripted.input.view.data == nullptr);
  REQUIRE(alone.trainer->perform({.kind = ActionKind::reshard, .module = "0"}, {}).ok());
  CHECK(alone.scripted.action == R"({"call":"reshard","module":"0"})");
  const Hook own{.kind = HookKind::bf16_compress, .state = 3, .direct = true};
  REQUIRE(alone.trainer->perform({.kind = ActionKind::register_hook, .module = "0", .hook = own}, {}).ok());
  CHECK(alone.scripted.action ==
        R"({"call":"register_hook","module":"0","hook":"bf16_compress","state":3,"direct":true})");
}

TEST_CASE("a function's answer is its status and its texts") {
  Alone alone;
  const auto answer = [&](ScriptedSubject::Act act) { return alone.perform(std::move(act)); };
  CHECK(answer({}).ok());
  const auto failing = [](ScriptedSubject& it, shardproof_reply* reply) {
    it.harness().warn(reply, "slow");
    it.harness().fail(reply, "no more memory");
    it.harness().fail(reply, "no memory");
    return SHARDPROOF_FAILED;
  };
  CHECK(answer(failing).error() == "no memory");
  CHECK(answer(failing).warnings == std::vector<std::string>{"slow"});
  CHECK(answer([](ScriptedSubject&, shardproof_reply*) { return 1; }).error() ==
        "it failed (it returned 1) and gave no reason");
  CHECK(answer([](ScriptedSubject&, shardproof_reply*) { return 5; }).error() ==
        "its status: 5 is no status: shardproof.h has 0 to 3");
  const auto without_a_status = [](ScriptedSubject& it, shardproof_reply* reply) {
    it.harness().fail(reply, "no memory");
    return -1;
  };
  CHECK(answer(without_a_status).error() ==
        "its status: 4294967295 is no status: shardproof.h has 0 to 3; it said: no memory");
  const auto indecisive = [](ScriptedSubject& it, shardproof_reply* reply) {
    it.harness().fail(reply, "something");
    return 0;
  };
  CHECK(answer(indecisive).error() == "it returned 0, which is success, but reported a failure: something");
  CHECK(answer([](ScriptedSubject& it, shardproof_reply* reply) {
          it.harness().fail(reply, nullptr);
          return 1;
        }).error() == "it failed (it returned 1) and gave no reason");
}

TEST_CASE("a reply has the status that the function returned, whatever its text says") {
  Alone alone;
  const auto answer = [&](shardproof_status status, const char* text) {
    return alone.perform([=](ScriptedSubject& it, shardproof_reply* reply) {
      it.harness().fail(reply, text);
      return status;
    });
  };
  CHECK(answer(SHARDPROOF_FAILED, "planned_failure").status() == CallStatus::failed);
  CHECK(answer(SHARDPROOF_PLANNED_FAILURE, "out of memory").status() == CallStatus::planned_failure);
  CHECK(answer(SHARDPROOF_UNSUPPORTED, "out of memory").status() == CallStatus::unsupported);
  CHECK(answer(SHARDPROOF_UNSUPPORTED, "").status() == CallStatus::unsupported);
  CHECK(alone
            .perform([](ScriptedSubject& it, shardproof_reply*) {
              it.harness().wait(it.engine_context->device, 9, 1);
              return SHARDPROOF_PLANNED_FAILURE;  // and not only that
            })
            .status() == CallStatus::failed);
}

TEST_CASE("an exception without a text is a failure") {
  Alone alone;
  const auto throwing = [](ScriptedSubject&, shardproof_reply*) -> shardproof_status { throw std::runtime_error(""); };
  CHECK(alone.perform(throwing).status() == CallStatus::failed);

  subject::ExportedSubject exported(subject::table_subject(&alone.scripted.table, "within"));
  alone.trainer.reset();
  alone.subject = subject::table_subject(exported.table(), "here");
  CHECK(alone.perform(throwing).status() == CallStatus::failed);
  alone.trainer.reset();
}

TEST_CASE("an exception across the boundary is an error of the call, and the rank goes on") {
  Alone alone;
  const auto throwing = [](ScriptedSubject&, shardproof_reply*) -> shardproof_status {
    throw std::out_of_range("parameter 3 of 2");
  };
  CHECK(alone.perform(throwing).error() == "it threw across the boundary: parameter 3 of 2");
  CHECK(alone.perform([](ScriptedSubject&, shardproof_reply*) -> shardproof_status { throw 5; }).error() ==
        "it threw something across the boundary that is not a std::exception");
  CHECK(alone.perform({}).ok());
  alone.scripted.table.fork = [](void*) -> int { throw std::runtime_error("no second runtime"); };
  CHECK_THROWS_MATCHES(alone.subject->fork(), std::runtime_error,
                       Message("fork threw across the boundary: no second runtime"));
}

TEST_CASE("a trainer that is not destroyed as it should be is complained of once") {
  Alone alone;
  REQUIRE(alone.create().ok());
  CHECK(alone.subject->take_teardown_failure().ok());
  alone.scripted.destroy = [](ScriptedSubject&, shardproof_reply*) -> shardproof_status {
    throw std::runtime_error("not so fast");
  };
  CHECK_NOTHROW(alone.trainer.reset());
  CHECK(alone.scripted.destroyed == 1);
  CHECK(alone.subject->take_teardown_failure().error() == "destroy: it threw across the boundary: not so fast");
  CHECK(alone.subject->take_teardown_failure().ok());

  REQUIRE(alone.create().ok());
  alone.scripted.destroy = [](ScriptedSubject& it, shardproof_reply*) {
    it.harness().wait(it.engine_context->device, 9, 1);
    return 0;
  };
  alone.trainer.reset();
  CHECK(alone.subject->take_teardown_failure().error() ==
        "destroy: it continued after a harness function had failed: wait: there is no stream 9; the subject has "
        "made 0");

  REQUIRE(alone.create().ok());
  alone.scripted.destroy = is_still_busy;
  alone.trainer.reset();
  CHECK(alone.subject->take_teardown_failure().error() == "destroy: a stream is still busy");
  REQUIRE(alone.create().ok());
  alone.scripted.destroy = [](ScriptedSubject&, shardproof_reply*) { return 3; };
  alone.trainer.reset();
  CHECK(alone.subject->take_teardown_failure().error() == "destroy: it failed (it returned 3) and gave no reason");
}

TEST_CASE("destroy returns the complaint of an engine that two tables wrap") {
  Alone alone;
  subject::ExportedSubject exported(subject::table_subject(&alone.scripted.table, "within"));
  alone.subject = subject::table_subject(exported.table(), "here");
  REQUIRE(alone.create().ok());
  alone.scripted.destroy = is_still_busy;
  alone.trainer.reset();
  CHECK(alone.subject->take_teardown_failure().error() == "destroy: destroy: a stream is still busy");
}

TEST_CASE("a call that goes on after a function of the harness has failed has failed") {
  Alone alone;
  const Reply reply = alone.perform([](ScriptedSubject& it, shardproof_reply*) {
    it.harness().wait(it.engine_context->device, 9, 1);
    it.harness().release(it.engine_context->device, 0, nullptr);
    return 0;
  });
  CHECK(reply.error() ==
        "it continued after a harness function had failed: wait: there is no stream 9; the subject has made 0");
  CHECK(alone.perform({}).ok());
  CHECK(alone
            .perform([](ScriptedSubject& it, shardproof_reply* reply_to) {
              it.harness().wait(it.engine_context->device, 9, 1);
              it.harness().fail(reply_to, "told in its own words");
              return 1;
            })
            .error() == "told in its own words");
}

TEST_CASE("a trainer that was not made is not destroyed, and one that was is destroyed once") {
  Alone alone;
  alone.scripted.create = [](ScriptedSubject& it, shardproof_reply* reply) {
    it.harness().fail(reply, "cannot shard this");
    return 1;
  };
  CHECK(alone.create().error() == "cannot shard this");
  CHECK(alone.trainer == nullptr);
  CHECK(alone.scripted.destroyed == 0);

  alone.scripted.create = {};
  REQUIRE(alone.create().ok());
  alone.trainer.reset();
  CHECK(alone.scripted.destroyed == 1);

  alone.scripted.table.create = [](void*, const char*, const char*, const shardproof_engine_context*,
                                   shardproof_trainer**,
                                   shardproof_reply*) -> shardproof_status { return SHARDPROOF_OK; };
  CHECK(alone.create().error() == "create succeeded, but made no trainer");
  CHECK(alone.scripted.destroyed == 1);
}

TEST_CASE("a trainer that was made although something had failed is destroyed") {
  Alone alone;
  alone.scripted.create = [](ScriptedSubject& it, shardproof_reply*) {
    it.harness().wait(it.engine_context->device, 9, 1);
    return 0;
  };
  CHECK(alone.create().error() ==
        "it continued after a harness function had failed: wait: there is no stream 9; the subject has made 0");
  CHECK(alone.trainer == nullptr);
  CHECK(alone.scripted.destroyed == 1);
}

TEST_CASE("a compiled plan is read from JSON, and what cannot be read is a failure of the call") {
  Alone alone;
  REQUIRE(alone.create().ok());
  static const char* text = nullptr;
  alone.scripted.table.compiled_plan = [](shardproof_trainer*, const char** plan,
                                          shardproof_reply*) -> shardproof_status {
    *plan = text;
    return SHARDPROOF_OK;
  };
  std::vector<StepGraph> plan;
  const auto answer = [&](const char* given) {
    text = given;
    return alone.trainer->compiled_plan(plan).error();
  };
  const std::string written = write_compiled_plan({shardproof::testing::sample_backward()});
  CHECK(answer(written.c_str()).empty());
  CHECK(plan == std::vector{shardproof::testing::sample_backward()});
  CHECK(answer(nullptr) == "the compiled plan: it is NULL");
  CHECK_THAT(answer("[{"), StartsWith("compiled plan: not JSON: "));
  CHECK_THAT(answer("{}"), StartsWith("compiled plan: expected an array of passes"));
  CHECK_THAT(answer(R"([{"pass": "backward", "values": []}])"), StartsWith("compiled plan, pass 0: \"nodes\""));
  CHECK(plan.size() == 1);  // a failed call leaves it alone
}

TEST_CASE("a compiled plan crosses the table in both directions, and a failure has its words") {
  Alone alone;
  static const std::string written = write_compiled_plan({shardproof::testing::sample_backward(), {}});
  alone.scripted.table.compiled_plan = [](shardproof_trainer* at, const char** plan,
                                          shardproof_reply* reply) -> shardproof_status {
    const auto& it = *reinterpret_cast<ScriptedSubject*>(at);
    *plan = written.c_str();
    it.harness().warn(reply, "recompiled");
    if (it.destroyed == 0) return SHARDPROOF_OK;
    it.harness().fail(reply, "lost it");
    return SHARDPROOF_FAILED;
  };
  subject::ExportedSubject exported(subject::table_subject(&alone.scripted.table, "within"));
  alone.subject = subject::table_subject(exported.table(), "here");
  REQUIRE(alone.create().ok());
  std::vector<StepGraph> plan;
  const Reply reply = alone.trainer->compiled_plan(plan);
  CHECK(reply.ok());
  CHECK(reply.warnings == std::vector<std::string>{"recompiled"});
  CHECK(plan == std::vector{shardproof::testing::sample_backward(), StepGraph()});
  alone.scripted.destroyed = 1;
  CHECK(alone.trainer->compiled_plan(plan).error() == "lost it");
  alone.scripted.table.compiled_plan = nullptr;
  CHECK(alone.trainer->compiled_plan(plan).status() == CallStatus::unsupported);
  alone.trainer.reset();
}

TEST_CASE("a subject that knows no extensions, has no gradient hooks, or compiles nothing, says so") {
  Alone alone;
  REQUIRE(alone.create().ok());
  const Reply reply = alone.trainer->register_all_gather_extension({}, {});
  CHECK(reply.status() == CallStatus::unsupported);
  CHECK(reply.error() == "this engine knows no all-gather extensions");
  const Reply of_hook = alone.trainer->register_gradient_hook({}, {});
  CHECK(of_hook.status() == CallStatus::unsupported);
  CHECK(of_hook.error() == "this engine has no gradient hooks");
  std::vector<StepGraph> plan;
  const Reply of_plan = alone.trainer->compiled_plan(plan);
  CHECK(of_plan.status() == CallStatus::unsupported);
  CHECK(of_plan.error() == "this engine compiles nothing");
}
