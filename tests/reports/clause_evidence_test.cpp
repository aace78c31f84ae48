#include "reports/statement/clause_evidence.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/reports/clause_cases.hpp"

namespace shardproof::reports {
namespace {

using namespace testing;

ClauseEvidence evidence_of(const std::vector<CaseResult>& cases, const std::string& clause) {
  return clause_evidence(report_of(cases))["fully_shard"][clause];
}

ClauseStatus status_in(const std::vector<CaseResult>& cases, const std::string& clause) {
  return status_of(evidence_of(cases, clause));
}

TEST_CASE("the strongest fact about a clause decides its status") {
  struct Row {
    ClauseEvidence evidence;
    ClauseStatus status;
  };
  for (const auto& [evidence, status] : {
           Row{{.passed = 9, .failed = 1, .waived = 1, .not_run = 1}, ClauseStatus::not_met},
           Row{{.passed = 9, .waived = 1, .not_run = 1}, ClauseStatus::not_tested},
           Row{{.passed = 9, .waived = 1, .skipped = 1}, ClauseStatus::waived},
           Row{{.passed = 1, .unclaimed = 9, .skipped = 9, .failed_elsewhere = 9}, ClauseStatus::met},
           Row{{.unclaimed = 1}, ClauseStatus::not_claimed},
           Row{{.unclaimed = 9, .skipped = 1}, ClauseStatus::not_tested},
           Row{{.unclaimed = 9, .failed_elsewhere = 1}, ClauseStatus::not_tested},
           Row{{.skipped = 1}, ClauseStatus::not_tested},
           Row{{}, ClauseStatus::not_tested},
       }) {
    CAPTURE(to_string(status));
    CHECK(status_of(evidence) == status);
  }
}

TEST_CASE("each verdict of a case counts for each clause that the case cites") {
  const std::vector<CaseResult> cases{
      citing("a", Verdict::passed, {"OVL-1", "OVL-2"}), citing("b", Verdict::failed, {"OVL-1"}),
      waived(citing("c", Verdict::crashed, {"OVL-1"})), unclaimed(citing("d", Verdict::skipped, {"OVL-1"})),
      citing("e", Verdict::skipped, {"OVL-1"}),         citing("f", Verdict::not_run, {"OVL-1"})};
  CHECK(evidence_of(cases, "OVL-1") ==
        ClauseEvidence{
            .passed = 1, .failed = 1, .waived = 1, .unclaimed = 1, .skipped = 1, .not_run = 1, .failed_elsewhere = 0});
  CHECK(evidence_of(cases, "OVL-2") == ClauseEvidence{.passed = 1});
  CHECK(status_in(cases, "OVL-1") == ClauseStatus::not_met);
  CHECK(status_in(cases, "OVL-2") == ClauseStatus::met);
}

TEST_CASE("a failed case counts against the clauses that its failures name, and shows nothing about its others") {
  const std::vector<CaseResult> cases{breaking(citing("a", Verdict::failed, {"OVL-1", "OVL-2"}), {"OVL-2"})};
  CHECK(evidence_of(cases, "OVL-1") == ClauseEvidence{.failed_elsewhere = 1});
  CHECK(evidence_of(cases, "OVL-2") == ClauseEvidence{.failed = 1});
  CHECK(status_in(cases, "OVL-1") == ClauseStatus::not_tested);

  // A soundness check reports under its own clause, whatever case ran it.
  const std::vector<CaseResult> unsound{breaking(citing("a", Verdict::failed, {"OVL-1"}), {"SND-1"})};
  CHECK(evidence_of(unsound, "OVL-1") == ClauseEvidence{.failed_elsewhere = 1});
  CHECK(status_in(unsound, "SND-1") == ClauseStatus::not_met);
}

TEST_CASE("a failed case whose failures name no clause counts against all clauses that it cites") {
  for (const auto& result : {citing("a", Verdict::failed, {"OVL-1", "OVL-2"}),
                             breaking(citing("a", Verdict::error, {"OVL-1", "OVL-2"}), {})}) {
    CHECK(status_in({result}, "OVL-1") == ClauseStatus::not_met);
    CHECK(status_in({result}, "OVL-2") == ClauseStatus::not_met);
  }
}

TEST_CASE("a case that did not end by itself, or that left failures out, counts against all its clauses") {
  for (const Verdict verdict : {Verdict::disagreed, Verdict::hung, Verdict::crashed}) {
    const CaseResult result = breaking(citing("a", verdict, {"OVL-1"}), {"OVL-2"});
    CHECK(status_in({result}, "OVL-1") == ClauseStatus::not_met);
    CHECK(status_in({result}, "OVL-2") == ClauseStatus::not_met);
  }
  CaseResult many = breaking(citing("a", Verdict::failed, {"OVL-1"}), {"OVL-2"});
  many.failures_left_out = 1;
  CHECK(status_in({many}, "OVL-1") == ClauseStatus::not_met);
}

TEST_CASE("a repeated case counts once, and a case that was tried again with its last attempt") {
  CHECK(evidence_of({citing("a", Verdict::passed, {"OVL-1"}), citing("a", Verdict::failed, {"OVL-1"}),
                     citing("a", Verdict::passed, {"OVL-1"})},
                    "OVL-1") == ClauseEvidence{.failed = 1});
  CaseResult first = citing("a", Verdict::failed, {"OVL-1"});
  first.superseded = true;
  CHECK(evidence_of({first, citing("a", Verdict::passed, {"OVL-1"})}, "OVL-1") == ClauseEvidence{.passed = 1});
}

TEST_CASE("kinds of engines are apart, and clauses are in the order of their numbers") {
  CaseResult other = citing("a/b[W=2,engine=flat_shard]", Verdict::failed, {"OVL-10", "OVL-9", "EXT-1"});
  other.info.engine = "flat_shard";
  const auto evidence = clause_evidence(report_of({other, citing("a/b[W=2]", Verdict::passed, {"OVL-9"})}));
  REQUIRE(evidence.size() == 2);
  CHECK(status_of(evidence.at("fully_shard").at("OVL-9")) == ClauseStatus::met);
  CHECK(status_of(evidence.at("flat_shard").at("OVL-9")) == ClauseStatus::not_met);
  std::vector<std::string> clauses;
  for (const auto& [clause, counts] : evidence.at("flat_shard")) clauses.push_back(clause);
  CHECK(clauses == std::vector<std::string>{"EXT-1", "OVL-9", "OVL-10"});
}

TEST_CASE("a condition leaves cases out") {
  const auto report =
      report_of({citing("a", Verdict::passed, {"OVL-1"}), citing("b", Verdict::failed, {"OVL-1", "OVL-2"})});
  const auto evidence = clause_evidence(report, [](const CaseResult& result) { return result.info.id == "a"; });
  CHECK(evidence.at("fully_shard").size() == 1);
  CHECK(evidence.at("fully_shard").at("OVL-1") == ClauseEvidence{.passed = 1});
}

}  // namespace
}  // namespace shardproof::reports
