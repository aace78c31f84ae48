// `shardproof run` against ranks that pass, fail, die, hang and refuse: what it says, how it ends, and that nothing
// already done is lost.
#include <fcntl.h>
#include <signal.h>

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sstream>

#include "harness/base/file_descriptor.hpp"
#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Matches;
using Catch::Matchers::StartsWith;

namespace {

/// Processes that the ranks named in their logs.
std::vector<pid_t> pids_in(const std::filesystem::path& logs, const std::string& word) {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator(logs)) {
    std::istringstream text(text_of(entry.path()));
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with(word)) pids.push_back(std::stoi(line.substr(word.size())));
    }
  }
  return pids;
}

}  // namespace

TEST_CASE("cases that pass end with 0 and a whole report") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"good"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(verdicts(directory / "run") == Verdicts{{"good/alone[W=1]", "passed"},
                                                {"good/meets[W=2]", "passed"},
                                                {"good/meets[W=3]", "passed"},
                                                {"good/stays[W=2]", "passed"}});
  const auto report = report_of(directory / "run");
  CHECK(report.at("worlds").size() == 3);
  for (const char* file : {"run.json", "worlds/1/plan.json", "worlds/1/endings.json", "worlds/1/ranks/rank-1.jsonl",
                           "worlds/1/logs/rank-0.err", "worlds/1/evidence"}) {
    CHECK(std::filesystem::exists(directory / "run" / file));
  }
  CHECK(said.out.find('\x1b') == std::string::npos);
  CHECK(said.err.empty());
}

TEST_CASE("the last line has the time of the run, and --slowest lists its slowest cases") {
  TemporaryDirectory directory;
  const auto lines_after = [&](const std::string& name, std::vector<std::string> words) {
    words.insert(words.end(), {"good", "--quiet"});
    return run_trouble(directory / name, words).out;
  };
  CHECK_THAT(lines_after("a", {}), Matches("4 cases in 3 worlds: 4 passed \\(\\d+\\.\\d\\d s\\)\n"));
  CHECK_THAT(lines_after("b", {"--slowest", "2"}),
             Matches("slowest:\n( +[0-9.]+ m?s  good/.*\n){2}4 cases in 3 worlds: 4 passed \\(.*\\)\n"));
  const Said said = run_trouble(directory / "c", {"good", "--slowest", "-1"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("--slowest -1: a whole number from 0 to "));
}

TEST_CASE("a failed check ends with 1, and is shown") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"bad/check", "good/stays"});
  CHECK(said.end == code(1));
  CHECK_THAT(said.out, ContainsSubstring("bad/check[W=2]") && ContainsSubstring("rank.index() == 0"));
  CHECK(verdicts(directory / "run") == Verdicts{{"bad/check[W=2]", "failed"}, {"good/stays[W=2]", "passed"}});
}

TEST_CASE("a rank that dies ends its case as crashed, well before its time is up, and no other case") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"good", "bad/killed", "many", "--timeout", "1000"});
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  const Verdicts seen = verdicts(directory / "run");
  CHECK(seen.at("good/alone[W=1]") == "passed");
  CHECK(seen.at("good/meets[W=2]") == "passed");
  CHECK(seen.at("good/stays[W=2]") == "passed");
  CHECK(seen.at("bad/killed[W=2]") == "crashed");
  CHECK(seen.at("many/rounds[W=2,n=0]") == "passed");
  CHECK(seen.at("good/meets[W=3]") == "passed");
  CHECK(seen.size() == 15);
  CHECK_THAT(said.out, ContainsSubstring("SIGKILL"));
  const auto endings = nlohmann::json::parse(text_of(directory / "run/worlds/1/endings.json"));
  CHECK(endings.at(1).at("how") == "signalled");
  CHECK(endings.at(1).at("code") == SIGKILL);
  CHECK(endings.at(0).at("how") == "stopped");
  const auto plan = nlohmann::json::parse(text_of(directory / "run/worlds/1/plan.json"));
  CHECK_FALSE(std::filesystem::exists(plan.at("rendezvous").get<std::string>()));
}

