// The worker that the benchmarks run: cases that cost nothing but what the harness adds, and one that measures the fabric from inside.
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

}  // namespace

RANKED_TEST_CASE("bench/trivial", ranks(2), options::Each{"i", numbers(300)}) { CHECK(rank.index() >= 0); }

RANKED_TEST_CASE("bench/all_reduce", ranks(2, 4)) {
  std::array<float, shardproof::bench::all_reduce_elements> mine{};
  std::array<float, shardproof::bench::all_reduce_elements> sum{};
  mine.fill(1.0F);
  shardproof::Call call{.descriptor = {.count = mine.size(),
                                       .kind = shardproof::CollectiveKind::all_reduce,
                                       .dtype = shardproof::DType::f32,
                                       .op = shardproof::ReduceOp::sum},
                        .in = std::as_bytes(std::span(mine)),
                        .out = std::as_writable_bytes(std::span(sum))};
  rank.measure("all_reduce_ns", shardproof::bench::ns_per_call([&] { rank.world().run(call); }), "ns");
  CHECK(sum.back() == static_cast<float>(rank.world().size()));
}
