// The difference of two reports by clause, what two runs cannot compare, and gates.
#include "reports/diff/gate.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/reports/clause_cases.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;
using Found = std::map<std::string, std::vector<std::string>>;

/// The changes that the gate finds, by class.
Found found(const Gate& gate, const Report& before, const Report& after) {
  Found all;
  const GateResult result = apply(gate, diff(before, after), before, after);
  for (const auto& [change, names] : result.found) all[std::string(change)] = names;
  CHECK(result.is_passed() == all.empty());
  return all;
}

/// A case in a world of this size, which is the world of this index.
CaseResult in_world(CaseResult result, int world) {
  result.world = world;
  return result;
}

/// A run of one case on 2 ranks and one on 4.
Report run_on_2_and_4(Verdict on_4 = Verdict::passed) {
  Report report = report_of({in_world(citing("s/a[W=2]", Verdict::passed, {"OVL-1"}), 0),
                             in_world(citing("s/a[W=4]", on_4, {"OVL-1", "OVL-4"}), 1)});
  report.worlds = {{.size = 2, .fabric = "shm", .device = "sim"}, {.size = 4, .fabric = "shm", .device = "sim"}};
  return report;
}

Report run_on_2() {
  Report report = run_on_2_and_4();
  report.worlds.pop_back();
  report.cases.pop_back();
  return report;
}

const Gate any_regression{.fail_on = {"regression"}, .allow = {}};

Gate forbidding(std::vector<std::string> classes, std::vector<std::string> allow = {}) {
  return {.fail_on = std::move(classes), .allow = std::move(allow)};
}

TEST_CASE("a clause becomes weaker or stronger with its status") {
  using V = Verdict;
  const auto waived_case = waived(citing("s/a", V::failed, {"OVL-5"}));
  const auto unclaimed_case = unclaimed(citing("s/a", V::skipped, {"OVL-5"}));
  // From strong to weak. The two statuses of one row are equally strong.
  const std::vector<std::vector<CaseResult>> rows{{citing("s/a", V::passed, {"OVL-5"})},
                                                  {waived_case},
                                                  {unclaimed_case, citing("s/a", V::skipped, {"OVL-5"})},
                                                  {citing("s/a", V::failed, {"OVL-5"})}};
  for (std::size_t was = 0; was < rows.size(); ++was) {
    for (std::size_t is = 0; is < rows.size(); ++is) {
      for (const CaseResult& before : rows[was]) {
        for (const CaseResult& after : rows[is]) {
          const Diff d = diff(report_of({before}), report_of({after}));
          REQUIRE(d.clauses.size() == 1);
          CAPTURE(was, is);
          CHECK(d.clauses[0].is_weaker() == (is > was));
          CHECK(d.clauses[0].is_stronger() == (is < was));
        }
      }
    }
  }
  // A clause without a case is not tested.
  const Diff gone = diff(report_of({citing("s/a", V::passed, {"OVL-5"})}), report_of({citing("s/a", V::passed, {})}));
  CHECK(gone.clauses.at(0).after == ClauseStatus::not_tested);
  CHECK(gone.clauses.at(0).is_weaker());
}

TEST_CASE("a difference shows clauses by kind of engine, as text and as JSON") {
  auto flat = citing("s/a[W=1,engine=flat_shard]", Verdict::passed, {"OVL-5"});
  flat.info.engine = "flat_shard";
  auto plain = citing("s/plain", Verdict::failed, {"OVL-1"});
  plain.info.engine.clear();
  auto fixed = plain;
  fixed.verdict = Verdict::passed;
  const Report before = report_of({citing("s/a[W=1]", Verdict::passed, {"OVL-5"}), flat, plain});
  const Report after = report_of({citing("s/a[W=1]", Verdict::failed, {"OVL-5"}), flat, fixed});
  const Diff d = diff(before, after);
  CHECK(to_text(d, false) ==
        "new_failure    s/a[W=1]  passed -> failed\n"
        "fixed          s/plain  failed -> passed\n"
        "clause_stronger OVL-1  not met -> met\n"
        "clause_weaker  OVL-5 (fully_shard)  met -> not met\n"
        "3 cases: 1 new_failure, 1 fixed, 1 unchanged; regression\n");
  CHECK(to_json(d)["clauses"].dump() ==
        R"([{"engine":null,"clause":"OVL-1","change":"clause_stronger","before":"not_met","after":"met"},)"
        R"({"engine":"flat_shard","clause":"OVL-5","change":"unchanged","before":"met","after":"met"},)"
        R"({"engine":"fully_shard","clause":"OVL-5","change":"clause_weaker","before":"met","after":"not_met"}])");
  CHECK(found(forbidding({"clause_weaker"}), before, after) == Found{{"clause_weaker", {"OVL-5 (fully_shard)"}}});
  CHECK(found(forbidding({"clause_weaker"}), after, before) == Found{{"clause_weaker", {"OVL-1"}}});
}

