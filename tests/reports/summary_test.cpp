#include "reports/export/failure_text.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>

#include "reports/export/summary.hpp"
#include "reports/export/terminal.hpp"
#include "tests/reports/sample_report.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;

const CaseResult& case_of(const Report& report, const std::string& id, Verdict verdict) {
  for (const auto& result : report.cases) {
    if (result.info.id == id && result.verdict == verdict) return result;
  }
  throw std::out_of_range(id);
}

TEST_CASE("a failure: first cause first, shared failures shown once, and the command that repeats it") {
  const auto report = sample_report();
  TextStyle style;
  style.clauses = {{"OVL-5", "a group's parameters are read only after its all-gather"}};
  CHECK(failure_text(case_of(report, "mine/failed[W=2]", Verdict::failed), report, style) ==
        "FAIL mine/failed[W=2]      rank 1, 12 ms, first of 3 failures\n"
        "  ranks 0, 1\n"
        "  CHECK( run.forward() <= first_gather_exposed(run.scenario()) )\n"
        "    105000000 <= 85000000\n"
        "    costs := 25 ms\n"
        "    forward\n"
        "    gather := 10 ms\n"
        "    at suites/a/cases.cpp:42\n"
        "  OVL-1\n"
        "  OVL-5  a group's parameters are read only after its all-gather\n"
        "  rank 0\n"
        "  CHECK( run.races().empty() )\n"
        "    false\n"
        "    at suites/a/cases.cpp:42\n"
        "  again: shardproof run 'mine/failed[W=2]' --seed 18446744073709551615 --worker './my tests'\n");
}

// Each case fails on rank 0: first by two races of one missing wait, then by its time.
Report one_missing_wait() {
  const std::vector<std::string> names{"a/one", "a/two", "a/three", "a/four", "b/one"};
  WorldOnPaper world(2, names);
  for (int rank = 0; rank < 2; ++rank) world.begin(rank);
  for (std::uint64_t i = 0; i < names.size(); ++i) {
    for (int rank = 0; rank < 2; ++rank) world.start(rank, i);
    auto race = check_failed({}, "all_gather \"" + names[i] + "\" writes bytes 0.." + std::to_string(160 + i), 500);
    race.macro = "FAIL_CHECK";
    race.clauses = {"OVL-4"};
    world.of(0).add(race);
    race.expansion += "0";
    world.of(0).add(race);
    auto late = check_failed("time == 85ms", std::to_string(i) + " ms == 85 ms", 600);
    late.clauses = {i < 2 ? "OVL-4" : "OVL-20"};
    world.of(0).add(late);
    world.end(0, i, protocol::Outcome::failed);
    world.end(1, i, protocol::Outcome::passed);
  }
  for (int rank = 0; rank < 2; ++rank) world.finish(rank);
  return world.merged();
}

TEST_CASE("a cause that many cases show is one paragraph, with the clause of each failure and the other cases") {
  TextStyle style;
  style.clauses = {{"OVL-4", "a group's parameters are read only after its all-gather"}};
  const Report report = one_missing_wait();
  CHECK(summary(report, style) ==
        "FAIL a/four[W=2]      rank 0, 12 ms, first of 3 failures\n"
        "  rank 0\n"
        "  all_gather \"a/four\" writes bytes 0..163\n"
        "    at suites/a/cases.cpp:42\n"
        "    and 1 more like it\n"
        "  OVL-4  a group's parameters are read only after its all-gather\n"
        "  rank 0\n"
        "  CHECK( time == 85ms )\n"
        "    3 ms == 85 ms\n"
        "    at suites/a/cases.cpp:42\n"
        "  OVL-20\n"
        "  also in: 3 cases of a: one, three, two\n"
        "           1 case of b: one\n"
        "  again: shardproof run 'a/four[W=2]' --seed 0\n"
        "\n"
        "world 0: 2 ranks of shm on sim, 5 cases: 5 failed\n"
        "5 cases in 1 world: 5 failed\n");
}

