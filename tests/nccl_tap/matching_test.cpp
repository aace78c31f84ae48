#include "harness/trace/nccl_matching.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/nccl_tap/calls.hpp"

using namespace shardproof;
using namespace shardproof::nccl_tap;
using namespace shardproof::nccl_tap::testing;
using What = trace::OrderDifference::What;

namespace {

std::vector<protocol::Call> three() {
  return {collective(protocol::CallKind::all_gather, 0, 0), collective(protocol::CallKind::reduce_scatter, 0, 1),
          collective(protocol::CallKind::all_reduce, 0, 2)};
}

std::string sentence(const std::vector<protocol::TapRecord>& records) {
  const auto difference = trace::first_difference(records);
  return difference ? difference->sentence : "same";
}

/// Without its first calls, as a record that has been written for long.
protocol::TapRecord tail_of(protocol::TapRecord record, std::size_t lost) {
  record.calls.erase(record.calls.begin(), record.calls.begin() + static_cast<std::ptrdiff_t>(lost));
  return record;
}

}  // namespace

TEST_CASE("ranks that make the same calls do not differ") {
  CHECK(sentence({}) == "same");
  CHECK(sentence({record_of(0, three())}) == "same");
  CHECK(sentence({record_of(0, three()), record_of(1, three()), record_of(2, three())}) == "same");
}

TEST_CASE("the first difference between two ranks is reported with both calls") {
  std::vector<protocol::Call> other = three();
  std::swap(other[1].kind, other[2].kind);
  const std::vector records = {record_of(0, three()), record_of(1, three()), record_of(2, other)};
  const auto difference = trace::first_difference(records);
  REQUIRE(difference);
  CHECK((difference->what == What::differs && difference->first == 0 && difference->second == 2));
  CHECK(difference->sentence ==
        "collective 1 on comm 0 of 2 ranks differs: rank 0 made reduce_scatter #1 of 4 f32 on comm 0, stream 0, and "
        "rank 2 made all_reduce #1 of 4 f32 on comm 0, stream 0");
}

TEST_CASE("count, type, operation and root count; stream, thread and time do not") {
  const auto with = [](auto change) {
    std::vector<protocol::Call> calls = three();
    change(calls[1]);
    return trace::first_difference(std::vector{record_of(0, three()), record_of(1, calls)}).has_value();
  };
  CHECK(with([](protocol::Call& call) { call.count = 5; }));
  CHECK(with([](protocol::Call& call) { call.dtype = protocol::ElementType::f64; }));
  CHECK(with([](protocol::Call& call) { call.op = protocol::Reduction::max; }));
  CHECK(with([](protocol::Call& call) { call.root = 1; }));
  CHECK_FALSE(with([](protocol::Call& call) { call.stream_index = 5; }));
  CHECK_FALSE(with([](protocol::Call& call) { call.thread = 5; }));
  CHECK_FALSE(with([](protocol::Call& call) { call.left_ns = 0; }));
}

TEST_CASE("operations that ranks made themselves are the same by their factor") {
  std::vector<protocol::Call> first = three(), second = three();
  first[1].op = static_cast<protocol::Reduction>(5);
  second[1].op = static_cast<protocol::Reduction>(6);
  first[1].factor = second[1].factor = 0.5;
  CHECK(sentence({record_of(0, first), record_of(1, second)}) == "same");
  second[1].factor = 0.25;
  CHECK(sentence({record_of(0, first), record_of(1, second)}) != "same");
}

TEST_CASE("a missing rank is reported with its last call, and with the calls that a fault kept from NCCL") {
  std::vector<protocol::Call> two = three();
  two.pop_back();
  CHECK(sentence({record_of(0, two), record_of(1, three())}) ==
        "rank 0 has not reached collective 2 on comm 0 of 2 ranks: rank 1 made all_reduce #2 of 4 f32 on comm 0, "
        "stream 0, and of rank 0 its last one there is reduce_scatter #1 of 4 f32 on comm 0, stream 0");
  two.push_back(three()[2]);
  two[2].place = -1;
  two[2].fate = protocol::Fate::dropped;
  const auto difference = trace::first_difference(std::vector{record_of(0, two), record_of(1, three())});
  REQUIRE(difference);
  CHECK((difference->what == What::absent && difference->first == 1 && difference->second == 0));
  CHECK(difference->sentence.ends_with("; by a fault its all_reduce #2 of 4 f32 on comm 0, stream 0 was dropped"));
  CHECK(sentence({record_of(0, {}), record_of(1, three())}).find("of rank 0 it made none there") != std::string::npos);
}

