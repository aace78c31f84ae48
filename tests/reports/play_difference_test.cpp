#include "reports/play/play_difference.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

using namespace shardproof;
using namespace shardproof::reports;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Message;

namespace {

constexpr Nanoseconds tick = 1'000'000;

fact::Collective gather(const char* tag, Nanoseconds start) {
  return {.stream = 1,
          .kind = CollectiveKind::all_gather,
          .dtype = DType::f32,
          .in_count = 2,
          .out_count = 4,
          .group = {0, 1},
          .tag = tag,
          .start = start,
          .end = start + tick};
}

Fact forward(const char* label, Nanoseconds start) {
  return fact::Work{.stream = 0, .kind = WorkKind::forward, .label = label, .start = start, .end = start + tick};
}

// Two all-gathers, each waited for by the module that needs it; one captured iteration.
protocol::PlayResult played_side(int rank) {
  protocol::PlayResult result{
      .rank = rank,
      .times = {.total = 4 * tick, .phases = {{.forward = 3 * tick, .forward_backward = 4 * tick, .exposed = tick}}}};
  result.times.trace = {
      .rank = rank,
      .facts = {fact::StreamCreated{.stream = 1, .role = StreamRole::all_gather, .name = "gathers"}, gather("a", 0),
                fact::EventRecorded{.stream = 1, .event = 1}, gather("b", tick),
                fact::EventRecorded{.stream = 1, .event = 2}, fact::EventWaited{.stream = 0, .event = 1},
                forward("a", tick), fact::EventWaited{.stream = 0, .event = 2}, forward("b", 2 * tick)}};
  const protocol::PlayedTensor part{
      .name = "a.weight", .shape = {1, 2}, .start = rank, .dtype = DType::f32, .bits = "3f80000040000000"};
  result.iterations = {{.loss = -1.5, .gradients = {part}, .parameters = {part}}};
  return result;
}

SubjectPlay play(std::string subject) {
  return {
      .subject = std::move(subject), .verdict = Verdict::passed, .why = {}, .ranks = {played_side(0), played_side(1)}};
}

std::vector<Fact>& facts(SubjectPlay& play, std::size_t rank) { return play.ranks[rank].times.trace.facts; }

/// The sole difference.
PlayDifference sole(const SubjectPlay& first, const SubjectPlay& second, std::uint64_t ulps = 0) {
  const PlayComparison comparison = compare(first, second, ulps);
  INFO(to_text(comparison));
  REQUIRE(comparison.differences.size() == 1);
  return comparison.differences.front();
}

const SubjectPlay one = play("one");

}  // namespace

TEST_CASE("plays that are alike say how much has been compared") {
  const PlayComparison comparison = compare(one, play("other"));
  CHECK(comparison.alike());
  CHECK(to_text(comparison) ==
        "verdict  alike\n"
        "totals   alike\n"
        "order    alike: 8 collectives and computations of modules, and what each waits for\n"
        "counts   alike: 4 collectives\n"
        "bits     alike: 10 captured values\n");
  const auto json = to_json(comparison);
  CHECK(json.at("alike") == true);
  CHECK(json.at("differences").empty());
  CHECK(json.at("compared") ==
        nlohmann::ordered_json{{"ranks", 2}, {"steps", 8}, {"waits", true}, {"collectives", 4}, {"values", 10}});
}

TEST_CASE("times differ first by iteration, then by phase, then by rank, and the whole comes last") {
  SubjectPlay other = play("other");
  other.ranks[1].times.phases[0].exposed = 0;
  other.ranks[0].times.total = 5 * tick;
  const PlayDifference found = sole(one, other);
  CHECK(found.aspect == Aspect::totals);
  CHECK(found.what == "exposed");
  CHECK(found.rank == 1);
  CHECK(found.iteration == 0);
  CHECK(found.values == std::array<std::string, 2>{"1 ms", "0 ms"});

  other.ranks[0].times.phases[0].forward.reset();
  CHECK(sole(one, other).what == "forward");
  CHECK(sole(one, other).values[1] == "none");

  other = play("other");
  other.ranks[0].times.total = 5 * tick;
  CHECK(sole(one, other).what == "total");
  CHECK_FALSE(sole(one, other).iteration);
}