TEST_CASE("the launcher reports each way in which a rank can die") {
  TemporaryDirectory directory;
  Said said = run_trouble(directory / "segfault", {"bad/segfault"});
  CHECK(said.end == code(4));
  CHECK_THAT(said.out, ContainsSubstring("SIGSEGV"));
  CHECK(verdicts(directory / "segfault") == Verdicts{{"bad/segfault[W=2]", "crashed"}});
  // Also with the codes by which a rank says that its world is not right: inside a case it is the case that exits.
  for (const char* exits : {"bad/exits[W=2,code=0]", "bad/exits[W=2,code=2]", "bad/exits[W=2,code=3]"}) {
    TemporaryDirectory run_directory;
    said = run_trouble(run_directory / "exits", {exits});
    CHECK(said.end == code(4));
    CHECK(verdicts(run_directory / "exits") == Verdicts{{exits, "crashed"}});
  }
}

TEST_CASE("a parent that ignores the ends of children does not hide them from the launcher") {
  TemporaryDirectory directory;
  Setting setting;
  setting.wrapper = {"/usr/bin/env", "--ignore-signal=CHLD"};
  const Said said = run_trouble(directory / "run", {"bad/segfault"}, setting);
  INFO(said.err);
  CHECK(said.end == code(4));
}

TEST_CASE("a case that overruns its time is hung, its rank is killed, its peer is not blamed") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"good/stays", "bad/hangs", "--timeout", "2"});
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  CHECK(verdicts(directory / "run") == Verdicts{{"good/stays[W=2]", "passed"}, {"bad/hangs[W=2]", "hung"}});
  const auto endings = nlohmann::json::parse(text_of(directory / "run/worlds/0/endings.json"));
  CHECK(endings.at(1).at("how") == "overran");
  CHECK(endings.at(0).at("how") == "stopped");
  CHECK_THAT(endings.at(1).at("text").get<std::string>(),
             ContainsSubstring("has been in bad/hangs[W=2] for more than its 2 s"));
}

TEST_CASE("a rank killed from outside in the middle of many cases costs that case alone") {
  TemporaryDirectory directory;
  Setting setting;
  setting.meanwhile = [&](Process&, const auto&) {
    const auto logs = directory / "run/worlds/0/logs";
    REQUIRE(
        eventually([&] { return std::filesystem::exists(logs / "rank-1.err") && pids_in(logs, "here ").size() == 2; }));
    ::kill(pids_in(logs, "here ").back(), SIGKILL);
  };
  const Said said = run_trouble(directory / "run", {"many", "bad/waits", "--repeat", "1"}, setting);
  CHECK(said.end == code(4));
  const Verdicts seen = verdicts(directory / "run");
  CHECK(seen.at("bad/waits[W=2]") == "crashed");
  CHECK(seen.at("many/rounds[W=2,n=9]") == "passed");  // listed behind it
}

TEST_CASE("a rank that cannot join ends with 3 and its own last words") {
  TemporaryDirectory directory;
  Said said = run_trouble(directory / "refuses", {"good/stays"}, {.environment = {"TROUBLE=refuses to join"}});
  CHECK(said.end == code(3));
  CHECK_THAT(said.err, ContainsSubstring("rank 1 ended with exit code 3 before its first case") &&
                           ContainsSubstring("no place for me here"));
  said = run_trouble(directory / "vanishes", {"good/stays"}, {.environment = {"TROUBLE=vanishes"}});
  CHECK(said.end == code(3));
  CHECK_THAT(said.err, ContainsSubstring("rank 1 ended with exit code 0 before its first case"));
  CHECK(verdicts(directory / "vanishes") == Verdicts{{"good/stays[W=2]", "crashed"}});
}

TEST_CASE("a rank that crashes before it joins has crashed") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"good/stays"}, {.environment = {"TROUBLE=crashes early"}});
  CHECK(said.end == code(4));
  CHECK_THAT(said.out, ContainsSubstring("SIGABRT"));
}

TEST_CASE("skips are free until a budget is given") {
  TemporaryDirectory directory;
  CHECK(run_trouble(directory / "free", {"skip/asked[W=2]", "good/stays"}).end == code(0));
  CHECK(run_trouble(directory / "allowed", {"skip/asked[W=2]", "good/stays", "--max-skips", "1"}).end == code(0));
  const Said said = run_trouble(directory / "over", {"skip/asked[W=2]", "good/stays", "--max-skips", "0"});
  CHECK(said.end == code(6));
  CHECK_THAT(said.out, ContainsSubstring("not today"));
}

