// The demands on a run in addition to verdicts, and known failures: `run` and `merge` from the command line to the exit
// code.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

using nlohmann::json;

using Arguments = std::vector<std::string>;

Said merge(const std::filesystem::path& directory, const Arguments& arguments = {}) {
  Arguments all{"merge", directory.string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return call(all);
}

json waiver(const std::string& pattern, const std::string& verdict, const std::string& expires = "2999-12-31") {
  return {{"pattern", pattern},
          {"verdict", verdict},
          {"reason", "the driver is old"},
          {"link", "https://tracker.example/1"},
          {"owner", "ada"},
          {"expires", expires}};
}

/// A file of waivers.
std::string waivers(const std::filesystem::path& file, const std::vector<json>& all) {
  write_text(file, json{{"waivers", all}}.dump());
  return file.string();
}

json case_of(const std::filesystem::path& run_directory, const std::string& id) {
  const json report = report_of(run_directory);
  for (const json& one : report.at("cases")) {
    if (one.at("id") == id) return one;
  }
  FAIL("no case " << id);
  return {};
}

}  // namespace

TEST_CASE("a case for two hosts is skipped on one, and counts as a skip") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"placed", "good/stays", "--max-skips", "0"});
  INFO(said.out << said.err);
  CHECK(said.end == code(6));
  CHECK_THAT(said.out, ContainsSubstring(
                           "SKIP 1 case: its ranks must be on 2 hosts, and here they are on 1\n  placed/on_two_hosts"));
  const json skipped = case_of(directory / "run", "placed/on_two_hosts[W=2]");
  CHECK(skipped.at("verdict") == "skipped");
  CHECK_FALSE(skipped.contains("unclaimed"));
  const json world = report_of(directory / "run").at("worlds").at(0);
  REQUIRE(world.at("hosts").size() == 1);
  CHECK(world.at("hosts").at(0).at("ranks") == json{0, 1});
  CHECK(call({"list", "placed", "--worker", trouble_program()}).out ==
        "placed/on_two_hosts[W=2]   on 2 hosts\n1 case\n");
}

TEST_CASE("a skip names who asked for it") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"skip/asked_by_one"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK_THAT(said.out, ContainsSubstring("SKIP 1 case: no paper (asked by rank 1)\n  skip/asked_by_one[W=3]"));
  CHECK(case_of(directory / "run", "skip/asked_by_one[W=3]").at("skipped_by") == 1);
  CHECK(report_of(directory / "run").at("skips").at(0).at("by") == 1);
}

TEST_CASE("skips over the budget are a finding, in a merge too, where another budget can be given") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"skip/asked*", "good/stays", "--max-skips", "1"});
  INFO(said.out << said.err);
  CHECK(said.end == code(6));
  CHECK_THAT(said.out, ContainsSubstring("FINDING 2 cases skipped, at most 1 may be (--max-skips)\n"));
  CHECK(merge(directory / "run").end == code(6));
  CHECK(merge(directory / "run", {"--max-skips", "2"}).end == code(0));
  CHECK(report_of(directory / "run").at("run").at("demands").at("max_skips") == 2);
}

TEST_CASE("a required clause is met by a case that passed, and by nothing else") {
  TemporaryDirectory directory;
  CHECK(run_trouble(directory / "met", {"good/stays", "--require", "TRB-1"}).end == code(0));
  const Said said = run_trouble(directory / "run", {"good/meets", "skip/asked", "--require", "TRB-1,TRB-2"});
  INFO(said.out << said.err);
  CHECK(said.end == code(6));
  CHECK_THAT(said.out, ContainsSubstring("FINDING required clause TRB-1: no case of this run checks it\n") &&
                           ContainsSubstring("FINDING required clause TRB-2: its only case did not pass\n"));
  CHECK(report_of(directory / "run").at("requirements") ==
        json::parse(R"([{"clause":"TRB-1","cases":0,"passed":0},{"clause":"TRB-2","cases":1,"passed":0}])"));
  CHECK(merge(directory / "run").end == code(6));
  CHECK(merge(directory / "met", {"--require", "TRB-1", "--require", "TRB-2"}).end == code(6));
}

TEST_CASE("a waiver that names an unknown device is refused, and an unknown subject or fault is a finding") {
  TemporaryDirectory directory;
  json on_device = waiver("bad/check*", "failed");
  on_device["when"] = {{"device", "gpu"}};
  const Said refused =
      run_trouble(directory / "refused", {"good/stays", "--waivers", waivers(directory / "device.json", {on_device})});
  CHECK(refused.end == code(2));
  CHECK_THAT(refused.err,
             ContainsSubstring("waivers[0]: when: \"device\": expected \"sim\" or \"cuda\", found \"gpu\""));

  json former = waiver("bad/check*", "failed"), misspelt = former, elsewhere = former, faulty = former;
  former["when"] = {{"subject", "fully_shard"}};
  misspelt["when"] = {{"subject", "pytroch"}};
  elsewhere["when"] = {{"subject", "an engine of another worker"}, {"fault", "its own"}};
  faulty["when"] = {{"fault", "gremlin"}};
  const std::string file = waivers(directory / "names.json", {former, misspelt, elsewhere, faulty});
  const Said said = run_trouble(directory / "run", {"good/stays", "--waivers", file});
  INFO(said.out << said.err);
  CHECK(said.end == code(6));
  CHECK_THAT(
      said.out,
      ContainsSubstring(
          "FINDING waivers[0] bad/check* (ada): subject fully_shard is called reference now: correct the waiver\n") &&
          ContainsSubstring("FINDING waivers[1] bad/check* (ada): this worker has no subject pytroch, closest is "
                            "pytorch: correct the waiver\n") &&
          !ContainsSubstring("waivers[2]") &&
          ContainsSubstring(
              "FINDING waivers[3] bad/check* (ada): this worker has no fault gremlin: correct the waiver\n"));
  CHECK(merge(directory / "run").end == code(6));
}

