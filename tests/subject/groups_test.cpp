// Collectives and groups of ranks, as a subject in C uses them, rightly and wrongly.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tests/engines/thread_ranks.hpp"
#include "tests/player/simulated.hpp"
#include "tests/subject/alone.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using shardproof::testing::allocated;
using shardproof::testing::Alone;
using shardproof::testing::f32;
using shardproof::testing::ScriptedSubject;

namespace {

/// One collective of four floats, in place unless told otherwise.
shardproof_status collective(ScriptedSubject& it, shardproof_group* group, shardproof_buffer* buffer,
                             shardproof_collective asked) {
  const shardproof_span span{.buffer = buffer, .offset = 0, .count = 4, .dtype = f32};
  asked.in = asked.out = span;
  if (asked.tag == nullptr) asked.tag = "0";
  return it.harness().run(group, 0, &asked);
}

/// A defect that a rank finds. Catch2 does not count the checks of several threads.
class Witness {
 public:
  void operator()(bool holds, const char* what) {
    if (!holds) objections_.emplace_back(what);
  }
  const std::vector<std::string>& objections() const { return objections_; }

 private:
  std::vector<std::string> objections_;
};

/// Plays a forward on ranks that are threads. The forward of each subject calls this. Returns the defects that ranks
/// find.
std::vector<std::string> play_on(int ranks,
                                 const std::function<shardproof_status(ScriptedSubject&, Witness&)>& forward) {
  std::vector<Witness> witnesses(static_cast<std::size_t>(ranks));
  on_thread_ranks(ranks, [&](int rank, Group& group) {
    ScriptedSubject scripted;
    scripted.perform = [&](ScriptedSubject& it, shardproof_reply*) {
      return forward(it, witnesses[static_cast<std::size_t>(rank)]);
    };
    const auto subject = subject::table_subject(&scripted.table, "here");
    Scenario scenario = sleeping_stack(1);
    scenario.script.segments = {{.body = {{.kind = ActionKind::forward}}}};
    shardproof::testing::play_simulated(scenario, *subject, group, rank);
  });
  std::vector<std::string> all;
  for (const Witness& witness : witnesses)
    all.insert(all.end(), witness.objections().begin(), witness.objections().end());
  return all;
}

}  // namespace

TEST_CASE("ranks communicate, in the world and in parts of it") {
  const auto objections = play_on(3, [](ScriptedSubject& it, Witness& must) {
    const shardproof_harness& harness = it.harness();
    shardproof_group* const world = it.engine_context->world;
    must(harness.group_rank(world) == it.engine_context->rank, "its rank");
    must(harness.group_size(world) == 3, "all ranks");
    must(harness.group_members(world)[2] == 2, "the last rank");
    shardproof_buffer* const buffer = allocated(it, 16);
    auto* const values = static_cast<float*>(harness.data(buffer));
    std::fill_n(values, 4, static_cast<float>(it.engine_context->rank + 1));
    must(collective(it, world, buffer, {.kind = SHARDPROOF_ALL_REDUCE, .op = SHARDPROOF_OP_SUM, .root = 5}) == 0,
         "an all-reduce");
    must(values[3] == 6, "the sum");

    // The operand counts only at the root.
    const shardproof_span all{.buffer = buffer, .offset = 0, .count = 4, .dtype = f32}, none{.dtype = f32};
    std::fill_n(values, 4, static_cast<float>(it.engine_context->rank));
    const shardproof_collective from_last{.kind = SHARDPROOF_BROADCAST,
                                          .root = 2,
                                          .in = it.engine_context->rank == 2 ? all : none,
                                          .out = all,
                                          .tag = "0"};
    must(harness.run(world, 0, &from_last) == 0, "a broadcast");
    must(values[0] == 2, "what the last rank had");

    const shardproof_collective barrier{.kind = SHARDPROOF_BARRIER, .tag = "end"};
    must(harness.run(world, 0, &barrier) == 0, "a barrier");
    shardproof_group* part = world;
    must(harness.split(world, it.engine_context->rank == 0 ? -1 : 0, -it.engine_context->rank, "last two", &part) == 0,
         "a split");
    must((part == nullptr) == (it.engine_context->rank == 0), "no part for the first rank");
    if (part != nullptr) {
      must(harness.group_rank(part) == 2 - it.engine_context->rank, "its rank in the part");
      must(harness.group_members(part)[0] == 2, "the part's first rank");
      std::fill_n(values, 4, static_cast<float>(it.engine_context->rank));
      must(collective(it, part, buffer,
                      {.kind = SHARDPROOF_ALL_REDUCE, .op = SHARDPROOF_OP_PREMUL_SUM, .factor = 0.5}) == 0,
           "halves");
      must(values[0] == 1.5, "the sum of halves");
      harness.drop_group(part);
      must(harness.group_members(part) == nullptr, "that the part has gone");
    }

    // Two sums in one call, of which each writes its own half.
    std::fill_n(values, 4, 1.0F);
    const auto half = [&](std::size_t offset) {
      const shardproof_span span{.buffer = buffer, .offset = offset, .count = 2, .dtype = f32};
      return shardproof_collective{
          .kind = SHARDPROOF_ALL_REDUCE, .op = SHARDPROOF_OP_SUM, .in = span, .out = span, .tag = "half"};
    };
    const shardproof_collective halves[] = {half(0), half(8)};
    must(harness.run_coalesced(world, 0, halves, 2) == 0, "two sums in one call");
    must(values[0] == 3 && values[3] == 3, "both sums");
    return harness.release(it.engine_context->device, 0, buffer);
  });
  CHECK(objections == std::vector<std::string>{});
}

