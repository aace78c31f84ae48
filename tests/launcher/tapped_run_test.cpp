// Runs under the tap. Every rank's record is kept, and faults reach the calls that they name. For a kept run, `explain`
// shows the last NCCL calls of its ranks, and where they differ.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "harness/protocol/nccl_record.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/nccl_tap.hpp"
#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

TEST_CASE("a list of faults that cannot be read is a wrong command line, before a worker is asked") {
  const Said said = call({"run", "--worker", "/nowhere", "--nccl-faults", "drop all_reduce#1; drip broadcast"});
  CHECK(said.end == code(2));
  CHECK(said.err ==
        "shardproof: --nccl-faults: fault 2 of the list, `drip broadcast`: `drip` is not an action; write delay, "
        "stall, drop, fail or swap\n");
}

TEST_CASE("a program that cannot be preloaded is refused with the reason") {
  const TemporaryDirectory directory;
  const auto program = directory / "program";
  CHECK(why_not_preloadable("/lib/tap.so", "/bin/sh").empty());
  write_text(program, "#!/bin/sh\n");
  CHECK(why_not_preloadable("/lib/tap.so", program).empty());
  CHECK(why_not_preloadable("/lib/tap.so", directory / "none").empty());
  CHECK_THAT(why_not_preloadable("/of two/tap.so", "/bin/sh"), StartsWith("LD_PRELOAD cannot name /of two/tap.so"));
  // An ELF header of 64 bytes that claims one segment after it, of the kind PT_LOAD. The file names no loader.
  std::string elf("\177ELF\2\1\1", 7);
  elf.resize(64 + 56, '\0');
  elf[32] = 64;  // where segments are
  elf[54] = 56;  // bytes of each
  elf[56] = 1;  // how many
  elf[64] = 1;  // to be loaded
  write_text(program, elf);
  CHECK_THAT(why_not_preloadable("/lib/tap.so", program),
             EndsWith("is linked statically, and nothing can be preloaded into it"));
  elf[64] = 3;  // the name of a loader
  write_text(program, elf);
  CHECK(why_not_preloadable("/lib/tap.so", program).empty());
}

#ifndef SHARDPROOF_TAPPED_PROGRAM

TEST_CASE("a run under the NCCL tap says when the tap is not built") {
  const Said said = call({"run", "good/alone", "--worker", trouble_program().string(), "--nccl-tap"});
  CHECK(said.end == code(3));
  CHECK_THAT(said.err, ContainsSubstring("--nccl-tap: the NCCL tap is not built: there is no "));
}

#else