TEST_CASE("a run whose cases were all skipped ends with the code of --skip-code") {
  TemporaryDirectory directory;
  CHECK(run_trouble(directory / "all", {"skip/asked[W=2]", "--skip-code", "77"}).end == code(77));
  CHECK(run_trouble(directory / "some", {"skip/asked[W=2]", "good/stays", "--skip-code", "77"}).end == code(0));
  CHECK(run_trouble(directory / "over", {"skip/asked[W=2]", "--skip-code", "77", "--max-skips", "0"}).end == code(6));
  const Said said = run_trouble(directory / "taken", {"--skip-code", "6"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("--skip-code") && ContainsSubstring("a whole number from 7 to 125"));
}

TEST_CASE("floods of output and leftover children delay no run") {
  TemporaryDirectory directory;
  const Said said =
      run_trouble(directory / "run", {"loud/floods", "loud/leaves_a_child", "loud/leaves_a_daemon", "loud/forks"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(std::filesystem::file_size(directory / "run/worlds/0/logs/rank-0.err") >= 3'000'000);
  const auto left = pids_in(directory / "run/worlds/0/logs", "child ");
  CHECK(left.size() == 6);
  for (const pid_t child : left) CHECK(has_ended(child));
  for (const char* rank : {"0", "1"})
    CHECK_THAT(said.out, ContainsSubstring(std::string("(trouble_program), started by rank ") + rank +
                                           ", running; the launcher killed it"));
  CHECK_THAT(said.out, ContainsSubstring("(sleep) running; the launcher killed it"));
}

TEST_CASE("the launcher kills the processes that a worker leaves when it lists its cases, too") {
  TemporaryDirectory directory;
  const auto worker = directory / "worker";
  // It waits for its daemon to have a session of its own: before that, the daemon would end with the worker's process
  // group.
  write_text(worker,
             fmt::format("#!/bin/sh\nif [ \"$1\" = --list-json ]; then\n"
                         "  setsid sh -c 'echo $$ >{0}; exec sleep 30' &\n  until [ -s {0} ]; do sleep 0.01; done\nfi\n"
                         "exec {1} \"$@\"\n",
                         (directory / "left").string(), trouble_program().string()));
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const Said said = call({"run", "good/stays", "--worker", worker.string(), "--out", (directory / "run").string()});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK_THAT(said.err, ContainsSubstring("the queried worker left process"));
  CHECK(has_ended(std::stoi(text_of(directory / "left"))));
}

TEST_CASE("leftover processes of ranks are killed also when the end of their world cannot be recorded") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"lies/removes_its_world", "good/stays"});
  INFO(said.out << said.err);
  CHECK(said.end == code(2));
  const auto child = said.out.find("warning: world 0 left process ");
  REQUIRE(child != std::string::npos);
  CHECK(has_ended(std::stoi(said.out.substr(child + 30))));
}

TEST_CASE("ranks ignore what Bazel asks of a test") {
  TemporaryDirectory directory;
  Setting setting;
  setting.environment = {"BAZEL_TEST=1", "TESTBRIDGE_TEST_ONLY=many*",
                         "XML_OUTPUT_FILE=" + (directory / "results.xml").string()};
  const Said said = run_trouble(directory / "run", {"good/stays"}, setting);
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK_FALSE(std::filesystem::exists(directory / "results.xml"));
}

