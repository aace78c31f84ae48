// Damaged evidence: each command that reads a file refuses each damage of the file, and names the place.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using nlohmann::ordered_json;

namespace {

using Edit = std::function<std::string(const std::string&)>;

/// Replaces the first `old`, which has to exist.
Edit replace(std::string old, std::string fresh) {
  return [=](std::string text) {
    const std::size_t at = text.find(old);
    if (at == std::string::npos) throw std::logic_error("no " + old + " in " + text);
    return text.replace(at, old.size(), fresh);
  };
}

Edit append(std::string more) {
  return [=](const std::string& text) { return text + more; };
}

/// Edits the document.
Edit change(std::function<void(ordered_json&)> edit) {
  return [=](const std::string& text) {
    ordered_json json = ordered_json::parse(text);
    edit(json);
    return json.dump() + "\n";
  };
}

/// Edits the first case with this verdict.
Edit in_case(const char* verdict, std::function<void(ordered_json&)> edit) {
  return change([=](ordered_json& report) {
    for (ordered_json& one : report["cases"]) {
      if (one["verdict"] == verdict) return edit(one);
    }
    throw std::logic_error(std::string("no case is ") + verdict);
  });
}

struct Damage {
  const char* name;
  Edit edit;
  std::string expected;  ///< in the error
};

const std::vector<Damage>& damaged_reports() {
  static const std::vector<Damage> all{
      {"cut", [](const std::string& text) { return text.substr(0, text.size() / 2); }, "invalid JSON at byte"},
      {"bytes after the end", append("x"), "invalid JSON at byte"},
      {"a second document", append("{}"), "invalid JSON at byte"},
      {"a key twice", replace("\"seed\":", "\"seed\":1,\"seed\":"), "run: duplicate key \"seed\""},
      {"a verdict twice", replace("\"verdict\":\"failed\"", "\"verdict\":\"failed\",\"verdict\":\"passed\""),
       "cases[0]: duplicate key \"verdict\""},
      {"an outcome twice", replace("{\"outcome\":", "{\"outcome\":\"failed\",\"outcome\":"),
       "cases[0].ranks[0]: duplicate key \"outcome\""},
      {"a negative duration", in_case("passed", [](auto& one) { one["duration_ns"] = -1; }),
       "\"duration_ns\": expected an integer from 0"},
      {"a duration with a fraction", in_case("passed", [](auto& one) { one["duration_ns"] = 1.5; }), "found 1.5"},
      {"a duration as text", in_case("passed", [](auto& one) { one["duration_ns"] = "1"; }), "found \"1\""},
      {"a huge duration", in_case("passed", [](auto& one) { one["duration_ns"] = ~0ULL; }), "\"duration_ns\""},
      {"a number beyond all", replace("\"duration_ns\":", "\"duration_ns\":1e999,\"x\":"), "out of range"},
      {"a negative number of assertions", in_case("passed", [](auto& one) { one["assertions"] = -3; }),
       "\"assertions\""},
      {"a negative attempt", in_case("passed", [](auto& one) { one["attempt"] = -1; }), "\"attempt\""},
      {"a negative place", in_case("failed", [](auto& one) { one["failures"][0]["line"] = -1; }), "\"line\""},
      {"a negative time", in_case("failed", [](auto& one) { one["failures"][0]["monotonic_ns"] = -1; }),
       "\"monotonic_ns\""},
      {"a failure of no rank", in_case("failed", [](auto& one) { one["failures"][0]["rank"] = 7; }),
       "failures[0]: \"rank\": expected one of 2 ranks, found 7"},
      {"a pass without ranks", in_case("passed", [](auto& one) { one["ranks"] = ordered_json::array(); }),
       "\"ranks\": expected 2, as many as its world has, found 0"},
      {"a pass with fewer ranks", in_case("passed", [](auto& one) { one["ranks"].erase(1); }),
       "\"ranks\": expected 2, as many as its world has, found 1"},
      {"a pass in a smaller world", in_case("passed", [](auto& one) { one["world_size"] = 3; }),
       "passed, but of its 3 ranks only 2 are in the report"},
      {"a pass without an assertion", in_case("passed", [](auto& one) { one["ranks"][1]["assertions"] = 0; }),
       "passed, but rank 1 reports no assertion"},
      {"a pass of a failed rank", in_case("passed", [](auto& one) { one["ranks"][1]["outcome"] = "failed"; }),
       "passed, but rank 1 reports \"failed\""},
      {"a pass with a failure",
       in_case("failed",
               [](auto& one) {
                 one["verdict"] = "passed";
                 for (auto& rank : one["ranks"]) rank = {{"outcome", "passed"}, {"assertions", 1}};
               }),
       "has a failure"},
      {"a skip of a failed rank", in_case("failed", [](auto& one) { one["verdict"] = "skipped"; }),
       "skipped, but rank 0 reports"},
      {"a failure that does not count", in_case("failed", [](auto& one) { one["superseded"] = true; }),
       "\"superseded\": true, but no later attempt"},
      {"a failure that was left out", in_case("failed", [](auto& one) { one["left_out"] = true; }),
       "\"left_out\": expected only with the verdict not_run, found failed"},
      {"a case twice", change([](auto& report) { report["cases"].push_back(report["cases"].back()); }),
       "is twice in the report"},
      {"cases in another order", change([](auto& report) { std::swap(report["cases"][0], report["cases"][1]); }),
       "expected the cases in the order of their ids"},
      {"a case less", change([](auto& report) { report["cases"].erase(0); }),
       "report: summary: \"cases\" is 4, but the cases add up to 3"},
      {"a summary with more passes", change([](auto& report) { report["summary"]["passed"] = 9; }),
       "report: summary: \"passed\" is 9, but the cases add up to 3"},
      {"a summary with a text", change([](auto& report) { report["summary"]["failed"] = "0"; }),
       "report: summary: \"failed\""},
      {"no summary", change([](auto& report) { report.erase("summary"); }), "\"summary\" is missing"},
      {"a skip that no case has", change([](auto& report) { report["skips"].push_back(ordered_json::object()); }),
       "\"skips\": expected 0"},
      {"an ending twice", change([](auto& report) {
         auto& endings = report["worlds"][0]["endings"];
         endings.push_back(endings[0]);
       }),
       "worlds[0]: \"endings\": expected one for each of 2 ranks, found a second one for rank 0"},
      {"an ending of no rank", change([](auto& report) { report["worlds"][0]["endings"][0]["rank"] = 5; }),
       "found one for rank 5"},
      {"a world of fewer ranks", change([](auto& report) { report["worlds"][0]["ranks"] = 1; }),
       "worlds[0]: host: \"ranks\""},
      {"a world of a negative number of ranks", change([](auto& report) { report["worlds"][0]["ranks"] = -2; }),
       "\"ranks\": expected an integer from 0"},
      {"a run that repeats its cases no time", change([](auto& report) { report["run"]["repeat"] = 0; }), "\"repeat\""},
  };
  return all;
}

/// A damage of a file of the run directory.
struct RunDamage {
  const char* name;
  const char* file;
  Edit edit;  ///< Empty: the file is removed.
  std::string expected;
};

const std::vector<RunDamage>& damaged_runs() {
  static const char stream[] = "worlds/0/ranks/rank-1.jsonl";
  static const char endings[] = "worlds/0/endings.json";
  static const char plan[] = "worlds/0/plan.json";
  static const std::vector<RunDamage> all{
      {"bytes after the last line", stream, append("x"), "bytes after rank_ended"},
      {"a line after the last line", stream, append("{}\n"), "rank 1 has a corrupt stream: line"},
      {"bytes after a value", stream, replace("}\n", "} x\n"), "event line: invalid JSON at byte"},
      {"two values on a line", stream, replace("}\n{", "}{"), "event line: invalid JSON at byte"},
      {"no end", stream, replace("{\"event\":\"rank_ended\",\"rank\":1}\n", ""), "its stream has no end"},
      {"a key twice", stream, replace("\"outcome\":\"passed\"", "\"outcome\":\"failed\",\"outcome\":\"passed\""),
       "duplicate key \"outcome\""},
      {"a negative duration", stream, replace("\"duration_ns\":", "\"duration_ns\":-"),
       "\"duration_ns\": expected an integer from 0"},
      {"a duration with a fraction", stream, replace("\"duration_ns\":", "\"duration_ns\":0.5,\"x\":"), "found 0.5"},
      {"a number beyond all", stream, replace("\"duration_ns\":", "\"duration_ns\":1e999,\"x\":"), "out of range"},
      {"a text in place of a number", stream, replace("\"assertions\":", "\"assertions\":\"1\",\"x\":"), "found \"1\""},
      {"a byte that is not UTF-8", stream, replace("case_started", "case_\xff"), "event line: invalid JSON at byte"},
      {"no stream", stream, {}, "cannot open rank-1.jsonl"},
      {"no endings", endings, {}, "worlds/0/endings.json is missing"},
      {"endings with a key twice", endings, replace("\"code\":", "\"code\":9,\"code\":"),
       "[0]: duplicate key \"code\""},
      {"an ending less", endings, change([](auto& all_endings) { all_endings.erase(1); }),
       "endings.json has no ending of rank 1 in a world of 2"},
      {"an ending twice", endings, change([](auto& all_endings) { all_endings.push_back(all_endings[0]); }),
       "endings.json has a second ending of rank 0 in a world of 2"},
      {"an ending of no rank", endings, change([](auto& all_endings) {
         all_endings.push_back(all_endings[0]);
         all_endings.back()["rank"] = 9;
       }),
       "endings.json has an ending of rank 9 in a world of 2"},
      {"bytes after the endings", endings, append("x"), "endings.json"},
      {"no plan of a world", plan, {}, "worlds/0/plan.json is missing: the results of this world are lost"},
      {"a plan with a key twice", plan, replace("\"size\":", "\"size\":1,\"size\":"), "duplicate key \"size\""},
      {"no plan", "plan.json", {}, "plan.json is missing: worlds that never began are unknown"},
      {"a plan that is cut", "plan.json", replace("[", ""), "plan.json"},
      {"no head",
       "run.json",
       {},
       "run.json is missing: the demands, the waivers and the worker of this run are unknown: restore it, or give"},
      {"a head with a key twice", "run.json", replace("\"seed\":", "\"seed\":1,\"seed\":"), "duplicate key \"seed\""},
      {"plans that are no array", "plan.json", change([](auto& plans) { plans = plans[0]; }),
       "plan.json: expected an array, found an object of"},
      {"endings that are no array", endings, change([](auto& all_endings) { all_endings = all_endings[0]; }),
       "endings.json: expected an array, found an object of"},
      {"a listing with a key twice", "listing.json", replace("\"protocol\":", "\"protocol\":1,\"protocol\":"),
       "duplicate key \"protocol\""},
  };
  return all;
}

}  // namespace

