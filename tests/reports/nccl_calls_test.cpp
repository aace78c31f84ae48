#include "reports/explain/nccl_calls.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/nccl_tap/calls.hpp"

using namespace shardproof;
using namespace shardproof::reports;
using nccl_tap::testing::collective;
using nccl_tap::testing::record_of;
using protocol::CallKind;

using Sentences = std::vector<std::string>;

TEST_CASE("ranks with equal NCCL calls are reported once, and also the ranks without a record") {
  CHECK(nccl_sentences(std::vector{record_of(0, {collective(protocol::CallKind::all_gather, 0, 0)}),
                                   record_of(1, {collective(protocol::CallKind::all_gather, 0, 0)})},
                       3) ==
        Sentences{"ranks 0, 1 each called NCCL 1 time, last: all_gather #0 of 4 f32 on comm 0, stream 0",
                  "rank 2 has no record of a call of NCCL"});
  CHECK(nccl_sentences({}, 2) == Sentences{"ranks 0, 1 have no record of a call of NCCL"});
}

TEST_CASE("of many calls the last three are reported, and of earlier ones those that had not returned") {
  std::vector<protocol::Call> calls;
  calls.reserve(6);
  for (int place = 0; place < 6; ++place) calls.push_back(collective(protocol::CallKind::all_gather, 0, place));
  calls[1].left_ns = calls[4].left_ns = 0;
  protocol::TapRecord record = record_of(0, calls, 1);
  record.missing = 2;
  CHECK(nccl_sentences(std::vector{record}, 1) ==
        Sentences{
            "rank 0 called NCCL 6 times, earlier: all_gather #1 of 4 f32 on comm 0, stream 0, had not returned, last: "
            "all_gather #3 of 4 f32 on comm 0, stream 0; all_gather #4 of 4 f32 on comm 0, stream 0, had not returned; "
            "all_gather #5 of 4 f32 on comm 0, stream 0, and 2 that it was about to write down"});
  for (protocol::Call& call : record.calls) call.left_ns = 0;
  record.calls.insert(record.calls.begin(), 10, collective(protocol::CallKind::broadcast, 0, 0));
  for (protocol::Call& call : record.calls) call.left_ns = 0;
  const std::string text = nccl_sentences(std::vector{record}, 1).at(0);
  INFO(text);
  CHECK(text.find(" and 5 more that had not returned, last: all_gather #3") != std::string::npos);
}

TEST_CASE("the first difference between ranks is the last sentence") {
  const Sentences sentences =
      nccl_sentences(std::vector{record_of(0, {collective(protocol::CallKind::all_gather, 0, 0, 4)}),
                                 record_of(1, {collective(protocol::CallKind::all_gather, 0, 0, 5)})},
                     2);
  REQUIRE(sentences.size() == 3);
  CHECK(sentences[2] ==
        "collective 0 on comm 0 of 2 ranks differs: rank 0 made all_gather #0 of 4 f32 on comm 0, stream 0, and "
        "rank 1 made all_gather #0 of 5 f32 on comm 0, stream 0");
}

TEST_CASE("processes without a rank, and several of one rank, are named by their numbers") {
  protocol::TapRecord of_all = record_of(0, {collective(protocol::CallKind::all_gather, 0, 0)});
  of_all.process.rank.reset();
  CHECK(nccl_sentences(std::vector{of_all}, 2) ==
        Sentences{"process 100 called NCCL 1 time, last: all_gather #0 of 4 f32 on comm 0, stream 0"});
  protocol::TapRecord child = record_of(0, {});
  child.process.pid = 7;
  const Sentences sentences = nccl_sentences(std::vector{record_of(0, {}), child}, 1);
  CHECK(sentences == Sentences{"process 100 of rank 0 called NCCL 0 times", "process 7 of rank 0 called NCCL 0 times"});
}
