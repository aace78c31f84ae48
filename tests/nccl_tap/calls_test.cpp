#include "harness/protocol/nccl_calls.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/nccl_tap/communicators.hpp"
#include "harness/nccl_tap/scalar.hpp"
#include "tests/nccl_tap/calls.hpp"

using namespace shardproof;
using namespace shardproof::nccl_tap;
using namespace shardproof::nccl_tap::testing;

TEST_CASE("a call is described by what it asks for and where") {
  protocol::Call call = collective(protocol::CallKind::all_gather, 0, 17, 276);
  call.stream_index = 1;
  CHECK(protocol::describe(call) == "all_gather #17 of 276 f32 on comm 0, stream 1");
  call.comm = -1;
  CHECK(protocol::describe(call) == "all_gather #17 of 276 f32 on no communicator, stream 1");
  call = collective(protocol::CallKind::all_reduce, 2, 3);
  call.op = protocol::Reduction::avg;
  CHECK(protocol::describe(call) == "all_reduce #3 of 4 f32 (avg) on comm 2, stream 0");
  call.op = protocol::Reduction::first_made;
  call.factor = 0.5;
  CHECK(protocol::describe(call) == "all_reduce #3 of 4 f32 (premul_sum, factor 0.5) on comm 2, stream 0");
  call.factor = std::numeric_limits<double>::quiet_NaN();
  CHECK(protocol::describe(call) == "all_reduce #3 of 4 f32 (premul_sum, factor unknown) on comm 2, stream 0");
  CHECK(protocol::describe(message(protocol::CallKind::broadcast, 0, 5, 2)) ==
        "broadcast #5 of 4 f32 from root 2 on comm 0, stream 0");
  CHECK(protocol::describe(message(protocol::CallKind::gather, 0, 5, 2)) ==
        "gather #5 of 4 f32 to root 2 on comm 0, stream 0");
  CHECK(protocol::describe(message(protocol::CallKind::send, 0, 5, 2)) == "send #5 of 4 f32 to 2 on comm 0, stream 0");
  CHECK(protocol::describe(message(protocol::CallKind::recv, 0, 5, 2)) ==
        "recv #5 of 4 f32 from 2 on comm 0, stream 0");
  call = {};
  call.kind = protocol::CallKind::comm_init_rank;
  call.root = 1;
  call.count = 2;
  call.made = 0;
  CHECK(protocol::describe(call) == "comm_init_rank #0 as rank 1 of 2 into comm 0");
  call.kind = protocol::CallKind::comm_split;
  call.comm = 0;
  call.made = 3;
  CHECK(protocol::describe(call) == "comm_split #0 of comm 0, color 1 into comm 3");
  call.kind = protocol::CallKind::group_end;
  CHECK(protocol::describe(call) == "group_end #0");
  call.kind = protocol::CallKind::comm_abort;
  CHECK(protocol::describe(call) == "comm_abort #0 on comm 0");
}

TEST_CASE("the outcome of a call is shown where it is unusual") {
  protocol::Call call = collective(protocol::CallKind::all_gather, 0, 1);
  CHECK(protocol::describe_outcome(call).empty());
  call.result = protocol::Result::invalid_argument;
  CHECK(protocol::describe_outcome(call) == ", returned ncclInvalidArgument");
  call.delay_ns = 20'000'000;
  call.fate = protocol::Fate::failed;
  CHECK(protocol::describe_outcome(call) == ", delayed by 20 ms, made to fail, returned ncclInvalidArgument");
  call = {};
  CHECK(protocol::describe_outcome(call) == ", had not returned");
}

TEST_CASE("every kind of call is found by its name, and numbers of a later NCCL have names") {
  for (int number = 0; number <= static_cast<int>(protocol::last_call_kind); ++number) {
    CHECK(protocol::call_kind(protocol::to_string(static_cast<protocol::CallKind>(number))) ==
          static_cast<protocol::CallKind>(number));
  }
  CHECK_FALSE(protocol::call_kind("unknown call"));
  CHECK(protocol::to_string(static_cast<protocol::ElementType>(12)) == "type 12");
  CHECK(protocol::to_string(static_cast<protocol::Result>(9)) == "ncclResult_t 9");
  CHECK(protocol::result_of_name("ncclRemoteError") == protocol::Result::remote_error);
  CHECK_FALSE(protocol::result_of_name("ncclNumResults"));
}