TEST_CASE("the order in which a host issues differs where one rank's does, and shows what came before") {
  SubjectPlay other = play("other");
  std::get<fact::Work>(facts(other, 1)[6]).label = "b";
  std::get<fact::Work>(facts(other, 1)[8]).label = "a";
  const PlayDifference found = sole(one, other);
  CHECK(found.aspect == Aspect::order);
  CHECK(found.what == "step 2");
  CHECK(found.rank == 1);
  CHECK(found.values == std::array<std::string, 2>{"forward \"a\"", "forward \"b\""});
  CHECK(found.more == "before it, on both: all_gather \"a\", all_gather \"b\"");

  other = play("other");
  facts(other, 0).pop_back();
  CHECK(sole(one, other).values == std::array<std::string, 2>{"forward \"b\"", "nothing more"});
}

TEST_CASE("a module that computes in several pieces computes once; other work is an engine's own affair") {
  SubjectPlay other = play("other");
  facts(other, 0).insert(facts(other, 0).begin() + 6, forward("a", tick));
  facts(other, 0).push_back(fact::Work{.stream = 0, .kind = WorkKind::optimizer, .label = "a.weight"});
  CHECK(compare(one, other).alike());
}

TEST_CASE("a wait that only one of them has is a difference in order, though nothing came in another order") {
  SubjectPlay other = play("other");
  facts(other, 0).erase(facts(other, 0).begin() + 7);
  PlayDifference found = sole(one, other);
  CHECK(found.aspect == Aspect::order);
  CHECK(found.what == "step 3, forward \"b\", and what it waits for: step 1, all_gather \"b\"");
  CHECK(found.values == std::array<std::string, 2>{"waits", "need not wait"});
  found = sole(other, one);
  CHECK(found.values == std::array<std::string, 2>{"need not wait", "waits"});
}

TEST_CASE("where there are too many steps, what each waits for is not looked at, and that is said") {
  SubjectPlay many = play("many");
  for (int i = 0; i < 1000; ++i) {
    for (const char* label : {"c", "d"}) facts(many, 0).push_back(forward(label, 0));
  }
  SubjectPlay other = many;
  facts(other, 0).erase(facts(other, 0).begin() + 7);
  const PlayComparison comparison = compare(many, other);
  CHECK(comparison.alike());
  CHECK_THAT(to_text(comparison), ContainsSubstring("too many to compare what each waits for"));
  CHECK(to_json(comparison).at("compared").at("waits") == false);
}

TEST_CASE("collectives are counted by kind, then by tag, then by what is exchanged") {
  const auto second = [](SubjectPlay& play) -> fact::Collective& {
    return std::get<fact::Collective>(facts(play, 1)[3]);
  };
  SubjectPlay other = play("other");
  second(other).in_count = 3;
  PlayDifference found = sole(one, other);
  CHECK(found.aspect == Aspect::counts);
  CHECK(found.what == "all_gather \"b\", what is exchanged");
  CHECK(found.rank == 1);
  CHECK(found.values == std::array<std::string, 2>{"1 of 2 -> 4 f32, ranks 0 1", "1 of 3 -> 4 f32, ranks 0 1"});

  second(other).tag = "a";
  PlayComparison comparison = compare(one, other);
  REQUIRE(comparison.find(Aspect::counts) != nullptr);
  CHECK(comparison.find(Aspect::counts)->what == "all_gather \"a\", how many");
  CHECK(comparison.find(Aspect::counts)->values == std::array<std::string, 2>{"1", "2"});

  second(other).kind = CollectiveKind::broadcast;
  comparison = compare(one, other);
  CHECK(comparison.find(Aspect::counts)->what == "all_gather, how many");
  CHECK(comparison.find(Aspect::counts)->values == std::array<std::string, 2>{"2", "1"});
  CHECK(compare(other, one).find(Aspect::counts)->values == std::array<std::string, 2>{"1", "2"});
}