TEST_CASE("a gate finds the forbidden classes only") {
  using V = Verdict;
  const Report before =
      report_of({citing("s/fails", V::passed, {}), citing("s/fixed", V::failed, {}), citing("s/gone", V::passed, {}),
                 citing("s/skipped", V::passed, {}), citing("s/waived", V::passed, {})});
  const Report after = report_of({citing("s/fails", V::failed, {}), citing("s/fixed", V::passed, {}),
                                  citing("s/skipped", V::skipped, {}), waived(citing("s/waived", V::failed, {}))});
  CHECK(found(any_regression, before, after) == Found{{"new_failure", {"s/fails"}},
                                                      {"removed_case", {"s/gone"}},
                                                      {"newly_skipped", {"s/skipped"}},
                                                      {"newly_waived", {"s/waived"}}});
  CHECK(found(forbidding({"fixed"}), before, after) == Found{{"fixed", {"s/fixed"}}});
  CHECK(found(forbidding({"clause_weaker", "new_case"}), before, after).empty());

  // Removed, skipped and waived cases can be allowed by name. A failure cannot.
  CHECK(found(forbidding({"regression"}, {"s/skip*", "s/gone", "s/waived"}), before, after) ==
        Found{{"new_failure", {"s/fails"}}});
  CHECK(found(forbidding({"regression"}, {"s"}), before, after) == Found{{"new_failure", {"s/fails"}}});
  CHECK(found(forbidding({"removed_case"}, {"s/go"}), before, after) == Found{{"removed_case", {"s/gone"}}});

  const Diff d = diff(before, after);
  const GateResult result = apply(forbidding({"removed_case", "new_failure"}), d, before, after);
  CHECK(to_text(result, d, false) ==
        "forbidden: 1 new_failure: s/fails\nforbidden: 1 removed_case: s/gone\ngate: failed\n");
  CHECK(to_json(result).dump() == R"({"passed":false,"classes":["new_failure","removed_case"],)"
                                  R"("found":{"new_failure":["s/fails"],"removed_case":["s/gone"]},"unmatched":[]})");
  CHECK(to_text(apply(forbidding({"new_case", "fixed"}), diff(before, before), before, before), d, false) ==
        "gate: passed, none of fixed, new_case\n");
}

TEST_CASE("a pattern that allows nothing is named") {
  const Report before = report_of({citing("s/gone", Verdict::passed, {"OVL-5"})});
  const Report after = report_of({citing("s/new", Verdict::passed, {"OVL-5"})});
  const Diff d = diff(before, after);
  const Gate gate = forbidding({"fixed"}, {"s/gone", "s/ne*", "OVL-5", "* (fully_shard)", "s/gon", "OVL-55"});
  const GateResult result = apply(gate, d, before, after);
  CHECK(result.unmatched == std::vector<std::string>{"s/gon", "OVL-55"});
  CHECK(to_json(result).at("unmatched").dump() == R"(["s/gon","OVL-55"])");
  CHECK(to_text(result, d, false) ==
        "warning: --allow 's/gon' matches no case and no clause: correct it or remove it\n"
        "warning: --allow 'OVL-55' matches no case and no clause: correct it or remove it\ngate: passed, none of "
        "fixed\n");
}

TEST_CASE("each class of a gate is a state of a case or named by it, and regressions are what diff calls so") {
  for (const std::string_view change : gate_classes()) {
    const bool is_state = std::ranges::any_of(all_changes, [&](Change state) { return to_string(state) == change; });
    CHECK((is_state || change == "clause_weaker" || change == "lost_ranks" || change == "measurements_changed"));
  }
  CHECK(gate_classes().size() == all_changes.size() - 1 + 3);
}

TEST_CASE("a weaker clause can be allowed by name, unless it is not met") {
  const Report met = report_of({citing("s/a", Verdict::passed, {"OVL-5"})});
  const Report skipped = report_of({citing("s/a", Verdict::skipped, {"OVL-5"})});
  const Report broken = report_of({citing("s/a", Verdict::failed, {"OVL-5"})});
  CHECK(found(forbidding({"clause_weaker"}), met, skipped) == Found{{"clause_weaker", {"OVL-5 (fully_shard)"}}});
  CHECK(found(forbidding({"clause_weaker"}, {"OVL-*"}), met, skipped).empty());
  CHECK(found(forbidding({"clause_weaker"}, {"* (fully_shard)"}), met, skipped).empty());
  CHECK(found(forbidding({"clause_weaker"}, {"* (flat_shard)"}), met, skipped).size() == 1);
  CHECK(found(forbidding({"clause_weaker"}, {"OVL-*"}), met, broken).size() == 1);
}

