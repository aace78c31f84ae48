// `shardproof faults`: which fault lives, which one a case notices, and which one no case checks.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

Said faults(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"faults", "--worker", SHARDPROOF_FAULTY_PROGRAM});
  return call(arguments);
}

}  // namespace

TEST_CASE("all cases judge all faults: a fault that no case checks survives") {
  const Said said = faults({});
  INFO(said.out << said.err);
  CHECK(said.end == code(1));
  CHECK_THAT(said.out,
             ContainsSubstring("without a fault: 3 cases; the table has those that check a clause of a fault\n"
                               "fault x case"));
  CHECK_THAT(faults({"--verbose"}).out, ContainsSubstring("a clause of a fault\nnoticed: 1 case with SEE-1\n"));
  CHECK_THAT(said.out, ContainsSubstring("killed  noticed") && ContainsSubstring("ALIVE   overlooked") &&
                           ContainsSubstring("ALIVE   unguarded"));
  CHECK_THAT(said.out, ContainsSubstring("1 of 3 faults killed") && !ContainsSubstring("not checked"));
}

TEST_CASE("a selection judges the faults that it has cases for") {
  Said said = faults({"seen"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK_THAT(said.out, ContainsSubstring("1 of 1 fault killed") && !ContainsSubstring("ALIVE"));
  CHECK_THAT(said.out,
             ContainsSubstring("not checked, as no selected case has a clause of theirs: overlooked, unguarded"));

  said = faults({"seen", "blind"});
  CHECK(said.end == code(1));
  CHECK_THAT(said.out,
             ContainsSubstring("ALIVE   overlooked") && ContainsSubstring("only some of the cases were selected"));

  said = faults({"seen", "--json", "-q"});
  CHECK(said.end == code(0));
  const auto listed = nlohmann::json::parse(said.out);
  REQUIRE(listed.size() == 1);
  CHECK(listed.at(0).at("name") == "noticed");
  CHECK(listed.at(0).at("by").at(0) == "seen/looks[W=1]");
}

TEST_CASE("a selection names a few of the faults that it does not judge, and all on request") {
  const Setting many{.environment = {"MORE_FAULTS=1"}};
  const std::vector<std::string> arguments{"faults", "--worker", SHARDPROOF_FAULTY_PROGRAM, "seen"};
  CHECK_THAT(unwrapped(call(arguments, many).out),
             ContainsSubstring("theirs: overlooked, unguarded, unguarded_0 and 4 more (--verbose names them)\n"));
  std::vector<std::string> verbose = arguments;
  verbose.emplace_back("--verbose");
  CHECK_THAT(unwrapped(call(verbose, many).out), ContainsSubstring("unguarded_3, unguarded_4\n"));
}

TEST_CASE("failures under a fault are expected: the launcher shows none, however long the run takes") {
  const TemporaryDirectory directory;
  const std::string worker = directory / "worker";
  // The first world with the fault takes longer than a short run, and another comes after it.
  write_text(worker,
             "#!/bin/sh\nif [ -n \"$SHARDPROOF_PLAN\" ] && grep -q noticed \"$SHARDPROOF_PLAN\" && mkdir "
             "\"$0.has_waited\" 2>&1; then sleep 5.1; fi\nexec " SHARDPROOF_FAULTY_PROGRAM " \"$@\"\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const Said said = call({"faults", "seen", "--ranks", "1,2", "--worker", worker});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(std::filesystem::exists(worker + ".has_waited"));
  CHECK_THAT(said.out, ContainsSubstring("1 of 1 fault killed"));
  CHECK(said.err.empty());
}

TEST_CASE("of each clause, the list has its text, how many cases check it, and the faults that break it") {
  const Setting many{.environment = {"MORE_FAULTS=1"}};
  CHECK(call({"list", "--clauses", "--worker", SHARDPROOF_FAULTY_PROGRAM}, many).out ==
        "SEE-1 (required): is seen\n"
        "  2 cases of seen/looks\n"
        "  1 fault\n"
        "    noticed: one that is seen\n"
        "BLD-1 (required): is not\n"
        "  1 case of blind/looks_away\n"
        "  1 fault\n"
        "    overlooked: one that nobody sees\n"
        "NOT-1 (required): has no case\n"
        "  0 cases\n"
        "  6 faults\n"
        "    unguarded: one that nobody looks for\n"
        "    unguarded_0: one more\n"
        "    unguarded_1: one more\n"
        "    unguarded_2: one more\n"
        "    unguarded_3: one more\n"
        "    unguarded_4: one more\n");
}

TEST_CASE("of selected cases, the list has the clauses that they check, and no others") {
  const auto listed = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"list", "--clauses", "--worker", SHARDPROOF_FAULTY_PROGRAM});
    return call(arguments).out;
  };
  CHECK(listed({"blind", "plain"}) ==
        "BLD-1 (required): is not\n  1 case of blind/looks_away\n  1 fault\n    overlooked: one that nobody sees\n");
  CHECK_THAT(listed({"--ranks", "2"}), ContainsSubstring("SEE-1 (required)") && !ContainsSubstring("BLD-1"));
  CHECK(nlohmann::json::parse(listed({"blind", "--json"})).size() == 1);
  CHECK(listed({"plain"}) == "the selected cases check no clause\n");
}