TEST_CASE("values differ first by capture: the loss, then gradients, then parameters, each on all ranks") {
  SubjectPlay other = play("other");
  other.ranks[1].iterations[0].parameters[0].bits = "3f80000040000001";
  PlayDifference found = sole(one, other);
  CHECK(found.aspect == Aspect::bits);
  CHECK(found.what == "parameter \"a.weight\"");
  CHECK(found.rank == 1);
  CHECK(found.iteration == 0);
  CHECK(found.index == 1);
  CHECK(found.values == std::array<std::string, 2>{"2 (0x40000000)", "2.000000238418579 (0x40000001)"});
  CHECK(found.more == "in total, 1 of 10 values differ, by 1 units in the last place at most");

  other.ranks[1].iterations[0].gradients[0].bits = "3f8000004000000a";
  other.ranks[0].iterations[0].gradients[0].bits = "bf80000040000000";
  found = sole(one, other);
  CHECK(found.what == "gradient \"a.weight\"");
  CHECK(found.rank == 0);
  CHECK(found.index == 0);
  CHECK(found.values[1] == "-1 (0xbf800000)");
  CHECK(found.more == "in total, 3 of 10 values differ");

  other.ranks[1].iterations[0].loss = 1.5;
  CHECK(sole(one, other).what == "loss");
  CHECK(sole(one, other).values == std::array<std::string, 2>{"-1.5 (0xbfc00000)", "1.5 (0x3fc00000)"});
}

TEST_CASE("a loss that is infinite is not one that is no number, and a zero below zero is not the other") {
  constexpr float infinity = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
  const auto with = [](float loss) {
    SubjectPlay other = play("other");
    for (protocol::PlayResult& rank : other.ranks) rank.iterations[0].loss = loss;
    return other;
  };
  CHECK(sole(with(infinity), with(none)).values == std::array<std::string, 2>{"inf (0x7f800000)", "nan (0x7fc00000)"});
  CHECK(sole(with(-0.0F), with(0.0F)).values == std::array<std::string, 2>{"-0 (0x80000000)", "0 (0x00000000)"});
  CHECK(compare(with(-0.0F), with(0.0F), 1).alike());
  CHECK(compare(with(none), with(none)).alike());
  CHECK(compare(with(-infinity), with(-infinity)).alike());
  CHECK_FALSE(compare(with(-infinity), with(infinity), 1).alike());
}

TEST_CASE("how ranks agree on the sizes of what extensions contribute is an engine's own affair") {
  SubjectPlay other = play("other");
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1}})
    facts(other, rank).insert(facts(other, rank).begin() + 1, gather("extension sizes", 0));
  const PlayComparison comparison = compare(one, other);
  CHECK(comparison.alike());
  CHECK(comparison.collectives == 4);
  CHECK(compare(other, one).collectives == 4);

  // The host may wait for an agreement, and so for "a", which no other work waits for. Without an agreement that is
  // a difference.
  SubjectPlay free = play("free");
  facts(free, 0).erase(facts(free, 0).begin() + 5);
  SubjectPlay agreeing = free, waiting = free;
  facts(agreeing, 0)
      .insert(facts(agreeing, 0).begin() + 3, {gather("extension sizes", tick), fact::StreamSynchronized{.stream = 1}});
  facts(waiting, 0).insert(facts(waiting, 0).begin() + 3, fact::StreamSynchronized{.stream = 1});
  CHECK(compare(free, agreeing).alike());
  CHECK_FALSE(compare(free, waiting).alike());
}

TEST_CASE("a missing or different part is a difference") {
  const auto changed = [](auto&& change) {
    SubjectPlay other = play("other");
    change(other.ranks[0].iterations);
    return sole(one, other);
  };
  using Iterations = std::vector<protocol::PlayedIteration>;
  CHECK(changed([](Iterations& all) { all.clear(); }).what == "how many captures");
  CHECK(changed([](Iterations& all) { all.clear(); }).more.empty());  // of values nothing is said
  CHECK(changed([](Iterations& all) { all[0].gradients.clear(); }).values[1] == "none");
  CHECK(changed([](Iterations& all) { all[0].gradients.clear(); }).more.empty());
  const auto missing = changed([](Iterations& all) {
    all[0].gradients.clear();
    all[0].parameters.clear();
  });
  CHECK(missing.what == "parameter \"a.weight\"");
  CHECK(missing.values == std::array<std::string, 2>{"f32 [1, 2], from 0 along dimension 0", "missing"});
  CHECK(changed([](Iterations& all) { all[0].seconds = all[0].parameters; }).what ==
        "second tensor of parameter \"a.weight\"");
  CHECK(changed([](Iterations& all) { all[0].parameters[0].start = 7; }).values ==
        std::array<std::string, 2>{"f32 [1, 2], from 0 along dimension 0", "f32 [1, 2], from 7 along dimension 0"});
  CHECK(changed([](Iterations& all) { all[0].parameters[0].shape = {2, 1}; }).values[1] ==
        "f32 [2, 1], from 0 along dimension 0");
  CHECK(changed([](Iterations& all) { all[0].parameters[0].dtype = DType::f64; }).values[1] ==
        "f64 [1, 2], from 0 along dimension 0");
}

