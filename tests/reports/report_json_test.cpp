#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "tests/reports/sample_report.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;
using nlohmann::ordered_json;

std::string written(const Report& report) {
  std::ostringstream out;
  write_report(out, report);
  return out.str();
}

Report read(const std::string& text) {
  std::istringstream in(text);
  return read_report(in);
}

std::vector<std::string> keys(const ordered_json& json) {
  std::vector<std::string> names;
  for (const auto& item : json.items()) names.push_back(item.key());
  return names;
}

using Names = std::vector<std::string>;

TEST_CASE("the fields that scripts rely on") {
  const auto json = to_json(sample_report());
  CHECK(keys(json) == Names{"schema_version", "suite_version", "run", "machine", "subject", "profile", "summary",
                            "worlds", "cases", "skips", "requirements", "waivers"});
  CHECK(json["schema_version"] == 1);
  CHECK(json["summary"].dump() ==
        R"({"cases":9,"passed":2,"skipped":1,"not_run":1,"error":1,"failed":2,"disagreed":1,"hung":0,"crashed":1,)"
        R"("flaky":1,"waived":1})");
  CHECK(json["worlds"][0]["fabric"] == "shm");
  CHECK(json["worlds"][0]["device"] == "sim");
  CHECK(json["worlds"][0]["ranks"] == 2);
  CHECK(json["run"]["seed"] == 18446744073709551615ULL);
  CHECK(json["subject"]["fault"].is_null());
  CHECK(json["skips"].dump() == R"([{"id":"mine/skipped[W=2]","repetition":0,"reason":"needs a timeline","by":0}])");
  CHECK(json["run"]["outside_profile"] == 3);
  CHECK(json["run"]["demands"].dump() == R"({"max_skips":2,"max_waivers":null,"require":["OVL-1","OVL-9"]})");
  CHECK(json["requirements"].dump() ==
        R"([{"clause":"OVL-1","cases":1,"passed":0},{"clause":"OVL-9","cases":0,"passed":0}])");
  CHECK(json["waivers"].size() == 2);
  CHECK(
      json["waivers"][0].dump() ==
      R"({"pattern":"mine/waived*","verdict":"failed","when":{"fabric":"shm","device":"sim",)"
      R"("subject":"fully_shard","world_size":2},)"
      R"("reason":"the new scheduler is late","link":"https://tracker.example/7","owner":"ada","expires":"2030-02-01",)"
      R"("shown_by":{"scenario":"docs/late one.json","ranks":3,"beside":"reference"},)"
      R"("state":"used","waived":["mine/waived[W=2]"],"passed":[]})");
  CHECK(json["waivers"][1]["state"] == "idle");

  const auto& one = json["cases"][0];
  CHECK(one["id"] == "mine/crashed[W=2]");
  CHECK(one["suite"] == "mine");
  CHECK(one["params"].dump() == R"({"W":"2"})");
  CHECK(one["world_size"] == 2);
  CHECK(one["world"] == 1);
  CHECK(one["verdict"] == "crashed");
  CHECK(one["ranks"].dump() ==
        R"([{"outcome":"released","assertions":3,"reason":"rank 1 died"},{"outcome":"crashed","assertions":0,)"
        R"("reason":"was killed by signal 9 (SIGKILL) inside this case"}])");
  const auto passed =
      std::find_if(json["cases"].begin(), json["cases"].end(), [](const auto& c) { return c["verdict"] == "passed"; });
  REQUIRE(passed != json["cases"].end());
  CHECK((*passed)["measurements"].dump() == R"({"forward_ns":{"value":85000000.0,"unit":"ns"}})");
  CHECK((*passed)["assertions"] == 6);
}

