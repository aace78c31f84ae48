// The files of a world that ended early give the same explanation afterwards as the run did.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

TEST_CASE("explain repeats the run's explanation for a kept run, world or evidence folder") {
  TemporaryDirectory directory;
  for (const char* name : {"bad/segfault[W=2]", "bad/exits[W=2,code=0]", "bad/hangs[W=2]"}) {
    const auto run = directory / std::string(name).substr(4);
    const Said said =
        call({"run", name, "--worker", trouble_program().string(), "--timeout", "1", "--out", run.string()});
    const std::string sentence = report_of(run).at("worlds").at(0).at("explanation");
    INFO(said.out << said.err << sentence);
    CHECK_THAT(sentence,
               StartsWith("rank 1 ") && ContainsSubstring(name) && ContainsSubstring("before its first collective"));
    CHECK_THAT(unwrapped(said.out), ContainsSubstring(sentence));
    for (const auto& kept : {run, run / "worlds/0", run / "worlds/0/evidence", run / "worlds/0/evidence/"}) {
      const Said explained = call({"explain", kept.string()});
      CHECK(explained.end == code(0));
      CHECK_THAT(explained.out, StartsWith("world 0: " + sentence + "\n"));
    }
    CHECK(call({"merge", run.string()}).end == code(4));
    CHECK(report_of(run).at("worlds").at(0).at("explanation") == sentence);
  }
}

TEST_CASE("explain prints no explanation of worlds that ended in order, and refuses a directory that is not a run") {
  TemporaryDirectory directory;
  const auto run = directory / "run";
  call({"run", "bad/check", "--worker", trouble_program().string(), "--out", run.string()});
  CHECK_FALSE(std::filesystem::exists(run / "worlds/0/evidence/flight.json"));
  Said said = call({"explain", run.string()});
  CHECK(said.end == code(0));
  CHECK_THAT(said.out, StartsWith("no world ended early\nworld 0: FAIL bad/check[W=2]"));
  said = call({"explain", (directory / "nowhere").string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("nowhere is not a directory"));
  said = call({"explain", (run / "worlds/0/logs").string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("neither a run directory nor one of its worlds"));
  write_text(run / "worlds/0/evidence/flight.json", "{}");
  said = call({"explain", run.string()});
  CHECK(said.end == code(5));
  CHECK_THAT(said.err, ContainsSubstring("worlds/0") && ContainsSubstring("taken_ns"));
}

TEST_CASE("explain says of a failed case which rank failed and where, what the others did, and how to repeat it") {
  TemporaryDirectory directory;
  const auto run = directory / "run";
  run_trouble(run, {"bad/check", "fails/throws", "good/stays", "--seed", "7"});
  write_text(run / "worlds/0/evidence/bad.check[W=2].rank-1.err", "first\n2\n3\n4\n5\n\x1b[2Jlast\n");
  const std::string worker = trouble_program().string();
  for (const auto& kept : {run, run / "worlds/0"}) {
    const Said said = call({"explain", kept.string()});
    INFO(said.out << said.err);
    CHECK(said.end == code(0));
    CHECK_THAT(said.out, StartsWith("no world ended early\nworld 0: FAIL bad/check[W=2]      rank 1, "));
    CHECK_THAT(said.out, ContainsSubstring("CHECK( rank.index() == 0 )\n") && ContainsSubstring("1 == 0") &&
                             ContainsSubstring("tests/launcher/trouble/fails.cpp:"));
    CHECK_THAT(said.out,
               ContainsSubstring("again: ") && ContainsSubstring("run 'bad/check[W=2]' --seed 7 --worker " + worker));
    CHECK_THAT(said.out, ContainsSubstring("\n  outcomes: rank 0 passed (1 assertion), rank 1 failed (1 assertion)\n"));
    CHECK_THAT(said.out,
               ContainsSubstring("\n  rank 1 printed last (") &&
                   ContainsSubstring("logs/rank-1.err):\n    first\n    2\n    3\n    4\n    5\n    \\x1b[2Jlast\n"));
    CHECK_THAT(said.out, ContainsSubstring("world 0: ERROR fails/throws[W=2]") && ContainsSubstring("out of paper"));
    CHECK(said.out.find("good/stays") == std::string::npos);
  }
}

TEST_CASE("explain reports the worlds that it can read, and then names the files that it cannot") {
  TemporaryDirectory directory;
  const auto run = directory / "run";
  call({"run", "bad/killed", "bad/segfault", "--worker", trouble_program().string(), "--out", run.string()});
  const std::string second = report_of(run).at("worlds").at(1).at("explanation");
  write_text(run / "worlds/0/evidence/flight.json", "{");
  Said said = call({"explain", run.string()});
  CHECK(said.end == code(5));
  CHECK_THAT(said.out, StartsWith("world 0: rank 1 died by signal 9 (SIGKILL) in bad/killed[W=2]\n") &&
                           ContainsSubstring("\nworld 1: " + second + "\n"));
  CHECK_THAT(said.err, ContainsSubstring("worlds/0/evidence/flight.json"));
  for (const char* name : {"endings.json", "plan.json"}) {
    write_text(run / "worlds/0" / name, "{");
    said = call({"explain", run.string()});
    INFO(said.out << said.err);
    CHECK(said.end == code(5));
    CHECK_THAT(said.out, StartsWith("world 1: " + second + "\n"));
    CHECK_THAT(said.err, ContainsSubstring("worlds/0") && ContainsSubstring(name));
  }
}

TEST_CASE("a flight record that cannot be read hides nothing else of its world") {
  TemporaryDirectory directory;
  const auto run = directory / "run";
  call({"run", "bad/killed", "good/stays", "--worker", trouble_program().string(), "--out", run.string()});
  const Verdicts before = verdicts(run);
  write_text(run / "worlds/0/evidence/flight.json", "{");
  const Said said = call({"merge", run.string()});
  INFO(said.out << said.err);
  CHECK(verdicts(run) == before);
  CHECK(said.end == code(4));
  CHECK_THAT(said.out, ContainsSubstring("its flight record") && ContainsSubstring("cannot be read"));
}