TEST_CASE("an interrupted run releases its ranks, reports what it has, and ends as shells expect") {
  for (const int number : {SIGINT, SIGTERM}) {
    TemporaryDirectory directory;
    Setting setting;
    setting.meanwhile = [&](Process& launcher, const auto&) {
      const auto logs = directory / "run/worlds/1/logs";
      REQUIRE(eventually(
          [&] { return std::filesystem::exists(logs / "rank-1.err") && pids_in(logs, "here ").size() == 2; }));
      ::kill(launcher.pid(), number);
    };
    const Said said = run_trouble(
        directory / "run", {"good/alone", "bad/waits", "good/meets", "--order", "random", "--seed", "1"}, setting);
    INFO(said.out << said.err);
    CHECK(said.end == code(128 + number));
    CHECK_THAT(said.err, ContainsSubstring("interrupted"));
    const Verdicts seen = verdicts(directory / "run");
    CHECK(seen.at("good/alone[W=1]") == "passed");
    CHECK(seen.at("bad/waits[W=2]") == "not_run");  // it was cut short, and no rank is to blame
    CHECK(seen.at("good/meets[W=3]") == "not_run");
    CHECK_THAT(said.out, !ContainsSubstring("ERROR") && !ContainsSubstring("EVIDENCE world 1"));
    const std::string stood = "when the run ended, rank 0 waits in barrier #0 in group world for rank 1";
    CHECK_THAT(said.out, ContainsSubstring("INTERRUPTED world 1: " + stood));
    CHECK_THAT(call({"explain", (directory / "run").string()}).out, StartsWith("world 1: " + stood + "\n"));

    const Said merged = call({"merge", (directory / "run").string()});
    CHECK(merged.end != code(0));
    CHECK(verdicts(directory / "run") == seen);
    for (const pid_t rank : pids_in(directory / "run/worlds/1/logs", "here "))
      CHECK(eventually([&] { return has_ended(rank); }));
  }
}

TEST_CASE("ranks do not outlive a launcher that is killed, and a merge makes its report") {
  TemporaryDirectory directory;
  Setting setting;
  setting.meanwhile = [&](Process& launcher, const auto&) {
    const auto logs = directory / "run/worlds/1/logs";
    REQUIRE(
        eventually([&] { return std::filesystem::exists(logs / "rank-1.err") && pids_in(logs, "here ").size() == 2; }));
    ::kill(launcher.pid(), SIGKILL);
  };
  const Said said = run_trouble(directory / "run", {"good/alone", "bad/waits"}, setting);
  CHECK(said.end == Exit{.signalled = true, .code = SIGKILL});
  for (const pid_t rank : pids_in(directory / "run/worlds/1/logs", "here "))
    CHECK(eventually([&] { return has_ended(rank); }));
  CHECK_FALSE(std::filesystem::exists(directory / "run/report.json"));
  const Said explained = call({"explain", (directory / "run").string()});
  CHECK(explained.end == code(5));
  CHECK_THAT(explained.out, ContainsSubstring("world 1: no process saw how its ranks ended\n"));

  const Said merged = call({"merge", (directory / "run").string()});
  INFO(merged.out << merged.err);
  CHECK(merged.end != code(0));
  CHECK(verdicts(directory / "run").at("good/alone[W=1]") == "passed");
  CHECK(verdicts(directory / "run").at("bad/waits[W=2]") != "passed");
  for (const Said& said_then : {explained, call({"explain", (directory / "run").string()})})
    CHECK_THAT(unwrapped(said_then.out),
               ContainsSubstring("world 1: rank 0 has a stream without an end (it stops in bad/waits[W=2]), and"));
}

TEST_CASE("merge takes a run, and not one of its worlds") {
  TemporaryDirectory directory;
  REQUIRE(run_trouble(directory / "run", {"good/alone"}).end == code(0));
  const std::string world = (directory / "run/worlds/0").string();
  const Said said = call({"merge", world});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring(world + " is a world of a run; name the directory of the run, " +
                                         (directory / "run").string() + "\n"));
}

TEST_CASE("a merge misses a world that was planned and is not there") {
  TemporaryDirectory directory;
  REQUIRE(run_trouble(directory / "run", {"good"}).end == code(0));
  const Verdicts seen = verdicts(directory / "run");
  std::filesystem::remove_all(directory / "run/worlds/1");
  const Said merged = call({"merge", (directory / "run").string()});
  CHECK(merged.end != code(0));
  CHECK_THAT(unwrapped(merged.out), ContainsSubstring("EVIDENCE world 1: nothing of it can be read: its ranks never "
                                                      "started, or its folder is lost\n"));
  CHECK(merged.out.find("\nworld 1: ") < merged.out.find("\nworld 2: "));
  CHECK_THAT(merged.out, EndsWith("report: " + (directory / "run/report.json").string() + "\n"));
  CHECK(verdicts(directory / "run").size() == seen.size());
}

