// From declarations, clause tables and profiles to a listing.
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <stdexcept>

#include "harness/cases/bound_case.hpp"
#include "harness/cases/case_table.hpp"
#include "harness/cases/ranked_test_case.hpp"
#include "harness/runner/listing.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;

namespace {

CaseDeclaration declared(std::string name) {
  CaseDeclaration declaration;
  declaration.name = std::move(name);
  declaration.file = "f.cpp";
  declaration.line = 7;
  return declaration;
}

std::vector<std::string> ids(const cases::BoundCases& bound) {
  std::vector<std::string> result;
  for (const auto& item : bound.cases) result.push_back(item.info.id);
  return result;
}

}  // namespace

TEST_CASE("Every combination of world size and parameters is a case; without ranks(), W is 2") {
  auto declaration = declared("s/c");
  CHECK(ids(cases::bind_cases(std::vector{declaration}, {})) == std::vector<std::string>{"s/c[W=2]"});
  declaration.ranks = {1, 3};
  declaration.params = {{"a", {"x", "y"}}, {"Z", {"1", "2"}}};
  const auto bound = cases::bind_cases(std::vector{declaration}, {});
  CHECK(bound.problems.empty());
  CHECK(ids(bound) == std::vector<std::string>{"s/c[W=1,Z=1,a=x]", "s/c[W=1,Z=2,a=x]", "s/c[W=1,Z=1,a=y]",
                                               "s/c[W=1,Z=2,a=y]", "s/c[W=3,Z=1,a=x]", "s/c[W=3,Z=2,a=x]",
                                               "s/c[W=3,Z=1,a=y]", "s/c[W=3,Z=2,a=y]"});
  CHECK(bound.cases[4].info.world_size == 3);
  CHECK(bound.cases[4].info.suite == "s");
  CHECK(bound.cases[4].info.file == "f.cpp");
  CHECK(bound.cases[4].info.line == 7);
}

TEST_CASE("A parameter of also() is in one more case, which needs its features") {
  auto declaration = declared("s/c");
  declaration.params = {{"a", {"x", "y"}}};
  detail::apply(declaration, also("module", "spare", Feature::module_groups));
  const auto bound = cases::bind_cases(std::vector{declaration}, {});
  CHECK(ids(bound) == std::vector<std::string>{"s/c[W=2,a=x]", "s/c[W=2,a=x,module=spare]", "s/c[W=2,a=y]",
                                               "s/c[W=2,a=y,module=spare]"});
  CHECK(bound.cases[0].info.needs.empty());
  CHECK(bound.cases[1].info.needs == std::vector<std::string>{"module_groups"});
  CHECK_FALSE(bound.cases[0].info.params.contains("module"));
  auto with_empty_value = declared("s/c");
  detail::apply(with_empty_value, each("a", "", "x"));  // not a case without the parameter
  CHECK(cases::bind_cases(std::vector{with_empty_value}, {}).problems.size() == 1);
}

TEST_CASE("A case that draws what it plays is bound for the usual numbers, and for any other number on request") {
  auto declaration = declared("s/c");
  detail::apply(declaration, drawn_by("seed", 2));
  const auto bound = cases::bind_cases(std::vector{declaration}, {});
  CHECK(ids(bound) == std::vector<std::string>{"s/c[W=2,seed=1]", "s/c[W=2,seed=2]"});
  CHECK(bound.cases.at(0).info.drawn_by == "seed");
  const cases::CaseTable table(bound.cases);
  const auto drawn = cases::drawn_cases(
      table, std::vector<std::string>{"s/c[W=2,seed=2]", "s/c[W=2,seed=9]", "s/c[W=2,seed=9]", "s/d[W=2]"});
  REQUIRE(drawn.size() == 1);
  CHECK(drawn.at(0).info.id == "s/c[W=2,seed=9]");
  CHECK(table.find("s/c[W=2,seed=2]") == &bound.cases.at(1));
  CHECK(table.find("s/c[W=2,seed=9]") == nullptr);
  CHECK(table.digest() == cases::CaseTable(std::vector(bound.cases)).digest());
  CHECK(table.digest() != cases::CaseTable(drawn).digest());
  auto none = declared("s/c");
  detail::apply(none, drawn_by("seed", 0));
  CHECK_THAT(cases::bind_cases(std::vector{none}, {}).problems.at(0), ContainsSubstring("\"seed\" has no values"));
}

