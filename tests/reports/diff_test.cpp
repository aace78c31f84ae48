#include "reports/diff/diff.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/reports/sample_report.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;

CaseResult result(const std::string& id, Verdict verdict, const std::map<std::string, Measurement>& measurements = {}) {
  CaseResult r;
  r.info.id = id;
  r.verdict = verdict;
  r.measurements = measurements;
  return r;
}

Report report_of(const std::vector<CaseResult>& cases, const std::string& device = "sim") {
  Report report;
  report.worlds.push_back({1, "shm", device, {}, {}});
  report.cases = cases;
  return report;
}

TEST_CASE("every pair of verdicts has its state") {
  using V = Verdict;
  for (const auto before : all_verdicts) {
    for (const auto after : all_verdicts) {
      const auto d = diff(report_of({result("a", before)}), report_of({result("a", after)}));
      REQUIRE(d.changes.size() == 1);
      const auto change = d.changes[0].change;
      CAPTURE(to_string(before), to_string(after), to_string(change));
      const bool now_skipped = after == V::skipped && before != V::skipped;
      CHECK((change == Change::newly_skipped) == now_skipped);
      CHECK((change == Change::unchanged) == (before == after && !is_bad(after)));
      CHECK((change == Change::still_failing) == (before == after && is_bad(after)));
      CHECK((change == Change::new_failure) == (is_bad(after) && !is_bad(before)));
      CHECK((change == Change::fixed) == (is_bad(before) && after == V::passed));
      CHECK(d.regression() == (change == Change::new_failure || change == Change::newly_skipped));
    }
  }
  CHECK(diff(report_of({result("a", V::skipped)}), report_of({result("a", V::passed)})).changes[0].change ==
        Change::status_changed);
  CHECK(diff(report_of({result("a", V::failed)}), report_of({result("a", V::crashed)})).changes[0].change ==
        Change::status_changed);
}

TEST_CASE("a case that --fail-fast left out is newly not run, and not a failure") {
  using V = Verdict;
  auto left_out = result("a", V::not_run);
  left_out.left_out = true;
  const auto change = [](const std::vector<CaseResult>& before, const std::vector<CaseResult>& after) {
    const auto d = diff(report_of(before), report_of(after));
    REQUIRE(d.changes.size() == 1);
    CHECK_FALSE(d.changes[0].lost_ranks);
    return d.changes[0].change;
  };
  for (const V before : all_verdicts) CHECK(change({result("a", before)}, {left_out}) == Change::newly_not_run);
  CHECK(change({left_out}, {left_out}) == Change::unchanged);
  CHECK(change({left_out}, {result("a", V::passed)}) == Change::status_changed);
  CHECK(change({left_out}, {result("a", V::failed)}) == Change::new_failure);
  CHECK(change({left_out}, {}) == Change::removed_case);
  // A repetition that ran counts.
  CHECK(change({result("a", V::passed)}, {left_out, result("a", V::passed)}) == Change::unchanged);
  CHECK(change({result("a", V::passed)}, {result("a", V::passed), left_out}) == Change::unchanged);
  CHECK(diff(report_of({result("a", V::passed)}), report_of({left_out})).regression());
}

TEST_CASE("a case that is waived now and was not before got worse; waived before, it counts as known") {
  using V = Verdict;
  const auto waived = [](Verdict verdict) {
    auto r = result("a", verdict);
    r.waiver = 0;
    return r;
  };
  const auto change = [](const std::vector<CaseResult>& before, const std::vector<CaseResult>& after) {
    const auto d = diff(report_of(before), report_of(after));
    REQUIRE(d.changes.size() == 1);
    const auto state = d.changes[0].change;
    CHECK(d.regression() == (state == Change::newly_waived || state == Change::new_failure ||
                             state == Change::newly_skipped || state == Change::removed_case));
    return state;
  };
  for (const auto before : all_verdicts) {
    CAPTURE(to_string(before));
    CHECK(change({result("a", before)}, {waived(V::failed)}) == Change::newly_waived);
  }
  CHECK(change({}, {waived(V::failed)}) == Change::newly_waived);
  CHECK(change({waived(V::failed)}, {waived(V::failed)}) == Change::still_failing);
  CHECK(change({waived(V::failed)}, {waived(V::crashed)}) == Change::status_changed);
  CHECK(change({waived(V::failed)}, {result("a", V::passed)}) == Change::fixed);
  CHECK(change({waived(V::failed)}, {result("a", V::skipped)}) == Change::newly_skipped);
  CHECK(change({waived(V::failed)}, {result("a", V::failed)}) == Change::new_failure);
  CHECK(change({waived(V::failed)}, {}) == Change::removed_case);
  // Each bad run of a repeated case needs its waiver.
  CHECK(change({result("a", V::passed)}, {result("a", V::passed), waived(V::failed)}) == Change::newly_waived);
  CHECK(change({result("a", V::passed)}, {waived(V::failed), result("a", V::error)}) == Change::new_failure);

  const auto d = diff(report_of({result("a", V::failed)}), report_of({waived(V::failed)}));
  CHECK(to_text(d, false) == "newly_waived   a  failed -> failed (waived)\n1 case: 1 newly_waived; regression\n");
  const auto json = to_json(d);
  CHECK(json["changes"][0]["waived_before"] == false);
  CHECK(json["changes"][0]["waived_after"] == true);
}