TEST_CASE("ranks that another launcher started are merged") {
  TemporaryDirectory directory;
  {
    const base::FileDescriptor null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    std::vector<Process> ranks;
    for (const char* rank : {"RANK=0", "RANK=1"}) {
      ranks.push_back(Process::spawn({.program = trouble_program(),
                                      .arguments = {"--run-dir", (directory / "run").string(), "good"},
                                      .environment = {rank, "WORLD_SIZE=2"},
                                      .standard_output = null.get(),
                                      .standard_error = null.get()}));
    }
    for (Process& rank : ranks) CHECK(rank.wait(std::chrono::steady_clock::now() + std::chrono::minutes(1)) == code(0));
  }
  const Said merged = call({"merge", (directory / "run").string(), "--worker", trouble_program().string()});
  INFO(merged.out << merged.err);
  CHECK(merged.end == code(0));
  CHECK(verdicts(directory / "run") == Verdicts{{"good/meets[W=2]", "passed"}, {"good/stays[W=2]", "passed"}});
}

TEST_CASE("repeat, order and shard choose what is run") {
  TemporaryDirectory directory;
  CHECK(run_trouble(directory / "repeat", {"good/stays", "--repeat", "3"}).end == code(0));
  CHECK(report_of(directory / "repeat").at("cases").size() == 3);

  CHECK(run_trouble(directory / "first", {"many", "--order", "random", "--seed", "7"}).end == code(0));
  CHECK(run_trouble(directory / "second", {"many", "--order", "random", "--seed", "7"}).end == code(0));
  const auto order = [&](const char* name) {
    return nlohmann::json::parse(text_of(directory / name / "worlds/0/plan.json")).at("cases");
  };
  CHECK(order("first") == order("second"));
  CHECK(order("first").front() != "many/rounds[W=2,n=0]");

  Verdicts together;
  for (const char* part : {"1/3", "2/3", "3/3"}) {
    const auto out = directory / ("shard" + std::string(part).substr(0, 1));
    CHECK(run_trouble(out, {"many", "good", "--shard", part}).end == code(0));
    together.merge(verdicts(out));
  }
  CHECK(together.size() == 14);
}

TEST_CASE("two runs of one seed have no difference") {
  TemporaryDirectory directory;
  REQUIRE(run_trouble(directory / "a", {"good", "--seed", "7"}).end == code(0));
  REQUIRE(run_trouble(directory / "b", {"good", "--seed", "7"}).end == code(0));
  const auto diff = [](const std::filesystem::path& a, const std::filesystem::path& b) {
    return call({"diff", a.string(), b.string(), "--json"});
  };
  CHECK(diff(directory / "a", directory / "b/report.json").end == code(0));
  // Without a case that was there before, something got worse.
  REQUIRE(run_trouble(directory / "c", {"good/stays", "--seed", "7"}).end == code(0));
  const Said worse = diff(directory / "a", directory / "c");
  CHECK(worse.end == code(1));
  CHECK_THAT(worse.out, ContainsSubstring("removed_case") && ContainsSubstring("good/alone[W=1]"));
}

TEST_CASE("more runs than fit are refused before they are laid out") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"many", "--repeat", "1000000"});
  CHECK(said.end == code(2));
  CHECK(said.err ==
        "shardproof: --repeat 1000000: 10 cases as often are more than the 5000000 that one run may hold; use several "
        "runs\n");
  CHECK_FALSE(std::filesystem::exists(directory / "run"));
}

TEST_CASE("the run prints a seed that it drew, however quiet the run") {
  TemporaryDirectory directory;
  const Said drawn = run_trouble(directory / "drawn", {"many", "-q", "--order", "random"});
  const std::string seed = report_of(directory / "drawn").at("run").at("seed").dump();
  CHECK_THAT(drawn.out, ContainsSubstring("seed " + seed + "\n"));
  CHECK_THAT(run_trouble(directory / "given", {"many", "-q", "--order", "random", "--seed", "7"}).out,
             !ContainsSubstring("seed"));
}

TEST_CASE("quiet says little, verbose says every case, colour comes when asked for") {
  TemporaryDirectory directory;
  const Said quiet = run_trouble(directory / "quiet", {"good", "-q"});
  const Said verbose = run_trouble(directory / "verbose", {"good", "-v", "--color", "always"});
  CHECK(std::count(quiet.out.begin(), quiet.out.end(), '\n') == 1);
  CHECK_THAT(verbose.out, ContainsSubstring("good/meets[W=3]") && ContainsSubstring("\x1b["));
}