TEST_CASE("A case may ask for ranks that are threads") {
  auto declaration = declared("s/c");
  CHECK_FALSE(cases::bind_cases(std::vector{declaration}, {}).cases.at(0).info.on_threads);
  detail::apply(declaration, on_threads());
  CHECK(cases::bind_cases(std::vector{declaration}, {}).cases.at(0).info.on_threads);
  declaration.ranks = {128, 129};
  const auto bound = cases::bind_cases(std::vector{declaration}, {});
  REQUIRE(bound.problems.size() == 1);
  CHECK(bound.problems[0] == "f.cpp:7: case \"s/c\" asks for 129 ranks on_threads(); one process has 128 at most");
}

TEST_CASE("A case may ask for ranks on several hosts") {
  auto declaration = declared("s/c");
  CHECK(cases::bind_cases(std::vector{declaration}, {}).cases.at(0).info.hosts == 1);
  detail::apply(declaration, hosts(2));
  CHECK(cases::bind_cases(std::vector{declaration}, {}).cases.at(0).info.hosts == 2);
  const auto problem = [&] { return cases::bind_cases(std::vector{declaration}, {}).problems.at(0); };
  declaration.ranks = {4, 1};
  CHECK(problem() == "f.cpp:7: case \"s/c\" asks for 2 hosts in a world of 1, and each host has a rank");
  declaration.ranks = {4};
  declaration.on_threads = true;
  CHECK(problem() == "f.cpp:7: case \"s/c\" asks for 2 hosts and on_threads(); one process is on one host");
  declaration.hosts = 0;
  CHECK(problem() == "f.cpp:7: case \"s/c\" asks for 0 hosts");
}

TEST_CASE("A case plays on its suite's engine kind; another kind is in its id") {
  auto declaration = declared("s/c");
  const std::vector<SuiteEngine> engines{{"s", "first", "e.cpp", 3}};
  const auto bound = cases::bind_cases(std::vector{declaration}, engines);
  CHECK(bound.problems.empty());
  CHECK(ids(bound) == std::vector<std::string>{"s/c[W=2]"});
  CHECK(bound.cases[0].info.engine == "first");
  CHECK(cases::bind_cases(std::vector{declaration}, {}).cases.at(0).info.engine.empty());

  declaration.ranks = {1, 2};
  declaration.params = {{"a", {"x", "y"}}};
  detail::apply(declaration, shardproof::on_engines("first", "second"));
  const auto both = cases::bind_cases(std::vector{declaration}, engines);
  CHECK(ids(both) == std::vector<std::string>{"s/c[W=1,a=x]", "s/c[W=1,a=y]", "s/c[W=1,a=x,engine=second]",
                                              "s/c[W=1,a=y,engine=second]", "s/c[W=2,a=x]", "s/c[W=2,a=y]",
                                              "s/c[W=2,a=x,engine=second]", "s/c[W=2,a=y,engine=second]"});
  CHECK(both.cases[2].info.engine == "second");
  CHECK(both.cases[2].info.params.at("engine") == "second");
  CHECK_FALSE(both.cases[1].info.params.contains("engine"));
  CHECK(ids(cases::bind_cases(std::vector{declaration}, {})).front() == "s/c[W=1,a=x,engine=first]");
}

TEST_CASE("A failure outside of scopes names the clauses that no scope judges, or else all") {
  const std::vector<SuiteEngine> engines{{"s", "first", "e.cpp", 3}};
  const std::vector<EngineClauses> clauses{
      {.engine = "first", .equal_collectives = "A-1", .freed_memory = "A-2", .in_scopes = {"A-1", "A-3"}}};
  auto declaration = declared("s/c");
  const auto outside = [&](std::vector<std::string> cited) {
    declaration.clauses = std::move(cited);
    const auto bound = cases::bind_cases(std::vector{declaration}, engines, clauses);
    CHECK(bound.problems.empty());
    CHECK(bound.cases.at(0).engine_clauses == &clauses[0]);
    return cases::clauses_outside_scopes(bound.cases.at(0));
  };
  using Ids = std::vector<std::string>;
  CHECK(outside({"A-1", "B-1", "A-3", "B-2"}) == Ids{"B-1", "B-2"});
  CHECK(outside({"A-1", "A-3"}) == Ids{"A-1", "A-3"});
  CHECK(outside({}).empty());

  const auto unknown = cases::bind_cases(std::vector{declaration}, {}, clauses);
  CHECK(unknown.cases.at(0).engine_clauses == nullptr);
}

