// Communicators on a device: results, order, groups.
#include "harness/player/play.hpp"
#include "tests/device/contract/contract.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <vector>

using namespace contract;

namespace {

/// Small integers, exact in every dtype and in every order of additions; distinct per rank.
double element(int rank, std::int64_t index) { return static_cast<double>((index * 5 + rank * 3) % 7 + 1); }

Tensor operand(DType dtype, int rank, std::int64_t count) {
  const Tensor wide = Tensor::host(DType::f64, {count}), made = Tensor::host(dtype, {count});
  for (std::int64_t i = 0; i < count; ++i) wide.values<double>()[static_cast<std::size_t>(i)] = element(rank, i);
  cpu_kernels().copy(nullptr, made, wide);
  return made;
}

Tensor reduced(DType dtype, int ranks, ReduceOp op, double factor, std::int64_t start, std::int64_t count) {
  const Tensor wide = Tensor::host(DType::f64, {count}), made = Tensor::host(dtype, {count});
  for (std::int64_t i = 0; i < count; ++i) {
    double result = element(0, start + i) * factor;
    for (int rank = 1; rank < ranks; ++rank) {
      const double next = element(rank, start + i) * factor;
      result = op == ReduceOp::max   ? std::max(result, next)
               : op == ReduceOp::min ? std::min(result, next)
                                     : result + next;
    }
    wide.values<double>()[static_cast<std::size_t>(i)] = result;
  }
  cpu_kernels().copy(nullptr, made, wide);
  return made;
}

}  // namespace

RANKED_TEST_CASE("contract/collectives_move_what_they_should", ranks(2, 3, 4),
                 each("dtype", "f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8")) {
  const DType dtype = dtype_named(rank.param("dtype"));
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  Communicator& world = platform->world();
  const int size = world.size(), me = world.rank();
  const Stream stream = device.create_stream(StreamRole::other, "one");
  const Tensor mine = put(device, stream, operand(dtype, me, part)),
               whole = put(device, stream, operand(dtype, me, part * size));

  const Tensor gathered = room(device, stream, whole);
  world.run(stream, {.kind = CollectiveKind::all_gather, .in = mine, .out = gathered, .tag = "gather"});
  const Tensor all = get(device, gathered);
  for (int r = 0; r < size; ++r) CHECK(all.narrow(r * part, part) == operand(dtype, r, part));

  const Tensor copied = room(device, stream, mine);
  const int root = size - 1;
  world.run(stream, {.kind = CollectiveKind::broadcast, .root = root, .in = mine, .out = copied, .tag = "broadcast"});
  CHECK(get(device, copied) == operand(dtype, root, part));

  const Tensor exchanged = room(device, stream, whole);
  world.run(stream, {.kind = CollectiveKind::all_to_all, .in = whole, .out = exchanged, .tag = "exchange"});
  const Tensor parts = get(device, exchanged);
  for (int r = 0; r < size; ++r)
    CHECK(parts.narrow(r * part, part) == operand(dtype, r, part * size).narrow(me * part, part));

  world.run(stream, {.kind = CollectiveKind::barrier, .tag = "barrier"});
  device.synchronize();
}

RANKED_TEST_CASE("contract/reductions", ranks(2, 3, 4),
                 each("dtype", "f64", "f32", "bf16", "f16", "i64", "i32", "i8", "u8")) {
  const DType dtype = dtype_named(rank.param("dtype"));
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  Communicator& world = platform->world();
  const int size = world.size(), me = world.rank();
  const Tensor whole = put(device, Device::compute, operand(dtype, me, part * size)),
               mine = room(device, Device::compute, operand(dtype, me, part));
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::premul_sum}) {
    INFO(to_string(op));
    const double factor = op == ReduceOp::premul_sum ? 2 : 1;
    const Tensor everywhere = room(device, Device::compute, whole);
    world.run(
        Device::compute,
        {.kind = CollectiveKind::all_reduce, .op = op, .factor = factor, .in = whole, .out = everywhere, .tag = "ar"});
    CHECK(get(device, everywhere) == reduced(dtype, size, op, factor, 0, part * size));
    world.run(
        Device::compute,
        {.kind = CollectiveKind::reduce_scatter, .op = op, .factor = factor, .in = whole, .out = mine, .tag = "rs"});
    CHECK(get(device, mine) == reduced(dtype, size, op, factor, me * part, part));
  }
}

/// On 2 and 4 ranks, where the division is exact in every float.
RANKED_TEST_CASE("contract/averages", ranks(2, 4), each("dtype", "f64", "f32", "bf16", "f16")) {
  const DType dtype = dtype_named(rank.param("dtype"));
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const int size = platform->world().size();
  const Tensor mine = put(device, Device::compute, operand(dtype, rank.index(), part)),
               mean = room(device, Device::compute, mine);
  platform->world().run(
      Device::compute,
      {.kind = CollectiveKind::all_reduce, .op = ReduceOp::avg, .in = mine, .out = mean, .tag = "mean"});
  CHECK(get(device, mean) == reduced(dtype, size, ReduceOp::sum, 1.0 / size, 0, part));
}

