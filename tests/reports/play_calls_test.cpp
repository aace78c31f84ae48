// Tests the facts of a play beside its phases: calls, evaluates, micro-batches and norms of gradients.
#include "reports/play/play_calls.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/protocol/call_mark.hpp"
#include "reports/play/play.hpp"
#include "reports/play/play_difference.hpp"
#include "reports/play/play_norms.hpp"

using namespace shardproof;
using namespace shardproof::reports;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::ordered_json;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Fact mark(std::string text, Nanoseconds time) { return fact::Mark{.text = std::move(text), .time = time}; }

Fact begin_of(std::string call, Nanoseconds time, int occurrence = 1) {
  return mark(protocol::to_text({.call = std::move(call), .occurrence = occurrence}), time);
}

Fact end_of(std::string call, Nanoseconds time, int occurrence = 1) {
  return mark(protocol::to_text({.call = std::move(call), .occurrence = occurrence, .is_end = true}), time);
}

protocol::PlayResult with_marks(int rank, Nanoseconds evaluate = 10) {
  protocol::PlayResult result{.rank = rank, .times = {.total = 40, .phases = {{}}}};
  result.times.trace.rank = rank;
  result.times.trace.facts = {begin_of("forward", 0),
                              fact::Collective{.kind = CollectiveKind::all_gather, .tag = "a", .end = 3},
                              end_of("forward", 5),
                              begin_of("failing forward", 5),
                              end_of("failing forward", 6),
                              begin_of("forward", 6, 2),
                              end_of("forward", 8, 2),
                              begin_of("evaluate", 8),
                              fact::Collective{.kind = CollectiveKind::all_gather, .tag = "a", .start = 8, .end = 9},
                              end_of("evaluate", 8 + evaluate),
                              mark("a mark of another writer", 9),
                              begin_of("step", 30)};
  result.times.phases[0].micro_batches = {{.forward = 5, .forward_backward = 6, .exposed = 1, .micro_batches = {}},
                                          {.forward = 2, .micro_batches = {}}};
  return result;
}

SubjectPlay play_of(std::vector<protocol::PlayResult> ranks) {
  return {.subject = "s", .verdict = Verdict::passed, .why = "", .ranks = std::move(ranks)};
}

} // namespace

TEST_CASE(
    "calls come from the marks of a trace, with the collectives that "
    "they issued") {
  const std::vector<CallTimes> calls = call_times(with_marks(0).times.trace);
  const std::vector<CallTimes> expected{{0, "forward", 1, 0, 5, 0, 1},
                                        {0, "failing forward", 1, 5, 6, 1, 1},
                                        {0, "forward", 2, 6, 8, 1, 1},
                                        {0, "evaluate", 1, 8, 18, 1, 2}};
  CHECK(calls == expected);
  CHECK(compute_end(calls) == 18);
  CHECK(compute_end({}) == 0);
  CHECK(times_of(calls, 0, "forward") == std::vector<Nanoseconds>{5, 2});
  CHECK(times_of(calls, 1, "forward").empty());
}

TEST_CASE("a play's JSON has its calls, evaluates and micro-batches") {
  const Json json = to_json(std::vector{with_marks(0), with_marks(1, 12)}, {});
  CHECK(json["compute_end_ns"] == 20);
  CHECK(json["iterations_ns"] ==
        Json::parse(
            R"([{"evaluate": [12], "micro_batches": [{"forward": 5, "forward_backward": 6, "exposed": 1},
                                                             {"forward": 2}]}])"));
  CHECK(json["ranks"][1]["compute_end"] == 20);
  CHECK(json["ranks"][0]["calls"][3] ==
        Json::parse(
            R"({"iteration": 0, "call": "evaluate", "number": 1, "start": 8, "end": 18, "collectives": [1, 2]})"));
  CHECK(json["gradient_norms"].empty());
  CHECK(Json(Json(with_marks(0)).get<protocol::PlayResult>()) == Json(with_marks(0)));
  CHECK_THAT(to_text(std::vector{with_marks(0)}, {}, 60),
             ContainsSubstring("iteration 0               -                  -            -\n"
                               "  micro-batch 0        5 ns               6 ns         1 ns\n"
                               "  micro-batch 1        2 ns                  -            -\n"
                               "  evaluate            10 ns                  -            -\n"));
}

TEST_CASE(
    "plays are compared by micro-batches, by evaluates and by the end of "
    "the compute stream") {
  const auto difference = [](const protocol::PlayResult &other) {
    const PlayComparison comparison = compare(play_of({with_marks(0)}), play_of({other}));
    const PlayDifference *found = comparison.find(Aspect::totals);
    return found == nullptr ? std::string("none") : found->what;
  };
  CHECK(difference(with_marks(0)) == "none");
  protocol::PlayResult other = with_marks(0);
  other.times.phases[0].micro_batches[1].forward = 3;
  CHECK(difference(other) == "forward of micro-batch 1");
  CHECK(difference(with_marks(0, 11)) == "evaluate");
  other = with_marks(0);
  other.times.trace.facts.push_back(end_of("step", 31));
  CHECK(difference(other) == "compute_end");
}

TEST_CASE(
    "the norm of gradients is of the parts of all ranks, and copies "
    "count once") {
  const auto with_clip = [](int rank, double type, std::vector<protocol::PlayedClip::Part> parts) {
    protocol::PlayResult result = with_marks(rank);
    result.clips = {{.iteration = 0, .max_norm = 1, .norm_type = type, .parts = std::move(parts)}};
    return result;
  };
  const std::vector two{with_clip(0, 2, {{"w", 0, 9}, {"b", 0, 3}}), with_clip(1, 2, {{"w", 2, 4}, {"b", 0, 3}})};
  REQUIRE(gradient_norms(two).size() == 1);
  CHECK(gradient_norms(two)[0].norm == 4);
  const std::vector largest{with_clip(0, infinity, {{"w", 0, 9}}), with_clip(1, infinity, {{"w", 2, 4}})};
  CHECK(gradient_norms(largest)[0].norm == 9);
  const Json json = to_json(two, {});
  CHECK(json["gradient_norms"] == Json::parse(R"([{"iteration": 0, "norm": 4.0, "max_norm": 1.0}])"));
  CHECK_THAT(to_text(two, {}, 60), ContainsSubstring("\niteration 0: gradients have the norm 4 "
                                                     "before they are clipped to 1\n"));
  const std::vector lost{with_clip(0, 2, {{"w", 0, infinity}})};
  CHECK(to_json(lost, {})["gradient_norms"][0]["norm"] == "inf");
  CHECK(Json(Json(lost[0]).get<protocol::PlayResult>()) == Json(lost[0]));
  const std::vector other{with_clip(0, 2, {{"w", 0, 9}, {"b", 0, 3}}), with_clip(1, 2, {{"w", 2, 13}, {"b", 0, 3}})};
  const PlayComparison comparison = compare(play_of(two), play_of(other));
  REQUIRE(comparison.find(Aspect::bits) != nullptr);
  CHECK(comparison.find(Aspect::bits)->what == "gradient norm of iteration 0");
  CHECK(compare(play_of(two), play_of(two)).alike());
}
