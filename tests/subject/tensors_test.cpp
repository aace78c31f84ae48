// Tensors and parameters that a subject in C shows.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/subject/alone.hpp"

using namespace shardproof;
using Catch::Matchers::StartsWith;
using shardproof::testing::allocated;
using shardproof::testing::Alone;
using shardproof::testing::ScriptedSubject;

TEST_CASE("a tensor is looked at before it is believed") {
  struct Flaw {
    std::function<void(ScriptedSubject&, shardproof_tensor&)> make;
    std::string said;
  };
  const Flaw flaw = GENERATE(
      Flaw{[](auto&, auto& it) { it.view.dtype.code = kDLComplex; },
           "the loss: dtype of code 5, 32 bits, 1 lanes is not supported: use float of 64, 32 or 16 bits"},
      Flaw{[](auto&, auto& it) { it.view.dtype.lanes = 4; },
           "the loss: dtype of code 2, 32 bits, 4 lanes is not supported"},
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
           "the loss, f32 [1, 2]: it ends after the last address"},
      Flaw{[](auto&, auto& it) {
             it.buffer = nullptr;
             it.view.data = reinterpret_cast<void*>(~std::uintptr_t{7});
             it.view.byte_offset = 4;
           },
           "the loss, f32 [1, 2]: it ends after the last address"},
      Flaw{[](auto&, auto& it) { it.view.shape = nullptr; }, "the loss: 2 dimensions without a shape"},
      Flaw{[](auto& subject, auto&) { subject.shape = {1, -2}; }, "shape [1, -2] has a negative size"},
      Flaw{[](auto& subject, auto& it) {
             subject.shape = {2, 2};
             static std::array<std::int64_t, 2> strides{1, 2};
             it.view.strides = strides.data();
           },
           "the loss, f32 [2, 2]: strides [1, 2]: its elements have to lie row-major without gaps"},
      Flaw{[](auto&, auto& it) { it.view.byte_offset = 12; }, "the loss, f32 [1, 2]: its 8 bytes at 0x"},
      Flaw{[](auto&, auto& it) { it.view.byte_offset = 2; }, "the loss: tensor f32 [1, 2] cannot start at byte 2"},
      Flaw{[](auto& subject, auto& it) { it.view.data = subject.values.data(); },
           "the loss, f32 [1, 2]: its 8 bytes at 0x"},
      Flaw{[](auto&, auto& it) { it.view.device = {kDLCUDA, 0}; },
           "the loss, f32 [1, 2]: device type 2; buffer 1 \"mine\" is memory of the host"},
      Flaw{[](auto&, auto& it) {
             it.buffer = nullptr;
             it.view.device = {kDLCUDA, 0};
           },
           "the loss, f32 [1, 2]: it names no buffer, but is not host memory: device type 2"},
      Flaw{[](auto&, auto& it) { it.buffer = reinterpret_cast<shardproof_buffer*>(&it); },
           "the loss: it is not a buffer of this device"},
      Flaw{[](auto& subject, auto& it) { subject.harness().release(subject.engine_context->device, 0, it.buffer); },
           "the loss: buffer 1 \"mine\" was released, or let go of, before"});
  Alone alone;
  REQUIRE(alone.create().ok());
  shardproof_buffer* const buffer = allocated(alone.scripted, 16);
  alone.scripted.shape = {1, 2};
  alone.scripted.the_loss =
      ScriptedSubject::of_host(static_cast<float*>(alone.scripted.harness().data(buffer)), alone.scripted.shape);
  alone.scripted.the_loss.buffer = buffer;
  Tensor loss;
  REQUIRE(alone.trainer->loss(loss).ok());
  CHECK(loss.range() == ByteRange{1, 0, 8});
  flaw.make(alone.scripted, alone.scripted.the_loss);
  CHECK_THAT(alone.trainer->loss(loss).error(), StartsWith(flaw.said));
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
  // The stride of a dimension of size one is never used.
  std::array<std::int64_t, 2> strides{77, 1};
  alone.scripted.shape = {1, 4};
  alone.scripted.the_loss = ScriptedSubject::of_host(alone.scripted.values.data() + 4, alone.scripted.shape);
  alone.scripted.the_loss.view.strides = strides.data();
  alone.scripted.the_loss.view.byte_offset = 4;
  REQUIRE(alone.trainer->loss(loss).ok());
  CHECK(loss.to_doubles() == std::vector<double>{6, 7, 8, 9});
}

