// `run --fabric thread`: the same verdicts as ranks that are processes have, one seed one interleaving, and the truth
// about a process that is all ranks when it dies or stands still.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

namespace {

constexpr char ranked_program[] = SHARDPROOF_RANKED_PROGRAM;
constexpr char threaded_program[] = SHARDPROOF_THREADED_PROGRAM;

Said run(const std::filesystem::path& out, const std::filesystem::path& worker, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), {"--worker", worker.string(), "--out", out.string()});
  return call(arguments);
}

Said run_threads(const std::filesystem::path& out, const std::filesystem::path& worker,
                 std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--fabric", "thread"});
  return run(out, worker, std::move(arguments));
}

std::string stable(const std::filesystem::path& run_directory) {
  const Said said = call({"stable", run_directory.string()});
  REQUIRE(said.end == code(0));
  return said.out;
}

std::string without_fabric(std::string text) {
  for (const std::string name : {R"("fabric": "shm")", R"("fabric": "thread")"}) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at))
      text.replace(at, name.size(), "fabric");
  }
  return text;
}

/// The line of a case in the record of turns.
std::string turns_of(const std::filesystem::path& world, const std::string& id) {
  const std::string text = text_of(world / "turns");
  const std::size_t begin = text.find(id + ":");
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, text.find('\n', begin) - begin);
}

/// By case id.
Verdicts fabrics(const std::filesystem::path& run_directory) {
  Verdicts result;
  const auto report = report_of(run_directory);
  for (const auto& one : report.at("cases"))
    result[one.at("id")] = report.at("worlds").at(one.at("world").get<std::size_t>()).at("fabric");
  return result;
}

/// The outcome of the only case on each rank.
std::vector<std::string> outcomes(const std::filesystem::path& run_directory, const std::string& id) {
  std::vector<std::string> result;
  const auto report = report_of(run_directory);
  for (const auto& one : report.at("cases")) {
    if (one.at("id") != id) continue;
    for (const auto& rank : one.at("ranks")) result.push_back(rank.at("outcome"));
  }
  return result;
}

}  // namespace

TEST_CASE("ranks that are threads fail, throw, skip and are released as processes are") {
  TemporaryDirectory directory;
  // Not those whose ranks end their process, or wait for each other by other means than the harness.
  const std::vector<std::string> arguments{"mine",          "says",        "ends/passed", "ends/failed*",
                                           "ends/require*", "ends/thrown", "ends/s*",     "ends/u*",
                                           "ends/g*",       "ends/n*",     "ends/d*",     "ends/mismatch"};
  CHECK(run(directory / "processes", ranked_program, arguments).end == code(1));
  const std::string expected = without_fabric(stable(directory / "processes"));
  CHECK(report_of(directory / "processes").at("cases").size() > 20);
  for (const std::string scheduler : {"seeded", "free"}) {
    INFO(scheduler);
    std::vector<std::string> with_scheduler = arguments;
    with_scheduler.insert(with_scheduler.end(), {"--scheduler", scheduler});
    CHECK(run_threads(directory / scheduler, ranked_program, with_scheduler).end == code(1));
    CHECK(without_fabric(stable(directory / scheduler)) == expected);
  }
}

TEST_CASE("a failure has only its own rank's scoped messages, though other ranks assert at the same time") {
  TemporaryDirectory directory;
  run(directory / "processes", threaded_program, {"talk"});
  const std::string expected = without_fabric(stable(directory / "processes"));
  CHECK_THAT(expected, !ContainsSubstring("out of scope"));
  CHECK_THAT(expected, ContainsSubstring("with the next assertion of rank 1") && ContainsSubstring("on its way out"));
  for (const std::string seed : {"1", "2", "3", "4", "5"}) {
    run_threads(directory / seed, threaded_program,
                {"talk", "--seed", "0", "--scheduler", seed == "5" ? "free" : "seeded"});
    CHECK(without_fabric(stable(directory / seed)) == expected);
  }
}

