// The output of a program of ranked cases that does not run as one of our ranks.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "harness/protocol/case_info.hpp"
#include "harness/protocol/run_directory.hpp"
#include "tests/runner/world_driver.hpp"

using namespace shardproof;
using namespace shardproof::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string ranked_program = SHARDPROOF_RANKED_PROGRAM;

ProgramEnd run_one(const std::string& path, std::vector<std::string> arguments) {
  return run_program(path, std::move(arguments)).front();
}

std::function<std::map<std::string, std::string>(int)> torchrun(int size, const std::string& job = {}) {
  return [size, job](int rank) {
    std::map<std::string, std::string> variables{{"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(size)}};
    if (!job.empty()) variables["TORCHELASTIC_RUN_ID"] = job;
    return variables;
  };
}

}  // namespace

TEST_CASE("A program lists its cases for a launcher") {
  const auto end = run_one(ranked_program, {"--list-json"});
  REQUIRE(end.exit_code == 0);
  const auto listing = nlohmann::ordered_json::parse(end.output).get<protocol::Listing>();
  CHECK(listing.protocol == protocol::Listing::current_protocol);
  CHECK(listing.suite_version == "0");
  CHECK(listing.build.size() == 40);
  CHECK(listing.subjects.empty());
  const auto find = [&](const std::string& id) {
    return std::ranges::find(listing.cases, id, &protocol::CaseInfo::id);
  };
  const auto measured = find("says/measured[W=2,event=true,n=1]");
  REQUIRE(measured != listing.cases.end());
  CHECK(measured->suite == "says");
  CHECK(measured->params == std::map<std::string, std::string>{{"W", "2"}, {"event", "true"}, {"n", "1"}});
  CHECK(measured->world_size == 2);
  CHECK(measured->tags == std::vector<std::string>{"slow"});
  CHECK(measured->line > 0);
  // No path of the machine that built it.
  CHECK_FALSE(measured->file.starts_with("/"));
  CHECK_THAT(measured->file, ContainsSubstring("ranked_program.cpp"));
  CHECK(find("ends/needs[W=2]")->needs == std::vector<std::string>{"timeline"});
  CHECK(find("threads/asked[W=2]")->on_threads);
  CHECK(find("placed/on_two_hosts[W=4]")->hosts == 2);
  CHECK_FALSE(measured->on_threads);
  CHECK(listing.why_no_threads.empty());
  REQUIRE(listing.seeds.size() == 1);
  CHECK(listing.seeds[0].seed == "test_x.py::test_y");
  CHECK(listing.seeds[0].cases.size() == 4);
}

TEST_CASE("A program started by hand runs its cases through the launcher") {
  const TemporaryDirectory directory;
  const std::string out = (directory.path() / "out of it").string();
  const auto end = run_one(ranked_program, {"ends/passed", "--ranks", "2", "--out", out});
  INFO(end.errors);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.errors, ContainsSubstring("ranked_program: running ranked_program through ") &&
                             ContainsSubstring("/shardproof run --worker " + ranked_program +
                                               " ends/passed --ranks 2 --out '" + out + "'\n"));
  CHECK_THAT(end.output, ContainsSubstring("1 case in 1 world: 1 passed"));
}

TEST_CASE("A program that finds no launcher, or finds itself, says what to do") {
  const auto with = [](const std::string& launcher) {
    return run_program(ranked_program, {}, 1,
                       [&](int) { return std::map<std::string, std::string>{{"SHARDPROOF_LAUNCHER", launcher}}; })
        .front();
  };
  const auto missing = with("/nowhere/shardproof");
  CHECK(missing.exit_code == 3);
  CHECK_THAT(missing.errors, ContainsSubstring("SHARDPROOF_LAUNCHER=/nowhere/shardproof is not a program: set"));
  CHECK(with(ranked_program).exit_code == 3);
  CHECK_THAT(with(ranked_program).errors, ContainsSubstring("is this program, and not the launcher"));
}

TEST_CASE("A rank of another launcher starts no launcher") {
  for (const auto& end : run_program(ranked_program, {"ends/passed"}, 2, torchrun(2))) {
    CHECK(end.exit_code == 2);
    CHECK_THAT(end.errors, ContainsSubstring("of 2: give all ranks --run-dir DIR, or start the program alone"));
  }
}

