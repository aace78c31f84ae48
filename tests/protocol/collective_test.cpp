#include "harness/protocol/collective.hpp"

#include <limits>
#include <string>

#include <catch2/catch_test_macros.hpp>

using namespace shardproof;

namespace {

Descriptor all_gather() {
  Descriptor it;
  it.sequence = 17;
  it.kind = CollectiveKind::all_gather;
  it.dtype = DType::f32;
  it.count = 276;
  it.set_tag("layers.1");
  return it;
}

}  // namespace

TEST_CASE("a call is described by what was asked for") {
  Descriptor it = all_gather();
  CHECK(describe(it) == R"(all_gather #17 of 276 f32 "layers.1")");
  CHECK(describe_request(it) == R"(all_gather of 276 f32 "layers.1")");

  it.set_tag("");
  it.kind = CollectiveKind::all_reduce;
  it.op = ReduceOp::avg;
  CHECK(describe(it) == "all_reduce #17 of 276 f32 (avg)");
  it.op = ReduceOp::premul_sum;
  it.factor = 0.125;
  CHECK(describe(it) == "all_reduce #17 of 276 f32 (premul_sum, factor 0.125)");

  it = {};
  it.kind = CollectiveKind::broadcast;
  it.root = 2;
  it.count = 4;
  it.dtype = DType::bf16;
  CHECK(describe(it) == "broadcast #0 of 4 bf16 from root 2");

  CHECK(describe({}) == "barrier #0");
  it = {};
  it.kind = CollectiveKind::coalesced;
  it.count = 3;
  CHECK(describe(it) == "coalesced #0 of 3 calls");
}

TEST_CASE("tags are cut, and always end") {
  Descriptor it;
  it.set_tag(std::string(500, 'x'));
  CHECK(it.tag_view() == std::string(Descriptor::tag_capacity - 1, 'x'));
  it.set_tag("y");
  CHECK(it.tag_view() == "y");
  for (const char c : it.tag_view()) CHECK(c == 'y');
  CHECK(it.tag[Descriptor::tag_capacity - 1] == '\0');
}

TEST_CASE("requests are the same but for tag and time") {
  const Descriptor one = all_gather();
  const auto differs = [&](auto change) {
    Descriptor other = all_gather();
    change(other);
    return !same_request(one, other) && !same_request(other, one);
  };
  CHECK(same_request(one, all_gather()));
  CHECK_FALSE(differs([](Descriptor& d) { d.set_tag("head"); }));
  CHECK_FALSE(differs([](Descriptor& d) { d.ready_ns = 5; }));
  CHECK(differs([](Descriptor& d) { d.sequence = 18; }));
  CHECK(differs([](Descriptor& d) { d.kind = CollectiveKind::all_to_all; }));
  CHECK(differs([](Descriptor& d) { d.dtype = DType::i32; }));
  CHECK(differs([](Descriptor& d) { d.count = 275; }));
  CHECK(differs([](Descriptor& d) { d.op = ReduceOp::max; }));
  CHECK(differs([](Descriptor& d) { d.root = 0; }));
  CHECK(differs([](Descriptor& d) { d.factor = 2; }));

  Descriptor a, b;
  a.factor = b.factor = std::numeric_limits<double>::quiet_NaN();
  CHECK(same_request(a, b));
  a.factor = 0.0;
  b.factor = -0.0;
  CHECK_FALSE(same_request(a, b));
}

TEST_CASE("names of types, kinds and operations") {
  struct Type {
    DType dtype;
    const char* name;
    std::size_t bytes;
  };
  for (const Type& type : {Type{DType::f64, "f64", 8}, Type{DType::f32, "f32", 4}, Type{DType::bf16, "bf16", 2},
                           Type{DType::f16, "f16", 2}, Type{DType::i64, "i64", 8}, Type{DType::i32, "i32", 4},
                           Type{DType::i16, "i16", 2}, Type{DType::i8, "i8", 1}, Type{DType::u8, "u8", 1}}) {
    CHECK(to_string(type.dtype) == type.name);
    CHECK(size_of(type.dtype) == type.bytes);
  }
  CHECK(to_string(CollectiveKind::send_recv) == "send_recv");
  CHECK(to_string(ReduceOp::premul_sum) == "premul_sum");
}