TEST_CASE("A problem names the place of the engine kind's clauses") {
  const auto problems = [](const std::vector<EngineClauses>& clauses) {
    return cases::bind_cases(std::vector{declared("s/c")}, {}, clauses).problems;
  };
  const EngineClauses right{.engine = "first",
                            .equal_collectives = "A-1",
                            .freed_memory = "A-2",
                            .in_scopes = {},
                            .file = "c.cpp",
                            .line = 5};
  EngineClauses again = right, empty = right;
  again.line = 6;
  empty.freed_memory.clear();
  using Problems = std::vector<std::string>;
  CHECK(problems({right}).empty());
  CHECK(problems({right, again}) == Problems{"c.cpp:6: engine kind \"first\" has ENGINE_CLAUSES already, at c.cpp:5"});
  CHECK(problems({empty}) ==
        Problems{"c.cpp:5: ENGINE_CLAUSES needs an engine kind, and the clauses equal_collectives and freed_memory"});
}

TEST_CASE("A wrong declaration of engine kinds is reported with its file and line") {
  const auto problems = [](const CaseDeclaration& declaration, const std::vector<SuiteEngine>& engines) {
    return cases::bind_cases(std::vector{declaration}, engines).problems;
  };
  using Problems = std::vector<std::string>;
  auto declaration = declared("s/c");
  CHECK(problems(declaration, {{"s", "first", "e.cpp", 3}, {"s", "second", "e.cpp", 4}}) ==
        Problems{
            "e.cpp:4: suite \"s\" has an engine kind already, \"first\": declare one kind in one file of the suite"});
  CHECK(problems(declaration, {{"s", "", "e.cpp", 3}}) ==
        Problems{"e.cpp:3: SUITE_ENGINE(\"s\", \"\") needs the names of a suite and of an engine kind"});
  CHECK(problems(declaration, {{"z", "first", "e.cpp", 3}}) ==
        Problems{"e.cpp:3: SUITE_ENGINE names suite \"z\", which has no cases"});
  declaration.params = {{"engine", {"x"}}};
  CHECK(problems(declaration, {}).empty());
  const Problems by_hand{
      "f.cpp:7: case \"s/c\" has a parameter \"engine\": where a case has an engine kind, only on_engines() gives its "
      "id this key"};
  CHECK(problems(declaration, {{"s", "first", "e.cpp", 3}}) == by_hand);
  declaration.engines = {"first"};
  CHECK(problems(declaration, {}) == by_hand);
  declaration.params.clear();
  declaration.engines = std::vector<std::string>();
  CHECK(problems(declaration, {}) == Problems{"f.cpp:7: case \"s/c\" has on_engines() without an engine kind"});
  declaration.engines = {"first", "first"};
  CHECK(problems(declaration, {}) == Problems{"f.cpp:7: case \"s/c\" has \"first\" twice in on_engines()"});
  declaration.engines = {""};
  CHECK(problems(declaration, {}) ==
        Problems{"f.cpp:7: case \"s/c\" has an engine kind without a name in on_engines()"});
}

TEST_CASE("A case may need a feature for one value of a parameter") {
  auto declaration = declared("s/c");
  detail::apply(declaration, needs(Feature::timeline));
  detail::apply(declaration, each("event", false, true));
  detail::apply(declaration, needs_if("event", true, Feature("mine")));
  const auto bound = cases::bind_cases(std::vector{declaration}, {});
  REQUIRE(bound.cases.size() == 2);
  CHECK(bound.cases[0].info.needs == std::vector<std::string>{"timeline"});
  CHECK(bound.cases[1].info.needs == std::vector<std::string>{"timeline", "mine"});
  detail::apply(declaration, needs_if("event", 3, Feature("mine")));
  CHECK(cases::bind_cases(std::vector{declaration}, {}).problems ==
        std::vector<std::string>{"f.cpp:7: case \"s/c\" has needs_if() for event=3, but no parameter with this value"});
}