RANKED_TEST_CASE("contract/operands_in_place", ranks(2, 3)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  Communicator& world = platform->world();
  const int size = world.size(), me = world.rank();
  const Tensor flat = put(device, Device::compute, operand(DType::f32, me, part * size));
  const Tensor mine = flat.narrow(me * part, part);
  world.run(Device::compute,
            {.kind = CollectiveKind::reduce_scatter, .op = ReduceOp::sum, .in = flat, .out = mine, .tag = "rs"});
  CHECK(get(device, mine) == reduced(DType::f32, size, ReduceOp::sum, 1, me * part, part));
  world.run(Device::compute, {.kind = CollectiveKind::all_gather, .in = mine, .out = flat, .tag = "ag"});
  CHECK(get(device, flat) == reduced(DType::f32, size, ReduceOp::sum, 1, 0, part * size));
}

/// A group's collectives run one at a time, in the order of their issue, on whatever streams they are.
RANKED_TEST_CASE("contract/a_group_keeps_its_order_across_streams", ranks(2, 3)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  Communicator& world = platform->world();
  const Stream one = device.create_stream(StreamRole::other, "one"),
               two = device.create_stream(StreamRole::other, "two");
  const Tensor first = put(device, one, operand(DType::f32, rank.index(), part)),
               second = put(device, two, operand(DType::f32, rank.index(), part));
  if (rank.index() == 0) fill(device, one, room(device, one, first), 0, slow);  // rank 0 comes late to the first
  for (int i = 0; i < 10; ++i) {
    world.run(one,
              {.kind = CollectiveKind::all_reduce, .op = ReduceOp::max, .in = first, .out = first, .tag = "first"});
    world.run(two,
              {.kind = CollectiveKind::all_reduce, .op = ReduceOp::min, .in = second, .out = second, .tag = "second"});
  }
  CHECK(get(device, first) == reduced(DType::f32, world.size(), ReduceOp::max, 1, 0, part));
  CHECK(get(device, second) == reduced(DType::f32, world.size(), ReduceOp::min, 1, 0, part));
  const Trace trace = platform->take_recording().clocked();
  Nanoseconds end = 0;
  int seen = 0;
  for (const Fact& fact : trace.facts) {
    const auto* call = std::get_if<fact::Collective>(&fact);
    if (call == nullptr) continue;
    CHECK(call->end >= end);
    CHECK(call->sequence == static_cast<std::uint64_t>(seen));
    end = call->end;
    ++seen;
  }
  CHECK(seen == 20);
}

/// Each moves what it would move by itself, and all of a call share its number and its times.
RANKED_TEST_CASE("contract/coalesced_collectives", ranks(2, 3, 4), each("dtype", "f64", "f32", "bf16", "f16", "i32")) {
  const DType dtype = dtype_named(rank.param("dtype"));
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  Communicator& world = platform->world();
  const Stream stream = device.create_stream(StreamRole::all_reduce, "all-reduce");
  const ReduceOp ops[] = {ReduceOp::sum, ReduceOp::max, ReduceOp::premul_sum};
  std::vector<Tensor> operands;
  std::vector<Collective> collectives;
  for (const ReduceOp op : ops) {
    const Tensor operand_here = operands.emplace_back(
        put(device, stream, operand(dtype, rank.index(), part + static_cast<std::int64_t>(operands.size()))));
    const double factor = op == ReduceOp::premul_sum ? 2 : 1;
    collectives.push_back({.kind = CollectiveKind::all_reduce,
                           .op = op,
                           .factor = factor,
                           .in = operand_here,
                           .out = operand_here,
                           .tag = "reduce"});
  }
  for (int round = 0; round < 2; ++round)
    world.run_coalesced(stream, std::span(collectives).subspan(0, round == 0 ? 3 : 1));
  for (std::size_t i = 1; i < operands.size(); ++i) {
    INFO(to_string(ops[i]));
    CHECK(get(device, operands[i]) ==
          reduced(dtype, world.size(), ops[i], collectives[i].factor, 0, operands[i].numel()));
  }
  std::vector<fact::Collective> found;
  const Trace trace = platform->take_recording().clocked();
  for (const Fact& fact : trace.facts) {
    if (const auto* const call = std::get_if<fact::Collective>(&fact)) found.push_back(*call);
  }
  REQUIRE(found.size() == 4);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(are_of_one_call(found[0], found[i]));
    CHECK(found[i].start == found[0].start);
    CHECK(found[i].end == found[0].end);
    CHECK(found[i].in_count == static_cast<std::uint64_t>(operands[i].numel()));
  }
  CHECK_FALSE(are_of_one_call(found[0], found[3]));
  CHECK(found[3].start >= found[0].end);
}