TEST_CASE("a part without elements begins nowhere in particular") {
  SubjectPlay first = play("first"), second = play("second");
  for (SubjectPlay* side : {&first, &second}) {
    side->ranks[1].iterations[0].parameters[0].bits.clear();
    side->ranks[1].iterations[0].parameters[0].shape = {0, 2};
  }
  second.ranks[1].iterations[0].parameters[0].start = 2;
  CHECK(compare(first, second).alike());
}

TEST_CASE("values may be let to differ by so many units in the last place; zeros are alike, and what is no number") {
  const auto with = [](const char* bits, DType dtype = DType::f32) {
    SubjectPlay other = play("other");
    protocol::PlayedTensor& tensor = other.ranks[0].iterations[0].parameters[0];
    tensor.dtype = dtype;
    tensor.bits = bits;
    tensor.shape = {static_cast<std::int64_t>(tensor.bits.size() / 2 / size_of(dtype))};
    return other;
  };
  const auto are_alike = [](const SubjectPlay& first, const SubjectPlay& second, std::uint64_t ulps) {
    return compare(first, second, ulps).alike();
  };
  CHECK(are_alike(with("3f800000"), with("3f800003"), 3));
  CHECK_FALSE(are_alike(with("3f800000"), with("3f800003"), 2));
  CHECK(are_alike(with("00000001"), with("80000001"), 2));  // on both sides of zero
  CHECK_FALSE(are_alike(with("00000001"), with("80000001"), 1));
  CHECK(are_alike(with("00000000"), with("80000000"), 0));
  CHECK(are_alike(with("7fc00000"), with("ffc00001"), 0));
  CHECK_FALSE(are_alike(with("7f800000"), with("7fc00000"), 1));
  CHECK_FALSE(are_alike(with("7fc00000"), with("3f800000"), ~std::uint64_t{0} - 1));
  CHECK(are_alike(with("3f80", DType::bf16), with("3f81", DType::bf16), 1));
  CHECK(are_alike(with("fc00", DType::f16), with("fbff", DType::f16), 1));  // infinity, and the number before it
  CHECK_FALSE(are_alike(with("01", DType::u8), with("02", DType::u8), 100));
  CHECK(sole(with("01", DType::u8), with("02", DType::u8)).values == std::array<std::string, 2>{"0x01", "0x02"});
  CHECK(sole(with("3c00", DType::f16), with("fc00", DType::f16)).values ==
        std::array<std::string, 2>{"1 (0x3c00)", "-inf (0xfc00)"});
  CHECK(sole(with("0001", DType::bf16), with("7fc0", DType::bf16)).values ==
        std::array<std::string, 2>{"9.183549615799121e-41 (0x0001)", "nan (0x7fc0)"});
  CHECK(sole(with("3ff8000000000000", DType::f64), with("bff8000000000000", DType::f64)).values[1] ==
        "-1.5 (0xbff8000000000000)");
}

TEST_CASE("a refusal differs from a play, and nothing else is compared") {
  const SubjectPlay refused{
      .subject = "other", .verdict = Verdict::failed, .why = "create failed: no such \x1bmesh\nand more", .ranks = {}};
  const PlayComparison comparison = compare(one, refused);
  CHECK_FALSE(comparison.both_played);
  REQUIRE(comparison.differences.size() == 1);
  CHECK(to_text(comparison) ==
        "verdict  differ: only one of them plays it to its end\n"
        "         one: passed\n"
        "         other: failed\n"
        "           create failed: no such \\x1bmesh\n"
        "           and more\n");
  const auto json = to_json(comparison);
  CHECK(json.at("alike") == false);
  CHECK(json.at("both_played") == false);
  CHECK(json.at("differences").at(0).at("aspect") == "verdict");
}