TEST_CASE("each command that reads a report refuses each damage of it, and names the place") {
  const TemporaryDirectory directory;
  REQUIRE(
      run_trouble(directory / "run", {"good/meets", "good/stays", "bad/check", "many/rounds[W=2,n=0]", "--ranks", "2"})
          .end == code(1));
  const std::string good = (directory / "run/report.json").string(), bad = (directory / "bad.json").string();
  const std::vector<std::vector<std::string>> commands{
      {"stable", bad},
      {"diff", bad, good},
      {"diff", good, bad},
      {"export", bad, "--markdown", "-"},
      {"statement", bad},
      {"run", "--worker", trouble_program().string(), "--rerun-failed", bad, "--out", (directory / "again").string()}};
  for (const auto& arguments : commands) {
    write_text(bad, text_of(good));
    const Said said = call(arguments);
    INFO(arguments.front() << ": " << said.out << said.err);
    CHECK((said.end == code(0) || arguments.front() == "run"));
    std::filesystem::remove_all(directory / "again");
  }
  for (const Damage& damage : damaged_reports()) {
    write_text(bad, damage.edit(text_of(good)));
    for (const auto& arguments : commands) {
      const Said said = call(arguments);
      INFO(damage.name << ", " << arguments.front() << ": " << said.out << said.err);
      CHECK(said.end == code(2));
      CHECK_THAT(unwrapped(said.err),
                 ContainsSubstring(bad + " is not a report: ") && ContainsSubstring(damage.expected));
      CHECK(said.out.empty());
      std::filesystem::remove_all(directory / "again");
    }
  }
}

