// Every collective, on every type, in worlds of several sizes, against a serial fold.
#include <algorithm>
#include <random>
#include <span>

#include <fmt/format.h>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/fabric/collective_checks.hpp"
#include "tests/fabric/message_worlds.hpp"
#include "tests/fabric/worlds.hpp"
#include "tests/rounds.hpp"

using namespace shardproof;
using namespace shardproof::testing;

namespace {

constexpr std::size_t large_bytes = 300'000;

}  // namespace

TEST_CASE("collectives equal a serial fold, ranks as threads") {
  const int size = GENERATE(1, 2, 3, 4, 5, 8, 17);
  CHECK(run_threads(size, every_collective) == all_well(size));
}

TEST_CASE("collectives equal a serial fold, ranks as processes") {
  const int size = GENERATE(1, 2, 17);
  CHECK(run_processes(size, every_collective) == all_well(size));
}

TEST_CASE("collectives equal a serial fold, ranks that send messages") {
  const int size = GENERATE(1, 2, 3, 4, 5, 8);
  CHECK(run_messages(size, every_collective) == all_well(size));
}

TEST_CASE("a call that does not fit into a slot is split into pieces") {
  const int size = GENERATE(2, 5);
  const Body large = [](Side& side) {
    Checks<float>(*side.world, 12).all_kinds(large_bytes / sizeof(float));
    Checks<Eigen::half>(*side.world, 13).all_reduce(ReduceOp::avg, large_bytes / 2);
    Checks<std::int8_t>(*side.world, 14).all_kinds(large_bytes / 3);
    Checks<double>(*side.world, 15).all_reduce(ReduceOp::sum, 100'003);
  };
  CHECK(run_threads(size, large) == all_well(size));
  CHECK(run_processes(size, large) == all_well(size));
}

TEST_CASE("a call that does not fit into the memory of messages is split into pieces") {
  const int size = GENERATE(2, 3);
  const Body large = [](Side& side) {
    Checks<float>(*side.world, 12).all_kinds(300'001);  // a slot has 1 MiB, and each part takes more
    Checks<std::int8_t>(*side.world, 14).all_gather(3'000'003);
    Checks<std::int64_t>(*side.world, 15).all_reduce(ReduceOp::sum, 500'003);
  };
  CHECK(run_messages(size, large) == all_well(size));
}

TEST_CASE("a batch is moved together, however many calls and bytes it has") {
  const int size = GENERATE(1, 2, 4);
  const auto [many, count] =
      GENERATE(std::pair<std::size_t, std::size_t>{0, 0}, std::pair<std::size_t, std::size_t>{1, 5},
               std::pair<std::size_t, std::size_t>{9, 100}, std::pair<std::size_t, std::size_t>{4, 30'000},
               std::pair<std::size_t, std::size_t>{2500, 3});
  const Body batch = [many, count](Side& side) {
    Checks<float>(*side.world, 16).coalesced(many, count);
    Checks<float>(*side.world, 17).coalesced(2, 10);
  };
  CHECK(run_threads(size, batch) == all_well(size));
  CHECK(run_messages(size, batch) == all_well(size));
}

TEST_CASE("random calls in a random order") {
  const std::uint64_t seed = Catch::getSeed();
  INFO("replay with --rng-seed " << seed);
  const int size = GENERATE(2, 3, 7);
  const Body random = [seed](Side& side) {
    std::mt19937_64 same_on_all(seed);
    const auto draw = [&](std::uint64_t most) { return static_cast<std::size_t>(same_on_all() % (most + 1)); };
    for (int step = 0; step < rounds(300); ++step) {
      const std::uint64_t operand_seed = same_on_all();
      const std::size_t count = draw(9) == 0 ? draw(60'000) : draw(300);
      const auto op = static_cast<ReduceOp>(1 + draw(4));
      const std::size_t kind = draw(6), root = draw(static_cast<std::uint64_t>(side.size - 1)), type = draw(2),
                        many = draw(6);
      const auto once = [&](auto example) {
        Checks<decltype(example)> checks(*side.world, operand_seed);
        switch (kind) {
          case 0: return checks.all_gather(count);
          case 1: return checks.all_reduce(op, count);
          case 2: return checks.reduce_scatter(op, count);
          case 3: return checks.broadcast(static_cast<int>(root), count);
          case 4: return checks.all_to_all(count);
          case 5: return checks.send_recv(count);
          default: return checks.coalesced(many, count);
        }
      };
      type == 0 ? once(float{}) : type == 1 ? once(Eigen::bfloat16{}) : once(std::int64_t{});
      if (draw(19) == 0) side.next_case();
    }
  };
  CHECK(run_threads(size, random) == all_well(size));
  CHECK(run_processes(size, random) == all_well(size));
  CHECK(run_messages(size, random) == all_well(size));
}

TEST_CASE("tensors go through the same calls") {
  const Body tensors = [](Side& side) {
    Group& world = *side.world;
    const auto mine = iota(static_cast<float>(side.rank * 10), 6).reshape({3, 2});
    const Tensor all = world.all_gather(mine, "all");
    expect(all.shape() == Shape{3, 3, 2}, "shape of all_gather: " + to_string(all.shape()));
    for (int rank = 0; rank < 3; ++rank)
      expect(all.row(rank) == iota(static_cast<float>(rank * 10), 6).reshape({3, 2}), "all_gather");
    const Tensor part = world.reduce_scatter(mine);
    const auto row = static_cast<float>(30 + side.rank * 6);
    expect(part == Tensor::of<float>({1, 2}, std::vector{row, row + 3}), "reduce_scatter: " + to_string(part));
    expect(world.all_reduce(mine, ReduceOp::avg) == iota(10, 6).reshape({3, 2}), "all_reduce");
    expect(world.broadcast(mine, 2) == iota(20, 6).reshape({3, 2}), "broadcast");
    const Tensor exchanged = world.all_to_all(mine);
    expect(exchanged.row(1) == iota(static_cast<float>(10 + side.rank * 2), 2), "all_to_all: " + to_string(exchanged));
    expect(world.send_recv(mine, (side.rank + 1) % 3, (side.rank + 2) % 3) ==
               iota(static_cast<float>((side.rank + 2) % 3 * 10), 6).reshape({3, 2}),
           "send_recv");
    expect(!world.send_recv(mine, -1, -1).defined(), "send_recv of nothing");
    world.barrier("end");
    thrown_by<std::invalid_argument>([&] { world.reduce_scatter(iota(0, 4)); });
  };
  CHECK(run_threads(3, tensors) == all_well(3));
  CHECK(run_messages(3, tensors) == all_well(3));
}

TEST_CASE("a receipt carries the latest time at which a rank was ready") {
  const Body late = [](Side& side) {
    Call call;
    call.descriptor.ready_ns = side.rank == 1 ? 500 : side.rank;
    const Receipt first = side.world->run(call);
    expect(first.latest_ready_ns == 500, "latest of a barrier");
    call.descriptor.ready_ns = -5 - side.rank;
    const Receipt second = side.world->run_coalesced({});
    const Receipt third = side.world->run(call);
    expect(second.sequence == first.sequence + 1 && third.sequence == second.sequence + 1, "sequence numbers");
    expect(third.latest_ready_ns == -5, "latest of negative times");
  };
  CHECK(run_threads(3, late) == all_well(3));
  CHECK(run_messages(3, late) == all_well(3));
  const Body alone = [](Side& side) {
    Call call;
    call.descriptor.ready_ns = 7;
    expect(side.world->run(call).latest_ready_ns == 7, "alone");
  };
  CHECK(run_threads(1, alone) == all_well(1));
}
