#include "harness/protocol/nccl_faults.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <stdexcept>

using namespace shardproof;
using namespace shardproof::nccl_tap;
using namespace std::chrono_literals;
using Action = protocol::CallFault::Action;

namespace {

std::string refusal(std::string_view list) {
  try {
    protocol::parse_faults(list);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "taken";
}

protocol::CallPlace place_of(protocol::CallKind kind, std::uint64_t of_kind, int comm = 0) {
  return {.kind = kind, .of_kind = of_kind, .of_kind_on_comm = of_kind, .comm = comm, .rank = std::nullopt};
}

}  // namespace

TEST_CASE("a list of faults says for each what, where, and under which conditions") {
  const auto faults = protocol::parse_faults(
      " delay all_reduce#3 20ms; fail reduce_scatter#0 ncclSystemError on comm 2 rank 1;;\n drop broadcast ; swap "
      "all_gather#1 rank 0");
  REQUIRE(faults.size() == 4);
  CHECK((faults[0].action == Action::delay && faults[0].kind == protocol::CallKind::all_reduce &&
         faults[0].number == 3U && faults[0].duration == 20ms));
  CHECK((!faults[0].comm && !faults[0].rank));
  CHECK((faults[1].action == Action::fail && faults[1].status == protocol::Result::system_error &&
         faults[1].comm == 2 && faults[1].rank == 1));
  CHECK((faults[2].action == Action::drop && faults[2].kind == protocol::CallKind::broadcast && !faults[2].number));
  CHECK((faults[3].action == Action::swap && faults[3].rank == 0));
  CHECK(protocol::parse_faults("").empty());
  CHECK(protocol::parse_faults(" ; \n").empty());
  CHECK((protocol::parse_faults("stall recv#1 3us")[0].action == Action::stall &&
         protocol::parse_faults("stall recv#1 3us")[0].duration == 3us));
  CHECK(protocol::parse_faults("delay send 7us")[0].duration == 7us);
  CHECK(protocol::parse_faults("delay group_end 1s")[0].duration == 1s);
  CHECK(protocol::parse_faults("delay comm_init_rank#0 5ns")[0].duration == 5ns);
}

TEST_CASE("an invalid fault is refused with the valid forms") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(refusal("drop send; break send"), ContainsSubstring("fault 2 of the list, `break send`") &&
                                                   ContainsSubstring("delay, stall, drop, fail or swap"));
  CHECK_THAT(refusal("drop"), ContainsSubstring("all_reduce#3"));
  CHECK_THAT(refusal("drop allreduce"),
             ContainsSubstring("`allreduce` is not a kind of call") && ContainsSubstring("reduce_scatter"));
  CHECK_THAT(refusal("drop send#"), ContainsSubstring("digits after #"));
  CHECK_THAT(refusal("drop send#-1"), ContainsSubstring("digits after #"));
  CHECK_THAT(refusal("drop send#1x"), ContainsSubstring("digits after #"));
  CHECK_THAT(refusal("delay send"), ContainsSubstring("like 20ms"));
  CHECK_THAT(refusal("stall send"), ContainsSubstring("like 20ms"));
  CHECK_THAT(refusal("stall group_end 1ms"), ContainsSubstring("group_end has no stream"));
  CHECK_THAT(refusal("delay send 20"), ContainsSubstring("like 20ms"));
  CHECK_THAT(refusal("delay send 99999999999s"), ContainsSubstring("a day at most"));
  CHECK_THAT(refusal("fail send"), ContainsSubstring("ncclSystemError"));
  CHECK_THAT(refusal("fail send ncclSuccess"), ContainsSubstring("a call cannot fail with"));
  CHECK_THAT(refusal("drop send on rank 1"), ContainsSubstring("`on comm K` or `rank R`"));
  CHECK_THAT(refusal("drop send on comm"), ContainsSubstring("is not a communicator's number"));
  CHECK_THAT(refusal("drop send rank -1"), ContainsSubstring("is not a rank of the world"));
  CHECK_THAT(refusal("drop send rank 1 rank 2"), ContainsSubstring("twice"));
  CHECK_THAT(refusal("swap comm_destroy"), ContainsSubstring("moves no data"));
  CHECK_THAT(refusal("drop comm_init_rank"), ContainsSubstring("fail it instead"));
  CHECK_THAT(refusal("drop group_start"), ContainsSubstring("fail it instead"));
  CHECK_THAT(refusal("fail group_end ncclSystemError"), ContainsSubstring("only a delay"));
  CHECK_THAT(refusal("fail comm_get_async_error ncclSystemError"), ContainsSubstring("an engine polls for errors"));
  CHECK(refusal("fail group_start ncclSystemError") == "taken");
}

TEST_CASE("a fault is for the calls of its kind and number, on its communicator, on its rank") {
  const auto numbered = protocol::parse_faults("drop all_reduce#3");
  CHECK(protocol::decide(numbered, place_of(protocol::CallKind::all_reduce, 3)).fault == numbered.data());
  CHECK(protocol::decide(numbered, place_of(protocol::CallKind::all_reduce, 2)).fault == nullptr);
  CHECK(protocol::decide(numbered, place_of(protocol::CallKind::all_gather, 3)).fault == nullptr);
  CHECK(protocol::decide(protocol::parse_faults("drop send"), place_of(protocol::CallKind::send, 100)).fault !=
        nullptr);

  // Beside a communicator, the number is one on that communicator.
  const auto on_one = protocol::parse_faults("drop send#1 on comm 2");
  protocol::CallPlace place = place_of(protocol::CallKind::send, 1, 2);
  CHECK(protocol::decide(on_one, place).fault != nullptr);
  place.of_kind = 9;
  CHECK(protocol::decide(on_one, place).fault != nullptr);
  place.of_kind_on_comm = 0;
  CHECK(protocol::decide(on_one, place).fault == nullptr);
  CHECK(protocol::decide(on_one, place_of(protocol::CallKind::send, 1, 1)).fault == nullptr);

  const auto on_rank = protocol::parse_faults("drop send rank 1");
  place = place_of(protocol::CallKind::send, 0);
  CHECK(protocol::decide(on_rank, place).fault == nullptr);
  place.rank = 0;
  CHECK(protocol::decide(on_rank, place).fault == nullptr);
  place.rank = 1;
  CHECK(protocol::decide(on_rank, place).fault != nullptr);
}

TEST_CASE("delays add up, and of other faults the first one counts") {
  const auto faults = protocol::parse_faults("delay send 1ms; fail send ncclRemoteError; drop send; delay send#0 2ms");
  const protocol::FaultDecision decision = protocol::decide(faults, place_of(protocol::CallKind::send, 0));
  CHECK(decision.delay == 3ms);
  CHECK(decision.fault == &faults[1]);
  CHECK(protocol::decide(faults, place_of(protocol::CallKind::send, 1)).delay == 1ms);
  const auto stalls = protocol::parse_faults("stall send 1ms; drop send; stall send#1 2ms; delay send 4ms");
  CHECK((protocol::decide(stalls, place_of(protocol::CallKind::send, 1)).stall == 3ms &&
         protocol::decide(stalls, place_of(protocol::CallKind::send, 1)).delay == 4ms));
  CHECK((protocol::decide(stalls, place_of(protocol::CallKind::send, 0)).stall == 1ms &&
         protocol::decide(stalls, place_of(protocol::CallKind::send, 0)).fault == &stalls[1]));
}