TEST_CASE("A program's help says what it is and how to run it") {
  CHECK(run_one(ranked_program, {"--help"}).exit_code == 0);
  CHECK_THAT(run_one(ranked_program, {"--help"}).output,
             ContainsSubstring("shardproof run --worker " + ranked_program));
  CHECK_THAT(run_one(ranked_program, {"--help"}).output, ContainsSubstring("--run-dir DIR"));
}

TEST_CASE("Arguments that mean nothing are refused") {
  CHECK(run_one(ranked_program, {"--frobnicate"}).exit_code == 2);
  CHECK_THAT(run_one(ranked_program, {"--frobnicate"}).errors, ContainsSubstring("unknown option --frobnicate"));
  CHECK_THAT(run_one(ranked_program, {"--sed=3"}).errors,
             ContainsSubstring("unknown option --sed=3, closest is --seed"));
  CHECK_THAT(run_one(ranked_program, {"--list-json", "--seed", "3"}).errors, ContainsSubstring("--list-json takes"));
  CHECK_THAT(run_one(ranked_program, {"--run-dir", "x"}).errors,
             ContainsSubstring("the environment names no rank and size") &&
                 ContainsSubstring("start it by one of them, or leave out --run-dir"));
  CHECK_THAT(
      run_one(ranked_program, {"--run-dir", "x", "--fabric", "mpi"}).errors,
      ContainsSubstring("unknown option --fabric; with --run-dir, a program takes --seed, --subject and filters; "
                        "`shardproof run --launcher` has more options"));
}

TEST_CASE("Wrong declarations are named with file and line, all of them, and nothing is run") {
  const auto end = run_one(SHARDPROOF_MISNAMED_PROGRAM, {"--list-json"});
  CHECK(end.exit_code == 2);
  const auto answer = nlohmann::ordered_json::parse(end.output);
  CHECK(answer.at("protocol") == protocol::Listing::current_protocol);
  REQUIRE(answer.at("problems").size() == 2);
  CHECK_THAT(answer.at("problems").at(0).get<std::string>(),
             ContainsSubstring("misnamed_program.cpp:4: a case is named"));
  CHECK(run_one(SHARDPROOF_MISNAMED_PROGRAM, {"--run-dir", "x"}).output.empty());
  CHECK_THAT(end.errors, ContainsSubstring("misnamed_program.cpp:4: a case is named suite/name; \"no_slash\" is not"));
  CHECK_THAT(end.errors,
             ContainsSubstring("misnamed_program.cpp:6: case twice/declared[W=2] exists already, declared at"));
  CHECK_THAT(end.errors, ContainsSubstring("misnamed_program.cpp:5\n"));
}

TEST_CASE("A program with ranked cases refuses a plain TEST_CASE: it would never run") {
  const auto end = run_one(SHARDPROOF_PLAIN_PROGRAM, {"--list-json"});
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.errors, ContainsSubstring("left behind"));
  CHECK_THAT(end.errors, ContainsSubstring("plain_program.cpp:5"));
}

TEST_CASE("Under another launcher ranks are processes, and a case that asks for threads is skipped") {
  const TemporaryDirectory directory;
  const auto run = directory.path() / "run";
  const auto ends =
      run_program(ranked_program, {"--run-dir", run.string(), "threads/asked", "ends/passed"}, 2, torchrun(2));
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    INFO(ends[rank].errors);
    CHECK(ends[rank].exit_code == 0);
    RankRemains remains;
    read_stream(protocol::RunDirectory{run}.world(0).rank_stream(static_cast<int>(rank)), remains);
    REQUIRE(remains.cases.size() == 2);
    const auto& asked = remains.cases[remains.cases[0].id == "threads/asked[W=2]" ? 0 : 1];
    CHECK(asked.id == "threads/asked[W=2]");
    CHECK(asked.outcome == protocol::Outcome::skipped);
    CHECK(asked.reason == "its ranks must be threads of one process, and here they are processes");
  }
}

