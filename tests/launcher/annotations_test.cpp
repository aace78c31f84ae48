// `run --annotations` and `export --annotations`: the commands for the CI system, and nothing else that it would take
// for a command.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "launcher/commands/annotations.hpp"
#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

TEST_CASE("annotations for GitHub come last, and no other text of the run is a command") {
  TemporaryDirectory directory;
  const auto out = directory / "run";
  const Said said = run_trouble(out, {"bad/check", "good/stays", "--annotations", "github"});
  INFO(said.out << said.err);
  CHECK(said.end == code(1));
  REQUIRE_THAT(said.out, StartsWith("::stop-commands::"));
  const std::string token = said.out.substr(17, said.out.find('\n') - 17);
  CHECK(token.size() == 32);
  const std::size_t resumed = said.out.find("::" + token + "::\n");
  REQUIRE(resumed != std::string::npos);
  CHECK(resumed > said.out.find("1 passed, 1 failed"));
  const std::string after = said.out.substr(resumed + token.size() + 5);
  CHECK_THAT(after,
             StartsWith("::error file=tests/launcher/trouble/fails.cpp,line=15,title=FAIL bad/check[W=2]::rank 1: "
                        "CHECK( rank.index() == 0 ) with 1 == 0%0Aagain: "));
  CHECK(after.find('\n') + 1 == after.size());

  const Said exported = call({"export", out.string(), "--annotations", "github"});
  CHECK(exported.end == code(0));
  CHECK(exported.out == after);
  CHECK(exported.err.empty());

  // No other run can guess the token.
  const Said again = run_trouble(directory / "again", {"good/stays", "--annotations", "github"});
  CHECK(again.end == code(0));
  CHECK_THAT(again.out, StartsWith("::stop-commands::") && !ContainsSubstring(token) && !ContainsSubstring("::error"));
}

TEST_CASE("annotations for Azure come last") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"bad/check", "--annotations", "azure", "-q"});
  CHECK(said.end == code(1));
  CHECK_THAT(said.out, !ContainsSubstring("::stop-commands::"));
  CHECK_THAT(said.out.substr(said.out.find("1 failed (")),
             ContainsSubstring(
                 " s)\n##vso[task.logissue type=error;sourcepath=tests/launcher/trouble/fails.cpp;linenumber=15;]"
                 "FAIL bad/check[W=2]: rank 1"));
}

TEST_CASE("commands go on after a run that ends with an error") {
  TemporaryDirectory directory;
  const Said said = run_trouble(directory / "run", {"lies/removes_its_world", "--annotations", "github"});
  INFO(said.out << said.err);
  REQUIRE_THAT(said.out, StartsWith("::stop-commands::"));
  const std::string token = said.out.substr(17, said.out.find('\n') - 17);
  CHECK_THAT(said.out, ContainsSubstring("\n::" + token + "::\n"));
}

TEST_CASE("options that need standard output for themselves are refused together") {
  TemporaryDirectory directory;
  const auto complaint = [&](const std::vector<std::string>& words) {
    const Said said = run_trouble(directory / "run", words);
    CHECK(said.end == code(2));
    CHECK(said.out.empty());
    CHECK_FALSE(std::filesystem::exists(directory / "run"));
    return said.err;
  };
  CHECK(complaint({"--annotations", "github", "--junit", "-"}) ==
        "shardproof: --annotations with an export to -: standard output holds one document; give the export a file\n");
  CHECK(
      complaint({"--annotations", "azure", "--message-format", "json"}) ==
      "shardproof: --message-format json with --annotations: standard output holds the events; print annotations with "
      "`shardproof export`\n");
  CHECK_THAT(complaint({"--annotations", "gitlab"}), ContainsSubstring("--annotations: unknown value 'gitlab'") &&
                                                         ContainsSubstring("github") && ContainsSubstring("azure"));
}

TEST_CASE("an error before the first rank is no command for Azure either") {
  TemporaryDirectory directory;
  const auto worker = directory / "worker";
  write_text(worker, "#!/bin/sh\necho '##vso[task.complete result=Failed]' >&2\nexit 3\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const Said said = call({"run", "--worker", worker.string(), "--annotations", "azure"});
  INFO(said.out << said.err);
  CHECK(said.end == code(3));
  CHECK_THAT(said.out + said.err,
             ContainsSubstring("##vso [task.complete") && !ContainsSubstring("##vso[task.complete"));
}

TEST_CASE("annotations name files by their path in the repository") {
  TemporaryDirectory directory;
  const std::filesystem::path root = directory / "repository";
  std::filesystem::create_directories(root / "tests");
  write_text(root / "tests/a.cpp", "");
  write_text(directory / "b.cpp", "");
  CHECK(repository_path(root / "tests/a.cpp", root) == "tests/a.cpp");
  CHECK(repository_path(root / "build/../tests/a.cpp", root) == "tests/a.cpp");
  CHECK(repository_path("tests/a.cpp", root) == "tests/a.cpp");
  CHECK(repository_path(directory / "b.cpp", root) == directory / "b.cpp");
  CHECK(repository_path(root / "tests/none.cpp", root) == root / "tests/none.cpp");
  CHECK(repository_path(root / "tests/a.cpp", "") == root / "tests/a.cpp");
  CHECK(repository_path("other.cpp", root) == "other.cpp");

  // A path relative to another folder, as compilers write it.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(root / "tests");
  const std::string path = repository_path("./a.cpp", root);
  std::filesystem::current_path(before);
  CHECK(path == "tests/a.cpp");
}