TEST_CASE("A kind that does not exist, and a feature that a kind cannot have, are said with their place") {
  const std::vector<cases::KnownKind> kinds{{"first", {"timeline", "mine"}}, {"second", {"timeline", "other"}}};
  const auto problems = [&](const CaseDeclaration& declaration, const std::vector<SuiteEngine>& engines) {
    return cases::problems_of_needs(cases::bind_cases(std::vector{declaration}, engines).cases, engines, kinds);
  };
  using Problems = std::vector<std::string>;
  const std::vector<SuiteEngine> on_first{{"s", "first", "e.cpp", 3}};
  auto declaration = declared("s/c");
  declaration.ranks = {1, 2};
  CHECK(problems(declaration, {{"s", "fist", "e.cpp", 3}}) ==
        Problems{"e.cpp:3: SUITE_ENGINE gives suite \"s\" the engine kind \"fist\", which this program does not know; "
                 "it knows: first, second"});
  declaration.engines = {"first", "sekond"};
  CHECK(problems(declaration, on_first) == Problems{"f.cpp:7: case \"s/c\" names the engine kind \"sekond\", which "
                                                    "this program does not know; it knows: first, second"});
  declaration.engines.reset();
  declaration.needs = {Feature("mine"), Feature::timeline};
  CHECK(problems(declaration, on_first).empty());
  CHECK(problems(declaration, {}).empty());
  declaration.engines = {"first", "second"};
  CHECK(problems(declaration, on_first) == Problems{"f.cpp:7: case \"s/c\" needs mine, which no engine of the kind "
                                                    "second can have; features of this kind are: timeline, other"});
  declaration.engines.reset();
  declaration.needs = {Feature("mine"), Feature("other")};
  CHECK(problems(declaration, {}) ==
        Problems{"f.cpp:7: case \"s/c\" needs mine, other: no engine kind has all these features"});
}