TEST_CASE("ranks whose failure differs only in numbers are named where it is counted") {
  WorldOnPaper world(3, {"a/one"});
  for (int rank = 0; rank < 3; ++rank) world.begin(rank);
  for (int rank = 0; rank < 3; ++rank) {
    world.start(rank, 0);
    world.of(rank).add(check_failed("rank.index() == 7", std::to_string(rank) + " == 7", 500));
    world.end(rank, 0, protocol::Outcome::failed);
    world.finish(rank);
  }
  CHECK_THAT(summary(world.merged(), {}),
             ContainsSubstring("  rank 0\n") && ContainsSubstring("    and 2 more like it, on ranks 1, 2\n"));
}

TEST_CASE("what the other cases of a cause break besides is said too") {
  Report report = one_missing_wait();
  std::erase_if(report.cases, [](const CaseResult& result) { return result.info.id.starts_with("a/four"); });
  CHECK_THAT(summary(report, {}), ContainsSubstring("FAIL a/one[W=2]") &&
                                      ContainsSubstring("also in: 2 cases of a: three, two\n") &&
                                      ContainsSubstring("  they also break OVL-20 (2 cases)\n"));
}

TEST_CASE("a verbose summary has each case in full") {
  TextStyle style;
  style.verbose = true;
  const std::string text = summary(one_missing_wait(), style);
  for (const char* name : {"a/one", "a/two", "a/three", "a/four", "b/one"}) {
    CHECK_THAT(text, ContainsSubstring("all_gather \"" + std::string(name) + "\" writes bytes") &&
                         ContainsSubstring("again: shardproof run '" + std::string(name)));
  }
  CHECK_THAT(text, !ContainsSubstring("also in") && !ContainsSubstring("more like it"));
}

TEST_CASE("a crash: the guilty rank first") {
  const auto report = sample_report();
  CHECK(failure_text(case_of(report, "mine/crashed[W=2]", Verdict::crashed), report, {}) ==
        "CRASH mine/crashed[W=2]      12 ms\n"
        "  rank 1 died by signal 9 (SIGKILL) in mine/crashed[W=2]\n"
        "  rank 0 released: rank 1 died\n"
        "  evidence: worlds/1/evidence\n"
        "  again: shardproof run 'mine/crashed[W=2]' --seed 18446744073709551615 --worker './my tests'\n");
}

TEST_CASE("an exception: its control codes do not reach the terminal") {
  const auto report = sample_report();
  CHECK(failure_text(case_of(report, "mine/flaky[W=2]", Verdict::error), report, {}) ==
        "ERROR mine/flaky[W=2] (repetition 1)      rank 1, 12 ms\n"
        "  exception outside an assertion\n"
        "    std::runtime_error: \\x1b[31mno\\x1b[0m\n"
        "  rank 1 error: an exception left the body\n"
        "  rank 0 released: left because of rank 1\n"
        "  again: shardproof run 'mine/flaky[W=2]' --seed 18446744073709551615 --worker './my tests'\n");
}

TEST_CASE("what an exception says is said once, and those whom it released are named") {
  WorldOnPaper world(2, {"a/one"});
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.start(rank, 0);
  }
  auto thrown = check_failed("", "", 500);
  thrown.macro.clear();
  thrown.messages = {"unexpected exception: out of luck"};
  world.of(1).add(thrown);
  world.end(1, 0, protocol::Outcome::error, "out of luck");
  world.end(0, 0, protocol::Outcome::released, "out of luck", 1);
  for (int rank = 0; rank < 2; ++rank) world.finish(rank);
  const auto report = world.merged();
  CHECK(failure_text(report.cases[0], report, {}) ==
        "ERROR a/one[W=2]      rank 1, 12 ms\n"
        "  exception outside an assertion\n"
        "    unexpected exception: out of luck\n"
        "    after suites/a/cases.cpp:42, the last assertion before it or the start of the case\n"
        "  rank 0 released: rank 1 left the case because of this failure\n"
        "  again: shardproof run 'a/one[W=2]' --seed 0\n");
}

TEST_CASE("what an exception says on all ranks is said once, also if each rank says its own number") {
  for (const bool is_numbered : {false, true}) {
    WorldOnPaper world(4, {"a/one"});
    for (int rank = 0; rank < 4; ++rank) {
      const std::string text = is_numbered ? fmt::format("no paper in tray {}", rank) : "no paper in any tray";
      world.begin(rank);
      world.start(rank, 0);
      protocol::event::AssertionFailed thrown;
      thrown.expansion = "unexpected exception: " + text;
      world.of(rank).add(thrown);
      world.end(rank, 0, protocol::Outcome::error, text);
      world.finish(rank);
    }
    const std::string text = summary(world.merged(), {});
    INFO(text);
    CHECK(text.find("no paper") == text.rfind("no paper"));
    CHECK_THAT(text, ContainsSubstring(is_numbered ? "and 3 more like it, on ranks 1…3" : "  ranks 0…3\n"));
  }
}

