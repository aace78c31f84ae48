#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/device/sim/sim_device.hpp"
#include "tests/device/groups.hpp"

using namespace shardproof;
using shardproof::test::FakeGroup;

namespace {

Tensor host(std::int64_t count, DType dtype = DType::f32) { return Tensor::host(dtype, {count}); }

}  // namespace

TEST_CASE("a collective is handed to the group as asked and recorded as done") {
  device::SimDevice device({}, 11);
  FakeGroup group(2, 1);
  const auto communicator = device.communicator(group);
  CHECK(communicator->rank() == 1);
  CHECK(communicator->size() == 2);
  const Stream stream = device.create_stream(StreamRole::reduce, "rs");
  const Tensor in = device.empty(stream, DType::bf16, {6}, MemoryClass::reduce_input, "in");
  const Tensor out = device.empty(stream, DType::bf16, {3}, MemoryClass::sharded_gradient, "out");
  group.calls.resize(3);  // three calls went before
  communicator->run(stream, {.kind = CollectiveKind::reduce_scatter,
                             .op = ReduceOp::premul_sum,
                             .factor = 0.5,
                             .in = in,
                             .out = out,
                             .tag = "layers.1"});

  const Descriptor& asked = group.calls.back();
  CHECK(asked.kind == CollectiveKind::reduce_scatter);
  CHECK(asked.count == 6);
  CHECK(asked.dtype == DType::bf16);
  CHECK(asked.op == ReduceOp::premul_sum);
  CHECK(asked.factor == 0.5);
  CHECK(asked.root == -1);
  CHECK(asked.tag_view() == "layers.1");

  CHECK(std::get<fact::Collective>(device.trace().facts.back()) ==
        fact::Collective{.stream = stream.id,
                         .kind = CollectiveKind::reduce_scatter,
                         .dtype = DType::bf16,
                         .op = ReduceOp::premul_sum,
                         .in_count = 6,
                         .out_count = 3,
                         .sequence = 3,
                         .group = {10, 11},
                         .tag = "layers.1",
                         .start = 0,
                         .end = 0,
                         .reads = {{1, 0, 12}},
                         .writes = {{2, 0, 6}}});
}

TEST_CASE("a tag too long for a descriptor is whole in the facts and in the costs") {
  const std::string tag(200, 'x');
  CostModel costs;
  costs.tagged_collectives[{CollectiveKind::all_gather, tag}] = 9;
  device::SimDevice device(costs, 0);
  FakeGroup group;
  device.communicator(group)->run(Device::compute, {.in = host(1), .out = host(2), .tag = tag});
  const auto& collective = std::get<fact::Collective>(device.trace().facts.back());
  CHECK(collective.tag == tag);
  CHECK(collective.end == 9);
}

TEST_CASE("an exception of the group passes and leaves no trace") {
  CostModel costs;
  costs.host_call = 2;
  device::SimDevice device(costs, 0);
  FakeGroup group;
  group.failure = std::make_exception_ptr(Mismatch("rank 0 and rank 1 differ"));
  const auto communicator = device.communicator(group);
  CHECK_THROWS_MATCHES(communicator->run(Device::compute, {.in = host(1), .out = host(2), .tag = "t"}), Mismatch,
                       Catch::Matchers::Message("rank 0 and rank 1 differ"));
  CHECK(device.trace().facts.empty());
  CHECK(device.host_clock() == 0);
}

TEST_CASE("a group of one rank is not asked") {
  device::SimDevice device({}, 0);
  FakeGroup alone(1);
  CHECK_THROWS_AS(device.communicator(alone)->run(Device::compute, {.in = host(1), .out = host(1), .tag = "t"}),
                  std::logic_error);
  CHECK(alone.calls.empty());
}

TEST_CASE("a fabric that loses ready times is found out") {
  device::SimDevice device({}, 0);
  FakeGroup group;
  group.lie = 0;
  device.submit(Device::compute,
                {.kind = WorkKind::other, .label = "", .reads = {}, .writes = {}, .cost = 5, .run = {}});
  CHECK_THROWS_AS(device.communicator(group)->run(Device::compute, {.in = host(1), .out = host(2), .tag = "t"}),
                  std::logic_error);
}