TEST_CASE("one seed is one interleaving and one report; a case's interleaving is its own, whatever ran before") {
  TemporaryDirectory directory;
  for (const char* name : {"first", "second"})
    CHECK(run_threads(directory / name, trouble_program(), {"good", "many", "--seed", "7"}).end == code(0));
  CHECK(stable(directory / "first") == stable(directory / "second"));
  for (const char* world : {"worlds/0/turns", "worlds/1/turns", "worlds/2/turns"}) {
    CHECK_FALSE(text_of(directory / "first" / world).empty());
    CHECK(text_of(directory / "first" / world) == text_of(directory / "second" / world));
  }
  run_threads(directory / "alone", trouble_program(), {"many/rounds[W=2,n=5]", "many/rounds[W=2,n=6]", "--seed", "7"});
  const std::string id = "many/rounds[W=2,n=5]";
  CHECK(turns_of(directory / "alone/worlds/0", id) == turns_of(directory / "first/worlds/1", id));
  run_threads(directory / "other", trouble_program(), {"good", "many", "--seed", "8"});
  CHECK(text_of(directory / "first/worlds/1/turns") != text_of(directory / "other/worlds/1/turns"));
}

TEST_CASE("some seed finds a deadlock that needs a certain order of ranks, and finds it again") {
  TemporaryDirectory directory;
  std::set<std::string> seen;
  std::string guilty;
  for (int seed = 1; seed <= 20 && seen.size() < 2; ++seed) {
    const std::string text = std::to_string(seed);
    run_threads(directory / text, threaded_program, {"order/circle", "--seed", text});
    const std::string verdict = verdicts(directory / text).at("order/circle[W=2]");
    seen.insert(verdict);
    if (verdict == "error") guilty = text;
  }
  CHECK(seen == std::set<std::string>{"error", "passed"});
  const Said again = run_threads(directory / "again", threaded_program, {"order/circle", "--seed", guilty});
  CHECK(stable(directory / "again") == stable(directory / guilty));
  CHECK(text_of(directory / "again/worlds/0/turns") == text_of(directory / guilty / "worlds/0/turns"));
  CHECK_THAT(again.out, ContainsSubstring("every rank waits and no rank can continue") &&
                            ContainsSubstring("in group a") && ContainsSubstring("in group b") &&
                            ContainsSubstring("--seed " + guilty));
  // Processes share no counter: each rank takes itself for the first.
  CHECK(run(directory / "processes", threaded_program, {"order/circle"}).end == code(0));
}

TEST_CASE(
    "of a process that dies, the rank that had the turn is crashed, the others are released, and the run goes on") {
  TemporaryDirectory directory;
  const std::string ids[] = {"bad/segfault[W=2]", "bad/killed[W=2]", "bad/exits[W=2,code=0]", "bad/exits[W=2,code=3]"};
  const Said said = run_threads(directory / "run", trouble_program(),
                                {ids[0], ids[1], ids[2], ids[3], "good/stays", "--timeout", "1000"});
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  for (const std::string& id : ids) {
    CHECK(verdicts(directory / "run").at(id) == "crashed");
    CHECK(outcomes(directory / "run", id) == std::vector<std::string>{"released", "crashed"});
  }
  CHECK(verdicts(directory / "run").at("good/stays[W=2]") == "passed");
  CHECK_THAT(
      said.out,
      ContainsSubstring(
          "the process of all ranks died by signal 11 (SIGSEGV) while rank 1 was running, in bad/segfault[W=2]"));
  CHECK_THAT(said.out, ContainsSubstring("the process of all ranks exited with code 3 while rank 1 was running"));
}

TEST_CASE("where ranks run freely, any rank that did not wait may have ended the process") {
  TemporaryDirectory directory;
  const Said said =
      run_threads(directory / "run", trouble_program(), {"bad/segfault", "--scheduler", "free", "--timeout", "1000"});
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  CHECK(outcomes(directory / "run", "bad/segfault[W=2]").at(1) == "crashed");
  CHECK_THAT(said.out, ContainsSubstring("the process of all ranks died by signal 11 (SIGSEGV)"));
}

