// Hooks of all-gather extensions as a subject in C calls them.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/subject/alone.hpp"

using namespace shardproof;
using Catch::Matchers::StartsWith;
using shardproof::testing::Alone;
using shardproof::testing::ScriptedSubject;

namespace {

/// Keeps what hooks are given, and gives a buffer for each answer.
struct Hooks {
  Device& device;
  std::vector<ShardView> shards;
  std::vector<ShardContext> contexts;
  std::vector<Contributions> contributions;
  std::vector<const Unsharded*> outs;
  std::vector<std::shared_ptr<const void>> metadata;
  std::string failure;
  bool gives_shard = false;  ///< back, instead of a buffer of its own

  AllGatherExtension extension() {
    return {
        .form = ExtensionForm::full,
        .pre = [this](const ShardView& shard, const ShardContext* context, Stream stream, Contribution& out) -> Reply {
          if (!failure.empty()) return Reply::failed(failure);
          shards.push_back(shard);
          if (context != nullptr) contexts.push_back(*context);
          const Tensor made = device.empty(stream, DType::bf16, {2, 2}, MemoryClass::other, "contributed");
          out.tensors = gives_shard ? shard.components : std::vector<Tensor>{made, made.narrow(0, 1)};
          out.metadata = metadata.emplace_back(std::make_shared<const int>(static_cast<int>(metadata.size())));
          return {};
        },
        .post = [this](const Contributions& all, Stream stream, const Unsharded* out, Unsharded& made) -> Reply {
          contributions.push_back(all);
          outs.push_back(out);
          if (out != nullptr) return {};
          const Tensor value = device.empty(stream, all.param_dtype, {4, 2}, MemoryClass::parameter, "made");
          made = {.value = value, .to_free = {value}};
          return {};
        }};
  }
};

/// With an extension registered, which the script finds at `given`.
struct Extended : Alone {
  Hooks hooks{.device = device};
  const shardproof_extension* given = nullptr;

  explicit Extended(void (*alter)(AllGatherExtension&) = nullptr) {
    scripted.table.extend = [](shardproof_trainer* at, const char* parameter, const char* kind,
                               const shardproof_extension* registered, shardproof_reply*) -> shardproof_status {
      // The trainer is the script itself.
      auto& it = *reinterpret_cast<ScriptedSubject*>(at);
      it.action = std::string(parameter) + "/" + kind;
      it.extension = registered;
      return 0;
    };
    REQUIRE(create().ok());
    AllGatherExtension extension = hooks.extension();
    if (alter != nullptr) alter(extension);
    const Reply reply = trainer->register_all_gather_extension({.parameter = "0.linear.weight"}, std::move(extension));
    REQUIRE(reply.ok());
    given = scripted.extension;
  }

  shardproof_status pre(ScriptedSubject& it, shardproof_contribution& out, shardproof_buffer* buffer = nullptr) const {
    std::array<std::int64_t, 2> rows{2, 4};
    shardproof_tensor shard = ScriptedSubject::of_host(
        buffer == nullptr ? it.values.data() : static_cast<float*>(it.harness().data(buffer)), rows);
    shard.buffer = buffer;
    const shardproof_shard view{.parameter = "0.linear.weight", .components = &shard, .component_count = 1, .rows = 1};
    const std::array<int, 2> mesh{3, 5};
    const std::array<std::int64_t, 2> shape{3, 4}, stride{4, 1};
    const shardproof_shard_context context{.mesh = mesh.data(),
                                           .mesh_size = 2,
                                           .shape = shape.data(),
                                           .stride = stride.data(),
                                           .ndim = 2,
                                           .module = "0.linear",
                                           .policy = R"({"param": "bf16"})"};
    return given->pre(given->context, &view, &context, 0, &out);
  }
  shardproof_status post(const shardproof_contribution& all, const shardproof_unsharded* out,
                         shardproof_unsharded& made) const {
    const shardproof_contributions gathered{.parameter = "0.linear.weight",
                                            .tensors = all.tensors,
                                            .tensor_count = all.tensor_count,
                                            .metadata = all.metadata,
                                            .param_dtype = {kDLBfloat, 16, 1}};
    return given->post(given->context, &gathered, 0, out, &made);
  }
};

}  // namespace

