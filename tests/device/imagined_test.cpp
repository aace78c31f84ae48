// Collectives of ranks of which one is real.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <stdexcept>
#include <vector>

#include "harness/device/imagined_communicator.hpp"
#include "harness/device/sim/sim_platform.hpp"
#include "tests/device/groups.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr int size = 3;

struct Imagined {
  explicit Imagined(const CostModel& costs = {}, const DeviceOptions& options = {}) : device(costs, 0, options) {}

  std::vector<float> run(Collective collective, const Tensor& in, std::int64_t out_length) {
    collective.in = in;
    collective.out = device.empty(Device::compute, in.dtype(), {out_length}, MemoryClass::other, "out");
    world.run(Device::compute, collective);
    device.synchronize();
    const auto values = collective.out.values<float>();
    return {values.begin(), values.end()};
  }

  device::SimDevice device;
  device::ImaginedCommunicator world{device, size};
};

std::vector<float> list(std::initializer_list<float> values) { return values; }

}  // namespace

TEST_CASE("imagined ranks hold what the real one holds") {
  Imagined imagined;
  const Tensor in = iota(1, 2), six = iota(0, 6);
  CHECK(imagined.run({.kind = CollectiveKind::all_gather}, in, 6) == list({1, 2, 1, 2, 1, 2}));
  CHECK(imagined.run({.kind = CollectiveKind::all_to_all}, six, 6) == list({0, 1, 0, 1, 0, 1}));
  CHECK(imagined.run({.kind = CollectiveKind::reduce_scatter, .op = ReduceOp::sum}, six, 2) == list({0, 3}));
  CHECK(imagined.run({.kind = CollectiveKind::reduce_scatter, .op = ReduceOp::avg}, six, 2) == list({0, 1}));
  CHECK(imagined.run({.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum}, in, 2) == list({3, 6}));
  CHECK(imagined.run({.kind = CollectiveKind::all_reduce, .op = ReduceOp::premul_sum, .factor = 0.5}, in, 2) ==
        list({1.5, 3}));
  CHECK(imagined.run({.kind = CollectiveKind::all_reduce, .op = ReduceOp::max}, in, 2) == list({1, 2}));
  CHECK(imagined.run({.kind = CollectiveKind::broadcast, .root = 0}, in, 2) == list({1, 2}));
  imagined.world.run(Device::compute, {.kind = CollectiveKind::barrier});
}

TEST_CASE("an imagined collective works in place where a real one does") {
  Imagined imagined;
  const Tensor all = iota(0, 6);
  imagined.world.run(Device::compute, {.kind = CollectiveKind::all_gather, .in = all.narrow(0, 2), .out = all});
  CHECK(all.values<float>()[5] == 1);
  imagined.world.run(Device::compute,
                     {.kind = CollectiveKind::reduce_scatter, .op = ReduceOp::sum, .in = all, .out = all.narrow(0, 2)});
  CHECK(all.values<float>()[1] == 3);
}

TEST_CASE("an imagined collective is recorded and costs as a real one, and occupies its group's resource") {
  CostModel costs;
  costs.collectives[CollectiveKind::all_gather].fixed = 10;
  Imagined imagined(costs);
  const Stream one = imagined.device.create_stream(StreamRole::all_gather, "one"),
               two = imagined.device.create_stream(StreamRole::all_gather, "two");
  const Collective gather{.in = iota(0, 2), .out = Tensor::host(DType::f32, {6}), .tag = "layers.0"};
  for (const Stream stream : {one, two, one}) imagined.world.run(stream, gather);
  std::vector<fact::Collective> found;
  for (const Fact& fact : imagined.device.trace().facts) {
    if (const auto* collective = std::get_if<fact::Collective>(&fact)) found.push_back(*collective);
  }
  REQUIRE(found.size() == 3);
  CHECK(found[0].start == 0);
  CHECK(found[1].start == 10);
  CHECK(found[2].start == 20);
  CHECK(found[2].end == 30);
  CHECK(found[2].sequence == 2);
  CHECK(found[0].group == std::vector{0, 1, 2});
  CHECK(found[0].in_count == 2);
  CHECK(found[0].out_count == 6);
  CHECK(found[0].tag == "layers.0");
}