TEST_CASE("a long or broken exception text is shown once, and a reason that is only a part of it is shown") {
  WorldOnPaper world(4, {"a/one"});
  for (int rank = 0; rank < 4; ++rank) {
    world.begin(rank);
    world.start(rank, 0);
  }
  const std::string text = "out\nof luck " + std::string(600, '.');
  auto thrown = check_failed("", "", 500);
  thrown.macro.clear();
  thrown.expansion = "unexpected exception: " + text;
  world.of(1).add(thrown);
  world.end(1, 0, protocol::Outcome::error, text);
  world.end(0, 0, protocol::Outcome::released, text.substr(0, 512), 1);
  world.end(2, 0, protocol::Outcome::error, "luck");
  world.end(3, 0, protocol::Outcome::error, text + "; cannot go on");
  for (int rank = 0; rank < 4; ++rank) world.finish(rank);
  const auto report = world.merged();
  const std::string shown = failure_text(report.cases[0], report, {});
  const std::string dots(600, '.');
  CHECK_THAT(shown, ContainsSubstring(
                        "    unexpected exception: out\n    of luck " + dots +
                        "\n    after suites/a/cases.cpp:42, the last assertion before it or the start of the case\n"
                        "  rank 2 error: luck\n"
                        "  rank 3 error: out\n  of luck " +
                        dots +
                        "; cannot go on\n"
                        "  rank 0 released: rank 1 left the case because of this failure\n"
                        "  again:"));
}

TEST_CASE("a rank that died has its last words") {
  WorldOnPaper world(2, {"a/one"});
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.start(rank, 0);
  }
  world.ending(0) = {0, protocol::Ending::How::stopped, 15, -1, "rank 1 died", "not said here"};
  world.ending(1) = {1, protocol::Ending::How::signalled, SIGABRT, 0, "rank 1 died", "1\n2\n3\n4\n5\nwhat(): boom"};
  const auto report = world.merged();
  CHECK(failure_text(report.cases[0], report, {}) ==
        "CRASH a/one[W=2]\n"
        "  rank 1 died by signal 6 (SIGABRT) in a/one[W=2]\n"
        "  rank 0 released: was stopped by its launcher: rank 1 died\n"
        "  rank 1 printed last (worlds/0/logs/rank-1.err):\n"
        "    1\n    2\n    3\n    4\n    5\n    what(): boom\n"
        "  evidence: worlds/0/evidence\n"
        "  again: shardproof run 'a/one[W=2]' --seed 0\n");
}

TEST_CASE("a world is named by the number of its folder, wherever it is in the report") {
  WorldOnPaper world(2, {"a/one"});
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.start(rank, 0);
  }
  world.ending(1) = {1, protocol::Ending::How::signalled, SIGABRT, 0, "rank 1 died", "boom"};
  auto report = world.merged();
  report.worlds[0].number = 7;
  report.worlds[0].defects = {"something is missing"};
  const auto text = summary(report, {});
  CHECK_THAT(
      text, ContainsSubstring("(worlds/7/logs/rank-1.err)") && ContainsSubstring("evidence: worlds/7/evidence\n") &&
                ContainsSubstring("EVIDENCE world 7: something is missing") && ContainsSubstring("\nworld 7: 2 ranks"));
  TextStyle with_place;
  with_place.run_directory = "out/my run/";
  CHECK_THAT(summary(report, with_place), ContainsSubstring("(out/my run/worlds/7/logs/rank-1.err)") &&
                                              ContainsSubstring("evidence: out/my run/worlds/7/evidence\n"));
  CHECK_THAT(summary(report, {.is_kept = false}),
             ContainsSubstring("rank 1 printed last:\n") &&
                 ContainsSubstring("evidence: deleted with the run; --out DIRECTORY keeps it\n") &&
                 !ContainsSubstring("worlds/7"));
}