TEST_CASE("ranks on which no case runs any more are lost") {
  const Report whole = run_on_2_and_4(), small = run_on_2();
  CHECK(found(any_regression, whole, small) == Found{{"lost_ranks", {"s/a[W=4]"}}});
  CHECK(found(forbidding({"removed_case"}), whole, small) == Found{{"removed_case", {"s/a[W=4]"}}});
  CHECK(found(forbidding({"lost_ranks", "clause_weaker"}), whole, small) ==
        Found{{"lost_ranks", {"s/a[W=4]"}}, {"clause_weaker", {"OVL-4 (fully_shard)"}}});
  CHECK(found(any_regression, small, whole).empty());
  CHECK(found(forbidding({"regression"}, {"s/a[W=4]"}), whole, small).empty());
  // A machine with fewer GPUs skips the cases.
  CHECK(found(any_regression, whole, run_on_2_and_4(Verdict::skipped)) == Found{{"lost_ranks", {"s/a[W=4]"}}});
  // Another case still runs on 4 ranks.
  Report other = run_on_2_and_4();
  other.cases[1].info.id = "s/b[W=4]";
  CHECK(found(any_regression, whole, other) == Found{{"removed_case", {"s/a[W=4]"}}});
  // The same id in a smaller world.
  Report smaller = run_on_2_and_4();
  smaller.worlds[1].size = 2;
  CHECK(found(any_regression, whole, smaller) == Found{{"lost_ranks", {"s/a[W=4]"}}});
}

TEST_CASE("a run with other --ranks says what cannot be compared") {
  Report whole = run_on_2_and_4(), small = run_on_2();
  whole.head.argv = {"shardproof", "run"};
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--ranks", "1,2"}, {"--ranks=2,1"}, {"--ranks", "1", "--ranks", "2"}}) {
    small.head.argv = {"shardproof", "run"};
    small.head.argv.insert(small.head.argv.end(), options.begin(), options.end());
    const Diff d = diff(whole, small);
    CHECK(d.not_compared ==
          std::vector<std::string>{"1 case, because only one run was to run them (--ranks: all -> 1,2): s/a[W=4]",
                                   "1 clause that only these cases check: OVL-4 (fully_shard)"});
    CHECK(found(forbidding({"regression", "clause_weaker"}), whole, small).empty());
    CHECK(found(forbidding({"new_failure", "clause_weaker"}), small, run_on_2_and_4(Verdict::failed)).empty());
    CHECK(d.regression());  // as without a gate
    CHECK_THAT(to_text(apply(any_regression, d, whole, small), d, false),
               ContainsSubstring("not compared: 1 case, because") && ContainsSubstring("gate: passed"));
  }
  // A case of a size that both runs have is compared.
  Report fewer = small;
  fewer.cases.clear();
  CHECK(found(any_regression, whole, fewer).size() == 1);
  // After `--`, a word is a filter.
  small.head.argv = {"shardproof", "run", "--", "--ranks", "1,2"};
  CHECK(found(any_regression, whole, small) == Found{{"lost_ranks", {"s/a[W=4]"}}});
}

TEST_CASE("runs of other profiles compare the cases that both have") {
  Report before = report_of({citing("s/a", Verdict::passed, {"OVL-1"}), citing("s/b", Verdict::passed, {"OVL-2"})});
  Report after = report_of({citing("s/a", Verdict::failed, {"OVL-1"})});
  after.head.profile = "core";
  CHECK(found(forbidding({"regression", "clause_weaker"}), before, after) ==
        Found{{"new_failure", {"s/a"}}, {"clause_weaker", {"OVL-1 (fully_shard)"}}});
  CHECK_THAT(diff(before, after).not_compared.at(0), ContainsSubstring("(profile: none -> core): s/b"));
  before.head.profile = "core";
  CHECK(found(forbidding({"removed_case"}), before, after).size() == 1);
}

TEST_CASE("runs of other seeds do not compare measurements") {
  Report before = report_of({citing("s/a", Verdict::passed, {})}), after = before;
  before.cases[0].measurements["forward_ns"] = {.value = 1, .unit = "ns"};
  after.cases[0].measurements["forward_ns"] = {.value = 2, .unit = "ns"};
  CHECK(found(any_regression, before, after) == Found{{"measurements_changed", {"s/a"}}});
  CHECK(diff(before, after).not_compared.empty());
  after.head.seed = 8;
  CHECK(found(any_regression, before, after).empty());
  CHECK(diff(before, after).not_compared == std::vector<std::string>{"the measurements of 1 case (seed: 0 -> 8)"});
  after.cases[0].verdict = Verdict::failed;
  CHECK(found(any_regression, before, after) == Found{{"new_failure", {"s/a"}}});
}

}  // namespace
}  // namespace shardproof::reports
