// Ranks that ask for different things: the same words on every rank, nothing moved, and the group goes on.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/fabric/message_worlds.hpp"

using namespace shardproof;
using namespace shardproof::testing;

namespace {

/// A call with storage of its own, large enough for whatever a test makes of it.
struct Roomy {
  std::vector<std::byte> in = std::vector<std::byte>(1 << 10, std::byte{1}),
                         out = std::vector<std::byte>(1 << 10, std::byte{99});
  Call call;

  Roomy(CollectiveKind kind, DType dtype, std::uint64_t count, int size) {
    call.descriptor.kind = kind;
    call.descriptor.dtype = dtype;
    call.descriptor.count = count;
    const std::size_t bytes = count * size_of(dtype);
    call.in = std::span(in).first(bytes);
    std::size_t result = bytes;
    if (kind == CollectiveKind::all_gather) result = bytes * static_cast<std::size_t>(size);
    if (kind == CollectiveKind::reduce_scatter) result = bytes / static_cast<std::size_t>(size);
    call.out = std::span(out).first(result);
    if (kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter)
      call.descriptor.op = ReduceOp::sum;
    if (kind == CollectiveKind::broadcast) call.descriptor.root = 0;
  }
  bool untouched() const {
    return std::all_of(out.begin(), out.end(), [](std::byte b) { return b == std::byte{99}; });
  }
};

struct Difference {
  const char* name;
  CollectiveKind kind;
  void (*change)(Roomy& deviating);
  const char* text;  ///< on every rank
};

const Difference differences[] = {
    {"kind", CollectiveKind::all_gather,
     [](Roomy& it) {
       it = Roomy(CollectiveKind::reduce_scatter, DType::f32, 12, 3);
       it.call.descriptor.set_tag("head");
     },
     R"(group world, call #1: rank 0 asks for all_gather of 12 f32 "layers.1", )"
     R"(rank 2 for reduce_scatter of 12 f32 (sum) "head")"},
    {"dtype", CollectiveKind::all_gather, [](Roomy& it) { it.call.descriptor.dtype = DType::i32; },
     R"(group world, call #1: rank 0 asks for all_gather of 12 f32 "layers.1", )"
     R"(rank 2 for all_gather of 12 i32 "layers.1")"},
    {"count", CollectiveKind::all_reduce, [](Roomy& it) { it = Roomy(CollectiveKind::all_reduce, DType::f32, 11, 3); },
     R"(group world, call #1: rank 0 asks for all_reduce of 12 f32 (sum) "layers.1", )"
     R"(rank 2 for all_reduce of 11 f32 (sum))"},
    {"operation", CollectiveKind::reduce_scatter, [](Roomy& it) { it.call.descriptor.op = ReduceOp::avg; },
     R"(group world, call #1: rank 0 asks for reduce_scatter of 12 f32 (sum) "layers.1", )"
     R"(rank 2 for reduce_scatter of 12 f32 (avg) "layers.1")"},
    {"factor", CollectiveKind::all_reduce,
     [](Roomy& it) {
       it.call.descriptor.op = ReduceOp::premul_sum;
       it.call.descriptor.factor = 0.5;
     },
     R"(group world, call #1: rank 0 asks for all_reduce of 12 f32 (sum) "layers.1", )"
     R"(rank 2 for all_reduce of 12 f32 (premul_sum, factor 0.5) "layers.1")"},
    {"root", CollectiveKind::broadcast, [](Roomy& it) { it.call.descriptor.root = 1; },
     R"(group world, call #1: rank 0 asks for broadcast of 12 f32 from root 0 "layers.1", )"
     R"(rank 2 for broadcast of 12 f32 from root 1 "layers.1")"},
    {"a barrier", CollectiveKind::all_to_all, [](Roomy& it) { it.call = {}; },
     R"(group world, call #1: rank 0 asks for all_to_all of 12 f32 "layers.1", rank 2 for barrier)"},
};

}  // namespace

TEST_CASE("every field but the tag and the time is compared before data moves") {
  const auto& difference = GENERATE(from_range(std::begin(differences), std::end(differences)));
  CAPTURE(difference.name);
  const Body deviating = [&](Side& side) {
    side.world->barrier();
    Roomy it(difference.kind, DType::f32, 12, side.size);
    it.call.descriptor.set_tag("layers.1");
    if (side.rank == 2) difference.change(it);
    const std::string text = thrown_by<Mismatch>([&] { side.world->run(it.call); });
    expect(text == difference.text, text);
    expect(it.untouched(), "bytes moved");
    // The call has failed on all alike, so all are still together.
    expect(side.world->all_reduce(iota(1, 1)) == iota(3, 1), "the call after");
  };
  CHECK(run_threads(3, deviating) == all_well(3));
  CHECK(run_processes(3, deviating) == all_well(3));
  CHECK(run_messages(3, deviating) == all_well(3));
}

TEST_CASE("tags and times may differ") {
  const Body tags = [](Side& side) {
    Roomy it(CollectiveKind::all_reduce, DType::f32, 4, side.size);
    it.call.descriptor.set_tag(std::to_string(side.rank));
    it.call.descriptor.ready_ns = side.rank;
    side.world->run(it.call);
  };
  CHECK(run_threads(3, tags) == all_well(3));
  CHECK(run_messages(3, tags) == all_well(3));
}

