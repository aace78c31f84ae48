// Files of a run directory that are links, pipes or devices, as a rank can make them: no command follows or waits.
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

namespace fs = std::filesystem;

constexpr char link_text[] = "is a symbolic link, and shardproof follows no link in a run directory";

/// Something in the place of a file, which is kept elsewhere.
class Replaced {
 public:
  enum class By { link, pipe, directory };

  Replaced(const fs::path& file, const fs::path& elsewhere, By by) : file_(file), elsewhere_(elsewhere) {
    fs::rename(file, elsewhere);
    if (by == By::link) fs::create_symlink(elsewhere, file);
    else if (by == By::directory) fs::create_directory(file);
    else REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  }
  Replaced(const Replaced&) = delete;
  ~Replaced() {
    fs::remove_all(file_);
    fs::rename(elsewhere_, file_);
  }

 private:
  fs::path file_, elsewhere_;
};

/// A program that runs these commands before it becomes its rank.
std::string wrapper(const fs::path& file, const std::string& commands) {
  write_text(file, "#!/bin/sh\n" + commands + "exec \"$@\"\n");
  fs::permissions(file, fs::perms::owner_all);
  return file.string();
}

}  // namespace

TEST_CASE("merge and explain follow no link in a run directory, and wait for no pipe") {
  const TemporaryDirectory directory;
  const fs::path run = directory / "run", elsewhere = directory / "elsewhere";
  REQUIRE(run_trouble(run, {"good/stays"}).end == code(0));
  for (const char* file : {"run.json", "plan.json", "listing.json", "worlds/0/plan.json", "worlds/0/endings.json",
                           "worlds/0/ranks/rank-1.jsonl", "worlds/0/ranks"}) {
    for (const auto& [by, text] : std::vector<std::pair<Replaced::By, std::string>>{
             {Replaced::By::link, link_text}, {Replaced::By::pipe, "is a pipe"}, {Replaced::By::directory, ""}}) {
      if (fs::is_directory(run / file) && by == Replaced::By::directory) continue;
      const Replaced replaced(run / file, elsewhere, by);
      for (const char* command : {"merge", "explain"}) {
        const Said said = call({command, run.string()});
        INFO(file << ", " << text << ": " << said.out << said.err);
        CHECK(said.end == code(5));
        CHECK_THAT(unwrapped(said.out + said.err), ContainsSubstring(text));
      }
    }
  }
  CHECK(call({"merge", run.string()}).end == code(0));
}

TEST_CASE("a merge follows no link to another world, and says which one it is") {
  const TemporaryDirectory directory;
  const fs::path run = directory / "run";
  REQUIRE(run_trouble(run, {"good/stays"}).end == code(0));
  for (const char* name : {"worlds/0", "worlds"}) {
    const Replaced replaced(run / name, directory / "elsewhere", Replaced::By::link);
    const Said said = call({"merge", run.string()});
    INFO(name << ": " << said.out << said.err);
    CHECK(said.end == code(5));
    CHECK_THAT(said.err, ContainsSubstring(name + std::string(" ") + link_text));
  }
}

TEST_CASE("a flight record that is a link or a pipe is not read, and says so") {
  const TemporaryDirectory directory;
  const fs::path run = directory / "run";
  REQUIRE(run_trouble(run, {"bad/killed"}).end == code(4));
  for (const auto by : {Replaced::By::link, Replaced::By::pipe}) {
    const Replaced replaced(run / "worlds/0/evidence/flight.json", directory / "elsewhere", by);
    CHECK(call({"explain", run.string()}).end == code(5));
    const Said said = call({"merge", run.string()});
    CHECK(said.end == code(4));
    CHECK_THAT(unwrapped(said.out), ContainsSubstring("its flight record") && ContainsSubstring("cannot be read"));
  }
}

