#include "reports/play/play.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <vector>

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::ordered_json;

namespace {

constexpr Nanoseconds ms = 1'000'000;

// A forward of 3 ms behind an all-gather of 1 ms.
protocol::PlayResult played(int rank, Nanoseconds late = 0) {
  protocol::PlayResult result{.rank = rank, .times = {.total = 4 * ms + late, .phases = {{.forward = 4 * ms + late}}}};
  result.times.trace.rank = rank;
  result.times.trace.facts = {
      fact::StreamCreated{.stream = 1, .role = StreamRole::all_gather, .name = "gathers"},
      fact::Collective{.stream = 1,
                       .kind = CollectiveKind::all_gather,
                       .dtype = DType::f32,
                       .in_count = 2,
                       .out_count = 4,
                       .group = {0, 1},
                       .tag = "a",
                       .start = late,
                       .end = ms + late},
      fact::Work{.stream = 0, .kind = WorkKind::forward, .label = "a", .start = ms + late, .end = 4 * ms + late}};
  result.iterations = {
      {.loss = -1.5,
       .gradients = {},
       .parameters = {
           {.name = "a.weight", .shape = {1, 2}, .start = rank, .dtype = DType::f32, .bits = "3f80000040000000"}}}};
  return result;
}

}  // namespace

TEST_CASE("ranks that did the same are shown once, with times, a timeline and the order of collectives") {
  const std::vector ranks{played(0), played(1)};
  CHECK(reports::to_text(ranks, {}, 31) ==
        "                    forward   forward+backward      exposed\n"
        "iteration 0            4 ms                  -            -\n"
        "total 4 ms\n"
        "\n"
        "ranks 0, 1: timeline\n"
        "  compute  .....FFFFFFFFFFFFFFF\n"
        "  gathers  AAAAA...............\n"
        "  a column is 200 µs; A all_gather, F forward\n"
        "\n"
        "ranks 0, 1: collectives, in the order in which they were issued\n"
        "    0       0 ms .. 1 ms       all_gather \"a\", 2 -> 4 f32, ranks 0 1\n");
}

TEST_CASE("ranks that differ are shown apart, and the slowest one's time is the world's") {
  const std::vector ranks{played(0), played(1, ms), played(2)};
  const std::string text = reports::to_text(ranks, {}, 60);
  CHECK_THAT(text, ContainsSubstring("\ntotal 5 ms\n") && ContainsSubstring("\nranks 0, 2: timeline\n") &&
                       ContainsSubstring("\nrank 1: timeline\n") && ContainsSubstring("\nranks 0, 2: collectives, ") &&
                       ContainsSubstring("\nrank 1: collectives, "));
  const Json json = reports::to_json(ranks, {});
  CHECK(json["totals_ns"] == Json{{"forward", 5 * ms}, {"total", 5 * ms}});
}

TEST_CASE("many ranks in a row are named by the first and the last") {
  std::vector<protocol::PlayResult> ranks;
  for (int rank = 0; rank < 10; ++rank) ranks.push_back(played(rank, rank == 4 ? ms : 0));
  const std::string text = reports::to_text(ranks, {}, 60);
  CHECK_THAT(text, ContainsSubstring("\nranks 0…3, 5…9: timeline\n") && ContainsSubstring("\nrank 4: timeline\n"));
}

TEST_CASE("what takes no time, and a subject's warnings, are said") {
  const protocol::PlayResult result{.rank = 0, .times = {.phases = {{}}}, .warnings = {"iter 0 step: slow"}};
  const std::string text = reports::to_text(std::vector{result}, {}, 60);
  CHECK_THAT(text,
             ContainsSubstring("nothing took any time") && ContainsSubstring("warning on rank 0: iter 0 step: slow\n"));
}

TEST_CASE("calls of hooks, the collectives that hooks issued, and refused registrations are shown") {
  std::vector ranks{played(0), played(1)};
  for (protocol::PlayResult& rank : ranks) {
    rank.hook_calls = {
        {.during = "backward",
         .hook = "doubled",
         .point = "reduction",
         .state = 7,
         .label = "a",
         .count = 4,
         .collective = 0},
        {.iteration = 1, .during = "backward", .hook = "plain", .point = "after_reduction", .label = "b", .count = 2}};
  }
  ranks[1].refusals = {"iter 0 register_hook: no root"};
  CHECK_THAT(reports::to_text(ranks, {}, 31),
             ContainsSubstring("all_gather \"a\", 2 -> 4 f32, ranks 0 1, by the hook doubled, state 7\n"
                               "\n"
                               "ranks 0, 1: calls of gradient hooks\n"
                               "  iter 0 backward: doubled at reduction, state 7, of \"a\", 4 f32, collective 0\n"
                               "  iter 1 backward: plain at after_reduction, state 0, of \"b\", 2 f32\n"
                               "refused on rank 1: iter 0 register_hook: no root\n"));
  const Json json = reports::to_json(ranks, {});
  CHECK(json["ranks"][0]["hooks"][0] == Json{{"iteration", 0},
                                             {"call", "backward"},
                                             {"hook", "doubled"},
                                             {"point", "reduction"},
                                             {"state", 7},
                                             {"label", "a"},
                                             {"count", 4},
                                             {"dtype", "f32"},
                                             {"collective", 0}});
  CHECK(json["ranks"][0]["hooks"][1]["collective"].is_null());
  CHECK(json["ranks"][1]["refusals"] == Json{"iter 0 register_hook: no root"});
  CHECK(Json(Json(ranks[1]).get<protocol::PlayResult>()) == Json(ranks[1]));
  ranks[1].hook_calls.clear();
  CHECK_THAT(reports::to_text(ranks, {}, 31), ContainsSubstring("\nrank 1: calls of gradient hooks\n  none\n"));
}

