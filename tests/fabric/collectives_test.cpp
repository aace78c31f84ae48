// Every collective, on every type, in worlds of several sizes, against a serial fold.
#include <algorithm>
#include <random>
#include <span>

#include <fmt/format.h>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/fabric/oracle.hpp"
#include "tests/fabric/worlds.hpp"
#include "tests/rounds.hpp"

using namespace shardproof;
using namespace shardproof::testing;

namespace {

/// Sizes below, at and above what fits into a slot: the largest slot has 128 KiB.
constexpr std::size_t some_counts[] = {0, 1, 7, 1000};
constexpr std::size_t large_bytes = 300'000;

template <class T> std::span<const std::byte> in_bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}
template <class T> std::span<std::byte> out_bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

template <class T>
class Checks {
 public:
  Checks(Group& group, std::uint64_t seed)
      : group_(group), seed_(seed), size_(static_cast<std::size_t>(group.size())) {}

  void all_kinds(std::size_t count) {
    all_gather(count);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum, ReduceOp::max, ReduceOp::min}) {
      all_reduce(op, count);
      reduce_scatter(op, count);
    }
    broadcast(static_cast<int>(count % size_), count);
    all_to_all(count);
    send_recv(count);
  }

  void all_gather(std::size_t count) {
    std::vector<T> expected;
    for (int rank = 0; rank < group_.size(); ++rank) append(expected, operands<T>(rank, count, seed_));
    const auto mine = operands<T>(group_.rank(), count, seed_);
    std::vector<T> out(count * size_);
    group_.run(call(CollectiveKind::all_gather, count, in_bytes(mine), out_bytes(out)));
    check(out, expected, "all_gather");

    std::fill(out.begin(), out.end(), T(0));
    const auto own_place = std::span(out).subspan(static_cast<std::size_t>(group_.rank()) * count, count);
    std::copy(mine.begin(), mine.end(), own_place.begin());
    group_.run(call(CollectiveKind::all_gather, count, std::as_bytes(own_place), out_bytes(out)));
    check(out, expected, "all_gather in place");
  }

  void all_reduce(ReduceOp op, std::size_t count) {
    std::vector<T> expected(count);
    for (std::size_t i = 0; i < count; ++i) expected[i] = folded<T>(op, factor, group_.size(), i, seed_);
    auto mine = operands<T>(group_.rank(), count, seed_);
    std::vector<T> out(count);
    group_.run(reduction(CollectiveKind::all_reduce, op, count, in_bytes(mine), out_bytes(out)));
    check(out, expected, "all_reduce");
    group_.run(reduction(CollectiveKind::all_reduce, op, count, in_bytes(mine), out_bytes(mine)));
    check(mine, expected, "all_reduce in place");
  }

  void reduce_scatter(ReduceOp op, std::size_t count) {
    const auto own = static_cast<std::size_t>(group_.rank()) * count;
    std::vector<T> expected(count);
    for (std::size_t i = 0; i < count; ++i) expected[i] = folded<T>(op, factor, group_.size(), own + i, seed_);
    auto mine = operands<T>(group_.rank(), count * size_, seed_);
    std::vector<T> out(count);
    group_.run(reduction(CollectiveKind::reduce_scatter, op, count * size_, in_bytes(mine), out_bytes(out)));
    check(out, expected, "reduce_scatter");
    const auto own_place = std::span(mine).subspan(own, count);
    group_.run(reduction(CollectiveKind::reduce_scatter, op, count * size_, in_bytes(mine),
                         std::as_writable_bytes(own_place)));
    check({own_place.begin(), own_place.end()}, expected, "reduce_scatter in place");
  }

  void broadcast(int root, std::size_t count) {
    const auto mine = operands<T>(group_.rank(), count, seed_);
    std::vector<T> out(count);
    auto it = call(CollectiveKind::broadcast, count,
                   group_.rank() == root ? in_bytes(mine) : std::span<const std::byte>(), out_bytes(out));
    it.descriptor.root = root;
    group_.run(it);
    check(out, operands<T>(root, count, seed_), "broadcast");
  }

  void all_to_all(std::size_t count) {
    const auto mine = operands<T>(group_.rank(), count * size_, seed_);
    std::vector<T> expected, out(count * size_);
    for (int rank = 0; rank < group_.size(); ++rank) {
      const auto theirs = operands<T>(rank, count * size_, seed_);
      const auto* part = theirs.data() + static_cast<std::size_t>(group_.rank()) * count;
      append(expected, std::vector<T>(part, part + count));
    }
    group_.run(call(CollectiveKind::all_to_all, count * size_, in_bytes(mine), out_bytes(out)));
    check(out, expected, "all_to_all");
  }

  void send_recv(std::size_t count) {
    const int size = group_.size();
    const auto mine = operands<T>(group_.rank(), count, seed_);
    std::vector<T> out(count);
    auto ring = call(CollectiveKind::send_recv, count, in_bytes(mine), out_bytes(out));
    ring.to = (group_.rank() + 1) % size;
    ring.from = (group_.rank() + size - 1) % size;
    group_.run(ring);
    check(out, operands<T>(ring.from, count, seed_), "send_recv around");
    if (size == 1) return;

    // Rank 0 sends to the last; all others only take part.
    const bool sends = group_.rank() == 0, receives = group_.rank() == size - 1;
    std::vector<T> received(receives ? count : 0);
    auto pair = call(CollectiveKind::send_recv, count, sends ? in_bytes(mine) : std::span<const std::byte>(),
                     out_bytes(received));
    pair.to = sends ? size - 1 : -1;
    pair.from = receives ? 0 : -1;
    group_.run(pair);
    if (receives) check(received, operands<T>(0, count, seed_), "send_recv of one pair");
  }

  /// A batch whose members differ in size and operation.
  void coalesced(std::size_t many, std::size_t count) {
    std::vector<std::vector<T>> in, out;
    std::vector<Call> calls;
    for (std::size_t i = 0; i < many; ++i) {
      in.push_back(operands<T>(group_.rank(), count * (i % 3), seed_ + i));
      out.emplace_back(in.back().size());
    }
    for (std::size_t i = 0; i < many; ++i) {
      calls.push_back(reduction(CollectiveKind::all_reduce, i % 2 == 0 ? ReduceOp::sum : ReduceOp::max, in[i].size(),
                                in_bytes(in[i]), out_bytes(out[i])));
    }
    group_.run_coalesced(calls);
    for (std::size_t i = 0; i < many; ++i) {
      std::vector<T> expected(in[i].size());
      for (std::size_t k = 0; k < expected.size(); ++k)
        expected[k] = folded<T>(calls[i].descriptor.op, factor, group_.size(), k, seed_ + i);
      check(out[i], expected, "all_reduce in a batch");
    }
  }

 private:
  static constexpr double factor = 3.0;

  static void append(std::vector<T>& to, const std::vector<T>& values) {
    to.insert(to.end(), values.begin(), values.end());
  }

  Call call(CollectiveKind kind, std::size_t count, std::span<const std::byte> in, std::span<std::byte> out) const {
    Call it;
    it.descriptor.kind = kind;
    it.descriptor.dtype = DTypeOf<T>::value;
    it.descriptor.count = count;
    it.in = in;
    it.out = out;
    return it;
  }

  Call reduction(CollectiveKind kind, ReduceOp op, std::size_t count, std::span<const std::byte> in,
                 std::span<std::byte> out) const {
    Call it = call(kind, count, in, out);
    it.descriptor.op = op;
    if (op == ReduceOp::premul_sum) it.descriptor.factor = factor;
    return it;
  }

  void check(const std::vector<T>& got, const std::vector<T>& expected, const char* what) const {
    if (same_bits(got, expected)) return;
    std::size_t at = 0;
    while (at < got.size() && std::memcmp(&got[at], &expected[at], sizeof(T)) == 0) ++at;
    expect(false, fmt::format("{} of {} {} on {} ranks: element {} is {}, not {}", what, got.size(),
                              to_string(DTypeOf<T>::value), size_, at, static_cast<double>(got[at]),
                              static_cast<double>(expected[at])));
  }

  Group& group_;
  std::uint64_t seed_;
  std::size_t size_;
};

template <class F>
void for_each_type(F f) {
  f(double{}), f(float{}), f(Eigen::bfloat16{}), f(Eigen::half{}), f(std::int64_t{}), f(std::int32_t{}),
      f(std::int16_t{}), f(std::int8_t{}), f(std::uint8_t{});
}

void everything(Side& side) {
  for_each_type([&](auto type) {
    Checks<decltype(type)> checks(*side.world, 11);
    for (const std::size_t count : some_counts) checks.all_kinds(count);
  });
}

}  // namespace

TEST_CASE("collectives equal a serial fold, ranks as threads") {
  const int size = GENERATE(1, 2, 3, 4, 5, 8, 17);
  CHECK(run_threads(size, everything) == all_well(size));
}

TEST_CASE("collectives equal a serial fold, ranks as processes") {
  const int size = GENERATE(1, 2, 17);
  CHECK(run_processes(size, everything) == all_well(size));
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
  const Body alone = [](Side& side) {
    Call call;
    call.descriptor.ready_ns = 7;
    expect(side.world->run(call).latest_ready_ns == 7, "alone");
  };
  CHECK(run_threads(1, alone) == all_well(1));
}