TEST_CASE("a case says who asked to skip it, and which waiver excuses it") {
  const auto cases = to_json(sample_report())["cases"];
  std::size_t skipped = 0, waived = 0;
  for (const auto& one : cases) {
    CAPTURE(one["id"].get<std::string>());
    CHECK(one.contains("skipped_by") == (one["id"] == "mine/skipped[W=2]"));
    CHECK(one.contains("waiver") == (one["id"] == "mine/waived[W=2]"));
    CHECK(one["waived"] == one.contains("waiver"));
    skipped += one.contains("skipped_by") && one["skipped_by"] == 0 ? 1U : 0U;
    waived += one.contains("waiver") && one["waiver"] == 0 && one["verdict"] == "failed" ? 1U : 0U;
  }
  CHECK(skipped == 1);
  CHECK(waived == 1);
}

TEST_CASE("a report without demands and waivers, as the first ones were, is read") {
  auto json = to_json(WorldOnPaper(1, {"a/one"}).merged());
  const auto whole = json;
  for (const char* newer : {"requirements", "waivers"}) json.erase(newer);
  for (const char* newer : {"outside_profile", "demands"}) json["run"].erase(newer);
  for (auto& one : json["cases"]) one.erase("waived");
  for (auto& skip : json["skips"]) skip.erase("by");
  CHECK(to_json(from_json(json)) == whole);
  CHECK(to_json(read(json.dump())) == whole);
}

TEST_CASE("a waiver that a case names is there, and is one of its verdict") {
  auto json = to_json(sample_report());
  auto& waived =
      *std::find_if(json["cases"].begin(), json["cases"].end(), [](const auto& c) { return c.contains("waiver"); });
  waived["waiver"] = 2;
  CHECK_THROWS_WITH(from_json(json), ContainsSubstring("\"waiver\": expected an index into 2 waivers, found 2"));
  waived["waiver"] = 1;
  CHECK_THROWS_WITH(from_json(json),
                    ContainsSubstring("\"waiver\": expected a waiver of failed, found one of crashed"));
  waived["waiver"] = -1;
  CHECK_THROWS_WITH(from_json(json), ContainsSubstring("\"waiver\": expected no negative number, found -1"));
  waived["waiver"] = 0;
  waived["verdict"] = "passed";
  CHECK_THROWS_WITH(from_json(json), ContainsSubstring("expected a waiver of passed"));
}

TEST_CASE("a report survives the way through JSON, as a document and as a stream") {
  const auto report = sample_report();
  const auto json = to_json(report);
  CHECK(to_json(from_json(json)) == json);
  CHECK(ordered_json::parse(written(report)).dump() == json.dump());
  CHECK(written(read(written(report))) == written(report));
  CHECK(to_json(read(json.dump(2))).dump() == json.dump());
}

TEST_CASE("a world whose folder has another number than its place survives with it") {
  auto report = sample_report();
  report.worlds.back().number = 7;
  const auto json = to_json(report);
  CHECK(json.at("worlds").back().at("number") == 7);
  CHECK_FALSE(json.at("worlds").front().contains("number"));
  CHECK(from_json(json).worlds.back().number == 7);
  auto negative = json;
  negative["worlds"].back()["number"] = -1;
  CHECK_THROWS_AS(from_json(negative), std::invalid_argument);
}

TEST_CASE("GPUs, the variables of ranks, and why a world is unfit for timing survive, and corrupt ones are refused") {
  const auto report = sample_report();
  const auto json = to_json(report);
  const auto back = from_json(json);
  CHECK(back.head.gpus == report.head.gpus);
  CHECK(back.head.machine == report.head.machine);
  CHECK(back.worlds[1].environment == report.worlds[1].environment);
  CHECK(back.worlds[1].unfit_for_timing == "2 ranks share 1 GPU");
  CHECK(back.worlds[1].times == "cupti");
  CHECK(back.worlds[0].times == "events");
  CHECK_FALSE(json["worlds"][0].contains("times"));
  CHECK_FALSE(json["worlds"][0].contains("unfit_for_timing"));
  CHECK(back.worlds[1].nccl == std::vector<std::string>{"rank 1 called NCCL once"});
  CHECK_FALSE(json["worlds"][0].contains("nccl"));
  CHECK_FALSE(json["worlds"][0].contains("environment"));
  CHECK_FALSE(to_json(Report{})["machine"].contains("gpus"));
  auto spoiled = json;
  spoiled["machine"]["gpus"][0].erase("uuid");
  CHECK_THROWS_WITH(from_json(spoiled), ContainsSubstring("\"uuid\""));
  spoiled = json;
  spoiled["machine"]["host"] = 7;
  CHECK_THROWS_WITH(from_json(spoiled), ContainsSubstring("machine"));
  spoiled = json;
  spoiled["worlds"][1]["environment"][0] = "GPU-77";
  CHECK_THROWS_WITH(from_json(spoiled), ContainsSubstring("worlds[1]") && ContainsSubstring("environment"));
}