TEST_CASE("codes that control a terminal do not reach it from names and warnings of an engine") {
  protocol::PlayResult result = played(0);
  std::get<fact::StreamCreated>(result.times.trace.facts[0]).name = "a\x1b[2J";
  std::get<fact::Collective>(result.times.trace.facts[1]).tag = "b\x1b[2J";
  result.warnings = {"c\x1b[2J"};
  CHECK_THAT(reports::to_text(std::vector{result}, {}, 60), !ContainsSubstring("\x1b"));
}

TEST_CASE("measured times are shown next to virtual times") {
  std::vector ranks{played(0), played(1)};
  for (protocol::PlayResult& rank : ranks) rank.measured = played(rank.rank, rank.rank == 1 ? ms / 2 : ms / 5).times;
  CHECK_THAT(reports::to_text(ranks, {}, 31),
             ContainsSubstring("iteration 0            4 ms                  -            -\n"
                               "    measured         4.5 ms                  -            -\n"
                               "total 4 ms, measured 4.5 ms\nmeasured times come from events\n"));
  const Json json = reports::to_json(ranks, {});
  CHECK(json["totals_ns"] == Json{{"forward", 4 * ms}, {"total", 4 * ms}});
  CHECK(json["measured_ns"] == Json{{"forward", 4 * ms + ms / 2}, {"total", 4 * ms + ms / 2}});
  CHECK(json["times"] == "events");
  CHECK_FALSE(json.contains("unfit_for_timing"));
  const reports::WorldResult shared{.unfit_for_timing = "2 ranks share 1 GPU", .times = protocol::cupti_times};
  CHECK_THAT(reports::to_text(ranks, shared, 31),
             ContainsSubstring("\nmeasured times come from cupti; unfit for timing: 2 ranks share 1 GPU\n"));
  CHECK(reports::to_json(ranks, shared)["times"] == "cupti");
  CHECK(reports::to_json(ranks, shared)["unfit_for_timing"] == "2 ranks share 1 GPU");
  CHECK(Json(Json(ranks[1]).get<protocol::PlayResult>()) == Json(ranks[1]));
  CHECK_FALSE(reports::to_json(std::vector{played(0)}, {}).contains("measured_ns"));
}

TEST_CASE("as JSON, values are bits and times nanoseconds") {
  const Json json = reports::to_json(std::vector{played(1)}, {});
  const Json& rank = json["ranks"][0];
  CHECK(rank["spans"][1] ==
        Json{{"stream", "gathers"}, {"kind", "all_gather"}, {"label", "a"}, {"start", 0}, {"end", ms}});
  CHECK(rank["collectives"][0]["group"] == Json{0, 1});
  CHECK(rank["iterations"][0]["loss"] == "bfc00000");
  CHECK(rank["iterations"][0]["parameters"]["a.weight"] ==
        Json{{"dtype", "f32"}, {"shape", {1, 2}}, {"dim", 0}, {"start", 1}, {"hex", "3f80000040000000"}});
}

TEST_CASE("a loss travels as its bits, so that infinities, zeros and what is no number stay what they are") {
  protocol::PlayResult result = played(1);
  for (const char* bits : {"7f800000", "ff800000", "7fc00001", "80000000", "00000000", "3f800001"}) {
    CAPTURE(bits);
    Json json = result;
    json["iterations"][0]["loss"] = bits;
    const auto read = json.get<protocol::PlayResult>();
    CHECK(Json(read) == json);
    CHECK(reports::to_json(std::vector{read}, {})["ranks"][0]["iterations"][0]["loss"] == bits);
  }
  for (const Json& none :
       {Json("7f8"), Json("7f80000000"), Json("0x800000"), Json("-1234567"), Json("7f80000g"), Json(""), Json()}) {
    CAPTURE(none);
    Json json = result;
    json["iterations"][0]["loss"] = none;
    CHECK_THROWS_AS(json.get<protocol::PlayResult>(), std::invalid_argument);
  }
}

TEST_CASE("the second tensors of pairs are next to the parameters, and absent without pairs") {
  protocol::PlayResult result = played(1);
  CHECK_FALSE(Json(result)["iterations"][0].contains("seconds"));
  CHECK_FALSE(reports::to_json(std::vector{result}, {})["ranks"][0]["iterations"][0].contains("seconds"));
  result.iterations[0].seconds = {result.iterations[0].parameters[0]};
  result.iterations[0].seconds[0].bits = "4040000040800000";
  CHECK(Json(Json(result).get<protocol::PlayResult>()) == Json(result));
  CHECK(reports::to_json(std::vector{result}, {})["ranks"][0]["iterations"][0]["seconds"]["a.weight"]["hex"] ==
        "4040000040800000");
}

TEST_CASE("a rank's play result is read as it was written") {
  const protocol::PlayResult result = played(3, ms);
  const Json json = result;
  const auto read = json.get<protocol::PlayResult>();
  CHECK(Json(read) == json);
  CHECK(read.times.phases[0].forward == 5 * ms);
  CHECK_FALSE(read.times.phases[0].exposed);
  CHECK(read.times.trace == result.times.trace);
}
