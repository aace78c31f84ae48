// When does a case count as having noticed a fault?
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "launcher/commands/kill_matrix.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using Catch::Matchers::ContainsSubstring;
using reports::Verdict;

namespace {

protocol::CaseInfo make_case(const std::string& id, std::vector<std::string> clauses) {
  protocol::CaseInfo info;
  info.id = id;
  info.clauses = std::move(clauses);
  return info;
}

const std::vector<protocol::CaseInfo> cases{make_case("s/one", {"A-1"}), make_case("s/two", {"A-1", "B-1"}),
                                            make_case("s/none", {}), make_case("s/other", {"C-1"})};

// A case that failed has one failure, which names all clauses of the case.
reports::Report make_report(const std::vector<std::pair<std::string, Verdict>>& verdicts) {
  reports::Report report;
  for (const auto& [id, verdict] : verdicts) {
    reports::CaseResult result;
    result.info.id = id;
    result.verdict = verdict;
    if (verdict == Verdict::failed) {
      reports::Failure& failure = result.failures.emplace_back();
      failure.assertion.clauses = std::ranges::find(cases, id, &protocol::CaseInfo::id)->clauses;
    }
    report.cases.push_back(std::move(result));
  }
  return report;
}

const protocol::FaultInfo breaks_a{.name = "late", .clauses = {"A-1"}, .what = "comes late"};
const protocol::FaultInfo breaks_b{.name = "never", .clauses = {"B-1"}, .what = "never comes"};
const protocol::FaultInfo breaks_z{.name = "lost", .clauses = {"Z-9"}, .what = "is lost"};

Cell cell_of(Verdict clean, Verdict with) {
  return kill_matrix({breaks_a}, {cases[0]}, make_report({{"s/one", clean}}), {make_report({{"s/one", with}})})
      .rows[0]
      .cells[0];
}

}  // namespace

TEST_CASE("a case kills when it passes without the fault and one of its assertions fails with it") {
  CHECK(cell_of(Verdict::passed, Verdict::failed) == Cell::killed);
  for (const Verdict bad : {Verdict::error, Verdict::disagreed, Verdict::hung, Verdict::crashed}) {
    CHECK(cell_of(Verdict::passed, bad) == Cell::derailed);
  }
  for (const Verdict bad : {Verdict::error, Verdict::failed, Verdict::disagreed, Verdict::hung, Verdict::crashed}) {
    CHECK(cell_of(bad, bad) == Cell::unknown);
  }
  CHECK(cell_of(Verdict::passed, Verdict::passed) == Cell::survived);
  CHECK(cell_of(Verdict::passed, Verdict::skipped) == Cell::unknown);
  CHECK(cell_of(Verdict::passed, Verdict::not_run) == Cell::unknown);
  CHECK(cell_of(Verdict::skipped, Verdict::failed) == Cell::unknown);
  CHECK(cell_of(Verdict::skipped, Verdict::skipped) == Cell::skipped);
}

TEST_CASE("only cases with a clause that the fault breaks can kill it") {
  CHECK(related_cases(breaks_a, cases).size() == 2);
  CHECK(related_cases(breaks_b, cases).size() == 1);
  CHECK(related_cases(breaks_z, cases).empty());

  const auto clean =
      make_report({{"s/one", Verdict::passed}, {"s/two", Verdict::passed}, {"s/other", Verdict::passed}});
  const auto all_fail =
      make_report({{"s/one", Verdict::failed}, {"s/two", Verdict::failed}, {"s/other", Verdict::failed}});
  const KillMatrix matrix = kill_matrix({breaks_a, breaks_b, breaks_z}, cases, clean, {all_fail, all_fail, all_fail});
  CHECK(matrix.cases == std::vector<std::string>{"s/one", "s/two"});
  CHECK(matrix.rows[0].by == std::vector<std::string>{"s/one", "s/two"});
  CHECK(matrix.rows[1].by == std::vector<std::string>{"s/two"});
  CHECK(matrix.rows[1].cells == std::vector<Cell>{Cell::unrelated, Cell::killed});
  CHECK_FALSE(matrix.rows[2].killed());
  CHECK_FALSE(matrix.all_killed());

  CHECK(to_json(matrix).dump() ==
        R"([{"name":"late","clauses":["A-1"],"what":"comes late","judged":true,"killed":true,"by":["s/one","s/two"],)"
        R"("named":["A-1"]},)"
        R"({"name":"never","clauses":["B-1"],"what":"never comes","judged":true,"killed":true,"by":["s/two"],)"
        R"("named":["B-1"]},)"
        R"({"name":"lost","clauses":["Z-9"],"what":"is lost","judged":true,"killed":false,"by":[],"named":[]}])");
  const std::string text = to_text(matrix, false);
  CHECK_THAT(text, ContainsSubstring("\n       A  B  C\n") && ContainsSubstring("\ns/one  x\n") &&
                       ContainsSubstring("\ns/two  x  x\n"));
  CHECK_THAT(text, ContainsSubstring("C  ALIVE   lost (Z-9): is lost [no selected case has one of its clauses]"));
  CHECK_THAT(text, ContainsSubstring("2 of 3 faults killed"));
}