TEST_CASE("in a hung process, the rank that has the turn, or does not wait, is hung") {
  TemporaryDirectory directory;
  for (const std::string scheduler : {"seeded", "free"}) {
    INFO(scheduler);
    const Said said = run_threads(directory / scheduler, trouble_program(),
                                  {"bad/hangs", "good/stays", "--timeout", "1", "--scheduler", scheduler});
    INFO(said.out << said.err);
    CHECK(said.end == code(4));
    CHECK(outcomes(directory / scheduler, "bad/hangs[W=2]") == std::vector<std::string>{"released", "hung"});
    CHECK(verdicts(directory / scheduler).at("good/stays[W=2]") == "passed");
  }
}

TEST_CASE("a rank without the turn is not to blame, whatever it was about to do") {
  TemporaryDirectory directory;
  for (const std::string seed : {"1", "2", "3"}) {
    INFO("seed " << seed);
    run_threads(directory / seed, threaded_program, {"stand/still", "--timeout", "0.5", "--seed", seed});
    CHECK(outcomes(directory / seed, "stand/still[W=4]") ==
          std::vector<std::string>{"released", "hung", "released", "released"});
  }
}

TEST_CASE("a rank that waits while another one computes is not late, where they take turns") {
  TemporaryDirectory directory;
  CHECK(run_threads(directory / "run", threaded_program, {"slow/computes", "--timeout", "1"}).end == code(0));
}

TEST_CASE("all ranks of a process share one log, under each one's name") {
  TemporaryDirectory directory;
  run_threads(directory / "run", trouble_program(), {"loud/leaves_a_child"});
  const std::filesystem::path logs = directory / "run/worlds/0/logs";
  CHECK_THAT(text_of(logs / "rank-0.err"), ContainsSubstring("child"));
  CHECK(text_of(logs / "rank-1.err") == text_of(logs / "rank-0.err"));
}