TEST_CASE("a pre hook gets all facts about the shard, and the harness holds its tensors until one let_go") {
  Extended extended;
  CHECK(extended.scripted.action == "0.linear.weight/plain");
  CHECK((extended.given->is_full != 0 && extended.given->has_pre != 0 && extended.given->has_post != 0));
  CHECK(extended
            .perform([&](ScriptedSubject& it, shardproof_reply*) {
              shardproof_contribution out{};
              CHECK(extended.pre(it, out) == 0);
              REQUIRE(out.tensor_count == 2);
              CHECK(out.tensors[0].buffer == out.tensors[1].buffer);
              CHECK(out.tensors[1].view.shape[0] == 1);
              CHECK(out.tensors[1].view.dtype.code == kDLBfloat);
              CHECK(extended.device.live_bytes() == 8);
              it.harness().let_go(it.engine_context->device, out.tensors[0].buffer);
              CHECK(extended.device.live_bytes() == 0);
              return 0;
            })
            .ok());
  REQUIRE(extended.hooks.shards.size() == 1);
  CHECK(extended.hooks.shards[0].parameter == "0.linear.weight");
  CHECK(extended.hooks.shards[0].rows == 1);
  CHECK(extended.hooks.shards[0].components.at(0).to_doubles() == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
  const ShardContext& context = extended.hooks.contexts.at(0);
  CHECK(context.mesh == std::vector<int>{3, 5});
  CHECK(context.shape == Shape{3, 4});
  CHECK(context.stride == Shape{4, 1});
  CHECK(context.module == "0.linear");
  CHECK(context.policy == MixedPrecision{.param = DType::bf16});
}

TEST_CASE("a contribution may be the subject's own buffer, which stays its own") {
  Extended extended;
  extended.hooks.gives_shard = true;
  CHECK(extended
            .perform([&](ScriptedSubject& it, shardproof_reply*) {
              shardproof_buffer* mine = nullptr;
              REQUIRE(it.harness().allocate(it.engine_context->device, 0, 32, SHARDPROOF_MEMORY_SHARD,
                                            "0.linear.weight", &mine) == 0);
              shardproof_contribution out{};
              CHECK(extended.pre(it, out, mine) == 0);
              CHECK(out.tensors[0].buffer == mine);
              it.harness().let_go(it.engine_context->device, mine);
              CHECK(it.harness().bytes(mine) == 32);
              return it.harness().release(it.engine_context->device, 0, mine);
            })
            .ok());
}

TEST_CASE("metadata comes back to the post hook of its gather, and what that has made has one identity") {
  Extended extended;
  CHECK(extended
            .perform([&](ScriptedSubject& it, shardproof_reply*) {
              shardproof_contribution first{}, second{};
              shardproof_unsharded made{}, again{};
              std::vector<shardproof_tensor> kept;
              const auto pre = [&](shardproof_contribution& out) {
                CHECK(extended.pre(it, out) == 0);
                kept.assign(out.tensors,
                            out.tensors + out.tensor_count);  // the next call takes them away; their shapes, too
                it.harness().let_go(it.engine_context->device, out.tensors[0].buffer);
                out.tensors = nullptr;
                out.tensor_count = 0;
              };
              pre(first);
              pre(second);
              CHECK(first.metadata != second.metadata);
              CHECK(extended.post(second, nullptr, made) == 0);
              CHECK(made.to_free_count == 1);
              CHECK(made.value.buffer == made.to_free[0].buffer);

              // It is resharded, and gathered again into memory of the subject's own.
              shardproof_unsharded out = made;
              std::array<std::int64_t, 2> shape{4, 2};
              CHECK(it.harness().release(it.engine_context->device, 0, made.value.buffer) == 0);
              it.harness().let_go(it.engine_context->device, made.value.buffer);  // nothing is left to let go of
              shardproof_buffer* anew = nullptr;
              REQUIRE(it.harness().allocate(it.engine_context->device, 0, 16, SHARDPROOF_MEMORY_PARAMETER, "anew",
                                            &anew) == 0);
              out.value.buffer = anew;
              out.value.view.data = it.harness().data(anew);
              out.value.view.shape = shape.data();
              out.value.view.strides = nullptr;
              out.to_free = &out.value;
              CHECK(extended.post(first, &out, again) == 0);
              CHECK(extended.post(first, &out, again) == 0);
              CHECK(again.id == 0);
              return it.harness().release(it.engine_context->device, 0, anew);
            })
            .ok());
  const Hooks& hooks = extended.hooks;
  REQUIRE(hooks.contributions.size() == 3);
  CHECK(hooks.contributions[0].metadata == hooks.metadata.at(1));
  CHECK(hooks.contributions[1].metadata == hooks.metadata.at(0));
  CHECK(hooks.contributions[0].param_dtype == DType::bf16);
  CHECK(hooks.outs[0] == nullptr);
  CHECK(hooks.outs[1] != nullptr);
  CHECK(hooks.outs[1] == hooks.outs[2]);
  CHECK(extended.device.live_bytes() == 0);
}

TEST_CASE("a hook that fails says why, and so does one that is called wrongly") {
  Extended extended;
  const auto said = [&](auto call) {
    std::string text = "nothing";
    const Reply reply = extended.perform([&](ScriptedSubject& it, shardproof_reply*) {
      if (call(it) != 0) text = extended.given->error(extended.given->context);
      CHECK(it.error() == text);
      return 0;
    });
    CHECK(reply.error() == "it continued after a harness function had failed: " + text);  // as after any other
    return text;
  };
  shardproof_contribution out{};
  shardproof_unsharded made{};
  extended.hooks.failure = "cannot quantise";
  CHECK(said([&](ScriptedSubject& it) { return extended.pre(it, out); }) == "cannot quantise");
  const shardproof_extension& hooks = *extended.given;
  CHECK(said([&](ScriptedSubject&) { return hooks.pre(hooks.context, nullptr, nullptr, 0, &out); }) ==
        "the shard: it is NULL");
  const shardproof_shard shard{.parameter = "0.linear.weight", .components = nullptr, .component_count = 1, .rows = 0};
  CHECK(said([&](ScriptedSubject&) { return hooks.pre(hooks.context, &shard, nullptr, 0, &out); }) ==
        "components: it is NULL");
  CHECK(said([&](ScriptedSubject&) { return hooks.pre(hooks.context, &shard, nullptr, 4, &out); }) ==
        "the hook's stream: there is no stream 4; the subject has made 0");
  CHECK(said([&](ScriptedSubject&) { return hooks.pre(hooks.context, &shard, nullptr, 0, nullptr); }) ==
        "the pointer for the contribution: it is NULL");
  const shardproof_unsharded unknown{.id = 9};
  CHECK(said([&](ScriptedSubject&) { return extended.post(out, &unknown, made); }) ==
        "out: this extension has made nothing with id 9");
}

TEST_CASE("a hook that is called in another thread does nothing but fail") {
  Extended extended;
  const Reply reply = extended.perform([&](ScriptedSubject& it, shardproof_reply*) {
    std::thread([&] {
      shardproof_contribution out{};
      CHECK(extended.pre(it, out) == 1);
      CHECK_THAT(extended.given->error(extended.given->context),
                 StartsWith("the subject called a harness function in another thread"));
    }).join();
    return 0;
  });
  CHECK_THAT(
      reply.error(),
      StartsWith("it continued after a harness function had failed: the subject called a harness function in another"));
  CHECK(extended.hooks.shards.empty());
}

TEST_CASE("an extra let_go is an error, and a missing let_go leaves memory alive") {
  Extended extended;
  shardproof_contribution out{};
  CHECK(extended
            .perform([&](ScriptedSubject& it, shardproof_reply*) {
              CHECK(extended.pre(it, out) == 0);
              return 0;
            })
            .ok());
  CHECK(extended
            .perform([&](ScriptedSubject& it, shardproof_reply*) {
              shardproof_buffer* mine = nullptr;
              REQUIRE(it.harness().allocate(it.engine_context->device, 0, 4, SHARDPROOF_MEMORY_OTHER, "mine", &mine) ==
                      0);
              it.harness().let_go(it.engine_context->device, mine);
              return it.harness().release(it.engine_context->device, 0, mine);
            })
            .error() ==
        "it continued after a harness function had failed: let_go: buffer 2 \"mine\" was let go of more often than it "
        "was given");
  extended.trainer.reset();
  CHECK(extended.device.live_bytes() == 8);
}

TEST_CASE("the table shows an extension that lacks a hook, or has the minimal form") {
  const Extended extended([](AllGatherExtension& extension) {
    extension.post = nullptr;
    extension.form = ExtensionForm::minimal;
  });
  CHECK(extended.given->is_full == 0);
  CHECK(extended.given->has_pre != 0);
  CHECK(extended.given->has_post == 0);
  CHECK(extended.given->post == nullptr);
}