TEST_CASE("an imagined call of several collectives is recorded and costs as a real one") {
  CostModel costs;
  costs.collectives[CollectiveKind::all_reduce] = {.fixed = 10, .per_kib = 1};
  Imagined imagined(costs);
  const Tensor one = iota(1, 2), two = iota(5, 2);
  const auto sum = [](const Tensor& tensor, const char* tag) {
    return Collective{.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = tensor, .out = tensor, .tag = tag};
  };
  imagined.world.run_coalesced(Device::compute, std::vector{sum(one, "one"), sum(two, "two")});
  CHECK(one.values<float>()[1] == 6);
  CHECK(two.values<float>()[0] == 15);
  const std::vector<Fact>& facts = imagined.device.trace().facts;
  REQUIRE(facts.size() == 2);
  const auto &first = std::get<fact::Collective>(facts[0]), &second = std::get<fact::Collective>(facts[1]);
  CHECK(first.tag == "one");
  CHECK(second.tag == "two");
  CHECK(are_of_one_call(first, second));
  CHECK(first.end == 11);
  CHECK(second.end == 11);
  CHECK_THROWS_MATCHES(
      imagined.world.run_coalesced(Device::compute, std::vector{sum(one, "one"), sum(one, "two")}),
      std::invalid_argument,
      MessageMatches(ContainsSubstring("coalesced call of 3 imagined ranks: collective 0 writes memory")));
}

TEST_CASE("with separate resources imagined collectives of two kinds run side by side") {
  CostModel costs;
  costs.collectives[CollectiveKind::all_gather].fixed = costs.collectives[CollectiveKind::all_reduce].fixed = 10;
  Imagined imagined(costs, {.separate_resources = true});
  const Stream reduces = imagined.device.create_stream(StreamRole::all_reduce, "beside");
  imagined.world.run(Device::compute, {.in = iota(0, 2), .out = Tensor::host(DType::f32, {6})});
  const Tensor sum = iota(0, 2);
  imagined.world.run(reduces, {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = sum, .out = sum});
  CHECK(std::get<fact::Collective>(imagined.device.trace().facts.back()).start == 0);
}

TEST_CASE("what cannot be imagined is refused in words") {
  Imagined imagined;
  const Tensor two = iota(0, 2);
  CHECK_THROWS_MATCHES(
      imagined.run({.kind = CollectiveKind::broadcast, .root = 1, .tag = "t"}, two, 2), std::invalid_argument,
      MessageMatches(ContainsSubstring("broadcast \"t\" of 3 imagined ranks: what rank 1 has cannot be imagined")));
  CHECK_THROWS_MATCHES(imagined.run({.kind = CollectiveKind::all_gather, .tag = "t"}, two, 5), std::invalid_argument,
                       MessageMatches(ContainsSubstring("all_gather \"t\" of 3 imagined ranks")));
  CHECK_THROWS_MATCHES(imagined.world.split(0, 0, "part"), std::invalid_argument,
                       MessageMatches(ContainsSubstring("group \"part\" of 3 imagined ranks")));
}

TEST_CASE("only a world of one rank imagines others") {
  const auto alone = std::make_shared<test::FakeGroup>(1), pair = std::make_shared<test::FakeGroup>(2);
  const DeviceOptions imagined{.imagined_ranks = size};
  CHECK(device::SimPlatforms(alone, 0).objection({}, imagined).empty());
  CHECK(device::SimPlatforms(pair, 0).objection({}, {}).empty());
  CHECK_THAT(device::SimPlatforms(pair, 0).objection({}, imagined),
             ContainsSubstring("in a world of one rank only; this one has 2"));
  CHECK(device::SimPlatforms(alone, 0).make({}, imagined)->world().size() == size);
  CHECK(device::SimPlatforms(pair, 0).make({}, {})->world().size() == 2);
}