TEST_CASE("a report without cases survives too") {
  Report report;
  CHECK(written(read(written(report))) == written(report));
}

TEST_CASE("one case per line") {
  const auto text = written(sample_report());
  std::istringstream in(text);
  std::size_t cases = 0;
  for (std::string line; std::getline(in, line);)
    cases += line.starts_with("    {\"id\":\"") && line.find("\"verdict\"") != std::string::npos ? 1U : 0U;
  CHECK(cases == 9);
  CHECK(text.ends_with("}\n"));
}

TEST_CASE("values that are not finite and texts that are no UTF-8 do not break a report") {
  auto report = sample_report();
  report.cases[0].measurements["ratio"] = {std::numeric_limits<double>::infinity(), ""};
  report.cases[0].reasons[0] = "bytes \xff";
  const auto json = ordered_json::parse(written(report));
  CHECK(json["cases"][0]["measurements"]["ratio"]["value"].is_null());
  CHECK(json["cases"][0]["ranks"][0]["reason"] == "bytes \xef\xbf\xbd");
  CHECK(written(read(written(report))).find("null") != std::string::npos);
}

TEST_CASE("a newer schema is a clear error, wherever in the document it is") {
  auto json = to_json(sample_report());
  json["schema_version"] = 2;
  CHECK_THROWS_WITH(from_json(json), ContainsSubstring("schema version 2; this shardproof reads version 1") &&
                                         ContainsSubstring("newer"));
  CHECK_THROWS_WITH(read(json.dump()), ContainsSubstring("schema version 2"));
  json["cases"] = "in another form";
  CHECK_THROWS_WITH(read(json.dump()), ContainsSubstring("schema version 2"));
  json.erase("schema_version");
  json["schema_version"] = 0;
  CHECK_THROWS_WITH(from_json(json), ContainsSubstring("schema version 0"));
  CHECK_THROWS_WITH(from_json(ordered_json::object()), ContainsSubstring("\"schema_version\" is missing"));
}

/// Visits every value of a document with its place; `visit` may spoil it.
template <class Visit>
void every_value(ordered_json& json, const std::string& place, const Visit& visit) {
  if (json.is_object()) {
    for (auto& item : json.items()) every_value(item.value(), place + "/" + item.key(), visit);
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) every_value(json[i], place + "/" + std::to_string(i), visit);
  }
  visit(json, place);
}

TEST_CASE("both readers refuse a value of another type at any place, and in the same words", "[long]") {
  auto json = to_json(sample_report());
  std::size_t refused = 0;
  every_value(json, "", [&](ordered_json& value, const std::string& place) {
    // No reader uses fields that follow from the cases and the demands.
    if (place.starts_with("/summary") || place.starts_with("/skips") || place.starts_with("/requirements")) return;
    if (place.ends_with("/flaky") || (place.starts_with("/cases") && place.ends_with("/waived"))) return;
    const std::string use =
        place.starts_with("/waivers/") ? place.substr(std::min(place.size(), place.find('/', 9))) : "";
    if (use.starts_with("/state") || use.starts_with("/waived") || use.starts_with("/passed")) return;
    auto original = value;
    value = original.is_boolean() ? ordered_json(3) : ordered_json(true);
    std::string one, other;
    try {
      from_json(json);
    } catch (const std::invalid_argument& error) {
      one = error.what();
    }
    try {
      read(json.dump());
    } catch (const std::invalid_argument& error) {
      other = error.what();
    }
    if (one.empty() || other.empty()) FAIL(place << " is accepted: \"" << one << "\", \"" << other << "\"");
    if (place.starts_with("/cases/") && place.find('/', 7) != std::string::npos &&
        one.find("cases[" + place.substr(7, place.find('/', 7) - 7) + "]") == std::string::npos) {
      FAIL(place << " is not named by " << one);
    }
    ++refused;
    value = std::move(original);
  });
  CHECK(refused > 300);
}