TEST_CASE("128 ranks fit into a process, and not one more") {
  TemporaryDirectory directory;
  CHECK(run_threads(directory / "largest", threaded_program, {"size/largest"}).end == code(0));
  const Said said = run_threads(directory / "too_large", threaded_program, {"size"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err,
             ContainsSubstring(
                 "size/too_large[W=129] has 129 ranks, and one process has 128 at most; --ranks selects world sizes"));
}

TEST_CASE("an assertion in a thread that is no rank's says so before it ends the process") {
  TemporaryDirectory directory;
  const Said said = run_threads(directory / "run", threaded_program, {"thread/of_its_own"});
  CHECK(said.end == code(4));
  CHECK_THAT(said.out, ContainsSubstring("a Catch2 assertion or message outside a rank's thread"));
}

TEST_CASE("a scheduler is for ranks that are threads") {
  TemporaryDirectory directory;
  const auto refuses = [&](const std::filesystem::path& worker, const std::vector<std::string>& arguments) {
    const Said said = run(directory / "run", worker, arguments);
    CHECK(said.end == code(2));
    CHECK_THAT(said.err, ContainsSubstring("--scheduler free: ranks are scheduled with --fabric thread only"));
  };
  refuses(trouble_program(), {"--scheduler", "free"});
  refuses(threaded_program, {"--scheduler", "free", "--fabric", "shm"});
  const std::vector<std::string> arguments{"asked/one_memory", "talk/much", "--scheduler", "free"};
  CHECK(run(directory / "freely", threaded_program, arguments).end == code(0));
  CHECK(fabrics(directory / "freely").at("talk/much[W=4,round=1]") == "shm");
  CHECK(std::filesystem::exists(directory / "freely/worlds/0/ranks"));
  for (const auto& world : std::filesystem::directory_iterator(directory / "freely/worlds"))
    CHECK_FALSE(std::filesystem::exists(world.path() / "turns"));
}

TEST_CASE("a run of processes makes worlds of threads for the cases that ask for them") {
  TemporaryDirectory directory;
  const Said said = run(directory / "run", threaded_program, {"asked/one_memory", "talk/much", "order", "--isolate"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(fabrics(directory / "run") == Verdicts{{"asked/one_memory[W=128]", "thread"},
                                               {"asked/one_memory[W=2]", "thread"},
                                               {"asked/one_memory[W=8]", "thread"},
                                               {"order/circle[W=2]", "shm"},
                                               {"talk/much[W=4,round=1]", "shm"},
                                               {"talk/much[W=4,round=2]", "shm"},
                                               {"talk/much[W=4,round=3]", "shm"}});
  CHECK_THAT(said.out, ContainsSubstring("128 ranks on threads, 1 case"));
  CHECK_THAT(call({"list", "--worker", threaded_program, "asked/fails", "beside"}).out,
             ContainsSubstring("asked/fails[W=2]    on threads\n") && ContainsSubstring("beside/fails[W=3]\n"));
}

TEST_CASE("a printed command reproduces a failed case of threads, and a rerun runs cases where they ran") {
  TemporaryDirectory directory;
  std::string guilty;
  std::string command;
  for (int seed = 1; seed <= 20 && guilty.empty(); ++seed) {
    const std::string text = std::to_string(seed);
    const Said said =
        run(directory / text, threaded_program, {"asked/circle", "--seed", text, "--scheduler", "seeded"});
    if (said.end == code(0)) continue;
    guilty = text;
    command = said.out.substr(said.out.find("  again: ") + 9);
    command = command.substr(0, command.find('\n'));
  }
  CHECK_THAT(command,
             EndsWith("run 'asked/circle[W=2]' --seed " + guilty + " --scheduler seeded --worker " + threaded_program));
  run(directory / "again", threaded_program, {"asked/circle[W=2]", "--seed", guilty, "--scheduler", "seeded"});
  CHECK(stable(directory / "again") == stable(directory / guilty));
  CHECK(text_of(directory / "again/worlds/0/turns") == text_of(directory / guilty / "worlds/0/turns"));

  const std::vector<std::string> both{"asked/fails", "beside/fails", "--retries", "1", "--scheduler", "free"};
  const Said failed = run(directory / "failed", threaded_program, both);
  CHECK(failed.end == code(1));
  CHECK_THAT(failed.out, ContainsSubstring("2 ranks on threads, 1 case, attempt 2, 1 failed"));
  CHECK_THAT(failed.out, ContainsSubstring("run 'asked/fails[W=2]' --seed 0 --scheduler free --worker") &&
                             ContainsSubstring("run 'beside/fails[W=3]' --seed 0 --worker"));
  // The world of threads, which is the first one, must not make threads of all.
  const Said rerun =
      call({"run", "--worker", threaded_program, "--rerun-failed", directory / "failed", "--out", directory / "rerun"});
  INFO(rerun.out << rerun.err);
  CHECK(rerun.end == code(1));
  const Verdicts as_before{{"asked/fails[W=2]", "thread"}, {"beside/fails[W=3]", "shm"}};
  CHECK(fabrics(directory / "failed") == as_before);
  CHECK(fabrics(directory / "rerun") == as_before);
}

TEST_CASE(
    "where ranks are processes by the user's own word, or on GPUs, cases that ask for threads are skipped and "
    "counted") {
  TemporaryDirectory directory;
  const auto skips = [&](const std::string& name, const std::string& why, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "asked");
    const Said said = run(directory / name, threaded_program, arguments);
    INFO(said.out << said.err);
    CHECK(said.end == code(0));
    CHECK_THAT(said.out, ContainsSubstring(why) && ContainsSubstring("5 skipped"));
    CHECK(verdicts(directory / name).at("asked/one_memory[W=128]") == "skipped");
    CHECK_FALSE(std::filesystem::exists(directory / name / "worlds/0"));
    arguments.insert(arguments.end(), {"--max-skips", "4"});
    CHECK(run(directory / (name + " strictly"), threaded_program, arguments).end == code(6));
  };
  const std::string asked = "its ranks must be threads of one process: ";
  skips("shm", asked + "--fabric shm makes them processes", {"--fabric", "shm"});
  skips("cuda", asked + "ranks on GPUs are processes", {"--device", "cuda", "--backend", SHARDPROOF_CPU_BACKEND});
}