TEST_CASE("FAIL has a message and no expression") {
  WorldOnPaper world(1, {"a/one"});
  world.begin(0);
  world.start(0, 0);
  auto failure = check_failed("", "", 500);
  failure.macro = "FAIL";
  failure.messages = {"no way on"};
  world.of(0).add(failure);
  world.end(0, 0, protocol::Outcome::failed);
  world.finish(0);
  const auto report = world.merged();
  CHECK_THAT(failure_text(report.cases[0], report, {}), ContainsSubstring("rank 0, 12 ms\n  no way on\n    at suites"));
}

TEST_CASE("a repeated case that was not run is named once") {
  auto report = WorldOnPaper(1, {"a/one", "a/one", "a/two", "a/one"}).merged();
  for (std::size_t i = 1; i < report.cases.size(); ++i) report.cases[i].verdict = Verdict::not_run;
  CHECK_THAT(summary(report, {}), ContainsSubstring("NOT RUN 3 cases: a/one[W=1] (2 times), a/two[W=1]\n"));
}

TEST_CASE("a disagreement says what differs") {
  const auto report = sample_report();
  CHECK(failure_text(case_of(report, "mine/disagreed[W=2]", Verdict::disagreed), report, {}) ==
        "DISAGREE mine/disagreed[W=2]      12 ms\n"
        "  measurement exposed_ns: 10000000 ns on rank 0, 10000001 ns on rank 1; every rank must measure the same\n"
        "  again: shardproof run 'mine/disagreed[W=2]' --seed 18446744073709551615 --worker './my tests'\n");
}