TEST_CASE("the reader refuses a missing field at any place") {
  const auto json = to_json(sample_report());
  for (const auto& key : keys(json)) {
    if (key == "summary" || key == "skips" || key == "requirements" || key == "waivers") continue;
    auto without = json;
    without.erase(key);
    CHECK_THROWS_WITH(from_json(without), ContainsSubstring("\"" + key + "\" is missing"));
    CHECK_THROWS_WITH(read(without.dump()), ContainsSubstring("\"" + key + "\" is missing"));
  }
  for (const auto& key : keys(json["cases"][0])) {
    if (key == "flaky" || key == "waived") continue;
    auto without = json;
    without["cases"][0].erase(key);
    CHECK_THROWS_WITH(from_json(without),
                      ContainsSubstring("cases[0]") && ContainsSubstring("\"" + key + "\" is missing"));
    CHECK_THROWS_WITH(read(without.dump()),
                      ContainsSubstring("cases[0]") && ContainsSubstring("\"" + key + "\" is missing"));
  }
}

TEST_CASE("a report of an earlier version of this schema may lack a number of the summary") {
  auto json = to_json(sample_report());
  std::vector<std::string> names;
  for (const auto& [name, count] : json["summary"].items()) names.push_back(name);
  for (const std::string& name : names) {
    INFO(name);
    auto without = json;
    without["summary"].erase(name);
    CHECK(from_json(without).cases.size() == json["cases"].size());
    without["summary"][name] = 99;
    CHECK_THROWS_WITH(from_json(without), ContainsSubstring("report: summary: \"" + name + "\" is 99, but the cases"));
  }
}

TEST_CASE("the reader tells a report that was cut off, wherever the cut is") {
  const std::string whole = to_json(sample_report()).dump();
  for (std::size_t size = 0; size < whole.size(); size += 13) {
    INFO(size);
    CHECK_THROWS_WITH(read(whole.substr(0, size)),
                      fmt::format("report: invalid JSON at byte {}: is the file cut off?", size + 1));
  }
}

TEST_CASE("the reader names a file that is not a report") {
  CHECK_THROWS_WITH(read(""), "report: invalid JSON at byte 1: is the file cut off?");
  CHECK_THROWS_WITH(read("{\"schema_version\": 1"), "report: invalid JSON at byte 21: is the file cut off?");
  CHECK_THROWS_WITH(read("{]"), "report: invalid JSON at byte 2");
  CHECK_THROWS_WITH(read("[]"), ContainsSubstring("report: expected an object"));
  CHECK_THROWS_WITH(read("{\"schema_version\": 1e999}"), ContainsSubstring("out of range"));
  auto json = to_json(sample_report());
  json["cases"][0]["world"] = 9;
  CHECK_THROWS_WITH(from_json(json),
                    ContainsSubstring("cases[0]: \"world\": expected an index into 2 worlds, found 9"));
  CHECK_THROWS_WITH(read(json.dump()), ContainsSubstring("cases[0]: \"world\""));
  json = to_json(sample_report());
  json["cases"][0]["verdict"] = "great";
  CHECK_THROWS_WITH(from_json(json), ContainsSubstring("expected a verdict, found \"great\""));
  json["cases"] = ordered_json::array({1});
  CHECK_THROWS_AS(read(json.dump()), std::invalid_argument);
}