TEST_CASE("the report of a run directory is no link, but a user may name one") {
  const TemporaryDirectory directory;
  const fs::path run = directory / "run";
  REQUIRE(run_trouble(run, {"good/stays"}).end == code(0));
  const Replaced replaced(run / "report.json", directory / "report.json", Replaced::By::link);
  const Said said = call({"stable", run.string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring(link_text));
  CHECK(call({"stable", (run / "report.json").string()}).end == code(0));
}

TEST_CASE("a merge replaces a link that is in the place of its report, and writes nothing through it") {
  const TemporaryDirectory directory;
  const fs::path run = directory / "run";
  REQUIRE(run_trouble(run, {"good/stays"}).end == code(0));
  write_text(directory / "precious", "precious");
  fs::remove(run / "report.json");
  for (const char* name : {"report.json", "report.json.new"}) fs::create_symlink(directory / "precious", run / name);
  CHECK(call({"merge", run.string()}).end == code(0));
  CHECK(text_of(directory / "precious") == "precious");
  CHECK(fs::is_regular_file(fs::symlink_status(run / "report.json")));
}

TEST_CASE("a rank that replaces its files by links reads and writes no other file by its launcher's hand") {
  const TemporaryDirectory directory;
  const fs::path run = directory / "run", world = run / "worlds/0";
  write_text(directory / "secret", "a secret\n");
  write_text(directory / "precious", "precious");
  std::string links;
  const auto link = [&](const char* target, const char* file) {
    links += "ln -sf '" + (directory / target).string() + "' '" + (world / file).string() + "'\n";
  };
  for (const char* file : {"logs/rank-1.out", "logs/rank-1.err"}) link("secret", file);
  for (const char* file : {"endings.json", "evidence/flight.json", "evidence/rank-1.stacks", "evidence/rank-1.status"})
    link("precious", file);
  const Said said = run_trouble(run, {"bad/hangs", "--timeout", "1", "--output", "1", "--rank-wrapper",
                                      wrapper(directory / "wrap", links), "--wrap-ranks", "1"});
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  CHECK(text_of(directory / "precious") == "precious");
  CHECK((said.out + said.err + text_of(run / "report.json")).find("a secret") == std::string::npos);
  CHECK(fs::is_regular_file(fs::symlink_status(world / "endings.json")));
  CHECK(fs::is_regular_file(fs::symlink_status(world / "evidence/flight.json")));
}

TEST_CASE("a rank that replaces the folder of its evidence by a link makes its launcher write nothing elsewhere") {
  const TemporaryDirectory directory;
  const fs::path run = directory / "run", evidence = run / "worlds/0/evidence", elsewhere = directory / "elsewhere";
  fs::create_directory(elsewhere);
  const std::string replace =
      "rm -r '" + evidence.string() + "'; ln -s '" + elsewhere.string() + "' '" + evidence.string() + "'\n";
  const Said said = run_trouble(run, {"bad/hangs", "--timeout", "1", "--rank-wrapper",
                                      wrapper(directory / "wrap", replace), "--wrap-ranks", "1"});
  INFO(said.out << said.err);
  CHECK(said.end == code(2));
  CHECK_THAT(unwrapped(said.err),
             ContainsSubstring("output unusable: ") && ContainsSubstring("its folder evidence is a symbolic link"));
  CHECK(fs::is_empty(elsewhere));
}

TEST_CASE("evidence of a crash or of a failed case that a rank has replaced by a link is not shown") {
  const TemporaryDirectory directory;
  const fs::path run = directory / "run";
  write_text(directory / "secret", "a secret\n");
  std::string links;
  for (const char* file :
       {"worlds/0/evidence/rank-1.crash", "worlds/1/evidence/rank-1.crash",
        "worlds/0/evidence/prints.and_fails[W=2].rank-1.err", "worlds/1/evidence/prints.and_fails[W=2].rank-1.err"})
    links += "ln -sf '" + (directory / "secret").string() + "' '" + (run / file).string() + "' 2>/dev/null\n";
  const Said said = run_trouble(run, {"bad/killed", "prints/and_fails", "--rank-wrapper",
                                      wrapper(directory / "wrap", links), "--wrap-ranks", "1"});
  CHECK(said.end == code(4));
  const Said explained = call({"explain", run.string()});
  for (const std::string& text : {said.out + said.err, explained.out + explained.err}) {
    INFO(text);
    CHECK_THAT(text, !ContainsSubstring("a secret"));
    CHECK_THAT(unwrapped(text), ContainsSubstring(link_text));
  }
}

TEST_CASE("no world begins in a link that a rank of an earlier world has made") {
  const TemporaryDirectory directory;
  const fs::path run = directory / "run";
  fs::create_directory(directory / "elsewhere");
  const std::string links =
      "ln -sfn '" + (directory / "elsewhere").string() + "' '" + (run / "worlds/1").string() + "'\n";
  const Said said = run_trouble(run, {"good", "--ranks", "1,2", "--rank-wrapper", wrapper(directory / "wrap", links)});
  INFO(said.out << said.err);
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("worlds/1: it is a symbolic link"));
  CHECK(fs::is_empty(directory / "elsewhere"));
}