TEST_CASE("merge and explain report each damage of a run directory with 5, and use its other files") {
  const TemporaryDirectory directory;
  const auto run = directory / "run";
  REQUIRE(run_trouble(run, {"good/stays", "many/rounds[W=2,n=0]", "--ranks", "2"}).end == code(0));
  for (const RunDamage& damage : damaged_runs()) {
    const auto file = run / damage.file;
    const std::string whole = text_of(file);
    REQUIRE(call({"merge", run.string()}).end == code(0));
    if (damage.edit) write_text(file, damage.edit(whole));
    else std::filesystem::remove(file);
    for (const char* command : {"explain", "merge"}) {
      const Said said = call({command, run.string()});
      INFO(damage.name << ", " << command << ": " << said.out << said.err);
      CHECK(said.end == code(5));
      CHECK_THAT(unwrapped(said.out + said.err), ContainsSubstring(damage.expected));
      CHECK(said.out.find("no world ended early") == std::string::npos);
    }
    CHECK(verdicts(run).size() == 2);
    write_text(file, whole);
  }
}

TEST_CASE("a plan that would make a report that no command reads is refused, and the other worlds are merged") {
  const TemporaryDirectory directory;
  const auto run = directory / "run";
  const std::string id = R"("bad/check[W=2]")";
  REQUIRE(run_trouble(run, {"bad/check", "good/stays", "--ranks", "2", "--retries", "1"}).end == code(1));
  const auto plan = run / "worlds/1/plan.json";
  const std::string whole = text_of(plan);
  for (const auto& [cases, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"("x")", R"("x" is no case of a world of 2 ranks)"},
           {R"("bad/check[W=3]")", R"("bad/check[W=3]" is no case of a world of 2 ranks)"},
           {id + "," + id, "a case is twice in the plan of a further attempt"}}) {
    std::string changed = whole;
    changed.replace(changed.find(id), id.size(), cases);
    write_text(plan, changed);
    const Said said = call({"merge", run.string()});
    INFO(said.out << said.err);
    CHECK(said.end == code(5));
    CHECK_THAT(unwrapped(said.out + said.err), ContainsSubstring("worlds/1, plan.json: " + expected));
    CHECK(call({"stable", run.string()}).end == code(0));
    CHECK(verdicts(run) == Verdicts{{"bad/check[W=2]", "failed"}, {"good/stays[W=2]", "passed"}});
  }
}