TEST_CASE("the stable part has no volatile field and all others") {
  const auto json = to_json(sample_report());
  const auto stable = stable_part(json);
  CHECK_FALSE(stable.contains("machine"));
  CHECK(keys(stable["run"]) == Names{"seed", "repeat", "partial", "outside_profile", "demands", "unknown_in_waivers"});
  CHECK(keys(stable["worlds"][0]) == Names{"fabric", "device", "ranks", "defects"});
  CHECK_FALSE(stable["cases"][0].contains("duration_ns"));
  CHECK(keys(stable["cases"][0]).size() == keys(json["cases"][0]).size() - 1);
  CHECK(stable["cases"][1]["failures"].size() == json["cases"][1]["failures"].size());
  CHECK(stable["summary"] == json["summary"]);
  CHECK(stable_part(stable) == stable);
}

TEST_CASE("the documentation names every volatile field") {
  std::ifstream file("docs/reports.md");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  REQUIRE_FALSE(text.empty());
  for (const auto place : volatile_fields()) {
    std::string name;
    for (const char c : place) name += c == '*' ? "" : c == '/' ? "." : std::string(1, c);
    for (auto dots = name.find(".."); dots != std::string::npos; dots = name.find("..")) name.replace(dots, 2, "[].");
    CHECK_THAT(text, ContainsSubstring("`" + name + "`"));
  }
}

TEST_CASE("whatever is volatile may change and the stable part does not") {
  const auto report = sample_report();
  auto other = report;
  other.head.run_id = "another";
  other.head.started = "2030-02-01T23:59:59Z";
  other.head.argv = {"elsewhere"};
  other.head.git_commit = "ffff";
  other.head.machine = {{"host", "other"}};
  other.head.warnings.clear();
  other.head.environment.clear();
  other.head.gpus.clear();
  for (auto& world : other.worlds) {
    world.endings.clear();
    world.environment = {{{"CUDA_VISIBLE_DEVICES", "GPU-77"}}};
    world.number += 5;
    world.placement = {};
    world.host_details.clear();
    world.nccl = {"rank 0 called NCCL"};
  }
  for (auto& result : other.cases) {
    result.duration_ns += 17;
    for (auto& failure : result.failures) failure.assertion.monotonic_ns = 1'000'000 - failure.assertion.monotonic_ns;
    // Ranks that fail in another order of time: each rank's own order stays.
    std::stable_sort(result.failures.begin(), result.failures.end(),
                     [](const auto& a, const auto& b) { return a.rank > b.rank; });
  }
  CHECK(to_json(other).dump() != to_json(report).dump());
  CHECK(stable_part(to_json(other)).dump() == stable_part(to_json(report)).dump());

  other.cases[0].assertions += 1;
  CHECK(stable_part(to_json(other)).dump() != stable_part(to_json(report)).dump());
}

TEST_CASE("durations by a real clock are not stable, everything else that was measured is") {
  WorldOnPaper world(1, {"a/one"});
  world.plan.device = "cuda";
  auto json = to_json(world.merged());
  json["cases"][0]["measurements"]["peak"] = {{"value", 7}, {"unit", "bytes"}};
  json["cases"][0]["measurements"]["clocked"] = {{"value", 7}, {"unit", "us"}};
  CHECK(keys(stable_part(json)["cases"][0]["measurements"]) == Names{"forward_ns", "peak"});
  json["worlds"][0]["device"] = "sim";
  CHECK(keys(stable_part(json)["cases"][0]["measurements"]) == Names{"forward_ns", "peak", "clocked"});
}

TEST_CASE("a run's head survives the way through JSON") {
  const ordered_json json = sample_report().head;
  CHECK(ordered_json(json.get<RunHead>()) == json);
  CHECK(json["run"]["argv"].size() == 4);
}

}  // namespace
}  // namespace shardproof::reports