TEST_CASE("another profile is a reason to differ") {
  auto before = report_of({}), after = report_of({});
  after.head.profile = "core";
  CHECK(diff(before, after).context == std::vector<std::string>{"profile: none -> core"});
  after.head.profile.clear();
  before.head.machine = {{"host", "here"}, {"nccl", "2.28.9"}};
  after.head.machine = {{"host", "there"}, {"nccl", "2.30.3"}, {"cuda_driver", "13.0"}};
  protocol::GpuInfo gpu;
  gpu.uuid = "GPU-1";
  gpu.name = "model A";
  before.head.gpus = {gpu};
  gpu.uuid = "GPU-2";
  after.head.gpus = {gpu};
  CHECK(diff(before, after).context == std::vector<std::string>{"cuda_driver: none -> 13.0", "nccl: 2.28.9 -> 2.30.3"});
  after.head.gpus[0].name = "model B";
  CHECK(diff(before, after).context.back() == "GPUs: model A -> model B");
}

TEST_CASE("cases that come and go") {
  const auto one = report_of({result("a", Verdict::passed), result("c", Verdict::passed)});
  const auto other = report_of({result("b", Verdict::passed), result("c", Verdict::passed),
                                result("d", Verdict::failed), result("e", Verdict::skipped)});
  const auto d = diff(one, other);
  REQUIRE(d.changes.size() == 5);
  CHECK(d.changes[0].id == "a");
  CHECK(d.changes[0].change == Change::removed_case);
  CHECK_FALSE(d.changes[0].after.has_value());
  CHECK(d.changes[1].change == Change::new_case);
  CHECK(d.changes[2].change == Change::unchanged);
  CHECK(d.changes[3].change == Change::new_failure);
  CHECK(d.changes[4].change == Change::new_case);
  CHECK(diff(one, report_of({result("c", Verdict::passed)})).regression());
  CHECK_FALSE(diff(report_of({}), one).regression());
  CHECK(diff(one, report_of({})).regression());
}

TEST_CASE("exact measurements are compared exactly") {
  const auto passed = [](double value, const std::string& unit = "ns") {
    return report_of({result("a", Verdict::passed, {{"forward_ns", {value, unit}}})});
  };
  CHECK_FALSE(diff(passed(85e6), passed(85e6)).regression());
  auto d = diff(passed(85e6), passed(85e6 + 1));
  CHECK(d.regression());
  CHECK(d.changes[0].change == Change::unchanged);
  CHECK(d.changes[0].measurements == std::vector<std::string>{"forward_ns: 85000000 ns -> 85000001 ns"});
  CHECK(diff(passed(0.1), passed(0.1 + 1e-18)).changes[0].measurements.empty());
  CHECK(diff(passed(0.1), passed(0.30000000000000004 - 0.2)).regression());
  CHECK(diff(passed(85e6), passed(85e6, "us")).regression());
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(diff(passed(nan), passed(nan)).regression());
  CHECK(diff(passed(nan), passed(1)).regression());

  const auto none = report_of({result("a", Verdict::passed)});
  CHECK(diff(passed(85e6), none).changes[0].measurements ==
        std::vector<std::string>{"forward_ns: 85000000 ns -> none"});
  CHECK_FALSE(diff(none, passed(85e6)).regression());
}

TEST_CASE("measurements of cases that did not pass twice, and durations on a real device, are not compared") {
  const std::map<std::string, Measurement> slow{{"forward_us", {2, "us"}}, {"bytes", {8, "bytes"}}},
      fast{{"forward_us", {1, "us"}}, {"bytes", {8, "bytes"}}};
  CHECK(diff(report_of({result("a", Verdict::failed, slow)}), report_of({result("a", Verdict::passed, fast)}))
            .changes[0]
            .measurements.empty());
  CHECK(diff(report_of({result("a", Verdict::passed, slow)}, "cuda"),
             report_of({result("a", Verdict::passed, fast)}, "cuda"))
            .changes[0]
            .measurements.empty());
  auto more = fast;
  more["bytes"].value = 16;
  CHECK(diff(report_of({result("a", Verdict::passed, slow)}, "cuda"),
             report_of({result("a", Verdict::passed, more)}, "cuda"))
            .regression());
}

