// Checks of every collective of a group, on one type, against a serial fold. Every rank of the group makes the same
// calls of an object.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/fabric/group.hpp"
#include "tests/fabric/oracle.hpp"
#include "tests/fabric/worlds.hpp"

namespace shardproof::testing {

template <class T>
std::span<const std::byte> in_bytes(const std::vector<T>& values) {
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

/// Every kind on every type. The sizes fit into the memory of a single step.
inline void every_collective(Side& side) {
  for_each_type([&](auto type) {
    Checks<decltype(type)> checks(*side.world, 11);
    for (const std::size_t count : {0U, 1U, 7U, 1000U}) checks.all_kinds(count);
  });
}

}  // namespace shardproof::testing
