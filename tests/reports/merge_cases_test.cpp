// Tests the result of a case by its ranks' failures, measurements and skips.
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <string>
#include <vector>

#include "tests/reports/streams.hpp"

namespace shardproof::reports {
namespace {

using namespace testing;

TEST_CASE("a failed assertion outranks the outcome that the rank reports") {
  for (const auto outcome : {protocol::Outcome::passed, protocol::Outcome::released, protocol::Outcome::error}) {
    WorldOnPaper world(2, {"a/one"});
    world.begin(1);
    world.start(1, 0);
    world.of(1).add(check_failed("x", "y", 5));
    world.end(1, 0, outcome);
    world.finish(1);
    const auto report = world.merged();
    CHECK(report.cases.at(0).verdict == (outcome == protocol::Outcome::error ? Verdict::error : Verdict::failed));
    CHECK(report.cases.at(0).failures.size() == 1);
  }
}

TEST_CASE("the exception by which a rank is released is not its failure, any other is") {
  const protocol::event::AssertionFailed thrown{"", 0, "", "", "released: rank 0 failed", {}, {}, 3};
  WorldOnPaper world(2, {"a/one"});
  world.begin(0);
  world.start(0, 0);
  world.of(0).add(check_failed("x", "y", 9));
  world.end(0, 0, protocol::Outcome::failed);
  world.finish(0);
  world.begin(1);
  world.start(1, 0);
  world.of(1).add(thrown);
  SECTION("released") {
    world.end(1, 0, protocol::Outcome::released, "", 0);
    world.finish(1);
    const auto report = world.merged();
    CHECK(report.cases.at(0).failures.size() == 1);
    CHECK(report.cases.at(0).reasons.at(1) == "left because of rank 0");
    CHECK(exit_code(report) == 1);
  }
  SECTION("passed") {
    world.end(1, 0, protocol::Outcome::passed);
    world.finish(1);
    const auto report = world.merged();
    CHECK(report.cases.at(0).failures.size() == 2);
    CHECK(report.cases.at(0).ranks.at(1).outcome == protocol::Outcome::error);
  }
}

TEST_CASE("failures have the order of their causes") {
  WorldOnPaper world(3, {"a/one"});
  const std::int64_t times[] = {30, 10, 20};
  for (int rank = 0; rank < 3; ++rank) {
    world.begin(rank);
    world.start(rank, 0);
    world.of(rank)
        .add(check_failed("first of " + std::to_string(rank), "", times[rank]))
        .add(check_failed("second", "", 100));
    world.end(rank, 0, protocol::Outcome::failed);
    world.finish(rank);
  }
  const auto report = world.merged();
  const auto& failures = report.cases.at(0).failures;
  REQUIRE(failures.size() == 6);
  CHECK(failures[0].rank == 1);
  CHECK(failures[1].rank == 2);
  CHECK(failures[2].rank == 0);
  CHECK(failures[3].rank == 0);
  CHECK(failures[5].rank == 2);
}

TEST_CASE("a case keeps its first failures and counts the others") {
  WorldOnPaper world(2, {"a/one"});
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.start(rank, 0);
    for (int i = 0; i < 150; ++i) world.of(rank).add(check_failed(std::to_string(i), "", 2 * i + rank));
    world.end(rank, 0, protocol::Outcome::failed);
    world.finish(rank);
  }
  const auto report = world.merged();
  const auto& result = report.cases.at(0);
  CHECK(result.failures.size() + result.failures_left_out == 300);
  CHECK(result.failures.size() <= failures_kept);
  CHECK(result.failures.front().assertion.monotonic_ns == 0);
  CHECK(result.failures.front().rank == 0);
}

TEST_CASE("passed ranks must have measured the same") {
  WorldOnPaper world(2, {"a/one"});
  const auto measure = [&](const std::vector<protocol::event::Measured>& values) {
    world.begin(1);
    world.start(1, 0);
    for (const auto& value : values) world.of(1).add(value);
    world.end(1, 0, protocol::Outcome::passed);
    world.finish(1);
    return world.merged().cases.at(0);
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(measure({{"forward_ns", 85e6, "ns"}}).verdict == Verdict::passed);
  auto result = measure({{"forward_ns", 86e6, "ns"}});
  CHECK(result.verdict == Verdict::disagreed);
  CHECK(result.notes ==
        std::vector<std::string>{
            "measurement forward_ns: 85000000 ns on rank 0, 86000000 ns on rank 1; every rank must measure the same"});
  CHECK(measure({{"forward_ns", 85e6, "us"}}).verdict == Verdict::disagreed);
  CHECK(measure({{"forward_ns", nan, "ns"}}).verdict == Verdict::disagreed);
  result = measure({});
  CHECK(result.notes ==
        std::vector<std::string>{
            "measurement forward_ns: 85000000 ns on rank 0, none on rank 1; every rank must measure the same"});
  CHECK(result.verdict == Verdict::disagreed);
  result = measure({{"forward_ns", 85e6, "ns"}, {"more", 1, ""}});
  CHECK(result.notes ==
        std::vector<std::string>{"measurement more: none on rank 0, 1 on rank 1; every rank must measure the same"});
  result = measure({{"forward_ns", 85e6, "ns"}, {"forward_ns", 85e6, "ns"}});
  CHECK(result.verdict == Verdict::error);
  CHECK(result.reasons.at(1) == "measured \"forward_ns\" twice");

  world.plan.device = "cuda";
  CHECK(measure({{"forward_ns", 86e6, "ns"}}).verdict == Verdict::disagreed);
  CHECK(measure({{"forward_ns", 85e6, "bytes"}}).verdict == Verdict::disagreed);
}

TEST_CASE("two values that are not finite are equal measurements") {
  WorldOnPaper world(2, {"a/one"});
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.start(rank, 0);
    world.of(rank).add(protocol::event::Measured{"ratio", std::numeric_limits<double>::infinity(), ""});
    world.end(rank, 0, protocol::Outcome::passed);
    world.finish(rank);
  }
  CHECK(world.merged().cases.at(0).verdict == Verdict::passed);
}

TEST_CASE("a failed rank's measurements are no disagreement") {
  WorldOnPaper world(2, {"a/one"});
  world.begin(0);
  world.start(0, 0);
  world.of(0).add(protocol::event::Measured{"forward_ns", 1, "ns"}).add(check_failed("x", "y", 1));
  world.end(0, 0, protocol::Outcome::failed);
  world.finish(0);
  const auto report = world.merged();
  CHECK(report.cases.at(0).verdict == Verdict::failed);
  CHECK(report.cases.at(0).measurements.at("forward_ns").value == 85e6);
}

TEST_CASE("skips are joint and have their reason") {
  WorldOnPaper world(2, {"a/one"});
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.start(rank, 0);
    world.end(rank, 0, protocol::Outcome::skipped, "needs a timeline", 0, 0);
    world.finish(rank);
  }
  auto report = world.merged();
  CHECK(report.cases.at(0).verdict == Verdict::skipped);
  CHECK(report.cases.at(0).skipped_by == 0);
  CHECK(exit_code(report) == 0);
  report.head.demands.max_skips = 1;
  CHECK(exit_code(report) == 0);
  report.head.demands.max_skips = 0;
  CHECK(exit_code(report) == 6);
}

TEST_CASE("a skip that no rank asked for, or a rank that does not exist, has no asking rank") {
  for (const int culprit : {-1, 2, 1000}) {
    CAPTURE(culprit);
    WorldOnPaper world(2, {"a/one"});
    for (int rank = 0; rank < 2; ++rank) {
      world.begin(rank);
      world.start(rank, 0);
      world.end(rank, 0, protocol::Outcome::skipped, "the subject lacks timeline", culprit, 0);
      world.finish(rank);
    }
    CHECK(world.merged().cases.at(0).skipped_by == -1);
  }
}

}  // namespace
}  // namespace shardproof::reports