TEST_CASE("factors are read in the engine's type") {
  const double f64 = 0.1;
  const float f32 = 0.25F;
  const std::uint16_t f16 = 0x3400, subnormal = 0x8001, bf16 = 0x3e80;
  const std::int8_t i8 = -3;
  const std::uint64_t u64 = 1ULL << 40U;
  CHECK(scalar_value(&f64, protocol::ElementType::f64) == 0.1);
  CHECK(scalar_value(&f32, protocol::ElementType::f32) == 0.25);
  CHECK(scalar_value(&f16, protocol::ElementType::f16) == 0.25);
  CHECK(scalar_value(&subnormal, protocol::ElementType::f16) == -std::ldexp(1, -24));
  CHECK(scalar_value(&bf16, protocol::ElementType::bf16) == 0.25);
  CHECK(scalar_value(&i8, protocol::ElementType::i8) == -3);
  CHECK(scalar_value(&u64, protocol::ElementType::u64) == std::ldexp(1, 40));
  CHECK(std::isnan(scalar_value(&i8, protocol::ElementType::f8e4m3)));
}

TEST_CASE("an address is one communicator until that ends") {
  Communicators all;
  CHECK(all.at(0) == nullptr);
  CHECK(all.create(protocol::CallKind::comm_init_rank).id == 0);
  all.bind(0, 0x10);
  REQUIRE(all.at(0x10) != nullptr);
  CHECK(all.at(0x10)->id == 0);
  CHECK(all.at(0x20)->id == 1);  // one that no call made
  CHECK_FALSE(all[1].origin);
  all.end(0);
  CHECK(all.create(protocol::CallKind::comm_split).id == 2);
  all.bind(2, 0x10);
  CHECK(all.at(0x10)->id == 2);
  CHECK(all[0].state == protocol::Communicator::State::ended);
  CHECK(all.create(protocol::CallKind::comm_split).id == 3);
  all.bind(3, 0x10);  // no call ended 2
  CHECK(all.at(0x10)->id == 3);
  CHECK(all[2].state == protocol::Communicator::State::ended);
}

TEST_CASE("parts of a communicator have one key on all its ranks") {
  const auto parts_of = [](std::uint64_t key, int color) {
    Communicators all;
    all.create(protocol::CallKind::comm_init_rank).key = key;
    return std::vector{all.key_of_part(0, 0), all.key_of_part(0, color), all.key_of_part(-1, 0)};
  };
  CHECK(parts_of(7, 1) == parts_of(7, 1));
  CHECK(parts_of(7, 1)[0] == parts_of(7, 2)[0]);
  CHECK(parts_of(7, 1)[1] != parts_of(7, 2)[1]);
  CHECK(parts_of(7, 0)[0] != parts_of(7, 0)[1]);
  CHECK(parts_of(7, 0)[0] != parts_of(8, 0)[0]);
  CHECK(parts_of(0, 0) == std::vector<std::uint64_t>{0, 0, 0});
}

TEST_CASE("calls are numbered by kind, collectives by communicator, messages by peer as well") {
  Communicators all;
  all.create(protocol::CallKind::comm_init_rank);
  CHECK(all.next_of_kind(0, protocol::CallKind::send) == 0);
  CHECK(all.next_of_kind(0, protocol::CallKind::send) == 1);
  CHECK(all.next_of_kind(-1, protocol::CallKind::send) == 0);
  CHECK(all.next_place(0, protocol::CallKind::all_gather, -1) == 0);
  CHECK(all.next_place(0, protocol::CallKind::all_reduce, -1) == 1);
  CHECK(all.next_place(-1, protocol::CallKind::all_reduce, -1) == 0);
  CHECK(all.next_place(0, protocol::CallKind::send, 1) == 0);
  CHECK(all.next_place(0, protocol::CallKind::send, 2) == 0);
  CHECK(all.next_place(0, protocol::CallKind::send, 1) == 1);
  CHECK(all.next_place(0, protocol::CallKind::recv, 1) == 0);
}