TEST_CASE("a case that fails under other clauses than the fault breaks has not noticed it") {
  const auto clean = make_report({{"s/one", Verdict::passed}, {"s/two", Verdict::passed}});
  auto misled = make_report({{"s/two", Verdict::failed}});
  misled.cases.front().failures.front().assertion.clauses = {"A-1"};
  const KillMatrix matrix = kill_matrix({breaks_a, breaks_b}, cases, clean, {misled, misled});
  CHECK(matrix.rows[0].by == std::vector<std::string>{"s/two"});
  CHECK(matrix.rows[1].cells == std::vector<Cell>{Cell::unrelated, Cell::elsewhere});
  CHECK_FALSE(matrix.rows[1].killed());
  CHECK(matrix.rows[1].named.empty());
  CHECK_THAT(to_text(matrix, false), ContainsSubstring("\ns/two  x  o\n"));
}

TEST_CASE("a fault that only ends cases is alive") {
  const auto clean = make_report({{"s/one", Verdict::passed}, {"s/two", Verdict::passed}});
  const auto thrown = make_report({{"s/one", Verdict::error}, {"s/two", Verdict::crashed}});
  const KillMatrix matrix = kill_matrix({breaks_a}, cases, clean, {thrown});
  CHECK(matrix.rows[0].by.empty());
  CHECK_FALSE(matrix.all_killed());
  const std::string text = to_text(matrix, false);
  CHECK_THAT(text, ContainsSubstring("\ns/one  !\n") && ContainsSubstring("\ns/two  !\n"));
  CHECK_THAT(text, ContainsSubstring("A  ALIVE   late (A-1): comes late [0 cases]"));
}

TEST_CASE("a fault whose every case is skipped with and without it is not judged, and neither alive") {
  const auto skipped = make_report({{"s/one", Verdict::skipped}, {"s/two", Verdict::skipped}});
  const auto unjudged = kill_matrix({breaks_a}, cases, skipped, {skipped});
  CHECK(unjudged.all_killed());
  CHECK_THAT(to_text(unjudged, false),
             ContainsSubstring("A  not judged  late (A-1): comes late [every case was skipped]\n"
                               "0 of 1 fault killed, 1 not judged\n"));
  CHECK(to_json(unjudged)[0].at("judged") == false);
  // One case that could have noticed it did not.
  const auto half = make_report({{"s/one", Verdict::passed}, {"s/two", Verdict::skipped}});
  CHECK_FALSE(kill_matrix({breaks_a}, cases, half, {half}).all_killed());
  // A fault that makes the subject refuse what it could do before has not been looked for.
  CHECK_FALSE(
      kill_matrix({breaks_a}, cases, make_report({{"s/one", Verdict::passed}, {"s/two", Verdict::passed}}), {skipped})
          .all_killed());
  CHECK_FALSE(kill_matrix({breaks_z}, cases, skipped, {skipped}).all_killed());
}

TEST_CASE("what is waived without a fault judges none") {
  auto known = make_report({{"s/one", Verdict::failed}, {"s/two", Verdict::passed}});
  known.cases.front().waiver = 0;
  const auto faulty = make_report({{"s/one", Verdict::failed}, {"s/two", Verdict::passed}});
  CHECK_FALSE(kill_matrix({breaks_a}, cases, known, {faulty}).all_killed());  // the other one could have noticed it
  const auto unjudged = kill_matrix({breaks_a}, {cases[0]}, known, {faulty});
  CHECK(unjudged.all_killed());
  CHECK_THAT(to_text(unjudged, false),
             ContainsSubstring("[every case was skipped or waived]\n0 of 1 fault killed, 1 not judged\n"));
}

TEST_CASE("a repeated case counts with its strongest verdict") {
  const auto clean = make_report({{"s/one", Verdict::passed}, {"s/one", Verdict::passed}});
  const auto flaky = make_report({{"s/one", Verdict::passed}, {"s/one", Verdict::failed}});
  CHECK(kill_matrix({breaks_a}, cases, clean, {flaky}).all_killed());
  CHECK_FALSE(kill_matrix({breaks_a}, cases, flaky, {flaky}).all_killed());
}