TEST_CASE("the harness reports what ranks disagree about, whatever the subject makes of the error") {
  const bool ignores = GENERATE(true, false);
  CHECK_THROWS_WITH(play_on(2,
                            [&](ScriptedSubject& it, Witness&) {
                              const auto op = it.engine_context->rank == 0 ? SHARDPROOF_OP_MAX : SHARDPROOF_OP_MIN;
                              const shardproof_status failed =
                                  collective(it, it.engine_context->world, allocated(it, 16),
                                             {.kind = SHARDPROOF_ALL_REDUCE, .op = op});
                              return ignores ? 0 : failed;
                            }),
                    ContainsSubstring("(max)") && ContainsSubstring("(min)") && !StartsWith("subject: "));
}

TEST_CASE("what is wrong with a collective or a group is said") {
  Alone alone;
  shardproof_group* world = nullptr;
  const auto run = [&](shardproof_collective asked) {
    return alone.objection([&](auto&, auto*) {
      world = alone.scripted.engine_context->world;
      return collective(alone.scripted, world, nullptr, asked);
    });
  };
  CHECK(run({.kind = 1000}) == "run \"0\": 1000 is no kind of collective: shardproof.h has 0 to 5");
  CHECK(run({.kind = SHARDPROOF_ALL_REDUCE, .op = 1000}) == "run \"0\": 1000 is no operation: shardproof.h has 0 to 5");
  CHECK(run({.kind = SHARDPROOF_ALL_REDUCE, .op = SHARDPROOF_OP_SUM}) == "run \"0\": out: 4 elements, but no buffer");
  CHECK_THAT(run({.kind = SHARDPROOF_BARRIER}), ContainsSubstring("a group of one rank has no peers"));
  CHECK(alone.objection([&](auto& harness, auto*) { return harness.run_coalesced(world, 0, nullptr, 1); }) ==
        "run_coalesced: the collectives: it is NULL");
  CHECK(alone.objection([&](auto& harness, auto*) {
    harness.drop_group(world);
    return 1;
  }) == "drop_group: the world group belongs to the harness");
  CHECK(alone.objection([&](auto& harness, auto*) {
    shardproof_group* part = nullptr;
    CHECK(harness.split(world, 0, 0, "me", &part) == 0);
    harness.drop_group(part);
    return harness.split(part, 0, 0, "again", &part);
  }) == "split: this group was already dropped");
  CHECK(alone.objection([&](auto& harness, auto*) { return harness.split(world, 0, 0, "me", nullptr); }) ==
        "split: the pointer for the group: it is NULL");
}