TEST_CASE("a collective with the wrong sizes is refused before any rank is asked") {
  using Kind = CollectiveKind;
  struct Refused {
    Collective collective;
    std::string why;
  };
  const Tensor wide = host(8);
  const auto refused = GENERATE_REF(values<Refused>({
      {{.in = host(3), .out = host(5)}, "`out` has 20 bytes, not the 24 of 6 f32"},
      {{.kind = Kind::reduce_scatter, .op = ReduceOp::sum, .in = host(5), .out = host(3)},
       "the count, 5, does not divide by the 2 ranks of the group"},
      {{.kind = Kind::all_reduce, .op = ReduceOp::sum, .in = host(5), .out = host(6)},
       "`out` has 24 bytes, not the 20 of 5 f32"},
      {{.kind = Kind::all_to_all, .in = host(5), .out = host(5)},
       "the count, 5, does not divide by the 2 ranks of the group"},
      {{.in = host(3), .out = host(6, DType::f16)}, "the input is f32 and the output f16; both must have one dtype"},
      {{.in = host(3)}, "the output is not defined"},
      {{.out = host(3)}, "the input is not defined"},
      {{.kind = Kind::all_reduce, .in = host(5), .out = host(5)}, "a reduction needs an operation"},
      {{.op = ReduceOp::sum, .in = host(1), .out = host(2)}, "this kind reduces nothing, but the operation is sum"},
      {{.kind = Kind::broadcast, .root = 2, .in = host(5), .out = host(5)}, "root 2 is not a rank of a group of 2"},
      {{.root = 0, .in = host(1), .out = host(2)}, "this kind has no root, but root 0 is given"},
      {{.kind = Kind::barrier, .in = host(1)}, "a barrier moves no data, but has operands"},
      {{.kind = Kind::send_recv, .in = host(1), .out = host(1)}, "a stream cannot run this kind; call it on the group"},
      {{.in = wide.narrow(4, 4), .out = wide},
       "`in` and `out` overlap, but this kind allows only identical memory, or a part at the rank's own place"},
  }));
  device::SimDevice device({}, 10);
  FakeGroup group;
  Collective collective = refused.collective;
  collective.tag = "layers.1";
  CAPTURE(refused.why);
  CHECK_THROWS_MATCHES(
      device.communicator(group)->run(Device::compute, collective), std::invalid_argument,
      Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith(std::string(to_string(collective.kind)) +
                                                                  " \"layers.1\" of group fake on rank 10: ") &&
                                      Catch::Matchers::EndsWith(refused.why)));
  CHECK(group.calls.empty());
  CHECK(device.trace().facts.empty());
}

TEST_CASE("an exchange in place is refused on a stream as it is in the group") {
  const Tensor both = host(4);
  CHECK_THROWS_AS(check({.kind = CollectiveKind::all_to_all, .in = both, .out = both}, 0, 2, "x"),
                  std::invalid_argument);
}

TEST_CASE("operands in place are fine") {
  const Tensor whole = host(6);
  const Tensor half = whole.narrow(3, 3);  // of rank 1
  CHECK_NOTHROW(check({.in = half, .out = whole}, 1, 2, "x"));
  CHECK_NOTHROW(
      check({.kind = CollectiveKind::reduce_scatter, .op = ReduceOp::sum, .in = whole, .out = half}, 1, 2, "x"));
  CHECK_NOTHROW(check({.kind = CollectiveKind::all_reduce, .op = ReduceOp::max, .in = whole, .out = whole}, 1, 2, "x"));
  CHECK_NOTHROW(check({.kind = CollectiveKind::broadcast, .root = 0, .in = whole, .out = whole}, 1, 2, "x"));
  CHECK_NOTHROW(check({.kind = CollectiveKind::barrier}, 1, 2, "x"));
  CHECK_NOTHROW(check({.in = host(0), .out = host(0)}, 1, 2, "x"));
  CHECK_THROWS_AS(check({.in = half, .out = whole}, 0, 2, "x"), std::invalid_argument);
}

