// The files of a run give the same texts afterwards as the run did.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// The text of a run about its only case that went wrong.
std::string failure_in(const std::string& output, const std::string& first_word) {
  const std::size_t begin = output.find("\n" + first_word + " ") + 1;
  return output.substr(begin, output.find("\n\n", begin) + 1 - begin);
}

}  // namespace

TEST_CASE("explain repeats the run's text about a death for a kept run, world or evidence folder") {
  TemporaryDirectory directory;
  for (const char* name : {"bad/segfault[W=2]", "bad/exits[W=2,code=0]", "bad/hangs[W=2]"}) {
    const auto run = directory / std::string(name).substr(4);
    const Said said =
        call({"run", name, "--worker", trouble_program().string(), "--timeout", "1", "--out", run.string()});
    const std::string sentence = report_of(run).at("worlds").at(0).at("explanation");
    INFO(said.out << said.err << sentence);
    CHECK_THAT(sentence,
               StartsWith("rank 1 ") && ContainsSubstring(name) && ContainsSubstring("before its first collective"));
    const std::string failure = failure_in(said.out, std::string(name) == "bad/hangs[W=2]" ? "HANG" : "CRASH");
    CHECK_THAT(unwrapped(failure), ContainsSubstring(sentence));
    CHECK_THAT(failure, ContainsSubstring("\n  evidence: " + (run / "worlds/0/evidence").string() + "\n") &&
                            ContainsSubstring("\n  again: "));
    CHECK((failure.find("\n  stacks: ") != std::string::npos) == (std::string(name) == "bad/hangs[W=2]"));
    for (const auto& kept : {run, run / "worlds/0", run / "worlds/0/evidence", run / "worlds/0/evidence/"}) {
      const Said explained = call({"explain", kept.string()});
      CHECK(explained.end == code(0));
      CHECK(explained.out == "world 0: " + failure);
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
  CHECK_THAT(said.out, StartsWith("no world ended early; cases that failed:\nworld 0: FAIL bad/check[W=2]"));
  said = call({"explain", (directory / "nowhere").string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("nowhere: no such directory; name the directory that a run wrote\n"));
  said = call({"explain", (run / "report.json").string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("report.json: not a directory; name the directory that a run wrote, " +
                                         run.string() + "\n"));
  said = call({"explain", (run / "worlds/0/logs").string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("neither a run directory nor one of its worlds"));
  write_text(run / "worlds/0/evidence/flight.json", "{}");
  said = call({"explain", run.string()});
  CHECK(said.end == code(5));
  CHECK_THAT(unwrapped(said.out), ContainsSubstring("worlds/0") && ContainsSubstring("taken_ns"));
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
    CHECK_THAT(said.out,
               StartsWith("no world ended early; cases that failed:\nworld 0: FAIL bad/check[W=2]      rank 1, "));
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

TEST_CASE("explain shows the text of a broken clause, as the run did") {
  TemporaryDirectory directory;
  const auto run = directory / "run", stream = run / "worlds/0/ranks/rank-1.jsonl";
  run_trouble(run, {"bad/check"});
  nlohmann::ordered_json listing = nlohmann::ordered_json::parse(text_of(run / "listing.json"));
  listing["clauses"].push_back({{"id", "TRB-1"}, {"required", true}, {"text", "each rank is the first"}});
  write_text(run / "listing.json", listing.dump());
  std::string lines = text_of(stream);
  const std::string none = "\"clauses\":[]";
  write_text(stream, lines.replace(lines.find(none), none.size(), "\"clauses\":[\"TRB-1\"]"));
  const Said said = call({"explain", run.string()});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK_THAT(said.out, ContainsSubstring("\n  TRB-1  each rank is the first\n"));
}

TEST_CASE("explain reports the worlds that it can read, and then names the files that it cannot") {
  TemporaryDirectory directory;
  const auto run = directory / "run";
  const Said whole = run_trouble(run, {"bad/killed", "bad/segfault"});
  CHECK_THAT(whole.out, ContainsSubstring("world 0: 2 ranks, 1 case, 1 crashed, ended early: "));
  const std::string second = "world 1: CRASH bad/segfault[W=2]";
  write_text(run / "worlds/0/evidence/flight.json", "{");
  Said said = call({"explain", run.string()});
  CHECK(said.end == code(5));
  CHECK_THAT(said.out, StartsWith("world 0: CRASH bad/killed[W=2]") &&
                           ContainsSubstring("\n  rank 1 died by signal 9 (SIGKILL) in bad/killed[W=2]\n") &&
                           ContainsSubstring("\n" + second));
  CHECK_THAT(unwrapped(said.out), ContainsSubstring("worlds/0/evidence/flight.json"));
  for (const char* name : {"endings.json", "plan.json"}) {
    write_text(run / "worlds/0" / name, "{");
    said = call({"explain", run.string()});
    INFO(said.out << said.err);
    CHECK(said.end == code(5));
    CHECK_THAT(said.out, ContainsSubstring(second));
    CHECK_THAT(unwrapped(said.out + said.err), ContainsSubstring("worlds/0") && ContainsSubstring(name));
  }
}

TEST_CASE("explain reports the worlds of a run that never began, and the cases that did not run") {
  TemporaryDirectory directory;
  const auto run = directory / "run";
  run_trouble(run, {"bad/hangs", "good/meets[W=3]", "--timeout", "1", "--max-hangs", "0"});
  const Said said = call({"explain", run.string()});
  INFO(said.out << said.err);
  CHECK(said.end == code(5));
  CHECK_THAT(unwrapped(said.out), ContainsSubstring("HANG bad/hangs[W=2]") &&
                                      ContainsSubstring("nothing of it can be read: its ranks never started, or its "
                                                        "folder is lost\n") &&
                                      ContainsSubstring("\nNOT RUN 1 case: good/meets[W=3]\n"));
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
