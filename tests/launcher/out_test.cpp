// `--out`, `--overwrite` and the link to the latest run, as a user sees them.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// `shardproof run` of the troubled program, in this directory.
Said run_in(const std::filesystem::path& directory, const std::vector<std::string>& arguments, Setting setting = {}) {
  std::vector<std::string> all{"run", "--worker", trouble_program().string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  setting.prelude = "cd '" + directory.string() + "';";
  return call(all, setting);
}

}  // namespace

TEST_CASE("an earlier run is replaced, however it ended") {
  TemporaryDirectory directory;
  const auto out = directory / "run";
  // A crash, and a hang with its evidence.
  CHECK(run_trouble(out, {"good", "bad/segfault", "bad/hangs", "--timeout", "1", "--trace"}).end == code(4));
  CHECK_THAT(run_trouble(out, {"good/alone"}).err, ContainsSubstring("it holds an earlier run"));
  CHECK(std::filesystem::exists(out / "worlds/1"));
  CHECK(run_trouble(out, {"good/alone", "--overwrite"}).end == code(0));
  CHECK(verdicts(out) == Verdicts{{"good/alone[W=1]", "passed"}});
  CHECK_FALSE(std::filesystem::exists(out / "worlds/1"));

  // Ranks that are threads share their logs by links.
  for (int round = 0; round < 2; ++round)
    CHECK(run_trouble(out, {"good", "--fabric", "thread", "--overwrite"}).end == code(0));
  CHECK(run_trouble(out, {"good/alone", "--overwrite"}).end == code(0));

  write_text(out / "notes.txt", "mine");
  const Said said = run_trouble(out, {"good/alone", "--overwrite"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("shardproof did not write " + (out / "notes.txt").string()));
  CHECK(verdicts(out).size() == 1);
}

TEST_CASE("a run in progress is not replaced, and a run whose launcher was killed is replaced") {
  TemporaryDirectory directory;
  const auto out = directory / "run";
  Setting setting;
  setting.meanwhile = [&](Process& launcher, const auto&) {
    REQUIRE(eventually([&] { return text_of(out / "worlds/0/logs/rank-1.err").find("here ") != std::string::npos; }));
    const Said second = run_trouble(out, {"good/alone", "--overwrite"});
    CHECK(second.end == code(2));
    CHECK_THAT(second.err, ContainsSubstring("another shardproof command is writing to it"));
    const Said merged = call({"merge", out.string()});
    CHECK(merged.end == code(2));
    CHECK(merged.out.empty());
    CHECK(merged.err == "shardproof: output unusable: " + out.string() +
                            ": another shardproof command is writing to it: wait for its end\n");
    ::kill(launcher.pid(), SIGKILL);
  };
  run_trouble(out, {"bad/waits"}, setting);
  CHECK_FALSE(std::filesystem::exists(out / "report.json"));
  CHECK(call({"merge", out.string()}).end != code(2));
  CHECK(run_trouble(out, {"good/alone", "--overwrite"}).end == code(0));
}

TEST_CASE("every command that keeps its output can replace it") {
  TemporaryDirectory directory;
  const std::string out = directory / "out", scenario = directory / "scenario.json";
  const auto explore = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{
        "explore", "--worker", SHARDPROOF_FICKLE_PROGRAM, "--subject", "steady,fickle", "--ranks", "1", "--rounds", "1",
        "--out",   out};
    all.insert(all.end(), more.begin(), more.end());
    return call(all, {.environment = {"FICKLE_MARK=" + (directory / "mark").string()}}).end;
  };
  CHECK(explore({}) == code(1));
  CHECK(explore({}) == code(2));
  std::filesystem::copy_file(out + "/differences/1/scenario.json", scenario);
  CHECK(explore({"--overwrite"}) == code(0));
  CHECK_FALSE(std::filesystem::exists(out + "/differences"));

  const auto play = [&](const std::string& document, const std::string& subject, const std::vector<std::string>& more) {
    std::vector<std::string> all{
        "play", document, "--worker", SHARDPROOF_FICKLE_PROGRAM, "--subject", subject, "--ranks", "1", "--out", out};
    all.insert(all.end(), more.begin(), more.end());
    return call(all);
  };
  CHECK(play(scenario, "steady", {}).end == code(2));
  CHECK(play(scenario, "steady", {"--overwrite", "--trace", out + "/mine.json"}).end == code(1));
  write_text(out + "/mine.json", "");
  CHECK(play(scenario, "steady,fickle", {"--overwrite"}).end == code(0));
  CHECK_FALSE(std::filesystem::exists(out + "/mine.json"));
  std::filesystem::copy_file(scenario, out + "/explored.json");
  CHECK_THAT(play(out + "/explored.json", "steady", {"--overwrite"}).err, ContainsSubstring("explored.json is in it"));
  CHECK(run_trouble(out, {"good/alone", "--overwrite"}).end == code(0));
}