TEST_CASE("the summary ends with skips, worlds and counts") {
  const auto report = sample_report();
  const auto text = summary(report, {});
  const auto tail = text.substr(text.rfind("again:"));
  CHECK(tail.substr(tail.find('\n')) ==
        "\n\n"
        "NCCL world 1: rank 1 called NCCL once\n"
        "NOT RUN 1 case: mine/late[W=2]\n"
        "FINDING subject fully_shard claims the engine kind fully_shrad, which this worker does not know: correct its "
        "claims\n"
        "FINDING required clause OVL-1: its only case did not pass\n"
        "FINDING required clause OVL-9: no case of this run checks it\n"
        "FINDING waivers[0] mine/waived* (ada): this worker has no subject rigth, closest is right\n"
        "WAIVED 1 failed: the new scheduler is late (https://tracker.example/7)\n"
        "  mine/waived[W=2]\n"
        "  by ada until 2030-02-01; to see it: shardproof play 'docs/late one.json' --ranks 3 --subject "
        "reference,fully_shard "
        "--worker './my tests'\n"
        "SKIP 1 case: needs a timeline (asked by rank 0)\n"
        "  mine/skipped[W=2]\n"
        "FLAKY mine/flaky[W=2]\n"
        "world 0: 2 ranks of shm on sim, 6 cases: 2 passed, 1 skipped, 1 waived, 1 failed, 1 disagreed\n"
        "world 1: 2 ranks of shm on sim, 3 cases: 1 not_run, 1 error, 1 crashed; when the run began, ranks 0, 1 had a "
        "GPU slowed\n"
        "  by power cap; times from cupti; unfit for timing: 2 ranks share 1 GPU\n"
        "9 cases in 2 worlds: 2 passed, 1 skipped, 1 waived, 1 not_run, 1 error, 1 failed, 1 disagreed, 1 crashed; 1 "
        "flaky\n");
  CHECK(text.starts_with("CRASH mine/crashed[W=2]"));
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("waived cases are listed by reason, once, in the order of the waivers; each one only in a verbose summary") {
  WorldOnPaper world(1, {"a/one", "a/two", "b/one", "b/two", "c/one"});
  Report report = world.merged();
  report.head.started = "2030-01-02T03:04:05Z";
  report.head.argv = {"shardproof", "run", "--subject=mine", "--waivers", "w.json"};
  const Waiver known{.pattern = "a/*",
                     .verdict = Verdict::failed,
                     .when = {},
                     .reason = "late",
                     .link = "l",
                     .owner = "ada",
                     .expires = "2030-02-01",
                     .shown_by = {}};
  report.head.waivers = {known, known, known};
  report.head.waivers[0].reason = "early";
  report.head.waivers[2].verdict = Verdict::error;
  report.head.waivers[2].shown_by = {.scenario = "late.json", .ranks = {}, .other_subject = {}};
  const auto excuse = [&](std::size_t index, Verdict verdict, int waiver) {
    report.cases[index].verdict = verdict;
    report.cases[index].waiver = waiver;
  };
  for (const std::size_t index : {0U, 1U, 2U}) excuse(index, Verdict::failed, 1);
  excuse(3, Verdict::error, 2);
  excuse(4, Verdict::failed, 0);
  CHECK(summary(report, {}) ==
        "WAIVED 1 failed: early (l)\n"
        "  c/one[W=1]\n"
        "  by ada until 2030-02-01; to see it: shardproof run 'c/one[W=1]' --seed 0 --subject=mine\n"
        "WAIVED 1 error, 3 failed: late (l)\n"
        "  a/one[W=1], a/two[W=1], b/one[W=1] and 1 more\n"
        "  by ada until 2030-02-01; to see it: shardproof play late.json --subject=mine\n"
        "world 0: 1 rank of shm on sim, 5 cases: 5 waived\n"
        "5 cases in 1 world: 5 waived\n");
  TextStyle style;
  style.quiet = true;
  CHECK(summary(report, style) == "5 cases in 1 world: 5 waived\n");
  style.verbose = true;
  CHECK_THAT(summary(report, style),
             ContainsSubstring("WAIVED FAIL a/one[W=1]") && ContainsSubstring("  waived by ada until 2030-02-01"));
  // A superseded attempt does not count as a case.
  report.cases[3].superseded = true;
  CHECK_THAT(summary(report, {}),
             ContainsSubstring("WAIVED 3 failed: late (l)\n") && ContainsSubstring("\n4 cases in 1 world: 4 waived\n"));
}

TEST_CASE("the summary has the worlds in the order of their numbers") {
  Report report;
  for (const int number : {0, 3, 2}) {
    WorldResult& world = report.worlds.emplace_back();
    world.number = number;
    world.defects = {"defect " + std::to_string(number)};
  }
  const std::string text = summary(report, {});
  CHECK_THAT(text, ContainsSubstring("EVIDENCE world 2: defect 2\nEVIDENCE world 3: defect 3\n"));
  CHECK(text.find("\nworld 2: ") < text.find("\nworld 3: "));
}

TEST_CASE("a sentence that is evidence of many worlds is said once") {
  Report report;
  for (int number = 0; number < 4; ++number) {
    WorldResult& world = report.worlds.emplace_back();
    world.number = number;
    world.defects = {number == 0 ? "one of a kind" : "no rank was started: it was interrupted"};
    if (number > 1) world.defects.emplace_back("of two");
  }
  CHECK_THAT(summary(report, {}),
             ContainsSubstring("EVIDENCE world 0: one of a kind\n"
                               "EVIDENCE world 1 and 2 others: no rank was started: it was interrupted\n"
                               "EVIDENCE world 2 and 1 other: of two\n"));
}

TEST_CASE("a world names the GPUs that cannot reach each other's memory, and says nothing about unknown GPUs") {
  auto report = sample_report();
  const auto add = [&](const char* uuid, const char* stranger) {
    protocol::GpuInfo& gpu = report.head.gpus.emplace_back();
    gpu.uuid = uuid;
    protocol::GpuPeer& peer = gpu.peers.emplace_back();
    peer.uuid = stranger;
  };
  report.head.gpus.clear();
  add("GPU-1", "GPU-2");
  add("GPU-2", "GPU-1");
  report.worlds[0].environment = {{{"CUDA_VISIBLE_DEVICES", "GPU-2"}}, {{"CUDA_VISIBLE_DEVICES", "GPU-1"}}};
  report.worlds[1].environment = {{{"CUDA_VISIBLE_DEVICES", "GPU-1"}}, {{"CUDA_VISIBLE_DEVICES", "GPU-3"}}};
  const auto text = summary(report, {});
  CHECK_THAT(text, ContainsSubstring("1 disagreed; GPUs that cannot reach\n  each other's memory: of ranks 0 and 1\n"));
  CHECK_THAT(text, ContainsSubstring("1 crashed; times from cupti; unfit for timing"));
}

TEST_CASE("quiet: failures and the last line") {
  const auto report = sample_report();
  TextStyle style;
  style.quiet = true;
  const auto text = summary(report, style);
  CHECK_THAT(text, ContainsSubstring("FAIL mine/failed[W=2]") && ContainsSubstring("9 cases in 2 worlds") &&
                       !ContainsSubstring("SKIP") && !ContainsSubstring("world 0:"));
}

TEST_CASE("when all is well the summary is short") {
  const auto report = WorldOnPaper(1, {"a/one", "a/two"}).merged();
  CHECK(summary(report, {}) ==
        "world 0: 1 rank of shm on sim, 2 cases: 2 passed\n"
        "2 cases in 1 world: 2 passed\n");
  TextStyle quiet;
  quiet.quiet = true;
  CHECK(summary(report, quiet) == "2 cases in 1 world: 2 passed\n");
}

TEST_CASE("verbose: every case with its measurements, and the slowest") {
  auto report = WorldOnPaper(1, {"a/one", "a/two"}).merged();
  report.cases[1].duration_ns = 12'345'000'000;
  report.cases[0].duration_ns = 400'000;
  TextStyle style;
  style.verbose = true;
  CHECK(summary(report, style) ==
        "PASS     a/one[W=1]  0.4 ms\n"
        "         forward_ns = 85000000 ns\n"
        "PASS     a/two[W=1]  12.3 s\n"
        "         forward_ns = 85000000 ns\n"
        "\n"
        "slowest:\n"
        "     12.3 s  a/two[W=1]\n"
        "     0.4 ms  a/one[W=1]\n"
        "world 0: 1 rank of shm on sim, 2 cases: 2 passed\n"
        "2 cases in 1 world: 2 passed\n");
}

TEST_CASE("the last line has the time of the run, and the slowest cases are listed where asked for") {
  auto report = WorldOnPaper(1, {"a/one", "a/two", "a/three"}).merged();
  report.cases[1].duration_ns = 12'345'000'000;  // by id: one, three, two
  TextStyle style;
  style.run_time = std::chrono::milliseconds(13'051);
  style.slowest = 2;
  const std::string slowest =
      "slowest:\n"
      "     12.3 s  a/three[W=1]\n"
      "      12 ms  a/one[W=1]\n";
  CHECK(summary(report, style) ==
        slowest + "world 0: 1 rank of shm on sim, 3 cases: 3 passed\n3 cases in 1 world: 3 passed (13.05 s)\n");
  style.quiet = true;
  CHECK(summary(report, style) == slowest + "3 cases in 1 world: 3 passed (13.05 s)\n");
  style.slowest = 0;
  style.verbose = true;
  CHECK(summary(report, style) == "3 cases in 1 world: 3 passed (13.05 s)\n");
}

TEST_CASE("colour only where it is asked for") {
  const auto report = WorldOnPaper(1, {"a/one"}).merged();
  TextStyle style;
  style.color = true;
  CHECK(summary(report, style) ==
        "world 0: 1 rank of shm on sim, 1 case: 1 passed\n"
        "1 case in 1 world: \x1b[32m1 passed\x1b[0m\n");
}

TEST_CASE("missing evidence is said in full") {
  WorldOnPaper world(2, {"a/one"});
  world.clear(1);
  const auto report = world.merged();
  CHECK(summary(report, {}) ==
        "DISAGREE a/one[W=2]      12 ms\n"
        "  no evidence from rank 1\n"
        "  again: shardproof run 'a/one[W=2]' --seed 0\n"
        "\n"
        "EVIDENCE world 0: rank 1 has an empty stream\n"
        "world 0: 2 ranks of shm on sim, 1 case: 1 disagreed\n"
        "1 case in 1 world: 1 disagreed\n");
}

TEST_CASE("a failed case that no rank has ended has no duration") {
  CaseResult result;
  result.info.id = "a/one[W=2]";
  result.verdict = Verdict::hung;
  result.failures.resize(2);
  result.failures.front().rank = 1;
  CHECK(failure_line(result, {}, {}) == "HANG a/one[W=2]      rank 1, first of 2 failures\n");
  result.duration_ns = 3'000'000;
  CHECK(failure_line(result, {}, {}) == "HANG a/one[W=2]      rank 1, 3.0 ms, first of 2 failures\n");
}

TEST_CASE("many failures are cut unless all are asked for") {
  WorldOnPaper world(1, {"a/one"});
  world.begin(0);
  world.start(0, 0);
  for (int i = 0; i < 25; ++i) world.of(0).add(check_failed("i == " + std::to_string(i), "", i));
  world.end(0, 0, protocol::Outcome::failed);
  world.finish(0);
  const auto report = world.merged();
  const auto text = failure_text(report.cases[0], report, {});
  CHECK_THAT(text, ContainsSubstring("first of 25 failures\n") && ContainsSubstring("CHECK( i == 9 )") &&
                       !ContainsSubstring("CHECK( i == 10 )") && ContainsSubstring("and 15 more\n"));
  TextStyle style;
  style.verbose = true;
  CHECK_THAT(failure_text(report.cases[0], report, style),
             ContainsSubstring("CHECK( i == 24 )") && !ContainsSubstring("more\n"));
}

TEST_CASE("the command that shows a failure again keeps what decides on it") {
  auto report = WorldOnPaper(1, {"a/one"}).merged();
  report.cases[0].verdict = Verdict::failed;
  report.head.argv = {"shardproof",  "run",
                      "a",           "--subject=flat shard",
                      "--ranks",     "2",
                      "--fault",     "drop",
                      "--timeout=3", "--waivers",
                      "w.json",      "--rank-wrapper",
                      "valgrind -q", "--wrap-ranks=0",
                      "--device"};
  CHECK_THAT(failure_text(report.cases[0], report, {}),
             ContainsSubstring("again: shardproof run 'a/one[W=1]' --seed 0 '--subject=flat shard' --fault drop "
                               "--timeout=3 --waivers w.json --rank-wrapper 'valgrind -q' --wrap-ranks=0\n"));
}

TEST_CASE("words, durations and margins of a terminal") {
  CHECK(shell_word("plain-1/2") == "plain-1/2");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(duration_text(0) == "0.0 ms");
  CHECK(duration_text(9'940'000) == "9.9 ms");
  CHECK(duration_text(12'000'000) == "12 ms");
  CHECK(duration_text(10'000'000'000) == "10.0 s");
  CHECK(indented("a\n\nb\n", "  ") == "  a\n  \n  b\n");
  CHECK(indented("", "  ").empty());
  CHECK(printable("a\tb\n\x1b[0m\x7f\r") == "a\tb\n\\x1b[0m\\x7f\\x0d");
}

TEST_CASE("a world of GPUs is made again on the same, by its runs and by what it played") {
  WorldOnPaper world(1, {"a/one"});
  world.start(0, 0);
  Report report = world.merged();
  report.cases[0].verdict = Verdict::failed;
  report.head.argv = {"shardproof", "run", "--device",     "cuda",    "--backend=lib/my cuda.so",
                      "--gpus",     "0,2", "--share-gpus", "--times", "cupti",
                      "--jobs",     "4",   "--out",        "there",   "--",
                      "--fault",    "a"};
  TextStyle style;
  style.scenarios = [](const CaseResult&, int) { return std::vector<std::string>{"scenario.json"}; };
  const std::string text = failure_text(report.cases[0], report, style);
  CHECK_THAT(text, ContainsSubstring("again: shardproof run 'a/one[W=1]' --seed 0 --device cuda '--backend=lib/my "
                                     "cuda.so' --gpus 0,2 --share-gpus --times cupti\n"));
  CHECK_THAT(text, ContainsSubstring("shardproof play scenario.json --ranks 1 --device cuda '--backend=lib/my cuda.so' "
                                     "--gpus 0,2 --share-gpus --times cupti\n"));
}

TEST_CASE("a scenario is played again by its command, without the directory that it wrote into") {
  WorldOnPaper world(1, {"a/one"});
  world.start(0, 0);
  Report report = world.merged();
  report.cases[0].verdict = Verdict::failed;
  report.head.argv = {"shardproof",  "play",        "--out", "there",      "--json",
                      "--out=there", "--overwrite", "--",    "--overwrite"};
  CHECK_THAT(failure_text(report.cases[0], report, TextStyle()),
             ContainsSubstring("again: shardproof play --json -- --overwrite\n"));
}

}  // namespace
}  // namespace shardproof::reports
