// Reports in the formats of other programs, from `run` and from `export`.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

constexpr const char* options[] = {"--junit", "--ctrf", "--markdown"};

}  // namespace

TEST_CASE("run writes the files that export writes from its report") {
  TemporaryDirectory directory;
  const auto out = directory / "run";
  const auto file = [&](const std::string& name) { return (directory / name).string(); };
  const Said ran = run_trouble(out, {"good/stays", "bad/check", "bad/segfault", "--junit", file("a.xml"), "--ctrf",
                                     file("a.json"), "--markdown", file("a.md")});
  INFO(ran.out << ran.err);
  CHECK(ran.end == code(4));
  CHECK_THAT(text_of(file("a.xml")), StartsWith("<?xml") && ContainsSubstring("name=\"bad/segfault[W=2]\"") &&
                                         ContainsSubstring("<failure type=\"failed\""));
  CHECK(nlohmann::json::parse(text_of(file("a.json"))).at("results").at("summary").at("failed") == 2);
  CHECK_THAT(text_of(file("a.md")), StartsWith("## shardproof: failed\n"));

  for (const auto& report : {out, out / "report.json"}) {
    CHECK(call({"export", report.string(), "--junit", file("b.xml"), "--ctrf", file("b.json"), "--markdown",
                file("b.md")})
              .end == code(0));
    for (const std::string suffix : {"xml", "json", "md"}) {
      CHECK(text_of(file("b." + suffix)) == text_of(file("a." + suffix)));
      std::filesystem::remove(file("b." + suffix));
    }
  }
}

TEST_CASE("an export to - goes to standard output, which then has nothing else") {
  TemporaryDirectory directory;
  const auto out = directory / "run";
  Said said = run_trouble(out, {"good/stays", "--ctrf", "-"});
  CHECK(said.end == code(0));
  CHECK(nlohmann::json::parse(said.out).at("reportFormat") == "CTRF");
  CHECK_THAT(said.err, ContainsSubstring("1 case in 1 world: 1 passed"));
  const std::string printed = said.out;
  said = call({"export", out.string(), "--ctrf", "-"});
  CHECK(said.out == printed);
  CHECK(said.err.empty());
  said = call({"export", out.string(), "--junit", "-", "--markdown", "-"});
  CHECK(said.end == code(2));
  CHECK(said.err ==
        "shardproof: --junit - with --markdown -: standard output holds one document; give one of them a file\n");
}

TEST_CASE("a file that cannot be written is refused before the run begins") {
  TemporaryDirectory directory;
  const std::string out = directory / "run", there = directory / "there.xml";
  write_text(there, "mine");
  const std::pair<std::string, std::string> wrong[] = {
      {there, there + " already exists"},
      {directory / "no/folder.xml", "No such file or directory"},
      {directory.path().string(), "Is a directory"},
      {out + "/report.json", "the run keeps its own files there: write "},
      {out + "/worlds/x.xml", "the run keeps its own files there: write "}};
  for (const char* const option : options) {
    for (const auto& [file, why] : wrong) {
      const Said said = run_trouble(out, {"good/alone", option, file});
      INFO(option << ' ' << file);
      CHECK(said.end == code(2));
      CHECK(said.out.empty());
      CHECK_THAT(said.err,
                 ContainsSubstring("output unusable: ") && ContainsSubstring(option) && ContainsSubstring(why));
      CHECK_FALSE(std::filesystem::exists(out));
    }
  }
  CHECK(text_of(there) == "mine");
  CHECK(run_trouble(out, {"good/alone", "--junit", directory / "x", "--ctrf", directory / "x"}).err ==
        "shardproof: --junit and --ctrf name the same file: give each its own file\n");
}

TEST_CASE("a file in the output directory is replaced with the run") {
  TemporaryDirectory directory;
  const std::string out = directory / "run", file = out + "/junit.xml";
  CHECK(run_trouble(out, {"good/alone", "--junit", file}).end == code(0));
  const std::string before = text_of(file);
  CHECK(run_trouble(out, {"good/stays", "--junit", file}).end == code(2));
  CHECK(text_of(file) == before);
  CHECK(run_trouble(out, {"good/stays", "--junit", file, "--overwrite"}).end == code(0));
  CHECK_THAT(text_of(file), ContainsSubstring("good/stays[W=2]"));
}

TEST_CASE("the word github appends Markdown to the summary of a step") {
  TemporaryDirectory directory;
  const auto summary = directory / "summary.md", out = directory / "run";
  write_text(summary, "# a step\n");
  const Setting step{.environment = {"GITHUB_STEP_SUMMARY=" + summary.string()}};
  CHECK(run_trouble(out, {"good/stays", "--markdown", "github"}, step).end == code(0));
  CHECK(call({"export", out.string(), "--markdown", "github"}, step).end == code(0));
  const std::string text = text_of(summary);
  CHECK_THAT(text, StartsWith("# a step\n## shardproof: passed\n"));
  CHECK(text.find("## shardproof: passed\n", 20) != std::string::npos);

  for (const std::string setting : {"GITHUB_STEP_SUMMARY=", "GITHUB_STEP_SUMMARY=/no/summary"}) {
    const Said said =
        run_trouble(directory / "other", {"good/stays", "--markdown", "github"}, {.environment = {setting}});
    CHECK(said.end == code(2));
    CHECK_THAT(said.err,
               ContainsSubstring(setting.ends_with('=') ? "--markdown github: the variable GITHUB_STEP_SUMMARY "
                                                          "is not set"
                                                        : "output unusable: open /no/summary: No such file"));
    CHECK_FALSE(std::filesystem::exists(directory / "other"));
  }
}

TEST_CASE("export says what is missing, and refuses what is not a report") {
  TemporaryDirectory directory;
  CHECK(call({"export"}).err == "shardproof: export needs its argument: shardproof export REPORT\n");
  Said said = call({"export", directory.path().string()});
  CHECK(said.end == code(2));
  CHECK(said.err ==
        "shardproof: export writes nothing: give at least one of --junit, --ctrf, --markdown with a file, or "
        "--annotations\n");
  write_text(directory / "report.json", "{}");
  said = call({"export", directory.path().string(), "--junit", directory / "x.xml"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("is not a report"));
  CHECK_FALSE(std::filesystem::exists(directory / "x.xml"));
}

TEST_CASE("a disk that is full at the end is unusable output, and the report stays") {
  if (!std::filesystem::exists("/dev/full")) SKIP("no /dev/full here");
  TemporaryDirectory directory;
  const auto out = directory / "run";
  const Said said = run_trouble(out, {"good/stays", "--junit", "/dev/full", "--ctrf", directory / "a.json"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("output unusable: write /dev/full: No space left on device"));
  CHECK(report_of(out).at("cases").size() == 1);
  CHECK(std::filesystem::exists(directory / "a.json"));
}

TEST_CASE("an export without its run directory has no texts of clauses") {
  TemporaryDirectory directory;
  const auto out = directory / "run", alone = directory / "alone.json";
  run_trouble(out, {"bad/check"});
  std::filesystem::copy_file(out / "report.json", alone);
  const Said said = call({"export", alone.string(), "--junit", "-"});
  CHECK(said.end == code(0));
  CHECK_THAT(said.out, ContainsSubstring("FAIL bad/check[W=2]"));
}