TEST_CASE("a coalesced call costs its kind once and the bytes of all, and is one fact for each collective") {
  CostModel costs;
  costs.host_call = 5;
  costs.collectives[CollectiveKind::all_reduce] = {.fixed = 100, .per_kib = 7};
  costs.tagged_collectives[{CollectiveKind::all_reduce, "slow"}] = 1000;
  device::SimDevice device(costs, 10);
  FakeGroup group;
  const auto communicator = device.communicator(group);
  const Stream stream = device.create_stream(StreamRole::all_reduce, "ar");
  const Tensor first = device.empty(stream, DType::f32, {300}, MemoryClass::reduce_input, "first"),
               second = device.empty(stream, DType::f16, {100}, MemoryClass::reduce_input, "second");
  const auto sum = [](const Tensor& tensor, std::string tag) {
    return Collective{
        .kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = tensor, .out = tensor, .tag = std::move(tag)};
  };
  communicator->run_coalesced(stream, std::vector{sum(first, "one"), sum(second, "other")});
  communicator->run_coalesced(stream, std::vector{sum(first, "slow"), sum(second, "other")});

  std::vector<fact::Collective> found;
  for (const Fact& fact : device.trace().facts) {
    if (const auto* const call = std::get_if<fact::Collective>(&fact)) found.push_back(*call);
  }
  REQUIRE(found.size() == 4);
  CHECK(found[0].tag == "one");
  CHECK(found[0].in_count == 300);
  CHECK(found[0].dtype == DType::f32);
  CHECK(found[0].writes == std::vector<ByteRange>{{1, 0, 1200}});
  CHECK(found[1].tag == "other");
  CHECK(found[1].in_count == 100);
  CHECK(found[1].dtype == DType::f16);
  CHECK(found[1].reads == std::vector<ByteRange>{{2, 0, 200}});
  // 1400 bytes are two begun KiB. Each by itself, they would be three.
  for (const fact::Collective& call : {found[0], found[1]}) {
    CHECK(call.start == 5);
    CHECK(call.end == 5 + 100 + 2 * 7);
  }
  for (const fact::Collective& call : {found[2], found[3]}) {
    CHECK(call.start == found[0].end);
    CHECK(call.end == found[0].end + 1000);
  }
  CHECK(are_of_one_call(found[0], found[1]));
  CHECK_FALSE(are_of_one_call(found[1], found[2]));
  CHECK(device.host_clock() == 10);
}

TEST_CASE("a coalesced call is refused before any rank is asked, if it cannot be one call") {
  const Tensor whole = host(8);
  const auto sum = [](const Tensor& in, const Tensor& out) {
    return Collective{.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = in, .out = out, .tag = "bucket 1"};
  };
  const auto half = [&](std::int64_t start) { return whole.narrow(start, 4); };
  struct Refused {
    std::vector<Collective> collectives;
    std::string why;
  };
  const auto refused = GENERATE_REF(values<Refused>({
      {{}, "a coalesced call needs a collective"},
      {{sum(half(0), half(0)), {.in = host(1), .out = host(2)}},
       "all_reduce and all_gather cannot be in one call: issue a call for each kind"},
      {{sum(half(0), half(0)), sum(host(4), host(3))}, ", collective 1: `out` has 12 bytes, not the 16 of 4 f32"},
      {{sum(host(4), half(0)), sum(host(4), half(2))},
       "collective 0 writes memory that collective 1 uses: issue them one after the other"},
      {{sum(half(4), host(4)), sum(host(4), half(2))},
       "collective 1 writes memory that collective 0 uses: issue them one after the other"},
  }));
  device::SimDevice device({}, 10);
  FakeGroup group;
  CAPTURE(refused.why);
  CHECK_THROWS_MATCHES(
      device.communicator(group)->run_coalesced(Device::compute, refused.collectives), std::invalid_argument,
      Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith("coalesced call \"") &&
                                      Catch::Matchers::ContainsSubstring(" of group fake on rank 10") &&
                                      Catch::Matchers::EndsWith(refused.why)));
  CHECK(group.calls.empty());
  CHECK(device.trace().facts.empty());
  CHECK_NOTHROW(device.communicator(group)->run_coalesced(Device::compute,
                                                          std::vector{sum(half(0), half(0)), sum(half(4), half(4))}));
  FakeGroup alone(1);
  CHECK_THROWS_AS(device.communicator(alone)->run_coalesced(Device::compute, std::vector{sum(half(0), half(0))}),
                  std::logic_error);
}