TEST_CASE("Values of parameters are spelled so that they read back as the same") {
  const auto spelled = [](auto... values) { return each("x", values...).values; };
  CHECK(spelled(true, false) == std::vector<std::string>{"true", "false"});
  CHECK(spelled(-3, 0) == std::vector<std::string>{"-3", "0"});
  CHECK(spelled(0.5, 0.1, 1.0, 1e-300) == std::vector<std::string>{"0.5", "0.1", "1", "1e-300"});
  CHECK(spelled("a", std::string("b")) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("A wrong declaration of a case is reported with its file and line") {
  const auto problem = [](CaseDeclaration declaration) {
    const auto bound = cases::bind_cases(std::vector{std::move(declaration)}, {});
    return bound.problems.empty() ? std::string() : bound.problems.front();
  };
  CHECK(problem(declared("s/c")).empty());
  for (const std::string name : {"c", "/c", "s/", "", "s/c[1]", "s/a*"}) {
    INFO(name);
    CHECK_THAT(problem(declared(name)), ContainsSubstring("f.cpp:7: "));
  }
  auto no_sizes = declared("s/c");
  no_sizes.ranks.clear();
  CHECK_THAT(problem(no_sizes), ContainsSubstring("without a world size"));
  auto no_ranks = declared("s/c");
  no_ranks.ranks = {0};
  CHECK_THAT(problem(no_ranks), ContainsSubstring("asks for 0 ranks"));
  auto own_w = declared("s/c");
  own_w.params = {{"W", {"1"}}};
  CHECK_THAT(problem(own_w), ContainsSubstring("W is the world size"));
  auto again = declared("s/c");
  again.more_ranks = {8, 2};
  again.ranks = {1, 2};
  CHECK_THAT(problem(again), ContainsSubstring("has 2 in both ranks() and more_ranks()"));
  auto twice = declared("s/c");
  twice.params = {{"a", {"1"}}, {"a", {"2"}}};
  CHECK_THAT(problem(twice), ContainsSubstring("two parameters \"a\""));
  auto valueless = declared("s/c");
  valueless.params = {{"a", {}}};
  CHECK_THAT(problem(valueless), ContainsSubstring("has no values"));
  auto comma = declared("s/c");
  comma.params = {{"a", {"1,b=2"}}};
  CHECK_THAT(problem(comma), ContainsSubstring("f.cpp:7: "));
  auto same = declared("s/c");
  same.ranks = {2, 2};
  CHECK_THAT(problem(same), ContainsSubstring("s/c[W=2] exists already, declared at f.cpp:7"));
}

TEST_CASE("Seed tests know the cases that descend from them") {
  auto one = declared("s/one"), two = declared("s/two");
  one.seeds = {{"a.py::t", {}}};
  two.seeds = {{"a.py::t", {}}, {"b.py::t", {}}};
  const auto seeds = cases::seeds_of(cases::bind_cases(std::vector{one, two}, {}).cases);
  REQUIRE(seeds.size() == 2);
  CHECK(seeds[0] == protocol::SeedInfo{"a.py::t", {"s/one[W=2]", "s/two[W=2]"}});
  CHECK(seeds[1] == protocol::SeedInfo{"b.py::t", {"s/two[W=2]"}});
}

TEST_CASE("A seed test with parameters knows the cases that have its values") {
  auto declaration = declared("s/c");
  declaration.params = {{"after", {"1", "2"}}, {"strategy", {"x", "y"}}};
  detail::apply(declaration, seed("t.py::one", each("strategy", "x"), each("after", 1, 3)));
  const auto bound = cases::bind_cases(std::vector{declaration}, {});
  const std::vector<protocol::SeedInfo> seeds = cases::seeds_of(bound.cases);
  REQUIRE(seeds.size() == 1);
  CHECK(seeds[0].seed == "t.py::one[strategy=x,after=1]");
  CHECK(seeds[0].cases == std::vector<std::string>{"s/c[W=2,after=1,strategy=x]"});
}

TEST_CASE("A seed test without parameters knows the cases that it names") {
  auto declaration = declared("s/c");
  declaration.params = {{"hook", {"none", "f16"}}, {"sync", {"true", "false"}}};
  detail::apply(declaration, seed_where("t.py::one", each("hook", "none"), each("sync", false)));
  const std::vector<protocol::SeedInfo> seeds = cases::seeds_of(cases::bind_cases(std::vector{declaration}, {}).cases);
  REQUIRE(seeds.size() == 1);
  CHECK(seeds[0] == protocol::SeedInfo{"t.py::one", {"s/c[W=2,hook=none,sync=false]"}});
}

TEST_CASE("Clauses are the rows of a table whose first cell is a clause id") {
  const auto clauses = runner::parse_clauses(
      "# Overlap\n\n| id | kind | text |\n|---|---|---|\n| OVL-1 | required | within a|b "
      "|\n|OVL-12|reference|`x`|\nOVL-3 is text");
  REQUIRE(clauses.size() == 2);
  CHECK(clauses[0] == protocol::ClauseInfo{"OVL-1", true, "within a|b"});
  CHECK(clauses[1] == protocol::ClauseInfo{"OVL-12", false, "`x`"});
  CHECK_THROWS_AS(runner::parse_clauses("| OVL-1 | maybe | x |"), std::invalid_argument);
  CHECK_THROWS_AS(runner::parse_clauses("| OVL-1 | required |"), std::invalid_argument);
  CHECK_THROWS_AS(runner::parse_clauses("| OVL-1 | required | |"), std::invalid_argument);
  CHECK(runner::parse_clauses("").empty());
}

TEST_CASE("A clause has one definition") {
  Program program;
  program.clause_tables = {"| OVL-1 | required | one |", "| OVL-1 | required | two |"};
  CHECK_THROWS_AS(runner::make_listing(program, {}, {}, {}), std::invalid_argument);
}

TEST_CASE("A fault breaks only clauses that a case or a table of clauses has") {
  struct Faulty : ProgramExtension {
    std::string clause;
    void add_to(protocol::Listing& listing, const std::filesystem::path&) const override {
      listing.faults.push_back({"late", {clause}, "it comes too late"});
    }
  };
  Program program;
  program.clause_tables = {"| OVL-1 | required | one |"};
  cases::BoundCase bound;
  bound.info.clauses = {"MINE-7"};
  Faulty extension;
  for (const char* known : {"OVL-1", "MINE-7"}) {
    extension.clause = known;
    CHECK(runner::make_listing(program, extension, {}, {&bound, 1}).faults.size() == 1);
  }
  extension.clause = "OLV-1";
  CHECK_THROWS_WITH(runner::make_listing(program, extension, {}, {&bound, 1}),
                    "FAULT(late): unknown clause \"OLV-1\" in breaks(); closest is "
                    "\"OVL-1\"");
}

TEST_CASE("Profiles are an array whose elements have unique names and only known fields") {
  const auto listed = [](std::string_view profiles) {
    Program program;
    program.profiles = profiles;
    return runner::make_listing(program, {}, {}, {}).profiles;
  };
  constexpr std::string_view core =
      R"({"name": "core", "text": "t", "least_ranks": 1, "most_ranks": null, "tags": [], "without_tags": ["x"], )"
      R"("required_only": true})";
  const auto array = [](const std::string& elements) { return "[" + elements + "]"; };
  CHECK(listed("").empty());
  REQUIRE(listed(array(std::string(core))).size() == 1);
  CHECK(listed(array(std::string(core)))[0].without_tags == std::vector<std::string>{"x"});
  CHECK_THROWS_WITH(listed(array(fmt::format("{0}, {0}", core))), ContainsSubstring("profile core is defined twice"));
  CHECK_THROWS_WITH(listed(core), ContainsSubstring("profiles: expected an array of profiles"));
  CHECK_THROWS_WITH(listed("[{\"nam\": 1}]"), ContainsSubstring("profile: unknown field \"nam\"; closest is \"name\""));
  CHECK_THROWS_AS(listed("[{]"), std::invalid_argument);
}
