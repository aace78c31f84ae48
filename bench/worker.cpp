// The worker of the benchmarks. It has cases that cost only the harness's own part, and one case that measures the
// fabric from inside.
#include <fmt/format.h>

#include <array>
#include <shardproof.hpp>
#include <span>

#include "bench/all_reduce.hpp"

namespace {

std::vector<std::string> numbers(int count) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back(fmt::format("{:03}", i));
  return all;
}

template <class T, std::size_t count>
shardproof::Call all_reduce_of(const std::array<T, count>& mine, std::array<T, count>& result, shardproof::DType dtype,
                               shardproof::ReduceOp op) {
  return {.descriptor = {.count = count, .kind = shardproof::CollectiveKind::all_reduce, .dtype = dtype, .op = op},
          .in = std::as_bytes(std::span(mine)),
          .out = std::as_writable_bytes(std::span(result))};
}

}  // namespace

RANKED_TEST_CASE("bench/trivial", ranks(2), options::Each{"i", numbers(300)}) { CHECK(rank.index() >= 0); }

RANKED_TEST_CASE("bench/scale", ranks(2, 4, 8, 16, 32, 64, 128, 256), options::Each{"i", numbers(10)}) {
  CHECK(rank.index() >= 0);
}

RANKED_TEST_CASE("bench/all_reduce", ranks(2, 4)) {
  std::array<float, shardproof::bench::all_reduce_elements> mine{};
  std::array<float, shardproof::bench::all_reduce_elements> sum{};
  mine.fill(1.0F);
  const auto call = all_reduce_of(mine, sum, shardproof::DType::f32, shardproof::ReduceOp::sum);
  const std::array own{shardproof::bench::ns_per_call([&] { rank.world().run(call); })};
  // Ranks must report the same measurement: the slowest rank's.
  std::array slowest{0.0};
  rank.world().run(all_reduce_of(own, slowest, shardproof::DType::f64, shardproof::ReduceOp::max));
  rank.measure("all_reduce_ns", slowest[0], "ns");
  CHECK(sum.back() == static_cast<float>(rank.world().size()));
}