RANKED_TEST_CASE("contract/parts_of_a_group", ranks(1, 2, 3, 4)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const int size = platform->world().size(), me = platform->world().rank();
  // One group has the even ranks, in reverse order, and one has the odd ranks. The last rank joins no group.
  const bool stays_out = size > 2 && me == size - 1;
  const auto group = platform->world().split(stays_out ? -1 : me % 2, -me, "parity");
  CHECK((group == nullptr) == stays_out);
  if (group) {
    std::vector<int> expected;
    for (int r = size - 1; r >= 0; --r) {
      if (r % 2 == me % 2 && !(size > 2 && r == size - 1)) expected.push_back(r);
    }
    CHECK(std::vector<int>(group->members().begin(), group->members().end()) == expected);
    if (group->size() > 1) {
      const Tensor mine = put(device, Device::compute, operand(DType::f32, me, part)),
                   all = room(device, Device::compute, operand(DType::f32, 0, 2 * part));
      REQUIRE(group->size() == 2);
      group->run(Device::compute, {.kind = CollectiveKind::all_gather, .in = mine, .out = all, .tag = "part"});
      const Tensor gathered = get(device, all);
      for (int i = 0; i < 2; ++i)
        CHECK(gathered.narrow(i * part, part) == operand(DType::f32, expected[static_cast<std::size_t>(i)], part));
    } else {
      const Tensor alone = put(device, Device::compute, operand(DType::f32, me, part));
      CHECK_THROWS_AS(
          group->run(Device::compute, {.kind = CollectiveKind::all_gather, .in = alone, .out = alone, .tag = "alone"}),
          std::logic_error);
    }
  }
  device.synchronize();
}

RANKED_TEST_CASE("contract/what_no_group_can_do_is_refused", ranks(2)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  Communicator& world = platform->world();
  const Tensor mine = put(device, Device::compute, operand(DType::f32, rank.index(), part)),
               other = room(device, Device::compute, operand(DType::f64, 0, part));
  CHECK_THROWS_AS(
      world.run(Device::compute, {.kind = CollectiveKind::all_gather, .in = mine, .out = mine, .tag = "too small"}),
      std::invalid_argument);
  CHECK_THROWS_AS(
      world.run(Device::compute,
                {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = mine, .out = other, .tag = "unlike"}),
      std::invalid_argument);
  CHECK_THROWS_AS(
      world.run(
          Device::compute,
          {.kind = CollectiveKind::all_reduce, .op = ReduceOp::none, .in = mine, .out = mine, .tag = "no operation"}),
      std::invalid_argument);
  // Nothing of that has been issued: ranks still agree.
  world.run(Device::compute,
            {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = mine, .out = mine, .tag = "sum"});
  CHECK(get(device, mine) == reduced(DType::f32, 2, ReduceOp::sum, 1, 0, part));
}

/// Same bits on every rank and in every run, where that is promised: operands of which each order of additions gives
/// another sum.
RANKED_TEST_CASE("contract/rank_order_is_kept_where_promised", ranks(3, 4)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  if (!platform->world().capabilities().rank_ordered) rank.skip("the fabric does not promise it");
  constexpr std::array<float, 4> operands{1e8F, 1.0F, -1e8F, 3.0F};
  float expected = operands[0];
  for (int r = 1; r < platform->world().size(); ++r) expected += operands[static_cast<std::size_t>(r)];
  const std::array<float, 1> mine{operands[static_cast<std::size_t>(rank.index())]};
  const Tensor sum = put(device, Device::compute, Tensor::of<float>({1}, mine));
  platform->world().run(Device::compute,
                        {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = sum, .out = sum, .tag = "sum"});
  CHECK(get(device, sum).values<float>()[0] == expected);
}

/// As docs/gpu.md has it.
RANKED_TEST_CASE("contract/sum", ranks(2, 4)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Tensor mine = iota(static_cast<float>(rank.index()), 3);
  const Tensor there = device.empty(Device::compute, mine.dtype(), mine.shape(), MemoryClass::other, "operand");
  device.submit(Device::compute,
                {.label = "upload", .writes = {there}, .run = [=](const Kernels& kernels, NativeStream stream) {
                   kernels.copy(stream, there, mine);
                 }});
  platform->world().run(
      Device::compute,
      {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = there, .out = there, .tag = "sum"});
  device.synchronize();
  CHECK(device.to_host(there).values<float>()[0] ==
        static_cast<float>(rank.world().size() * (rank.world().size() - 1)) / 2);
}