namespace {

Said run(const std::filesystem::path& out, std::vector<std::string> arguments, const Setting& setting = {}) {
  std::vector<std::string> all{"run", "--worker", SHARDPROOF_TAPPED_PROGRAM, "--out", out.string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return call(all, setting);
}

std::vector<std::string> calls_in(const std::filesystem::path& file) {
  std::vector<std::string> calls;
  for (const protocol::Call& call : protocol::read_tap(file).calls)
    calls.push_back(protocol::describe(call) + protocol::describe_outcome(call));
  return calls;
}

}  // namespace

TEST_CASE("every rank of every world has a record of its calls of NCCL, and the report says that it ran under a tap") {
  const TemporaryDirectory directory;
  const auto out = directory / "run";
  const Said said =
      run(out, {"nccl/agrees", "plain", "--isolate", "--nccl-tap"},
          {.environment = {"LD_PRELOAD=/lib/of_no_consequence.so"}, .wrapper = {}, .prelude = "", .meanwhile = {}});
  INFO(said.out << said.err);
  REQUIRE(said.end == code(0));
  CHECK_THAT(said.out, ContainsSubstring(", NCCL tapped\n"));
  for (int rank = 0; rank < 2; ++rank) {
    const protocol::WorldDirectory world{out / "worlds/0"};
    CHECK(calls_in(world.nccl_record(rank)) ==
          std::vector<std::string>{"comm_init_rank #0 as rank " + std::to_string(rank) + " of 2 into comm 0",
                                   "all_gather #0 of 4 f32 on comm 0, stream 0",
                                   "all_reduce #0 of 5 f32 (sum) on comm 0, stream 0", "comm_destroy #0 on comm 0"});
    CHECK(protocol::read_tap(world.nccl_record(rank)).process.rank == rank);
    const auto environment = report_of(out).at("worlds").at(0).at("environment").at(static_cast<std::size_t>(rank));
    CHECK(environment.at("SHARDPROOF_NCCL_TAP") == world.nccl_record(rank).string());
    const std::string preloaded = environment.at("LD_PRELOAD");
    CHECK_THAT(preloaded, EndsWith("/lib/libshardproof_nccl_tap.so:/lib/of_no_consequence.so"));
    CHECK_FALSE(environment.contains("SHARDPROOF_NCCL_FAULTS"));
  }
  CHECK(std::filesystem::is_empty(out / "worlds/1/nccl"));  // its ranks called nothing
  CHECK_FALSE(report_of(out).at("worlds").at(0).contains("nccl"));  // nothing went wrong
  CHECK(run(directory / "untapped", {"nccl/agrees"}).end == code(0));
  CHECK_FALSE(std::filesystem::exists(directory / "untapped/worlds/0/nccl"));
}

TEST_CASE("faults reach the calls that they name, and the command that shows it again has them") {
  const TemporaryDirectory directory;
  const Said said =
      run(directory / "run", {"nccl/agrees", "--nccl-faults", "fail all_reduce#0 ncclSystemError rank 1"});
  INFO(said.out << said.err);
  CHECK(said.end == code(1));
  CHECK_THAT(said.out, ContainsSubstring("rank 1") && ContainsSubstring("engine.all_reduce(5) == ncclSuccess") &&
                           ContainsSubstring(", NCCL tapped with faults fail all_reduce#0 ncclSystemError rank 1\n") &&
                           ContainsSubstring(" --nccl-faults 'fail all_reduce#0 ncclSystemError rank 1'\n"));
  CHECK_THAT(
      unwrapped(said.out),
      ContainsSubstring("NCCL world 0: rank 1 has not reached collective 1 on comm 0 of 2 ranks") &&
          ContainsSubstring("by a fault its all_reduce #0 of 5 f32 (sum) on comm 0, stream 0 was made to fail\n"));
  CHECK(calls_in(directory / "run/worlds/0/nccl/rank-0.tap").at(2) ==
        "all_reduce #0 of 5 f32 (sum) on comm 0, stream 0");
  CHECK(calls_in(directory / "run/worlds/0/nccl/rank-1.tap").at(2) ==
        "all_reduce #0 of 5 f32 (sum) on comm 0, stream 0, made to fail, returned ncclSystemError");
}

TEST_CASE("what failed under faults of NCCL is run again under them, unless the command line names others") {
  const TemporaryDirectory directory;
  const std::string fails = "fail all_reduce#0 ncclSystemError rank 1",
                    differs = "fail all_reduce#0 ncclSystemError rank 0";
  CHECK(run(directory / "run", {"nccl/agrees", "--nccl-faults", fails}).end == code(1));
  const Said again = run(directory / "again", {"--rerun-failed", directory / "run"});
  CHECK(again.end == code(1));
  CHECK_THAT(again.out, ContainsSubstring(", NCCL tapped with faults " + fails + "\n"));
  CHECK_THAT(run(directory / "other", {"--rerun-failed", directory / "again", "--nccl-faults", differs}).out,
             ContainsSubstring(", NCCL tapped with faults " + differs + "\n"));
}

TEST_CASE("ranks that are threads leave the record of their process") {
  const TemporaryDirectory directory;
  const Said said = run(directory / "run", {"nccl/agrees", "--nccl-tap", "--fabric", "thread"});
  INFO(said.out << said.err);
  REQUIRE(said.end == code(0));
  CHECK(calls_in(directory / "run/worlds/0/nccl/rank-0.tap").size() == 8);
  CHECK_FALSE(std::filesystem::exists(directory / "run/worlds/0/nccl/rank-1.tap"));
  const std::string environment =
      report_of(directory / "run").at("worlds").at(0).at("environment").at(1).at("SHARDPROOF_NCCL_TAP");
  CHECK_THAT(environment, EndsWith("/worlds/0/nccl/rank-0.tap"));
}

TEST_CASE("a world that runs after a rank ended the world before it has its own records") {
  const TemporaryDirectory directory;
  const Said said = run(directory / "run", {"nccl/agrees", "nccl/dies", "--nccl-tap", "--repeat", "2"});
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  for (const int world : {0, 1}) {
    const protocol::WorldDirectory kept = protocol::RunDirectory{directory / "run"}.world(world);
    CHECK(calls_in(kept.nccl_record(0)).size() == 7);
    CHECK(calls_in(kept.nccl_record(1)).back() ==
          "reduce #0 of 8 f32 (sum) to root 0 on comm 1, stream 0, had not returned");
  }
  // Communicators of different cases are different ones, also where a case before the one that went wrong has called
  // NCCL.
  const std::string last = report_of(directory / "run").at("worlds").at(0).at("nccl").back();
  CHECK_THAT(last,
             StartsWith("rank 0 has not reached collective 1 on comm 1 of 2 ranks: rank 1 made reduce #0 of 8 f32"));
}

TEST_CASE("explain names the call of NCCL in which a rank died, and what every rank asked last") {
  const TemporaryDirectory directory;
  const auto out = directory / "run";
  run(out, {"nccl/dies", "--nccl-tap"});
  const nlohmann::json world = report_of(out).at("worlds").at(0);
  const std::string sentence = world.at("explanation");
  REQUIRE(world.at("nccl").size() == 3);
  for (const auto& kept : {out, out / "worlds/0"}) {
    const Said said = call({"explain", kept.string()});
    INFO(said.out << said.err);
    CHECK(said.end == code(0));
    const std::string text = unwrapped(said.out);
    for (const std::string environment : world.at("nccl"))
      CHECK_THAT(text, ContainsSubstring("\nworld 0, NCCL: " + environment + "\n"));
    CHECK_THAT(
        text,
        StartsWith("world 0: CRASH nccl/dies[W=2]") && ContainsSubstring(sentence) &&
            ContainsSubstring("\nworld 0, NCCL: rank 0 called NCCL ") &&
            ContainsSubstring("; all_gather #0 of 7 f32 on comm 0, stream 0") &&
            ContainsSubstring(
                "\nworld 0, NCCL: rank 1 called NCCL 3 times, last: comm_init_rank #0 as rank 1 of 2 into comm 0; "
                "all_gather #0 of 7 f32 on comm 0, stream 0; reduce #0 of 8 f32 (sum) to root 0 on comm 0, stream "
                "0, had not returned\n") &&
            ContainsSubstring(
                "\nworld 0, NCCL: rank 0 has not reached collective 1 on comm 0 of 2 ranks: rank 1 made reduce #0 of 8 "
                "f32 (sum) to root 0 on comm 0, stream 0, and of rank 0 its last one there is all_gather #0 of 7 f32"));
  }
}

TEST_CASE("explain names the first collective in which ranks differ, also of ranks that left in order") {
  const TemporaryDirectory directory;
  CHECK(run(directory / "run", {"nccl/differs", "--nccl-tap"}).end == code(1));
  const nlohmann::json before = report_of(directory / "run").at("worlds");
  CHECK(before.at(0).at("nccl").size() == 3);
  CHECK(call({"merge", (directory / "run").string()}).end == code(1));
  CHECK(report_of(directory / "run").at("worlds") == before);
  const Said said = call({"explain", (directory / "run").string()});
  CHECK(said.end == code(0));
  CHECK_THAT(unwrapped(said.out),
             StartsWith("no world ended early; cases that failed:\nworld 0: FAIL nccl/differs[W=2]") &&
                 ContainsSubstring("\nworld 0, NCCL: rank 0 called NCCL 4 times, last: ") &&
                 EndsWith("world 0, NCCL: collective 1 on comm 0 of 2 ranks differs: rank 0 made "
                          "all_reduce #0 of 6 f32 (sum) on comm 0, stream 0, and rank 1 made all_reduce "
                          "#0 of 5 f32 (sum) on comm 0, stream 0\n"));
}

TEST_CASE("explain reports which ranks under the tap called nothing, and which records it cannot read") {
  const TemporaryDirectory directory;
  const auto out = directory / "run";
  CHECK(run(out, {"nccl/agrees", "plain", "--isolate", "--nccl-tap"}).end == code(0));
  Said said = call({"explain", out.string()});
  CHECK(said.end == code(0));
  const std::string agreed =
      "no world ended early\n"
      "world 0, NCCL: ranks 0, 1 each called NCCL 4 times, last: all_gather #0 of 4 f32 on comm 0, stream 0; "
      "all_reduce #0 of 5 f32 (sum) "
      "on comm 0, "
      "stream 0; comm_destroy #0 on comm 0\n";
  CHECK(unwrapped(said.out) == agreed + "world 1, NCCL: ranks 0, 1 have no record of a call of NCCL\n");
  write_text(out / "worlds/1/nccl/rank-1.tap", "no record");
  said = call({"explain", out.string()});
  CHECK(said.end == code(5));
  CHECK_THAT(unwrapped(said.out), StartsWith(agreed.substr(agreed.find('\n') + 1)) &&
                                      ContainsSubstring("\nworld 1, NCCL: reading the record of NCCL calls ") &&
                                      ContainsSubstring("rank-1.tap: it has 9 bytes") &&
                                      EndsWith("\nworld 1, NCCL: rank 0 has no record of a call of NCCL\n"));
}

#endif