TEST_CASE("a clause that does not exist is answered with the closest that does, before anything runs") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"--require", "TRB-1,TRP-2"});
  CHECK(said.end == code(2));
  CHECK(said.err ==
        "shardproof: --require TRP-2: the worker has no such clause, closest is TRB-2 (`shardproof list --clauses`)\n");
  CHECK_FALSE(std::filesystem::exists(directory / "run"));
  REQUIRE(run_trouble(directory / "run", {"good/stays"}).end == code(0));
  CHECK(merge(directory / "run", {"--require", "TRP-2"}).err == said.err);
}

TEST_CASE(
    "a waived failure is shown as one and does not fail the run, nor the merge, which has the waivers from the run") {
  TemporaryDirectory directory;
  const std::string file = waivers(directory / "waivers.json", {waiver("bad/check*", "failed")});
  const Said said =
      run_trouble(directory / "run", {"bad/check", "good/stays", "--waivers", file, "--max-waivers", "1"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK_THAT(said.out, ContainsSubstring("world 0: 2 ranks, 2 cases, 1 waived (") &&
                           ContainsSubstring(
                               "\nWAIVED 1 failed: the driver is old (https://tracker.example/1)\n  bad/check[W=2]\n"
                               "  by ada until 2999-12-31; to see it: ") &&
                           ContainsSubstring("2 cases in 1 world: 1 passed, 1 waived ("));
  const auto check = [&] {
    const json report = report_of(directory / "run");
    CHECK(report.at("summary").at("waived") == 1);
    CHECK(report.at("summary").at("failed") == 1);
    CHECK(report.at("waivers").at(0).at("state") == "used");
    CHECK(case_of(directory / "run", "bad/check[W=2]").at("verdict") == "failed");
    CHECK(case_of(directory / "run", "bad/check[W=2]").at("waived") == true);
  };
  check();
  std::filesystem::remove(file);
  CHECK(merge(directory / "run").end == code(0));
  check();
  CHECK(merge(directory / "run", {"--max-waivers", "0"}).end == code(6));
  const std::string none = waivers(directory / "none.json", {});
  CHECK(merge(directory / "run", {"--waivers", none}).end == code(1));
}

TEST_CASE(
    "what failed is run again by the same worker, in the same time and with the same waivers, unless others are "
    "given") {
  TemporaryDirectory directory;
  const std::string file = waivers(directory / "waivers.json", {waiver("bad/check*", "failed")});
  const Said said = run_trouble(directory / "run", {"bad/check", "bad/killed", "--waivers", file, "--timeout", "9"});
  CHECK_THAT(said.out, ContainsSubstring("again: ") && ContainsSubstring(" --waivers " + file));
  const auto again = [&](const char* name, std::vector<std::string> more) {
    more.insert(more.begin(), {"run", "bad/check", "--rerun-failed", directory / "run", "--out", directory / name});
    const Said ended = call(more);
    INFO(ended.out << ended.err);
    CHECK(ended.end == code(more.back() == "9" ? 0 : 1));
    return report_of(directory / name).at("run").at("argv").dump();
  };
  const std::string argv = again("again", {"--seed", "9"});
  CHECK_THAT(argv, ContainsSubstring("\"--worker\",\"" + trouble_program().string() + "\"") &&
                       ContainsSubstring("\"--timeout\",\"9\""));
  const std::string other = again("other", {"--timeout=8", "--waivers", waivers(directory / "none.json", {})});
  CHECK_THAT(other, !ContainsSubstring("\"--timeout\"") && !ContainsSubstring("waivers.json"));
}

TEST_CASE("a rank that crashes or hangs in a waived case does not fail the run; in another it does") {
  TemporaryDirectory directory;
  const std::string file =
      waivers(directory / "waivers.json", {waiver("bad/killed", "crashed"), waiver("bad/segfault", "crashed"),
                                           waiver("bad/exits[W=2,code=3]", "crashed"), waiver("bad/hangs", "hung"),
                                           waiver("loud/closes_its_descriptors", "crashed")});
  for (const char* name :
       {"bad/killed", "bad/segfault", "bad/exits[W=2,code=3]", "bad/hangs", "loud/closes_its_descriptors"}) {
    CAPTURE(name);
    const auto out = directory / std::to_string(std::hash<std::string>{}(name));
    const Said said = run_trouble(out, {"good/stays", name, "--waivers", file, "--timeout", "1"});
    INFO(said.out << said.err);
    CHECK(said.end == code(0));
    CHECK_THAT(said.out, ContainsSubstring("1 waived\n"));
    CHECK(merge(out).end == code(0));
  }
  CHECK(run_trouble(directory / "other", {"good/stays", "bad/exits[W=2,code=2]", "--waivers", file}).end == code(4));
}

TEST_CASE("a run goes on after a waived crash, and ends as if no rank had crashed") {
  TemporaryDirectory directory;
  const std::string file =
      waivers(directory / "waivers.json", {waiver("bad/killed", "crashed"), waiver("bad/segfault", "crashed")});
  const Said said = run_trouble(directory / "run", {"bad/killed", "bad/segfault", "many", "--waivers", file});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(report_of(directory / "run").at("summary").at("passed") == 10);
  CHECK(report_of(directory / "run").at("summary").at("waived") == 2);
  CHECK(merge(directory / "run").end == code(0));
}

TEST_CASE(
    "of a case that was tried again, a waiver is about the last attempt, and a pass after a failure is not "
    "unexpected") {
  TemporaryDirectory directory;
  const std::string file =
      waivers(directory / "waivers.json", {waiver("bad/check", "failed"), waiver("flaky/dies_once", "crashed")});
  const Setting setting{.environment = {"COUNTER=" + (directory / "counter").string()}};
  const Said said =
      run_trouble(directory / "run", {"flaky/dies_once", "bad/check", "--retries", "1", "--waivers", file}, setting);
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  const json report = report_of(directory / "run");
  CHECK(report.at("summary").at("waived") == 1);
  CHECK(report.at("summary").at("flaky") == 1);
  CHECK(report.at("waivers").at(0).at("state") == "used");
  CHECK(report.at("waivers").at(1).at("state") == "idle");
  CHECK(merge(directory / "run").end == code(0));
}

TEST_CASE("a waiver that is over, wrong or without use is a finding") {
  TemporaryDirectory directory;
  const auto with = [&](const std::vector<json>& all) { return waivers(directory / "waivers.json", all); };
  const Said expired = run_trouble(directory / "expired",
                                   {"bad/check", "--waivers", with({waiver("bad/check", "failed", "2020-01-01")})});
  CHECK(expired.end == code(1));
  CHECK_THAT(expired.out, ContainsSubstring("FINDING waivers[0] bad/check (failed, ada): expired on 2020-01-01"));
  const Said passed =
      run_trouble(directory / "passed", {"good/stays", "--waivers", with({waiver("good/*", "failed")})});
  CHECK(passed.end == code(6));
  CHECK_THAT(passed.out,
             ContainsSubstring("FINDING waivers[0] good/* (failed, ada): unexpected pass of good/stays[W=2]"));
  CHECK(report_of(directory / "passed").at("waivers").at(0).at("passed") == json{"good/stays[W=2]"});
  // Other cases than those that were selected may be what it is for.
  CHECK(
      run_trouble(directory / "elsewhere", {"good/stays", "--waivers", with({waiver("bad/nothing", "failed")})}).end ==
      code(0));
}

TEST_CASE("an invalid waiver file is refused before anything runs, by file, waiver and field") {
  TemporaryDirectory directory;
  const std::string file = waivers(directory / "waivers.json", {waiver("a", "failed"), waiver("b", "skipped")});
  const Said said = run_trouble(directory / "run", {"--waivers", file});
  CHECK(said.end == code(2));
  CHECK(said.err == "shardproof: --waivers " + file +
                        ": waivers[1]: \"verdict\": expected failed, error, hung or crashed, found \"skipped\"\n");
  CHECK_FALSE(std::filesystem::exists(directory / "run"));
  write_text(file, "{\n\"waivers\": [}");
  CHECK_THAT(run_trouble(directory / "run", {"--waivers", file}).err,
             ContainsSubstring(file + ": invalid JSON at line 2, column 13: syntax error while parsing value"));
  const Said absent = run_trouble(directory / "run", {"--waivers", "/nowhere.json"});
  CHECK(absent.end == code(2));
  CHECK(absent.err == "shardproof: --waivers: cannot read /nowhere.json: No such file or directory\n");
}

TEST_CASE("a run of ranks that another launcher started is as old as its plan") {
  TemporaryDirectory directory;
  REQUIRE(run_trouble(directory / "run", {"bad/check"}).end == code(1));
  for (const char* file : {"run.json", "plan.json", "report.json"}) std::filesystem::remove(directory / "run" / file);
  const std::string file = waivers(directory / "waivers.json", {waiver("bad/check", "failed")});
  const Said said = merge(directory / "run", {"--waivers", file});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(report_of(directory / "run").at("run").at("started").get<std::string>().starts_with("20"));
}

TEST_CASE("a program without profiles says so") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"--profile", "core"});
  CHECK(said.end == code(2));
  CHECK(said.err == "shardproof: unknown profile 'core': this worker has no profile\n");
  CHECK(call({"list", "--worker", trouble_program().string(), "--profiles"}).out == "the worker has no profile\n");
}