TEST_CASE("Under another launcher the ranks create the world themselves") {
  const TemporaryDirectory directory;
  const auto run = directory.path() / "run";
  const auto ends = run_program(
      ranked_program, {"--run-dir", run.string(), "--seed", "7", "ends/passed", "ends/thrown"}, 2, torchrun(2));
  const protocol::WorldDirectory world = protocol::RunDirectory{run}.world(0);
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    INFO(ends[rank].errors);
    CHECK(ends[rank].exit_code == 0);
    RankRemains remains;
    read_stream(world.rank_stream(static_cast<int>(rank)), remains);
    CHECK(remains.ended);
    REQUIRE(remains.cases.size() == 2);
    CHECK(remains.cases[0].outcome == protocol::Outcome::passed);
    CHECK(remains.cases[1].outcome == (rank == 1 ? protocol::Outcome::error : protocol::Outcome::released));
  }
  std::ifstream file(world.plan());
  const auto plan = nlohmann::ordered_json::parse(file).get<protocol::WorldPlan>();
  CHECK(plan.seed == 7);
  CHECK(plan.cases == std::vector<std::string>{"ends/passed[W=2]", "ends/thrown[W=2]"});
  CHECK_FALSE(std::filesystem::exists(plan.rendezvous));
  CHECK(std::filesystem::exists(run / "listing.json"));

  SECTION("a run directory serves once") {
    for (const auto& end : run_program(ranked_program, {"--run-dir", run.string(), "ends/passed"}, 2, torchrun(2))) {
      CHECK(end.exit_code == 3);
      CHECK_THAT(end.errors, ContainsSubstring("a fresh --run-dir"));
    }
  }
}

TEST_CASE("If two jobs start in one directory at once, one runs, and the ranks of the other report the first job") {
  for (int round = 0; round < 10; ++round) {
    INFO(round);
    const TemporaryDirectory directory;
    const auto run = directory.path() / "run";
    const auto start = [&](const std::string& job) {
      return run_program(ranked_program, {"--run-dir", run.string(), "ends/passed"}, 2, torchrun(2, job));
    };
    auto first = std::async(std::launch::async, start, "first");
    auto second = std::async(std::launch::async, start, "second");
    const std::array ends{first.get(), second.get()};
    const std::size_t winner = ends[0][0].exit_code == 0 ? 0 : 1;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      INFO(ends[winner][rank].errors << ends[1 - winner][rank].errors);
      CHECK(ends[winner][rank].exit_code == 0);
      CHECK(ends[1 - winner][rank].exit_code == 3);
      const std::string name = winner == 0 ? "first" : "second";
      CHECK_THAT(ends[1 - winner][rank].errors,
                 ContainsSubstring("or another run uses it now (2 ranks of torchrun, TORCHELASTIC_RUN_ID=" + name));
    }
  }
}

TEST_CASE("A directory that lost its world, but not its meeting, is not used again") {
  const TemporaryDirectory directory;
  const auto run = directory.path() / "run";
  run_program(ranked_program, {"--run-dir", run.string(), "ends/passed"}, 2, torchrun(2));
  std::filesystem::remove_all(run / "worlds");
  const auto ends = run_program(ranked_program, {"--run-dir", run.string(), "ends/passed"}, 2, torchrun(2));
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    CHECK(ends[rank].exit_code == 3);
    CHECK_THAT(ends[rank].errors, ContainsSubstring(fmt::format(
                                      "holds an earlier run, or another run uses it now (rank {}, process", rank)));
  }
}

TEST_CASE(
    "Under somebody else's launcher a filter that selects nothing is every rank's error at once, and uses nothing up") {
  const TemporaryDirectory directory;
  const auto run = directory.path() / "run";
  for (const auto& end : run_program(ranked_program, {"--run-dir", run.string(), "nothing/*"}, 2, torchrun(2))) {
    CHECK(end.exit_code == 2);
    CHECK_THAT(end.errors, ContainsSubstring("\"nothing/*\" matches none"));
  }
  for (const auto& end : run_program(ranked_program, {"--run-dir", run.string(), "ends/passed"}, 7, torchrun(7))) {
    CHECK(end.exit_code == 2);
    CHECK_THAT(end.errors, ContainsSubstring("this program has no case for 7 ranks; it has cases for 1, 2"));
  }
  for (const auto& end : run_program(ranked_program, {"--run-dir", run.string(), "ends/passed"}, 2, torchrun(2)))
    CHECK(end.exit_code == 0);
}

TEST_CASE("Under another launcher every rank reports at once why rank 0 could not create the world") {
  const TemporaryDirectory directory;
  const auto run = directory.path() / "run";
  std::filesystem::create_directories(protocol::RunDirectory{run}.world(0).root);
  for (const auto& end : run_program(ranked_program, {"--run-dir", run.string(), "ends/passed"}, 2, torchrun(2))) {
    CHECK(end.exit_code == 3);
    CHECK_THAT(end.errors, ContainsSubstring("exists: give every run a fresh --run-dir"));
  }
}