TEST_CASE("a difference is reported before a missing rank, and an earlier place before a later one") {
  std::vector<protocol::Call> shorter = three(), different = three();
  shorter.pop_back();
  different[2].count = 9;
  CHECK(trace::first_difference(std::vector{record_of(0, three()), record_of(1, shorter), record_of(2, different)})
            ->what == What::differs);
  std::vector<protocol::Call> earlier = three();
  earlier[0].count = 9;
  CHECK(trace::first_difference(std::vector{record_of(0, three()), record_of(1, different), record_of(2, earlier)})
            ->second == 2);
}

TEST_CASE("communicators are matched by key, and without one by order of creation and size") {
  std::vector<protocol::Call> other = three();
  other[0].count = 9;
  // Two pairs, each first in its processes and of one size.
  CHECK(sentence({record_of(0, three(), 2, 7), record_of(1, other, 2, 8)}) == "same");
  CHECK(sentence({record_of(0, three(), 2, 7), record_of(1, other, 2, 7)}) != "same");
  CHECK(sentence({record_of(0, three(), 2, 0), record_of(1, other, 2, 0)}) != "same");
  CHECK(sentence({record_of(0, three(), 2, 0), record_of(1, other, 4, 0)}) == "same");
  CHECK(sentence({record_of(0, three(), 2, 0), record_of(1, other, 2, 7)}) != "same");
  protocol::TapRecord later = record_of(1, other, 2, 7);
  later.communicators[0].id = 3;
  for (protocol::Call& call : later.calls) call.comm = 3;
  CHECK(sentence({record_of(0, three(), 2, 7), later}) != "same");
}

TEST_CASE("of records that lost their beginning the end is compared") {
  std::vector<protocol::Call> other = three();
  other[0].count = 9;
  CHECK(sentence({tail_of(record_of(0, three()), 1), record_of(1, other)}) == "same");
  other[2].count = 9;
  CHECK(sentence({tail_of(record_of(0, three()), 1), tail_of(record_of(1, other), 2)}).starts_with("collective 2"));
  // One that has no collective left in it tells nothing of when it made its last.
  std::vector<protocol::Call> silent = three();
  silent.push_back(protocol::Call{});
  silent.back().kind = protocol::CallKind::group_start;
  CHECK(sentence({tail_of(record_of(0, silent), 3), record_of(1, three())}) == "same");
}

TEST_CASE("a record that lost all its calls shows no difference") {
  protocol::TapRecord lost = record_of(0, {});
  lost.begun = 1;
  CHECK(sentence({lost, record_of(1, three())}) == "same");
}

TEST_CASE("a call that the record lacks in the middle is no difference") {
  protocol::TapRecord gap = record_of(0, three());
  gap.calls.erase(gap.calls.begin() + 1);
  CHECK(sentence({gap, record_of(1, three())}) == "same");
}

TEST_CASE("sends are compared with the receives that they meet") {
  const protocol::TapRecord sender =
      record_of(0, {message(protocol::CallKind::send, 0, 0, 1, 4), message(protocol::CallKind::send, 0, 1, 1, 8)});
  CHECK(sentence({sender, record_of(1, {message(protocol::CallKind::recv, 0, 0, 0, 4),
                                        message(protocol::CallKind::recv, 0, 1, 0, 8)})}) == "same");
  CHECK(sentence({sender, record_of(1, {message(protocol::CallKind::recv, 0, 0, 0, 4),
                                        message(protocol::CallKind::recv, 0, 1, 0, 9)})}) ==
        "message 1 on comm 0 of 2 ranks differs: rank 0 made send #1 of 8 f32 to 1 on comm 0, stream 0, and rank 1 "
        "made recv #1 of 9 f32 from 0 on comm 0, stream 0");
  CHECK(sentence({sender, record_of(1, {message(protocol::CallKind::recv, 0, 0, 0, 4)})})
            .starts_with("rank 1 has not reached message 1"));
  CHECK(sentence({record_of(0, {}), record_of(1, {message(protocol::CallKind::recv, 0, 0, 0, 4)})})
            .starts_with("rank 0 has not reached message 0"));
}

TEST_CASE("places that are far apart are compared as quickly as others") {
  constexpr std::int64_t far = 1'000'000'000'000'000;
  const protocol::TapRecord first = record_of(
      0, {collective(protocol::CallKind::all_gather, 0, 0), collective(protocol::CallKind::all_reduce, 0, far)});
  protocol::TapRecord second = record_of(
      1, {collective(protocol::CallKind::all_gather, 0, 0), collective(protocol::CallKind::all_reduce, 0, far)});
  CHECK_FALSE(trace::first_difference(std::vector{first, second}));
  second.calls[1].count = 5;
  CHECK(trace::first_difference(std::vector{first, second}));
}
