// Every rule of what a group can be asked for, once by the call that it forbids.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "harness/fabric/objection.hpp"

using namespace shardproof;
using Kind = CollectiveKind;

namespace {

// Operands by place in one block of memory: rank 1 of 3 asks.
struct Place {
  std::size_t begin = 0, bytes = 0;
};

struct Asked {
  const char* why;  ///< empty: it can be run
  Kind kind;
  std::uint64_t count;
  Place in, out;
  ReduceOp op = ReduceOp::none;
  int root = -1, to = -1, from = -1;
  DType dtype = DType::f32;
  double factor = 1;
};

constexpr const char* shared =
    "`in` and `out` overlap, but this kind allows only identical memory, or a part at the rank's own place";
constexpr auto sum = ReduceOp::sum, premul = ReduceOp::premul_sum;

const std::vector<Asked> all{
    {"", Kind::all_gather, 2, {0, 8}, {8, 24}},
    {"", Kind::all_gather, 2, {16, 8}, {8, 24}},  // in place
    {"", Kind::all_gather, 0, {}, {}},
    {shared, Kind::all_gather, 2, {8, 8}, {8, 24}},
    {"`in` has 7 bytes, not the 8 of 2 f32", Kind::all_gather, 2, {0, 7}, {8, 24}},
    {"`out` has 16 bytes, not the 24 of 6 f32", Kind::all_gather, 2, {0, 8}, {8, 16}},
    {"this kind reduces nothing, but the operation is sum", Kind::all_gather, 2, {0, 8}, {8, 24}, sum},
    {"this kind has no root, but root 0 is given", Kind::all_gather, 2, {0, 8}, {8, 24}, ReduceOp::none, 0},
    {"`to` is 0, and only a send_recv has one", Kind::all_gather, 2, {0, 8}, {8, 24}, ReduceOp::none, -1, 0},
    {"more bytes than memory can hold",
     Kind::all_gather,
     std::numeric_limits<std::uint64_t>::max() / 8,
     {0, 8},
     {8, 24}},
    {"unknown dtype", Kind::all_gather, 2, {0, 8}, {8, 24}, ReduceOp::none, -1, -1, -1, static_cast<DType>(99)},

    {"", Kind::reduce_scatter, 6, {0, 24}, {24, 8}, sum},
    {"", Kind::reduce_scatter, 6, {0, 24}, {8, 8}, sum},  // in place
    {shared, Kind::reduce_scatter, 6, {0, 24}, {16, 8}, sum},
    {"the count, 5, does not divide by the 3 ranks of the group", Kind::reduce_scatter, 5, {0, 20}, {24, 8}, sum},
    {"`out` has 24 bytes, not the 8 of 2 f32", Kind::reduce_scatter, 6, {0, 24}, {24, 24}, sum},
    {"a reduction needs an operation", Kind::reduce_scatter, 6, {0, 24}, {24, 8}},

    {"", Kind::all_reduce, 2, {0, 8}, {8, 8}, ReduceOp::max},
    {"", Kind::all_reduce, 2, {0, 8}, {0, 8}, ReduceOp::max},
    {shared, Kind::all_reduce, 2, {0, 8}, {4, 8}, ReduceOp::max},
    {"a reduction needs an operation", Kind::all_reduce, 2, {0, 8}, {8, 8}},
    {"`in` has 0 bytes, not the 8 of 2 f32", Kind::all_reduce, 2, {}, {8, 8}, sum},
    {"", Kind::all_reduce, 2, {0, 8}, {8, 8}, premul, -1, -1, -1, DType::f32, 0.1},
    {"", Kind::all_reduce, 8, {0, 8}, {8, 8}, premul, -1, -1, -1, DType::i8, -128},
    {"factor 128 is not a value of i8", Kind::all_reduce, 8, {0, 8}, {8, 8}, premul, -1, -1, -1, DType::i8, 128},
    {"factor 0.5 is not a value of i32", Kind::all_reduce, 2, {0, 8}, {8, 8}, premul, -1, -1, -1, DType::i32, 0.5},
    {"factor 9.223372036854776e+18 is not a value of i64",
     Kind::all_reduce,
     1,
     {0, 8},
     {8, 8},
     premul,
     -1,
     -1,
     -1,
     DType::i64,
     0x1p63},
    {"factor nan is not a value of i64",
     Kind::all_reduce,
     1,
     {0, 8},
     {8, 8},
     premul,
     -1,
     -1,
     -1,
     DType::i64,
     std::numeric_limits<double>::quiet_NaN()},

    {"", Kind::broadcast, 2, {0, 8}, {8, 8}, ReduceOp::none, 1},
    {"", Kind::broadcast, 2, {0, 8}, {0, 8}, ReduceOp::none, 1},
    {"", Kind::broadcast, 2, {}, {8, 8}, ReduceOp::none, 2},  // another's
    {"`in` has 0 bytes, not the 8 of 2 f32", Kind::broadcast, 2, {}, {8, 8}, ReduceOp::none, 1},
    {"`in` has 4 bytes, not the 8 of 2 f32", Kind::broadcast, 2, {0, 4}, {8, 8}, ReduceOp::none, 2},
    {shared, Kind::broadcast, 2, {4, 8}, {8, 8}, ReduceOp::none, 1},
    {"root -1 is not a rank of a group of 3", Kind::broadcast, 2, {0, 8}, {8, 8}},
    {"root 3 is not a rank of a group of 3", Kind::broadcast, 2, {0, 8}, {8, 8}, ReduceOp::none, 3},

    {"", Kind::all_to_all, 6, {0, 24}, {24, 24}},
    {shared, Kind::all_to_all, 6, {0, 24}, {0, 24}},
    {"the count, 2, does not divide by the 3 ranks of the group", Kind::all_to_all, 2, {0, 8}, {8, 8}},

    {"", Kind::send_recv, 2, {0, 8}, {8, 8}, ReduceOp::none, -1, 0, 2},
    {"", Kind::send_recv, 2, {0, 8}, {}, ReduceOp::none, -1, 0, -1},
    {"", Kind::send_recv, 2, {}, {8, 8}, ReduceOp::none, -1, -1, 2},
    {"", Kind::send_recv, 2, {}, {}},
    {shared, Kind::send_recv, 2, {0, 8}, {0, 8}, ReduceOp::none, -1, 0, 2},
    {"`in` has 0 bytes, not the 8 of 2 f32", Kind::send_recv, 2, {}, {8, 8}, ReduceOp::none, -1, 0, 2},
    {"`out` has 0 bytes, not the 8 of 2 f32", Kind::send_recv, 2, {0, 8}, {}, ReduceOp::none, -1, 0, 2},
    {"`to` is 3, and the group has 3 ranks", Kind::send_recv, 2, {0, 8}, {8, 8}, ReduceOp::none, -1, 3, 2},
    {"`from` is -2, and the group has 3 ranks", Kind::send_recv, 2, {0, 8}, {8, 8}, ReduceOp::none, -1, 0, -2},

    {"", Kind::barrier, 0, {}, {}},
    {"a barrier moves no data, but has operands", Kind::barrier, 2, {}, {}},
    {"a barrier moves no data, but has operands", Kind::barrier, 0, {0, 8}, {}},
    {"make a batch with run_coalesced", Kind::coalesced, 2, {}, {}},
};

}  // namespace

TEST_CASE("a single rule decides which calls a group refuses") {
  const Asked asked = GENERATE(from_range(all));
  std::vector<std::byte> memory(64);
  const auto at = [&](Place place) { return std::span(memory).subspan(place.begin, place.bytes); };
  Call call;
  call.descriptor.kind = asked.kind;
  call.descriptor.count = asked.count;
  call.descriptor.dtype = asked.dtype;
  call.descriptor.op = asked.op;
  call.descriptor.factor = asked.factor;
  call.descriptor.root = asked.root;
  call.in = at(asked.in);
  call.out = at(asked.out);
  call.to = asked.to;
  call.from = asked.from;
  CAPTURE(describe_request(call.descriptor), asked.in.begin, asked.out.begin);
  CHECK(fabric::objection(call, 1, 3) == asked.why);
}