TEST_CASE(
    "reports of two devices, or of one whose times say nothing, tell so, and their times by a clock are not compared") {
  const std::map<std::string, Measurement> all{
      {"forward_ns", {2, "ns"}}, {"forward_us", {2, "us"}}, {"bytes", {8, "bytes"}}};
  const auto virtual_time = report_of({result("a", Verdict::passed, all)});
  auto real_time = report_of({result("a", Verdict::passed, all)}, "cuda");
  real_time.worlds[0].fabric = "nccl";
  for (const auto& d : {diff(virtual_time, real_time), diff(real_time, virtual_time)}) {
    CHECK_FALSE(d.regression());
    CHECK(d.context.size() == 2);
  }
  CHECK(diff(virtual_time, real_time).context ==
        std::vector<std::string>{"fabric: shm -> nccl", "device: sim -> cuda; times by a clock are not compared"});
  // A measurement that one device cannot make is not gone. Virtual time is the same on both devices.
  auto fewer = all;
  fewer.erase("bytes");
  CHECK_FALSE(diff(virtual_time, report_of({result("a", Verdict::passed, fewer)}, "cuda")).regression());
  auto slower = all;
  slower["forward_ns"].value = slower["forward_us"].value = 3;
  CHECK(diff(virtual_time, report_of({result("a", Verdict::passed, slower)}, "cuda")).changes[0].measurements ==
        std::vector<std::string>{"forward_ns: 2 ns -> 3 ns"});

  auto shared = real_time;
  shared.worlds[0].unfit_for_timing = "2 ranks share 1 GPU";
  CHECK(diff(real_time, shared).context ==
        std::vector<std::string>{"unfit for timing: none -> 2 ranks share 1 GPU; times by a clock are not compared"});
  CHECK(diff(shared, shared).context.empty());
  Report recorded = real_time;
  recorded.worlds[0].times = protocol::cupti_times;
  CHECK(diff(real_time, recorded).context ==
        std::vector<std::string>{"times from: events -> cupti; times by a clock are not compared"});
  CHECK(diff(recorded, recorded).context.empty());
}

TEST_CASE("a repeated case counts with its strongest verdict and all its values") {
  const auto once = report_of({result("a", Verdict::passed, {{"m", {1, ""}}})});
  const auto flaky =
      report_of({result("a", Verdict::passed), result("a", Verdict::failed), result("a", Verdict::passed)});
  CHECK(diff(once, flaky).changes[0].change == Change::new_failure);
  CHECK(diff(flaky, once).changes[0].change == Change::fixed);
  const auto wavering =
      report_of({result("a", Verdict::passed, {{"m", {1, ""}}}), result("a", Verdict::passed, {{"m", {2, ""}}})});
  CHECK(diff(once, wavering).changes[0].measurements == std::vector<std::string>{"m: 1 -> 1, 2"});
}

TEST_CASE("a difference as text") {
  auto before = report_of({result("a/fixed", Verdict::failed), result("a/gone", Verdict::passed),
                           result("a/new_failure", Verdict::passed), result("a/same", Verdict::passed),
                           result("a/slow", Verdict::passed, {{"forward_ns", {85e6, "ns"}}})});
  auto after = report_of({result("a/fixed", Verdict::passed), result("a/new", Verdict::passed),
                          result("a/new_failure", Verdict::crashed), result("a/same", Verdict::passed),
                          result("a/slow", Verdict::passed, {{"forward_ns", {105e6, "ns"}}})});
  before.head.seed = 7;
  after.head.seed = 8;
  CHECK(to_text(diff(before, after), false) ==
        "context: seed: 7 -> 8\n"
        "fixed          a/fixed  failed -> passed\n"
        "removed_case   a/gone  passed -> none\n"
        "new_case       a/new  none -> passed\n"
        "new_failure    a/new_failure  passed -> crashed\n"
        "measured       a/slow\n"
        "               forward_ns: 85000000 ns -> 105000000 ns\n"
        "6 cases: 1 new_failure, 1 fixed, 1 new_case, 1 removed_case, 2 unchanged; regression\n");
  CHECK(to_text(diff(before, before), false) ==
        "still_failing  a/fixed\n5 cases: 1 still_failing, 4 unchanged; no regression\n");
  CHECK(to_text(diff(report_of({}), report_of({})), false) == "0 cases: none in either report; no regression\n");
  CHECK_THAT(to_text(diff(before, after), true), ContainsSubstring("\x1b[31;1mnew_failure   \x1b[0m a/new_failure"));
}

TEST_CASE("a difference as JSON") {
  const auto json = to_json(diff(report_of({result("a", Verdict::passed)}),
                                 report_of({result("a", Verdict::failed), result("b", Verdict::passed)})));
  CHECK(json.dump() ==
        R"({"regression":true,"counts":{"new_failure":1,"fixed":0,"still_failing":0,"status_changed":0,"new_case":1,)"
        R"("removed_case":0,"newly_skipped":0,"newly_not_run":0,)"
        R"("newly_waived":0,"unchanged":0,"measurements_changed":0},)"
        R"("context":[],"changes":[{"id":"a","change":"new_failure","before":"passed","after":"failed",)"
        R"("waived_before":false,"waived_after":false,"measurements":[]},{"id":"b","change":"new_case",)"
        R"("before":null,"after":"passed","waived_before":false,"waived_after":false,"measurements":[]}],)"
        R"("clauses":[],"not_compared":[]})");
}

TEST_CASE("a report differs from itself in nothing") {
  const auto report = sample_report();
  const auto d = diff(report, report);
  CHECK_FALSE(d.regression());
  CHECK(d.context.empty());
  for (const auto& change : d.changes)
    CHECK((change.change == Change::unchanged || change.change == Change::still_failing));
}

}  // namespace
}  // namespace shardproof::reports