TEST_CASE("merge and explain miss a world that began between others") {
  const TemporaryDirectory directory;
  const auto run = directory / "run";
  REQUIRE(run_trouble(run, {"flaky/third_time", "--retries", "5"},
                      {.environment = {"COUNTER=" + (directory / "counter").string()}})
              .end == code(0));
  std::filesystem::remove_all(run / "worlds/1");
  for (const char* command : {"explain", "merge"}) {
    const Said said = call({command, run.string()});
    INFO(said.out << said.err);
    CHECK(said.end == code(5));
    CHECK_THAT(said.err, ContainsSubstring("worlds/1 is missing, but later worlds exist: restore it and merge again"));
  }
}

TEST_CASE("explain names a damaged report of a run, and the command that makes it again") {
  const TemporaryDirectory directory;
  const auto run = directory / "run", report = run / "report.json";
  REQUIRE(run_trouble(run, {"good/stays"}).end == code(0));
  const std::string whole = text_of(report);
  const std::string hint = ": `shardproof merge " + run.string() + "` makes it again";
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"garbage", "report: invalid JSON at byte 1"},
           {whole.substr(0, 300), "report: invalid JSON at byte 301: is the file cut off?"}}) {
    write_text(report, text);
    for (const char* command : {"explain", "stable"}) {
      const Said said = call({command, run.string()});
      INFO(command << said.out);
      CHECK(said.end == code(std::string(command) == "explain" ? 5 : 2));
      CHECK_THAT(unwrapped(said.err),
                 ContainsSubstring(report.string() + " is not a report: " + why) && ContainsSubstring(hint));
    }
  }
  REQUIRE(call({"merge", run.string()}).end == code(0));
  CHECK(call({"explain", run.string()}).out == "no world ended early\n");
  std::filesystem::remove(report);
  CHECK(call({"explain", run.string()}).end == code(0));  // its launcher was killed, say
  CHECK_THAT(unwrapped(call({"stable", run.string()}).err), ContainsSubstring(hint));
}
