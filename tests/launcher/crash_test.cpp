// A failure shows the stack of a crash, and what the rank printed in the case.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "reports/model/report.hpp"
#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a failed case shows what its rank printed while it ran, and nothing of other cases or ranks") {
  TemporaryDirectory directory;
  const auto run = directory / "run";
  const Said said =
      call({"run", "prints", "fails/requires", "--worker", trouble_program().string(), "--out", run.string()});
  INFO(said.out << said.err);
  CHECK(said.end == code(1));
  const std::string logs = (run / "worlds/0/logs/rank-1").string();
  CHECK_THAT(said.out, ContainsSubstring("  rank 1 printed last (" + logs + ".out):\n    out \\x1b[31m of rank 1\n"));
  CHECK_THAT(said.out, ContainsSubstring("  rank 1 printed last (" + logs + ".err):\n    line 13 of rank 1\n"));
  CHECK_THAT(said.out, ContainsSubstring("    line 20 of rank 1\n"));
  CHECK_THAT(said.out, !ContainsSubstring("line 12 ") && !ContainsSubstring("of a case that passes") &&
                           !ContainsSubstring("of rank 0"));
  const std::string kept = text_of(run / "worlds/0/evidence/prints.and_fails[W=2].rank-1.err");
  CHECK_THAT(kept, ContainsSubstring("line 1 of rank 1\n"));
  CHECK_FALSE(std::filesystem::exists(run / "worlds/0/evidence/prints.before_another_case[W=2].rank-1.err"));

  const Said explained = call({"explain", run.string()});
  CHECK(explained.end == code(0));
  CHECK_THAT(explained.out, ContainsSubstring("world 0: FAIL prints/and_fails[W=2]") &&
                                ContainsSubstring("\n  rank 1 printed last (") &&
                                ContainsSubstring("    line 20 of rank 1\n"));
}

TEST_CASE("what ranks print, and the stack of a crash, are not in the stable part of a report") {
  TemporaryDirectory directory;
  std::string stable;
  for (const char* name : {"a", "b"}) {
    const auto run = directory / name;
    call({"run", "prints/and_fails", "crash/writes_to_null", "--worker", trouble_program().string(), "--out",
          run.string()});
    std::string again = call({"stable", (run / "report.json").string()}).out;
    CHECK_THAT(again, ContainsSubstring("crash/writes_to_null") && !ContainsSubstring("crashes::"));
    if (!stable.empty()) CHECK(again == stable);
    stable = std::move(again);
  }
}

TEST_CASE("explain shows the stack of a crash after the sentence that explains it") {
  TemporaryDirectory directory;
  const auto run = directory / "run";
  const Said said =
      call({"run", "crash/writes_to_null", "--worker", trouble_program().string(), "--out", run.string()});
  const std::string sentence = report_of(run).at("worlds").at(0).at("explanation");
  const std::string file = (run / "worlds/0/evidence/rank-1.crash").string();
  for (const std::string& text : {unwrapped(said.out), unwrapped(call({"explain", run.string()}).out)}) {
    CHECK_THAT(text, ContainsSubstring(sentence) && ContainsSubstring("the stack of rank 1 (" + file + "):"));
    CHECK_THAT(text, ContainsSubstring("rank 1, signal 11 (SIGSEGV) at address 0x0, which is not mapped, thread "));
  }
}