TEST_CASE("memory holds what was written there, and is taken for nothing else") {
  Alone alone;
  REQUIRE(alone.create().ok());
  ScriptedSubject& it = alone.scripted;
  shardproof_buffer* const buffer = allocated(it, 16);
  const auto write = [&](DLDataType dtype, std::uint64_t count) {
    const shardproof_span span{.buffer = buffer, .offset = 0, .count = count, .dtype = dtype};
    const shardproof_work work{.kind = SHARDPROOF_WORK_OTHER, .label = "0", .writes = &span, .write_count = 1};
    CHECK(it.harness().submit(it.engine_context->device, 0, &work) == 0);
  };
  Tensor loss;
  const auto said = [&] { return alone.trainer->loss(loss).error(); };
  it.shape = {1, 4};
  it.the_loss = ScriptedSubject::of_host(static_cast<float*>(it.harness().data(buffer)), it.shape);
  it.the_loss.buffer = buffer;
  CHECK(said() == "");  // no dtype has been declared yet
  write({kDLBfloat, 16, 1}, 4);
  CHECK(said() == "the loss: it is declared as f32, but buffer 1 \"mine\" was written as bf16: use one dtype for both");
  write({kDLFloat, 64, 1}, 0);
  write({kDLFloat, 64, 1}, 2);
  CHECK(said() ==
        "the loss: it is declared as f32, but buffer 1 \"mine\" was written as f64 and bf16: use one dtype for both");
  CHECK(alone.objection([&](const shardproof_harness& harness, shardproof_device*) {
    const shardproof_span span{.buffer = buffer, .offset = 0, .count = 4, .dtype = {kDLFloat, 32, 1}};
    const shardproof_collective sum{
        .kind = SHARDPROOF_ALL_REDUCE, .op = SHARDPROOF_OP_SUM, .in = span, .out = span, .tag = "g"};
    return harness.run(it.engine_context->world, 0, &sum);
  }) == "run \"g\": in: it is declared as f32, but buffer 1 \"mine\" was written as f64 and bf16: use one dtype for "
        "both");
  write({kDLUInt, 8, 1}, 1);  // bytes may be those of anything
  CHECK(said() == "");
  shardproof_buffer* const host = allocated(it, 16, "other");
  const shardproof_span span{.buffer = host, .offset = 0, .count = 4, .dtype = {kDLInt, 32, 1}};
  CHECK(it.harness().host_access(it.engine_context->device, "looks", nullptr, 0, &span, 1) == 0);
  it.the_loss.view.data = it.harness().data(host);
  it.the_loss.buffer = host;
  CHECK(said() == "the loss: it is declared as f32, but buffer 2 \"other\" was written as i32: use one dtype for both");
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
  const Flaw flaw =
      GENERATE_COPY(Flaw{[](auto&, auto& view) { view.name = nullptr; }, "its parameter 0 has no name"},
                    Flaw{[](auto&, auto& view) { view.name = "head.weight"; },
                         "parameter \"head.weight\": the model has no parameter of this name"},
                    Flaw{[](auto&, auto& view) { view.shape = other.data(); },
                         it + ": its logical shape is [4, 3], but the model's is [4, 4]"},
                    Flaw{[](auto&, auto& view) { view.shape = nullptr; }, it + ": 2 dimensions without a shape"},
                    Flaw{[](auto&, auto& view) { view.ndim = 33; }, it + ": 33 dimensions; there may be 32"},
                    Flaw{[](auto&, auto& view) { view.dim = 2; }, it + ": there is no dimension 2"},
                    Flaw{[](auto&, auto& view) { view.start = 1; },
                         it + ": its shard of 4 rows from 1 on is not within the 4 along dimension 0"},
                    Flaw{[](auto&, auto& view) { view.start = -1; },
                         it + ": its shard of 4 rows from -1 on is not within the 4 along dimension 0"},
                    Flaw{[](auto&, auto& view) { view.shard.view.shape = other.data(); },
                         it + ": its shard is [4, 3], which is not a part of [4, 4] along dimension 0"},
                    Flaw{[&](auto& self, auto& view) { view.shard = of(self, flat); },
                         it + ": its shard is [16], which is not a part of [4, 4] along dimension 0"},
                    Flaw{[](auto&, auto& view) { view.dim = SHARDPROOF_FLATTENED; },
                         it + ": its shard is [4, 4]; a range of elements has one dimension"},
                    Flaw{[&](auto& self, auto& view) {
                           view.shard = of(self, flat);
                           view.dim = SHARDPROOF_FLATTENED;
                           view.start = 1;
                         },
                         it + ": its shard of 16 elements from 1 on is not within the 16 elements of [4, 4]"},
                    Flaw{[](auto&, auto& view) { view.shard.view.dtype = {kDLInt, 32, 1}; },
                         it + ": its shard is i32, but the plan keeps it in f32"},
                    Flaw{[](auto&, auto& view) { view.shard.view.data = nullptr; },
                         it + ", shard, f32 [4, 4]: it has elements and no data"},
                    Flaw{[&](auto& self, auto& view) { view.gradient = of(self, other); },
                         it + ": its gradient is f32 [4, 3], but its shard is f32 [4, 4]"},
                    Flaw{[&](auto& self, auto& view) {
                           view.second = of(self, self.shape);
                           view.second.view.dtype = {kDLInt, 32, 1};
                         },
                         it + ": its second tensor is i32 [4, 4], but its shard is f32 [4, 4]"});
  Alone alone;
  REQUIRE(alone.create().ok());
  std::vector<ParameterView> views;
  REQUIRE(alone.trainer->parameters(views).ok());
  REQUIRE(views.size() == 1);
  CHECK(views[0].shard.to_doubles().back() == 16);
  flaw.make(alone.scripted, alone.scripted.the_parameters[0]);
  CHECK(alone.trainer->parameters(views).error() == flaw.said);
}

TEST_CASE("a parameter may be meta, have no rows here, or be a part along any dimension or of all elements") {
  Alone alone;
  REQUIRE(alone.create().ok());
  std::vector<ParameterView> views;
  shardproof_parameter& given = alone.scripted.the_parameters[0];
  std::array<std::int64_t, 2> part{4, 1}, nothing{0, 4}, whole{4, 4};
  std::array<std::int64_t, 1> range{6};
  given.shape = whole.data();
  given.dim = SHARDPROOF_FLATTENED;
  given.start = 10;
  given.shard = given.gradient = ScriptedSubject::of_host(alone.scripted.values.data(), range);
  REQUIRE(alone.trainer->parameters(views).ok());
  CHECK(views[0].dim == flattened);
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
  alone.scripted.table.parameters = [](shardproof_trainer*, const shardproof_parameter**, std::size_t* count,
                                       shardproof_reply*) -> shardproof_status {
    *count = 2;
    return SHARDPROOF_OK;
  };
  CHECK(alone.trainer->parameters(views).error() == "2 parameters, but a NULL pointer");
}