TEST_CASE("an interrupt of a faults run keeps the results so far") {
  const TemporaryDirectory directory;
  const std::string worker = directory / "worker";
  // Ranks of worlds whose plan has this in it wait for their end.
  write_text(
      worker,
      "#!/bin/sh\nif [ -n \"$SHARDPROOF_PLAN\" ] && grep -q \"$WAITS\" \"$SHARDPROOF_PLAN\"; then exec sleep 60; "
      "fi\nexec " SHARDPROOF_FAULTY_PROGRAM " \"$@\"\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const auto interrupted = [&](const std::string& waits, const std::string& last, std::vector<std::string> more) {
    more.insert(more.begin(), {"faults", "--worker", worker});
    const Said said =
        call(more, {.environment = {"WAITS=" + waits}, .meanwhile = [&](Process& launcher, const auto& so_far) {
                      CHECK(eventually([&] { return so_far().find(last) != std::string::npos; }));
                      ::kill(launcher.pid(), SIGINT);
                    }});
    INFO(said.out << said.err);
    CHECK(said.end == code(128 + SIGINT));
    return said;
  };
  Said said = interrupted("overlooked", "overlooked: 1 case", {"--verbose"});
  CHECK_THAT(said.out, ContainsSubstring("killed  noticed") && ContainsSubstring("1 of 1 fault killed") &&
                           !ContainsSubstring("ALIVE"));
  CHECK(said.err == "shardproof: interrupted; tried until then: 1 of 3 faults\n");
  said = interrupted("overlooked", "overlooked: 1 case", {"--json", "--verbose"});
  CHECK(nlohmann::json::parse(said.out).at(0).at("name") == "noticed");
  said = interrupted("blind", "without a fault", {});
  CHECK_THAT(said.out, ContainsSubstring("3 cases in 1 world: ") && !ContainsSubstring("fault x case"));
  CHECK(said.err == "shardproof: interrupted; tried until then: 0 of 3 faults\n");
}

TEST_CASE("a selection that judges no fault is refused") {
  const Said said = faults({"plain"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("no selected case checks a clause that a fault breaks"));
}

TEST_CASE("the reports of all runs are kept where asked for, in a directory that was empty") {
  TemporaryDirectory directory;
  const std::string out = directory / "out";
  CHECK(faults({"seen", "--out", out}).end == code(0));
  CHECK(verdicts(directory / "out/clean").at("seen/looks[W=1]") == "passed");
  CHECK(verdicts(directory / "out/noticed").at("seen/looks[W=1]") == "failed");
  CHECK_THAT(faults({"seen", "--out", out}).err, ContainsSubstring("it holds an earlier run"));
  std::filesystem::remove(directory / "out/noticed/report.json");
  CHECK(faults({"seen", "--out", out, "--overwrite"}).end == code(0));
  CHECK(verdicts(directory / "out/noticed").at("seen/looks[W=1]") == "failed");
}

TEST_CASE(
    "what failed under a fault is run again under it, also where the device is another, unless the command line names "
    "one") {
  const TemporaryDirectory directory;
  const std::vector<std::string> run{"run", "--worker", SHARDPROOF_FAULTY_PROGRAM, "--out"};
  const auto end = [&](const std::string& name, std::vector<std::string> arguments) {
    std::vector<std::string> all = run;
    all.push_back(directory / name);
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Said said = call(all);
    INFO(said.out << said.err);
    CHECK(said.end == code(1));
    return report_of(directory / name).at("subject").at("fault");
  };
  CHECK(end("broken", {"seen", "--fault", "noticed"}) == "noticed");
  CHECK(end("again", {"--rerun-failed", directory / "broken"}) == "noticed");
  CHECK(end("and again", {"--rerun-failed", directory / "again", "--fabric", "thread"}) == "noticed");
  CHECK(end("other", {"--rerun-failed", directory / "again", "--fault=overlooked"}) == "overlooked");
}

TEST_CASE("waivers are those of the run without a fault") {
  TemporaryDirectory directory;
  const std::string waivers = directory / "waivers.json";
  std::ofstream(waivers)
      << R"({"waivers": [{"pattern": "blind/*", "verdict": "failed", "reason": "it looks away", "link": "x",)"
         R"( "owner": "me",
                                "expires": "9999-12-31"}]})";
  const Said said = faults({"seen", "blind", "--waivers", waivers});
  INFO(said.out << said.err);
  CHECK_THAT(said.out, ContainsSubstring("unexpected pass of blind/looks_away[W=1]"));
  CHECK(said.end == code(6));
  CHECK_THAT(faults({"seen", "--waivers", directory / "none.json"}).err, ContainsSubstring("none.json"));
}