TEST_CASE("a Python traceback shows its end, and not the frames of the harness") {
  SubjectPlay other = play("other");
  other.verdict = Verdict::failed;
  other.ranks.clear();
  other.why =
      "ranks 0, 1\n"
      "forward failed in iteration 0: ValueError: no\n"
      "Traceback (most recent call last):\n"
      "  File \"/opt/shardproof/subject.py\", line 138, in _answer\n"
      "    call()\n"
      "  File \"/opt/engine.py\", line 7, in forward\n"
      "    raise ValueError(\"no\")\n"
      "ValueError: no\n"
      "\n"
      "  at harness/runner/play_case.cpp:135";
  CHECK(to_text(compare(one, other)) ==
        "verdict  differ: only one of them plays it to its end\n"
        "         one: passed\n"
        "         other: failed\n"
        "           ranks 0, 1\n"
        "           forward failed in iteration 0: ValueError: no\n"
        "           Traceback (most recent call last):\n"
        "             …\n"
        "             File \"/opt/engine.py\", line 7, in forward\n"
        "               raise ValueError(\"no\")\n"
        "           ValueError: no\n"
        "           \n"
        "             at harness/runner/play_case.cpp:135\n");
  CHECK(to_json(compare(one, other)).at("differences").at(0).at("values").at(1) == "failed\n" + other.why);
}

TEST_CASE("a long explanation shows its beginning, and the JSON keeps all of it") {
  SubjectPlay other = play("other");
  other.verdict = Verdict::failed;
  for (int i = 0; i < 12; ++i) other.why += fmt::format("{}line {}", i == 0 ? "" : "\n", i);
  CHECK_THAT(to_text(compare(one, other)),
             ContainsSubstring("           line 9\n           and 2 more lines\ntotals "));
  CHECK(to_json(compare(one, other)).at("differences").at(0).at("values").at(1) == "failed\n" + other.why);
}

TEST_CASE("two subjects that refuse agree, whatever their words; a refusal and a hang differ") {
  SubjectPlay first{.subject = "one", .verdict = Verdict::failed, .why = "no", .ranks = {}};
  SubjectPlay second{.subject = "other", .verdict = Verdict::failed, .why = "never", .ranks = {}};
  CHECK(compare(first, second).alike());
  CHECK(to_text(compare(first, second)) == "verdict  alike: neither plays it to its end\n");
  second.verdict = Verdict::hung;
  CHECK_FALSE(compare(first, second).alike());
  CHECK(to_text(compare(first, second)) ==
        "verdict  differ: neither plays it to its end, and they end differently\n"
        "         one: failed\n"
        "           no\n"
        "         other: hung\n"
        "           never\n");
}

TEST_CASE("plays with different verdicts were still played to their end") {
  SubjectPlay other = play("other");
  other.verdict = Verdict::failed;
  CHECK_THAT(to_text(compare(one, other)),
             ContainsSubstring("both play it to its end, and they have different verdicts"));
}

TEST_CASE("a race that one of them has is a difference, and what they did is compared all the same") {
  SubjectPlay other = play("other");
  other.verdict = Verdict::failed;
  other.why = "races: a and b";
  other.ranks[0].times.total = 5 * tick;
  const PlayComparison comparison = compare(one, other);
  CHECK(comparison.both_played);
  REQUIRE(comparison.differences.size() == 2);
  CHECK(comparison.find(Aspect::verdict)->values[1] == "failed\nraces: a and b");
  CHECK(comparison.find(Aspect::totals)->what == "total");
}

TEST_CASE("plays on unlike numbers of ranks cannot be compared") {
  SubjectPlay other = play("other");
  other.ranks.pop_back();
  CHECK_THROWS_MATCHES(
      compare(one, other), std::invalid_argument,
      Message("one played on 2 ranks, other on 1: plays can be compared only on equal numbers of ranks"));
}