TEST_CASE("a trace takes no place of the run's own files") {
  TemporaryDirectory directory;
  const std::string out = directory / "out", scenario = directory / "scenario.json";
  const auto play = [&](const std::string& trace) {
    return call({"play", scenario, "--worker", SHARDPROOF_FICKLE_PROGRAM, "--subject", "steady", "--ranks", "1",
                 "--out", out, "--trace", trace});
  };
  write_text(scenario, "{}");
  std::filesystem::create_directory(directory / "real");
  std::filesystem::create_directory_symlink("real", directory / "link");
  for (const char* name : {"report.json", "run.json.new", ".shardproof-output", "worlds", "worlds/0/t.json",
                           "mine/t.json", "", "x/../run.json", "../link/../out/plan.json"}) {
    INFO(name);
    const Said said = play(out + "/" + name);
    CHECK(said.end == code(2));
    CHECK(said.err == "shardproof: output unusable: " + out + "/" + name +
                          ": the run keeps its own files there: write --trace " + out +
                          "/trace.json, or name a file outside " + out + "\n");
    CHECK_FALSE(std::filesystem::exists(out));
  }
}

TEST_CASE("a played failure names evidence where it is kept, and else the option that keeps it") {
  TemporaryDirectory directory;
  const std::string out = directory / "out", scenario = directory / "scenario.json";
  CHECK(call({"explore", "--worker", SHARDPROOF_FICKLE_PROGRAM, "--subject", "steady,fickle", "--ranks", "1",
              "--rounds", "1", "--out", out},
             {.environment = {"FICKLE_MARK=" + (directory / "mark").string()}})
            .end == code(1));
  std::filesystem::copy_file(out + "/differences/1/scenario.json", scenario);
  const auto play = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"play",      scenario, "--worker", SHARDPROOF_FICKLE_PROGRAM,
                                 "--subject", "steady", "--ranks",  "1"};
    all.insert(all.end(), more.begin(), more.end());
    const Said said = call(all, {.environment = {"FICKLE_ABORTS=yes"}});
    CHECK(said.end == code(4));
    return said.out;
  };
  CHECK_THAT(play({}), ContainsSubstring("  evidence: deleted with the run; --out DIRECTORY keeps it\n") &&
                           !ContainsSubstring("worlds/0"));
  const std::string kept = directory / "kept";
  CHECK_THAT(play({"--out", kept}), ContainsSubstring("  evidence: " + kept + "/worlds/0/evidence\n"));
  CHECK(std::filesystem::exists(kept + "/worlds/0/evidence"));
}

TEST_CASE("a run may go through the link to the latest run, and replace the folder of the link") {
  TemporaryDirectory directory;
  CHECK(run_in(directory.path(), {"good/alone"}).end == code(0));
  const auto first = std::filesystem::canonical(directory / "shardproof-out/latest");
  CHECK(run_in(directory.path(), {"good/alone", "--out", "shardproof-out/latest/sub"}).end == code(0));
  CHECK(verdicts(first / "sub") == Verdicts{{"good/alone[W=1]", "passed"}});
  CHECK(std::filesystem::canonical(directory / "shardproof-out/latest") == first / "sub");

  std::filesystem::remove_all(directory / "shardproof-out");
  CHECK(run_in(directory.path(), {"good/alone", "--out", "shardproof-out"}).end == code(0));
  CHECK(run_in(directory.path(), {"good/alone"}).end == code(0));
  CHECK(run_in(directory.path(), {"good/alone", "--out", "shardproof-out", "--overwrite"}).end == code(0));
  CHECK_FALSE(std::filesystem::is_symlink(directory / "shardproof-out/latest"));
}

TEST_CASE("the link leads to the latest run, however the run ended and wherever it is") {
  TemporaryDirectory directory;
  const auto latest = directory / "shardproof-out/latest";
  CHECK(run_in(directory.path(), {"good/alone", "--out", "first"}).end == code(0));
  CHECK_FALSE(std::filesystem::exists(directory / "shardproof-out"));
  CHECK(run_in(directory.path(), {"good/alone"}).end == code(0));
  CHECK(verdicts(latest) == Verdicts{{"good/alone[W=1]", "passed"}});
  CHECK(run_in(directory.path(), {"bad/segfault"}).end == code(4));
  CHECK(verdicts(latest) == Verdicts{{"bad/segfault[W=2]", "crashed"}});
  CHECK(run_in(directory.path(), {"good/stays"}, {.environment = {"TROUBLE=vanishes"}}).end == code(3));
  CHECK(verdicts(latest) == Verdicts{{"good/stays[W=2]", "crashed"}});
  CHECK(run_in(directory.path(), {"good/alone", "--out", "first", "--overwrite"}).end == code(0));
  CHECK(std::filesystem::canonical(latest) == std::filesystem::canonical(directory / "first"));

  // A command that makes no run leaves the link alone.
  CHECK(run_in(directory.path(), {"good/none"}).end == code(2));
  CHECK(run_in(directory.path(), {"good/alone", "--out", "first"}).end == code(2));
  CHECK(std::filesystem::canonical(latest) == std::filesystem::canonical(directory / "first"));

  Setting setting;
  setting.meanwhile = [&](Process& launcher, const auto&) {
    REQUIRE(
        eventually([&] { return text_of(latest / "worlds/0/logs/rank-1.err").find("here ") != std::string::npos; }));
    ::kill(launcher.pid(), SIGTERM);
  };
  CHECK(run_in(directory.path(), {"bad/waits"}, setting).end == code(128 + SIGTERM));
  CHECK(verdicts(latest) == Verdicts{{"bad/waits[W=2]", "not_run"}});
}