TEST_CASE("a tag that one rank enforces is compared as well") {
  const Body tags = [](Side& side) {
    side.world->barrier();
    Roomy it(CollectiveKind::all_reduce, DType::f32, 4, side.size);
    it.call.descriptor.set_tag(side.rank == 2 ? "twin" : "layer");
    it.call.descriptor.enforces_tag = side.rank == 1;
    const std::string text = thrown_by<Mismatch>([&] { side.world->run(it.call); });
    expect(text.ends_with(R"(asks for all_reduce of 4 f32 (sum) "layer", rank 2 for all_reduce of 4 f32 (sum) "twin")"),
           text);
    expect(it.untouched(), "bytes moved");
  };
  CHECK(run_threads(3, tags) == all_well(3));
  CHECK(run_processes(3, tags) == all_well(3));
  CHECK(run_messages(3, tags) == all_well(3));
}

TEST_CASE("the first two that differ are named, by their ranks in the world") {
  const Body parts = [](Side& side) {
    const auto odd = side.world->split(side.rank % 2, 0, "odd");
    if (side.rank % 2 == 0) return;
    Roomy it(CollectiveKind::all_gather, DType::u8, side.rank == 1 ? 4 : 5, odd->size());
    const std::string text = thrown_by<Mismatch>([&] { odd->run(it.call); });
    expect(text == "group odd, call #0: rank 1 asks for all_gather of 4 u8, rank 3 for all_gather of 5 u8", text);
  };
  CHECK(run_threads(6, parts) == all_well(6));
  CHECK(run_messages(6, parts) == all_well(6));
}

TEST_CASE("a send must name its receiver and a receive its sender") {
  const Body pairs = [](Side& side) {
    const auto text_of = [&](int to, int from) {
      return thrown_by<Mismatch>([&] { side.world->send_recv(iota(0, 4), to, from, "ring"); });
    };
    std::string text = text_of(side.rank == 0 ? 1 : -1, -1);
    expect(text ==
               R"(group world, call #0: rank 0 sends send_recv of 4 f32 "ring" to rank 1, which receives from no rank)",
           text);
    text = text_of(-1, side.rank == 2 ? 1 : -1);
    expect(text ==
               R"(group world, call #1: rank 2 receives send_recv of 4 f32 "ring" from rank 1, which sends to no rank)",
           text);
    side.world->send_recv(iota(0, 4), (side.rank + 1) % 3, (side.rank + 2) % 3);
  };
  CHECK(run_threads(3, pairs) == all_well(3));
  CHECK(run_messages(3, pairs) == all_well(3));
  const Body alone = [](Side& side) { thrown_by<Mismatch>([&] { side.world->send_recv(iota(0, 4), 0, -1); }); };
  CHECK(run_threads(1, alone) == all_well(1));
  CHECK(run_messages(1, alone) == all_well(1));
}

TEST_CASE("batches are compared part by part, those that need several slots as well") {
  const std::size_t many = GENERATE(3U, 2500U);
  const Body batches = [many](Side& side) {
    std::vector<Roomy> parts(many, Roomy(CollectiveKind::all_gather, DType::f32, 2, side.size));
    const auto calls_of = [&](std::size_t number) {
      std::vector<Call> calls;
      for (std::size_t i = 0; i < number; ++i) {
        Call call = parts[i].call;
        call.in = std::span(parts[i].in).first(call.descriptor.count * 4);
        call.out = std::span(parts[i].out).first(call.descriptor.count * 4 * static_cast<std::size_t>(side.size));
        calls.push_back(call);
      }
      return calls;
    };
    if (side.rank == 1) parts.back().call.descriptor.count = 1;
    std::string text = thrown_by<Mismatch>([&] { side.world->run_coalesced(calls_of(many)); });
    expect(text == fmt::format("group world, call #0, part {} of the batch: rank 0 asks for all_gather of 2 f32, rank "
                               "1 for all_gather of 1 f32",
                               many - 1),
           text);
    expect(parts.front().untouched(), "bytes moved");
    text = thrown_by<Mismatch>([&] { side.world->run_coalesced(calls_of(side.rank == 0 ? 1 : 2)); });
    expect(text == "group world, call #1: rank 0 asks for coalesced of 1 calls, rank 1 for coalesced of 2 calls", text);
    parts.back().call.descriptor.count = 2;
    side.world->run_coalesced(calls_of(many));
  };
  CHECK(run_threads(2, batches) == all_well(2));
  CHECK(run_messages(2, batches) == all_well(2));
  const Body two_kinds = [](Side& side) {
    const Roomy gather(CollectiveKind::all_gather, DType::f32, 2, side.size),
        reduce(CollectiveKind::all_reduce, DType::f32, 2, side.size);
    const Call calls[] = {gather.call, reduce.call};
    thrown_by<std::invalid_argument>([&] { side.world->run_coalesced(calls); });
  };
  CHECK(run_threads(2, two_kinds) == all_well(2));
  CHECK(run_messages(2, two_kinds) == all_well(2));
}
