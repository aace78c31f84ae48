// Which pairs of features were played together, and how a run says it.
#include <catch2/catch_test_macros.hpp>

#include "launcher/run/feature_pairs.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using reports::CaseResult;
using reports::Verdict;

namespace {

const std::vector<protocol::Combinable> kinds{
    {.engine = "one", .features = {"a", "b", "c", "d"}, .excluded = {{"a", "b"}}},
    {.engine = "other", .features = {"a", "b"}, .excluded = {}},
    {.engine = "unused", .features = {"a", "b"}, .excluded = {}}};

CaseResult played(std::string engine, std::vector<std::string> combined, Verdict verdict = Verdict::passed) {
  CaseResult result;
  result.info.engine = std::move(engine);
  result.combined = std::move(combined);
  result.verdict = verdict;
  return result;
}

}  // namespace

TEST_CASE("a pair counts when a case that passed has both features, whatever else the case has") {
  reports::Report report;
  report.cases = {played("one", {"a", "c", "d"}), played("one", {"b", "c"}, Verdict::failed),
                  played("other", {"a", "b"})};
  const std::vector<FeaturePairs> pairs = feature_pairs(report, kinds);
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].engine == "one");
  CHECK(pairs[0].possible == 5);
  CHECK(pairs[0].played() == 3);
  CHECK(pairs[0].missing == std::vector<std::pair<std::string, std::string>>{{"b", "c"}, {"b", "d"}});
  CHECK(pairs[1].missing.empty());
  CHECK(text_of(pairs) == "pairs of features played together: one 3 of 5, other 1 of 1");
}

TEST_CASE("a few missing pairs are named") {
  FeaturePairs pairs{.engine = "one", .possible = 40, .missing = {{"a", "b"}, {"a", "c"}}};
  CHECK(text_of(std::vector{pairs}) == "pairs of features played together: one 38 of 40 (not a with b, a with c)");
  pairs.missing.emplace_back("a", "d");
  CHECK(text_of(std::vector{pairs}) == "pairs of features played together: one 37 of 40");
}

TEST_CASE("a run whose cases combine nothing says nothing of pairs") {
  reports::Report report;
  report.cases = {played("one", {})};
  CHECK(text_of(feature_pairs(report, kinds)).empty());
}
